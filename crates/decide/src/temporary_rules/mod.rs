//! Owns the rules that operators set for a time: clients and keys that are blocked, banned or exempt from the limits, and limits whose
//! rates are multiplied, until an end that each rule has.
//!
//! They stand beside the configuration and not in it
//! ([0070](../../../../docs/decisions/0070-temporary-rules-are-not-configuration.md)): a rule of an incident must be in force within a
//! second, on every gateway of a fleet, and must end by itself. [`RuleBook`] has the rules and merges those of several gateways;
//! [`RuleLookup`] is made of it at each change and finds the rules for a client; [`LimitEdits`] are compiled into a snapshot; `RuleFile`
//! keeps the book in `[server] state_dir`.
//!
//! # Concurrency
//! A request loads one pointer, and does nothing more where no rule is in force. Changes take a lock that no request takes.
//!
//! # Limits
//! At most [`TEMPORARY_RULES`](sluicegate_base::bounds::TEMPORARY_RULES) rules, each for at most
//! [`TEMPORARY_RULE_LENGTH`](sluicegate_base::bounds::TEMPORARY_RULE_LENGTH).

mod book;
mod file;
mod limit_edits;
mod lookup;
mod rule;
mod target;
mod written;

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::{ArcSwap, Guard};
use sluicegate_base::wakeup::TaskWakeup;
use sluicegate_limiter::Timestamp;
use tracing::{info, warn};

pub use self::book::{MergeResult, RuleBook, RuleBookFull, RuleEntry};
use self::file::RuleFile;
pub use self::limit_edits::LimitEdits;
pub use self::lookup::RuleLookup;
pub use self::rule::{RuleId, RuleLifetime, RuleScope, TemporaryRule, check_reason};
pub use self::target::{
    LimitKey, RateFactor, RuleEffect, RuleTarget, RuleWords, key_danger, written_key,
};
pub use self::written::{WrittenEntry, WrittenRule};

/// The target of process logs: the module of the gateway that had the rules, so that filters on it go on.
const LOG_TARGET: &str = "sluicegate::temporary_rules";

/// The temporary rules of a process.
#[derive(Debug, Default)]
pub struct TemporaryRules {
    state: Mutex<RuleState>,
    in_force: ArcSwap<RuleLookup>,
    /// Counts the changes.
    revision: AtomicU64,
    changed: TaskWakeup,
}

/// The number of rules in force by what they do, and the end of the one that ends first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuleFigures {
    /// Rules that block.
    pub block: usize,
    /// Rules that exempt.
    pub exempt: usize,
    /// Rules that ban.
    pub ban: usize,
    /// Rules that multiply rates.
    pub scale: usize,
    /// The end of the one that ends first.
    pub next_end: Option<Timestamp>,
}

#[derive(Debug, Default)]
struct RuleState {
    book: RuleBook,
    /// `None` without a state directory.
    file: Option<RuleFile>,
}

impl TemporaryRules {
    /// Reads the rules that earlier processes have left in a state directory, and keeps the rules there from now on. A file that cannot be
    /// read is logged, and stays beside the new one.
    pub fn keep_in(&self, directory: &Path, now: Timestamp) {
        let mut state = self.lock();
        state.file = Some(RuleFile::open(directory));
        self.read_again(&mut state, now);
        self.compile(&state, now);
        let number = state.book.rules().count();
        if number > 0 {
            info!(target: LOG_TARGET, "{number} temporary rules continue");
        }
    }

    /// Returns the rules in force, for one request.
    #[must_use]
    pub fn in_force(&self) -> Guard<Arc<RuleLookup>> {
        self.in_force.load()
    }

    /// Returns the rules about limits in force.
    #[must_use]
    pub fn limit_edits(&self, now: Timestamp) -> LimitEdits {
        let state = self.lock();
        LimitEdits::new(state.book.rules().filter(|rule| rule.until > now))
    }

    /// Returns the rules in force, those that end first at the front.
    #[must_use]
    pub fn list(&self, now: Timestamp) -> Vec<Arc<TemporaryRule>> {
        let state = self.lock();
        let rules = state.book.rules().filter(|rule| rule.until > now);
        let mut rules: Vec<_> = rules.map(Arc::clone).collect();
        rules.sort_by_key(|rule| (rule.until, rule.id));
        rules
    }

    /// Returns the number of rules in force, and the end of the one that ends first.
    #[must_use]
    pub fn figures(&self, now: Timestamp) -> RuleFigures {
        let state = self.lock();
        let mut figures = RuleFigures::default();
        for rule in state.book.rules().filter(|rule| rule.until > now) {
            match rule.effect {
                RuleEffect::Block => figures.block += 1,
                RuleEffect::Exempt => figures.exempt += 1,
                RuleEffect::Ban => figures.ban += 1,
                RuleEffect::Scale(_) => figures.scale += 1,
            }
            let ends = figures.next_end.into_iter().chain([rule.until]);
            figures.next_end = ends.min();
        }
        figures
    }

    /// Returns a number that differs after each change.
    #[must_use]
    pub fn revision(&self) -> u64 {
        // Relaxed: the number publishes nothing; who sees it reads the rules under the lock.
        self.revision.load(Ordering::Relaxed)
    }

    /// Returns why the rules do not outlive the process; `None` where they do.
    #[must_use]
    pub fn why_not_kept(&self) -> Option<String> {
        match &self.lock().file {
            None => Some("no [server] state_dir is configured".to_owned()),
            Some(file) => file.error().map(str::to_owned),
        }
    }

    /// Returns what is wrong with the file that keeps the rules, until an operator has changed a rule or the file is read without a
    /// fault; `None` where nothing is.
    #[must_use]
    pub fn file_fault(&self) -> Option<String> {
        let state = self.lock();
        let file = state.file.as_ref()?;
        file.fault().or(file.error()).map(str::to_owned)
    }

    /// Adds a rule in the place of those that do the same to the same clients, and returns these. `has_target` compares the target of
    /// another rule with that of this one.
    ///
    /// # Errors
    /// There are as many rules as there may be.
    pub fn add(
        &self,
        rule: TemporaryRule,
        has_target: impl Fn(&RuleTarget) -> bool,
        now: Timestamp,
    ) -> Result<Vec<Arc<TemporaryRule>>, RuleBookFull> {
        let mut state = self.lock();
        self.read_again(&mut state, now);
        let replaced = state.book.add(rule, has_target, now)?;
        self.apply(&mut state, now);
        Ok(replaced)
    }

    /// Removes rules and returns those that were in force.
    pub fn remove(&self, ids: &[RuleId], now: Timestamp) -> Vec<Arc<TemporaryRule>> {
        let mut state = self.lock();
        self.read_again(&mut state, now);
        let removed = ids.iter().filter_map(|id| state.book.remove(*id, now));
        let removed: Vec<_> = removed.collect();
        if !removed.is_empty() {
            self.apply(&mut state, now);
        }
        removed
    }

    /// Takes over what other gateways have published. A rule that no gateway may have is logged.
    pub fn merge(&self, entries: impl IntoIterator<Item = RuleEntry>, now: Timestamp) {
        let mut state = self.lock();
        let merged = state.book.merge_all(entries, now);
        if let Some(first) = merged.refused.first() {
            let number = merged.refused.len();
            warn!(target: LOG_TARGET, "{number} temporary rules of the store are ignored; the first: {first}");
        }
        if merged.is_changed {
            self.keep(&mut state, now);
        }
    }

    /// Drops the rules that have ended and returns them, and takes over what another process, such as the one before an upgrade, has
    /// written to the file.
    pub fn tick(&self, now: Timestamp) -> Vec<Arc<TemporaryRule>> {
        let mut state = self.lock();
        let is_new = self.read_again(&mut state, now);
        let ended = state.book.expire(now);
        if !ended.is_empty() || is_new {
            self.keep(&mut state, now);
        }
        ended
    }

    /// Returns the entries that all gateways of a fleet share.
    #[must_use]
    pub fn shared_entries(&self) -> Vec<RuleEntry> {
        let state = self.lock();
        let shared = state.book.entries().filter(RuleEntry::is_shared);
        shared.collect()
    }

    /// Completes when an operator has changed a rule here since the last call.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Puts a change by an operator in force. The file is whole after it.
    fn apply(&self, state: &mut RuleState, now: Timestamp) {
        self.keep(state, now);
        if let Some(file) = &mut state.file {
            file.forget_fault();
        }
        self.changed.notify();
    }

    /// Puts the book in force and writes it to the file.
    fn keep(&self, state: &mut RuleState, now: Timestamp) {
        self.compile(state, now);
        if let Some(file) = &mut state.file {
            file.write(&state.book);
        }
    }

    fn compile(&self, state: &RuleState, now: Timestamp) {
        let rules = state.book.rules().filter(|rule| rule.until > now);
        self.in_force.store(Arc::new(RuleLookup::new(rules)));
        self.revision.fetch_add(1, Ordering::Relaxed);
    }

    /// Reads the file again if another process has written it. Returns whether something changed.
    fn read_again(&self, state: &mut RuleState, now: Timestamp) -> bool {
        let Some(file) = &mut state.file else {
            return false;
        };
        let is_first = !file.is_read();
        let Some(mut contents) = file.read_if_changed() else {
            return false;
        };
        let merged = state.book.merge_all(contents.entries, now);
        contents.faults.extend(merged.refused);
        file.judge(&contents.bytes, &contents.faults);
        if merged.is_changed && !is_first {
            warn!(target: LOG_TARGET, "another process has changed the temporary rules; its changes are in force");
        }
        merged.is_changed
    }

    fn lock(&self) -> MutexGuard<'_, RuleState> {
        // Entries are whole, so a poisoned lock still holds some.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
