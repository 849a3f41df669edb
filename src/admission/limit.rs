//! Owns a limit in force: its counters, its key, and everything about it that can be written before a request comes.

use std::sync::atomic::{AtomicBool, Ordering};

use sluicegate_limiter::{Limit, Timestamp};

use crate::config::rules::{KeyTemplate, LimitRules, Name, OnMissing};
use crate::response::PolicyItems;

/// One limit of a snapshot.
#[derive(Debug)]
pub struct ActiveLimit {
    /// Its name.
    pub name: Name,
    /// What it counts by.
    pub key: KeyTemplate,
    /// What holds for requests that lack a part of it.
    pub on_missing: Option<OnMissing>,
    /// Its counters.
    pub limit: Limit,
    /// Its items of the RateLimit fields and the bodies of its refusals.
    pub items: PolicyItems,
    overflow_announced: AtomicBool,
}

impl ActiveLimit {
    /// A limit as the rules have it, with the counters of `previous` where these still mean the same.
    ///
    /// Counters survive any edit that leaves the key alone (contract C4).
    #[must_use]
    pub fn new(
        name: &Name,
        rules: &LimitRules,
        previous: Option<&ActiveLimit>,
        now: Timestamp,
    ) -> Self {
        let kept = previous.filter(|before| before.key == rules.key);
        Self {
            name: name.clone(),
            key: rules.key.clone(),
            on_missing: rules.on_missing,
            limit: match kept {
                Some(before) => before
                    .limit
                    .edited(rules.policy.clone(), rules.capacity, now),
                None => Limit::new(rules.policy.clone(), rules.capacity),
            },
            items: PolicyItems::new(name, rules.policy.rates()),
            overflow_announced: AtomicBool::new(
                kept.is_some_and(|before| before.overflow_announced.load(Ordering::Relaxed)),
            ),
        }
    }

    /// Whether the caller is the first to notice that newcomers of this limit share counters (contract C3: logged once).
    #[must_use]
    pub fn announce_overflow(&self) -> OverflowNews {
        // Relaxed: the flag guards one log line and publishes nothing. The load keeps the line shared under a flood.
        if self.overflow_announced.load(Ordering::Relaxed)
            || self.overflow_announced.swap(true, Ordering::Relaxed)
        {
            OverflowNews::Known
        } else {
            OverflowNews::First
        }
    }
}

/// Whether an overflow was already announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverflowNews {
    /// This is the first.
    First,
    /// It was said before.
    Known,
}
