//! Owns a limit: its rates, its capacity, and the counters that both are judged by.
//!
//! A [`Limit`] is a handle: clones share the counters, and so does an edit that changes numbers only. The algorithm and
//! the number of rates decide what table there is; it is chosen once, here, and everything below is compiled for logs, or
//! for the words of one to four rates.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock};

use crate::algorithm::{Algorithm, Judge, Meter, Policy, Word, sliding_window};
use crate::capacity::Capacity;
use crate::cost::Cost;
use crate::decision::{Decision, Finding, Verdict};
use crate::exact::{self, LogTable};
use crate::key::{KeyHash, Seed};
use crate::rate::{MAX_RATES, Rates};
use crate::share::{Account, Payer, Shares};
use crate::status::{Asked, KeyPlacement, Refusing};
use crate::sync::{AtomicBool, Ordering, in_one_order};
use crate::table::overflow_filter::words_for;
use crate::table::{Changed, Charged, Occupancy, Seat, State, Table, TableStats};
use crate::time::Timestamp;

mod change;
mod edit;
mod inspect;
mod joint;
#[cfg(feature = "mmap")]
mod persist;
mod top_keys;

pub(crate) use joint::Glance;
#[cfg(feature = "mmap")]
pub use persist::TableId;
pub use top_keys::{ActiveKeys, KeyUsage};

/// A named rule's rates with the counters of all its keys.
#[derive(Clone)]
pub struct Limit {
    policy: Policy,
    meters: [Meter; MAX_RATES],
    capacity: Capacity,
    counters: Arc<Counters>,
}

/// The counters of a limit, and where they went when its structure was edited.
pub(crate) struct Counters {
    table: AnyTable,
    /// The accounts of those who pay for new keys; without, nobody does.
    shares: OnceLock<Shares>,
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
pub(crate) enum Receipt {
    /// In words of a table.
    Words {
        seat: Seat,
        left: [[Word; 2]; MAX_RATES],
        made: Timestamp,
    },
    /// In a log.
    Log(exact::Receipt),
}

impl AnyTable {
    /// A table for this policy.
    fn new(policy: &Policy, size: Size, before: TableStats) -> Self {
        fn sized<const K: usize>(size: Size, before: TableStats) -> Table<K> {
            match size {
                Size::Keys(capacity) => Table::new(capacity, words_for(Some(capacity)), before),
                Size::Buckets(buckets) => Table::with_buckets(buckets, words_for(None), before),
            }
        }
        let rates = policy.rates();
        match (policy.algorithm(), rates.len()) {
            (Algorithm::Exact, _) => {
                let logs = match size {
                    Size::Keys(capacity) => LogTable::new(capacity, rates),
                    Size::Buckets(buckets) => LogTable::with_buckets(buckets, rates),
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
enum Size {
    Keys(Capacity),
    Buckets(usize),
}

impl Limit {
    /// A limit with all its memory, for `capacity` keys that owe something at the same time. None of it is allocated
    /// later.
    #[must_use]
    pub fn new(policy: impl Into<Policy>, capacity: Capacity) -> Self {
        let policy = policy.into();
        let table = AnyTable::new(&policy, Size::Keys(capacity), TableStats::default());
        Self {
            meters: policy.meters(),
            policy,
            capacity,
            counters: Arc::new(Counters::new(table)),
        }
    }

    /// A limit of so many buckets: for tests that need keys to collide.
    #[doc(hidden)]
    #[must_use]
    pub fn with_buckets(policy: impl Into<Policy>, buckets: usize) -> Self {
        let policy = policy.into();
        let table = AnyTable::new(&policy, Size::Buckets(buckets), TableStats::default());
        let capacity = Capacity::new(buckets as u64).unwrap_or_default();
        Self {
            meters: policy.meters(),
            policy,
            capacity,
            counters: Arc::new(Counters::new(table)),
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

    /// Returns the decision that `key` would get for `cost` now. Writes nothing.
    #[must_use]
    pub fn peek(&self, key: KeyHash, cost: Cost, now: Timestamp) -> Decision {
        self.peek_for(None, key, cost, now)
    }

    /// Peeks like [`peek`](Self::peek), for a request with a payer.
    pub(crate) fn peek_for(
        &self,
        payer: Option<Payer>,
        key: KeyHash,
        cost: Cost,
        now: Timestamp,
    ) -> Decision {
        self.say(&self.look(payer, key, cost, now), now)
    }

    /// The same limit, in which new keys take their slots from the share of who pays for them: each payer that an
    /// [`Ask`](crate::Ask) names may take 1/256 of the capacity however crowded the table is, and more while it is not. Takes
    /// [`SHARES_BYTES`](Self::SHARES_BYTES), and holds for all handles of the counters and after their edits. Without, nobody pays.
    #[must_use]
    pub fn with_payer_shares(self, seed: &Seed) -> Self {
        self.counters.shares.get_or_init(|| Shares::new(*seed));
        self
    }

    /// Memory of the accounts of payers.
    pub const SHARES_BYTES: u64 = Shares::BYTES;

    fn account(&self, payer: Option<Payer>, now: Timestamp) -> Option<Account<'_>> {
        Some(Account {
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
            table => table.occupancy(&self.judges(now)),
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
        match self.meters[0].sliding() {
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
        first: sliding_window::Meter,
        (payer, key): (Option<Payer>, KeyHash),
        cost: Cost,
        now: Timestamp,
    ) -> Verdict {
        let judges = self.sliding_judges(first, now);
        let finding = match table.charge_known(key, &judges, cost) {
            Some((Changed::Written(words), seat)) => {
                self.counters.forward(key, seat.placement(), cost, now);
                admitted(&State::Own(words), &judges, cost)
            }
            Some((Changed::Left(words, refusing), _)) => {
                in_slot(Asked::Wanted(cost), refusing, &words)
            }
            // Newcomers take the long way, so that the short one has to carry nothing for it.
            None => return self.charge_otherwise((payer, key), cost, now),
        };
        Verdict::over_one(Decision::new(now, finding, K, &self.meters))
    }

    #[inline(never)]
    fn charge_otherwise(
        &self,
        (payer, key): (Option<Payer>, KeyHash),
        cost: Cost,
        now: Timestamp,
    ) -> Verdict {
        let finding = with_table!(&self.counters.table, table => {
            let judges = self.judges(now);
            match table.charge(key, &judges, cost, self.account(payer, now)) {
                Charged::Refused(state) => refused(&state, &judges, cost),
                Charged::Admitted(state, seat) => {
                    self.counters.forward(key, seat.placement(), cost, now);
                    admitted(&state, &judges, cost)
                }
            }
        }, logs => return self.charge_log(logs, (payer, key), cost, now));
        Verdict::over_one(self.decision(finding, now))
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
            exact::Charged::Refused(answer) => Verdict::over_one(Decision::of_log(answer)),
            exact::Charged::Admitted(answer, _) => {
                self.counters.forward(key, answer.placement(), cost, now);
                Verdict::over_one(Decision::of_log(answer))
            }
        }
    }

    /// The rates at `now`. A table is made for as many rates as its limit has, and every limit that shares it has the
    /// same periods.
    #[inline(always)]
    fn judges<const K: usize>(&self, now: Timestamp) -> [Judge; K] {
        let mut judges = std::array::from_fn(|rate| self.meters[rate].at(now));
        if let Meter::Window(..) = self.meters[0] {
            self.align(&mut judges, now);
        }
        judges
    }

    /// The rates at `now` of a limit whose first meter is this one. All meters of a limit are of one algorithm; so said, the compiler
    /// provides for no other under one rate and two. Under more it tells them apart all the same.
    #[inline(always)]
    fn sliding_judges<const K: usize>(
        &self,
        first: sliding_window::Meter,
        now: Timestamp,
    ) -> [Judge; K] {
        std::array::from_fn(|rate| {
            let meter = match rate {
                0 => first,
                _ => self.meters[rate].sliding().unwrap_or(first),
            };
            Judge::Sliding(meter.at(now))
        })
    }

    /// The judges of all rates; behind the last, the last again.
    fn judges_of_four(&self, now: Timestamp) -> [Judge; MAX_RATES] {
        self.judges(now)
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
    fn decision(&self, finding: Finding, now: Timestamp) -> Decision {
        let rates = self.policy.rates().len();
        match self.meters[0] {
            Meter::Window(..) => Decision::new(now, finding, rates, &self.meters_at(now)),
            _ => Decision::new(now, finding, rates, &self.meters),
        }
    }

    /// Puts the windows of `now` into judges whose windows follow a calendar.
    #[inline(never)]
    fn align(&self, judges: &mut [Judge], now: Timestamp) {
        for (judge, meter) in judges.iter_mut().zip(self.meters_at(now)) {
            *judge = meter.at(now);
        }
    }

    /// The meters with the windows of now.
    #[inline(never)]
    fn meters_at(&self, now: Timestamp) -> [Meter; MAX_RATES] {
        match self.policy.calendar() {
            None => self.meters,
            Some((zone, unit)) => {
                let shape = zone.window(unit, now);
                self.meters.map(|meter| meter.in_window(shape))
            }
        }
    }
}

/// Builds the finding of a charge that was made.
#[inline(always)]
fn admitted<const K: usize>(state: &State<K>, judges: &[Judge; K], cost: Cost) -> Finding {
    let mut words = [Word::UNUSED; MAX_RATES];
    for (rate, judge) in judges.iter().enumerate() {
        words[rate] = match state {
            State::Own(words) => words[rate],
            State::Shared(rows, _) => judge.lighter(rows[rate]),
            // Whoever is counted nowhere was not admitted.
            State::OverShare => judge.used_up(),
        };
    }
    Finding {
        asked: Asked::Taken(cost),
        placement: state.placement(),
        refusing: Refusing::default(),
        words,
    }
}

/// Builds the finding of a key that has a slot.
#[inline(always)]
fn in_slot<const K: usize>(asked: Asked, refusing: Refusing, words: &[Word; K]) -> Finding {
    Finding {
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
fn refused<const K: usize>(state: &State<K>, judges: &[Judge; K], cost: Cost) -> Finding {
    let mut words = [Word::UNUSED; MAX_RATES];
    let mut refusing = Refusing::default();
    let mut placement = state.placement();
    for (rate, judge) in judges.iter().enumerate() {
        let (word, sooner) = match state {
            State::Own(words) => (words[rate], words[rate]),
            State::Shared(rows, _) => (judge.lighter(rows[rate]), judge.sooner(rows[rate], cost)),
            // When others make room is not known; told is when the rate would have some.
            State::OverShare => {
                words[rate] = judge.used_up();
                refusing.add(rate);
                continue;
            }
        };
        words[rate] = word;
        if !judge.fits(word, cost) {
            words[rate] = sooner;
            refusing.add(rate);
            if let State::Shared(..) = state
                && judge.fits(Word::UNUSED, cost)
            {
                // An empty slot would admit the cost: the refusal is due to what new keys share.
                placement = KeyPlacement::Overflow;
            }
        }
    }
    Finding {
        asked: Asked::Wanted(cost),
        placement,
        refusing,
        words,
    }
}

impl Counters {
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

    fn with_shares(self, shares: Option<Shares>) -> Self {
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
    fn heir(&self) -> Option<&Limit> {
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
