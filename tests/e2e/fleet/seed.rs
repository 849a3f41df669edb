//! A fleet keeps the seed that its keys are hashed under, whatever happens to it in the store.

use nix::sys::signal::Signal;

use super::members::beats;
use super::outage::acquainted;
use super::*;

const SEED: &str = "sluicegate:seed";

/// A strict limit of five.
fn five() -> String {
    strict("a", "rates = [\"5 per 1h\"]") + &route("/a", "\"a\"")
}

/// Three gateways that know each other, over which a client has used three of five.
async fn three_with_three_of_five(origin: &Origin, redis: &Redis) -> Fleet {
    let fleet = Fleet::three(origin, redis, &five()).await;
    acquainted(&fleet).await;
    assert_eq!(fleet.spread(3, || get("/a")).await, [200; 3]);
    fleet
}

/// Two of five are left, wherever one asks, after every gateway has had the time to take up another seed.
async fn two_are_left(fleet: &Fleet, redis: &Redis) {
    beats(fleet, redis, 3, || {}).await;
    let statuses = fleet.spread(12, || get("/a")).await;
    assert_eq!(count(&statuses, 200), 2, "{statuses:?}");
}

#[tokio::test]
async fn a_gateway_that_starts_beside_a_deleted_seed_resets_no_key() {
    // Goal: a new gateway does not replace the fleet's seed. Method: a fourth gateway runs without the store. The three that hold the seed
    // are stopped, the seed is deleted, and the fourth is told of the store by a reload, well within the time for which the others
    // count; then they go on.
    let (redis, origin) = (Redis::start().await, Origin::echo());
    let mut fleet = three_with_three_of_five(&origin, &redis).await;
    let mut fourth = Gateway::before(&origin, "[[route]]\npath = \"/a\"\norigin = \"app\"").await;
    for node in &fleet.nodes {
        node.pause().await;
    }
    // Twice: what they had sent may be read after the first.
    for _ in 0..2 {
        redis.command(&["DEL", SEED]);
    }
    let store = format!("[store]\n{}\ntimeout = \"5s\"\n", at(&redis));
    fourth.reload(&format!("{store}{}", five())).await;
    // It has no seed before the others write theirs back.
    eventually("the fourth has a connection", async || {
        let status = fourth.status().await;
        (status["store"]["servers"][0]["state"] == "recovering").then_some(())
    })
    .await;
    for node in &fleet.nodes {
        node.signal(Signal::SIGCONT);
    }
    fleet.nodes.push(fourth);
    two_are_left(&fleet, &redis).await;
}

#[tokio::test]
async fn a_foreign_seed_is_replaced_by_that_of_the_fleet() {
    // Goal: whatever is written in its place, the fleet's own comes back. Method: another seed, and what is none.
    let (redis, origin) = (Redis::start().await, Origin::echo());
    for foreign in ["0123456789abcdef", "short"] {
        let fleet = three_with_three_of_five(&origin, &redis).await;
        let own = redis.command(&["GET", SEED]);
        redis.command(&["SET", SEED, foreign]);
        two_are_left(&fleet, &redis).await;
        assert_eq!(redis.command(&["GET", SEED]), own);
        drop(fleet);
        redis.command(&["FLUSHALL"]);
    }
}
