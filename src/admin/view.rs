//! The state of the running gateway that the admin pages show, as plain values.
//!
//! The gateway implements [`AdminView`] in one place; the endpoints see neither snapshots nor pools, and can be tested
//! without a server.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use sluicegate_limiter::{ActiveBan, BannedKey, KeyAges, KeyHash, KeyUsage, Timestamp};
use sluicegate_redis_link::LinkStatus;

use super::cache::CacheView;
use super::certificates::CertificateView;
pub use super::connections::ConnectionsView;
use super::keys::{KeyEdit, KeyResult, KeySelector};
use super::limit_view::{BansView, LimitView};
use super::origin_view::{OriginView, ServerView};
use super::origins::ServerCommand;
use crate::acme::{OrderOutcome, RenewalStatus};
use crate::cache::purge::PurgeScope;
use crate::config::MemoryPlan;
use crate::config::rules::BrokenFile;
use crate::record::RequestRecorder;
use crate::state::DirectoryHealth;
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
