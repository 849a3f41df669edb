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
    /// Returns the content of `[admin] token_file`; `None` where none is configured.
    fn token(&self) -> Option<Arc<str>>;
    /// Returns the readiness of the gateway for new requests.
    fn readiness(&self) -> ReadyState;
    /// Returns the start of the process, and the present time.
    fn times(&self) -> ProcessTimes;
    /// Returns the configuration in use.
    fn configuration(&self) -> ConfigurationView;
    /// Returns the memory that the configuration may take; `None` before the first.
    fn memory(&self) -> Option<MemoryPlan> {
        None
    }
    /// Returns every limit, sampled now.
    fn limits(&self) -> Vec<LimitView>;
    /// Returns the limit of this name, sampled now, with up to `most` of its keys, fullest first; walks the whole table.
    fn top(&self, limit: &str, most: usize) -> Option<TopKeysView>;
    /// Returns the bans of the limit of this name, with up to `most` keys, those with the longest ban first; walks the whole table. `None`
    /// where there is no such limit, or it has no `ban`.
    fn bans(&self, limit: &str, most: usize) -> Option<BannedKeysView>;
    /// Lifts the ban of a key. `None` where there is no such limit, or it has no `ban`; `Some(None)` where no ban was in force.
    fn lift_ban(&self, limit: &str, key: KeyHash) -> Option<Option<ActiveBan>>;
    /// Returns the state of the state directory; `None` without one.
    fn state(&self) -> Option<DirectoryHealth>;
    /// Returns the state of the link to the store; `None` without one.
    fn store(&self) -> Option<LinkStatus>;
    /// Returns the writes that wait for the store; `None` without one.
    fn remote_write_stats(&self) -> Option<RemoteWriteStats>;
    /// Returns the state of the replication of shared limits; `None` without a store.
    fn replication_stats(&self) -> Option<ReplicationStats>;
    /// Returns the state of ACME certificates; `None` where none is ordered.
    fn acme(&self) -> Option<AcmeView> {
        None
    }
    /// Returns the certificates that listeners serve; none without TLS.
    fn certificates(&self) -> Vec<CertificateView> {
        Vec::new()
    }

    /// Returns the state of the cache; `None` where no route caches.
    fn cache(&self) -> Option<CacheView> {
        None
    }
    /// Purges the cache and returns the number of responses. Looks at every key.
    fn purge(&self, _: &PurgeScope) -> u64 {
        0
    }

    /// Returns the connections of clients; `None` where no listener is open.
    fn connections(&self) -> Option<ConnectionsView> {
        None
    }
    /// Returns every origin.
    fn origins(&self) -> Vec<OriginView>;
    /// Runs the operator's command for a server and returns the server's state after it. `None` where there is no such server.
    fn command_server(
        &self,
        origin: &str,
        server: SocketAddr,
        order: ServerCommand,
    ) -> Option<ServerView>;
    /// Changes a key of a limit and returns its state after that.
    ///
    /// # Errors
    /// The reason why the key has no state or cannot be changed.
    fn key(&self, limit: &str, which: &KeySelector, change: &KeyEdit) -> KeyResult;
    /// Returns the configuration in use as it is written, without secrets.
    fn written(&self) -> serde_json::Value {
        serde_json::Value::Null
    }
    /// Returns every route, explained.
    fn routes_explained(&self) -> Vec<serde_json::Value> {
        Vec::new()
    }
    /// Reads the configuration again and returns the result. `None` where it takes too long.
    fn reload(&self) -> Option<ReloadView> {
        None
    }
    /// Returns the number of routes.
    fn routes(&self) -> usize;
    /// Returns the recorder of requests.
    fn recorder(&self) -> &RequestRecorder;
}

/// The certificates that are ordered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcmeView {
    /// The URL of the ACME server's directory.
    pub directory: Arc<str>,
    /// Their states, by name.
    pub statuses: Vec<RenewalStatus>,
    /// Orders since the start, by result.
    pub orders: [(OrderOutcome, u64); OrderOutcome::ALL.len()],
}

/// The readiness of the gateway for new requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadyState {
    /// New requests are welcome.
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
    /// The time of its start.
    pub started: Timestamp,
    /// The time of the limits now.
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
    /// The time since which it is in use; `None` before the first.
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
    /// The time of the attempt.
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
    /// Rates that are only reported; `None` where there are none.
    pub shadow_rates: Option<Rates>,
    /// Keys that its table is made for.
    pub capacity: Capacity,
    /// Active keys.
    pub keys: u64,
    /// Keys that fit in its table.
    pub slots: u64,
    /// Memory of its table.
    pub bytes: u64,
    /// Set while some key shares an overflow counter.
    pub overflow_active: bool,
    /// The period in which new keys share counters; `None` when none do.
    pub overflow: Option<OverflowPeriod>,
    /// The new keys, of 1000 that find a slot, that begin with the counts of others.
    pub overflow_affected: u64,
    /// Decisions over keys that share counters, since the limit exists.
    pub overflow_decisions: u64,
    /// The part of these decisions that was made before the present capacity was set.
    pub overflow_decisions_before: u64,
    /// The part of these decisions that rejected.
    pub overflow_refused: u64,
    /// The share of its slots that one client may take; `None` where clients cannot invent keys.
    pub share: Option<ShareView>,
    /// Slots given to another key after the counts of their own had expired.
    pub slots_reused: u64,
    /// The persistence of its counters.
    pub persistence: Persistence,
    /// Its bans; `None` without `ban`.
    pub bans: Option<BansView>,
    /// Its requests in flight; `None` without `concurrency`.
    pub permits: Option<PermitsView>,
}

/// The bans of a limit, sampled.
#[derive(Clone, Debug, PartialEq)]
pub struct BansView {
    /// The durations and the factor.
    pub rules: BanRules,
    /// Keys that are banned, or whose bans are remembered.
    pub keys: u64,
    /// Keys that fit in their table.
    pub slots: u64,
    /// The counts since the start.
    pub tallies: BanStats,
    /// Memory of their table.
    pub bytes: u64,
    /// The persistence of its bans.
    pub persistence: Persistence,
}

/// The share of a limit's slots that one client may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareView {
    /// The slots that one client may take, however crowded the table is.
    pub slots: u64,
    /// Rejections of new keys of clients that had taken their share.
    pub refused: u64,
    /// The client that the process log named last.
    pub latest: Option<OverShare>,
}

/// The requests in flight of a limit, sampled.
#[derive(Clone, Debug, PartialEq)]
pub struct PermitsView {
    /// The maximum of requests in flight of one key.
    pub max: Concurrency,
    /// Keys that have requests in flight.
    pub keys: u64,
    /// Keys that fit in their table.
    pub slots: u64,
    /// Rejections of keys that share counters, perhaps because of others.
    pub overflow_refused: u64,
    /// Memory of their table.
    pub bytes: u64,
}

impl BansView {
    /// Samples `bans` at `now`.
    #[must_use]
    pub fn sample(bans: &Bans, persistence: &Persistence, now: Timestamp) -> Self {
        let occupancy = bans.occupancy(now);
        Self {
            rules: *bans.rules(),
            keys: occupancy.live,
            slots: occupancy.slots,
            tallies: bans.stats(),
            bytes: bans.bytes() as u64,
            persistence: persistence.clone(),
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
        (limit, persistence): (&Limit, &Persistence),
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
            persistence: persistence.clone(),
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

/// A limit with the keys that are nearest to it, or over.
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
    /// Retries of requests.
    pub retries: u64,
    /// Retries that the budget did not allow.
    pub retries_not_granted: u64,
    /// Requests that wait for a server with room.
    pub pending: u32,
    /// Requests that the queue rejected.
    pub refused: u64,
    /// Names that did not resolve when they were last looked up.
    pub unresolved: usize,
    /// Failures that no server is to blame for, by [`FailureKind::ALL`].
    pub failures: [u64; FailureKind::ALL.len()],
    /// The latest of these failures.
    pub last_error: Option<LatestFailure>,
}

/// A server of an origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerView {
    /// Its address.
    pub address: SocketAddr,
    /// Its state, which decides whether it gets requests.
    pub state: ServerStatus,
    /// Its weight in the balance.
    pub weight: Weight,
    /// Its role: primary or backup.
    pub role: Role,
    /// Attempts that are under way.
    pub in_flight: u32,
    /// Connections that are open for requests; `None` where they have no bound.
    pub connections: Option<u32>,
    /// Attempts so far, in the order of [`AttemptOutcome::ALL`].
    pub outcomes: [u64; AttemptOutcome::ALL.len()],
    /// The number of its ejections.
    pub ejections: u64,
    /// The number of changes by health checks.
    pub health_changes: u64,
    /// Its latest failure.
    pub last_failure: Option<(AttemptOutcome, Timestamp)>,
    /// Failures by [`FailureKind::ALL`].
    pub failures: [u64; FailureKind::ALL.len()],
    /// The latest failure without a response, with its cause.
    pub last_error: Option<LatestFailure>,
}
