//! Calls the script in the store, and learns the store's time from every answer.
//!
//! # Concurrency
//! The store's time is one number, its offset from this node's clock, as the latest answer showed it. A cache that is asked about a moment
//! some microseconds off remembers a refusal for as much longer or shorter; whatever a cache does not refuse is decided by the store.

use std::fmt;
use std::num::NonZeroU32;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sluicegate_limiter::{KeyHash, Seed, Settle, Timestamp};
use sluicegate_redis_link::{
    HashSeed, Link, LinkEnvironment, LinkObserver, LinkScript, StoreError,
};
use tracing::warn;

use super::change_feed::ChangeFeed;
use super::link_settings::{link_settings, timestamp};
use super::recovery_cache::RecoveryCache;
use super::replication::{PushCounters, SyncSession};
use super::script::{self, Call, NodeId, ScriptAnswer};
use super::settlements::{self, SettlementCounters};
use sluicegate_config::rules::StoreRules;
use sluicegate_decide::store::PendingWrites;
use sluicegate_decide::store::ReplayQueue;
use sluicegate_decide::store::{CachedKey, CountingStore, KeyChange};
use sluicegate_decide::store::{
    KeyName, StoreAnswer, StoreAsk, StoreCall, StoreCharge, StoreFailure,
};

/// The target of process logs: the module of the gateway that this was, so that filters on it or a module above it go on.
const LOG_TARGET: &str = "sluicegate::store::client";

/// A store that several nodes count in: the link to it, and what this node has not sent yet.
pub struct Store {
    rules: StoreRules,
    environment: Arc<dyn LinkEnvironment>,
    link: Link,
    pub(super) ahead: ClockOffset,
    pub(super) shared: Arc<StoreState>,
}

/// The state of this node towards a store. It outlives a change of the link, and passes to another store in which keys have the same
/// names.
#[derive(Debug)]
pub(super) struct StoreState {
    pub(super) replay_queue: ReplayQueue,
    pub(super) recovery_cache: RecoveryCache,
    pub(super) changes: ChangeFeed,
    pub(super) settlements: SettlementCounters,
    pub(super) pending_writes: PendingWrites,
    pub(super) session: tokio::sync::Mutex<SyncSession>,
    pub(super) pushed: PushCounters,
    pub(super) foreign: AtomicBool,
    /// The seed that the names of keys were made with; `None` until a store has named it.
    pub(super) under: Mutex<Option<HashSeed>>,
}

/// The party that waits for the answer to a call, which decides its timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallWait {
    /// A request.
    Request,
    /// A background task or an operator.
    Background,
}

/// Charges that are queued, dropped and settled, for an operator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemoteWriteStats {
    /// Keys in the replay queue.
    pub unsent_keys: usize,
    /// Charges that were dropped because that queue was full.
    pub unsent_lost: u64,
    /// Settlements that the store has applied.
    pub settled: u64,
    /// Settlements that failed.
    pub not_settled: u64,
}

/// The offset of the store's clock from this node's, in nanoseconds; negative where it is behind.
#[derive(Debug, Default)]
pub(super) struct ClockOffset(AtomicI64);

impl ClockOffset {
    /// Converts a moment of this node's clock into the store's.
    pub(super) fn moment(&self, now: Timestamp) -> Timestamp {
        // Relaxed, here and below: a hint that stands for itself.
        let ahead = self.0.load(Ordering::Relaxed);
        let nanos = now.as_nanos().saturating_add_signed(ahead);
        Timestamp::from_nanos(nanos)
    }

    /// Returns a copy for another store.
    fn known(&self) -> Self {
        Self(AtomicI64::new(self.0.load(Ordering::Relaxed)))
    }

    /// Learns the offset from an answer that showed the store's time `there` to a call of `sent`. Taking the answer as immediate errs
    /// towards a store that is ahead, by half a round trip: a cache is then asked about a moment that is not over yet, and has more room
    /// rather than less.
    pub(super) fn update(&self, sent: Timestamp, there: Timestamp) {
        let ahead = i128::from(there.as_nanos()) - i128::from(sent.as_nanos());
        let ahead = i64::try_from(ahead).unwrap_or(0);
        self.0.store(ahead, Ordering::Relaxed);
    }
}

impl Store {
    /// Creates the store of `rules`, which takes time and sockets from `environment`, and whose calls `observer` counts. It takes over the
    /// state of the one `before` where keys have the same names. Until the store has reported the number of gateways it counts
    /// `known_gateways` at least. Until [`Link::start`] the store is unavailable.
    #[must_use]
    pub fn new(
        rules: StoreRules,
        known_gateways: Option<NonZeroU32>,
        environment: Arc<dyn LinkEnvironment>,
        observer: Arc<dyn LinkObserver>,
        before: Option<&Self>,
    ) -> Self {
        let known = before.map(|before| &before.link);
        let mut settings = link_settings(&rules, Arc::clone(&environment));
        settings.known_nodes = settings
            .known_nodes
            .max(known_gateways.unwrap_or(NonZeroU32::MIN));
        let link = Link::new(settings, LinkScript::batched(script::TEXT), observer, known);
        let before = before.filter(|before| before.link.names_alike(&link));
        Self {
            rules,
            link,
            ahead: before.map_or_else(ClockOffset::default, |before| before.ahead.known()),
            shared: match before {
                Some(before) => Arc::clone(&before.shared),
                None => Arc::new(StoreState::new(&*environment)),
            },
            environment,
        }
    }

    /// Returns the rules that the store was made of.
    #[must_use]
    pub fn rules(&self) -> &StoreRules {
        &self.rules
    }

    /// Returns a random number for jitter.
    pub(super) fn jitter(&self) -> u64 {
        self.environment.jitter()
    }

    /// Returns the time since `earlier`.
    pub(super) fn since(&self, earlier: Timestamp) -> Duration {
        self.now().saturating_since(earlier)
    }

    /// Returns the counters of settlements.
    pub(super) fn settlements(&self) -> &SettlementCounters {
        &self.shared.settlements
    }

    /// Returns the state of queues and settlements for an operator.
    #[must_use]
    pub fn remote_write_stats(&self) -> RemoteWriteStats {
        let StoreState {
            replay_queue,
            settlements,
            ..
        } = &*self.shared;
        RemoteWriteStats {
            unsent_keys: replay_queue.keys(),
            unsent_lost: replay_queue.lost(),
            settled: settlements.made(),
            not_settled: settlements.failed(),
        }
    }

    /// Makes a call that charges all of its asks, or none.
    ///
    /// # Errors
    /// The store cannot be reached, or its answer is none.
    pub async fn decide(
        &self,
        call: StoreCall<'_>,
        now: Timestamp,
    ) -> Result<StoreAnswer, StoreFailure> {
        let decided = self.charge(&call.asks, now).await;
        decided.map_err(|error| match error.surely_did_not_arrive() {
            true => StoreFailure::NotSent,
            false => StoreFailure::Unknown,
        })
    }

    async fn charge(
        &self,
        asks: &[StoreAsk<'_>],
        now: Timestamp,
    ) -> Result<StoreAnswer, StoreError> {
        let epoch = self.guarding_epoch()?;
        let call = |near| self.guard(script::decide(asks, near), epoch.as_deref());
        let waits = CallWait::Request;
        let decided = self.run(asks, call(self.moment(now)), call, waits).await?;
        self.remember(asks, &decided);
        Ok(decided)
    }

    /// Returns the epoch that calls name; `None` in a Cluster, where they name none.
    ///
    /// # Errors
    /// Counts that were lost may still be restored.
    fn guarding_epoch(&self) -> Result<Option<String>, StoreError> {
        match self.link.has_slots() {
            true => Ok(None),
            false => self.link.epoch().map(Some).ok_or(StoreError::Unavailable),
        }
    }

    /// Returns the same call for a store of this epoch.
    fn guard(&self, call: Call, epoch: Option<&str>) -> Call {
        match epoch {
            Some(epoch) => script::guarded(call, self.link.epoch_key(), epoch),
            None => call,
        }
    }

    /// Remembers the states of an answer, to restore a store that loses them.
    fn remember(&self, asks: &[StoreAsk<'_>], answer: &StoreAnswer) {
        let recovery_cache = &self.shared.recovery_cache;
        for (ask, result) in asks.iter().zip(&answer.results) {
            recovery_cache.remember(ask.name, ask.policy, &result.state, answer.now);
        }
    }

    /// Returns the decision that [`decide`](Self::decide) would make; writes nothing.
    pub(super) async fn peek(
        &self,
        ask: &StoreAsk<'_>,
        now: Timestamp,
    ) -> Result<StoreAnswer, StoreError> {
        let asks = [*ask];
        let call = |near| script::peek(&asks, near);
        self.run(&asks, call(self.moment(now)), call, CallWait::Background)
            .await
    }

    /// Charges one ask whether it fits or not.
    pub(super) async fn charge_unchecked(
        &self,
        ask: &StoreAsk<'_>,
        now: Timestamp,
    ) -> Result<StoreAnswer, StoreError> {
        let call = |near| script::charge_unchecked(ask, near);
        self.run(&[*ask], call(self.moment(now)), call, CallWait::Background)
            .await
    }

    /// Deletes a key.
    pub(super) async fn forget(&self, name: &KeyName) -> Result<(), StoreError> {
        self.forget_unsent(name);
        self.link.exchange(script::forget(name)).await.map(drop)
    }

    /// Settles a charge, and returns the answer, with the state that this left; `None` where nothing changes.
    pub(super) async fn settle(
        &self,
        charge: &StoreCharge,
        due: Settle,
        now: Timestamp,
    ) -> Result<Option<StoreAnswer>, StoreError> {
        let Some(call) = script::settle(charge, due, self.moment(now)) else {
            return Ok(None);
        };
        // A store that has lost its counts would answer with a state that is not to be restored.
        let epoch = self.guarding_epoch()?;
        let call = self.guard(call, epoch.as_deref());
        let again = |near| match script::settle(charge, due, near) {
            Some(again) => self.guard(again, epoch.as_deref()),
            None => call.clone(),
        };
        let asks = [charge.ask()];
        let waits = CallWait::Background;
        let decided = self.run(&asks, call.clone(), again, waits).await?;
        self.remember(&asks, &decided);
        Ok(Some(decided))
    }

    /// Runs a call about `asks`, and once more `again`, near another moment, where the store did not evaluate the first.
    async fn run(
        &self,
        asks: &[StoreAsk<'_>],
        call: Call,
        again: impl Fn(Timestamp) -> Call,
        waits: CallWait,
    ) -> Result<StoreAnswer, StoreError> {
        let mut answer = self.run_once(asks, call, waits).await?;
        if let ScriptAnswer::Elsewhen(near) = answer {
            answer = self.run_once(asks, again(near), waits).await?;
        }
        match answer {
            ScriptAnswer::Decided(decided) => Ok(decided),
            ScriptAnswer::Elsewhen(_) => Err(StoreError::Unreadable),
            ScriptAnswer::Foreign(name) => Err(self.log_foreign(&name)),
            ScriptAnswer::Emptied => Err(self.mark_emptied()),
        }
    }

    async fn run_once(
        &self,
        asks: &[StoreAsk<'_>],
        call: Call,
        waits: CallWait,
    ) -> Result<ScriptAnswer, StoreError> {
        let sent = self.now();
        let reply = match waits {
            CallWait::Request => self.link.run(call).await?,
            CallWait::Background => self.link.exchange(call).await?,
        };
        let answer = script::read(asks, reply).map_err(|_| StoreError::Unreadable)?;
        if let ScriptAnswer::Decided(StoreAnswer { now, .. }) | ScriptAnswer::Elsewhen(now) =
            &answer
        {
            self.ahead.update(sent, *now);
        }
        Ok(answer)
    }

    /// Marks the store as emptied, since a call named another epoch and did nothing: until it is restored it counts as unavailable.
    fn mark_emptied(&self) -> StoreError {
        self.link.reread_epochs();
        StoreError::Unavailable
    }

    /// Logs once that another program writes under the store's prefix.
    fn log_foreign(&self, name: &KeyName) -> StoreError {
        // Relaxed: the flag guards one log line and publishes nothing.
        if !self.shared.foreign.swap(true, Ordering::Relaxed) {
            warn!(
                target: LOG_TARGET,
                "store: {} holds a foreign value and cannot be counted in; set [store] prefix to one of your own",
                name.as_str()
            );
        }
        StoreError::Unreadable
    }
}

impl StoreState {
    /// Returns the state of a node that starts.
    fn new(environment: &dyn LinkEnvironment) -> Self {
        Self {
            replay_queue: ReplayQueue::default(),
            recovery_cache: RecoveryCache::default(),
            changes: ChangeFeed::new(timestamp(environment.now())),
            settlements: SettlementCounters::default(),
            pending_writes: PendingWrites::default(),
            session: tokio::sync::Mutex::new(SyncSession::new(NodeId(environment.jitter()))),
            pushed: PushCounters::default(),
            foreign: AtomicBool::new(false),
            under: Mutex::default(),
        }
    }
}

impl CountingStore for Store {
    fn now(&self) -> Timestamp {
        timestamp(self.environment.now())
    }

    fn prefix(&self) -> &str {
        self.link.prefix()
    }

    fn seed(&self) -> Option<Seed> {
        self.link.seed().map(|seed| Seed::from_bytes(seed.0))
    }

    fn has_slots(&self) -> bool {
        self.link.has_slots()
    }

    fn moment(&self, now: Timestamp) -> Timestamp {
        self.ahead.moment(now)
    }

    fn nodes(&self) -> NonZeroU32 {
        self.link.nodes()
    }

    fn longest_push_delay(&self) -> Duration {
        self.longest_push_time()
    }

    fn has_counts(&self, now: Timestamp) -> bool {
        !self.is_exchange_late(now)
            && (self.link.has_slots() || self.link.has_counts_of(|| self.link.prefix().into()))
    }

    fn has_counts_of_key(&self, key: KeyHash, limit: &str, now: Timestamp) -> bool {
        let name = || KeyName::new(self.link.prefix(), key, limit);
        !self.is_exchange_late(now) && self.link.has_counts_of(|| name().as_str().into())
    }

    fn take_change(&self, key: KeyHash, limit: &str) -> Option<KeyChange> {
        self.take_open_change(key, limit)
    }

    fn replay_queue(&self) -> &ReplayQueue {
        &self.shared.replay_queue
    }

    fn pending_writes(&self) -> &PendingWrites {
        &self.shared.pending_writes
    }

    fn settle_later(self: Arc<Self>, charge: Box<StoreCharge>, settle: Settle, cache: CachedKey) {
        settlements::settle_later(self, charge, settle, cache);
    }
}

impl Deref for Store {
    type Target = Link;

    fn deref(&self) -> &Link {
        &self.link
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        into.debug_struct("Store")
            .field("shared", &self.shared)
            .finish_non_exhaustive()
    }
}
