//! What Traefik sends: no package of it is at hand, so its fields are those of its documentation.

use super::*;

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
