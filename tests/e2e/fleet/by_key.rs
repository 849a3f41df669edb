//! `align = "key"` in a fleet: one offset for a client, at whichever gateway it asks.

use std::time::UNIX_EPOCH;

use super::shared::{fleet_of, shared};
use super::*;

const HOUR: u64 = 3_600;
const BY_KEY: &str = "rates = [\"5 per 1h\"]\nalgorithm = \"fixed-window\"\nalign = \"key\"";

fn trusting(rules: &str) -> String {
    format!("[client]\ntrusted_proxies = [\"127.0.0.1\"]\n{rules}")
}

/// The second of the hour in which the window of a client ends at each gateway.
async fn ends(fleet: &Fleet, target: &str, client: &str) -> Vec<u64> {
    let mut ends = Vec::new();
    for node in &fleet.nodes {
        let answer = node.send(get(target).forwarded_for(client)).await;
        let now = UNIX_EPOCH.elapsed().unwrap().as_secs();
        ends.push((now + answer.seconds_to_more("a")) % HOUR);
    }
    ends
}

/// Returns whether all are the same second of the hour, but for the time between two readings of clocks.
fn are_same(ends: &[u64]) -> bool {
    ends.iter().all(|end| {
        let apart = end.abs_diff(ends[0]);
        apart.min(HOUR - apart) <= 2
    })
}

#[tokio::test]
async fn the_window_of_a_client_ends_at_every_gateway_at_once() {
    // Goal: the offset is the store's, whatever decides. Method: gateways, each with a seed of its own, that count together in both ways: a
    // client gets the same end from each, several clients different ones, and together they get one limit.
    let (redis, origin) = (Redis::start().await, Origin::echo());
    for (name, limit) in [
        ("shared", shared("a", BY_KEY)),
        ("strict", strict("a", BY_KEY)),
    ] {
        let rules = trusting(&(limit + &route(&format!("/{name}"), "\"a\"")));
        let fleet = fleet_of(3, &origin, &redis.address().to_string(), &rules).await;
        let target = format!("/{name}");
        let mut all = Vec::new();
        for number in 1..=12 {
            let client = format!("198.51.100.{number}");
            let told = ends(&fleet, &target, &client).await;
            assert!(are_same(&told), "{name}, {client}: {told:?}");
            all.push(told[0]);
        }
        all.sort_unstable();
        all.dedup();
        assert!(all.len() > 8, "{name}: {all:?}");
    }
}

#[tokio::test]
async fn gateways_without_their_store_end_windows_where_they_did() {
    // Goal: an outage moves no window. Method: the ends of several clients while the store decides, and by each gateway's share after it
    // was stopped.
    let (mut redis, origin) = (Redis::start().await, Origin::echo());
    let rules = trusting(&(strict("a", BY_KEY) + &route("/a", "\"a\"")));
    let fleet = fleet_of(2, &origin, &redis.address().to_string(), &rules).await;
    let clients: Vec<String> = (1..=6)
        .map(|number| format!("198.51.100.{number}"))
        .collect();
    let mut before = Vec::new();
    for client in &clients {
        before.push(ends(&fleet, "/a", client).await);
    }
    redis.kill();
    for (client, before) in clients.iter().zip(before) {
        let after = ends(&fleet, "/a", client).await;
        assert!(
            are_same(&[before.clone(), after.clone()].concat()),
            "{client}: {before:?} {after:?}"
        );
    }
    assert!(fleet.decided("fallback").await > 0.0);
}
