//! `shadow-rollout.toml`: the way of a new limit into force.

use super::kit;
use crate::harness::*;

#[tokio::test]
async fn a_rollout_goes_from_looking_to_refusing() {
    // Goal: each of the three steps. Method: more searches than the limit, of which none is refused and all are reported; three hundred
    // clients, of which a share is told of the limit and refused beyond it, and the others are not; vouchers, and what stricter rates
    // would have refused.
    let origin = Origin::named("shop");
    let gateway = kit("shadow-rollout", &origin).start().await;
    let mut client = gateway.client().await;
    for _ in 0..130 {
        let answer = client.send(get("/search").forwarded_for("192.0.2.1")).await;
        assert_eq!(
            (answer.status, answer.header("ratelimit-policy")),
            (200, None)
        );
    }
    let cart =
        |host: usize| post("/cart/1").forwarded_for(&format!("10.0.{}.{}", host / 250, host % 250));
    let mut in_force = Vec::new();
    let mut in_shadow = Vec::new();
    for host in 0..300 {
        let first = client.send(cart(host)).await;
        let told = first.header("ratelimit-policy").is_some();
        if told { &mut in_force } else { &mut in_shadow }.push(host);
    }
    // Thirty in the mean; three hundred throws are outside of this less than once in a million runs.
    let share = in_force.len();
    assert!((4..=65).contains(&share), "{share}");
    for (host, status) in [(in_force[0], 429), (in_shadow[0], 200)] {
        // More than two windows hold, should one end in between.
        for _ in 0..40 {
            client.send(cart(host)).await;
        }
        assert_eq!(client.send(cart(host)).await.status, status);
    }
    for _ in 0..9 {
        let voucher = post("/voucher").forwarded_for("203.0.113.1");
        assert_eq!(client.send(voucher).await.status, 200);
    }
    let metrics = gateway.metrics().await;
    let of = |name: &str, limit: &str| metrics.sum(name, &[("limit", limit)]);
    let would = of("sluicegate_limit_shadow_refused_total", "search");
    assert!((10.0..=70.0).contains(&would), "{would}");
    assert_eq!(of("sluicegate_limit_refused_total", "search"), 0.0);
    let stricter = of("sluicegate_limit_shadow_rates_refused_total", "voucher");
    assert!((3.0..=4.0).contains(&stricter), "{stricter}");
}
