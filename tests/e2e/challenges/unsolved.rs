//! Who never solves, who never gets a page, and what the operator sees.

use std::io::Write;
use std::time::Duration;

use super::{BROWSER, Challenge, PAGES, exceed, visit};
use crate::harness::*;

#[tokio::test]
async fn who_never_solves_is_rejected_and_banned() {
    // Goal: pages are counted, grow harder as their limit fills, and end with a ban. Method: an address that asks for six pages of five,
    // and sends a right solution of an earlier one during the ban.
    let rules = PAGES.replace(
        "[limit.unsolved]",
        "[limit.unsolved]\nban = { for = \"1h\" }",
    );
    let gateway = Gateway::start(&rules).await;
    let mut client = gateway.client().await;
    exceed(&mut client, "192.0.2.1").await;
    let mut bits = Vec::new();
    for _ in 0..5 {
        bits.push(Challenge::of(&client.send(visit("/", "192.0.2.1")).await).bits);
    }
    assert_eq!(bits, [8, 9, 10, 11, 12]);
    let rejected = client.send(visit("/", "192.0.2.1")).await;
    rejected.assert_problem(429);
    assert!(rejected.retry_after() > 3_000);
    // What is no browser was and is rejected by the limit itself.
    client
        .send(get("/").forwarded_for("192.0.2.1"))
        .await
        .assert_problem(429);
    let lines = gateway.access_lines(10).await;
    let said: Vec<_> = lines[3..]
        .iter()
        .map(|line| {
            (
                line["outcome"].as_str().unwrap(),
                line["limit"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(said[..5], [("challenged", "pages"); 5]);
    assert_eq!(
        said[5..],
        [("rate-limited", "unsolved"), ("rate-limited", "pages")]
    );
    let metrics = gateway.metrics().await;
    let count = |name: &str, limit: &str| {
        metrics.sum(
            &format!("sluicegate_limit_{name}_total"),
            &[("limit", limit)],
        )
    };
    assert_eq!(
        (count("challenged", "pages"), count("refused", "pages")),
        (5.0, 1.0)
    );
    assert_eq!(
        (count("admitted", "unsolved"), count("refused", "unsolved")),
        (5.0, 1.0)
    );
}

#[tokio::test]
async fn programs_and_what_pages_load_get_a_rejection() {
    // Goal: nothing that is no document opened by a person ever gets a page. Method: methods, JSON, gRPC, images, frames, scripts,
    // and pages that are loaded ahead; and a request that another limit rejects too, which no solution would let through.
    let rules = PAGES.replace("limits = [\"pages\"]", "limits = [\"pages\", \"all\"]");
    let rules =
        format!("{rules}[limit.all]\nkey = [\"client.ip\", \"path\"]\nrates = [\"3 per 1h\"]\n");
    let gateway = Gateway::start(&rules).await;
    let mut client = gateway.client().await;
    exceed(&mut client, "192.0.2.1").await;
    let ask = |request: Request| request.forwarded_for("192.0.2.1");
    let document = || get("/a").header("accept", BROWSER);
    for request in [
        get("/a"),
        get("/a").header("accept", "*/*"),
        get("/a").header("accept", "application/json"),
        get("/a").header("accept", "application/json, text/html;q=0.9"),
        document().by("POST"),
        document().by("PUT"),
        document().header("sec-fetch-dest", "image"),
        document().header("sec-fetch-dest", "iframe"),
        document().header("sec-fetch-dest", "empty"),
        document().header("sec-purpose", "prefetch;prerender"),
        document().header("x-requested-with", "XMLHttpRequest"),
    ] {
        let told = format!("{request:?}");
        let rejected = client.send(ask(request)).await;
        assert_eq!(rejected.status, 429, "{told}");
        assert_eq!(
            rejected.header("content-type"),
            Some("application/problem+json"),
            "{told}"
        );
        assert_eq!(rejected.header("set-cookie"), None, "{told}");
    }
    let grpc = post("/a")
        .header("content-type", "application/grpc")
        .header("accept", BROWSER);
    assert_eq!(
        client.send(ask(grpc)).await.header("grpc-status"),
        Some("8")
    );
    assert_eq!(
        client
            .send(ask(document()).by("HEAD"))
            .await
            .header("content-type"),
        Some("application/problem+json")
    );
    let page = client.send(ask(document())).await;
    let cookie = Challenge::of(&page).solved();
    // "/" has no room in the other limit either.
    client
        .send(visit("/", "192.0.2.1"))
        .await
        .assert_problem(429);
    client
        .send(visit("/", "192.0.2.1").header("cookie", &cookie))
        .await
        .assert_problem(429);
    assert_eq!(
        client
            .send(ask(document()).header("cookie", &cookie))
            .await
            .status,
        200
    );
}

#[tokio::test]
async fn a_million_unsolved_clients_leave_nothing_behind() {
    // Goal: pages cost no memory: nothing is stored of a challenge before its solution comes. Method: a site over its limit, a million
    // addresses that get a page each; the keys in all tables afterwards, and the memory of the process.
    const CLIENTS: u64 = 1_000_000;
    let rules = PAGES
        .replace("key = \"client.ip\"", "key = \"global\"")
        .replace("5 per 1h", "1048575 per 1h");
    let gateway = Setup::new()
        .without_access_log()
        .rules(&rules)
        .start()
        .await;
    exceed(&mut gateway.client().await, "192.0.2.1").await;
    let pages = |clients: u64| {
        Flood::of(clients, move |n, buffer| {
            let [_, a, b, c] = u32::try_from(n).unwrap().to_be_bytes();
            write!(
                buffer,
                "GET / HTTP/1.1\r\nHost: gateway.test\r\nAccept: text/html\r\nX-Forwarded-For: 10.{a}.{b}.{c}\r\n\r\n"
            )
            .unwrap();
        })
        .within(Duration::from_secs(300))
    };
    pages(10_000).run(gateway.address()).await;
    let before = gateway.resident_bytes();
    let report = pages(CLIENTS).run(gateway.address()).await;
    assert_eq!(report.count(429), CLIENTS as usize);
    let metrics = gateway.metrics().await;
    let of = |name: &str, limit: &str| {
        metrics.sum(&format!("sluicegate_limit_{name}"), &[("limit", limit)])
    };
    assert_eq!(of("challenged_total", "pages"), (CLIENTS + 10_000) as f64);
    assert_eq!((of("keys", "pages"), of("keys", "unsolved")), (1.0, 1.0));
    let grown = gateway.resident_bytes().saturating_sub(before);
    assert!(grown < 8 << 20, "{grown} bytes for a million pages");
}
