//! Requests and answers.

use serde_json::json;

use super::*;

/// Goal: requests by HTTP/3 reach origins and come back whole, by either client; responses over TCP say where HTTP/3 is. Method: small and
/// large bodies that an origin echoes, many requests at once, one with trailers; the log has the protocol.
#[tokio::test]
async fn requests_are_served() {
    let Some((setup, authority, clients)) = with_http3() else {
        return;
    };
    let origin =
        Origin::answering(|received| Reply::from(Answer::new(200).body(received.body.clone())));
    let gateway = setup
        .origin("app", &origin)
        .rules("[[route]]\npath = \"/*\"\norigin = \"app\"\n")
        .start()
        .await;
    let address = gateway.address();
    let megabytes = 10_000_000;
    assert_eq!(clients.curl(address, "/", None).await, (200, 0));
    let echoed = clients.curl(address, "/", Some(megabytes)).await;
    assert_eq!(echoed, (200, megabytes as u64));
    let steps = [
        "get", "/a?b=c", "post", "/", "3000000", "parallel", "/", "100", "trailers", "/",
    ];
    let found = clients.perform(address, &steps).await;
    let hundred = vec![200; 100];
    let expected = [
        json!(200),
        json!([200, 3_000_000]),
        json!(hundred),
        json!(200),
    ];
    assert_eq!(found, expected);
    let lines = eventually("all requests are in the log", async || {
        Some(gateway.access_log()).filter(|lines| lines.len() == 105)
    })
    .await;
    for line in &lines {
        assert_eq!(line["protocol"], "HTTP/3", "{line}");
        assert_eq!(line["tls"], "TLSv1.3", "{line}");
        assert_eq!(line["sni"], "a.test", "{line}");
    }
    let mut over_tcp = TlsClients::of(&authority).connect(address, "a.test").await;
    let answer = over_tcp.get("/").await;
    let service = format!("h3=\":{}\"; ma=3600", address.port());
    assert_eq!(answer.header("alt-svc"), Some(&*service));
}

/// Goal: a limit by address is one for all protocols. Method: its five requests over HTTP/3 and TCP together, then one more over each.
#[tokio::test]
async fn limits_are_those_of_other_protocols() {
    let Some((setup, authority, clients)) = with_http3() else {
        return;
    };
    let gateway = setup.rules(&five_an_hour()).start().await;
    let path = "/auth/sendOTP";
    let found = clients
        .perform(gateway.address(), &["parallel", path, "3"])
        .await;
    assert_eq!(found, [json!([200, 200, 200])]);
    let mut over_tcp = TlsClients::of(&authority)
        .connect(gateway.address(), "a.test")
        .await;
    for status in [200, 200, 429] {
        assert_eq!(over_tcp.get(path).await.status, status);
    }
    assert_eq!(clients.curl(gateway.address(), path, None).await.0, 429);
    let found = clients
        .perform(gateway.address(), &["get", path, "get", "/"])
        .await;
    assert_eq!(found, [json!(429), json!(200)]);
}

/// Goal: a client may send ahead what memory is reserved for. Method: the bytes that it is granted before it has a body, and behind one.
#[tokio::test]
async fn bytes_are_granted_with_the_first_body() {
    let Some((setup, _, clients)) = with_http3() else {
        return;
    };
    let origin =
        Origin::answering(|received| Reply::from(Answer::new(200).body(received.body.clone())));
    let gateway = setup
        .origin("app", &origin)
        .rules("[[route]]\npath = \"/*\"\norigin = \"app\"\n")
        .start()
        .await;
    let steps = ["get", "/", "window", "post", "/", "300000", "window"];
    let found = clients.perform(gateway.address(), &steps).await;
    assert_eq!(found[..2], [json!(200), json!(64 * 1024)]);
    assert_eq!(found[2], json!([200, 300_000]));
    assert!(found[3].as_u64().unwrap() >= 256 * 1024, "{found:?}");
}

/// Goal: requests that are given up leave nothing, and the connection goes on. Method: some cancelled, then one that is served; no request
/// stays in flight.
#[tokio::test]
async fn cancelled_requests_leave_nothing() {
    let Some((setup, _, clients)) = with_http3() else {
        return;
    };
    let origin = Origin::echo();
    let gateway = setup
        .origin("app", &origin)
        .rules("[[route]]\npath = \"/*\"\norigin = \"app\"\n")
        .start()
        .await;
    let found = clients
        .perform(gateway.address(), &["cancel", "/", "20", "get", "/"])
        .await;
    assert_eq!(found, [json!(20), json!(200)]);
    eventually("no connection and no stream is left", async || {
        let metrics = gateway.metrics().await;
        let held = metrics.sum("sluicegate_http2_streams", &[]);
        (held == 0.0).then_some(())
    })
    .await;
}
