//! Keeps the connection to one server: its breaker, its heartbeats, and the task that reconnects it.
//!
//! Calls only ever use a connection that exists. When it breaks, leaves an exchange unanswered, or leads to a server that takes no calls,
//! the breaker opens and the task makes another in the background: it locates the server, connects, loads the script, and sends a
//! heartbeat as the probe. Exchanges pass again only when the probe was answered within `exchange_timeout`, which takes a server that
//! accepts writes. A connection that was given up is never used again, so a late answer cannot be taken for another.
//!
//! Decisions, for each of which a request waits, have a breaker of their own: where five heartbeats or decisions in a row take longer than
//! `timeout`, none is sent until a heartbeat is fast enough. So a server far away takes exchanges, and delays no request.
//!
//! # Concurrency
//! One task a connection writes `live`, every caller reads it. A call that finds the breaker closed and no connection is
//! [`Unavailable`](StoreError::Unavailable), which does not count against the server.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinHandle};

use crate::address::{HostPort, ServerAddress};
use crate::batches::Batches;
use crate::bounds::SCRIPT_CALLS;
use crate::breaker::{
    BreakerEffect, CallPermit, CircuitBreaker, FailureWeight, ReconnectBackoff, jittered,
};
use crate::call::{Call, CallForm, CallUrgency, Reply, command, script_hash};
use crate::connect::{DialError, Handshake, OpenConnection, connect};
use crate::error::{ErrorReply, StoreError, read};
use crate::link_state::LinkState;
use crate::membership::{self, HEARTBEAT_INTERVAL, Heartbeat};
use crate::observer::LinkEvent;
use crate::script_batch::{CallAnswers, LoadedScript};
use crate::sentinel::{self, SentinelError};
use crate::server_status::{ConnectionState, ServerStatus, StatusRecord};
use crate::settings::{LinkSettings, Login, Topology};
use crate::time::deadline;

/// Heartbeats between two queries to Sentinels whether the master is still the same: ten seconds.
const SENTINEL_QUERY_BEATS: u32 = 10;

/// The way to find the server of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ServerLocator {
    /// A fixed address.
    Fixed {
        address: ServerAddress,
        database: u16,
    },
    /// The master that Sentinels name.
    Sentinels {
        master: String,
        nodes: Vec<HostPort>,
        login: Login,
    },
}

/// The form in which a call carries its script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScriptForm {
    /// The hash of the link's script, which the server has loaded.
    Hash,
    /// The hash of this one, which it may have run before.
    HashOf(&'static str),
    /// The text of the script.
    Text(&'static str),
    /// The text after `ASKING`, for a server that imports the slot.
    TextAfterAsking(&'static str),
}

/// The connection to one server.
pub(crate) struct Connection {
    locator: ServerLocator,
    settings: Arc<LinkSettings>,
    shared: Arc<LinkState>,
    live: ArcSwapOption<LiveConnection>,
    breaker: CircuitBreaker,
    decision_breaker: CircuitBreaker,
    heartbeat_wanted: Notify,
    status: StatusRecord,
    /// The end of the names of the link's own keys on this server: a hash tag of one of its slots; empty where it has all slots.
    hash_tag: Mutex<String>,
    next_sentinel: AtomicUsize,
}

/// A connection with the task that keeps it, which ends with it.
pub(crate) struct SupervisedConnection {
    pub(crate) connection: Arc<Connection>,
    task: AbortHandle,
}

/// The permission for one call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SendPermit {
    connection: CallPermit,
    /// That of the breaker of decisions; `None` for an exchange.
    decision: Option<CallPermit>,
}

/// An established connection.
struct LiveConnection {
    script: LoadedScript,
    /// The calls that wait to be sent together; `None` where each is sent alone.
    batches: Option<Batches>,
}

impl ServerLocator {
    /// Returns the name that stands for the address until the server was located.
    fn name(&self) -> String {
        match self {
            Self::Fixed { address, .. } => address.to_string(),
            Self::Sentinels { master, .. } => format!("master {master}"),
        }
    }
}

impl Connection {
    /// Creates a connection that is not established yet.
    pub(crate) fn new(
        locator: ServerLocator,
        hash_tag: String,
        settings: Arc<LinkSettings>,
        shared: Arc<LinkState>,
    ) -> Self {
        let status = StatusRecord::new(locator.name(), Arc::clone(&settings));
        Self {
            locator,
            settings,
            shared,
            live: ArcSwapOption::empty(),
            breaker: CircuitBreaker::default(),
            decision_breaker: CircuitBreaker::default(),
            heartbeat_wanted: Notify::new(),
            status,
            hash_tag: Mutex::new(hash_tag),
            next_sentinel: AtomicUsize::new(0),
        }
    }

    /// Returns whether this is the connection to `host`.
    pub(crate) fn is_to(&self, host: &HostPort) -> bool {
        matches!(&self.locator, ServerLocator::Fixed { address: ServerAddress::Tcp(address), .. } if address == host)
    }

    /// Sets the end of the names of the link's own keys on this server.
    pub(crate) fn set_hash_tag(&self, hash_tag: String) {
        *self.lock_hash_tag() = hash_tag;
    }

    /// Triggers a heartbeat.
    pub(crate) fn trigger_heartbeat(&self) {
        self.heartbeat_wanted.notify_one();
    }

    /// Returns whether this is the server whose own keys of the link end so.
    pub(crate) fn has_hash_tag(&self, hash_tag: &str) -> bool {
        *self.lock_hash_tag() == hash_tag
    }

    /// Returns whether counts that the server has lost are being restored.
    pub(crate) fn is_in_recovery(&self) -> bool {
        self.shared.epochs.is_in_recovery(&self.lock_hash_tag())
    }

    /// Returns the state for an operator.
    pub(crate) fn status(&self) -> ServerStatus {
        let status = self.status.get();
        let is_slow = self.decision_breaker.permit().is_none();
        ServerStatus {
            is_in_recovery: self.is_in_recovery() || self.shared.seed.load().is_none(),
            state: match status.state {
                ConnectionState::Connected if is_slow => ConnectionState::Slow,
                state => state,
            },
            ..status
        }
    }

    /// Permits a call; `None` while a breaker for it is open.
    pub(crate) fn permit(&self, urgency: CallUrgency) -> Option<SendPermit> {
        let connection = self.breaker.permit()?;
        let decision = match urgency {
            CallUrgency::Decision => Some(self.decision_breaker.permit()?),
            CallUrgency::Exchange => None,
        };
        Some(SendPermit {
            connection,
            decision,
        })
    }

    /// Records a call that was answered, even by an error that is about the call alone.
    pub(crate) fn succeeded(&self, permit: SendPermit) {
        self.breaker.succeeded(permit.connection);
        if let Some(decision) = permit.decision {
            self.decision_breaker.succeeded(decision);
        }
    }

    /// Records a call that failed.
    pub(crate) fn failed(&self, permit: SendPermit, error: &StoreError) {
        let weight = match (error.weight(), permit.decision) {
            (None, _) if *error == StoreError::Unavailable => return,
            (None, _) => return self.succeeded(permit),
            // The connection is none the worse for an answer that comes late.
            (Some(FailureWeight::Counts), Some(decision)) => {
                let breaker = &self.decision_breaker;
                return self.note_decisions(breaker.failed(decision, FailureWeight::Counts));
            }
            // After so long no answer will come over this connection.
            (Some(_), None) if *error == StoreError::TimedOut => FailureWeight::Decides,
            (Some(weight), _) => weight,
        };
        if self.breaker.failed(permit.connection, weight) == BreakerEffect::Opened {
            self.note_breaker_opened(&error.to_string());
        }
    }

    /// Sends a call once and waits for its answer, without a timeout.
    pub(crate) async fn send(
        &self,
        call: &Arc<Call>,
        form: ScriptForm,
    ) -> Result<Reply, ErrorReply> {
        let Some(live) = self.live.load_full() else {
            return Err(ErrorReply::Failed(StoreError::Unavailable));
        };
        let mut multiplexed = live.script.multiplexed.clone();
        match form {
            ScriptForm::Hash => {
                if let Some(batches) = &live.batches {
                    return batches.run(Arc::clone(call)).await;
                }
                let command = command(call, "EVALSHA", &live.script.hash);
                read(multiplexed.send_packed_command(&command).await)
            }
            ScriptForm::HashOf(script) => {
                let command = command(call, "EVALSHA", &script_hash(script));
                read(multiplexed.send_packed_command(&command).await)
            }
            ScriptForm::Text(script) => {
                let command = command(call, "EVAL", script);
                read(multiplexed.send_packed_command(&command).await)
            }
            ScriptForm::TextAfterAsking(script) => {
                let mut both = redis::pipe();
                both.cmd("ASKING").ignore();
                both.add_command(command(call, "EVAL", script));
                let answers = multiplexed.send_packed_commands(&both, 0, 2).await;
                read(answers.map(|answers| answers.into_iter().next_back().unwrap_or_default()))
            }
        }
    }

    /// Sends many calls in one write. Returns as many answers in their order, or the error of all of them.
    pub(crate) async fn send_all(&self, calls: &[&Call]) -> Result<CallAnswers, StoreError> {
        let Some(live) = self.live.load_full() else {
            return Err(StoreError::Unavailable);
        };
        let at_once = live.batches.as_ref().map_or(1, |_| SCRIPT_CALLS);
        live.script.run_all(calls, at_once).await
    }

    /// Returns whether calls may share a run of the script: keys of different slots of a Cluster may not.
    fn takes_batches(&self) -> bool {
        self.shared.script.form == CallForm::Batched && !self.is_of_cluster()
    }

    /// Keeps the connection established until the link is dropped.
    async fn keep(self: Arc<Self>) {
        let mut backoff = ReconnectBackoff::default();
        loop {
            match self.establish().await {
                Err(error) => {
                    self.shared.observer.count_event(LinkEvent::NotConnected);
                    self.status.unreachable(&error);
                    self.shared.refresh_topology();
                }
                Ok((live, mut driver)) => {
                    self.shared.observer.count_event(LinkEvent::Connected);
                    let since = self.settings.environment.now();
                    self.live.store(Some(Arc::new(live)));
                    let _ = self.breaker.close();
                    self.status.available();
                    self.shared.reached.notify_one();
                    self.send_heartbeats(&mut driver).await;
                    self.live.store(None);
                    backoff.lost_after(self.settings.environment.now().saturating_since(since));
                }
            }
            tokio::time::sleep(backoff.pause(self.settings.environment.jitter())).await;
        }
    }

    /// Locates the server, connects, loads the script, and sends a heartbeat.
    async fn establish(&self) -> Result<(LiveConnection, IoTask), ConnectError> {
        let (address, database) = self.locate().await?;
        self.status.set_address(&address);
        let handshake = Handshake::Keys { database };
        let OpenConnection {
            mut multiplexed,
            driver,
        } = connect(&address, handshake, &self.settings)
            .await
            .map_err(ConnectError::Unreachable)?;
        let driver = IoTask(tokio::spawn(driver));
        let deadline = deadline(self.settings.connect_timeout);
        let mut loading = redis::cmd("SCRIPT");
        loading.arg("LOAD").arg(self.shared.script.text);
        let loaded =
            tokio::time::timeout_at(deadline, multiplexed.send_packed_command(&loading)).await;
        let loaded = loaded.map_err(|_| ConnectError::Failed(StoreError::TimedOut))?;
        let hash = match read(loaded) {
            Ok(Reply::Bytes(hash)) => String::from_utf8_lossy(&hash).into_owned(),
            Ok(_) => return Err(ConnectError::Failed(StoreError::ConnectionLost)),
            Err(error) => return Err(ConnectError::Failed(error.into_error())),
        };
        self.shared.observer.count_event(LinkEvent::ScriptLoaded);
        let script = LoadedScript {
            multiplexed,
            hash,
            shared: Arc::clone(&self.shared),
        };
        let batches = self.takes_batches().then(|| Batches::spawn(script.clone()));
        let live = LiveConnection { script, batches };
        let probe = self.send_heartbeat(&live).await;
        let round_trip = probe.map_err(ConnectError::Failed)?;
        let effect = match round_trip <= self.settings.timeout {
            true => self.decision_breaker.close(),
            false => self.decision_breaker.open(),
        };
        // What the connection begins with is no change to log.
        let _ = effect;
        Ok((live, driver))
    }

    /// Sends one heartbeat, within the timeout of an exchange, and returns how long it took.
    async fn send_heartbeat(&self, live: &LiveConnection) -> Result<Duration, StoreError> {
        let hash_tag = self.lock_hash_tag().clone();
        let prefix = &self.settings.prefix;
        let keys = ["nodes", "epoch"].map(|name| format!("{prefix}:{name}{hash_tag}").into_bytes());
        let call = Call {
            keys: keys.to_vec(),
            args: Heartbeat::arguments(&self.shared.nodes, self.settings.environment.jitter()),
        };
        let sent = self.settings.environment.now();
        let wall = self.settings.environment.wall();
        let deadline = deadline(self.settings.exchange_timeout);
        let answer = tokio::time::timeout_at(deadline, live.send_heartbeat(&call)).await;
        let reply = match answer {
            Err(_) => return Err(StoreError::TimedOut),
            // The slot has gone elsewhere, so the server lives: the next look at the Cluster brings another key.
            Ok(Err(ErrorReply::Moved(_) | ErrorReply::Ask(_) | ErrorReply::TryAgain))
                if self.is_of_cluster() =>
            {
                self.shared.refresh_topology();
                return Ok(self.settings.environment.now().saturating_since(sent));
            }
            Ok(Err(error)) => return Err(error.into_error()),
            Ok(Ok(reply)) => reply,
        };
        let Some(beat) = Heartbeat::read(&reply) else {
            return Err(StoreError::Unreadable);
        };
        let now = self.settings.environment.now();
        let round_trip = now.saturating_since(sent);
        // Half of the way there and back is the best guess at when the store read its clock.
        let then = wall.saturating_add(round_trip / 2);
        let ahead = i128::from(beat.time.as_nanos()) - i128::from(then.as_nanos());
        self.status
            .heartbeat(round_trip, i64::try_from(ahead / 1_000).ok());
        let change = self.shared.epochs.record_seen(&hash_tag, &beat.epoch);
        self.shared.nodes.apply(&beat, change, now);
        Ok(round_trip)
    }

    /// Lets decisions pass, or not, by the duration of a heartbeat.
    fn judge_round_trip(&self, round_trip: Duration) {
        let breaker = &self.decision_breaker;
        let is_fast = round_trip <= self.settings.timeout;
        let effect = match (is_fast, breaker.permit()) {
            (true, None) => breaker.close(),
            (true, Some(permit)) => return breaker.succeeded(permit),
            (false, Some(permit)) => breaker.failed(permit, FailureWeight::Counts),
            (false, None) => return,
        };
        self.note_decisions(effect);
    }

    /// Sends heartbeats until the connection ends or has to be replaced.
    async fn send_heartbeats(&self, driver: &mut IoTask) {
        let mut pause = self.heartbeat_pause();
        let mut beats = 0_u32;
        loop {
            tokio::select! {
                biased;
                _ = &mut driver.0 => {
                    if self.breaker.open() == BreakerEffect::Opened {
                        self.note_breaker_opened(&StoreError::ConnectionLost.to_string());
                    }
                    return;
                }
                () = self.heartbeat_wanted.notified() => {}
                () = tokio::time::sleep(pause) => {}
            }
            let permit = self.permit(CallUrgency::Exchange);
            let (Some(permit), Some(live)) = (permit, self.live.load_full()) else {
                return;
            };
            match self.send_heartbeat(&live).await {
                Ok(round_trip) => {
                    self.succeeded(permit);
                    self.judge_round_trip(round_trip);
                    pause = self.heartbeat_pause();
                }
                Err(error) => {
                    self.failed(permit, &error);
                    pause = match error.weight() {
                        // Where no requests ask, beats alone find out, and that should not take seconds.
                        Some(_) => Duration::ZERO,
                        None => self.heartbeat_pause(),
                    };
                }
            }
            beats = beats.wrapping_add(1);
            if beats.is_multiple_of(SENTINEL_QUERY_BEATS) && self.has_other_master().await {
                if self.breaker.open() == BreakerEffect::Opened {
                    self.note_breaker_opened("the Sentinels name another master");
                }
                return;
            }
        }
    }

    /// Returns the pause before the next heartbeat.
    fn heartbeat_pause(&self) -> Duration {
        jittered(HEARTBEAT_INTERVAL, self.settings.environment.jitter())
    }

    /// Returns whether the server has only a part of the keys.
    fn is_of_cluster(&self) -> bool {
        matches!(self.settings.topology, Topology::Cluster { .. })
    }

    /// Returns whether Sentinels name another master by now.
    async fn has_other_master(&self) -> bool {
        let ServerLocator::Sentinels { .. } = self.locator else {
            return false;
        };
        match self.locate().await {
            Ok((address, _)) => address.to_string() != self.status.get().address,
            // A master that answers is not left because nobody names one.
            Err(_) => false,
        }
    }

    async fn locate(&self) -> Result<(ServerAddress, u16), ConnectError> {
        match &self.locator {
            ServerLocator::Fixed { address, database } => Ok((address.clone(), *database)),
            ServerLocator::Sentinels {
                master,
                nodes,
                login,
            } => {
                // Relaxed: whoever is asked first.
                let next_sentinel = self.next_sentinel.fetch_add(1, Ordering::Relaxed);
                let address =
                    sentinel::find_master(master, nodes, login, next_sentinel, &self.settings)
                        .await;
                let address = address.map_err(ConnectError::NoMaster)?;
                Ok((ServerAddress::Tcp(address), 0))
            }
        }
    }

    /// Records that the breaker has opened, and wakes the tasks that locate servers.
    fn note_breaker_opened(&self, error: &str) {
        self.shared.observer.count_event(LinkEvent::BreakerOpened);
        self.status.breaker_opened(error);
        self.heartbeat_wanted.notify_one();
        self.shared.refresh_topology();
    }

    /// Records that decisions pass no longer, or pass again.
    fn note_decisions(&self, effect: BreakerEffect) {
        match effect {
            BreakerEffect::None => {}
            BreakerEffect::Opened => {
                self.shared.observer.count_event(LinkEvent::BreakerOpened);
                self.status.too_slow();
                // A server that hangs is to be found out soon.
                self.heartbeat_wanted.notify_one();
            }
            BreakerEffect::Closed => self.status.fast_again(),
        }
    }

    fn lock_hash_tag(&self) -> MutexGuard<'_, String> {
        // It is replaced whole, so a poisoned lock still holds one.
        self.hash_tag.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LiveConnection {
    /// Sends a heartbeat.
    async fn send_heartbeat(&self, call: &Call) -> Result<Reply, ErrorReply> {
        let mut multiplexed = self.script.multiplexed.clone();
        let by_hash = command(call, "EVALSHA", &script_hash(membership::SCRIPT));
        match read(multiplexed.send_packed_command(&by_hash).await) {
            // Its text loads it.
            Err(ErrorReply::NoScript) => {
                let by_text = command(call, "EVAL", membership::SCRIPT);
                read(multiplexed.send_packed_command(&by_text).await)
            }
            answer => answer,
        }
    }
}

impl SupervisedConnection {
    /// Spawns the task that keeps a connection. Must be called on a runtime.
    pub(crate) fn keep(connection: Connection) -> Self {
        let connection = Arc::new(connection);
        let task = tokio::spawn(Arc::clone(&connection).keep());
        Self {
            connection,
            task: task.abort_handle(),
        }
    }
}

impl Drop for SupervisedConnection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The task that moves a connection's bytes, aborted on drop.
struct IoTask(JoinHandle<()>);

impl Drop for IoTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The cause for which a server takes no calls yet.
#[derive(Debug)]
enum ConnectError {
    /// No Sentinel names the server.
    NoMaster(Vec<SentinelError>),
    /// The connection could not be made.
    Unreachable(DialError),
    /// The server did not load the script or did not answer the probe.
    Failed(StoreError),
}

impl fmt::Display for ConnectError {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoMaster(reasons) => {
                let reasons: Vec<String> = reasons.iter().map(ToString::to_string).collect();
                into.write_str(&reasons.join("; "))
            }
            Self::Unreachable(error) => error.fmt(into),
            Self::Failed(error) => error.fmt(into),
        }
    }
}
