//! What a rejection says of the time to wait, where several gateways count.

use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{Instant, sleep_until};

use super::shared::{fleet_at, shared};
use super::*;

/// The period of each limit of a burst, in seconds, and its count.
const PERIOD: u64 = 2;
const COUNT: usize = 6;
/// Bursts until one is followed by rejections alone: a window may end within one.
const BURSTS: usize = 20;
/// Waits of which one is true: on a busy machine the counts of another gateway may come after a wait was stated.
const ATTEMPTS: usize = 3;

/// A rejection of a burst: the user, the gateway, and the end of the wait.
struct Promise {
    user: String,
    node: usize,
    ends: Instant,
}

impl Fleet {
    /// Sends requests of one user to a path at once, `each` to every gateway; the answers with their gateways.
    async fn burst(&self, path: &str, user: &str, each: usize) -> Vec<(usize, Response)> {
        let requests = (0..each * self.nodes.len()).map(|number| {
            let node = number % self.nodes.len();
            async move {
                let request = get(path).header("x-user", user);
                (node, self.nodes[node].send(request).await)
            }
        });
        join_all(requests).await
    }

    /// Uses up the limit of a path at every gateway at once. Returns the wait of the next rejections that ends first.
    async fn first_promise(&self, path: &str, user: &str) -> Promise {
        for burst in 0..BURSTS {
            let user = format!("{user}-{burst}");
            self.burst(path, &user, COUNT).await;
            let next = self.burst(path, &user, 1).await;
            // Nobody can state a wait that includes what another gateway admits later.
            if next.iter().any(|(_, answer)| answer.status != 429) {
                continue;
            }
            let waits = next
                .iter()
                .map(|(node, answer)| (answer.retry_after(), *node));
            if let Some((wait, node)) = waits.min() {
                assert!(wait <= 2 * PERIOD + 1, "{path} {user}: {wait} s");
                let ends = Instant::now() + Duration::from_secs(wait);
                return Promise { user, node, ends };
            }
        }
        panic!("{path}: no burst is rejected");
    }
}

#[tokio::test]
async fn a_wait_after_a_burst_over_several_gateways_is_true() {
    // Goal: a request passes after the shortest wait that a rejection of a burst states, at its gateway and at the others. Method: three
    // gateways admit up to three times the limit before they exchange counts; each algorithm; one user for each gateway that is asked then.
    // The wait is in real time, since the store has no other.
    let redis = Redis::start().await;
    let origin = Origin::echo();
    let algorithms = ["sliding-window", "fixed-window", "token-bucket", "gcra"];
    let mut rules = String::new();
    for name in algorithms {
        let lines = format!("algorithm = \"{name}\"\nrates = [\"{COUNT} per {PERIOD}s\"]");
        let limit = shared(name, &lines).replace(
            "key = \"client.ip\"",
            "key = \"header.x-user\"\non_missing = \"refuse\"",
        );
        rules += &(limit + &route(&format!("/{name}"), &format!("\"{name}\"")));
    }
    let store = format!("url = \"{}\"\nsync_interval = \"250ms\"", redis.url());
    let fleet = fleet_at(3, &origin, &store, &rules).await;
    let fleet = &fleet;
    let asked = algorithms.iter().flat_map(|name| {
        (0..3).map(move |step| async move {
            let path = format!("/{name}");
            let mut statuses = Vec::new();
            for attempt in 0..ATTEMPTS {
                let user = format!("user-{step}-{attempt}");
                let promise = fleet.first_promise(&path, &user).await;
                sleep_until(promise.ends).await;
                let node = (promise.node + step) % fleet.nodes.len();
                let request = get(&path).header("x-user", &promise.user);
                statuses.push(fleet.nodes[node].send(request).await.status);
                if statuses.last() == Some(&200) {
                    break;
                }
            }
            (format!("{path} {step} away"), statuses)
        })
    });
    for (what, statuses) in join_all(asked).await {
        assert_eq!(statuses.last(), Some(&200), "{what}: {statuses:?}");
    }
}

#[tokio::test]
async fn a_gateway_that_rejects_hears_of_what_the_others_admitted() {
    // Goal: the wait is true for later rejections too, though a rejected key has no more pushes. Method: two gateways admit up to twice the
    // limit before they exchange counts; once they have, both name the wait of all that was admitted.
    let redis = Redis::start().await;
    let origin = Origin::echo();
    let lines = "algorithm = \"gcra\"\nrates = [\"10 per 100s\"]";
    let rules = shared("a", lines) + &route("/a", "\"a\"");
    let store = format!("url = \"{}\"\nsync_interval = \"250ms\"", redis.url());
    let fleet = fleet_at(2, &origin, &store, &rules).await;
    fleet.spread(20, || get("/a")).await;
    fleet.told().await;
    // A unit drains in 10 s; a request passes as soon as nine are left.
    let most = 10 * (origin.count() as u64 - 9);
    for node in &fleet.nodes {
        let wait = node.get("/a").await.retry_after();
        assert!((most - 9..=most).contains(&wait), "{wait} of {most}");
    }
}

#[tokio::test]
async fn a_client_of_one_gateway_waits_for_the_rate_that_refuses() {
    // Goal: a burst at one gateway is rejected by the rate that it has used up, and not by a longer one that has room. Method: four
    // gateways that know of each other; the others admit nothing, and would have used up the second rate with as much as the first.
    let redis = Redis::start().await;
    let origin = Origin::echo();
    let lines = "rates = [\"5 per 10s\", \"20 per 1d\"]";
    let rules = shared("a", lines) + &route("/a", "\"a\"");
    let store = format!("url = \"{}\"\nsync_interval = \"250ms\"", redis.url());
    let fleet = fleet_at(4, &origin, &store, &rules).await;
    // A window may end within the burst, once.
    let mut client = fleet.nodes[0].client().await;
    let mut rejections = 0;
    for _ in 0..12 {
        let answer = client.send(get("/a")).await;
        if answer.status == 429 {
            assert_eq!(answer.violated(), ["a-10s"]);
            assert!(answer.retry_after() <= 20, "{answer:?}");
            rejections += 1;
        }
    }
    assert!(rejections > 0);
}
