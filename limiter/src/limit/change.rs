//! Changes what a key used by other ways than a decision: undo, force, set, reset.

use crate::cost::Cost;
use crate::decision::Counted;
use crate::key::KeyHash;
use crate::table::{Change, Charged, Made};
use crate::time::Timestamp;

use super::{AnyTable, Limit, Receipt, with_table};

impl Limit {
    /// Forgets what `key` used, for instance when an operator pardons a client; a reset that races with a charge comes
    /// before or after it.
    ///
    /// [`Counted::InOverflow`] says that the key has no counter of its own: what it shares with others stays.
    pub fn reset(&self, key: KeyHash, now: Timestamp) -> Counted {
        self.put(key, None, now)
    }

    /// Makes `key` have used `used` of every rate and nothing else. [`Counted::InOverflow`] says that it was added to what
    /// the key shares with others instead.
    pub fn set(&self, key: KeyHash, used: Cost, now: Timestamp) -> Counted {
        self.put(key, Some(used), now)
    }

    fn put(&self, key: KeyHash, used: Option<Cost>, now: Timestamp) -> Counted {
        let mut limit = self;
        loop {
            let counted = with_table!(&limit.counters.table, table => {
                table.set(key, &limit.judges(now), used)
            });
            match limit.counters.successor() {
                Some(next) => limit = next,
                None => return counted,
            }
        }
    }

    /// Takes `cost` whether it fits or not.
    pub(crate) fn force(&self, key: KeyHash, cost: Cost, now: Timestamp) {
        with_table!(&self.counters.table, table => {
            match table.change(key, &self.judges(now), Change::Force(cost)) {
                // Force is never refused.
                Charged::Refused(_) => {}
                Charged::Admitted(_, seat) => self.counters.forward(key, seat, cost, now),
            }
        });
    }

    /// Takes `cost` of a charge back, here and where it was taken over to.
    pub(crate) fn undo(&self, key: KeyHash, receipt: &Receipt, cost: Cost, now: Timestamp) {
        let Receipt { seat, left, made } = receipt;
        with_table!(&self.counters.table, table => {
            let made = Made { left: std::array::from_fn(|rate| left[rate]), at: *made };
            table.undo(key, *seat, &self.judges(now), &made, cost);
        });
        if let Some(next) = self.counters.successor() {
            next.undo_taken_over(self, key, receipt, cost, now);
        }
    }

    /// Takes `cost` back of a charge that was made in `from`, which this limit goes on from.
    fn undo_taken_over(
        &self,
        from: &Self,
        key: KeyHash,
        receipt: &Receipt,
        cost: Cost,
        now: Timestamp,
    ) {
        let left = with_table!(&from.counters.table, table => {
            table.converted(&from.judges(now), receipt.left, &self.judges_of_four(now))
        });
        with_table!(&self.counters.table, table => {
            let left = std::array::from_fn(|rate| left[rate]);
            let made = Made { left, at: receipt.made };
            table.undo_taken_over(key, &self.judges(now), &made, cost);
        });
        if let Some(next) = self.counters.successor() {
            let receipt = Receipt { left, ..*receipt };
            next.undo_taken_over(self, key, &receipt, cost, now);
        }
    }
}
