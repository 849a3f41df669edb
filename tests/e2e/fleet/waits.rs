//! What a rejection says of the time to wait, where several gateways count.

use super::shared::{fleet_at, shared};
use super::*;

#[tokio::test]
async fn a_gateway_that_rejects_hears_of_what_the_others_admitted() {
    // Goal: the wait is true for later rejections too, though a rejected key has no more pushes. Method: two gateways admit up to twice the
    // limit before they exchange counts; once they have, both name the wait of all that was admitted.
    let (redis, origin) = (Redis::start().await, Origin::echo());
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
