//! A gateway that starts while the store is away takes the share of the fleet, not the whole.

use std::fs;

use super::outage::{acquainted, rules, short};
use super::*;

const NINE: &str = "rates = [\"9 per 1h\"]";

/// How many of six requests to each gateway pass.
async fn passed_at_each(fleet: &Fleet) -> Vec<usize> {
    let mut passed = Vec::new();
    for node in &fleet.nodes {
        let mut client = node.client().await;
        let mut statuses = Vec::new();
        for _ in 0..6 {
            statuses.push(client.get("/a").await.status);
        }
        passed.push(count(&statuses, 200));
    }
    passed
}

#[tokio::test]
async fn the_number_of_gateways_outlasts_a_restart_without_the_store() {
    // Goal: a restart during an outage makes no gateway admit the whole limit. Method: three gateways that know of each other; the store is
    // killed, then each gateway, which starts again with its state directory.
    let mut redis = Redis::start().await;
    let origin = Origin::echo();
    let store = short(&redis);
    let lines = format!("[server]\nstate_dir = \"state\"\n[store]\n{store}\n");
    let mut nodes = Vec::new();
    for _ in 0..3 {
        nodes.push(Gateway::before(&origin, &format!("{lines}{}", rules(NINE))).await);
    }
    let mut fleet = Fleet { nodes, store };
    acquainted(&fleet).await;
    for node in &fleet.nodes {
        let file = node.config_path().with_file_name("state").join("gateways");
        eventually("the number is kept", async || {
            let kept = fs::read_to_string(&file).ok()?;
            (kept == "3\n").then_some(())
        })
        .await;
    }
    redis.kill();
    for node in &mut fleet.nodes {
        node.kill();
        node.start_again().await;
        assert_eq!(node.status().await["store"]["nodes"], 3);
    }
    assert_eq!(passed_at_each(&fleet).await, [3; 3]);
}

#[tokio::test]
async fn a_cold_gateway_begins_with_the_number_of_its_file() {
    // Goal: a fleet that has never reached its store admits one limit together. Method: gateways with a number in their file, and a store
    // that is not there.
    let mut redis = Redis::start().await;
    let origin = Origin::echo();
    redis.kill();
    let store = format!("{}\ngateways = 3", short(&redis));
    let mut nodes = Vec::new();
    for _ in 0..2 {
        let text = format!("[store]\n{store}\n{}", rules(NINE));
        nodes.push(Gateway::before(&origin, &text).await);
    }
    let fleet = Fleet { nodes, store };
    assert_eq!(passed_at_each(&fleet).await, [3; 2]);
}
