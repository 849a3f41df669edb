//! Decides what comes before the limits: bans, and the number of requests in flight.
//!
//! A request is held against the bans of all its limits first, then it takes its permits, then its limits are charged. A ban thus costs
//! no permit and no charge (contract C2), and a request that is rejected by anything gives back at once what it took before.
//!
//! # Concurrency
//! Permits that a rejected request gives back were taken for an instant: another request of the same key may be rejected meanwhile,
//! though one place was about to be free. It never happens to a key whose requests all pass.

use std::time::Duration;

use crate::rejection::{LimitRejection, RejectionReason};
use sluicegate_limiter::{Permit, StrikeOutcome, Timestamp};

use super::limit_check::LimitCheck;

impl LimitCheck<'_> {
    /// Returns the rejection by this limit.
    pub(super) fn rejection(&self, reason: RejectionReason, wait: Duration) -> LimitRejection {
        LimitRejection {
            limit: self.limit,
            key: self.ask.key,
            reason,
            wait,
        }
    }

    /// Returns the ban in force. It may end while the limit has no room yet, so the wait covers both.
    fn ban(&self, now: Timestamp) -> Option<LimitRejection> {
        let bans = &self.active.bans.as_ref()?.bans;
        let banned = bans.active(self.ask.key, now)?;
        let wait = self.peek_table(now).retry_after();
        let wait = wait.unwrap_or(Duration::ZERO);
        Some(self.rejection(RejectionReason::Banned(banned), banned.left.max(wait)))
    }

    /// Records that the limit rejected the key, with this wait. Returns the ban that follows.
    pub(super) fn strike(&self, wait: Duration, now: Timestamp) -> Option<LimitRejection> {
        let struck: StrikeOutcome = self.active.bans.as_ref()?.bans.strike(self.ask.key, now);
        let banned = struck.banned()?;
        Some(self.rejection(RejectionReason::BanStarted(banned), banned.left.max(wait)))
    }

    /// Takes a permit where the limit requires one.
    ///
    /// # Errors
    /// The maximum of requests is in flight.
    pub(super) fn take_permit(&self) -> Result<Option<Permit>, LimitRejection> {
        let permits = self.active.permits.as_ref();
        permits
            .map(|permits| permits.take(self.ask.key))
            .transpose()
            .map_err(|full| {
                self.rejection(RejectionReason::Concurrency(full), LimitRejection::SOON)
            })
    }
}

/// Returns the ban that holds longest of those in force.
pub(super) fn ban(checks: &[LimitCheck<'_>], now: Timestamp) -> Option<LimitRejection> {
    let bans = checks.iter().filter_map(|check| check.ban(now));
    bans.max_by_key(|rejection| rejection.wait)
}

/// Takes the permits of all checks, or none.
///
/// # Errors
/// The rejection by the first limit whose maximum of requests is in flight.
pub(super) fn take_permits(checks: &[LimitCheck<'_>]) -> Result<Vec<Permit>, LimitRejection> {
    // Dropped at the first that is rejected, those before it give theirs back.
    let permits = checks
        .iter()
        .filter_map(|check| check.take_permit().transpose());
    permits.collect()
}
