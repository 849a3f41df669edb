//! Clients that break the protocol, on the wire.

use serde_json::json;

use super::*;

/// Goal: a rule that is broken ends the connection with the code of its RFC, and no other client notices. Method: bytes on streams that
/// break one rule each; crates/http3/tests/violations.rs has all rules.
#[tokio::test]
async fn broken_rules_end_the_connection_with_their_codes() {
    let Some((setup, _, clients)) = with_http3() else {
        return;
    };
    let gateway = setup.rules(&five_an_hour()).start().await;
    for (kind, hex, code) in [
        // DATA before HEADERS.
        ("request", "000161", 0x105),
        // A frame of HTTP/2.
        ("request", "0800", 0x105),
        // A reference to the dynamic table.
        ("request", "0103000080", 0x200),
        // Another control stream (CVE-2026-42530).
        ("client", "000400", 0x103),
        // A push stream.
        ("client", "0100", 0x103),
    ] {
        let found = clients
            .perform(gateway.address(), &["get", "/", "bytes", kind, hex])
            .await;
        assert_eq!(found, [json!(200), json!(code)], "{hex}");
    }
    let found = clients.perform(gateway.address(), &["get", "/"]).await;
    assert_eq!(found, [json!(200)]);
}

/// Goal: a rule that is broken behind a body ends the connection at once, too. Method: a frame of HTTP/2 while an origin waits for the rest
/// of the body; nothing else comes from the client.
#[tokio::test]
async fn a_rule_that_is_broken_behind_a_body_ends_the_connection() {
    let Some((setup, _, clients)) = with_http3() else {
        return;
    };
    let origin = Origin::echo();
    let gateway = setup
        .origin("app", &origin)
        .rules("[[route]]\npath = \"/*\"\norigin = \"app\"\n")
        .start()
        .await;
    let steps = ["get", "/", "behind", "/", "0800"];
    let found = clients.perform(gateway.address(), &steps).await;
    assert_eq!(found, [json!(200), json!(0x105)]);
}

/// Goal: a stream whose use nobody says is not kept. Method: the half of a type, and a second for it; then a request.
#[tokio::test]
async fn a_stream_without_a_type_is_stopped() {
    let Some((setup, _, clients)) = with_http3() else {
        return;
    };
    let rules = "[server]\nclient_header_timeout = \"1s\"\n".to_owned() + &five_an_hour();
    let gateway = setup.rules(&rules).start().await;
    let steps = ["get", "/", "stopped", "40", "get", "/"];
    let found = clients.perform(gateway.address(), &steps).await;
    assert_eq!(found, [json!(200), json!(0x103), json!(200)]);
}

/// Goal: a listener speaks HTTP/3, and says so, only where that is written. Method: one without it, whose UDP port is free.
#[tokio::test]
async fn http3_is_off_unless_it_is_written() {
    let authority = Authority::new();
    let gateway = with_tls(&authority, &[])
        .rules(&five_an_hour())
        .start()
        .await;
    let mut over_tcp = TlsClients::of(&authority)
        .connect(gateway.address(), "a.test")
        .await;
    assert_eq!(over_tcp.get("/").await.header("alt-svc"), None);
    assert!(std::net::UdpSocket::bind(gateway.address()).is_ok());
}
