//! Owns what this node admitted of limits with `store = "shared"` until the store has been told: merged by key, in the order in which keys
//! began to wait.
//!
//! An admitted request adds its cost here; a [`SyncSession`](super::replication::SyncSession) takes what is due and applies the store's
//! answers. A cost that may still be refunded is *tentative*: this node counts it at once, and the store hears of it only when it is
//! settled, so that no push ever has to be undone. When a tentative cost is refunded, the key is queued for a read, because another
//! node may have refunded too.
//!
//! # Invariants
//! 1. A key is in `order` exactly while it is [`QueueState::Queued`]; nothing is taken of one that is [`QueueState::InFlight`], so the
//!    store hears of a key in the order of its pushes.
//! 2. A view that has adopted what the store says also counts what is entered here: the store does not know of it.
//!
//! # Concurrency
//! A mutex a shard, which a request holds for one look-up; the shard depends on a secret hash, so nobody can choose to meet another.
//! A request charges the view first and enters the cost then. Between the two an answer may be adopted, which would forget the charge
//! until the next: so a shard counts its adoptions, twice each, and who finds another number than before his charge, or an odd one,
//! counts it again. If the charge had survived, the view counts it twice until the next answer, which is on its way: it errs towards
//! refusing. Between adopting and counting what is entered here, some hundred nanoseconds, a view counts too little.
//!
//! # Limits
//! At most [`SYNC_KEYS`](bounds::SYNC_KEYS) keys. Behind that a sync is begun at once; until it has made room, charges of further keys are
//! counted by this node alone, and that is counted.

use std::collections::VecDeque;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ahash::HashMap;
use sluicegate_limiter::{Cost, KeyHash, Limit, RemoteState, Timestamp};
use tokio::sync::Notify;

use crate::bounds;
use crate::config::rules::Name;

/// More than there are threads, so that two of them seldom meet.
const SHARDS: usize = 64;

/// A limit whose counts are exchanged, as requests with one policy meet it.
#[derive(Debug)]
pub(super) struct ReplicatedLimit {
    /// The limit, for all its policies.
    pub(super) tally: Arc<RegisteredLimit>,
    /// What the store last said, and what was admitted here since.
    pub(super) view: Limit,
    /// What this node admitted.
    pub(super) own: Limit,
}

/// A limit whose counts are exchanged, and what came of it.
#[derive(Debug)]
pub(super) struct RegisteredLimit {
    /// Its name.
    pub(super) limit: Name,
    number: u32,
    excess: AtomicU64,
}

/// Charges of this node that the store is yet to be told of.
#[derive(Debug)]
pub(super) struct PendingWrites {
    shards: Box<[PendingShard]>,
    tallies: Mutex<HashMap<Name, Arc<RegisteredLimit>>>,
    lost: AtomicU64,
    crowded: Notify,
}

/// Keeps two shards off one cache line.
#[derive(Debug, Default)]
#[repr(align(64))]
struct PendingShard {
    /// Even, and two more with each adoption; odd while there is one.
    adoptions: AtomicU64,
    ledger: Mutex<ShardState>,
}

#[derive(Debug, Default)]
struct ShardState {
    debts: HashMap<CounterId, PendingDelta>,
    /// The longest waiting first.
    order: VecDeque<CounterId>,
}

/// A key of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct CounterId {
    limit: u32,
    key: KeyHash,
}

#[derive(Debug)]
struct PendingDelta {
    account: Arc<ReplicatedLimit>,
    name: KeyHash,
    due: u64,
    open: u64,
    /// When it began to wait, or what came while it was under way.
    since: Timestamp,
    place: QueueState,
    looks: PendingRead,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum QueueState {
    /// Nothing is due.
    Idle,
    /// It is to be told.
    Queued,
    /// It was taken, and what came of it is not known yet.
    InFlight,
}

/// Whether the store is asked even if nothing is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PendingRead {
    No,
    Yes,
}

/// How many adoptions a shard had seen at some moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ShardSequence(u64);

/// A request's share of one limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct CounterCharge<'a> {
    /// The limit.
    pub(super) account: &'a Arc<ReplicatedLimit>,
    /// The key in the tables of this node.
    pub(super) key: KeyHash,
    /// The key in the store.
    pub(super) name: KeyHash,
    /// What it was charged.
    pub(super) cost: Cost,
}

/// Whether a cost may still change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChargeState {
    /// It stays.
    Final,
    /// It may be given back, or cost more.
    Tentative,
}

/// One moment by two clocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClockPair {
    /// By this node's.
    pub(super) here: Timestamp,
    /// By the store's, as far as it is known.
    pub(super) store: Timestamp,
}

/// Whether there was room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Enqueued {
    /// The store will be told.
    Yes,
    /// This node alone counts it.
    No,
}

/// What is due of a key, taken to be told.
#[derive(Debug)]
pub(super) struct TakenDelta {
    /// The counter.
    pub(super) debtor: CounterId,
    /// The limit.
    pub(super) account: Arc<ReplicatedLimit>,
    /// The key in the store.
    pub(super) name: KeyHash,
    /// How much; zero to ask what it counts.
    pub(super) units: u64,
    /// Since when it waited.
    pub(super) since: Timestamp,
}

/// What waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PendingBacklog {
    /// Keys, those that are open or under way too.
    pub(super) keys: usize,
    /// Since when the one waits that has waited longest.
    pub(super) oldest: Option<Timestamp>,
}

impl ReplicatedLimit {
    fn debtor(&self, key: KeyHash) -> CounterId {
        let limit = self.tally.number;
        CounterId { limit, key }
    }
}

impl CounterCharge<'_> {
    fn debtor(&self) -> CounterId {
        self.account.debtor(self.key)
    }
}

impl RegisteredLimit {
    /// Units that this node's pushes charged beyond what the limit admits, since the start.
    #[must_use]
    pub(super) fn excess(&self) -> u64 {
        // Relaxed, here and below: a number to show, publishes nothing.
        self.excess.load(Ordering::Relaxed)
    }

    pub(super) fn exceed(&self, units: u64) {
        self.excess.fetch_add(units, Ordering::Relaxed);
    }
}

impl CounterId {
    /// The key in the tables of this node.
    #[must_use]
    pub(super) fn key(&self) -> KeyHash {
        self.key
    }
}

impl Default for PendingWrites {
    fn default() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| PendingShard::default()).collect(),
            tallies: Mutex::default(),
            lost: AtomicU64::new(0),
            crowded: Notify::new(),
        }
    }
}

impl PendingWrites {
    /// The limit of this name, whatever its rules: the same as long as the process lives.
    #[must_use]
    pub(super) fn tally(&self, limit: &Name) -> Arc<RegisteredLimit> {
        let mut tallies = lock(&self.tallies);
        // Names in configurations so far: few.
        let number = u32::try_from(tallies.len()).unwrap_or(u32::MAX);
        let tally = tallies.entry(Name::clone(limit)).or_insert_with(|| {
            Arc::new(RegisteredLimit {
                limit: Name::clone(limit),
                number,
                excess: AtomicU64::new(0),
            })
        });
        Arc::clone(tally)
    }

    /// All limits that were ever exchanged.
    #[must_use]
    pub(super) fn tallies(&self) -> Vec<Arc<RegisteredLimit>> {
        lock(&self.tallies).values().cloned().collect()
    }

    /// The adoptions that `key` of the account may have seen: to be read before it is charged.
    #[must_use]
    pub(super) fn adoptions(&self, account: &ReplicatedLimit, key: KeyHash) -> ShardSequence {
        let shard = self.shard(account.debtor(key));
        // Acquire: with the number that ends an adoption come its words, so a charge made now is made on top of them.
        ShardSequence(shard.adoptions.load(Ordering::Acquire))
    }

    /// Enters what a request was charged, after its charge; `seen` was read before.
    pub(super) fn add(
        &self,
        share: &CounterCharge<'_>,
        stand: ChargeState,
        seen: ShardSequence,
        at: ClockPair,
    ) -> Enqueued {
        let shard = self.shard(share.debtor());
        let mut ledger = lock(&shard.ledger);
        let Some(debt) = ledger.debt(share, at.here) else {
            drop(ledger);
            return self.lose(share.cost.get().into());
        };
        let units = u64::from(share.cost.get());
        match stand {
            ChargeState::Final => debt.owe(units, at.here),
            ChargeState::Tentative => debt.open = debt.open.saturating_add(units),
        }
        ledger.line_up(share.debtor());
        // Relaxed: the lock was released by whoever adopted last, and it is odd for nobody who holds it.
        if shard.adoptions.load(Ordering::Relaxed) != seen.0 {
            share.account.view.count(share.key, share.cost, at.store);
        }
        Enqueued::Yes
    }

    /// An open cost that was [`entered`](Enqueued) comes to `due` units.
    pub(super) fn settle(
        &self,
        share: &CounterCharge<'_>,
        entered: Enqueued,
        due: u64,
        at: ClockPair,
    ) {
        let mut ledger = lock(&self.shard(share.debtor()).ledger);
        if entered == Enqueued::No && due == 0 {
            return;
        }
        let Some(debt) = ledger.debt(share, at.here) else {
            drop(ledger);
            _ = self.lose(due);
            return;
        };
        if entered == Enqueued::Yes {
            debt.open = debt.open.saturating_sub(share.cost.get().into());
        }
        match due {
            0 => debt.look(at.here),
            units => debt.owe(units, at.here),
        }
        ledger.line_up(share.debtor());
    }

    /// The store is to be asked what the key counts, at the next sync: another node may have given back what made this one refuse it.
    /// Where there is no room it is asked another time.
    pub(super) fn look(&self, share: &CounterCharge<'_>, now: Timestamp) {
        let mut ledger = lock(&self.shard(share.debtor()).ledger);
        if let Some(debt) = ledger.debt(share, now) {
            debt.look(now);
            ledger.line_up(share.debtor());
        }
    }

    /// Takes up to `most` keys that have waited since `until` or longer.
    #[must_use]
    pub(super) fn take(&self, most: usize, until: Timestamp) -> Vec<TakenDelta> {
        let mut taken = Vec::new();
        for shard in &self.shards {
            let mut ledger = lock(&shard.ledger);
            while taken.len() < most
                && let Some(next) = ledger.next(until)
            {
                taken.push(next);
            }
        }
        taken
    }

    /// The store was told of what was taken of a key, or asked, and holds `state` at its moment `now`.
    pub(super) fn adopt(&self, debtor: CounterId, state: &RemoteState, now: Timestamp) {
        let shard = self.shard(debtor);
        let mut ledger = lock(&shard.ledger);
        let Some(debt) = ledger.debts.get_mut(&debtor) else {
            return;
        };
        let unknown = debt.due.saturating_add(debt.open);
        // Relaxed: who charges meanwhile finds the number changed when he has the lock.
        shard.adoptions.fetch_add(1, Ordering::Relaxed);
        debt.account.view.adopt(debtor.key, state, now);
        if let Some(unknown) = cost_of(unknown) {
            debt.account.view.count(debtor.key, unknown, now);
        }
        // Release: with `adoptions`.
        shard.adoptions.fetch_add(1, Ordering::Release);
        ledger.come_back(debtor);
    }

    /// What was taken of a key did not reach the store: it waits as long as it did, behind those that are there.
    pub(super) fn put_back(&self, taken: &TakenDelta) {
        let mut ledger = lock(&self.shard(taken.debtor).ledger);
        if let Some(debt) = ledger.debts.get_mut(&taken.debtor) {
            debt.due = debt.due.saturating_add(taken.units);
            debt.since = taken.since;
            debt.place = QueueState::Queued;
            ledger.order.push_back(taken.debtor);
        }
    }

    /// Nobody will know any more what came of what was taken.
    pub(super) fn let_go(&self, debtor: CounterId) {
        lock(&self.shard(debtor).ledger).come_back(debtor);
    }

    /// Forgets what is due of a key, since an operator has changed what it counts; what is open or under way is told when it is settled.
    pub(super) fn forget_key(&self, account: &ReplicatedLimit, key: KeyHash) {
        let debtor = account.debtor(key);
        let mut ledger = lock(&self.shard(debtor).ledger);
        let Some(debt) = ledger.debts.get_mut(&debtor) else {
            return;
        };
        debt.due = 0;
        debt.looks = PendingRead::No;
        if debt.place == QueueState::Queued {
            debt.place = QueueState::Idle;
            ledger.order.retain(|waiting| *waiting != debtor);
        }
        ledger.line_up(debtor);
    }

    /// Forgets keys of which nothing counts any more, of those that have waited longest: while the store is away nobody takes them.
    pub(super) fn forget_past(&self, now: Timestamp) {
        for shard in &self.shards {
            let mut ledger = lock(&shard.ledger);
            // Ends at the first that counts.
            while let Some(debtor) = ledger.order.front().copied() {
                let counts = ledger.debts.get(&debtor).is_some_and(|debt| {
                    debt.open > 0 || debt.account.own.used(debtor.key, now) > 0
                });
                if counts {
                    break;
                }
                ledger.order.pop_front();
                ledger.debts.remove(&debtor);
            }
        }
    }

    /// Forgets what is due of every key, and how much that was; what is open or under way is told when it is settled.
    pub(super) fn forget_due(&self) -> u64 {
        let mut forgotten: u64 = 0;
        for shard in &self.shards {
            let mut ledger = lock(&shard.ledger);
            let ShardState { debts, order } = &mut *ledger;
            order.clear();
            debts.retain(|_, debt| {
                forgotten = forgotten.saturating_add(std::mem::take(&mut debt.due));
                debt.looks = PendingRead::No;
                if debt.place == QueueState::Queued {
                    debt.place = QueueState::Idle;
                }
                debt.open > 0 || debt.place == QueueState::InFlight
            });
        }
        forgotten
    }

    /// Returns when a key found no room; at once if one did since the last time.
    pub(super) async fn crowded(&self) {
        self.crowded.notified().await;
    }

    /// What waits now.
    #[must_use]
    pub(super) fn backlog(&self) -> PendingBacklog {
        let mut backlog = PendingBacklog::default();
        for shard in &self.shards {
            let ledger = lock(&shard.ledger);
            backlog.keys += ledger.debts.len();
            let first = ledger.order.front();
            let since = first.and_then(|debtor| Some(ledger.debts.get(debtor)?.since));
            backlog.oldest = backlog.oldest.into_iter().chain(since).min();
        }
        backlog
    }

    /// Units that this node alone counts: their key found no room, or had no name yet, or nobody knows whether they arrived.
    #[must_use]
    pub(super) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Counts units that the store will not be told of.
    pub(super) fn lose(&self, units: u64) -> Enqueued {
        self.lost.fetch_add(units, Ordering::Relaxed);
        self.crowded.notify_one();
        Enqueued::No
    }

    /// Returns the shard of a key. Limits of one request often have one key: each is in another shard, so that the adoption of one does not
    /// make the charge of the next count twice.
    fn shard(&self, debtor: CounterId) -> &PendingShard {
        // Tables take bits from both ends of the hash; any will do here. Below SHARDS.
        let place = (debtor.key.bits() >> 20).wrapping_add(debtor.limit.into());
        &self.shards[place as usize % SHARDS]
    }
}

impl ShardState {
    /// The debt of a key, new if need be; `None` where there is no room.
    fn debt(&mut self, share: &CounterCharge<'_>, now: Timestamp) -> Option<&mut PendingDelta> {
        let full = self.debts.len() >= bounds::SYNC_KEYS / SHARDS;
        match self.debts.entry(share.debtor()) {
            Entry::Occupied(known) => {
                let debt = known.into_mut();
                // The newest configuration knows best.
                if !Arc::ptr_eq(&debt.account, share.account) {
                    debt.account = Arc::clone(share.account);
                }
                debt.name = share.name;
                Some(debt)
            }
            Entry::Vacant(_) if full => None,
            Entry::Vacant(place) => Some(place.insert(PendingDelta {
                account: Arc::clone(share.account),
                name: share.name,
                due: 0,
                open: 0,
                since: now,
                place: QueueState::Idle,
                looks: PendingRead::No,
            })),
        }
    }

    /// Puts a key in line if something of it is to be told, and forgets it if nothing is left of it.
    fn line_up(&mut self, debtor: CounterId) {
        let Some(debt) = self.debts.get_mut(&debtor) else {
            return;
        };
        if debt.place != QueueState::Idle {
            return;
        }
        if debt.has_to_be_told() {
            debt.place = QueueState::Queued;
            self.order.push_back(debtor);
        } else if debt.open == 0 {
            self.debts.remove(&debtor);
        }
    }

    /// A key is under way no more.
    fn come_back(&mut self, debtor: CounterId) {
        if let Some(debt) = self.debts.get_mut(&debtor)
            && debt.place == QueueState::InFlight
        {
            debt.place = QueueState::Idle;
            self.line_up(debtor);
        }
    }

    fn next(&mut self, until: Timestamp) -> Option<TakenDelta> {
        let debtor = *self.order.front()?;
        let debt = self.debts.get_mut(&debtor)?;
        if debt.since > until {
            return None;
        }
        self.order.pop_front();
        debt.place = QueueState::InFlight;
        debt.looks = PendingRead::No;
        Some(TakenDelta {
            debtor,
            account: Arc::clone(&debt.account),
            name: debt.name,
            units: std::mem::take(&mut debt.due),
            since: debt.since,
        })
    }
}

impl PendingDelta {
    fn has_to_be_told(&self) -> bool {
        self.due > 0 || self.looks == PendingRead::Yes
    }

    fn owe(&mut self, units: u64, now: Timestamp) {
        if !self.has_to_be_told() {
            self.since = now;
        }
        self.due = self.due.saturating_add(units);
    }

    fn look(&mut self, now: Timestamp) {
        if !self.has_to_be_told() {
            self.since = now;
        }
        self.looks = PendingRead::Yes;
    }
}

/// So many units as one cost, as far as one can tell them; `None` for none.
pub(super) fn cost_of(units: u64) -> Option<Cost> {
    Cost::new(u32::try_from(units).unwrap_or(u32::MAX))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Entries are whole whatever panicked elsewhere.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[path = "pending_writes_tests.rs"]
pub(super) mod tests;
