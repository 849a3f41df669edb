//! What becomes of what is owed to a store when a reload puts another in its place, or none.

use super::shared::{counted, fleet_of, often, shared};
use super::*;

/// A limit of each kind, of so many units an hour, on a route of its own.
fn both(units: u32) -> String {
    let rates = format!("rates = [\"{units} per 1h\"]");
    shared("a", &rates) + &strict("b", &rates) + &route("/a", "\"a\"") + &route("/b", "\"b\"")
}

impl Fleet {
    /// Gives every gateway these lines of `[store]`.
    async fn move_to(&mut self, store: &str, rules: &str) {
        for node in &mut self.nodes {
            node.reload(&format!("[store]\n{store}\n{rules}")).await;
        }
    }
}

#[tokio::test]
async fn pending_charges_of_a_failed_store_go_to_the_next_one() {
    // Goal: an outage that ends with another store loses no charge. Method: three gateways let their shares of nine units pass while the
    // server is dead, and are given an empty one, which then counts all of them and refuses whom the limit refuses.
    let (mut old, new, origin) = (Redis::start().await, Redis::start().await, Origin::echo());
    let rules = both(9);
    let mut fleet = fleet_of(3, &origin, &old.address().to_string(), &rules).await;
    old.kill();
    fleet.reached("unavailable").await;
    for path in ["/a", "/b"] {
        assert_eq!(fleet.spread(9, || get(path)).await, [200; 9], "{path}");
    }
    fleet
        .move_to(&often(&new.address().to_string()), &rules)
        .await;
    fleet.reached("connected").await;
    fleet.told().await;
    fleet.settled_debts().await;
    assert_eq!(counted(&new), 18);
    assert_eq!(fleet.spread(3, || get("/b")).await, [429; 3]);
    // Who told first has not heard of the others.
    fleet.exhaust("/a").await;
    assert_eq!(counted(&new), origin.count());
    for node in &fleet.nodes {
        let metrics = node.metrics().await;
        assert_eq!(
            metrics.sum("sluicegate_store_sync_dropped_units_total", &[]),
            0.0
        );
    }
}

#[tokio::test]
async fn whom_a_store_refused_is_refused_at_the_one_that_follows() {
    // Goal: a change of the store refills no key that a gateway has cached. Method: limits of each kind are used up, then the store is
    // another, empty one.
    let (old, new, origin) = (Redis::start().await, Redis::start().await, Origin::echo());
    let rules = both(2);
    let mut fleet = fleet_of(1, &origin, &old.address().to_string(), &rules).await;
    for path in ["/a", "/b"] {
        let statuses = fleet.spread(3, || get(path)).await;
        assert_eq!(statuses, [200, 200, 429], "{path}");
    }
    fleet.told().await;
    fleet
        .move_to(&often(&new.address().to_string()), &rules)
        .await;
    fleet.reached("connected").await;
    for path in ["/a", "/b"] {
        assert_eq!(fleet.spread(2, || get(path)).await, [429; 2], "{path}");
    }
}

#[tokio::test]
async fn pending_charges_are_pushed_before_a_store_is_removed() {
    // Goal: gateways that still count there get all charges. Method: a gateway that syncs once a minute admits five requests;
    // then its file names no store, or other keys; the server's own count.
    let rates = "rates = [\"9 per 1h\"]";
    let local = format!(
        "[limit.a]\nkey = \"client.ip\"\n{rates}\n{}",
        route("/a", "\"a\"")
    );
    let exchanged = shared("a", rates) + &route("/a", "\"a\"");
    for other in [false, true] {
        let (redis, origin) = (Redis::start().await, Origin::echo());
        let store = format!("[store]\n{}\nsync_interval = \"60s\"\n", at(&redis));
        let mut node = Gateway::before(&origin, &format!("{store}{exchanged}")).await;
        eventually("it is known how keys are hashed", async || {
            (node.status().await["store"]["seed_known"] == true).then_some(())
        })
        .await;
        for left in (4..9).rev() {
            assert_eq!(node.get("/a").await.remaining("a"), left);
        }
        let after = match other {
            false => local.clone(),
            true => format!("{store}prefix = \"other\"\n{exchanged}"),
        };
        node.reload(&after).await;
        eventually("the store that is left is told", async || {
            (counted(&redis) == 5).then_some(())
        })
        .await;
        if !other {
            assert_eq!(node.get("/a").await.remaining("a"), 3, "nobody is refilled");
        }
    }
}

#[tokio::test]
async fn charges_dropped_for_another_seed_are_logged() {
    // Goal: units are never pushed under names of another seed, and dropped ones are counted. Method: a gateway whose store died
    // moves to one that another fleet has given a seed; then it counts there.
    let (mut old, new, origin) = (Redis::start().await, Redis::start().await, Origin::echo());
    let rules = both(9);
    let place = new.address().to_string();
    let _other = fleet_of(1, &origin, &place, &rules).await;
    let mut fleet = fleet_of(1, &origin, &old.address().to_string(), &rules).await;
    old.kill();
    fleet.reached("unavailable").await;
    for path in ["/a", "/b"] {
        assert_eq!(fleet.spread(3, || get(path)).await, [200; 3], "{path}");
    }
    fleet.move_to(&often(&place), &rules).await;
    fleet.reached("connected").await;
    eventually("what is lost is counted", async || {
        let metrics = fleet.nodes[0].metrics().await;
        let lost = metrics.sum("sluicegate_store_sync_dropped_units_total", &[]);
        (lost == 6.0).then_some(())
    })
    .await;
    assert_eq!(fleet.spread(1, || get("/a")).await, [200]);
    fleet.told().await;
    assert_eq!(counted(&new), 1);
}
