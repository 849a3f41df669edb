//! Lists the counters of a limit on a route: the variant, the name and the help text of each, in one table.
//!
//! A new counter is one line here, and the line of the code that counts it.

use std::sync::atomic::{AtomicU64, Ordering};

use sluicegate_decide::rejection::RejectionReason;

use sluicegate_decide::admission::LimitEvent;
use sluicegate_decide::store::DecisionSource;

macro_rules! limit_counters {
    ($($counter:ident, $presence:ident, $name:literal, $help:literal;)*) => {
        /// A counter of a limit on a route.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum LimitCounter {
            $(#[doc = $help] $counter,)*
        }

        impl LimitCounter {
            /// Every counter, in the order of the enum.
            pub(super) const ALL: [Self; [$(Self::$counter),*].len()] = [$(Self::$counter),*];

            /// Returns the name of the metric.
            pub(super) const fn name(self) -> &'static str {
                match self { $(Self::$counter => $name,)* }
            }

            /// Returns the help text of the metric.
            pub(super) const fn help(self) -> &'static str {
                match self { $(Self::$counter => $help,)* }
            }

            /// Returns when the series appears in a scrape.
            pub(super) const fn presence(self) -> SeriesPresence {
                match self { $(Self::$counter => SeriesPresence::$presence,)* }
            }
        }
    };
}

/// The moment from which a scrape shows a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SeriesPresence {
    /// From the start, with 0.
    Always,
    /// From its first count: few limits have it.
    FromFirstCount,
}

limit_counters! {
    Admitted, Always, "sluicegate_limit_admitted_total",
        "Requests that were charged to a limit on a route.";
    Refused, Always, "sluicegate_limit_refused_total",
        "Requests that a limit on a route rejected.";
    Delayed, Always, "sluicegate_limit_delayed_total",
        "Requests that a limit on a route delayed and then admitted.";
    KeyMissing, Always, "sluicegate_limit_key_missing_total",
        "Requests that lacked a part of the key of a limit on a route.";
    Unlimited, FromFirstCount, "sluicegate_limit_unlimited_total",
        "Requests that the overrides or tiers of a limit on a route exempt.";
    Blocked, FromFirstCount, "sluicegate_limit_blocked_total",
        "Requests that the overrides or tiers of a limit on a route block.";
    Refunded, FromFirstCount, "sluicegate_limit_refunded_total",
        "Admitted requests whose charge was refunded, because the response does not count.";
    ResponseCost, FromFirstCount, "sluicegate_limit_response_cost_total",
        "Units of cost that were known with the response, as charged to a limit on a route.";
    OverReserve, FromFirstCount, "sluicegate_limit_over_reserve_total",
        "Units of cost beyond what a limit on a route had reserved.";
    CostMalformed, FromFirstCount, "sluicegate_limit_cost_malformed_total",
        "Responses whose reported cost is malformed; the request cost what was reserved.";
    CostMissing, FromFirstCount, "sluicegate_limit_cost_missing_total",
        "Responses without the cost in their body; the request cost what was reserved.";
    Marked, FromFirstCount, "sluicegate_limit_marked_total",
        "Requests that exceeded a limit on a route and were admitted with its mark.";
    Challenged, FromFirstCount, "sluicegate_limit_challenged_total",
        "Requests that exceeded a limit on a route and got a page with a challenge.";
    ChallengePassed, FromFirstCount, "sluicegate_limit_challenge_passed_total",
        "Requests that carried a solution of the challenge of a limit on a route.";
    ChallengeFailed, FromFirstCount, "sluicegate_limit_challenge_failed_total",
        "Requests whose solution of the challenge of a limit on a route failed.";
    ShadowAdmitted, FromFirstCount, "sluicegate_limit_shadow_admitted_total",
        "Requests that a limit in shadow would have admitted.";
    ShadowRefused, FromFirstCount, "sluicegate_limit_shadow_refused_total",
        "Requests that a limit in shadow would have rejected.";
    ShadowRatesAdmitted, FromFirstCount, "sluicegate_limit_shadow_rates_admitted_total",
        "Requests that the shadow_rates of a limit would have admitted.";
    ShadowRatesRefused, FromFirstCount, "sluicegate_limit_shadow_rates_refused_total",
        "Requests that the shadow_rates of a limit would have rejected.";
    Banned, FromFirstCount, "sluicegate_limit_banned_total",
        "Requests that a ban of a limit on a route rejected.";
    ConcurrencyRefused, FromFirstCount, "sluicegate_limit_concurrency_refused_total",
        "Requests rejected because their key had its maximum of requests in flight.";
    StoreUnavailable, FromFirstCount, "sluicegate_limit_store_unavailable_total",
        "Requests rejected because the store that decides the limit was unavailable.";
}

/// One thread's counts of one limit on one route.
#[derive(Debug, Default)]
pub(super) struct LimitCells {
    counts: [AtomicU64; LimitCounter::ALL.len()],
    /// By [`DecisionSource`].
    decided: [AtomicU64; DecisionSource::ALL.len()],
}

/// The sums over the threads of one limit on one route.
#[derive(Debug, Default)]
pub(super) struct LimitSums {
    /// By [`LimitCounter`].
    pub(super) counts: [u64; LimitCounter::ALL.len()],
    /// Decisions over the limit where a store decides it, by [`DecisionSource`].
    pub(super) decided: [u64; DecisionSource::ALL.len()],
}

impl LimitCells {
    /// Adds `units` to a counter.
    pub(super) fn add(&self, counter: LimitCounter, units: u64) {
        // Relaxed, here and below: counts for the scrape, each on its own.
        self.counts[counter as usize].fetch_add(units, Ordering::Relaxed);
    }

    /// Counts a rejection by the limit.
    pub(super) fn reject(&self, reason: RejectionReason) {
        let counter = match reason {
            RejectionReason::RateLimited(_) | RejectionReason::BanStarted(_) => {
                LimitCounter::Refused
            }
            RejectionReason::Challenged(_) => LimitCounter::Challenged,
            RejectionReason::Banned(_) => LimitCounter::Banned,
            RejectionReason::Concurrency(_) => LimitCounter::ConcurrencyRefused,
            RejectionReason::StoreUnavailable => LimitCounter::StoreUnavailable,
        };
        self.add(counter, 1);
    }

    /// Returns the requests that the limit rejected, for whatever it has no room.
    pub(super) fn rejections(&self) -> u64 {
        let counters = [
            LimitCounter::Refused,
            LimitCounter::Challenged,
            LimitCounter::Banned,
            LimitCounter::ConcurrencyRefused,
        ];
        let counts = counters.map(|counter| self.counts[counter as usize].load(Ordering::Relaxed));
        counts.into_iter().sum()
    }

    /// Counts an event of the limit.
    pub(super) fn note(&self, event: LimitEvent) {
        let (counter, units) = match event {
            // The table of the limit counts the first two; of an active limit its decisions are counted.
            LimitEvent::OverflowRefused | LimitEvent::ShareRefused | LimitEvent::Active => return,
            LimitEvent::Decided(source) => {
                self.decided[source.index()].fetch_add(1, Ordering::Relaxed);
                return;
            }
            LimitEvent::Cost(units) => (LimitCounter::ResponseCost, units.into()),
            LimitEvent::OverReserve(units) => (LimitCounter::OverReserve, units.into()),
            LimitEvent::Released => (LimitCounter::Refunded, 1),
            LimitEvent::CostMalformed => (LimitCounter::CostMalformed, 1),
            LimitEvent::CostMissing => (LimitCounter::CostMissing, 1),
            LimitEvent::Marked => (LimitCounter::Marked, 1),
            LimitEvent::ChallengePassed => (LimitCounter::ChallengePassed, 1),
            LimitEvent::ChallengeFailed => (LimitCounter::ChallengeFailed, 1),
            LimitEvent::Unlimited => (LimitCounter::Unlimited, 1),
            LimitEvent::Blocked => (LimitCounter::Blocked, 1),
            LimitEvent::ShadowAdmitted => (LimitCounter::ShadowAdmitted, 1),
            LimitEvent::ShadowRefused => (LimitCounter::ShadowRefused, 1),
            LimitEvent::ShadowRatesAdmitted => (LimitCounter::ShadowRatesAdmitted, 1),
            LimitEvent::ShadowRatesRefused => (LimitCounter::ShadowRatesRefused, 1),
        };
        self.add(counter, units);
    }
}

impl LimitSums {
    /// Adds the counts of one thread.
    pub(super) fn add(&mut self, cells: &LimitCells) {
        let pairs = self.counts.iter_mut().zip(&cells.counts);
        for (sum, count) in pairs.chain(self.decided.iter_mut().zip(&cells.decided)) {
            *sum += count.load(Ordering::Relaxed);
        }
    }
}
