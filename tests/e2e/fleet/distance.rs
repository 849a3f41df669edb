//! A store that is far away: counts are exchanged with it, and no request waits for it.

use std::time::{Duration, Instant};

use sluicegate_limiter::Timestamp;
use tokio::time::{MissedTickBehavior, interval};

use super::shared::{fleet_at, often, shared};
use super::*;

/// The way to another continent and back.
const FAR: Duration = Duration::from_millis(200);

#[tokio::test]
async fn gateways_far_from_their_store_come_to_one_limit() {
    // Goal: a round trip of ten times `timeout` hides no gateway from the others, and none is counted out. Method: three gateways behind a
    // line that is slow from the beginning; what all of them admit until nobody passes, and their states.
    let redis = Redis::start().await;
    let origin = Origin::echo();
    let line = Mishap::before(redis.address()).await;
    line.set(Way::Delay(FAR));
    let place = format!(
        "url = \"redis://{}\"\nsync_interval = \"50ms\"\ntimeout = \"20ms\"",
        line.address()
    );
    let rules = shared("a", "rates = [\"20 per 1h\"]") + &route("/a", "\"a\"");
    let fleet = fleet_at(3, &origin, &place, &rules).await;
    fleet.reached("slow").await;
    let passed = fleet.exhaust("/a").await;
    assert!((20..=60).contains(&passed), "{passed}");
    assert_eq!(fleet.spread(30, || get("/a")).await, [429; 30]);
    let status = fleet.nodes[0].status().await;
    let server = &status["store"]["servers"][0];
    assert!(server["round_trip_seconds"].as_f64() >= Some(FAR.as_secs_f64()));
    assert!(server["unreached_seconds"].is_null());
    let metrics = fleet.nodes[0].metrics().await;
    assert_eq!(metrics.sum("sluicegate_store_up", &[]), 1.0);
    assert_eq!(metrics.sum("sluicegate_store_decides", &[]), 0.0);
}

#[tokio::test]
async fn a_store_that_becomes_slow_decides_nothing_until_it_is_fast() {
    // Goal: strict limits are decided by shares while answers come too late, what they admit is still pushed, and the state says which
    // holds. Method: a line that becomes slow under a gateway, and fast again; the store's own count.
    let redis = Redis::start().await;
    let origin = Origin::echo();
    let line = Mishap::before(redis.address()).await;
    let place = format!("url = \"redis://{}\"\ntimeout = \"100ms\"", line.address());
    let rules = strict("a", "rates = [\"1000 per 1h\"]") + &route("/a", "\"a\"");
    let fleet = Fleet::of(1, &origin, &place, &rules).await;
    fleet.reached("connected").await;
    line.set(Way::Delay(FAR));
    let node = &fleet.nodes[0];
    eventually("the store is slow", async || {
        assert_eq!(node.get("/a").await.status, 200);
        let status = node.status().await;
        (status["store"]["servers"][0]["state"] == "slow").then_some(())
    })
    .await;
    let before = super::shared::counted(&redis);
    let charged = fleet.decided("fallback").await;
    assert_eq!(fleet.spread(5, || get("/a")).await, [200; 5]);
    assert_eq!(fleet.decided("fallback").await, charged + 5.0);
    eventually("the store is told", async || {
        (super::shared::counted(&redis) >= before + 5).then_some(())
    })
    .await;
    line.set(Way::Pass);
    fleet.reached("connected").await;
    let decided = fleet.decided("store").await;
    assert_eq!(fleet.spread(5, || get("/a")).await, [200; 5]);
    assert!(fleet.decided("store").await > decided);
}

#[tokio::test]
async fn a_gateway_whose_exchange_is_late_admits_its_share() {
    // Goal: a store that hangs does not open a shared limit for as long as an exchange may take. Method: an exchange may take a minute; the
    // server is stopped, and requests come until one of them is decided by the share.
    let redis = Redis::start().await;
    let origin = Origin::echo();
    let rules = shared("a", "rates = [\"1000 per 1h\"]") + &route("/a", "\"a\"");
    let place = format!(
        "{}\nsync_timeout = \"60s\"",
        often(&redis.address().to_string())
    );
    let fleet = fleet_at(2, &origin, &place, &rules).await;
    redis.pause();
    let node = &fleet.nodes[0];
    eventually("the share decides", async || {
        let answer = node.get("/a").await;
        let line = node.lines_of(&[answer]).await;
        (line[0]["decided_by"]["a"] == "fallback").then_some(())
    })
    .await;
    let status = node.status().await;
    assert_eq!(status["store"]["servers"][0]["state"], "connected");
    redis.resume();
    fleet.told().await;
}

#[tokio::test]
async fn a_store_that_was_never_reached_is_reported() {
    // Goal: an operator sees that a gateway counts by itself since its start, and for how long. Method: a gateway by a driven clock whose
    // store is not there; status and metric before and after forty seconds; then the store.
    let mut redis = Redis::start().await;
    let origin = Origin::echo();
    redis.kill();
    let rules = strict("a", "rates = [\"9 per 1h\"]") + &route("/a", "\"a\"");
    let setup = Setup::new().origin("app", &origin).with_driven_clock();
    let text = format!("[store]\n{}\n{rules}", at(&redis));
    let gateway = setup.rules(&text).start().await;
    let unreached = async || {
        let status = gateway.status().await;
        status["store"]["servers"][0]["unreached_seconds"].as_f64()
    };
    let before = unreached().await.expect("it is not there");
    let mut clock = gateway.clock();
    let start = Timestamp::from_secs(1_900_000_000);
    clock.set(start);
    clock.set(start.saturating_add(Duration::from_secs(40)));
    assert!(unreached().await.expect("it is not there") >= before + 40.0);
    let metrics = gateway.metrics().await;
    assert!(metrics.sum("sluicegate_store_unreached_seconds", &[]) >= 40.0);
    redis.restart().await;
    eventually("the store is reached", async || {
        unreached().await.is_none().then_some(())
    })
    .await;
    let metrics = gateway.metrics().await;
    assert_eq!(metrics.sum("sluicegate_store_unreached_seconds", &[]), 0.0);
}

/// Requests a second to each gateway.
const RATE: u32 = 100;

/// Admissions of one client in the first window and in the two after it, over three gateways at this distance from their store.
async fn measured(round_trip: Duration) -> Vec<usize> {
    let redis = Redis::start().await;
    let origin = Origin::echo();
    let line = Mishap::before(redis.address()).await;
    line.set(Way::Delay(round_trip));
    let place = format!("url = \"redis://{}\"", line.address());
    let rates = "algorithm = \"fixed-window\"\nrates = [\"100 per 10s\"]";
    let rules = shared("a", rates) + &route("/a", "\"a\"");
    let fleet = fleet_at(3, &origin, &format!("{place}\ntimeout = \"20ms\""), &rules).await;
    let began = Instant::now();
    let ask = async |node: &Gateway| {
        let mut client = node.client().await;
        let mut turn = interval(Duration::from_secs(1) / RATE);
        turn.set_missed_tick_behavior(MissedTickBehavior::Burst);
        while began.elapsed() < Duration::from_secs(40) {
            turn.tick().await;
            client.get("/a").await;
        }
    };
    let asked = futures_util::future::join_all(fleet.nodes.iter().map(ask));
    let windows = async {
        // A window begins with each ten seconds of the store's clock.
        let mut counts = Vec::new();
        for _ in 0..4 {
            let time = redis.command(&["TIME"]);
            let seconds: u64 = time[0].as_str().unwrap().parse().unwrap();
            tokio::time::sleep(Duration::from_secs(10 - seconds % 10)).await;
            counts.push(origin.count());
        }
        counts
    };
    let (_, counts) = futures_util::join!(asked, windows);
    counts.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

#[tokio::test]
#[ignore = "measures for docs/fleet.md, for two and a half minutes"]
async fn overshoot_by_distance() {
    for millis in [0, 20, 80, 200] {
        let windows = measured(Duration::from_millis(millis)).await;
        println!("round trip {millis} ms: {windows:?} of 100");
    }
}
