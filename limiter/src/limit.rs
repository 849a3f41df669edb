//! Owns a limit: its rates, its capacity, and the counters that both are judged by.
//!
//! A [`Limit`] is a handle: clones share the counters, and so does an edit that changes numbers only. The number of
//! rates decides the shape of the table; it is chosen once, here, and everything below is compiled for one to four
//! rates.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock};

use crate::capacity::Capacity;
use crate::cost::Cost;
use crate::decision::Decision;
use crate::key::KeyHash;
use crate::rate::{MAX_RATES, Rates};
use crate::sliding_window::Judge;
use crate::sync::{AtomicBool, Ordering};
use crate::table::{Asked, Change, Charged, Occupancy, Seat, State, Table, Tallies};
use crate::time::Timestamp;

mod edit;
#[cfg(feature = "mmap")]
mod survive;

#[cfg(feature = "mmap")]
pub use survive::Meaning;

/// A named rule's rates with the counters of all its keys.
#[derive(Clone)]
pub struct Limit {
    rates: Rates,
    capacity: Capacity,
    counters: Arc<Counters>,
}

/// The counters of a limit, and where they went when its structure was edited.
pub(crate) struct Counters {
    table: AnyTable,
    /// Whether `successor` is set. Apart from it, so that a charge can look with the ordering that the hand-over needs
    /// (`edit`).
    moved: AtomicBool,
    /// Holds the newer table, never the other way round: a chain of edits keeps no old table alive.
    successor: OnceLock<Limit>,
    /// Held by an edit from its decision to its end; requests never take it.
    edits: Mutex<()>,
}

/// A table for one to four rates.
enum AnyTable {
    One(Table<1>),
    Two(Table<2>),
    Three(Table<3>),
    Four(Table<4>),
}

/// Runs `$body` with `$table` bound to the table inside.
macro_rules! with_table {
    ($any:expr, $table:ident => $body:expr) => {
        match $any {
            AnyTable::One($table) => $body,
            AnyTable::Two($table) => $body,
            AnyTable::Three($table) => $body,
            AnyTable::Four($table) => $body,
        }
    };
}
use with_table;

/// A charge that may still be undone.
#[derive(Clone, Copy)]
pub(crate) struct Reservation {
    seat: Seat,
    /// Per rate, the start of the window that it was counted in; the second of a pair is for the second overflow word.
    windows: [[i64; 2]; MAX_RATES],
    cost: Cost,
}

impl AnyTable {
    /// A table for as many rates as `rates` has.
    fn new(rates: &Rates, size: Size, before: Tallies) -> Self {
        fn sized<const K: usize>(size: Size, before: Tallies) -> Table<K> {
            match size {
                Size::Keys(capacity) => Table::new(capacity, before),
                Size::Buckets(buckets) => Table::with_buckets(buckets, before),
            }
        }
        match rates.len() {
            1 => Self::One(sized(size, before)),
            2 => Self::Two(sized(size, before)),
            3 => Self::Three(sized(size, before)),
            _ => Self::Four(sized(size, before)),
        }
    }
}

/// How large a table is to be.
#[derive(Clone, Copy)]
enum Size {
    Keys(Capacity),
    Buckets(usize),
}

/// The rates at `now`. A table is made for as many rates as its limit has, and every limit that shares it has the same
/// periods.
fn judges<const K: usize>(rates: &Rates, now: Timestamp) -> [Judge; K] {
    let rates = rates.as_slice();
    std::array::from_fn(|rate| Judge::new(rates[rate], now))
}

impl Limit {
    /// A limit with all its memory, for `capacity` keys that owe something at the same time. None of it is allocated
    /// later.
    #[must_use]
    pub fn new(rates: Rates, capacity: Capacity) -> Self {
        let table = AnyTable::new(&rates, Size::Keys(capacity), Tallies::default());
        Self {
            rates,
            capacity,
            counters: Arc::new(Counters::new(table)),
        }
    }

    /// A limit of so many buckets: for tests that need keys to collide.
    #[doc(hidden)]
    #[must_use]
    pub fn with_buckets(rates: Rates, buckets: usize) -> Self {
        let table = AnyTable::new(&rates, Size::Buckets(buckets), Tallies::default());
        let capacity = Capacity::new(buckets as u64).unwrap_or_default();
        Self {
            rates,
            capacity,
            counters: Arc::new(Counters::new(table)),
        }
    }

    /// The rates, by rising period.
    #[must_use]
    pub fn rates(&self) -> &Rates {
        &self.rates
    }

    /// Keys that fit at the same time.
    #[must_use]
    pub fn capacity(&self) -> Capacity {
        self.capacity
    }

    /// Memory of the counters, fixed when they were made.
    #[must_use]
    pub fn bytes(&self) -> usize {
        with_table!(&self.counters.table, table => table.bytes())
    }

    /// What `key` would be told if it asked for `cost` now. Writes nothing.
    #[must_use]
    pub fn peek(&self, key: KeyHash, cost: Cost, now: Timestamp) -> Decision {
        with_table!(&self.counters.table, table => {
            let judges = judges(&self.rates, now);
            table.peek(key, &judges).decision(&judges, Asked::Wanted(cost))
        })
    }

    /// How full the table is. Looks at up to 131,072 buckets: for a status page, not for a request.
    #[must_use]
    pub fn occupancy(&self, now: Timestamp) -> Occupancy {
        with_table!(&self.counters.table, table => table.occupancy(&judges(&self.rates, now)))
    }

    /// What happened to newcomers since the limit was made, edits included.
    #[must_use]
    pub fn tallies(&self) -> Tallies {
        with_table!(&self.counters.table, table => table.tallies())
    }

    /// Whether both count in the same table.
    pub(crate) fn shares_counters_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.counters, &other.counters)
    }

    /// Takes `cost` from all rates of `key`, or from none.
    pub(crate) fn charge(
        &self,
        key: KeyHash,
        cost: Cost,
        now: Timestamp,
    ) -> (Decision, Option<Reservation>) {
        with_table!(&self.counters.table, table => {
            let judges = judges(&self.rates, now);
            match table.change(key, &judges, Change::Charge(cost)) {
                Charged::Refused(state) => (state.decision(&judges, Asked::Wanted(cost)), None),
                Charged::Admitted(state, seat) => {
                    self.counters.forward(key, seat, cost, now);
                    let reservation = Reservation { seat, windows: windows(&state, &judges), cost };
                    (state.decision(&judges, Asked::Taken), Some(reservation))
                }
            }
        })
    }

    /// Takes a charge back. What a successor was told of it stays there: an edit may count a refused request, never
    /// forget one.
    pub(crate) fn undo(&self, reservation: &Reservation, now: Timestamp) {
        let Reservation {
            seat,
            windows,
            cost,
        } = *reservation;
        with_table!(&self.counters.table, table => {
            let windows = std::array::from_fn(|rate| windows[rate]);
            table.undo(seat, &judges(&self.rates, now), &windows, cost);
        });
    }
}

impl Counters {
    fn new(table: AnyTable) -> Self {
        Self {
            table,
            moved: AtomicBool::new(false),
            successor: OnceLock::new(),
            edits: Mutex::new(()),
        }
    }

    /// The counters that took over from these.
    fn successor(&self) -> Option<&Limit> {
        // SeqCst: see `edit`. One load of a line that is written once in its life.
        if self.moved.load(Ordering::SeqCst) {
            self.successor.get()
        } else {
            None
        }
    }

    /// Tells the successor, if there is one, of a charge that was made here.
    #[inline]
    fn forward(&self, key: KeyHash, seat: Seat, cost: Cost, now: Timestamp) {
        let (mut from, mut seat) = (self, seat);
        while let Some(next) = from.successor() {
            // Where it was counted there is what matters to the one after.
            seat = next.take_over(key, seat, cost, now);
            from = &next.counters;
        }
    }
}

/// Where the words of a charge were counted, a row a rate.
fn windows<const K: usize>(state: &State<K>, judges: &[Judge; K]) -> [[i64; 2]; MAX_RATES] {
    let mut windows = [[0; 2]; MAX_RATES];
    for (rate, judge) in judges.iter().enumerate() {
        windows[rate] = match state {
            State::Own(words) => [judge.window_of(words[rate]); 2],
            State::Shared(rows, _) => rows[rate].map(|word| judge.window_of(word)),
        };
    }
    windows
}

impl fmt::Debug for Limit {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        into.debug_struct("Limit")
            .field("rates", &self.rates)
            .field("capacity", &self.capacity)
            .field("bytes", &self.bytes())
            .finish_non_exhaustive()
    }
}
