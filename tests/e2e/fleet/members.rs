//! A gateway that goes on without its store takes its share, whatever became of the list of gateways there.

use super::outage::{acquainted, rules, short};
use super::*;

const NODES: &str = "sluicegate:nodes";

/// Three gateways that know each other, of which each may admit three of nine.
async fn three_with_nine(origin: &Origin, redis: &Redis) -> Fleet {
    let nine = rules("rates = [\"9 per 1h\"]");
    let fleet = Fleet::of(3, origin, &short(redis), &nine).await;
    acquainted(&fleet).await;
    fleet
}

/// Waits until each gateway has written so many heartbeats; runs `meanwhile` all the time.
pub(super) async fn beats(fleet: &Fleet, redis: &Redis, each: u64, meanwhile: impl Fn()) {
    let nodes = fleet.nodes.len() as u64;
    let before = calls(redis, "zadd");
    eventually("the gateways write heartbeats", async || {
        meanwhile();
        // Pauses are half to one and a half times as long as a second, so nobody writes thrice as often as another.
        (calls(redis, "zadd") >= before + 3 * each * nodes).then_some(())
    })
    .await;
}

/// What each gateway admits of `/a` now is its share.
async fn each_takes_its_share(fleet: &Fleet) {
    for node in &fleet.nodes {
        let mut client = node.client().await;
        let mut statuses = Vec::new();
        for _ in 0..6 {
            statuses.push(client.get("/a").await.status);
        }
        assert_eq!(statuses, [200, 200, 200, 429, 429, 429]);
    }
}

#[tokio::test]
async fn a_list_of_gateways_that_is_lost_enlarges_no_share() {
    // Goal: what empties the list does not make a gateway believe that it is alone. Method: the list is deleted again and again while
    // each
    // gateway writes heartbeats, then the server is killed.
    let (mut redis, origin) = (Redis::start().await, Origin::echo());
    let fleet = three_with_nine(&origin, &redis).await;
    beats(&fleet, &redis, 1, || {
        redis.command(&["DEL", NODES]);
    })
    .await;
    redis.kill();
    each_takes_its_share(&fleet).await;
}

#[tokio::test]
async fn a_full_store_evicts_counters_before_the_list_of_gateways() {
    // Goal: under the policy that `store check` recommends, the list stays. Method: a server without room is filled with counters that
    // live
    // for an hour, many times over, while heartbeats go on; then it is killed.
    let policy = [
        "--maxmemory",
        "3mb",
        "--maxmemory-policy",
        "volatile-ttl",
        "--maxmemory-samples",
        "64",
    ];
    let (mut redis, origin) = (Redis::start_with(&policy).await, Origin::echo());
    let fleet = three_with_nine(&origin, &redis).await;
    let fill = "for at = 1, 200 do redis.call('SET', 'fill:' .. ARGV[1] .. ':' .. at, string.rep('x', 500), 'PX', 3600000) end";
    let round = std::cell::Cell::new(0);
    beats(&fleet, &redis, 2, || {
        round.set(round.get() + 1);
        redis.command(&["EVAL", fill, "0", &round.get().to_string()]);
        assert_eq!(redis.command(&["EXISTS", NODES]), 1);
    })
    .await;
    let stats = redis.command(&["INFO", "stats"]);
    assert!(
        !stats.as_str().unwrap().contains("evicted_keys:0\r"),
        "{stats}"
    );
    redis.kill();
    each_takes_its_share(&fleet).await;
}

#[tokio::test]
async fn a_gateway_that_ends_gives_its_share_to_the_others() {
    // Goal: the list shrinks as members leave. Method: one of three is stopped; the others have halves once they know.
    let (mut redis, origin) = (Redis::start().await, Origin::echo());
    let rules = rules("rates = [\"8 per 1h\"]");
    let mut fleet = Fleet::of(3, &origin, &short(&redis), &rules).await;
    acquainted(&fleet).await;
    drop(fleet.nodes.pop());
    acquainted(&fleet).await;
    redis.kill();
    let statuses = fleet.spread(12, || get("/a")).await;
    assert_eq!(count(&statuses, 200), 8, "{statuses:?}");
}
