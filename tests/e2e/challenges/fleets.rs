//! Several gateways: one signing key, its rotation, and one store.

use super::{Challenge, PAGES, exceed, visit};
use crate::harness::*;

const OLD: &str = "0123456789abcdef0123456789abcdef\n";
const NEW: &str = "fedcba9876543210fedcba9876543210\n";

fn setup(keys: &str) -> Setup {
    let rules = format!("{PAGES}[challenge]\nkey_file = \"../challenge.key\"\n");
    Setup::new().file("challenge.key", keys).rules(&rules)
}

/// What a request with a cookie gets at a gateway where its address has exceeded the limit.
async fn status_at(gateway: &Gateway, cookie: &str) -> u16 {
    let asked = visit("/", "192.0.2.1").header("cookie", cookie);
    gateway.send(asked).await.status
}

/// Two gateways with one signing key, connected to `store`, in which their limit counts. It has time to answer on a busy machine.
async fn fleet(store: &Redis, mode: &str) -> [Gateway; 2] {
    let action = "action = \"challenge\"";
    let rules = PAGES.replace(action, &format!("{action}\nstore = \"{mode}\""));
    let rules = format!(
        "{rules}[store]\nurl = \"{}\"\ntimeout = \"5s\"\n[challenge]\nkey_file = \"../challenge.key\"\n",
        store.url()
    );
    let start = || {
        Setup::new()
            .file("challenge.key", OLD)
            .rules(&rules)
            .start()
    };
    let gateways = [start().await, start().await];
    for gateway in &gateways {
        eventually("the gateway is connected", async || {
            let status = gateway.status().await;
            (status["store"]["servers"][0]["state"] == "connected").then_some(())
        })
        .await;
    }
    gateways
}

#[tokio::test]
async fn a_solution_counts_at_every_gateway_with_the_key() {
    // Goal: a fleet takes each other's solutions, through a change of the key and a restart, and nobody else's. Method: a solution made at
    // one gateway, used at one with the same key, with the new and the old key, with the new key alone, and with none.
    let first = setup(OLD).start().await;
    exceed(&mut first.client().await, "192.0.2.1").await;
    let cookie = Challenge::of(&first.send(visit("/", "192.0.2.1")).await).solved();
    for (keys, status) in [(OLD, 200), (&format!("{NEW}{OLD}"), 200), (NEW, 429)] {
        let gateway = setup(keys).start().await;
        exceed(&mut gateway.client().await, "192.0.2.1").await;
        assert_eq!(status_at(&gateway, &cookie).await, status, "{keys}");
    }
    let mut own = Gateway::start(PAGES).await;
    exceed(&mut own.client().await, "192.0.2.1").await;
    assert_eq!(status_at(&own, &cookie).await, 429);
    // A key of its own lasts through a reload.
    let cookie = Challenge::of(&own.send(visit("/", "192.0.2.1")).await).solved();
    own.reload(&PAGES.replace("5 per 1h", "6 per 1h")).await;
    assert_eq!(status_at(&own, &cookie).await, 200);
}

#[tokio::test]
async fn gateways_with_one_store_count_a_solution_together() {
    // Goal: a solution is worth one quota in the whole fleet. Method: two gateways with a shared limit; a solution of three used at both.
    let store = Redis::start().await;
    let [one, other] = fleet(&store, "shared-strict").await;
    exceed(&mut one.client().await, "192.0.2.1").await;
    let cookie = Challenge::of(&other.send(visit("/", "192.0.2.1")).await).solved();
    let mut statuses = Vec::new();
    for gateway in [&one, &other, &one, &other, &one] {
        statuses.push(status_at(gateway, &cookie).await);
    }
    assert_eq!(statuses, [200, 200, 200, 429, 429]);
}

#[tokio::test]
async fn gateways_that_exchange_counts_settle_on_one_quota_for_a_solution() {
    // Goal: with `store = "shared"` a solution that is copied to another gateway is worth nothing once the counts were exchanged. Method: a
    // solution of three that is used up at one gateway; the other, which may admit as many again until then, and the first once more.
    let store = Redis::start().await;
    let [one, other] = fleet(&store, "shared").await;
    exceed(&mut one.client().await, "192.0.2.1").await;
    let cookie = Challenge::of(&one.send(visit("/", "192.0.2.1")).await).solved();
    for status in [200, 200, 200, 429] {
        assert_eq!(status_at(&one, &cookie).await, status);
    }
    let mut admitted = 0;
    eventually("the other gateway has the counts", async || {
        let status = status_at(&other, &cookie).await;
        admitted += usize::from(status == 200);
        (status == 429).then_some(())
    })
    .await;
    assert!(admitted <= 3, "{admitted}");
    assert_eq!(status_at(&one, &cookie).await, 429);
}
