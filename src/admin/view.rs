//! The state of the running gateway that the admin pages show, as plain values.
//!
//! The gateway implements [`AdminView`] in one place; the endpoints see neither snapshots nor pools, and can be tested
//! without a server.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use sluicegate_limiter::{
    ActiveBan, BanRules, BanStats, BannedKey, Bans, Capacity, Concurrency, KeyAges, KeyHash,
    KeyUsage, Limit, OverflowPeriod, Permits, Rates, Timestamp,
};
use sluicegate_redis_link::LinkStatus;

use super::cache::CacheView;
use super::certificates::CertificateView;
pub use super::connections::ConnectionsView;
use super::keys::{KeyEdit, KeyResult, KeySelector};
use super::origins::ServerCommand;
use crate::acme::{OrderOutcome, RenewalStatus};
use crate::admission::OverShare;
use crate::cache::purge::PurgeScope;
use crate::config::rules::{BrokenFile, Name, Role, Weight};
use crate::config::{Action, MemoryPlan, Share, algorithm_name};
use crate::origin::{AttemptOutcome, FailureKind, LatestFailure, ServerStatus};
use crate::record::RequestRecorder;
use crate::state::{DirectoryHealth, Persistence};
use crate::store::{RemoteWriteStats, ReplicationStats};

/// The running gateway, seen by its operator. Called on every admin request; each call may take some milliseconds.
pub trait AdminView: Send + Sync {
    /// `[admin] token_file`'s content, where there is one.
    fn token(&self) -> Option<Arc<str>>;
    /// The readiness of the gateway for new requests.
    fn readiness(&self) -> ReadyState;
    /// When the process started, and now.
    fn times(&self) -> ProcessTimes;
    /// The configuration in use.
    fn configuration(&self) -> ConfigurationView;
    /// The memory that the configuration may take; `None` before the first.
    fn memory(&self) -> Option<MemoryPlan> {
        None
    }
    /// Every limit, sampled now.
    fn limits(&self) -> Vec<LimitView>;
    /// The limit of this name, sampled now, with up to `most` of its keys, fullest first; walks the whole table.
    fn top(&self, limit: &str, most: usize) -> Option<TopKeysView>;
    /// The bans of the limit of this name, with up to `most` keys, banned for longest first; walks the whole table. `None` where there
    /// is no such limit, or it bans nobody.
    fn bans(&self, limit: &str, most: usize) -> Option<BannedKeysView>;
    /// Forgets the bans of a key. `None` as above; `Some(None)` where none was in force.
    fn pardon(&self, limit: &str, key: KeyHash) -> Option<Option<ActiveBan>>;
    /// The state of the state directory; `None` without one.
    fn state(&self) -> Option<DirectoryHealth>;
    /// The state of the link to the store; `None` without one.
    fn store(&self) -> Option<LinkStatus>;
    /// The writes that wait for the store; `None` without one.
    fn remote_write_stats(&self) -> Option<RemoteWriteStats>;
    /// The state of the replication of shared limits; `None` without a store.
    fn replication_stats(&self) -> Option<ReplicationStats>;
    /// The state of ACME certificates; `None` where none is ordered.
    fn acme(&self) -> Option<AcmeView> {
        None
    }
    /// The certificates that clients are shown; none where TLS ends nowhere.
    fn certificates(&self) -> Vec<CertificateView> {
        Vec::new()
    }

    /// The state of the cache; `None` where no route caches.
    fn cache(&self) -> Option<CacheView> {
        None
    }
    /// Takes away what is stored; how many answers that were. Looks at every key.
    fn purge(&self, _: &PurgeScope) -> u64 {
        0
    }

    /// Connections of clients; `None` where nobody can connect.
    fn connections(&self) -> Option<ConnectionsView> {
        None
    }
    /// Every origin.
    fn origins(&self) -> Vec<OriginView>;
    /// Carries out what the operator asks of a server; how it stands then. `None` where there is no such server.
    fn order(&self, origin: &str, server: SocketAddr, order: ServerCommand) -> Option<ServerView>;
    /// Names a key of a limit, and does to it what is asked; how it stands then.
    ///
    /// # Errors
    /// Why that is not possible.
    fn key(&self, limit: &str, which: &KeySelector, change: &KeyEdit) -> KeyResult;
    /// The configuration in use as it is written, without secrets.
    fn written(&self) -> serde_json::Value {
        serde_json::Value::Null
    }
    /// Every route, explained.
    fn routes_explained(&self) -> Vec<serde_json::Value> {
        Vec::new()
    }
    /// Reads the configuration again and waits until that has ended; how it went. `None` where it takes too long.
    fn reload(&self) -> Option<ReloadView> {
        None
    }
    /// The number of routes.
    fn routes(&self) -> usize;
    /// The recorder of requests.
    fn recorder(&self) -> &RequestRecorder;
}

/// The certificates that are ordered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcmeView {
    /// From whom.
    pub directory: Arc<str>,
    /// Each, by name.
    pub standings: Vec<RenewalStatus>,
    /// Orders since the start, by what came of them.
    pub orders: [(OrderOutcome, u64); OrderOutcome::ALL.len()],
}

/// The readiness of the gateway for new requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadyState {
    /// Yes.
    Ready,
    /// No configuration is in use yet.
    Starting,
    /// The store was not reached yet, and is required.
    StoreNotReached,
    /// The process is about to end.
    Draining,
}

/// The moments of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessTimes {
    /// When it started.
    pub started: Timestamp,
    /// Now.
    pub now: Timestamp,
    /// The time of the wall clock now.
    pub wall: Timestamp,
}

/// The configuration in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigurationView {
    /// Its file; `None` where it is built in, as in the demo.
    pub file: Option<PathBuf>,
    /// 1 for the first, one more for each that replaced it; 0 before the first.
    pub generation: u64,
    /// Since when it is in use; `None` before the first.
    pub loaded_at: Option<Timestamp>,
    /// The last attempt to replace it; `None` when there was none.
    pub last_reload: Option<ReloadView>,
    /// Files that are broken.
    pub broken_files: Vec<BrokenFile>,
    /// Keys that the file changed and that only a restart applies, such as `server.threads`.
    pub pending_restart: Vec<String>,
}

/// An attempt to replace the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReloadView {
    /// When.
    pub at: Timestamp,
    /// The result, with the reason where the reload was rejected.
    pub result: Result<(), String>,
    /// The changes, a sentence each.
    pub changes: Vec<String>,
}

/// A limit, sampled.
#[derive(Clone, Debug, PartialEq)]
pub struct LimitView {
    /// Its name.
    pub name: Name,
    /// Its key as one would write it in the configuration.
    pub key: String,
    /// Its algorithm, as the configuration names it.
    pub algorithm: &'static str,
    /// Its rates.
    pub rates: Rates,
    /// Its action on a request that exceeds it, as the configuration names it.
    pub action: &'static str,
    /// The share of keys that it is enforced for, as one would write it in the configuration.
    pub enforce: String,
    /// Rates that are judged beside and only reported; `None` where there are none.
    pub shadow_rates: Option<Rates>,
    /// Keys that it is made for.
    pub capacity: Capacity,
    /// Keys that owe something.
    pub keys: u64,
    /// Keys that fit in its table.
    pub slots: u64,
    /// Memory of its table.
    pub bytes: u64,
    /// Set while some key shares an overflow counter.
    pub overflow_active: bool,
    /// Since when, and until when that weighs on somebody; `None` when it does not.
    pub overflow: Option<OverflowPeriod>,
    /// New keys, of 1000 that find a slot, that begin with the counts of others.
    pub overflow_affected: u64,
    /// Decisions made over keys that were counted together, since the limit exists.
    pub overflow_decisions: u64,
    /// Those of them that were made before the capacity of now was set.
    pub overflow_decisions_before: u64,
    /// Those of them that refused.
    pub overflow_refused: u64,
    /// The share of its slots that one client may take; `None` where clients cannot invent keys.
    pub share: Option<ShareView>,
    /// Slots given to another key after their own owed nothing any more.
    pub slots_reused: u64,
    /// The persistence of its counters.
    pub survival: Persistence,
    /// Its bans; `None` where it bans nobody.
    pub bans: Option<BansView>,
    /// Its requests in flight; `None` where any number may be.
    pub permits: Option<PermitsView>,
}

/// The bans of a limit, sampled.
#[derive(Clone, Debug, PartialEq)]
pub struct BansView {
    /// The durations and the factor.
    pub rules: BanRules,
    /// Keys that are banned or remembered.
    pub keys: u64,
    /// Keys that fit in their table.
    pub slots: u64,
    /// The counts since the start.
    pub tallies: BanStats,
    /// Memory of their table.
    pub bytes: u64,
    /// The persistence of its bans.
    pub survival: Persistence,
}

/// The share of a limit's slots that one client may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareView {
    /// However crowded the table is.
    pub slots: u64,
    /// Refusals of new keys of clients that had taken as many.
    pub refused: u64,
    /// The one that the log told of last.
    pub latest: Option<OverShare>,
}

/// The requests in flight of a limit, sampled.
#[derive(Clone, Debug, PartialEq)]
pub struct PermitsView {
    /// The maximum of requests in flight of one key.
    pub max: Concurrency,
    /// Keys that have some.
    pub keys: u64,
    /// Keys that fit in their table.
    pub slots: u64,
    /// Refusals of keys that were counted together, perhaps because of others.
    pub overflow_refused: u64,
    /// Memory of their table.
    pub bytes: u64,
}

impl BansView {
    /// Samples `bans` at `now`.
    #[must_use]
    pub fn sample(bans: &Bans, survival: &Persistence, now: Timestamp) -> Self {
        let occupancy = bans.occupancy(now);
        Self {
            rules: *bans.rules(),
            keys: occupancy.live,
            slots: occupancy.slots,
            tallies: bans.stats(),
            bytes: bans.bytes() as u64,
            survival: survival.clone(),
        }
    }
}

impl PermitsView {
    /// Samples `permits`.
    #[must_use]
    pub fn sample(permits: &Permits) -> Self {
        let occupancy = permits.occupancy();
        Self {
            max: permits.max(),
            keys: occupancy.live,
            slots: occupancy.slots,
            overflow_refused: permits.stats().refused_in_overflow,
            bytes: permits.bytes() as u64,
        }
    }
}

impl LimitView {
    /// Samples `limit` at `now`; `key` is its key as one would write it in the configuration. It rejects and does nothing else, unless the
    /// caller adds otherwise.
    #[must_use]
    pub fn sample(
        name: &Name,
        key: String,
        (limit, survival): (&Limit, &Persistence),
        now: Timestamp,
    ) -> Self {
        let occupancy = limit.occupancy(now);
        let tallies = limit.stats();
        Self {
            name: Arc::clone(name),
            key,
            algorithm: algorithm_name(limit.policy().algorithm()),
            rates: limit.rates().clone(),
            action: Action::Reject.name(),
            enforce: Share::ALL.to_string(),
            shadow_rates: None,
            capacity: limit.capacity(),
            keys: occupancy.live,
            slots: occupancy.slots,
            bytes: limit.bytes() as u64,
            overflow_active: occupancy.in_overflow > 0,
            overflow: limit.overflow(now),
            overflow_affected: limit.overflow_false_positives(now),
            overflow_decisions: tallies.in_overflow(),
            overflow_decisions_before: tallies.in_overflow_before,
            overflow_refused: tallies.refused_in_overflow,
            share: limit.share().map(|slots| ShareView {
                slots,
                refused: tallies.refused_over_share,
                latest: None,
            }),
            slots_reused: tallies.slots_reused,
            survival: survival.clone(),
            bans: None,
            permits: None,
        }
    }
}

/// The bans of a limit with the keys that are banned for longest.
#[derive(Clone, Debug)]
pub struct BannedKeysView {
    /// The bans.
    pub bans: BansView,
    /// The keys.
    pub keys: Vec<BannedKey>,
}

/// A limit with the keys that are nearest to it or over.
#[derive(Clone, Debug)]
pub struct TopKeysView {
    /// The limit.
    pub limit: LimitView,
    /// The ages of the latest charges, sampled; `None` where the algorithm does not record them.
    pub ages: Option<KeyAges>,
    /// The keys, fullest first.
    pub fullest: Vec<KeyUsage>,
}

/// An origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginView {
    /// Its name.
    pub name: Name,
    /// Its servers.
    pub servers: Vec<ServerView>,
    /// Requests that were tried again.
    pub retries: u64,
    /// Requests that were not, for want of budget.
    pub retries_not_granted: u64,
    /// Requests that wait for a place at a server.
    pub pending: u32,
    /// Requests that found none.
    pub refused: u64,
    /// Names that did not resolve when they were last looked up.
    pub unresolved: usize,
    /// Failures that no server is to blame for, by [`FailureKind::ALL`].
    pub failures: [u64; FailureKind::ALL.len()],
    /// The latest of them.
    pub last_error: Option<LatestFailure>,
}

/// A server of an origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerView {
    /// Where it listens.
    pub address: SocketAddr,
    /// Its state, which decides whether it gets requests.
    pub state: ServerStatus,
    /// Its share.
    pub weight: Weight,
    /// When it is asked.
    pub role: Role,
    /// Tries that are under way.
    pub in_flight: u32,
    /// Connections that are open for requests; `None` where they have no bound.
    pub connections: Option<u32>,
    /// Tries so far, in the order of [`AttemptOutcome::ALL`].
    pub outcomes: [u64; AttemptOutcome::ALL.len()],
    /// The number of its ejections.
    pub ejections: u64,
    /// The number of changes by health checks.
    pub health_changes: u64,
    /// Its latest failure.
    pub last_failure: Option<(AttemptOutcome, Timestamp)>,
    /// Failures by [`FailureKind::ALL`].
    pub failures: [u64; FailureKind::ALL.len()],
    /// The latest failure that was no answer, with its cause.
    pub last_error: Option<LatestFailure>,
}
