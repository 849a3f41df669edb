//! Decides what one sync sends to the store, and applies each answer, lost ones included: the protocol of replication without its
//! transport.
//!
//! The due units of a key become one push, with a number of this node's. A push whose answer is lost is sent again as it was, before
//! anything else of its key; the key in the store keeps the number, so the push counts once however often it arrives
//! ([`script::push`]). A push that certainly did not arrive goes back to the queue.
//!
//! # Limits
//! A key keeps a number for [`PUSH_MEMORY`] at least. A push without an answer for nearly as long is given up: it may have been
//! charged and may not, and nothing may be charged twice. So an outage costs the store at most what was in flight when it began, and this
//! node still counts it.
//!
//! Units that have waited through an outage are sent as far as this node still counts them: of an hour's admissions, those within the
//! periods of the limit.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use sluicegate_limiter::{Cost, Policy, Timestamp};

use super::recovery_cache::RecoveryCache;
use super::script::{self, Call, NodeId, PUSH_MEMORY, PushNumber, Reply, ScriptAnswer};
use sluicegate_decide::store::{ChargeResult, KeyName, StoreAnswer, StoreAsk};
use sluicegate_decide::store::{ClockPair, PendingWrites, TakenDelta, cost_of};
use sluicegate_decide::store::{ReplayDelta, ReplayQueue};
use sluicegate_redis_link::StoreError;

/// The pushes of a node: their numbers, and those without an answer.
#[derive(Debug)]
pub(super) struct SyncSession {
    node: NodeId,
    last: u64,
    /// The pushes without an answer, the oldest first. Bounded by the keys that may be queued.
    unanswered: VecDeque<PendingPush>,
}

/// The queues of a node, and what is kept of the answers to what was sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct SyncQueues<'a> {
    /// Charges of replicated limits.
    pub(super) pending: &'a PendingWrites,
    /// Charges of strict limits from the time when the store was unavailable.
    pub(super) replay: &'a ReplayQueue,
    /// The store's latest answers about keys of strict limits.
    pub(super) remembered: &'a RecoveryCache,
    /// The counters.
    pub(super) pushed: &'a PushCounters,
}

/// One call that charges a key, or reads it.
#[derive(Debug)]
pub(super) struct PendingPush {
    source: PushSource,
    name: KeyName,
    /// The charge and its number; `None` for a read.
    charge: Option<(Cost, PushNumber)>,
    /// The time when it was first sent.
    first: Timestamp,
    /// The state of earlier attempts.
    sent: SendState,
    /// A moment by the store's clock, where the store has reported that it is in other windows than expected.
    near: Option<Timestamp>,
}

/// The marker of a store that has its counts.
#[derive(Clone, Debug)]
pub(super) struct EpochGuard {
    /// The key of the marker.
    pub(super) marker: Vec<u8>,
    /// The epoch in which this node has restored the counts.
    pub(super) epoch: String,
}

/// The queue that it was taken from.
#[derive(Debug)]
enum PushSource {
    Pending(TakenDelta),
    Replay(ReplayDelta),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SendState {
    NotSent,
    MaybeSent,
}

/// Counters of pushes since the start.
#[derive(Debug, Default)]
pub(super) struct PushCounters {
    /// Units that the store charged, now or before.
    units: AtomicU64,
    /// Pushes sent again.
    repeated: AtomicU64,
    /// Pushes to keys that hold what no gateway writes.
    foreign: AtomicU64,
    syncs: AtomicU64,
    /// True after a log line about clocks that are far apart.
    pub(super) is_skewed: AtomicBool,
    /// True after a push that the store did not take since it has lost its counts.
    pub(super) is_refused_by_epoch: AtomicBool,
    /// The time of the oldest push without an answer, in nanoseconds since the epoch; 0 for none.
    oldest_unanswered: AtomicU64,
    /// The time at which the exchange under way began, in nanoseconds since the epoch; 0 for none.
    began: AtomicU64,
    /// The duration of the latest exchange that was answered, in nanoseconds.
    round_trip: AtomicU64,
}

/// The result of a sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SyncResult {
    /// Everything was sent.
    Complete,
    /// The store became unavailable.
    Partial,
}

/// The time for which a push is repeated, with a margin for the round trip.
const PATIENCE: Duration = Duration::from_secs(PUSH_MEMORY.as_secs() - 10);
/// Units that have waited for longer are sent as far as they still count.
const LATE: Duration = Duration::from_secs(2);

impl SyncSession {
    /// Creates the session of `node`.
    #[must_use]
    pub(super) fn new(node: NodeId) -> Self {
        Self {
            node,
            last: 0,
            unanswered: VecDeque::new(),
        }
    }

    /// Returns the next pushes, at most `most`, to keys that begin with `prefix`: those without an answer first, then keys that have
    /// waited since `until` or longer.
    pub(super) fn batch(
        &mut self,
        prefix: &str,
        most: usize,
        queues: SyncQueues<'_>,
        until: Timestamp,
        now: Timestamp,
    ) -> Vec<PendingPush> {
        let mut batch = Vec::new();
        while batch.len() < most
            && let Some(push) = self.unanswered.pop_front()
        {
            if now.saturating_since(push.first) < PATIENCE {
                queues.pushed.repeated.fetch_add(1, Ordering::Relaxed);
                batch.push(push);
            } else {
                push.give_up(queues);
            }
        }
        for taken in queues.pending.take_due(most - batch.len(), until) {
            batch.push(self.push_pending(prefix, taken, now));
        }
        for (name, delta) in queues.replay.take(most - batch.len()) {
            // The store must receive the pushes of a key in their order.
            let mut others = batch.iter().chain(&self.unanswered);
            if others.any(|push| push.name == name) {
                put_back(queues, &name, &delta);
            } else {
                batch.push(self.push_replay(name, delta, now));
            }
        }
        batch
    }

    /// Applies the reply to `push`, and returns the store's time, if the reply has it.
    pub(super) fn apply(
        &mut self,
        push: PendingPush,
        reply: Result<Reply, StoreError>,
        queues: SyncQueues<'_>,
    ) -> Option<Timestamp> {
        let answer = match reply {
            Ok(reply) => script::read(&[push.ask()], reply).ok(),
            Err(error) if error.surely_did_not_arrive() && push.sent == SendState::NotSent => {
                push.put_back(queues);
                return None;
            }
            // It may have been executed.
            Err(_) => None,
        };
        match answer {
            Some(ScriptAnswer::Decided(result)) => {
                push.confirm(&result, queues);
                Some(result.now)
            }
            Some(ScriptAnswer::Elsewhen(now)) => {
                // Nothing was written, so the number may be used again.
                let near = Some(now);
                self.unanswered.push_back(PendingPush { near, ..push });
                Some(now)
            }
            Some(ScriptAnswer::Emptied) => {
                // Nothing was written, so the number may be used again.
                queues
                    .pushed
                    .is_refused_by_epoch
                    .store(true, Ordering::Relaxed);
                self.unanswered.push_back(push);
                None
            }
            Some(ScriptAnswer::Foreign(_)) => {
                queues.pushed.foreign.fetch_add(1, Ordering::Relaxed);
                push.give_up(queues);
                None
            }
            // A read that was lost is not repeated.
            None if push.charge.is_none() => {
                push.give_up(queues);
                None
            }
            None => {
                let sent = SendState::MaybeSent;
                self.unanswered.push_back(PendingPush { sent, ..push });
                None
            }
        }
    }

    /// Gives up all pushes without an answer.
    pub(super) fn give_up(&mut self, queues: SyncQueues<'_>) {
        for push in self.unanswered.drain(..) {
            push.give_up(queues);
        }
    }

    /// Returns the time since which the oldest push without an answer waits.
    #[must_use]
    pub(super) fn oldest_unanswered(&self) -> Option<Timestamp> {
        let since = self.unanswered.iter().map(|push| match &push.source {
            PushSource::Pending(taken) => taken.since,
            PushSource::Replay(_) => push.first,
        });
        since.min()
    }

    fn push_pending(&mut self, prefix: &str, mut taken: TakenDelta, now: Timestamp) -> PendingPush {
        if now.saturating_since(taken.since) > LATE {
            let counted = taken.replicated.own.used(taken.counter.key(), now);
            taken.units = taken.units.min(counted);
        }
        let name = KeyName::new(prefix, taken.name, &taken.replicated.registered.limit);
        self.push(name, taken.units, PushSource::Pending(taken), now)
    }

    /// Makes a push of units that were admitted while the store was unavailable: how many still count is unknown, so at most what fills
    /// the limit.
    fn push_replay(&mut self, name: KeyName, delta: ReplayDelta, now: Timestamp) -> PendingPush {
        let units = delta.units.min(delta.policy.most().into());
        self.push(name, units, PushSource::Replay(delta), now)
    }

    fn push(
        &mut self,
        name: KeyName,
        units: u64,
        source: PushSource,
        now: Timestamp,
    ) -> PendingPush {
        let charge = cost_of(units).map(|cost| {
            self.last += 1;
            (cost, PushNumber(self.last))
        });
        PendingPush {
            source,
            name,
            charge,
            first: now,
            sent: SendState::NotSent,
            near: None,
        }
    }

    /// Returns the call that sends `push`. That of a strict limit names the epoch of `guard`: a store that has lost its counts since would
    /// answer with a state that is not to be restored.
    #[must_use]
    pub(super) fn call(
        &self,
        push: &PendingPush,
        guard: Option<&EpochGuard>,
        at: ClockPair,
    ) -> Call {
        let near = push.near.unwrap_or(at.store);
        let Some((_, number)) = push.charge else {
            return script::peek(&[push.ask()], near);
        };
        let call = script::push(&push.ask(), self.node, number, near);
        match (&push.source, guard) {
            (PushSource::Replay(_), Some(guard)) => {
                script::guarded(call, guard.marker.clone(), &guard.epoch)
            }
            (PushSource::Replay(_), None) | (PushSource::Pending(_), _) => call,
        }
    }
}

impl PendingPush {
    fn policy(&self) -> &Policy {
        match &self.source {
            PushSource::Pending(taken) => taken.replicated.cache.policy(),
            PushSource::Replay(delta) => &delta.policy,
        }
    }

    fn ask(&self) -> StoreAsk<'_> {
        StoreAsk {
            policy: self.policy(),
            name: &self.name,
            cost: self.charge.map_or(Cost::ONE, |(cost, _)| cost),
        }
    }

    fn units(&self) -> u64 {
        self.charge.map_or(0, |(cost, _)| cost.get().into())
    }

    /// Applies the state of the key, and counts the units and what they exceed the limit by.
    fn confirm(&self, result: &StoreAnswer, queues: SyncQueues<'_>) {
        for answer in &result.results {
            match &self.source {
                PushSource::Pending(taken) => {
                    if result.charge_result == ChargeResult::Charged {
                        let excess = answer.state.excess(self.policy(), result.now);
                        taken.replicated.registered.exceed(excess.min(self.units()));
                    }
                    let at = ClockPair {
                        here: self.first,
                        store: result.now,
                    };
                    (queues.pending).apply_remote(taken.counter, self.units(), &answer.state, at);
                }
                // The store may lose it before another request with this key is decided there.
                PushSource::Replay(delta) => {
                    (queues.remembered).remember(
                        &self.name,
                        &delta.policy,
                        &answer.state,
                        result.now,
                    );
                }
            }
        }
        // Relaxed, here and in `apply`: numbers to show, publish nothing.
        queues
            .pushed
            .units
            .fetch_add(self.units(), Ordering::Relaxed);
    }

    /// Returns the units to the queue that they were taken from.
    fn put_back(&self, queues: SyncQueues<'_>) {
        match &self.source {
            PushSource::Pending(taken) => queues.pending.requeue(taken),
            PushSource::Replay(delta) => put_back(queues, &self.name, delta),
        }
    }

    /// Drops the push, whose delivery will never be known.
    fn give_up(&self, queues: SyncQueues<'_>) {
        queues.pending.count_lost(self.units());
        if let PushSource::Pending(taken) = &self.source {
            queues.pending.end_flight(taken.counter);
        }
    }
}

fn put_back(queues: SyncQueues<'_>, name: &KeyName, delta: &ReplayDelta) {
    if let Some(cost) = cost_of(delta.units) {
        let policy = &delta.policy;
        queues.replay.add(&StoreAsk { policy, name, cost });
    }
}

impl PushCounters {
    /// Returns the units that the store has charged.
    #[must_use]
    pub(super) fn units(&self) -> u64 {
        self.units.load(Ordering::Relaxed)
    }

    /// Returns the pushes that were sent again because their answer was lost.
    #[must_use]
    pub(super) fn repeated(&self) -> u64 {
        self.repeated.load(Ordering::Relaxed)
    }

    /// Returns the syncs that sent everything.
    #[must_use]
    pub(super) fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Relaxed)
    }

    /// Returns the time since which the oldest push without an answer waits, as of the latest sync.
    #[must_use]
    pub(super) fn oldest_unanswered(&self) -> Option<Timestamp> {
        let nanos = self.oldest_unanswered.load(Ordering::Relaxed);
        (nanos > 0).then(|| Timestamp::from_nanos(nanos))
    }

    /// Records that an exchange begins.
    pub(super) fn record_begin(&self, now: Timestamp) {
        self.began.store(now.as_nanos(), Ordering::Relaxed);
    }

    /// Records the end of the exchange, and how long it took if it was answered.
    pub(super) fn record_answer(&self, round_trip: Option<Duration>) {
        self.began.store(0, Ordering::Relaxed);
        if let Some(round_trip) = round_trip {
            let nanos = u64::try_from(round_trip.as_nanos()).unwrap_or(u64::MAX);
            self.round_trip.store(nanos, Ordering::Relaxed);
        }
    }

    /// Returns the duration of the latest exchange that was answered.
    #[must_use]
    pub(super) fn round_trip(&self) -> Duration {
        Duration::from_nanos(self.round_trip.load(Ordering::Relaxed))
    }

    /// Returns whether the answer to an exchange is late: it took four times as long as the latest, and `patience` beside.
    #[must_use]
    pub(super) fn is_late(&self, patience: Duration, now: Timestamp) -> bool {
        let began = self.began.load(Ordering::Relaxed);
        if began == 0 {
            return false;
        }
        let waited = now.saturating_since(Timestamp::from_nanos(began));
        waited > patience.saturating_add(self.round_trip().saturating_mul(4))
    }

    /// Records the end of a sync.
    pub(super) fn record_end(&self, session: &SyncSession, result: SyncResult) {
        if result == SyncResult::Complete {
            self.syncs.fetch_add(1, Ordering::Relaxed);
        }
        let oldest = session.oldest_unanswered();
        self.oldest_unanswered
            .store(oldest.map_or(0, Timestamp::as_nanos), Ordering::Relaxed);
    }

    /// Pushes to keys that hold what no gateway writes.
    #[must_use]
    pub(super) fn foreign(&self) -> u64 {
        self.foreign.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
#[path = "replication_tests.rs"]
mod tests;
