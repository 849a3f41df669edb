//! Limits and tiers that apply only while a condition over the gateway's own figures holds.

mod attacks;
mod figures;
mod fleet;
mod peace;
mod shown;

use crate::harness::*;

/// Answers after `pause` where the path begins with `/slow`, fails where it begins with `/fail`, and else answers at once.
fn paced(pause: std::time::Duration) -> Origin {
    Origin::answering(move |received| {
        let answer: Reply = Answer::new(200).into();
        match received.target.as_str() {
            target if target.starts_with("/slow") => Reply::After(pause, Box::new(answer)),
            target if target.starts_with("/fail") => Answer::new(500).into(),
            _ => answer,
        }
    })
}

/// Waits until the limit is active, or not.
pub(crate) async fn becomes(gateway: &Gateway, limit: &str, active: bool) {
    let wanted = f64::from(u8::from(active));
    eventually(&format!("{limit} is active: {active}"), async || {
        (activity(gateway, limit).await == wanted).then_some(())
    })
    .await;
}

/// 1 while the limit is active.
pub(crate) async fn activity(gateway: &Gateway, limit: &str) -> f64 {
    let metrics = gateway.metrics().await;
    metrics.sum("sluicegate_limit_active", &[("limit", limit)])
}

/// How often the limit became active, and inactive.
async fn changes(gateway: &Gateway, limit: &str) -> [f64; 2] {
    let metrics = gateway.metrics().await;
    ["active", "inactive"].map(|to| {
        let labels = [("limit", limit), ("to", to)];
        metrics.sum("sluicegate_limit_activation_changes_total", &labels)
    })
}

/// Sends so many requests of one path at the same time, and returns their statuses.
async fn together(gateway: &Gateway, count: usize, target: &'static str) -> Vec<u16> {
    let connections = (0..count).map(|_| async move { gateway.get(target).await.status });
    futures_util::future::join_all(connections).await
}

/// Sends so many requests of one path at the same time, again and again, until the limit is active. Answers count from the first look on.
async fn loaded(gateway: &Gateway, limit: &str, count: usize, target: &'static str) {
    eventually(&format!("{limit} is active under load"), async || {
        together(gateway, count, target).await;
        (activity(gateway, limit).await == 1.0).then_some(())
    })
    .await;
}
