//! `several-limits.toml` and `behind-a-cdn.toml`: what the other kits take for granted.

use super::{kit, passes_before};
use crate::harness::*;

#[tokio::test]
async fn several_limits_and_rates_hold_together() {
    // Goal: the short rate of a client, a counter for each page and for each id in a path, and an answer of the gateway's own. Method: one
    // request after another on each route; an id in the writings that are one, and in those that are none.
    let origin = Origin::echo();
    let gateway = kit("several-limits", &origin).start().await;
    let passed = passes_before(&gateway, "per-client", 7, |_| post("/auth/sendOTP")).await;
    assert!((5..=8).contains(&passed), "{passed}");
    let passed = passes_before(&gateway, "per-page", 61, |_| get("/api/busy")).await;
    assert!((60..=62).contains(&passed), "{passed}");
    assert_eq!(gateway.get("/api/quiet").await.status, 200);
    for id in [
        "07",
        "+7",
        "7.0",
        "7_0",
        "%EF%BC%97",
        "0x7",
        "-0",
        "9007199254740993",
    ] {
        let answer = gateway.get(&format!("/api/customers/{id}")).await;
        answer.assert_problem(400);
    }
    assert_eq!(
        gateway
            .get("/api/customers/7")
            .await
            .remaining("per-customer"),
        29
    );
    let id = "f81d4fae-7dec-11d0-a765-00a0c91e6bf6";
    let writings = [
        id.to_owned(),
        id.to_ascii_uppercase(),
        id.replace('-', ""),
        format!("%7B{id}%7D"),
        format!("urn:uuid:{id}"),
    ];
    for (n, writing) in writings.iter().enumerate() {
        let answer = gateway.get(&format!("/api/documents/{writing}")).await;
        assert_eq!(answer.remaining("per-document"), 29 - n as u64, "{writing}");
    }
    let answer = gateway.get("/api/documents/1-1-1-1-1").await;
    answer.assert_problem(400);
    assert_eq!(gateway.get("/").await.status, 404);
}

#[tokio::test]
async fn only_the_cdn_is_trusted() {
    // Goal: the address that the CDN names is the client, by its network. Method: clients of one /24 by way of the CDN; another network;
    // then somebody who connects past the CDN and names a new address with every request.
    let origin = Origin::named("shop");
    let gateway = kit("behind-a-cdn", &origin).start().await;
    let login = |client: &str| post("/login").header("cf-connecting-ip", client);
    let passed = passes_before(&gateway, "login", 11, |n| login(&format!("192.0.2.{n}"))).await;
    assert!((10..=12).contains(&passed), "{passed}");
    let other = gateway.send(login("198.51.100.1")).await;
    assert_eq!(other.status, 200);
    let mut past = gateway.client_from("127.0.0.9").await;
    let mut refused = 0;
    for n in 0..30 {
        let answer = past.send(login(&format!("203.0.{n}.1"))).await;
        refused += usize::from(answer.status == 429);
    }
    assert!((18..=20).contains(&refused), "{refused}");
}
