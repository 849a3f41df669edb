//! Lays buckets of logs out in flat memory: which word is what.
//!
//! A bucket has fifteen slots, each a tag, a control word and a ring of entries, and one log more for new keys that
//! found no slot. What a search looks at stands together: tags and controls are four cache lines, whatever the size of
//! the rings.
//!
//! ```text
//! | control of the overflow log | tag × 15 | control × 15 | unused | ring of the overflow log | ring × 15 |
//! ```
//!
//! A ring of N entries is N / 2 words, N even: 4 bytes an entry. All of it is one run of words without pointers, zero
//! means unused, and a bucket begins at a multiple of 128 bytes. How long the logs of a run are follows from its length and
//! the number of its buckets ([`LogShape::found`]), so a file need not say it.

use crate::capacity::Capacity;
use crate::prefetch::ahead;
use crate::region::Region;
use crate::sync::AtomicU64;
use crate::table::layout::scale;
use crate::table::tag::Tag;

use super::log::Log;
use crate::rate::MAX_ENTRIES;

/// Slots of a bucket. Many, since two choices of wide buckets fill further; no more, so that a search stays within two
/// lines of tags a bucket.
#[cfg(not(loom))]
pub(super) const SLOTS: usize = 15;
/// Loom's time grows with every word that is looked at.
#[cfg(loom)]
pub(super) const SLOTS: usize = 2;
/// Keys per hundred slots: what keeps fewer than 1 of 100,000 keys out when all keys of a capacity are alive.
const LOAD_PERCENT: u64 = 84;
/// Buckets beyond what the load asks for: with few buckets chance weighs more.
const SPARE_BUCKETS: u64 = 2;

const FIRST_TAG: usize = 1;
const FIRST_CONTROL: usize = FIRST_TAG + SLOTS;
/// Tags and controls, to whole pairs of cache lines.
const HEADER_WORDS: usize = (FIRST_CONTROL + SLOTS).next_multiple_of(PAIR_WORDS);
/// Words of two cache lines of 64 bytes.
#[cfg(not(loom))]
const PAIR_WORDS: usize = 16;
#[cfg(loom)]
const PAIR_WORDS: usize = 1;
/// Entries in a word.
const ENTRIES_A_WORD: u32 = 2;
/// Rings of a bucket: one a slot, and that of the overflow log.
const RINGS: usize = 1 + SLOTS;
/// Words of the longest ring.
#[cfg(any(test, feature = "mmap"))]
const MOST_RING_WORDS: usize = MAX_ENTRIES / ENTRIES_A_WORD as usize;

const _: () = assert!(
    RINGS.is_multiple_of(PAIR_WORDS),
    "a bucket is whole pairs of cache lines, whatever its rings"
);

/// The length of a table's logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LogShape {
    /// Words of a ring, 1 to half of [`MAX_ENTRIES`].
    ring_words: usize,
}

impl LogShape {
    /// The shortest logs, those that are next to them, and the longest.
    #[cfg(feature = "mmap")]
    pub(super) const SHORTEST: Self = Self { ring_words: 1 };
    #[cfg(feature = "mmap")]
    pub(super) const NEXT: Self = Self { ring_words: 2 };
    #[cfg(feature = "mmap")]
    pub(super) const LONGEST: Self = Self {
        ring_words: MOST_RING_WORDS,
    };

    /// For logs of `entries` entries, 1 to [`MAX_ENTRIES`], or one more.
    pub(super) fn new(entries: u32) -> Self {
        let entries = entries.clamp(1, MAX_ENTRIES as u32);
        Self {
            ring_words: entries.div_ceil(ENTRIES_A_WORD) as usize,
        }
    }

    /// The shape of `buckets` buckets, at least one, that take so many `words`; `None` when there is no such shape.
    #[cfg(any(test, feature = "mmap"))]
    pub(super) fn found(words: usize, buckets: usize) -> Option<Self> {
        let rings = (words / buckets).checked_sub(HEADER_WORDS)?;
        let shape = Self {
            ring_words: rings / RINGS,
        };
        let whole =
            (1..=MOST_RING_WORDS).contains(&shape.ring_words) && words == shape.words_of(buckets);
        whole.then_some(shape)
    }

    /// Entries of a log.
    #[inline]
    pub(super) fn entries(self) -> u32 {
        // At most MAX_ENTRIES.
        self.ring_words as u32 * ENTRIES_A_WORD
    }

    /// Words of a bucket.
    #[inline]
    const fn bucket_words(self) -> usize {
        HEADER_WORDS + RINGS * self.ring_words
    }

    /// Words of so many buckets.
    pub(super) fn words_of(self, buckets: usize) -> usize {
        buckets.saturating_mul(self.bucket_words())
    }

    /// The log of slot `rank` of a bucket.
    #[inline]
    fn slot(self, bucket: &[AtomicU64], rank: usize) -> Log<'_> {
        Log {
            words: bucket,
            entries: self.entries(),
            tag: Some(FIRST_TAG + rank),
            control: FIRST_CONTROL + rank,
            ring: HEADER_WORDS + (1 + rank) * self.ring_words,
        }
    }

    /// The overflow log of a bucket.
    #[inline]
    fn overflow(self, bucket: &[AtomicU64]) -> Log<'_> {
        Log {
            words: bucket,
            entries: self.entries(),
            tag: None,
            control: 0,
            ring: HEADER_WORDS,
        }
    }

    /// All logs in the words of a table.
    #[cfg(any(test, feature = "mmap"))]
    pub(super) fn logs(self, words: &[AtomicU64]) -> impl Iterator<Item = Log<'_>> {
        words
            .chunks_exact(self.bucket_words())
            .flat_map(move |bucket| {
                let slots = (0..SLOTS).map(move |rank| self.slot(bucket, rank));
                slots.chain([self.overflow(bucket)])
            })
    }
}

/// The memory of a table of logs.
pub(super) struct LogMemory {
    region: Region,
    buckets: usize,
    shape: LogShape,
}

impl LogMemory {
    /// Buckets for a capacity, at the load that keeps its keys apart: at most 2^27. Where that does not fit the address
    /// space, the allocation fails and says so.
    pub(super) fn buckets_for(capacity: Capacity) -> usize {
        let slots = (capacity.keys() * 100).div_ceil(LOAD_PERCENT);
        let buckets = slots.div_ceil(SLOTS as u64) + SPARE_BUCKETS;
        usize::try_from(buckets).unwrap_or(usize::MAX)
    }

    /// Memory of `buckets` buckets, at least one, and a filter of so many words, of this process alone.
    pub(super) fn new(buckets: usize, shape: LogShape, filter_words: usize) -> Self {
        let buckets = buckets.max(1);
        let words = shape.words_of(buckets).saturating_add(filter_words);
        Self::within(Region::owned(words), buckets, shape)
    }

    /// The memory in a region, which has the words of so many buckets of this shape, and behind them those of the
    /// [filter](crate::table::overflow_filter).
    pub(super) fn within(region: Region, buckets: usize, shape: LogShape) -> Self {
        Self {
            region,
            buckets,
            shape,
        }
    }

    pub(super) fn buckets(&self) -> usize {
        self.buckets
    }

    pub(super) fn slots(&self) -> usize {
        self.buckets * SLOTS
    }

    #[cfg(all(test, not(loom)))]
    pub(super) fn shape(&self) -> LogShape {
        self.shape
    }

    pub(super) fn entries(&self) -> u32 {
        self.shape.entries()
    }

    pub(super) fn bytes(&self) -> usize {
        self.region.bytes()
    }

    /// All words, bucket after bucket, then the filter's.
    #[cfg(all(test, not(loom)))]
    pub(super) fn words(&self) -> &[AtomicU64] {
        &self.region
    }

    /// The words behind the buckets.
    pub(super) fn filter(&self) -> &[AtomicU64] {
        &self.region[self.shape.words_of(self.buckets)..]
    }

    #[inline]
    fn bucket(&self, bucket_index: usize) -> &[AtomicU64] {
        let count = self.shape.bucket_words();
        self.region.run(bucket_index * count, count)
    }

    /// The log of the slot `slot`, counted through all buckets.
    #[inline]
    pub(super) fn slot(&self, slot: usize) -> Log<'_> {
        self.shape.slot(self.bucket(slot / SLOTS), slot % SLOTS)
    }

    /// The log of those without a slot whose first bucket is `bucket_index`.
    pub(super) fn overflow(&self, bucket_index: usize) -> Log<'_> {
        self.shape.overflow(self.bucket(bucket_index))
    }

    /// The two buckets that a key may live in; they may be one and the same.
    pub(super) fn candidate_buckets(&self, tag: Tag) -> [usize; 2] {
        tag.points().map(|point| scale(point, self.buckets))
    }

    /// The slots of a bucket in the order in which `tag` looks for its own and for a free one.
    #[inline]
    pub(super) fn slots_of(bucket_index: usize, tag: Tag) -> impl Iterator<Item = usize> + Clone {
        let lot = scale(tag.lot(), SLOTS);
        (lot..SLOTS)
            .chain(0..lot)
            .map(move |rank| bucket_index * SLOTS + rank)
    }

    /// Says that the tags of a bucket may be looked at soon, from where a search for `tag` begins there.
    #[inline]
    pub(super) fn ahead(&self, bucket_index: usize, tag: Tag) {
        ahead(&self.bucket(bucket_index)[FIRST_TAG + scale(tag.lot(), SLOTS)]);
    }

    /// The tag words of both buckets, each once, with their slots, in the order of `tag`.
    #[inline]
    pub(super) fn tags(
        &self,
        candidate_buckets: [usize; 2],
        tag: Tag,
    ) -> impl Iterator<Item = (usize, &AtomicU64)> {
        let distinct = if candidate_buckets[0] == candidate_buckets[1] {
            1
        } else {
            2
        };
        let lot = scale(tag.lot(), SLOTS);
        candidate_buckets
            .into_iter()
            .take(distinct)
            .flat_map(move |bucket_index| {
                let tags = &self.bucket(bucket_index)[FIRST_TAG..FIRST_CONTROL];
                (lot..SLOTS)
                    .chain(0..lot)
                    .map(move |rank| (bucket_index * SLOTS + rank, &tags[rank]))
            })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Goal: a file tells how long its logs are, and nothing else is taken for one. Method: every shape there and back;
    /// lengths around it.
    #[test]
    fn the_shape_of_a_run_of_words_follows_from_its_length() {
        for buckets in [1, 3, 1000] {
            for entries in (1..=MAX_ENTRIES as u32).step_by(if cfg!(miri) { 101 } else { 1 }) {
                let shape = LogShape::new(entries);
                assert!((entries..entries + ENTRIES_A_WORD).contains(&shape.entries()));
                let words = shape.words_of(buckets);
                assert_eq!(LogShape::found(words, buckets), Some(shape));
                assert!(
                    [words - 1, words + 1]
                        .iter()
                        .all(|words| { LogShape::found(*words, buckets).is_none() })
                );
            }
            let longest = LogShape::new(u32::MAX).words_of(buckets);
            let longer = longest + buckets * RINGS;
            for none in [0, HEADER_WORDS * buckets, longer, usize::MAX] {
                assert_eq!(LogShape::found(none, buckets), None);
            }
        }
    }
}
