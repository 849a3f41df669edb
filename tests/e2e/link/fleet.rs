//! Gateways know each other through the store: how many they are, and what they hash keys under.

use serde_json::json;
use sluicegate_redis_link::HashSeed;

use super::Way;
use crate::harness::{Redis, eventually};

async fn all_count(ways: &[&Way], expected: u32) {
    eventually(&format!("each counts {expected}"), async || {
        let agree = ways.iter().all(|way| way.link.nodes().get() == expected);
        agree.then_some(())
    })
    .await;
}

/// Goal: N follows the fleet, and keeps its value during an outage. Method: three come, one goes, the store dies.
#[tokio::test]
async fn nodes_are_counted_and_cached() {
    let mut redis = Redis::start().await;
    let store = format!("url = '{}'", redis.url());
    let first = Way::open(&store).await;
    assert_eq!(first.link.nodes().get(), 1);
    let second = Way::open(&store).await;
    let third = Way::open(&store).await;
    all_count(&[&first, &second, &third], 3).await;
    drop(third);
    all_count(&[&first, &second], 2).await;
    redis.kill();
    first.is_away().await;
    assert_eq!(first.link.nodes().get(), 2);
}

/// Goal: masters of a Cluster each keep count, and one number comes of it. Method: two links to three masters.
#[tokio::test]
async fn nodes_are_counted_in_a_cluster() {
    let cluster = Redis::cluster(3).await;
    let store = format!("cluster = {}", cluster.toml());
    let (first, second) = (Way::open(&store).await, Way::open(&store).await);
    all_count(&[&first, &second], 2).await;
    for node in &cluster.nodes {
        eventually("each master has its set", async || {
            let sets = node.command(&["KEYS", "sluicegate:nodes:*"]);
            (sets.as_array()?.len() == 1).then_some(())
        })
        .await;
    }
}

/// Goal: all gateways hash under one seed, and a store that was emptied gets it back. Method: two links, FLUSHALL, a third.
#[tokio::test]
async fn a_fleet_has_one_seed() {
    let redis = Redis::start().await;
    let store = format!("url = '{}'", redis.url());
    let seed = async |way: &Way| eventually("the seed is known", async || way.link.seed()).await;
    let first = Way::open(&store).await;
    let known = seed(&first).await;
    let second = Way::open(&store).await;
    assert!(seed(&second).await == known);
    redis.command(&["FLUSHALL"]);
    eventually("the seed is back", async || {
        (redis.command(&["EXISTS", "sluicegate:seed"]) == json!(1)).then_some(())
    })
    .await;
    let third = Way::open(&store).await;
    assert!(seed(&third).await == known);
    let told = Way::to(&format!("{store}\nsecret_file = 'store-secret'"));
    assert!(seed(&told).await == HashSeed([0x5a; 16]));
}

/// Goal: a link that is over leaves nothing open. Method: the server's own list of connections.
#[tokio::test]
async fn a_link_that_ends_closes_its_connection() {
    let redis = Redis::start().await;
    let ours = || {
        let list = redis.command(&["CLIENT", "LIST"]);
        list.as_str().unwrap().matches("cmd=evalsha").count()
            + list.as_str().unwrap().matches("cmd=eval").count()
    };
    let way = Way::open(&format!("url = '{}'", redis.url())).await;
    way.count("k", "word").await.unwrap();
    assert!(ours() >= 1);
    drop(way);
    eventually("the connection is closed", async || {
        (ours() == 0).then_some(())
    })
    .await;
}
