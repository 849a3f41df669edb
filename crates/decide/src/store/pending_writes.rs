//! Queues what this node admitted of limits with `store = "shared"` for the store: merged by key, in the order in which keys began to wait.
//!
//! An admitted request adds its cost here; the exchange with the store takes what is due and applies the store's
//! answers. A cost that may still be refunded is *tentative*: this node counts it at once, and it is sent to the store only when it is
//! settled, so that no push ever has to be undone. When a tentative cost is refunded, the key is queued for a read, because another
//! node may have refunded too.
//!
//! # Invariants
//! 1. A key is in the `order` of its shard exactly while it is [`QueueState::Queued`]. A sync takes nothing of a key that is
//!    [`QueueState::InFlight`], so the store gets the pushes of a key in their order.
//! 2. A cache to which the store's state was applied also counts what is queued here, because the store does not have it yet.
//!
//! # Concurrency
//! One mutex a shard, which a request holds for one look-up. The shard depends on a secret hash, so no client can choose to collide with
//! another. A request charges the cache first and adds the cost here afterwards. If an answer is applied between the two, it overwrites the
//! charge; so each shard has a sequence, as a seqlock has, and a request that finds another sequence than before its charge, or an odd one,
//! charges the cache again. If the first charge had survived, the cache counts it twice until the next answer, which is on its way: it errs
//! towards refusing. Between applying a state and adding what is queued here, some hundred nanoseconds, a cache counts too little.
//!
//! # Limits
//! At most [`SYNC_KEYS`](bounds::SYNC_KEYS) keys. At the bound a sync begins at once; until it has made room, this node alone counts the
//! charges of further keys, and a counter shows how many.

mod shard;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ahash::HashMap;
use sluicegate_base::bounds;
use sluicegate_base::wakeup::TaskWakeup;
use sluicegate_limiter::{Cost, KeyHash, RemoteState, Timestamp};

use super::replicated_limit::{CounterId, RegisteredLimit, ReplicatedKey, ReplicatedLimit};
use sluicegate_config::rules::Name;

use shard::{PendingRead, QueueState, ShardState};

pub use shard::{RecentUnits, TakenDelta};

/// The number of shards: more than threads, so that two threads seldom meet in one.
const SHARDS: usize = 64;

/// The number of counters that a shard has room for.
const SHARD_KEYS: usize = bounds::SYNC_KEYS / SHARDS;

/// Charges of this node that the store does not have yet, merged by key.
#[derive(Debug)]
pub struct PendingWrites {
    shards: Box<[PendingShard]>,
    registered_limits: Mutex<HashMap<Name, Arc<RegisteredLimit>>>,
    lost: AtomicU64,
    was_full: TaskWakeup,
}

/// One shard; its alignment keeps two shards off one cache line.
#[derive(Debug, Default)]
#[repr(align(64))]
struct PendingShard {
    /// The sequence of a seqlock: even, and two more after each answer of the store is applied; odd while one is.
    sequence: AtomicU64,
    state: Mutex<ShardState>,
}

/// The sequence of a shard at some moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardSequence(u64);

/// The state of a charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChargeState {
    /// The cost is final.
    Final,
    /// The charge may be refunded, or cost more.
    Tentative,
}

/// One moment by two clocks.
#[derive(Clone, Copy, Debug)]
pub struct ClockPair {
    /// The moment by this node's clock.
    pub here: Timestamp,
    /// The moment by the store's clock, as far as it is known.
    pub store: Timestamp,
}

/// The result of adding a charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enqueued {
    /// The store will get the charge.
    Yes,
    /// The queue is full: this node alone counts the charge.
    No,
}

/// The size of the queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PendingBacklog {
    /// The keys, including those with tentative charges and those in flight.
    pub keys: usize,
    /// The time since which the oldest key waits.
    pub oldest: Option<Timestamp>,
}

impl Default for PendingWrites {
    fn default() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| PendingShard::default()).collect(),
            registered_limits: Mutex::default(),
            lost: AtomicU64::new(0),
            was_full: TaskWakeup::default(),
        }
    }
}

impl PendingWrites {
    /// Returns the limit of this name, whatever its rules: the same one as long as the process lives.
    #[must_use]
    pub fn register(&self, limit: &Name) -> Arc<RegisteredLimit> {
        let mut registered_limits = lock(&self.registered_limits);
        // Names in configurations so far: few.
        let number = u32::try_from(registered_limits.len()).unwrap_or(u32::MAX);
        let registered = registered_limits
            .entry(Name::clone(limit))
            .or_insert_with(|| {
                let limit = RegisteredLimit::new(Name::clone(limit), number);
                Arc::new(limit)
            });
        Arc::clone(registered)
    }

    /// Returns all limits that were ever replicated.
    #[must_use]
    pub fn registered_limits(&self) -> Vec<Arc<RegisteredLimit>> {
        lock(&self.registered_limits).values().cloned().collect()
    }

    /// Returns the sequence of the shard of `key`, to be read before the key is charged.
    #[must_use]
    pub fn sequence(&self, replicated: &ReplicatedLimit, key: KeyHash) -> ShardSequence {
        let shard = self.shard(replicated.counter(key));
        // Acquire, with the Release of `apply_remote`: with the number that ends an update come its words, so a charge made now is
        // made on top of them.
        ShardSequence(shard.sequence.load(Ordering::Acquire))
    }

    /// Adds the charge of a key that a request has made; `seen` is the sequence from before the charge.
    pub fn add(
        &self,
        key: &ReplicatedKey,
        cost: Cost,
        charge_state: ChargeState,
        seen: ShardSequence,
        at: ClockPair,
    ) -> Enqueued {
        let units = u64::from(cost.get());
        let shard = self.shard(key.counter());
        let mut state = lock(&shard.state);
        let Some(delta) = state.delta(key, at.here) else {
            drop(state);
            self.count_lost(units);
            return Enqueued::No;
        };
        match charge_state {
            ChargeState::Final => delta.add_due(units, at.here),
            ChargeState::Tentative => delta.open = delta.open.saturating_add(units),
        }
        state.enqueue(key.counter());
        // Relaxed: the thread that applied the latest answer has released this lock, under which the sequence is even.
        if shard.sequence.load(Ordering::Relaxed) != seen.0 {
            key.replicated.cache.count(key.key, cost, at.store);
        }
        Enqueued::Yes
    }

    /// Settles a tentative charge of `cost` at `due` units.
    pub fn settle(
        &self,
        key: &ReplicatedKey,
        cost: Cost,
        entered: Enqueued,
        due: u64,
        at: ClockPair,
    ) {
        let mut state = lock(&self.shard(key.counter()).state);
        if entered == Enqueued::No && due == 0 {
            return;
        }
        let Some(delta) = state.delta(key, at.here) else {
            drop(state);
            return self.count_lost(due);
        };
        if entered == Enqueued::Yes {
            delta.open = delta.open.saturating_sub(cost.get().into());
        }
        match due {
            0 => delta.request_read(at.here),
            units => delta.add_due(units, at.here),
        }
        state.enqueue(key.counter());
    }

    /// Queues the key for a read at the next sync, since another node may have refunded what makes this one refuse. A full queue drops
    /// the request.
    pub fn queue_read(&self, key: &ReplicatedKey, now: Timestamp) {
        let mut state = lock(&self.shard(key.counter()).state);
        if let Some(delta) = state.delta(key, now) {
            delta.request_read(now);
            state.enqueue(key.counter());
        }
    }

    /// Takes up to `most` counters that have waited since `until` or longer.
    #[must_use]
    pub fn take_due(&self, most: usize, until: Timestamp) -> Vec<TakenDelta> {
        let mut taken = Vec::new();
        for shard in &self.shards {
            let mut state = lock(&shard.state);
            state.begin_sync(until);
            while taken.len() < most
                && let Some(next) = state.next(until)
            {
                taken.push(next);
            }
        }
        taken
    }

    /// Returns the units of the key that the store counts late.
    #[must_use]
    pub fn recent(&self, replicated: &ReplicatedLimit, key: KeyHash) -> RecentUnits {
        let counter = replicated.counter(key);
        lock(&self.shard(counter).state).recent(counter)
    }

    /// Applies the store's state of a counter in flight, which was taken with `units` at `at.here`, as of the store's moment `at.store`.
    pub fn apply_remote(
        &self,
        counter: CounterId,
        units: u64,
        remote: &RemoteState,
        at: ClockPair,
    ) {
        let now = at.store;
        let shard = self.shard(counter);
        let mut state = lock(&shard.state);
        let Some(delta) = state.deltas.get_mut(&counter) else {
            return;
        };
        let unknown = delta.due.saturating_add(delta.open);
        // Relaxed: a request that charges meanwhile finds the number changed when it has the lock.
        shard.sequence.fetch_add(1, Ordering::Relaxed);
        delta.replicated.cache.adopt(counter.key(), remote, now);
        if let Some(unknown) = cost_of(unknown) {
            delta.replicated.cache.count(counter.key(), unknown, now);
        }
        // Release: with `sequence`.
        shard.sequence.fetch_add(1, Ordering::Release);
        let cached = delta.replicated.cache.peek(counter.key(), Cost::ONE, now);
        if cached.is_refused() && delta.settle_full(units, at.here) {
            state.forget_pushed(counter);
        }
        state.end_flight(counter);
    }

    /// Requeues units that did not reach the store: they keep their age, behind those that wait already.
    pub fn requeue(&self, taken: &TakenDelta) {
        let mut state = lock(&self.shard(taken.counter).state);
        if let Some(delta) = state.deltas.get_mut(&taken.counter) {
            delta.due = delta.due.saturating_add(taken.units);
            delta.since = taken.since;
            delta.place = QueueState::Queued;
            state.order.push_back(taken.counter);
        }
    }

    /// Ends a flight whose delivery will never be known.
    pub fn end_flight(&self, counter: CounterId) {
        lock(&self.shard(counter).state).end_flight(counter);
    }

    /// Drops the due units of a key whose counts an operator has changed. Tentative charges and those in flight are sent when they are
    /// settled.
    pub fn forget_key(&self, replicated: &ReplicatedLimit, key: KeyHash) {
        let counter = replicated.counter(key);
        let mut state = lock(&self.shard(counter).state);
        state.forget_pushed(counter);
        let Some(delta) = state.deltas.get_mut(&counter) else {
            return;
        };
        delta.due = 0;
        delta.read = PendingRead::No;
        if delta.place == QueueState::Queued {
            delta.place = QueueState::Idle;
            state.order.retain(|waiting| *waiting != counter);
        }
        state.enqueue(counter);
    }

    /// Drops the longest waiting keys that no longer count on this node: no sync takes them while the store is unavailable.
    pub fn drop_expired(&self, now: Timestamp) {
        for shard in &self.shards {
            let mut state = lock(&shard.state);
            // Ends at the first that counts.
            while let Some(counter) = state.order.front().copied() {
                let counts = state.deltas.get(&counter).is_some_and(|delta| {
                    delta.open > 0 || delta.replicated.own.used(counter.key(), now) > 0
                });
                if counts {
                    break;
                }
                state.order.pop_front();
                state.deltas.remove(&counter);
            }
        }
    }

    /// Drops the due units of every key, and returns their sum. Tentative charges and those in flight are sent when they are settled.
    pub fn drop_due(&self) -> u64 {
        let mut forgotten: u64 = 0;
        for shard in &self.shards {
            let mut state = lock(&shard.state);
            state.forget_all_pushed();
            let ShardState { deltas, order, .. } = &mut *state;
            order.clear();
            deltas.retain(|_, delta| {
                forgotten = forgotten.saturating_add(std::mem::take(&mut delta.due));
                delta.read = PendingRead::No;
                if delta.place == QueueState::Queued {
                    delta.place = QueueState::Idle;
                }
                delta.open > 0 || delta.place == QueueState::InFlight
            });
        }
        forgotten
    }

    /// Waits until the queue was full for a key; returns at once if it was since the last call.
    pub async fn wait_until_full(&self) {
        self.was_full.notified().await;
    }

    /// Returns the size of the queue.
    #[must_use]
    pub fn backlog(&self) -> PendingBacklog {
        let mut backlog = PendingBacklog::default();
        for shard in &self.shards {
            let state = lock(&shard.state);
            backlog.keys += state.deltas.len();
            let first = state.order.front();
            let since = first.and_then(|counter| Some(state.deltas.get(counter)?.since));
            backlog.oldest = backlog.oldest.into_iter().chain(since).min();
        }
        backlog
    }

    /// Returns the units that this node alone counts: the queue was full, the key had no name yet, or their delivery is unknown.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Counts units that the store will never get.
    pub fn count_lost(&self, units: u64) {
        self.lost.fetch_add(units, Ordering::Relaxed);
        self.was_full.notify();
    }

    fn shard(&self, counter: CounterId) -> &PendingShard {
        // Below SHARDS.
        &self.shards[counter.shard(SHARDS)]
    }
}

/// Converts units into a cost, capped at the largest; `None` for zero.
pub fn cost_of(units: u64) -> Option<Cost> {
    Cost::new(u32::try_from(units).unwrap_or(u32::MAX))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Entries are whole whatever panicked elsewhere.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
