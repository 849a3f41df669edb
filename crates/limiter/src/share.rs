//! Bounds how many slots the keys of one payer may take while a table is crowded.
//!
//! A client that can invent keys can fill a table: each new one takes a slot, and new keys of other clients find none. So
//! an [`Ask`](crate::Ask) may
//! name who *pays* for a new key, as the address of the client that sent it. Each key that takes a slot, and each that is counted in
//! overflow for want of one, is entered in the account of its payer. A payer with more than its share, 1/256 of the capacity, finds room
//! for further new keys only in buckets with more than [`RESERVED`] slots that owe nothing. Elsewhere they are refused, and nothing is
//! written for them: neither a slot nor a word that others share. So new keys of others find a slot in nearly every bucket, and behind it
//! overflow words that are as good as empty, while a payer alone may use a table up to its capacity: with half as many keys none was
//! refused in a simulation, with as many 2 to 4 of 1,000.
//!
//! Refused, and not counted together: what was counted under a payer could not be found again by a request for the same key that another
//! pays for, and many payers together would exceed the key's limit.
//!
//! # Accounts
//! They are cells of [`ROWS`] rows; a payer has one in each, and its account is the least of them (a count-min sketch). Others may be
//! counted in all of them, so an account may be too high, never too low. A cell counts two windows, each as long as the longest period of
//! the limit; both count in full, for as long as most slots owe. All that a table holds adds a tenth of a share to each cell.
//!
//! # Concurrency
//! A cell is one word, changed by compare-and-swap. An account is looked at before a slot is taken and entered after: requests of one
//! payer that race may take a slot each beyond the share.
//!
//! # Limits
//! Accounts are of one process: after a restart, or an edit that needs another table, each payer has its share again.

use std::fmt;

use crate::capacity::Capacity;
use crate::key::Seed;
use crate::rate::Period;
use crate::region::Region;
use crate::sync::{AtomicU64, Ordering};
use crate::time::Timestamp;

/// A payer's account is too high only if others are over their share in all of its cells.
const ROWS: usize = 4;
/// Number of cells in a row. With 1/256 of a capacity as the share, all keys that a table holds weigh a tenth of it
/// in a cell.
#[cfg(not(loom))]
const WIDTH: usize = 4096;
#[cfg(loom)]
const WIDTH: usize = 1;
/// Part of the capacity that is a share: at the default capacity 1,024 keys. What is reserved takes 60 of them.
const PART: u64 = 256;
/// Slots of a bucket that are kept for payers within their shares.
pub(crate) const RESERVED: usize = 1;
/// Slots that any payer may take.
const LEAST: u64 = 16;

/// The payer of slots for new keys: a client's address, or anything else that a client cannot invent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Payer(u64);

impl Payer {
    /// The payer that these bits name; all of them count.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
}

/// The accounts of all payers.
pub(crate) struct PayerShares {
    seed: Seed,
    cells: Region,
}

/// The account of one payer at a moment.
#[derive(Clone, Copy)]
pub(crate) struct PayerAccount<'s> {
    pub(crate) shares: &'s PayerShares,
    pub(crate) payer: Payer,
    pub(crate) capacity: Capacity,
    /// For how long a slot is paid for at least.
    pub(crate) period: Period,
    pub(crate) now: Timestamp,
}

/// The counts of a cell in the window `number` and in the one before.
///
/// ```text
/// 63        48 47            24 23             0
/// | number 16  |   before 24    |   in it 24    |
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ShareCell {
    number: u16,
    before: u32,
    within: u32,
}

const COUNT_BITS: u32 = 24;
const MOST: u32 = (1 << COUNT_BITS) - 1;

impl ShareCell {
    fn from_bits(bits: u64) -> Self {
        let count = |bits: u64| bits as u32 & MOST;
        Self {
            number: (bits >> (2 * COUNT_BITS)) as u16,
            before: count(bits >> COUNT_BITS),
            within: count(bits),
        }
    }

    fn bits(self) -> u64 {
        let before = u64::from(self.before);
        let within = u64::from(self.within);
        u64::from(self.number) << (2 * COUNT_BITS) | before << COUNT_BITS | within
    }

    /// Returns the cell as it counts in the window `number`.
    fn in_window(self, number: u16) -> Self {
        let before = match number.wrapping_sub(self.number) {
            0 => return self,
            1 => self.within,
            _ => 0,
        };
        Self {
            number,
            before,
            within: 0,
        }
    }

    fn sum(self) -> u32 {
        self.before + self.within
    }

    fn one_more(self) -> Self {
        let within = (self.within + 1).min(MOST);
        Self { within, ..self }
    }
}

impl PayerShares {
    /// Memory of the accounts, in bytes.
    pub(crate) const BYTES: u64 = (ROWS * WIDTH * size_of::<u64>()) as u64;

    /// Empty accounts. The seed is a secret: a client that knew it could find addresses that share the cells of another.
    pub(crate) fn new(seed: Seed) -> Self {
        // Zero is an empty cell; a page takes memory once a payer has a cell there.
        let cells = Region::owned(ROWS * WIDTH);
        Self { seed, cells }
    }

    /// Empty accounts under the same seed.
    pub(crate) fn anew(&self) -> Self {
        Self::new(self.seed)
    }

    /// The cells of a payer, one of each row.
    fn cells_of(&self, payer: Payer) -> impl Iterator<Item = &AtomicU64> {
        let hash = self.seed.hasher().part(&payer.0.to_le_bytes()).finish();
        let rows = self.cells.chunks_exact(WIDTH).enumerate();
        // 16 bits a row: more than a row has cells.
        rows.map(move |(row, cells)| &cells[(hash.bits() >> (16 * row)) as usize % WIDTH])
    }
}

impl PayerAccount<'_> {
    fn number(&self) -> u16 {
        // The numbers of windows repeat after 18 hours and more; a cell that was not used since is believed once, in that window.
        (self.now.as_secs() / u64::from(self.period.as_secs())) as u16
    }

    /// Returns whether the payer has taken its share.
    pub(crate) fn is_over(&self) -> bool {
        let number = self.number();
        let share = share(self.capacity);
        // Relaxed, here and below: each cell is a fact by itself and publishes nothing.
        let sum = |cell: &AtomicU64| {
            ShareCell::from_bits(cell.load(Ordering::Relaxed))
                .in_window(number)
                .sum()
        };
        let cells = self.shares.cells_of(self.payer);
        cells.map(sum).all(|sum| u64::from(sum) >= share)
    }

    /// Enters a new key.
    pub(crate) fn enter(&self) {
        let number = self.number();
        for cell in self.shares.cells_of(self.payer) {
            let next = |bits| {
                Some(
                    ShareCell::from_bits(bits)
                        .in_window(number)
                        .one_more()
                        .bits(),
                )
            };
            // Lock-free: another round means that another thread changed the cell. It always has a next word.
            let _always = cell.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        }
    }
}

/// The slots that one payer may take in a table of this capacity, however crowded it is.
pub(crate) fn share(capacity: Capacity) -> u64 {
    (capacity.keys() / PART).max(LEAST)
}

impl fmt::Debug for PayerShares {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        into.write_str("Shares(..)")
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn account(shares: &PayerShares, payer: u64, seconds: u64) -> PayerAccount<'_> {
        PayerAccount {
            shares,
            payer: Payer::from_bits(payer),
            capacity: Capacity::new(256 * 20).expect("a capacity"),
            period: Period::from_secs(10).expect("a period"),
            now: Timestamp::from_secs(seconds),
        }
    }

    fn shares() -> PayerShares {
        PayerShares::new(Seed::from_bytes([5; 16]))
    }

    /// Goal: a share is what it says, for the window and the next, and each payer has its own. Method: one takes all of it; others
    /// look on, and time passes.
    #[test]
    fn a_payer_has_its_share_in_two_windows() {
        let shares = shares();
        let at = |payer, seconds| account(&shares, payer, seconds);
        for _ in 0..20 {
            assert!(!at(1, 100).is_over());
            at(1, 100).enter();
        }
        assert!(at(1, 100).is_over() && at(1, 119).is_over());
        assert!(!at(1, 120).is_over(), "both windows are past");
        let others = (2..1_000).filter(|payer| at(*payer, 100).is_over());
        assert_eq!(others.count(), 0);
    }

    /// Goal: crowds of honest payers are nobody's burden. Method: as many payers with a key each as a table has slots; none is over.
    #[test]
    fn many_payers_with_one_key_each_are_within_their_shares() {
        let shares = shares();
        let at = |payer| PayerAccount {
            capacity: Capacity::new(262_144).expect("a capacity"),
            ..account(&shares, payer, 100)
        };
        let payers = 0..if cfg!(miri) { 100 } else { 437_000 };
        payers.clone().for_each(|payer| at(payer).enter());
        assert_eq!(payers.filter(|payer| at(*payer).is_over()).count(), 0);
    }

    /// Goal: nothing wraps. Method: cells at the edges, there and back, and one more than fits.
    #[test]
    fn cells_keep_what_fits_and_no_more() {
        for (number, before, within) in [(0, 0, 0), (u16::MAX, MOST, MOST), (7, 1, MOST), (9, 3, 4)]
        {
            let cell = ShareCell {
                number,
                before,
                within,
            };
            assert_eq!(ShareCell::from_bits(cell.bits()), cell);
            assert!(cell.one_more().within <= MOST);
            let next = cell.in_window(number.wrapping_add(1));
            assert_eq!((next.before, next.within), (within, 0));
            assert_eq!(cell.in_window(number.wrapping_add(2)).sum(), 0);
        }
        let largest = Capacity::new(1 << 30).expect("a capacity");
        assert!(share(largest) < u64::from(MOST), "a cell can count a share");
    }
}
