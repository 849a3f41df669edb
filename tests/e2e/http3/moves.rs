//! Clients whose datagrams come from elsewhere (CVE-2026-40460).

use serde_json::json;

use super::*;

/// Goal: a forged source address does not choose whose counter a request takes. Method: a client uses its limit up, then sends on from an
/// address that it cannot read at, and then a client that has that address finds its own limit untouched.
#[tokio::test]
async fn a_forged_address_is_never_counted() {
    let Some((setup, _, clients)) = with_http3() else {
        return;
    };
    let gateway = setup.rules(&five_an_hour()).start().await;
    let path = "/auth/sendOTP";
    // The answers to forged datagrams reach nobody; what they took is seen in the log.
    let steps = [
        "parallel",
        path,
        "5",
        "forge",
        "127.0.0.9",
        "blind",
        path,
        "3",
    ];
    let found = clients.perform(gateway.address(), &steps).await;
    assert_eq!(found[0], json!([200, 200, 200, 200, 200]));
    let lines = eventually("all requests are in the log", async || {
        Some(gateway.access_log()).filter(|lines| lines.len() == 8)
    })
    .await;
    for (at, line) in lines.iter().enumerate() {
        assert_eq!(line["client"], "127.0.0.1", "{line}");
        assert_eq!(line["status"], if at < 5 { 200 } else { 429 }, "{line}");
    }
}

/// Goal: a client that moves is counted on the address of its handshake, and goes on over a new connection. Method: a client uses its limit
/// up, moves, and is still refused; GOAWAY comes.
#[tokio::test]
async fn a_client_that_moves_keeps_its_counter() {
    let Some((setup, _, clients)) = with_http3() else {
        return;
    };
    let gateway = setup.rules(&five_an_hour()).start().await;
    let path = "/auth/sendOTP";
    let steps = [
        "parallel",
        path,
        "5",
        "move",
        "127.0.0.9",
        "get",
        path,
        "goaway",
    ];
    let found = clients.perform(gateway.address(), &steps).await;
    assert_eq!(found[0], json!([200, 200, 200, 200, 200]));
    assert_eq!(found[2..], [json!(429), json!(true)]);
}

/// Goal: a client behind NAT whose port changes notices nothing. Method: the same, to another port of the same address: no GOAWAY ends the
/// connection, which is served on.
#[tokio::test]
async fn a_port_that_changes_goes_on() {
    let Some((setup, _, clients)) = with_http3() else {
        return;
    };
    let gateway = setup.rules(&five_an_hour()).start().await;
    let steps = [
        "get",
        "/",
        "move",
        "127.0.0.1",
        "get",
        "/",
        "get",
        "/",
        "is_open",
    ];
    let found = clients.perform(gateway.address(), &steps).await;
    let expected = [
        json!(200),
        json!("127.0.0.1"),
        json!(200),
        json!(200),
        json!(true),
    ];
    assert_eq!(found, expected);
}

/// Goal: a client that changes its port with each request gets no more than its limit, over one connection. Method: 200 ports.
#[tokio::test]
async fn many_ports_are_one_client() {
    let Some((setup, _, clients)) = with_http3() else {
        return;
    };
    let gateway = setup.rules(&five_an_hour()).start().await;
    let steps = ["get", "/", "ports", "/auth/sendOTP", "200", "is_open"];
    let found = clients.perform(gateway.address(), &steps).await;
    let statuses = [vec![200; 5], vec![429; 195]].concat();
    assert_eq!(found, [json!(200), json!(statuses), json!(true)]);
}

/// Goal: datagrams in the name of others draw little to them. Method: a client that sends 100 small ones from as many addresses, and how
/// many bytes come there: 16 questions of 1,200 bytes and their repetitions, not a hundred; then another client.
#[tokio::test]
async fn few_datagrams_go_to_addresses_that_others_name() {
    let Some((setup, _, clients)) = with_http3() else {
        return;
    };
    let gateway = setup.rules(&five_an_hour()).start().await;
    let steps = ["get", "/", "scatter", "100"];
    let found = clients.perform(gateway.address(), &steps).await;
    let drawn = found[1].as_u64().unwrap();
    assert!((1..100_000).contains(&drawn), "{drawn}");
    let another = clients.perform(gateway.address(), &["get", "/"]).await;
    assert_eq!((&found[0], &another[0]), (&json!(200), &json!(200)));
}
