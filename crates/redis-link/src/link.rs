//! The way to the store: one attempt a call, decided within the timeout whatever happens below.
//!
//! A [`Link`] has a line to each server that has keys: one, or the masters of a Cluster. Calls of requests use connections that stand
//! and nothing else; what takes time, names, handshakes, Sentinels, the map of a Cluster, happens on a runtime of the link's own.
//! A call is sent once. Only an answer that says that nothing ran is followed: `NOSCRIPT` with the whole script, `MOVED` and `ASK` to the
//! other server, `TRYAGAIN` a millisecond later, all within the same timeout.
//!
//! # Concurrency
//! Connections are shared by all worker threads, and their bytes are moved by a thread of the link. That costs a call two wakes
//! across threads, about 14 µs of waiting; it buys writes that carry the calls of all workers together, and one connection a gateway
//! and server where otherwise there were as many as threads.
//!
//! # Limits
//! What waits for a connection is bounded by `bounds::QUEUE` and by time; a server that does not read costs what fits its socket.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use futures_util::future::join_all;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;
use tokio::time::timeout_at;
use tracing::error;

use crate::LOG_TARGET;
use crate::bounds::{BATCH, REDIRECTIONS};
use crate::call::{Call, Reply};
use crate::connection::{
    Connection, ScriptForm, ServerLocator, ServerStatus, SupervisedConnection,
};
use crate::epoch::StoreEpochs;
use crate::error::{ErrorReply, RefusalReason, StoreError};
use crate::membership::Membership;
use crate::observer::{CallResult, LinkEvent, LinkObserver};
use crate::seed;
use crate::settings::{HashSeed, HostPort, LinkSettings, Topology};
use crate::time::deadline;
use crate::topology::{self, ServerMap};

/// How long a slot that is being moved is left alone.
const MOVING: Duration = Duration::from_millis(1);

/// The way to the store.
pub struct Link {
    pub(crate) settings: Arc<LinkSettings>,
    pub(crate) shared: Arc<LinkState>,
    pub(crate) map: Arc<ArcSwap<ServerMap>>,
    pub(crate) runtime: Mutex<Option<Runtime>>,
}

/// What all lines of a link share.
pub(crate) struct LinkState {
    /// The script that calls are for.
    pub(crate) script: &'static str,
    pub(crate) nodes: Membership,
    pub(crate) epochs: StoreEpochs,
    pub(crate) observer: Arc<dyn LinkObserver>,
    pub(crate) seed: ArcSwapOption<[u8; 16]>,
    /// What keys were hashed under at the store before, to be kept where none is yet.
    pub(crate) brought: Option<HashSeed>,
    /// Wakes who knows the servers: something about them has changed.
    pub(crate) changed: Notify,
    /// Wakes who fetches the seed: there is a connection.
    pub(crate) reached: Notify,
    pub(crate) was_connected: AtomicBool,
}

/// How a link does.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkStatus {
    /// `single`, `sentinel` or `cluster`.
    pub topology: &'static str,
    /// Its servers.
    pub servers: Vec<ServerStatus>,
    /// Gateways that share the store, this one included.
    pub nodes: NonZeroU32,
    /// Whether it is known under what keys are hashed.
    pub has_seed: bool,
}

impl LinkState {
    pub(crate) fn look_again(&self) {
        self.changed.notify_one();
    }

    pub(crate) fn connected(&self) {
        // Relaxed: advice for `/readyz`, publishes nothing.
        self.was_connected.store(true, Ordering::Relaxed);
        self.reached.notify_one();
    }
}

impl Link {
    /// A link for calls of `script`; what `before` knows of the fleet holds until this one knows better. Until [`Self::start`] the store
    /// is away.
    #[must_use]
    pub fn new(
        settings: LinkSettings,
        script: &'static str,
        observer: Arc<dyn LinkObserver>,
        before: Option<&Link>,
    ) -> Self {
        let known = settings.seed.map(|seed| Arc::new(seed.0));
        // One that somebody wrote into a file is brought to nobody.
        let brought = before.filter(|before| before.settings.seed.is_none());
        let shared = LinkState {
            brought: brought.and_then(|before| before.seed().or(before.shared.brought)),
            script,
            nodes: before.map_or_else(Membership::alone, |before| before.shared.nodes.known()),
            epochs: StoreEpochs::default(),
            observer,
            seed: ArcSwapOption::from(known),
            changed: Notify::new(),
            reached: Notify::new(),
            was_connected: AtomicBool::new(false),
        };
        Self {
            settings: Arc::new(settings),
            shared: Arc::new(shared),
            map: Arc::new(ArcSwap::from_pointee(ServerMap::default())),
            runtime: Mutex::new(None),
        }
    }

    /// Begins to connect, in the background. A second time does nothing.
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
                error!(target: LOG_TARGET, "store: its threads cannot be started, so it stays away: {cause}")
            }
        }
    }

    fn begin(&self) {
        let (settings, shared) = (Arc::clone(&self.settings), Arc::clone(&self.shared));
        let target = match &self.settings.topology {
            Topology::Single { place, database } => ServerLocator::Fixed {
                place: place.clone(),
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
                tokio::spawn(topology::keep(nodes.clone(), map, settings, shared));
                tokio::spawn(seed::agree(
                    Arc::downgrade(&self.map),
                    Arc::clone(&self.settings),
                    Arc::clone(&self.shared),
                ));
                return;
            }
        };
        let line =
            SupervisedConnection::keep(Connection::new(target, String::new(), settings, shared));
        self.map.store(Arc::new(ServerMap::of_one(line)));
        tokio::spawn(seed::agree(
            Arc::downgrade(&self.map),
            Arc::clone(&self.settings),
            Arc::clone(&self.shared),
        ));
    }

    /// Makes one call, within the timeout.
    ///
    /// # Errors
    /// Why there is no reply; it says whether the call may have been carried out.
    pub async fn run(&self, call: Call) -> Result<Reply, StoreError> {
        let started = self.settings.clock.now();
        let result = follow(&self.map, &self.settings, &self.shared, &call, None).await;
        self.observe(&result, self.settings.clock.now().saturating_since(started));
        result
    }

    /// Makes one call of another script than the link's, within the timeout.
    ///
    /// # Errors
    /// As in [`Self::run`].
    pub async fn run_other(&self, call: &Call, script: &'static str) -> Result<Reply, StoreError> {
        follow(&self.map, &self.settings, &self.shared, call, Some(script)).await
    }

    /// The name by which the fleet knows this gateway: random, for a process.
    pub fn node(&self) -> String {
        self.shared.nodes.name()
    }

    /// Makes many calls, those of one server in pieces of [`BATCH`], one after the other, each piece within the timeout. What comes
    /// behind a piece that failed is not sent.
    ///
    /// # Errors
    /// For each call, as in [`Self::run`].
    pub async fn run_all(&self, calls: &[Call]) -> Vec<Result<Reply, StoreError>> {
        let map = self.map.load_full();
        let mut by_line: Vec<Vec<usize>> = vec![Vec::new(); map.lines.len()];
        for (at, call) in calls.iter().enumerate() {
            if let Some(line) = map.index_of(call)
                && let Some(of_line) = by_line.get_mut(line)
            {
                of_line.push(at);
            }
        }
        let mut results: Vec<_> = calls.iter().map(|_| Err(StoreError::Unavailable)).collect();
        let lines = map.lines.iter().zip(&by_line);
        let told = lines.map(|(kept, indexes)| self.run_pieces(&kept.line, calls, indexes));
        for (at, result) in join_all(told).await.into_iter().flatten() {
            if let Some(place) = results.get_mut(at) {
                *place = result;
            }
        }
        results
    }

    /// Results of the calls at `indexes` up to the end of the piece that failed.
    async fn run_pieces(
        &self,
        line: &Connection,
        calls: &[Call],
        indexes: &[usize],
    ) -> Vec<(usize, Result<Reply, StoreError>)> {
        let mut told = Vec::with_capacity(indexes.len());
        for piece in indexes.chunks(BATCH) {
            let Some(permit) = line.permit() else { break };
            let started = self.settings.clock.now();
            let deadline = deadline(self.settings.timeout);
            let asked: Vec<&Call> = piece.iter().filter_map(|at| calls.get(*at)).collect();
            let answers = timeout_at(deadline, line.ask_all(&asked)).await;
            let answers = match answers.unwrap_or(Err(StoreError::TimedOut)) {
                Ok(answers) => answers,
                Err(failure) => {
                    line.failed(permit, &failure);
                    self.observe(
                        &Err(failure.clone()),
                        self.settings.clock.now().saturating_since(started),
                    );
                    told.extend(piece.iter().map(|at| (*at, Err(failure.clone()))));
                    break;
                }
            };
            line.succeeded(permit);
            self.shared.observer.count_call(
                CallResult::Ok,
                self.settings.clock.now().saturating_since(started),
            );
            for ((at, call), answer) in piece.iter().zip(asked).zip(answers) {
                let result = match answer {
                    Ok(reply) => Ok(reply),
                    Err(ErrorReply::Failed(failure)) => {
                        line.failed(permit, &failure);
                        Err(failure)
                    }
                    // It did not run, and takes the way of a single call.
                    Err(_) => self.run(call.clone()).await,
                };
                told.push((*at, result));
            }
        }
        told
    }

    /// Gateways that share the store, this one included: the last number, while it is away.
    #[must_use]
    pub fn nodes(&self) -> NonZeroU32 {
        NonZeroU32::new(self.shared.nodes.count()).unwrap_or(NonZeroU32::MIN)
    }

    /// Whether calls pass to all its servers.
    #[must_use]
    pub fn is_up(&self) -> bool {
        let map = self.map.load();
        let mut lines = map.lines.iter();
        !map.lines.is_empty() && lines.all(|kept| kept.line.permit().is_some())
    }

    /// Whether a call about `key` would be sent; which key that is matters only while some server is away.
    #[must_use]
    pub fn reaches(&self, key: impl FnOnce() -> Vec<u8>) -> bool {
        self.is_up() || {
            let call = Call {
                keys: vec![key()],
                args: Vec::new(),
            };
            let map = self.map.load();
            let line = map.line_of(&call);
            line.is_some_and(|line| line.permit().is_some())
        }
    }

    /// What keys are hashed under; `None` until the store was reached for the first time, where no file says it.
    #[must_use]
    pub fn seed(&self) -> Option<HashSeed> {
        let seed = self.shared.seed.load();
        seed.as_deref().copied().map(HashSeed)
    }

    /// What every key begins with.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.settings.prefix
    }

    /// Whether keys of one call must share a slot.
    #[must_use]
    pub fn has_slots(&self) -> bool {
        matches!(self.settings.topology, Topology::Cluster { .. })
    }

    /// Whether names of keys mean the same at the other: what the settings tell of it.
    #[must_use]
    pub fn names_alike(&self, other: &Self) -> bool {
        let (one, other) = (&self.settings, &other.settings);
        one.prefix == other.prefix && one.seed == other.seed
    }

    /// Whether it was connected at any time.
    #[must_use]
    pub fn was_connected(&self) -> bool {
        let is_judged = self.has_slots() || self.epoch().is_some();
        is_judged && self.shared.was_connected.load(Ordering::Relaxed)
    }

    /// The epoch that calls are for which let requests pass, of a store that is not in parts; `None` before the store was reached.
    #[must_use]
    pub fn epoch(&self) -> Option<String> {
        self.shared.epochs.current()
    }

    /// What begins the name of the marker that the epoch stands in.
    #[must_use]
    pub fn epoch_key(&self) -> Vec<u8> {
        format!("{}:epoch", self.settings.prefix).into_bytes()
    }

    /// How it does.
    #[must_use]
    pub fn status(&self) -> LinkStatus {
        let map = self.map.load();
        LinkStatus {
            topology: self.settings.topology.name(),
            servers: map.lines.iter().map(|kept| kept.line.condition()).collect(),
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

/// One call, of the link's script or of `other`, within the timeout.
pub(crate) async fn follow(
    map: &ArcSwap<ServerMap>,
    settings: &LinkSettings,
    shared: &LinkState,
    call: &Call,
    other: Option<&'static str>,
) -> Result<Reply, StoreError> {
    let map = map.load_full();
    let deadline = deadline(settings.timeout);
    let whole = other.unwrap_or(shared.script);
    let mut manner = other.map_or(ScriptForm::Hash, ScriptForm::Text);
    let mut line = map.line_of(call).ok_or(StoreError::Unavailable)?;
    for _ in 0..REDIRECTIONS {
        let permit = line.permit().ok_or(StoreError::Unavailable)?;
        let asked = timeout_at(deadline, line.ask(call, manner)).await;
        let fault = match asked {
            Err(_) => ErrorReply::Failed(StoreError::TimedOut),
            Ok(Err(fault)) => fault,
            Ok(Ok(reply)) => {
                line.succeeded(permit);
                return Ok(reply);
            }
        };
        if let ErrorReply::Failed(failure) = fault {
            line.failed(permit, &failure);
            return Err(failure);
        }
        line.succeeded(permit);
        match fault {
            ErrorReply::NoScript => {
                shared.observer.count_event(LinkEvent::ScriptLoaded);
                manner = ScriptForm::Text(whole);
            }
            ErrorReply::Moved(place) => {
                shared.look_again();
                line = elsewhere(&map, place).ok_or(StoreError::Refused(RefusalReason::Moved))?;
            }
            ErrorReply::Ask(place) => {
                line = elsewhere(&map, place).ok_or(StoreError::Refused(RefusalReason::Moved))?;
                manner = ScriptForm::TextAfterAsking(whole);
            }
            ErrorReply::TryAgain | ErrorReply::Failed(_) => {
                let pause = tokio::time::sleep(MOVING);
                if timeout_at(deadline, pause).await.is_err() {
                    return Err(StoreError::Refused(RefusalReason::TryAgain));
                }
            }
        }
    }
    Err(StoreError::Refused(RefusalReason::TryAgain))
}

fn elsewhere(map: &ServerMap, place: Option<HostPort>) -> Option<&Connection> {
    map.line_to(&place?)
}
