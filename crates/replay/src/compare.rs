//! Compares the decisions of two configurations over the same requests.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::engine::{ReplayEngine, ReplayOutcome};
use super::report::{LimitReport, OutcomeSummary, ReplayReport};

/// Keys that are listed of each limit.
const LISTED_KEYS: usize = 10;

/// The requests by the decisions of both configurations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RequestChanges {
    /// Admitted by both.
    pub admitted_by_both: u64,
    /// Rejected by both, whatever the reason.
    pub rejected_by_both: u64,
    /// Rejected by the new configuration only.
    pub newly_rejected: u64,
    /// Admitted by the new configuration only.
    pub newly_admitted: u64,
}

/// The differences between two configurations.
#[derive(Clone, Debug, Serialize)]
pub struct ConfigComparison {
    /// The file of the old configuration.
    pub config: String,
    /// The requests by both decisions.
    pub changes: RequestChanges,
    /// The results of all requests under the old configuration.
    #[serde(flatten)]
    pub outcomes: OutcomeSummary,
    /// Each limit that both configurations have with the same key.
    pub differences: BTreeMap<String, LimitDifference>,
    /// Limits that only the new configuration has, or has with another key.
    pub added: Vec<String>,
    /// Limits that only the old configuration has, or has with another key.
    pub removed: Vec<String>,
    /// The limits of the old configuration.
    pub limits: BTreeMap<String, LimitReport>,
}

/// The difference between the keys that a limit rejects under both configurations.
#[derive(Clone, Debug, Serialize)]
pub struct LimitDifference {
    /// Keys that only the new configuration rejects.
    pub keys_newly_rejected: u64,
    /// Keys that only the old configuration rejects.
    pub keys_no_longer_rejected: u64,
    /// Keys that both reject.
    pub keys_rejected_by_both: u64,
    /// The keys with the largest difference.
    pub keys: Vec<KeyDifference>,
}

/// The rejections of a key under both configurations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KeyDifference {
    /// Its values; its hash where the log does not have them.
    pub key: String,
    /// Requests.
    pub requests: u32,
    /// Rejections under the old configuration.
    pub rejected_before: u32,
    /// Rejections under the new one.
    pub rejected_now: u32,
}

impl RequestChanges {
    /// Counts a request.
    pub(super) fn add(&mut self, before: ReplayOutcome, now: ReplayOutcome) {
        let is_admitted = |outcome| outcome == ReplayOutcome::Admitted;
        let count = match (is_admitted(before), is_admitted(now)) {
            (true, true) => &mut self.admitted_by_both,
            (false, false) => &mut self.rejected_by_both,
            (true, false) => &mut self.newly_rejected,
            (false, true) => &mut self.newly_admitted,
        };
        *count += 1;
    }
}

impl ConfigComparison {
    /// Compares what both engines have counted. `report` is that of the new one, `before` that of the old one, whose file is `config`.
    pub(super) fn new(
        config: String,
        changes: RequestChanges,
        (old, before): (&ReplayEngine, ReplayReport),
        (new, report): (&ReplayEngine, &ReplayReport),
    ) -> Self {
        let is_same = |name: &str| {
            let before = before.limits.get(name);
            let now = report.limits.get(name);
            before
                .zip(now)
                .is_some_and(|(before, now)| before.key == now.key)
        };
        let only_in = |report: &ReplayReport| {
            let names = report.limits.keys().filter(|name| !is_same(name));
            names.cloned().collect::<Vec<_>>()
        };
        let differences = report.limits.keys().filter(|name| is_same(name));
        let differences = differences.filter_map(|name| {
            let difference = LimitDifference::new(name, old, new)?;
            Some((name.clone(), difference))
        });
        Self {
            config,
            changes,
            outcomes: before.outcomes,
            differences: differences.collect(),
            added: only_in(report),
            removed: only_in(&before),
            limits: before.limits,
        }
    }
}

impl LimitDifference {
    fn new(name: &str, old: &ReplayEngine, new: &ReplayEngine) -> Option<Self> {
        let before = &old.counts_of(name)?.keys;
        let now = &new.counts_of(name)?.keys;
        let rejected = before.rejected().chain(now.rejected());
        let keys: BTreeSet<u64> = rejected.map(|(key, _)| key).collect();
        let mut changed = Vec::new();
        let mut newly = 0;
        let mut no_longer = 0;
        let mut both = 0;
        for key in keys {
            let was = before.get(key);
            let is = now.get(key);
            match (was.rejected > 0, is.rejected > 0) {
                (false, _) => newly += 1,
                (true, false) => no_longer += 1,
                (true, true) => both += 1,
            }
            if was.rejected != is.rejected {
                changed.push((key, was.rejected, is));
            }
        }
        changed.sort_by_key(|(key, before, now)| (u32::MAX - before.abs_diff(now.rejected), *key));
        let listed = changed
            .iter()
            .take(LISTED_KEYS)
            .map(|(key, rejected_before, count)| KeyDifference {
                key: if count.rejected > 0 {
                    now.shown(*key)
                } else {
                    before.shown(*key)
                },
                requests: count.requests.max(before.get(*key).requests),
                rejected_before: *rejected_before,
                rejected_now: count.rejected,
            });
        Some(Self {
            keys: listed.collect(),
            keys_newly_rejected: newly,
            keys_no_longer_rejected: no_longer,
            keys_rejected_by_both: both,
        })
    }
}
