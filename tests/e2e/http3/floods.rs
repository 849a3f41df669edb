//! Clients that make work for nothing.

use std::net::UdpSocket;
use std::time::Duration;

use serde_json::json;

use super::*;

/// The code of RFC 9114 §8.1 for a client that makes too much work.
const EXCESSIVE_LOAD: u32 = 0x107;

/// Goal: requests that are given up at once, and frames that ask for nothing, end the connection; others go on. Method: a thousand resets
/// (the HTTP/3 kin of CVE-2023-44487), and 25,000 frames of a kind that nobody knows, and as many of a priority, where 10,000 are allowed.
#[tokio::test]
async fn work_for_nothing_ends_the_connection() {
    let Some((setup, _, clients)) = with_http3() else {
        return;
    };
    let origin = Origin::answering(|_| Reply::Hang);
    let gateway = setup
        .origin("app", &origin)
        .rules(&format!(
            "{}[[route]]\npath = \"/slow\"\norigin = \"app\"\n",
            five_an_hour()
        ))
        .start()
        .await;
    let address = gateway.address();
    for steps in [
        ["reset", "/slow", "1000"],
        ["control", "2100", "25000"],
        // PRIORITY_UPDATE of the request 0, RFC 9218 §7.2.
        ["control", "800f07000400753d31", "25000"],
    ] {
        let steps = [&["get", "/"][..], &steps].concat();
        let found = clients.perform(address, &steps).await;
        assert_eq!(found, [json!(200), json!(EXCESSIVE_LOAD)], "{steps:?}");
    }
    let found = clients.perform(address, &["get", "/"]).await;
    assert_eq!(found, [json!(200)]);
    let metrics = gateway.metrics().await;
    assert_eq!(metrics.sum("sluicegate_http2_streams", &[]), 0.0);
}

/// Goal: a list of fields that is too long is answered, and takes no memory. Method: one of 100 KB, where 16 KiB are allowed; then a
/// request on the same connection.
#[tokio::test]
async fn a_head_that_is_too_large_is_answered() {
    let Some((setup, _, clients)) = with_http3() else {
        return;
    };
    let rules = "[server]\nmax_header_bytes = \"16KiB\"\n".to_owned() + &five_an_hour();
    let gateway = setup.rules(&rules).start().await;
    let steps = ["large", "/", "100000", "get", "/"];
    let found = clients.perform(gateway.address(), &steps).await;
    assert_eq!(found, [json!(431), json!(200)]);
}

/// Goal: handshakes that are never completed, whose sources anyone can forge, take a bounded place, and clients of TCP notice nothing.
/// Method: the first datagrams of 3,000 clients from 250 addresses that then say no more; a client over TCP meanwhile, then one of HTTP/3.
#[tokio::test]
async fn first_datagrams_of_nobody_are_bounded() {
    let Some((setup, authority, clients)) = with_http3() else {
        return;
    };
    let gateway = setup.rules(&route("/*", &[], ANSWERED)).start().await;
    let address = gateway.address();
    let mut over_tcp = TlsClients::of(&authority).connect(address, "a.test").await;
    let before = gateway.resident_bytes();
    let flood = tokio::task::spawn_blocking(move || {
        for number in 0..3000_u32 {
            let source = format!("127.9.0.{}:0", 1 + number % 250);
            let socket = UdpSocket::bind(source).unwrap();
            let datagram = Http3Client::first_datagram(&authority, address);
            socket.send_to(&datagram, address).unwrap();
        }
    });
    for _ in 0..20 {
        assert_eq!(over_tcp.get("/").await.status, 200);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    flood.await.unwrap();
    assert_eq!(over_tcp.get("/").await.status, 200);
    let found = clients.perform(address, &["get", "/"]).await;
    assert_eq!(found, [json!(200)]);
    let grown = gateway.resident_bytes().saturating_sub(before);
    assert!(grown < 100 << 20, "{grown}");
}

/// Goal: a client that grants an answer byte by byte makes no piece of each. Method: a page of 100 KB, 1,000 grants of a byte, and the
/// number of pieces that come; then a grant for the rest.
#[tokio::test]
async fn credit_for_an_answer_gathers() {
    let Some((setup, _, clients)) = with_http3() else {
        return;
    };
    let origin = Origin::answering(|_| Answer::new(200).body("x".repeat(100_000)).into());
    let gateway = setup
        .origin("app", &origin)
        .rules("[[route]]\npath = \"/*\"\norigin = \"app\"\n")
        .start()
        .await;
    let steps = ["dribble", "/", "1000"];
    let found = clients.perform(gateway.address(), &steps).await;
    assert_eq!(found, [json!([true, 200, 100_000])]);
}
