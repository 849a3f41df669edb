//! Runs calls: one attempt each, decided within the timeout whatever happens below.
//!
//! A [`Link`] has a [`Connection`] to each server that has keys: one, or the masters of a Cluster. Calls use established connections and
//! nothing else; what takes time, names, handshakes, Sentinels, the map of a Cluster, happens on a runtime of the link's own. A call is
//! sent once. Only an answer that says that nothing ran is followed: `NOSCRIPT` with the whole script, `MOVED` and `ASK` to the other
//! server, `TRYAGAIN` a millisecond later, all within the same timeout.
//!
//! # Concurrency
//! All worker threads share the connections, and a thread of the link moves their bytes. That costs a call two wake-ups across threads,
//! about 14 µs; it buys runs of the script and writes that carry the calls of all workers together ([`crate::batches`]), and one
//! connection a process and server instead of one a thread.
//!
//! # Limits
//! `bounds::QUEUE` and the timeout bound what waits for a connection; a server that does not read costs what fits its socket.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use futures_util::future::join_all;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::timeout_at;
use tracing::error;

use crate::LOG_TARGET;
use crate::bounds::BATCH;
use crate::call::{Call, CallUrgency, LinkScript, Reply};
use crate::connection::{Connection, ServerLocator, SupervisedConnection};
use crate::epoch::{NewEpoch, StoreEpochs};
use crate::error::{ErrorReply, StoreError};
use crate::link_state::LinkState;
use crate::membership::Membership;
use crate::observer::{CallResult, LinkObserver};
use crate::redirection::follow;
use crate::seed;
use crate::server_status::ServerStatus;
use crate::settings::{HashSeed, LinkSettings, Topology};
use crate::time::deadline;
use crate::topology::{self, ServerMap};

/// A link to the servers of one store.
pub struct Link {
    pub(crate) settings: Arc<LinkSettings>,
    pub(crate) shared: Arc<LinkState>,
    pub(crate) map: Arc<ArcSwap<ServerMap>>,
    pub(crate) runtime: Mutex<Option<Runtime>>,
    /// The tasks that end with the link.
    tasks: Mutex<Vec<AbortHandle>>,
}

/// The state of a link, for an operator.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkStatus {
    /// `single`, `sentinel` or `cluster`.
    pub topology: &'static str,
    /// The state of each connection.
    pub servers: Vec<ServerStatus>,
    /// Processes that share the store, this one included.
    pub nodes: NonZeroU32,
    /// True once the seed of the fleet is known.
    pub has_seed: bool,
}

impl Link {
    /// Creates a link for calls of `script`. The members of the fleet that `before` knows count until this link has heard them. Until
    /// [`Self::start`] every call is [`StoreError::Unavailable`].
    #[must_use]
    pub fn new(
        settings: LinkSettings,
        script: impl Into<LinkScript>,
        observer: Arc<dyn LinkObserver>,
        before: Option<&Link>,
    ) -> Self {
        let known = settings.seed.map(|seed| Arc::new(seed.0));
        // A seed that an operator wrote into a file is not offered.
        let agreed = before.filter(|before| before.settings.seed.is_none());
        let shared = LinkState {
            inherited_seed: agreed
                .and_then(|before| before.seed().or(before.shared.inherited_seed)),
            script: script.into(),
            nodes: match before {
                None => Membership::unheard(settings.known_nodes, settings.environment.random()),
                Some(before) => before.shared.nodes.for_other_store(settings.known_nodes),
            },
            epochs: StoreEpochs::default(),
            observer,
            seed: ArcSwapOption::from(known),
            topology_changed: Notify::new(),
            reached: Notify::new(),
        };
        Self {
            settings: Arc::new(settings),
            shared: Arc::new(shared),
            map: Arc::new(ArcSwap::from_pointee(ServerMap::default())),
            runtime: Mutex::new(None),
            tasks: Mutex::default(),
        }
    }

    /// Starts to connect in the background. A second call does nothing.
    pub fn start(&self) {
        let mut runtime = self.runtime.lock().unwrap_or_else(PoisonError::into_inner);
        if runtime.is_some() {
            return;
        }
        // Masters of a Cluster are served at the same time; one server answers from one thread itself.
        let threads = match self.settings.topology {
            Topology::Cluster { .. } => 2,
            _ => 1,
        };
        let built = Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_name("store")
            .enable_all()
            .build();
        match built {
            Ok(built) => {
                {
                    // Tasks are born on it, whichever runtime this is called from.
                    let _entered = built.enter();
                    self.begin();
                }
                *runtime = Some(built);
            }
            Err(cause) => {
                error!(target: LOG_TARGET, "store: cannot start threads, so the store stays unavailable: {cause}")
            }
        }
    }

    /// Starts to connect in the background, on the runtime that this is called from. It is called once, in place of [`Self::start`].
    pub fn start_on_current_runtime(&self) {
        self.begin();
    }

    fn begin(&self) {
        let settings = Arc::clone(&self.settings);
        let shared = Arc::clone(&self.shared);
        let locator = match &self.settings.topology {
            Topology::Single { address, database } => ServerLocator::Fixed {
                address: address.clone(),
                database: *database,
            },
            Topology::Sentinel {
                master,
                nodes,
                login,
            } => ServerLocator::Sentinels {
                master: master.clone(),
                nodes: nodes.clone(),
                login: login.clone(),
            },
            Topology::Cluster { nodes } => {
                let map = Arc::clone(&self.map);
                self.spawn(topology::refresh(nodes.clone(), map, settings, shared));
                return self.agree_on_seed();
            }
        };
        let connection =
            SupervisedConnection::keep(Connection::new(locator, String::new(), settings, shared));
        self.map.store(Arc::new(ServerMap::single(connection)));
        self.agree_on_seed();
    }

    fn agree_on_seed(&self) {
        let map = Arc::downgrade(&self.map);
        let settings = Arc::clone(&self.settings);
        self.spawn(seed::agree(map, settings, Arc::clone(&self.shared)));
    }

    /// Spawns a task that ends with the link.
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let handle = tokio::spawn(task).abort_handle();
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.push(handle);
    }

    /// Runs one call for which a request waits, within `timeout`.
    ///
    /// # Errors
    /// The cause for which there is no reply, and whether the call may have been executed.
    pub async fn run(&self, call: Call) -> Result<Reply, StoreError> {
        self.run_observed(&Arc::new(call), CallUrgency::Decision)
            .await
    }

    /// Runs one call for which no request waits, within `exchange_timeout`.
    ///
    /// # Errors
    /// Those of [`Self::run`].
    pub async fn exchange(&self, call: Call) -> Result<Reply, StoreError> {
        self.run_observed(&Arc::new(call), CallUrgency::Exchange)
            .await
    }

    /// Runs one call of another script than the link's, for which no request waits, within `exchange_timeout`.
    ///
    /// # Errors
    /// Those of [`Self::run`].
    pub async fn run_other(&self, call: &Call, script: &'static str) -> Result<Reply, StoreError> {
        follow(
            &self.map,
            &self.settings,
            &self.shared,
            &Arc::new(call.clone()),
            Some(script),
            CallUrgency::Exchange,
        )
        .await
    }

    async fn run_observed(
        &self,
        call: &Arc<Call>,
        urgency: CallUrgency,
    ) -> Result<Reply, StoreError> {
        let started = self.settings.environment.now();
        let result = follow(&self.map, &self.settings, &self.shared, call, None, urgency).await;
        self.observe(
            &result,
            self.settings.environment.now().saturating_since(started),
        );
        result
    }

    /// Returns the name of this process in the fleet, which is random.
    pub fn node(&self) -> String {
        self.shared.nodes.name()
    }

    /// Runs many calls for which no request waits, those of one server in pieces of [`BATCH`], one after the other, each piece within
    /// `exchange_timeout`. After a piece that failed no further one is sent.
    ///
    /// # Errors
    /// Those of [`Self::run`], for each call.
    pub async fn run_all(&self, calls: &[Call]) -> Vec<Result<Reply, StoreError>> {
        let map = self.map.load_full();
        let mut by_connection: Vec<Vec<usize>> = vec![Vec::new(); map.connections.len()];
        for (at, call) in calls.iter().enumerate() {
            if let Some(connection) = map.index_of(call)
                && let Some(of_connection) = by_connection.get_mut(connection)
            {
                of_connection.push(at);
            }
        }
        let mut results: Vec<_> = calls.iter().map(|_| Err(StoreError::Unavailable)).collect();
        let connections = map.connections.iter().zip(&by_connection);
        let batches = connections
            .map(|(supervised, indexes)| self.run_batches(&supervised.connection, calls, indexes));
        for (at, result) in join_all(batches).await.into_iter().flatten() {
            if let Some(pending) = results.get_mut(at) {
                *pending = result;
            }
        }
        results
    }

    /// Returns the results of the calls at `indexes` up to the end of the piece that failed.
    async fn run_batches(
        &self,
        connection: &Connection,
        calls: &[Call],
        indexes: &[usize],
    ) -> Vec<(usize, Result<Reply, StoreError>)> {
        let mut results = Vec::with_capacity(indexes.len());
        for piece in indexes.chunks(BATCH) {
            let Some(permit) = connection.permit(CallUrgency::Exchange) else {
                break;
            };
            let started = self.settings.environment.now();
            let deadline = deadline(self.settings.exchange_timeout);
            let sent: Vec<&Call> = piece.iter().filter_map(|at| calls.get(*at)).collect();
            let answers = timeout_at(deadline, connection.send_all(&sent)).await;
            let answers = match answers.unwrap_or(Err(StoreError::TimedOut)) {
                Ok(answers) => answers,
                Err(failure) => {
                    connection.failed(permit, &failure);
                    self.observe(
                        &Err(failure.clone()),
                        self.settings.environment.now().saturating_since(started),
                    );
                    results.extend(piece.iter().map(|at| (*at, Err(failure.clone()))));
                    break;
                }
            };
            connection.succeeded(permit);
            self.shared.observer.count_call(
                CallResult::Ok,
                self.settings.environment.now().saturating_since(started),
            );
            for ((at, call), answer) in piece.iter().zip(sent).zip(answers) {
                let result = match answer {
                    Ok(reply) => Ok(reply),
                    Err(ErrorReply::Failed(failure)) => {
                        connection.failed(permit, &failure);
                        Err(failure)
                    }
                    // It did not run, and takes the way of a single call.
                    Err(_) => {
                        let call = Arc::new(call.clone());
                        self.run_observed(&call, CallUrgency::Exchange).await
                    }
                };
                results.push((*at, result));
            }
        }
        results
    }

    /// Returns how many processes share the store, this one included; the last number while the store is unavailable.
    #[must_use]
    pub fn nodes(&self) -> NonZeroU32 {
        NonZeroU32::new(self.shared.nodes.count()).unwrap_or(NonZeroU32::MIN)
    }

    /// Returns whether exchanges pass to all servers.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.are_all_permitted(CallUrgency::Exchange)
    }

    fn are_all_permitted(&self, urgency: CallUrgency) -> bool {
        let map = self.map.load();
        let mut connections = map.connections.iter();
        !map.connections.is_empty()
            && connections.all(|supervised| supervised.connection.permit(urgency).is_some())
    }

    /// Returns whether the server of `key` has the counts of the fleet: exchanges pass, and no counts are being restored. `key` is called
    /// only while that does not hold for all servers.
    #[must_use]
    pub fn has_counts_of(&self, key: impl FnOnce() -> Vec<u8>) -> bool {
        self.is_up() && !self.shared.epochs.are_in_recovery() || {
            let call = Call {
                keys: vec![key()],
                args: Vec::new(),
            };
            let map = self.map.load();
            let connection = map.connection_for(&call);
            connection.is_some_and(|connection| {
                connection.permit(CallUrgency::Exchange).is_some() && !connection.is_in_recovery()
            })
        }
    }

    /// Returns whether the key of `call` lies on the server of this epoch.
    #[must_use]
    pub fn concerns(&self, new: &NewEpoch, call: &Call) -> bool {
        let map = self.map.load();
        let connection = map.connection_for(call);
        connection.is_some_and(|connection| connection.has_hash_tag(&new.hash_tag))
    }

    /// Returns the seed under which the fleet hashes keys; `None` until the store was reached for the first time, where the settings have
    /// none.
    #[must_use]
    pub fn seed(&self) -> Option<HashSeed> {
        let seed = self.shared.seed.load();
        seed.as_deref().copied().map(HashSeed)
    }

    /// Returns the beginning of every key.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.settings.prefix
    }

    /// Returns whether the keys of one call must share a slot.
    #[must_use]
    pub fn has_slots(&self) -> bool {
        matches!(self.settings.topology, Topology::Cluster { .. })
    }

    /// Returns whether, by the settings, keys have the same names at the other link.
    #[must_use]
    pub fn names_alike(&self, other: &Self) -> bool {
        let one = &self.settings;
        let other = &other.settings;
        one.prefix == other.prefix && one.seed == other.seed
    }

    /// Returns whether the store has the counts of every key: exchanges pass to all servers, the seed is known, and no counts are being
    /// restored.
    #[must_use]
    pub fn has_all_counts(&self) -> bool {
        self.seed().is_some() && self.is_up() && !self.shared.epochs.are_in_recovery()
    }

    /// Returns whether the store can decide about every key: it has all counts, and answers in time.
    #[must_use]
    pub fn decides_all_keys(&self) -> bool {
        self.has_all_counts() && self.are_all_permitted(CallUrgency::Decision)
    }

    /// Returns the epoch that guarded calls name, where one server has all keys; `None` before the store was reached.
    #[must_use]
    pub fn epoch(&self) -> Option<String> {
        self.shared.epochs.current()
    }

    /// Returns the key of the marker that holds the epoch.
    #[must_use]
    pub fn epoch_key(&self) -> Vec<u8> {
        format!("{}:epoch", self.settings.prefix).into_bytes()
    }

    /// Returns the state for an operator.
    #[must_use]
    pub fn status(&self) -> LinkStatus {
        let map = self.map.load();
        LinkStatus {
            topology: self.settings.topology.name(),
            servers: map
                .connections
                .iter()
                .map(|supervised| supervised.connection.status())
                .collect(),
            nodes: self.nodes(),
            has_seed: self.shared.seed.load().is_some(),
        }
    }

    fn observe(&self, result: &Result<Reply, StoreError>, took: Duration) {
        let result = match result {
            Ok(_) => CallResult::Ok,
            Err(StoreError::Unavailable) => CallResult::Unavailable,
            Err(StoreError::TimedOut) => CallResult::TimedOut,
            Err(StoreError::ConnectionLost) => CallResult::ConnectionLost,
            Err(StoreError::Refused(_) | StoreError::Unreadable) => CallResult::Refused,
        };
        self.shared.observer.count_call(result, took);
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        let tasks = self.tasks.get_mut().unwrap_or_else(PoisonError::into_inner);
        tasks.iter().for_each(AbortHandle::abort);
        let runtime = self
            .runtime
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(runtime) = runtime.take() {
            // A plain drop would wait for its threads, perhaps on a thread that serves requests.
            runtime.shutdown_background();
        }
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        into.debug_struct("Link")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
