//! Samples how much of each limit its keys use: for each key the largest use of the last day, which the number of a limit is chosen by.
//!
//! No request does anything for it. A background service walks the tables of the limits and keeps the largest use of
//! each key that it finds ([`UsageSamples`]). The counters of windows say what a key used right after its latest charge, also when that has
//! expired, so a walk need not come at the right moment: a peak is missed only if the key was charged again in a later window, or lost its
//! slot, before the next walk.
//!
//! # Limits
//! - Each limit has the keys of a bounded sample (`key_sample`) and the heaviest of each rate (`heaviest_keys`), twice: of the present and
//!   of the previous [`USAGE_GENERATION`](sluicegate_base::bounds::USAGE_GENERATION). The heaviest are counted one by one; what the
//!   sample says of the others has an error, which is shown (`rate_usage`). Of a table with more buckets than one walk reads, the heaviest
//!   are known after as many walks as it has parts. Limits that are no longer in force are forgotten. All samples
//!   together are bounded by [`USAGE_BYTES`](sluicegate_base::bounds::USAGE_BYTES), so those of many limits have fewer keys each.
//! - While a temporary rule multiplies the rates of a limit, its sample is set aside and another one begins; at the end of the rule the
//!   first one goes on.
//! - A limit of windows that was not asked since its last walk is not walked. Of a bucket only the debt at the time of a walk is known:
//!   what was paid back since the look before is the error that a page shows, so buckets are always walked. The walks of all limits
//!   together take at most 1/[`USAGE_WALK_PAUSE`](sluicegate_base::bounds::USAGE_WALK_PAUSE) of one core.
//! - What a key wanted beyond the limit is not known, since a rejection charges nothing. Of a key that shared overflow
//!   counters one use is in the sample, with a mark; keys without a slot are in none.
//!
//! # Concurrency
//! A walk holds the lock of its limit's sample and a handle of the limit; it keeps no snapshot alive and blocks no charge.
#![forbid(unsafe_code)]
// A test that unwraps fails where it should.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

mod generation;
mod heaviest_keys;
mod key_sample;
mod limit_sample;
mod page;
mod rate_usage;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sluicegate_base::usage_share::UsageShare;
use sluicegate_limiter::Timestamp;

use limit_sample::LimitSample;
pub use limit_sample::UsageView;
pub use page::{PeakCount, RatePage, SharedCounters, UsagePage};
pub use rate_usage::{KeyEstimate, RateUsage};
use sluicegate_config::rules::Name;
use sluicegate_decide::admission::ActiveLimit;

/// The samples of all limits.
#[derive(Debug, Default)]
pub struct UsageSamples {
    limits: Mutex<SampledLimits>,
}

/// The samples by limit.
#[derive(Debug)]
struct SampledLimits {
    samples: BTreeMap<Name, LimitSamples>,
    /// The part of the memory that each table has.
    share: UsageShare,
}

/// A sample that its readers share.
type SharedSample = Arc<Mutex<LimitSample>>;

/// The samples of one limit.
#[derive(Debug)]
struct LimitSamples {
    /// The sample of the rates in force.
    in_force: SharedSample,
    /// The sample of the rates of the configuration while a temporary rule multiplies them; `None` where none does, or was never one.
    set_aside: Option<SharedSample>,
}

impl Default for SampledLimits {
    fn default() -> Self {
        Self {
            samples: BTreeMap::new(),
            share: UsageShare::new(0),
        }
    }
}

impl UsageSamples {
    /// Walks the limit now, if it was asked since the last walk and that is long enough ago, and returns what its sample shows.
    /// `events` counts what happened to the limit so far. Takes as long as a walk, tens of milliseconds for a large table.
    #[must_use]
    pub fn view(&self, active: &ActiveLimit, events: u64, now: Timestamp) -> UsageView {
        let sample = self.sample(active, now);
        let mut sample = lock(&sample);
        if sample.may_walk(now) {
            sample.walk(active, events, now);
        }
        sample.view(active, now)
    }

    /// Walks the limit, if it is due. Returns the duration, zero if nothing was read.
    pub fn walk_due(&self, active: &ActiveLimit, events: u64, now: Timestamp) -> Duration {
        let sample = self.sample(active, now);
        let mut sample = lock(&sample);
        match sample.is_due(now) {
            true => sample.walk(active, events, now),
            false => Duration::ZERO,
        }
    }

    /// Returns the sample of the limit; a new one, if it has none or its rules have changed.
    fn sample(&self, active: &ActiveLimit, now: Timestamp) -> SharedSample {
        let mut limits = lock(&self.limits);
        let share = limits.share;
        let name = Arc::clone(&active.name);
        let samples = limits.samples.entry(name);
        let samples = samples.or_insert_with(|| LimitSamples::new(active, share, now));
        samples.follow(active, share, now);
        Arc::clone(&samples.in_force)
    }

    /// Forgets the limits that are not among these.
    pub fn retain<T>(&self, limits: &BTreeMap<Name, T>) {
        let samples = &mut lock(&self.limits).samples;
        samples.retain(|name, _| limits.contains_key(name));
    }

    /// Divides the memory for samples among so many tables.
    pub fn divide(&self, tables: u64) {
        let share = UsageShare::new(tables);
        let mut limits = lock(&self.limits);
        if (limits.share.keys, limits.share.heaviest) == (share.keys, share.heaviest) {
            return;
        }
        limits.share = share;
        // A sample that is made meanwhile has the new bound already.
        let samples: Vec<_> = limits
            .samples
            .values()
            .flat_map(LimitSamples::all)
            .collect();
        drop(limits);
        for sample in samples {
            lock(&sample).bound(share);
        }
    }
}

impl LimitSamples {
    fn new(active: &ActiveLimit, share: UsageShare, now: Timestamp) -> Self {
        let sample = LimitSample::new(active, share, now);
        Self {
            in_force: Arc::new(Mutex::new(sample)),
            set_aside: None,
        }
    }

    /// Follows a change of the limit. The sample of the configured rates is set aside while a temporary rule
    /// multiplies them, since uses under one rate do not say what another would reject, and goes on when the rule ends.
    fn follow(&mut self, active: &ActiveLimit, share: UsageShare, now: Timestamp) {
        if lock(&self.in_force).is_of(active) {
            return;
        }
        let configured = (self.all()).find(|sample| lock(sample).is_of_configured(active));
        *self = match configured {
            Some(sample) if lock(&sample).is_of(active) => {
                lock(&sample).resume(active, now);
                Self {
                    in_force: sample,
                    set_aside: None,
                }
            }
            set_aside => Self {
                set_aside,
                ..Self::new(active, share, now)
            },
        };
    }

    fn all(&self) -> impl Iterator<Item = SharedSample> {
        let samples = [Some(&self.in_force), self.set_aside.as_ref()];
        samples.into_iter().flatten().map(Arc::clone)
    }
}

/// Takes a lock. A thread that panicked while it held the lock leaves a sample that lacks some keys.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
