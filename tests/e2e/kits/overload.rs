//! `overload.toml`: servers get what they can work on, and exports of the same servers have a limit of their own.

use std::time::Duration;

use futures_util::future::join_all;

use super::kit_with;
use crate::harness::*;

#[tokio::test]
async fn exports_wait_in_turn_and_leave_pages_alone() {
    // Goal: what the comments of the file say: beyond the limit of exports requests wait for half a second, then get 503 with
    // Retry-After and are not charged, and pages do not notice. Method: an origin that takes two seconds for an export; five exports at
    // once, of which the initial limit admits two; pages of another client meanwhile.
    let origin = Origin::answering(|received| {
        let answer: Reply = Answer::new(200).into();
        match received.target.as_str() {
            "/export/year" => Reply::After(Duration::from_secs(2), Box::new(answer)),
            _ => answer,
        }
    });
    let servers = "servers              = [\"10.0.0.7:3000\", \"10.0.0.8:3000\"]";
    let one = format!("servers = [\"{}\"]", origin.address());
    let gateway = kit_with("overload", origin.address(), &[(servers, &one)])
        .start()
        .await;
    let from = |client: &str, target: &str| get(target).forwarded_for(client);
    let exports = join_all((0..5).map(|_| gateway.send(from("192.0.2.1", "/export/year"))));
    let pages = async {
        eventually("the exports are at the origin", async || {
            (origin.count() >= 2).then_some(())
        })
        .await;
        for _ in 0..5 {
            assert_eq!(gateway.send(from("192.0.2.2", "/")).await.status, 200);
        }
    };
    let (exports, ()) = tokio::join!(exports, pages);
    let (served, rejected): (Vec<Response>, Vec<Response>) =
        exports.into_iter().partition(|answer| answer.status == 200);
    assert_eq!((served.len(), rejected.len()), (2, 3));
    for answer in &rejected {
        assert_eq!(answer.status, 503);
        assert!(answer.retry_after() >= 1);
    }
    let next = gateway.send(from("192.0.2.1", "/")).await;
    // Where a window has ended meanwhile, a part of what was charged in it has passed.
    let left = next.remaining("everything");
    assert!((600 - 3..600).contains(&left), "{left}");
}
