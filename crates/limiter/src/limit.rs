//! Owns a limit: its rates, its capacity, and the counters that both are judged by.
//!
//! A [`Limit`] is a handle: clones share the counters, and so does an edit that changes numbers only. The algorithm and
//! the number of rates decide what table there is; it is chosen once, here, and everything below is compiled for logs, or
//! for the words of one to four rates.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock};

use crate::algorithm::{Algorithm, CompiledRate, Policy, RateAt, Word, sliding_window};
use crate::capacity::Capacity;
use crate::cost::Cost;
use crate::decision::{Decision, KeyFinding, Verdict};
use crate::exact::{self, LogTable};
use crate::key::{KeyHash, Seed};
use crate::rate::{MAX_RATES, Rates};
use crate::share::{Payer, PayerAccount, PayerShares};
use crate::status::{AskOutcome, KeyPlacement, RefusingRates};
use crate::sync::{AtomicBool, Ordering, in_one_order};
use crate::table::overflow_filter::words_for;
use crate::table::{
    ChargeOutcome, KeyAbsence, KeyState, Occupancy, SlotRef, Table, TableStats, WordUpdate,
};
use crate::time::Timestamp;

mod change;
mod edit;
mod inspect;
mod joint;
mod peaks;
#[cfg(feature = "mmap")]
mod persist;
mod rates_at;
mod top_keys;

pub(crate) use joint::JointDecisions;
#[cfg(feature = "mmap")]
pub use persist::TableId;
pub use top_keys::{ActiveKeys, KeyUsage};

/// A named rule's rates with the counters of all its keys.
#[derive(Clone)]
pub struct Limit {
    policy: Policy,
    compiled_rates: [CompiledRate; MAX_RATES],
    capacity: Capacity,
    counters: Arc<LimitCounters>,
}

/// The counters of a limit, and where they went when its structure was edited.
pub(crate) struct LimitCounters {
    table: AnyTable,
    /// The accounts of the payers of new keys; unset where payers have no shares.
    shares: OnceLock<PayerShares>,
    /// Set after `successor` is set. A flag of its own, so that a charge can load it with the ordering that the
    /// hand-over needs (`edit`).
    moved: AtomicBool,
    /// Holds the newer table, never the other way round: a chain of edits keeps no old table alive.
    successor: OnceLock<Limit>,
    /// Set when the successor has everything that these counters count.
    copied: AtomicBool,
    /// Held by an edit from its decision to its end; requests never take it.
    edits: Mutex<()>,
}

/// A table of words for one to four rates, or of logs.
enum AnyTable {
    One(Table<1>),
    Two(Table<2>),
    Three(Table<3>),
    Four(Table<4>),
    Log(LogTable),
}

/// Runs `$body` with `$table` bound to the table of words inside, or `$otherwise` with `$logs` bound to that of logs.
macro_rules! with_table {
    ($any:expr, $table:ident => $body:expr, $logs:ident => $otherwise:expr $(,)?) => {
        match $any {
            AnyTable::One($table) => $body,
            AnyTable::Two($table) => $body,
            AnyTable::Three($table) => $body,
            AnyTable::Four($table) => $body,
            AnyTable::Log($logs) => $otherwise,
        }
    };
}
use with_table;

/// A charge that may still be undone.
#[derive(Clone, Debug)]
pub(crate) enum ChargeReceipt {
    /// In words of a table.
    Words {
        slot_ref: SlotRef,
        left: [[Word; 2]; MAX_RATES],
        made: Timestamp,
    },
    /// In a log.
    Log(exact::LogReceipt),
}

impl AnyTable {
    /// A table for this policy.
    fn new(policy: &Policy, size: TableSize, before: TableStats) -> Self {
        fn sized<const K: usize>(size: TableSize, before: TableStats) -> Table<K> {
            match size {
                TableSize::Keys(capacity) => {
                    Table::new(capacity, words_for(Some(capacity)), before)
                }
                TableSize::Buckets(buckets) => {
                    Table::with_buckets(buckets, words_for(None), before)
                }
            }
        }
        let rates = policy.rates();
        match (policy.algorithm(), rates.len()) {
            (Algorithm::Exact, _) => {
                let logs = match size {
                    TableSize::Keys(capacity) => LogTable::new(capacity, rates),
                    TableSize::Buckets(buckets) => LogTable::with_buckets(buckets, rates),
                };
                Self::Log(logs.with_stats(before))
            }
            (_, 1) => Self::One(sized(size, before)),
            (_, 2) => Self::Two(sized(size, before)),
            (_, 3) => Self::Three(sized(size, before)),
            _ => Self::Four(sized(size, before)),
        }
    }

    /// Returns whether the content of this table means the same after an edit of `before` to `policy`.
    fn serves(&self, before: &Policy, policy: &Policy) -> bool {
        policy.keeps_states_of(before)
            && with_table!(self, _table => true, logs => logs.suits(policy.rates()))
    }
}

/// The size of a table.
#[derive(Clone, Copy)]
enum TableSize {
    Keys(Capacity),
    Buckets(usize),
}

impl Limit {
    /// A limit with all its memory, for `capacity` keys that owe something at the same time. None of it is allocated
    /// later.
    #[must_use]
    pub fn new(policy: impl Into<Policy>, capacity: Capacity) -> Self {
        let policy = policy.into();
        let table = AnyTable::new(&policy, TableSize::Keys(capacity), TableStats::default());
        Self {
            compiled_rates: policy.compiled_rates(),
            policy,
            capacity,
            counters: Arc::new(LimitCounters::new(table)),
        }
    }

    /// A limit of so many buckets: for tests that need keys to collide.
    #[doc(hidden)]
    #[must_use]
    pub fn with_buckets(policy: impl Into<Policy>, buckets: usize) -> Self {
        let policy = policy.into();
        let table = AnyTable::new(&policy, TableSize::Buckets(buckets), TableStats::default());
        let capacity = Capacity::new(buckets as u64).unwrap_or_default();
        Self {
            compiled_rates: policy.compiled_rates(),
            policy,
            capacity,
            counters: Arc::new(LimitCounters::new(table)),
        }
    }

    /// The algorithm and the rates of this limit.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The rates, by rising period.
    #[must_use]
    pub fn rates(&self) -> &Rates {
        self.policy.rates()
    }

    /// Keys that fit at the same time.
    #[must_use]
    pub fn capacity(&self) -> Capacity {
        self.capacity
    }

    /// Memory of the counters, fixed when they were made.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let table = &self.counters.table;
        let table = with_table!(table, table => table.bytes(), logs => logs.bytes());
        let shares = self.counters.shares.get();
        table + shares.map_or(0, |_| Self::SHARES_BYTES as usize)
    }

    /// Computes [`bytes`](Self::bytes) of a new limit before any of it is allocated.
    #[must_use]
    pub fn bytes_for(policy: &Policy, capacity: Capacity) -> u64 {
        let buckets = match (policy.algorithm(), policy.rates().len()) {
            (Algorithm::Exact, _) => LogTable::bucket_bytes_for(capacity, policy.rates()),
            (_, 1) => Table::<1>::bucket_bytes_for(capacity),
            (_, 2) => Table::<2>::bucket_bytes_for(capacity),
            (_, 3) => Table::<3>::bucket_bytes_for(capacity),
            _ => Table::<4>::bucket_bytes_for(capacity),
        };
        buckets + (words_for(Some(capacity)) * size_of::<u64>()) as u64
    }

    /// Says that `key` will be decided over soon: its counter is on its way to the processor while the caller does something
    /// else, as reading the clock. Changes nothing but the time that the decision takes.
    ///
    /// A hint: without feature `mmap`, and on other processors than x86-64, it does nothing.
    #[inline]
    pub fn prefetch(&self, key: KeyHash) {
        with_table!(&self.counters.table, table => table.prefetch(key), logs => logs.prefetch(key));
    }

    /// Says the same of a `key` that may have no counter yet: also the lines on which a new one is looked for are on their way. For callers
    /// that decide over many keys, of which most are new, and know them all beforehand.
    #[inline]
    pub fn prefetch_insertion(&self, key: KeyHash) {
        with_table!(&self.counters.table, table => table.prefetch_insertion(key), logs => logs.prefetch(key));
    }

    /// Returns the decision that `key` would get for `cost` now. Writes nothing.
    #[must_use]
    pub fn peek(&self, key: KeyHash, cost: Cost, now: Timestamp) -> Decision {
        self.peek_for(None, key, cost, now)
    }

    /// Peeks like [`peek`](Self::peek), for a request with a payer.
    #[inline(never)]
    pub(crate) fn peek_for(
        &self,
        payer: Option<Payer>,
        key: KeyHash,
        cost: Cost,
        now: Timestamp,
    ) -> Decision {
        let account = self.account(payer, now);
        let finding = with_table!(&self.counters.table, table => {
            let rates_at = self.rates_of(key, now);
            refused(&table.peek(key, &rates_at, account), &rates_at, cost)
        }, logs => {
            return Decision::computed(logs.peek_for(key, self.rates(), cost, now, account));
        });
        self.decision(finding, now)
    }

    /// The same limit, in which new keys take their slots from the share of their payer: each payer that an
    /// [`Ask`](crate::Ask) names may take 1/256 of the capacity however crowded the table is, and more while it is not. Takes
    /// [`SHARES_BYTES`](Self::SHARES_BYTES), and holds for all handles of the counters and after their edits. Without it,
    /// payers have no bound.
    #[must_use]
    pub fn with_payer_shares(self, seed: &Seed) -> Self {
        self.counters.shares.get_or_init(|| PayerShares::new(*seed));
        self
    }

    /// Memory of the accounts of payers.
    pub const SHARES_BYTES: u64 = PayerShares::BYTES;

    fn account(&self, payer: Option<Payer>, now: Timestamp) -> Option<PayerAccount<'_>> {
        Some(PayerAccount {
            shares: self.counters.shares.get()?,
            payer: payer?,
            capacity: self.capacity,
            period: self.rates().longest().period(),
            now,
        })
    }

    /// Estimates the occupancy of the table. Reads up to 131,072 buckets: for a status page, not for a request.
    #[must_use]
    pub fn occupancy(&self, now: Timestamp) -> Occupancy {
        with_table!(
            &self.counters.table,
            table => table.occupancy(&self.rates_at(now)),
            logs => logs.occupancy(self.rates(), now),
        )
    }

    /// Statistics of new keys since the limit was made, edits included.
    #[must_use]
    pub fn stats(&self) -> TableStats {
        with_table!(&self.counters.table, table => table.stats(), logs => logs.stats())
    }

    /// Returns whether both limits count in the same table. An edit that needs another table leaves two limits that
    /// do not.
    #[must_use]
    pub fn shares_counters_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.counters, &other.counters)
    }

    /// Takes `cost` from all rates of `key`, or from none. The verdict is put together by the function that has found it, so
    /// that it is written where the caller wants it and not copied there.
    #[inline(always)]
    pub(crate) fn charge(
        &self,
        payer: Option<Payer>,
        key: KeyHash,
        cost: Cost,
        now: Timestamp,
    ) -> Verdict {
        match self.compiled_rates[0].sliding() {
            // What most limits use is compiled for itself: that these judges are of one kind is known here.
            Some(first) => with_table!(
                &self.counters.table,
                table => self.charge_sliding(table, first, (payer, key), cost, now),
                logs => self.charge_log(logs, (payer, key), cost, now),
            ),
            None => self.charge_otherwise((payer, key), cost, now),
        }
    }

    #[inline(never)]
    fn charge_sliding<const K: usize>(
        &self,
        table: &Table<K>,
        first: sliding_window::SlidingRate,
        (payer, key): (Option<Payer>, KeyHash),
        cost: Cost,
        now: Timestamp,
    ) -> Verdict {
        let rates_at = self.sliding_rates_at(first, now);
        let finding = match table.charge_known(key, &rates_at, cost) {
            Ok((WordUpdate::Written(words), slot_ref)) => {
                self.counters.forward(key, slot_ref.placement(), cost, now);
                admitted(&KeyState::Own(words), &rates_at, cost)
            }
            Ok((WordUpdate::Left(words, refusing), _)) => {
                in_slot(AskOutcome::NotCharged(cost), refusing, &words)
            }
            // New keys take the long way, so that the short one has to carry nothing for it.
            Err(absence) => {
                return self.charge_absent(table, absence, (payer, key), cost, now);
            }
        };
        Verdict::over_one(Decision::new(now, finding, K, &self.compiled_rates))
    }

    /// Charges a key of which a search of `table` found so little.
    #[inline(never)]
    fn charge_absent<const K: usize>(
        &self,
        table: &Table<K>,
        absence: KeyAbsence,
        (payer, key): (Option<Payer>, KeyHash),
        cost: Cost,
        now: Timestamp,
    ) -> Verdict {
        let rates_at = self.rates_of(key, now);
        let account = self.account(payer, now);
        let outcome = table.charge_absent(key, absence, &rates_at, cost, account);
        let finding = self.finding(&outcome, key, &rates_at, cost, now);
        Verdict::over_one(self.decision(finding, now))
    }

    #[inline(never)]
    fn charge_otherwise(
        &self,
        (payer, key): (Option<Payer>, KeyHash),
        cost: Cost,
        now: Timestamp,
    ) -> Verdict {
        let finding = with_table!(&self.counters.table, table => {
            let rates_at = self.rates_of(key, now);
            let outcome = table.charge(key, &rates_at, cost, self.account(payer, now));
            self.finding(&outcome, key, &rates_at, cost, now)
        }, logs => return self.charge_log(logs, (payer, key), cost, now));
        Verdict::over_one(self.decision(finding, now))
    }

    /// Builds the finding of a charge that was made or refused, and tells a successor of one that was made.
    #[inline(always)]
    fn finding<const K: usize>(
        &self,
        outcome: &ChargeOutcome<K>,
        key: KeyHash,
        rates_at: &[RateAt; K],
        cost: Cost,
        now: Timestamp,
    ) -> KeyFinding {
        match outcome {
            ChargeOutcome::Refused(state) => refused(state, rates_at, cost),
            ChargeOutcome::Admitted(state, slot_ref) => {
                self.counters.forward(key, slot_ref.placement(), cost, now);
                admitted(state, rates_at, cost)
            }
        }
    }

    #[inline(never)]
    fn charge_log(
        &self,
        logs: &LogTable,
        (payer, key): (Option<Payer>, KeyHash),
        cost: Cost,
        now: Timestamp,
    ) -> Verdict {
        // Apart from `reserve_log`, whose pair would be one more copy of the decision.
        match logs.charge_paid(key, self.rates(), cost, now, self.account(payer, now)) {
            exact::LogCharge::Refused(answer) => Verdict::over_one(Decision::computed(answer)),
            exact::LogCharge::Admitted(answer, _) => {
                self.counters.forward(key, answer.placement(), cost, now);
                Verdict::over_one(Decision::computed(answer))
            }
        }
    }

    /// Makes a charge here and in all that came after, which was made in the counters before these.
    #[cold]
    fn follow(&self, key: KeyHash, placement: KeyPlacement, cost: Cost, now: Timestamp) {
        // Where it was counted there is what matters to the one after.
        let mut placement = self.take_over(key, placement, cost, now);
        let mut from = &self.counters;
        while let Some(next) = from.successor() {
            placement = next.take_over(key, placement, cost, now);
            from = &next.counters;
        }
    }

    #[inline(always)]
    fn decision(&self, finding: KeyFinding, now: Timestamp) -> Decision {
        let rates = self.policy.rates().len();
        match self.compiled_rates[0] {
            CompiledRate::Window(..) => Decision::new(now, finding, rates, &self.meters_at(now)),
            _ => Decision::new(now, finding, rates, &self.compiled_rates),
        }
    }
}

/// Builds the finding of a charge that was made.
#[inline(always)]
fn admitted<const K: usize>(state: &KeyState<K>, rates_at: &[RateAt; K], cost: Cost) -> KeyFinding {
    let mut words = [Word::UNUSED; MAX_RATES];
    for (rate, rate_at) in rates_at.iter().enumerate() {
        words[rate] = match state {
            KeyState::Own(words) => words[rate],
            KeyState::Shared(rows, _) => rate_at.lighter(rows[rate]),
            // A key that is counted nowhere was not admitted.
            KeyState::OverShare => rate_at.used_up(),
        };
    }
    KeyFinding {
        asked: AskOutcome::Charged(cost),
        placement: state.placement(),
        refusing: RefusingRates::default(),
        words,
    }
}

/// Builds the finding of a key that has a slot.
#[inline(always)]
fn in_slot<const K: usize>(
    asked: AskOutcome,
    refusing: RefusingRates,
    words: &[Word; K],
) -> KeyFinding {
    KeyFinding {
        asked,
        placement: KeyPlacement::OwnSlot,
        refusing,
        words: padded(words),
    }
}

/// The words of all rates, and behind the last rate nothing.
#[inline(always)]
fn padded<const K: usize>(words: &[Word; K]) -> [Word; MAX_RATES] {
    let mut all = [Word::UNUSED; MAX_RATES];
    all[..K].copy_from_slice(words);
    all
}

/// Builds the finding of a cost that `state` refuses.
#[inline(always)]
fn refused<const K: usize>(state: &KeyState<K>, rates_at: &[RateAt; K], cost: Cost) -> KeyFinding {
    let mut words = [Word::UNUSED; MAX_RATES];
    let mut refusing = RefusingRates::default();
    let mut placement = state.placement();
    for (rate, rate_at) in rates_at.iter().enumerate() {
        let (word, sooner) = match state {
            KeyState::Own(words) => (words[rate], words[rate]),
            KeyState::Shared(rows, _) => (
                rate_at.lighter(rows[rate]),
                rate_at.sooner(rows[rate], cost),
            ),
            // When others make room is not known; told is when the rate would have some.
            KeyState::OverShare => {
                words[rate] = rate_at.used_up();
                refusing.add(rate);
                continue;
            }
        };
        words[rate] = word;
        if !rate_at.fits(word, cost) {
            words[rate] = sooner;
            refusing.add(rate);
            if let KeyState::Shared(..) = state
                && rate_at.fits(Word::UNUSED, cost)
            {
                // An empty slot would admit the cost: the refusal is due to what new keys share.
                placement = KeyPlacement::Overflow;
            }
        }
    }
    KeyFinding {
        asked: AskOutcome::NotCharged(cost),
        placement,
        refusing,
        words,
    }
}

impl LimitCounters {
    fn new(table: AnyTable) -> Self {
        Self {
            table,
            shares: OnceLock::new(),
            moved: AtomicBool::new(false),
            successor: OnceLock::new(),
            copied: AtomicBool::new(false),
            edits: Mutex::new(()),
        }
    }

    fn with_shares(self, shares: Option<PayerShares>) -> Self {
        let shares = shares.map_or_else(OnceLock::new, OnceLock::from);
        Self { shares, ..self }
    }

    /// The counters that took over from these.
    #[inline(always)]
    fn successor(&self) -> Option<&Limit> {
        in_one_order();
        // SeqCst: see `edit`. One load of a line that is written once in its life.
        if self.moved.load(Ordering::SeqCst) {
            self.successor.get()
        } else {
            None
        }
    }

    /// The counters that took over from these and have all that these counted.
    fn complete_successor(&self) -> Option<&Limit> {
        // Acquire: pairs with the end of the copy.
        if self.copied.load(Ordering::Acquire) {
            self.successor.get()
        } else {
            None
        }
    }

    /// Tells the successor, if there is one, of a charge that was made here.
    #[inline(always)]
    fn forward(&self, key: KeyHash, placement: KeyPlacement, cost: Cost, now: Timestamp) {
        if let Some(next) = self.successor() {
            next.follow(key, placement, cost, now);
        }
    }
}

impl fmt::Debug for Limit {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        into.debug_struct("Limit")
            .field("policy", &self.policy)
            .field("capacity", &self.capacity)
            .field("bytes", &self.bytes())
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
