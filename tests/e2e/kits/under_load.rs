//! `under-load.toml`: generous in peace, strict while requests wait for the origin.

use std::time::Duration;

use futures_util::future::join_all;

use super::kit_with;
use crate::conditions::{activity, becomes};
use crate::harness::*;

#[tokio::test]
async fn clients_notice_only_while_requests_wait_and_the_heaviest_first() {
    // Goal: what the comments of the file say, and that an attacker who fills the queue limits himself. Method: an origin that takes half a
    // second; a person who asks now and then, a client that asks for much, and sixty requests at once from a third.
    let origin = Origin::answering(|received| {
        let answer: Reply = Answer::new(200).into();
        match received.target.as_str() {
            "/slow" => Reply::After(Duration::from_millis(500), Box::new(answer)),
            _ => answer,
        }
    });
    let shorter = [("keep_active_for = \"30s\"", "keep_active_for = \"1s\"")];
    let gateway = kit_with("under-load", origin.address(), &shorter);
    let gateway = gateway.start().await;
    let from = |client: &str, target: &'static str| get(target).forwarded_for(client);
    for _ in 0..12 {
        assert_eq!(
            gateway.send(from("192.0.2.1", "/")).await.status,
            200,
            "in peace"
        );
    }
    let free = |account: &str| {
        from("192.0.2.9", "/api/a")
            .header("x-account", account)
            .header("x-plan", "free")
    };
    for _ in 0..8 {
        assert_eq!(gateway.send(free("ann")).await.status, 200, "in peace");
    }

    let flood = join_all((0..60).map(|_| gateway.send(from("192.0.2.66", "/slow"))));
    let watched = async {
        becomes(&gateway, "ip-under-load", true).await;
        let heavy = eventually("a client that asks for much is rejected", async || {
            let answer = gateway.send(from("192.0.2.1", "/")).await;
            (answer.status == 429).then_some(answer)
        })
        .await;
        heavy.assert_problem(429);
        assert_eq!(heavy.violated(), ["ip-under-load"]);
        let page = from("192.0.2.66", "/").header("accept", "text/html");
        let page = gateway.send(page).await;
        assert_eq!(page.status, 429);
        assert!(page.text().contains("data-token"), "{}", page.text());
        assert_eq!(
            gateway.send(from("192.0.2.2", "/")).await.status,
            200,
            "a person"
        );
        let refused = gateway.send(free("ann")).await;
        assert_eq!(
            (refused.status, refused.violated()),
            (429, vec!["api".to_owned()])
        );
    };
    let (answers, ()) = tokio::join!(flood, watched);
    assert!(
        answers.iter().all(|answer| answer.status == 200),
        "they waited"
    );
    // The queue is empty, but p99 is that of the last ten seconds: more fast answers than 99 for each that was slow end it before.
    eventually("the limit is not active", async || {
        let writer = |n: u64, buffer: &mut Vec<u8>| {
            let head = format!(
                "GET /api/b HTTP/1.1\r\nHost: a.test\r\nX-Account: {n}\r\nX-Forwarded-For: 198.51.{}.{}\r\n\r\n",
                n / 256 % 256,
                n % 256
            );
            buffer.extend_from_slice(head.as_bytes());
        };
        Flood::of(3_000, writer).connections(4).run(gateway.address()).await;
        (activity(&gateway, "ip-under-load").await == 0.0).then_some(())
    })
    .await;
    assert_eq!(gateway.send(from("192.0.2.1", "/")).await.status, 200);
}
