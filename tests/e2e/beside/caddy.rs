//! The pre-check request of a real Caddy, by the file that ships.

use super::*;

/// Whether there is a Caddy; continuous integration must have one.
fn has_caddy() -> bool {
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

#[tokio::test]
async fn caddy_asks_before_it_forwards() {
    // Goal: the recipe limits clients of Caddy, who get the gateway's own rejection. Method: as with nginx, through the real Caddy.
    if !has_caddy() {
        return;
    }
    let site = Origin::echo();
    let (gateway, _) = gateway().await;
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
    let caddy = AskingProxy::start("caddy", &arguments, &files, address).await;
    let refused = assert_limits(&caddy, &site).await;
    refused.assert_problem(429);
    assert_eq!(refused.violated(), ["otp"]);
    assert_logged(&gateway, "127.0.0.31").await;
    assert_eq!(answer_without(gateway, &caddy, &site).await, 502);
}
