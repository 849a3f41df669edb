//! The forwarded authentication of a real Traefik, by the file that ships, and the fields that its documentation promises.

use super::*;

/// The part of Traefik's configuration that is not about a site: where it listens, and its file.
const STATIC: &str = "entryPoints:\n  web:\n    address: \"{address}\"\n\
    providers:\n  file:\n    filename: \"{home}/traefik.yaml\"\n\
    global:\n  checkNewVersion: false\n  sendAnonymousUsage: false\n";

#[tokio::test]
async fn traefik_asks_before_it_forwards() {
    // Goal: the recipe limits clients of Traefik, who get the gateway's own rejection, and nobody passes while it is away. Method: as with
    // nginx, through the real Traefik.
    let Some(program) = program("SLUICEGATE_TEST_TRAEFIK", "traefik", "version") else {
        return;
    };
    let site = Origin::echo();
    let (gateway, _) = gateway().await;
    let address = free_address();
    let of_site = example(
        "traefik.yaml",
        &[
            ("127.0.0.1:9000", &gateway.address().to_string()),
            ("127.0.0.1:3000", &site.address().to_string()),
        ],
    );
    let files = [
        ("traefik.yaml", of_site),
        (
            "static.yaml",
            STATIC.replace("{address}", &address.to_string()),
        ),
    ];
    let arguments = ["--configFile=static.yaml"];
    let proxy = AskingProxy::start(&program, &arguments, &files, address).await;
    // It accepts before it has read the file of the site.
    eventually("Traefik has a route", async || {
        let mut client = proxy.client_from("127.0.0.34").await;
        (client.send(get("/ready")).await.status == 200).then_some(())
    })
    .await;
    let refused = assert_limits_with(&proxy, &site, LimitFields::Absent).await;
    refused.assert_problem(429);
    assert_eq!(refused.violated(), ["otp"]);
    assert_logged(&gateway, "127.0.0.31").await;
    assert_eq!(answer_without(gateway, &proxy, &site).await, 500);
}

/// A question as Traefik's `forwardAuth` asks it: a GET with the fields of the client's request, and of these five its own,
/// <https://doc.traefik.io/traefik/middlewares/http/forwardauth/>.
fn question(client: &str, method: &str, uri: &str) -> Request {
    get("/")
        .header("Accept", "*/*")
        .header("User-Agent", "curl/8.0")
        .header("X-Forwarded-Method", method)
        .header("X-Forwarded-Proto", "https")
        .header("X-Forwarded-Host", "site.test")
        .header("X-Forwarded-Uri", uri)
        .header("X-Forwarded-For", client)
}

#[tokio::test]
async fn the_fields_that_traefik_documents_are_enough() {
    // Goal: 2xx lets Traefik forward, anything else goes to its client as it is. Method: its questions, in turn for two clients on one
    // connection.
    let (gateway, _) = gateway().await;
    let mut traefik = gateway.client().await;
    let mut passed = 0;
    let refused = loop {
        let other = traefik.send(question("192.0.2.2", "GET", "/")).await;
        assert_eq!(other.status, 204, "{other:?}");
        let answer = traefik
            .send(question("192.0.2.1", "POST", "/auth/sendOTP?n=1"))
            .await;
        if answer.status != 204 {
            break answer;
        }
        assert!(answer.header("ratelimit").is_some(), "{answer:?}");
        passed += 1;
        assert!(passed <= 7, "nothing is refused");
    };
    assert!(passed >= 5, "{passed}");
    refused.assert_problem(429);
    assert_eq!(refused.violated(), ["otp"]);
    let next = traefik
        .send(question("192.0.2.3", "POST", "/auth/sendOTP"))
        .await;
    assert_eq!(next.status, 204, "{next:?}");
    assert_logged(&gateway, "192.0.2.1").await;
}

#[test]
fn the_file_of_traefik_asks_where_the_gateway_listens() {
    // Goal: the two files belong together. Method: the address of one in the other; Traefik's default for forwarded fields stays.
    let (traefik, gateway) = (example("traefik.yaml", &[]), example("gateway.toml", &[]));
    assert!(traefik.contains("address: \"http://127.0.0.1:9000/\""));
    assert!(traefik.contains("trustForwardHeader: false"));
    assert!(gateway.contains("address  = \"127.0.0.1:9000\""));
}
