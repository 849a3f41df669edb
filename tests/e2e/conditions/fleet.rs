//! `used` of a limit whose counters are in a store: that of the fleet while the store answers, and of this gateway's share while it does
//! not.

use super::{activity, becomes};
use crate::harness::*;

/// A limit of the fleet, one that applies while more than half of it is used, and a gateway's own that shows when the gateway has looked.
fn rules(redis: &Redis, mode: &str) -> String {
    format!(
        r#"
        [store]
        url = "{}"
        sync_interval = "50ms"
        timeout = "5s"
        required_for_ready = true
        [limit.site]
        key = "global"
        store = "{mode}"
        rates = ["100 per 1h"]
        [limit.strict]
        key = "client.ip"
        rates = ["1 per 1h"]
        when = "limit.site.used > 50%"
        keep_active_for = "1s"
        [limit.seen]
        key = "global"
        rates = ["100 per 1h"]
        [limit.witness]
        key = "client.ip"
        rates = ["1000 per 1h"]
        when = "limit.seen.used >= 1%"
        [[route]]
        path = "/*"
        limits = ["site"]
        respond = {{ status = 200 }}
        [[route]]
        path = "/page"
        limits = ["strict"]
        respond = {{ status = 200 }}
        [[route]]
        path = "/seen"
        limits = ["seen", "witness"]
        respond = {{ status = 200 }}
        "#,
        redis.url()
    )
}

/// Two gateways that know of each other.
async fn pair(redis: &Redis, mode: &str) -> [Gateway; 2] {
    let rules = rules(redis, mode);
    let start = || async { Setup::new().rules(&rules).start().await };
    let pair = [start().await, start().await];
    eventually("the gateways know of each other", async || {
        for gateway in &pair {
            let store = gateway.status().await["store"].clone();
            (store["nodes"] == 2 && store["seed_known"] == true).then_some(())?;
        }
        Some(())
    })
    .await;
    pair
}

/// Sends so many requests that are admitted.
async fn charge(gateway: &Gateway, requests: usize) {
    let mut client = gateway.client().await;
    for _ in 0..requests {
        assert_eq!(client.get("/").await.status, 200);
    }
}

/// Waits until the gateway has looked at the figures since this call.
async fn looks(gateway: &Gateway) {
    assert_eq!(gateway.get("/seen").await.status, 200);
    becomes(gateway, "witness", true).await;
}

#[tokio::test]
async fn the_use_of_a_limit_in_a_store_is_that_of_the_fleet() {
    // Goal: a condition counts what the other gateways admitted, as far as this one knows: from its next charge there. Method: in both
    // modes of the store a gateway that admits sixty of a hundred, and one that has admitted none, then one; what that rejects.
    for mode in ["shared", "shared-strict"] {
        let redis = Redis::start().await;
        let [busy, quiet] = pair(&redis, mode).await;
        charge(&busy, 60).await;
        becomes(&busy, "strict", true).await;
        assert!(
            busy.stderr()
                .contains("limit strict: active, since limit.site.used is "),
            "{mode}"
        );
        looks(&quiet).await;
        assert_eq!(activity(&quiet, "strict").await, 0.0, "{mode}");
        charge(&quiet, 1).await;
        becomes(&quiet, "strict", true).await;
        let mut client = quiet.client().await;
        for status in [200, 429] {
            assert_eq!(client.get("/page").await.status, status, "{mode}");
        }
    }
}

#[tokio::test]
async fn a_store_that_dies_leaves_the_use_of_the_own_share() {
    // Goal: without the store each gateway admits its share, a half of the limit, so a condition compares what is used of that. Method: the
    // store is killed after ten of a hundred; twenty more at one of two gateways use 60 % of its fifty, which is 30 % of the limit; nothing
    // at the other. When the store is back, the fleet has used 30 %, and the limit is no longer active.
    for mode in ["shared", "shared-strict"] {
        let mut redis = Redis::start().await;
        let [busy, quiet] = pair(&redis, mode).await;
        charge(&busy, 10).await;
        redis.kill();
        for gateway in [&busy, &quiet] {
            eventually("the gateway notices", async || {
                let state = &gateway.status().await["store"]["servers"][0]["state"];
                (state == "unavailable").then_some(())
            })
            .await;
        }
        charge(&busy, 20).await;
        becomes(&busy, "strict", true).await;
        looks(&quiet).await;
        assert_eq!(activity(&quiet, "strict").await, 0.0, "{mode}");
        redis.restart().await;
        becomes(&busy, "strict", false).await;
    }
}
