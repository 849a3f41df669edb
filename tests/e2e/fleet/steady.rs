//! The case that the fleet was made for: one client, evenly over three gateways, far beyond its limit, for three windows.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::time::{MissedTickBehavior, interval};

use super::shared::shared;
use super::*;

const RATES: &str = "rates = [\"100 per 10s\"]";
const RUN: Duration = Duration::from_secs(30);

/// Asks one gateway 333 times a second, for as long as the run lasts, or as often as a busy machine lets it; how many passed.
async fn ask(node: &Gateway, path: &str) -> usize {
    let mut client = node.client().await;
    let mut turn = interval(Duration::from_millis(3));
    turn.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let (began, mut passed) = (Instant::now(), 0);
    while began.elapsed() < RUN {
        turn.tick().await;
        match client.get(path).await.status {
            200 => passed += 1,
            status => assert_eq!(status, 429),
        }
    }
    passed
}

/// When the server admitted what is in its logs, in milliseconds by its own clock.
fn moments(redis: &Redis) -> Vec<u64> {
    let logs = redis.command(&["KEYS", "sluicegate{*:strict:log"]);
    let logs = logs.as_array().unwrap().iter().filter_map(Value::as_str);
    let entries = logs.flat_map(|log| {
        let entries = redis.command(&["LRANGE", log, "0", "-1"]);
        entries.as_array().unwrap().clone()
    });
    entries
        .map(|entry| entry.as_str().unwrap().parse().unwrap())
        .collect()
}

#[tokio::test]
async fn a_client_that_is_spread_evenly_for_thirty_seconds_gets_one_limit() {
    // Goal: with `shared-strict` never more pass in any 10 s than one gateway would let pass, by the store's clock, and no fewer over
    // the run; with `shared` no more than is documented. Method: 100 per 10s of each kind, three gateways, 1,000 requests a second of
    // each for 30 s; the store's own log, looked at twice a second, tells when each was admitted.
    let (redis, origin) = (Redis::start().await, Origin::echo());
    let rules = [
        strict("strict", &format!("{RATES}\nalgorithm = \"exact\"")),
        shared("shared", RATES),
        route("/strict", "\"strict\""),
        route("/shared", "\"shared\""),
    ];
    let fleet = Fleet::three(&origin, &redis, &rules.concat()).await;
    fleet
        .everywhere("the gateways know of each other", |store, _| {
            store["nodes"] == 3 && store["seed_known"] == true
        })
        .await;
    let all = |path: &'static str| {
        let asked = fleet.nodes.iter().map(move |node| ask(node, path));
        futures_util::future::join_all(asked)
    };
    let watched = async {
        let (began, mut seen) = (Instant::now(), Vec::new());
        // A log holds the latest hundred, and no more than that come in 10 s.
        at_a_pace(Duration::from_millis(500), async || {
            seen.push(moments(&redis));
            (began.elapsed() >= RUN).then_some(())
        })
        .await;
        seen
    };
    let began = Instant::now();
    let (strict, exchanged, mut seen) =
        futures_util::join!(all("/strict"), all("/shared"), watched);
    let windows = began.elapsed().as_secs() as usize / 10 + 1;
    let (strict, exchanged): (usize, usize) = (strict.iter().sum(), exchanged.iter().sum());
    assert_eq!(strict + exchanged, origin.count());
    assert_eq!(fleet.decided("fallback").await, 0.0);

    seen.push(moments(&redis));
    // Several may be admitted in one millisecond: as many as some log has.
    let mut admitted: BTreeMap<u64, usize> = BTreeMap::new();
    for log in &seen {
        let mut times: BTreeMap<u64, usize> = BTreeMap::new();
        log.iter()
            .for_each(|moment| *times.entry(*moment).or_default() += 1);
        for (moment, times) in times {
            let most = admitted.entry(moment).or_default();
            *most = times.max(*most);
        }
    }
    let admitted: Vec<u64> = admitted
        .into_iter()
        .flat_map(|(moment, times)| std::iter::repeat_n(moment, times))
        .collect();
    assert_eq!(admitted.len(), strict, "every admission is in the log");
    for window in admitted.windows(101) {
        let span = window[100] - window[0];
        assert!(span >= 10_000, "101 units in {span} ms");
    }
    // Whoever asks all the time gets every window whole; only a stall of many seconds could cost one.
    assert!((300..=100 * windows).contains(&strict), "{strict} passed");
    // None of three gateways admits more than the limit alone: in each window two limits beyond it are documented.
    assert!(
        (300..=300 * windows).contains(&exchanged),
        "{exchanged} passed"
    );
}
