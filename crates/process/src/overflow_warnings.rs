//! Counts rejections by counters that several new keys share, and warns of them in the process log.

use std::net::IpAddr;
use std::sync::Arc;

use sluicegate_base::clock;
use sluicegate_limiter::KeyPlacement;
use tracing::warn;

use sluicegate_decide::admission::{ActiveLimit, AdmissionReport, OverflowNews};

/// Counts each rejection by a counter that new keys share, and warns once a limit when its new keys share counters (contract
/// C3): in the log now, in metric and status as long as it lasts. Does the same, once a minute, for new keys of a client that
/// has used up its share. To be called once for each request that limits checked.
pub fn warn_of_overflow(limits: &[Arc<ActiveLimit>], report: &AdmissionReport, client: IpAddr) {
    let asked = report.asked(limits);
    let in_verdict = asked
        .zip(report.verdict.decisions())
        .filter(|(_, decision)| decision.placement() != KeyPlacement::OwnSlot)
        .inspect(|(active, decision)| active.limit.count_refusal(decision))
        .map(|(active, decision)| (active, decision.placement()));
    let notes = report.details.iter().flat_map(|details| &details.notes);
    let noted = notes
        .filter_map(|note| {
            let active = limits.get(usize::from(note.limit))?;
            Some((&**active, note.event.counted()?))
        })
        .inspect(|(active, counted)| active.limit.count_refusal_as(*counted));
    for (active, counted) in in_verdict.chain(noted) {
        match counted {
            KeyPlacement::OwnSlot => {}
            KeyPlacement::Overflow => log_overflow(active),
            KeyPlacement::OverShare => log_over_share(active, client),
        }
    }
}

/// Warns that new keys of a limit share counters.
fn log_overflow(active: &ActiveLimit) {
    if active.announce_overflow() == OverflowNews::First {
        warn!(
            "limit {}: more clients owe something than its capacity of {} holds; newcomers share counters and may be refused for each \
             other; set a larger capacity, /status says which",
            active.name,
            active.limit.capacity().keys(),
        );
    }
}

/// Warns that a client invents keys of a limit, or has many.
fn log_over_share(active: &ActiveLimit, client: IpAddr) {
    if active.share_news.record_if_due(client, clock::now()) {
        warn!(
            "limit {}: client {client} has taken more than its share of {} slots, and the table is crowded; its further new keys are \
             refused while that lasts, others find room; if these are many users behind one address, set a larger capacity",
            active.name,
            active.limit.share().unwrap_or_default(),
        );
    }
}
