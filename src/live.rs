//! Owns what all requests and background services share: the snapshot in force, the recorder, and how the last reload went.
//!
//! # Concurrency
//! A reload builds a whole snapshot beside the one in force and swaps it once; requests under way keep the one they took.

mod asked;
pub mod watch;

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use sluicegate_limiter::{Counted, Timestamp};
use tracing::{error, info, warn};

use crate::acme::Acme;
use crate::admission::{ActiveLimit, AdmissionReport, KeySeed, OverflowNews};
use crate::budgets::{Admittance, DelayedRequests, OpenFiles, OriginRequests, UnreadAnswers};
use crate::cache::ResponseCache;
use crate::clock;
use crate::config::rules::{ReadyWhen, Rules};
use crate::config::{self, AvailableMemory, Loaded, MemoryPlan, Problems};
use crate::in_force::InForce;
use crate::origin::HopName;
use crate::record::{Outcome, Recorder};
use crate::snapshot::{Snapshot, keep_addresses};
use crate::state::CounterStorage;
use crate::supervisor;
use crate::tls::Certificates;

pub use self::asked::ReloadWishes;
use self::watch::Version;

/// Shared by all requests of the process.
pub struct Live {
    /// The secret of the limits' keys.
    pub seed: KeySeed,
    /// Where their counters live.
    pub home: Arc<CounterStorage>,
    /// What it calls itself to origins.
    pub hop: HopName,
    /// Access log and metrics.
    pub recorder: Recorder,
    /// The certificates that come at run time.
    pub certificates: Arc<Certificates>,
    /// When the process started.
    pub started: Timestamp,
    /// The files as they were then.
    pub version_at_start: Version,
    /// What is kept of answers.
    pub cache: &'static ResponseCache,
    file: PathBuf,
    /// Connections of clients.
    pub admittance: Admittance,
    /// Requests on their way to origins.
    pub origin_requests: Arc<OriginRequests>,
    /// Bytes of answers that wait for clients.
    pub unread_answers: Arc<UnreadAnswers>,
    /// Requests that are held back.
    pub delayed: DelayedRequests,
    /// What ordered certificates have to do with requests.
    pub acme: Arc<Acme>,
    snapshot: ArcSwap<Snapshot>,
    bound: Bound,
    last_reload: Mutex<Option<ReloadReport>>,
    scratch: OnceLock<PathBuf>,
    /// Reloads that an operator wishes for.
    pub wishes: ReloadWishes,
    phase: AtomicU8,
    was_ready: AtomicBool,
}

/// How far the process is between its start and its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    /// Not every listener accepts yet.
    Starting,
    /// Requests are welcome.
    Serving,
    /// The process is about to stop.
    Draining,
}

/// What only a restart can change.
struct Bound {
    addresses: BTreeSet<SocketAddr>,
    admin: Option<SocketAddr>,
    threads: usize,
    /// Of HTTP/2 connections.
    keepalive: Duration,
    state_dir: Option<PathBuf>,
}

/// How the last reload went.
#[derive(Clone, Debug)]
pub struct ReloadReport {
    /// When.
    pub at: Timestamp,
    /// Why it failed; `None` when it did not.
    pub error: Option<String>,
    /// Settings of the file in force that wait for a restart.
    pub pending_restart: Vec<String>,
    /// What it changed.
    pub changes: Vec<String>,
}

impl Live {
    /// The state of a process that starts with `rules` from `file`; keys are hashed under the seed of their counters' home.
    #[must_use]
    pub fn new(
        file: &Path,
        rules: Rules,
        recorder: Recorder,
        home: CounterStorage,
        seed: KeySeed,
        open_files: OpenFiles,
    ) -> Self {
        let now = clock::now();
        let bound = Bound {
            addresses: addresses(&rules),
            admin: rules.admin.address,
            threads: rules.server.threads,
            keepalive: rules.server.keepalive_timeout,
            state_dir: rules.server.state_dir.clone(),
        };
        let cache = ResponseCache::of_the_process(&rules.cache);
        let files = files_of(file, &rules);
        tell_broken(&rules);
        let admittance = Admittance::new(open_files, &rules);
        let origin_requests = OriginRequests::new(open_files, &rules);
        let snapshot = Snapshot::compile(rules, None, &home, &recorder.metrics, &seed, now);
        if let Some(store) = &snapshot.store {
            store.start();
        }
        Self {
            hop: HopName::new(seed.tag([&b"CDN-Loop"[..]])),
            seed,
            home: Arc::new(home),
            recorder,
            certificates: Arc::clone(&snapshot.certificates),
            started: now,
            version_at_start: Version::of(&files),
            cache,
            file: file.to_owned(),
            admittance,
            origin_requests: Arc::new(origin_requests),
            unread_answers: Arc::new(UnreadAnswers::new(
                AvailableMemory::of_the_process().as_ref(),
            )),
            delayed: DelayedRequests::default(),
            acme: Arc::default(),
            snapshot: ArcSwap::from_pointee(snapshot),
            bound,
            last_reload: Mutex::new(None),
            scratch: OnceLock::new(),
            wishes: ReloadWishes::default(),
            phase: AtomicU8::new(Phase::Starting as u8),
            was_ready: AtomicBool::new(false),
        }
    }

    /// Whether what `[store] required_for_ready` asks for has come, once for all: a later change of `[store]`, or a store that goes
    /// away, does not take a gateway out of service.
    #[must_use]
    pub fn has_what_it_needs(&self) -> bool {
        // Relaxed, here and below: advice to load balancers, publishes nothing.
        if self.was_ready.load(Ordering::Relaxed) {
            return true;
        }
        let snapshot = self.snapshot.load();
        let has = snapshot
            .store
            .as_ref()
            .is_none_or(|link| link.rules().ready == ReadyWhen::Serving || link.was_connected());
        if has && self.phase() == Phase::Serving {
            self.was_ready.store(true, Ordering::Relaxed);
        }
        has
    }

    /// The snapshot in force.
    #[must_use]
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.load_full()
    }

    /// Returns what reads a part of the snapshot in force, for a task in the background.
    #[must_use]
    pub fn in_force<T>(
        self: &Arc<Self>,
        read: impl Fn(&Snapshot) -> T + Send + Sync + 'static,
    ) -> InForce<T> {
        let live = Arc::clone(self);
        InForce::new(move || read(&live.snapshot.load()))
    }

    /// The file that the configuration comes from.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The files whose change is a change of the configuration, those that `include` would name now among them.
    #[must_use]
    pub fn files(&self) -> Vec<PathBuf> {
        files_of(&self.file, &self.snapshot.load().rules)
    }

    /// Counts each refusal by a counter that new keys share, and says once a limit that its new keys do (contract C3): in the log now,
    /// in metric and status as long as it lasts. The same of new keys of a client that has taken its share, once a minute. To be called
    /// once for each request that limits were asked about.
    pub fn notice_overflow(
        &self,
        limits: &[Arc<ActiveLimit>],
        judged: &AdmissionReport,
        client: IpAddr,
    ) {
        let asked = judged.asked(limits);
        let in_verdict = asked
            .zip(judged.verdict.decisions())
            .filter(|(_, decision)| decision.counted() != Counted::Alone)
            .inspect(|(active, decision)| active.limit.count_refusal(decision))
            .map(|(active, decision)| (active, decision.counted()));
        let notes = judged.beside.iter().flat_map(|beside| &beside.notes);
        let beside = notes
            .filter_map(|note| {
                let active = limits.get(usize::from(note.limit))?;
                Some((&**active, note.event.counted()?))
            })
            .inspect(|(active, counted)| active.limit.count_refusal_as(*counted));
        for (active, counted) in in_verdict.chain(beside) {
            match counted {
                Counted::Alone => {}
                Counted::InOverflow => tell_overflow(active),
                Counted::OverShare => tell_share(active, client),
            }
        }
    }

    /// Has this directory removed when the process ends.
    pub fn remove_at_end(&self, directory: PathBuf) {
        // One a process; a second would be the same.
        let _ = self.scratch.set(directory);
    }

    /// Removes what goes with the process.
    pub fn clean_up(&self) {
        if let Some(directory) = self.scratch.get()
            && let Err(error) = std::fs::remove_dir_all(directory)
        {
            warn!("{} stays: {error}", directory.display());
        }
    }

    /// Remembers a request.
    pub fn record(&self, outcome: &Outcome<'_>) {
        self.recorder.record(outcome);
    }

    /// Reads the file again and swaps it in; a broken file leaves the old rules in force and is reported.
    pub fn reload(&self) {
        // Before that READY is not this one's to say.
        let told = self.phase() == Phase::Serving;
        if told {
            supervisor::reloading();
        }
        // Only the reload service calls this, so compile and swap see the same predecessor.
        match config::load(&self.file) {
            Ok(Loaded { rules, warnings }) => {
                if !warnings.is_empty() {
                    warn!("{warnings}");
                }
                if let Some(warning) = MemoryPlan::of(&rules).warning() {
                    warn!("{warning}");
                }
                self.swap(rules, &warnings);
            }
            Err(problems) => self.keep(problems.to_string()),
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

    fn keep(&self, error: String) {
        error!("the configuration was not reloaded, the old one stays in force:\n{error}");
        self.recorder.metrics.reloads.failed();
        let pending_restart = self
            .last_reload()
            .map_or_else(Vec::new, |report| report.pending_restart);
        *self.lock_report() = Some(ReloadReport {
            at: clock::now(),
            error: Some(error),
            pending_restart,
            changes: Vec::new(),
        });
    }

    fn swap(&self, mut rules: Rules, warnings: &Problems) {
        let previous = self.snapshot();
        if let Err(error) = rules.keep_files(&previous.rules) {
            return self.keep(format!("{warnings}\n{error}"));
        }
        keep_addresses(&mut rules, &previous);
        tell_broken(&rules);
        if let Err(error) = self.recorder.log.retarget(&rules.log) {
            return self.keep(format!(
                "log.access: {error}; write a path that can be opened"
            ));
        }
        let now = clock::now();
        let pending_restart = self.bound.differences(&rules);
        for setting in &pending_restart {
            warn!("{setting} takes effect at the next restart");
        }
        let changes = rules.changes_since(&previous.rules);
        if changes.is_empty() {
            info!("reloaded: nothing changed");
        } else {
            self.cache.shelves.resize(rules.cache.memory);
            let metrics = &self.recorder.metrics;
            let next =
                Snapshot::compile(rules, Some(&previous), &self.home, metrics, &self.seed, now);
            let routes = next.routes.iter().map(|route| &route.metrics);
            self.recorder.metrics.retain_routes(routes);
            self.admittance.follow(&next.rules);
            self.origin_requests.follow(&next.rules);
            if let Some(store) = &next.store {
                store.start();
            }
            info!("configuration {} is in force", next.generation);
            for change in &changes {
                info!("changed: {change}");
            }
            self.snapshot.store(Arc::new(next));
        }
        self.recorder.metrics.reloads.succeeded();
        *self.lock_report() = Some(ReloadReport {
            at: now,
            error: None,
            pending_restart,
            changes,
        });
    }

    /// How the last reload went; `None` when there was none.
    #[must_use]
    pub fn last_reload(&self) -> Option<ReloadReport> {
        self.lock_report().clone()
    }

    /// Goes on to `phase`; never back.
    pub fn enter(&self, phase: Phase) {
        // Relaxed: advice to load balancers, publishes nothing.
        self.phase.fetch_max(phase as u8, Ordering::Relaxed);
    }

    /// How far the process is.
    #[must_use]
    pub fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Relaxed) {
            0 => Phase::Starting,
            1 => Phase::Serving,
            _ => Phase::Draining,
        }
    }

    fn lock_report(&self) -> std::sync::MutexGuard<'_, Option<ReloadReport>> {
        // The report is replaced whole, so a poisoned lock still holds one.
        self.last_reload
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// The files whose change is a change of the configuration, those that `include` would name now among them.
fn files_of(file: &Path, rules: &Rules) -> Vec<PathBuf> {
    let mut files = vec![file.to_owned()];
    files.extend(rules.files());
    // A pattern is watched as the name that it is.
    files.extend(rules.patterns.iter().cloned());
    files.extend(config::matching(&rules.patterns));
    files.sort();
    files.dedup();
    files
}

/// Says which files are broken, and what holds meanwhile.
fn tell_broken(rules: &Rules) {
    for broken in rules.broken_files() {
        error!("{broken}");
    }
}

/// Where the rules have a listener; what is spoken there follows a reload.
fn addresses(rules: &Rules) -> BTreeSet<SocketAddr> {
    let listeners = rules.listeners.iter();
    listeners.map(|listener| listener.address).collect()
}

impl Bound {
    fn differences(&self, rules: &Rules) -> Vec<String> {
        let mut pending = Vec::new();
        if self.addresses != addresses(rules) {
            pending.push("listener.address".to_owned());
        }
        if self.admin != rules.admin.address {
            pending.push("admin.address".to_owned());
        }
        if self.keepalive != rules.server.keepalive_timeout {
            pending.push("server.keepalive_timeout for HTTP/2".to_owned());
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
/// Says that newcomers of a limit share counters.
fn tell_overflow(active: &ActiveLimit) {
    if active.announce_overflow() == OverflowNews::First {
        warn!(
            "limit {}: more clients owe something than its capacity of {} holds; newcomers share counters and may be refused for each \
             other; set a larger capacity, /status says which",
            active.name,
            active.limit.capacity().keys(),
        );
    }
}

/// Says that a client invents keys of a limit, or has many.
fn tell_share(active: &ActiveLimit, client: IpAddr) {
    if active.share_news.is_due(client, clock::now()) {
        warn!(
            "limit {}: client {client} has taken more than its share of {} slots, and the table is crowded; its further new keys are \
             refused while that lasts, others find room; if these are many users behind one address, set a larger capacity",
            active.name,
            active.limit.share().unwrap_or_default(),
        );
    }
}
