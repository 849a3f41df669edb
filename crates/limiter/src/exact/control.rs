//! Packs what a log is, and who may write it, into one word.
//!
//! ```text
//! 63      49 48      39 38     28     27        26      25         0
//! |  era 15 |  head 10 |  len 11 | spilled | held | version 26 |
//! ```
//!
//! *era*: which 2^30 ms (12.4 days) the latest entries lie in. An entry has 32 bits of a moment in milliseconds; it
//! means the one moment with these bits in the 2^32 ms that end with the era. So every entry reaches back at least
//! 2^32 − 2^30 ms, 37 days, from the start of the era, longer than the longest period, however long the log was idle.
//! 15 bits reach the end of [`Timestamp`](crate::Timestamp), the year 2554.
//!
//! *head*: the place after the latest entry; *len*: how many entries up to there count. *spilled*: a unchecked charge
//! pushed out entries that still counted. *held*: somebody is writing. *version*: how often the word was written,
//! modulo 2^26.
//!
//! # Invariants
//! 1. *One fact, one word.* Entries are written where they do not count yet, or only made later; a charge counts from
//!    the one compare-and-swap of this word that lets go of the log.
//! 2. *The version tells holds apart.* A thread that compares this word with what it saw knows that nothing changed
//!    between, unless exactly a multiple of 2^26 changes did and left the same head and length. A log admits at most
//!    1,024 a second: without undos that takes nine hours between two instructions of one thread.

use crate::rate::{MAX_ENTRIES, MAX_PERIOD};

const VERSION_BITS: u32 = 26;
const HELD: u64 = 1 << VERSION_BITS;
const SPILLED: u64 = 1 << (VERSION_BITS + 1);
const LEN_SHIFT: u32 = VERSION_BITS + 2;
const LEN_BITS: u32 = 11;
const HEAD_SHIFT: u32 = LEN_SHIFT + LEN_BITS;
const HEAD_BITS: u32 = 10;
const ERA_SHIFT: u32 = HEAD_SHIFT + HEAD_BITS;
/// Milliseconds of an era, as a power of two.
const ERA_MILLIS_LOG: u32 = 30;
/// Milliseconds that 32 bits tell apart.
const LAP: u64 = 1 << 32;

const _: () = assert!(MAX_ENTRIES < 1 << LEN_BITS && MAX_ENTRIES <= 1 << HEAD_BITS);
const _: () = assert!(
    (MAX_PERIOD as u64) * 1000 < LAP - (1 << ERA_MILLIS_LOG),
    "an entry that still counts can be told"
);
const _: () = assert!(
    (u64::MAX / 1_000_000 + 1) >> ERA_MILLIS_LOG < 1 << (64 - ERA_SHIFT),
    "every moment has an era"
);

/// The span of 12.4 days that a log's latest entries lie in.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct LogEra(u32);

impl LogEra {
    /// The era of a moment in milliseconds since the epoch.
    pub(super) const fn from_millis(millis: u64) -> Self {
        Self((millis >> ERA_MILLIS_LOG) as u32)
    }

    /// The last millisecond of the era.
    const fn last(self) -> u64 {
        ((self.0 as u64 + 1) << ERA_MILLIS_LOG) - 1
    }

    /// The earliest moment that an entry can mean.
    pub(super) const fn first_told(self) -> u64 {
        (self.last() + 1).saturating_sub(LAP)
    }

    /// The moment that an entry means.
    pub(super) const fn moment(self, entry: u32) -> u64 {
        let last = self.last();
        // Saturating for words that nobody wrote: a damaged file.
        last.saturating_sub((last as u32).wrapping_sub(entry) as u64)
    }
}

/// The word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ControlWord(u64);

/// The extent of a log's content.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct LogExtent {
    pub(super) era: LogEra,
    /// The place after the latest entry.
    pub(super) head: u32,
    /// Entries that count.
    pub(super) len: u32,
    pub(super) spill: SpillState,
}

/// Tells if an unchecked charge pushed out entries that still counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SpillState {
    /// The log has all that counts.
    None,
    /// The log is full and stands for more; it gives nothing back until a charge fits again, by when all that it does
    /// not show has expired.
    Some,
}

impl ControlWord {
    pub(super) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    pub(super) const fn bits(self) -> u64 {
        self.0
    }

    pub(super) const fn is_held(self) -> bool {
        self.0 & HELD != 0
    }

    /// The contents of a log of `size` entries.
    pub(super) fn extent(self, size: u32) -> LogExtent {
        let field = |shift: u32, bits: u32| ((self.0 >> shift) & ((1 << bits) - 1)) as u32;
        let head = field(HEAD_SHIFT, HEAD_BITS);
        LogExtent {
            era: LogEra((self.0 >> ERA_SHIFT) as u32),
            // Both bounds hold but in a damaged file.
            head: if head < size { head } else { 0 },
            len: field(LEN_SHIFT, LEN_BITS).min(size),
            spill: if self.0 & SPILLED == 0 {
                SpillState::None
            } else {
                SpillState::Some
            },
        }
    }

    /// The word of these contents, one version on, while it is held.
    #[must_use]
    pub(super) fn held(self, extent: LogExtent) -> Self {
        Self(self.next(extent) | HELD)
    }

    /// The word of these contents, one version on, free.
    #[must_use]
    pub(super) fn free(self, extent: LogExtent) -> Self {
        Self(self.next(extent))
    }

    fn next(self, extent: LogExtent) -> u64 {
        let LogExtent {
            era,
            head,
            len,
            spill,
        } = extent;
        let version = self.0.wrapping_add(1) & (HELD - 1);
        let spilled = if spill == SpillState::Some {
            SPILLED
        } else {
            0
        };
        u64::from(era.0) << ERA_SHIFT
            | u64::from(head) << HEAD_SHIFT
            | u64::from(len) << LEN_SHIFT
            | spilled
            | version
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: no field touches another. Method: each at its largest, the others zero, there and back.
    #[test]
    fn every_field_keeps_to_itself() {
        let none = LogExtent {
            era: LogEra(0),
            head: 0,
            len: 0,
            spill: SpillState::None,
        };
        let extents = [
            LogExtent {
                era: LogEra::from_millis(u64::MAX / 1_000_000 + 1),
                ..none
            },
            LogExtent { head: 1023, ..none },
            LogExtent { len: 1024, ..none },
            LogExtent {
                spill: SpillState::Some,
                ..none
            },
        ];
        for extent in extents {
            for before in [0, (1 << 26) - 1] {
                let (free, held) = (
                    ControlWord(before).free(extent),
                    ControlWord(before).held(extent),
                );
                assert_eq!(free.extent(1024), extent);
                assert_eq!(held.extent(1024), extent);
                assert!(!free.is_held() && held.is_held() && free.bits() != before);
            }
        }
    }

    /// Goal: an entry means what was written. Method: moments at both ends of time and of an era, from now to 37 days
    /// back.
    #[test]
    fn an_entry_is_told_for_thirty_seven_days() {
        let last = u64::MAX / 1_000_000 + 1;
        for newest in [0, 1, LAP - 1, LAP, LAP + 1, 1_800_000_000_000, last] {
            let era = LogEra::from_millis(newest);
            for back in [0, 1, 1000, 31 * 86_400_000, 37 * 86_400_000] {
                let moment = newest.saturating_sub(back);
                assert!(moment >= era.first_told());
                assert_eq!(era.moment(moment as u32), moment);
            }
        }
    }
}
