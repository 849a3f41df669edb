//! `throttled-bursts.toml`: bursts that are slowed before they are refused.

use futures_util::future::join_all;

use super::{assert_refused_by, kit};
use crate::harness::*;

#[tokio::test]
async fn a_burst_passes_then_is_slowed_and_only_then_refused() {
    // Goal: the three phases. Method: sixty requests of a client at once. Those without fields pass at once, and unmarked; those with the
    // fields of the second limit are marked, and all but one are held back, half a second apart; the rest is refused. Another client is
    // in its first phase meanwhile.
    let origin = Origin::named("app");
    let gateway = kit("throttled-bursts", &origin).start().await;
    let client = gateway.h2c().await;
    let burst = (0..60).map(|_| client.send(get("/").forwarded_for("192.0.2.1")));
    let other = client.send(get("/").forwarded_for("192.0.2.2"));
    let (answers, other) = tokio::join!(join_all(burst), other);
    assert_eq!(
        (other.status, other.header("ratelimit-policy")),
        (200, None)
    );

    let (passed, refused): (Vec<Response>, Vec<Response>) =
        answers.into_iter().partition(|answer| answer.status == 200);
    refused
        .iter()
        .for_each(|answer| assert_refused_by("slowed", answer));
    assert!(refused.len() >= 20, "{}", refused.len());
    let (slowed, at_once): (Vec<Response>, Vec<Response>) = passed
        .into_iter()
        .partition(|answer| answer.header("ratelimit-policy").is_some());
    // One more where a window ends in between.
    assert!((20..=21).contains(&at_once.len()), "{}", at_once.len());
    assert!(slowed.len() >= 11, "{}", slowed.len());
    for answer in &slowed {
        assert_eq!(answer.all("ratelimit-policy"), ["\"slowed\";q=2;w=1"]);
    }
    let requests = origin.requests();
    let marked = requests
        .iter()
        .filter(|request| request.header("x-sluicegate-limit").is_some());
    assert_eq!(marked.count(), slowed.len());

    let delays = |lines: Vec<serde_json::Value>| -> Vec<f64> {
        let delay = |line: &serde_json::Value| line["delay_ms"].as_f64().unwrap_or(0.0);
        let mut delays: Vec<f64> = lines.iter().map(delay).collect();
        delays.sort_by(f64::total_cmp);
        delays
    };
    let untouched = delays(gateway.lines_of(&at_once).await);
    assert!(untouched.iter().all(|delay| *delay < 1.0), "{untouched:?}");
    let held = delays(gateway.lines_of(&slowed).await);
    assert!(held[0] < 1.0, "{held:?}");
    for (place, delay) in held.iter().enumerate().take(11) {
        // A place later in the queue is half a second more, less what passed between the requests of the burst.
        assert!(*delay >= 400.0 * place as f64, "{held:?}");
    }
    assert!(held.iter().all(|delay| *delay < 6_500.0), "{held:?}");
}
