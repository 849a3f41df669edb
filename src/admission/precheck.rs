//! Decides what stands before the limits: bans, and the number of requests in flight.
//!
//! A request is held against the bans of all its limits first, then it takes its permits, then its limits are asked. A ban thus costs
//! no permit and no charge (contract C2), and whoever is refused by anything gives back at once what was taken before.
//!
//! # Concurrency
//! Permits that a refused request gives back were taken for an instant: another request of the same key may be refused meanwhile, though
//! one place was about to be free. It never happens to a key whose requests all pass.

use std::time::Duration;

use sluicegate_limiter::{Ask, Permit, StrikeOutcome, Timestamp};

use super::limit::ActiveLimit;
use crate::rejection::{LimitRejection, RejectionReason};

/// A limit that a request faces, and its key there.
#[derive(Clone, Copy)]
pub(super) struct Facing<'a> {
    pub(super) limit: u8,
    pub(super) active: &'a ActiveLimit,
    /// What is asked of it.
    pub(super) ask: Ask<'a>,
}

impl Facing<'_> {
    fn barred(&self, reason: RejectionReason, wait: Duration) -> LimitRejection {
        let Self { limit, ask, .. } = *self;
        let key = ask.key;
        LimitRejection {
            limit,
            key,
            reason,
            wait,
        }
    }

    /// The ban that is in force. It may end while the limit has no room yet, so the wait is told for both.
    fn ban(&self, now: Timestamp) -> Option<LimitRejection> {
        let banned = self
            .active
            .bans
            .as_ref()?
            .bans
            .standing(self.ask.key, now)?;
        let Ask {
            limit, key, cost, ..
        } = self.ask;
        let decision = limit.peek(key, cost, self.active.moment(now));
        let wait = decision.retry_after().unwrap_or(Duration::ZERO);
        Some(self.barred(RejectionReason::Banned(banned), banned.left.max(wait)))
    }

    /// The ban that comes of a refusal of the limit's, which would let the request in after `wait`.
    pub(super) fn strike(&self, wait: Duration, now: Timestamp) -> Option<LimitRejection> {
        let struck: StrikeOutcome = self.active.bans.as_ref()?.bans.strike(self.ask.key, now);
        let banned = struck.banned()?;
        Some(self.barred(RejectionReason::BanStarted(banned), banned.left.max(wait)))
    }

    /// Whether as many requests as may be are in flight.
    fn crowd(&self) -> Option<LimitRejection> {
        let full = self.active.permits.as_ref()?.peek(self.ask.key).err()?;
        Some(self.barred(RejectionReason::Concurrency(full), LimitRejection::SOON))
    }

    /// Nobody can say whether the limit has room.
    pub(super) fn without_store(&self) -> LimitRejection {
        self.barred(RejectionReason::StoreUnavailable, LimitRejection::SOON)
    }

    /// Takes a permit where the limit asks for one.
    pub(super) fn permit(&self) -> Result<Option<Permit>, LimitRejection> {
        let permit = self
            .active
            .permits
            .as_ref()
            .map(|permits| permits.take(self.ask.key));
        permit
            .transpose()
            .map_err(|full| self.barred(RejectionReason::Concurrency(full), LimitRejection::SOON))
    }
}

/// The ban that holds longest of those in force.
pub(super) fn ban<'a>(
    faced: impl IntoIterator<Item = Facing<'a>>,
    now: Timestamp,
) -> Option<LimitRejection> {
    let bans = faced.into_iter().filter_map(|faced| faced.ban(now));
    bans.max_by_key(|barred| barred.wait)
}

/// What would bar a request at this moment; takes nothing.
pub(super) fn foresee<'a>(
    faced: impl IntoIterator<Item = Facing<'a>> + Clone,
    now: Timestamp,
) -> Option<LimitRejection> {
    ban(faced.clone(), now).or_else(|| faced.into_iter().find_map(|faced| faced.crowd()))
}

/// Takes the permits of all, or none.
pub(super) fn permits<'a>(
    faced: impl IntoIterator<Item = Facing<'a>>,
) -> Result<Vec<Permit>, LimitRejection> {
    // Dropped at the first that is refused, those before it give theirs back.
    let permits = faced
        .into_iter()
        .filter_map(|faced| faced.permit().transpose());
    permits.collect()
}
