//! Reads the configuration again, puts it in force, and reports the result.

use std::collections::{BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use sluicegate_base::bounds::{RELOAD_CHANGES_KEPT, RELOAD_ERROR_KEPT, RELOADS_KEPT};
use sluicegate_base::clock;
use sluicegate_decide::route;
use sluicegate_decide::state::CounterStorage;
use sluicegate_limiter::Timestamp;
use tracing::{error, info, warn};

use super::lifecycle::{Lifecycle, Phase};
use super::reload_requests::ReloadRequests;
use super::shared_state::SharedState;
use super::watch::FilesVersion;
use crate::snapshot::keep_addresses;
use crate::supervisor;
use sluicegate_config::rules::{Http3, Rules};
use sluicegate_config::{Loaded, MemoryPlan, Problems};
use sluicegate_history::MarkKind;

/// Reloads the configuration.
pub struct Reloader {
    /// The storage of the limits' counters.
    pub storage: Arc<CounterStorage>,
    /// The files as they were when the process started.
    pub version_at_start: FilesVersion,
    /// The reloads that operators ask for.
    pub requests: ReloadRequests,
    file: PathBuf,
    bound: Bound,
    follower: OnceLock<RulesFollower>,
    /// Held while a snapshot is compiled and put in force.
    turn: Mutex<()>,
    /// The latest reloads, the last one at the end.
    reports: Mutex<VecDeque<ReloadReport>>,
    /// The time at which the configuration in force was read last, in nanoseconds.
    loaded_at: AtomicU64,
}

/// Applies rules to what the process has opened.
type RulesFollower = Box<dyn Fn(&Rules) + Send + Sync>;

/// Settings that only a restart can change.
struct Bound {
    addresses: BTreeSet<SocketAddr>,
    /// Those where HTTP/3 is spoken.
    http3: BTreeSet<SocketAddr>,
    admin: Option<SocketAddr>,
    threads: usize,
    /// The keep-alive of HTTP/2 connections.
    state_dir: Option<PathBuf>,
}

/// The cause of a reload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReloadTrigger {
    /// A signal.
    Hangup,
    /// A file of the configuration has changed.
    Files,
    /// Requests of the admin API, by these peers.
    Requests(Vec<String>),
}

/// The result of a reload.
#[derive(Clone, Debug)]
pub struct ReloadReport {
    /// The time.
    pub at: Timestamp,
    /// Its cause.
    pub trigger: ReloadTrigger,
    /// The error; `None` when it succeeded.
    pub error: Option<String>,
    /// Settings of the file in force that wait for a restart.
    pub pending_restart: Vec<String>,
    /// Its changes.
    pub changes: Vec<String>,
    /// Changes that are no longer kept, because other reloads followed.
    pub changes_omitted: usize,
}

impl Reloader {
    pub(super) fn new(file: &Path, rules: &Rules, storage: CounterStorage) -> Self {
        tell_broken(rules);
        Self {
            storage: Arc::new(storage),
            version_at_start: FilesVersion::new(&files_of(file, rules)),
            requests: ReloadRequests::default(),
            file: file.to_owned(),
            bound: Bound {
                addresses: addresses(rules),
                http3: http3_addresses(rules),
                admin: rules.admin.address,
                threads: rules.server.threads,
                state_dir: rules.server.state_dir.clone(),
            },
            follower: OnceLock::new(),
            turn: Mutex::new(()),
            reports: Mutex::default(),
            loaded_at: AtomicU64::new(clock::now().as_nanos()),
        }
    }

    /// Calls `follower` with the rules of each reload that changes something, before the reload is reported. The first call of this
    /// method counts.
    pub fn follow(&self, follower: impl Fn(&Rules) + Send + Sync + 'static) {
        // The follower of the first call stays.
        let _ = self.follower.set(Box::new(follower));
    }

    /// Returns the file that the configuration comes from.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }

    pub(super) fn files(&self, shared: &SharedState) -> Vec<PathBuf> {
        files_of(&self.file, &shared.snapshot().compiled.rules)
    }

    pub(super) fn reload(
        &self,
        shared: &SharedState,
        lifecycle: &Lifecycle,
        trigger: ReloadTrigger,
    ) {
        // Another process, or the start, reports READY before that phase.
        let told = lifecycle.phase() == Phase::Serving;
        if told {
            supervisor::reloading();
        }
        let in_force = shared.snapshot();
        match sluicegate_config::load_again(&self.file, route::review, &in_force.compiled.rules) {
            Ok(Loaded { rules, warnings }) => {
                if !warnings.is_empty() {
                    warn!("{}", warnings.for_readers());
                }
                if let Some(warning) = MemoryPlan::new(&rules).warning() {
                    warn!("{warning}");
                }
                self.apply(shared, rules, &warnings, trigger);
            }
            Err(problems) => self.keep(shared, problems.for_readers(), trigger),
        }
        if told {
            supervisor::ready(match self.last_reload() {
                Some(ReloadReport { error: Some(_), .. }) => {
                    "serving; the configuration was not reloaded"
                }
                _ => "serving",
            });
        }
    }

    /// Returns the settings of `rules` that wait for a restart.
    pub(super) fn pending_restart(&self, rules: &Rules) -> Vec<String> {
        self.bound.differences(rules)
    }

    /// Leaves the old rules in force and reports the error.
    fn keep(&self, shared: &SharedState, error: String, trigger: ReloadTrigger) {
        error!("the configuration was not reloaded, the old one stays in force:\n{error}");
        shared.recorder.metrics.reloads.failed();
        let pending_restart = self
            .last_reload()
            .map_or_else(Vec::new, |report| report.pending_restart);
        let report = ReloadReport {
            at: clock::now(),
            trigger,
            error: Some(error),
            pending_restart,
            changes: Vec::new(),
            changes_omitted: 0,
        };
        self.keep_report(shared, report);
    }

    /// Compiles the limits again where temporary rules about them have changed.
    pub(super) fn follow_temporary_rules(&self, shared: &SharedState) {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let in_force = shared.snapshot();
        let now = clock::now();
        if shared.temporary.limit_edits(now) == in_force.compiled.limit_edits {
            return;
        }
        let rules = in_force.compiled.rules.clone();
        let generation = shared.put_in_force(rules, &in_force, &self.storage, now);
        info!("configuration {generation} is in force, with other temporary rules of limits");
    }

    fn apply(
        &self,
        shared: &SharedState,
        mut rules: Rules,
        warnings: &Problems,
        trigger: ReloadTrigger,
    ) {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let previous = shared.snapshot();
        if let Err(error) = rules.keep_files(&previous.compiled.rules) {
            let error = if warnings.is_empty() {
                error.to_string()
            } else {
                format!("{error}\n{}", warnings.for_readers())
            };
            return self.keep(shared, error, trigger);
        }
        keep_addresses(&mut rules, &previous);
        tell_broken(&rules);
        let logs = (shared.recorder).retarget_logs(&rules, &previous.compiled.rules);
        if let Err(error) = logs {
            return self.keep(shared, error, trigger);
        }
        let now = clock::now();
        let pending_restart = self.pending_restart(&rules);
        for setting in &pending_restart {
            warn!("{setting} takes effect at the next restart");
        }
        let changes = rules.changes_since(&previous.compiled.rules);
        if changes.is_empty() {
            info!("reloaded: nothing changed");
        } else {
            if let Some(follower) = self.follower.get() {
                follower(&rules);
            }
            let generation = shared.put_in_force(rules, &previous, &self.storage, now);
            info!("configuration {generation} is in force");
            for change in &changes {
                info!("changed: {change}");
            }
        }
        // Relaxed: the time is a fact by itself, which publishes nothing.
        self.loaded_at.store(now.as_nanos(), Ordering::Relaxed);
        shared.recorder.metrics.reloads.succeeded();
        let report = ReloadReport {
            at: now,
            trigger,
            error: None,
            pending_restart,
            changes,
            changes_omitted: 0,
        };
        self.keep_report(shared, report);
    }

    /// Keeps the result of a reload, and marks it in the history.
    fn keep_report(&self, shared: &SharedState, report: ReloadReport) {
        let kind = match report.error {
            Some(_) => MarkKind::ReloadRefused,
            None => MarkKind::Reload,
        };
        (shared.history).mark(report.at, kind, "", &report.sentence());
        let mut reports = self.lock_reports();
        if let Some(former) = reports.back_mut() {
            former.shorten();
        }
        reports.push_back(report);
        if reports.len() > RELOADS_KEPT {
            reports.pop_front();
        }
    }

    /// Returns the time of the last reload that was accepted, or of the start.
    #[must_use]
    pub fn loaded_at(&self) -> Timestamp {
        Timestamp::from_nanos(self.loaded_at.load(Ordering::Relaxed))
    }

    /// Returns the result of the last reload; `None` when there was none.
    #[must_use]
    pub fn last_reload(&self) -> Option<ReloadReport> {
        self.lock_reports().back().cloned()
    }

    /// Returns the results of the last reloads, the latest first.
    #[must_use]
    pub fn reloads(&self) -> Vec<ReloadReport> {
        self.lock_reports().iter().rev().cloned().collect()
    }

    fn lock_reports(&self) -> MutexGuard<'_, VecDeque<ReloadReport>> {
        // A report is added as a whole, so a poisoned lock still holds whole ones.
        self.reports.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReloadReport {
    /// Returns the first line of the error: warnings and excerpts of the file may stand before it. `None` when the reload succeeded.
    #[must_use]
    pub fn cause(&self) -> Option<&str> {
        let error = self.error.as_deref()?;
        let is_error = |line: &&str| {
            let is_excerpt = line.is_empty() || line.starts_with(' ');
            !is_excerpt && !line.contains(": warning: ")
        };
        Some(error.lines().find(is_error).unwrap_or(error))
    }

    /// Returns what happened in one sentence.
    fn sentence(&self) -> String {
        if let Some(cause) = self.cause() {
            return format!("The reload was refused: {cause}");
        }
        match self.changes.as_slice() {
            [] => "Reloaded: nothing changed.".to_owned(),
            [change] => format!("Reloaded: {change}."),
            [change, others @ ..] => format!("Reloaded: {change}; and {} more.", others.len()),
        }
    }

    /// Leaves out what only the last report has.
    fn shorten(&mut self) {
        self.changes_omitted += self.changes.len().saturating_sub(RELOAD_CHANGES_KEPT);
        self.changes.truncate(RELOAD_CHANGES_KEPT);
        if let Some(error) = &mut self.error {
            error.truncate(error.floor_char_boundary(RELOAD_ERROR_KEPT));
        }
    }
}

impl std::fmt::Display for ReloadTrigger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Hangup => f.write_str("SIGHUP"),
            Self::Files => f.write_str("a changed file"),
            Self::Requests(peers) if peers.is_empty() => f.write_str("the admin API"),
            Self::Requests(peers) => write!(f, "the admin API, from {}", peers.join(", ")),
        }
    }
}

/// Returns the files whose change is a change of the configuration, and those that `include` would name now.
fn files_of(file: &Path, rules: &Rules) -> Vec<PathBuf> {
    let mut files = vec![file.to_owned()];
    files.extend(rules.files());
    // A pattern is watched by its own name.
    files.extend(rules.patterns.iter().cloned());
    files.extend(sluicegate_config::matching(&rules.patterns));
    files.sort();
    files.dedup();
    files
}

/// Logs which files are invalid, and what applies meanwhile.
fn tell_broken(rules: &Rules) {
    for broken in rules.broken_files() {
        error!("{broken}");
    }
}

/// Returns the addresses of the listeners; their protocols follow a reload.
fn addresses(rules: &Rules) -> BTreeSet<SocketAddr> {
    let listeners = rules.listeners.iter();
    listeners.map(|listener| listener.address).collect()
}

fn http3_addresses(rules: &Rules) -> BTreeSet<SocketAddr> {
    let listeners = rules.listeners.iter();
    listeners
        .filter(|listener| listener.http3 == Http3::Accepted)
        .map(|listener| listener.address)
        .collect()
}

impl Bound {
    fn differences(&self, rules: &Rules) -> Vec<String> {
        let mut pending = Vec::new();
        if self.addresses != addresses(rules) {
            pending.push("listener.address".to_owned());
        }
        // That of another address waits with the address.
        let listened = addresses(rules);
        let is_kept =
            |address: &SocketAddr| self.addresses.contains(address) && listened.contains(address);
        let http3 = http3_addresses(rules);
        if self.http3.symmetric_difference(&http3).any(is_kept) {
            pending.push("listener.http3".to_owned());
        }
        if self.admin != rules.admin.address {
            pending.push("admin.address".to_owned());
        }
        if self.threads != rules.server.threads {
            pending.push("server.threads".to_owned());
        }
        if self.state_dir != rules.server.state_dir {
            pending.push("server.state_dir".to_owned());
        }
        pending
    }
}
