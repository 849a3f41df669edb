//! Lays buckets of logs out in flat memory: which word is what.
//!
//! A bucket has fifteen slots, each a tag, a control word and a ring of entries, and one log more for newcomers that
//! found no slot. What a search looks at stands together: tags and controls are four cache lines, whatever the size of
//! the rings.
//!
//! ```text
//! | control of the overflow log | tag × 15 | control × 15 | unused | ring of the overflow log | ring × 15 |
//! ```
//!
//! A ring of N entries is ⌈N / 2⌉ words: 4 bytes an entry. All of it is one run of words without pointers, zero means
//! unused, and a bucket begins at a multiple of 128 bytes.

use crate::capacity::Capacity;
use crate::sync::{AtomicU64, Ordering};
use crate::table::layout::scale;
use crate::table::tag::Tag;

use super::control::MAX_ENTRIES;
use super::log::Log;

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

/// Two cache lines, aligned to their size.
#[repr(align(128))]
struct Pair([AtomicU64; PAIR_WORDS]);

/// Words of a ring.
fn ring_words(entries: u32) -> usize {
    (entries as usize).div_ceil(2)
}

/// Words of a bucket, to whole pairs of cache lines.
fn bucket_words(ring_words: usize) -> usize {
    (HEADER_WORDS + (1 + SLOTS) * ring_words).next_multiple_of(PAIR_WORDS)
}

/// The memory of a table of logs.
pub(super) struct Memory {
    pairs: Box<[Pair]>,
    buckets: usize,
    /// Entries of a log, 1 to [`MAX_ENTRIES`].
    entries: u32,
    ring_words: usize,
    /// Whole pairs of cache lines.
    bucket_words: usize,
}

impl Memory {
    /// Buckets for a capacity, at the load that keeps its keys apart.
    pub(super) fn buckets_for(capacity: Capacity) -> u64 {
        let slots = (capacity.keys() * 100).div_ceil(LOAD_PERCENT);
        slots.div_ceil(SLOTS as u64) + SPARE_BUCKETS
    }

    /// Memory for a capacity, with logs of `entries` entries: below 2^43.
    pub(super) fn bytes_for(capacity: Capacity, entries: u32) -> u64 {
        let words = bucket_words(ring_words(entries));
        Self::buckets_for(capacity) * (words * size_of::<u64>()) as u64
    }

    /// Memory of `buckets` buckets, at least one, with logs of `entries` entries; all of it touched, so that no page is
    /// granted in the middle of a flood.
    pub(super) fn new(buckets: usize, entries: u32) -> Self {
        let (buckets, entries) = (buckets.max(1), entries.clamp(1, MAX_ENTRIES as u32));
        let ring_words = ring_words(entries);
        let bucket_words = bucket_words(ring_words);
        let words = buckets.saturating_mul(bucket_words);
        let pairs: Box<[Pair]> = (0..words.div_ceil(PAIR_WORDS))
            .map(|_| Pair(std::array::from_fn(|_| AtomicU64::new(0))))
            .collect();
        for Pair(words) in &pairs {
            // The compiler may ask for pages that are not there yet; it cannot know what is written here. Relaxed: the
            // memory is not shared yet.
            words[0].store(std::hint::black_box(0), Ordering::Relaxed);
        }
        Self {
            pairs,
            buckets,
            entries,
            ring_words,
            bucket_words,
        }
    }

    pub(super) fn buckets(&self) -> usize {
        self.buckets
    }

    pub(super) fn slots(&self) -> usize {
        self.buckets * SLOTS
    }

    pub(super) fn entries(&self) -> u32 {
        self.entries
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.pairs)
    }

    #[inline]
    pub(super) fn word(&self, index: usize) -> &AtomicU64 {
        &self.pairs[index / PAIR_WORDS].0[index % PAIR_WORDS]
    }

    fn first_word(&self, home: usize) -> usize {
        home * self.bucket_words
    }

    /// The log of the slot `slot`, counted through all buckets.
    #[inline]
    pub(super) fn slot(&self, slot: usize) -> Log<'_> {
        let (first, rank) = (self.first_word(slot / SLOTS), slot % SLOTS);
        let ring = first + HEADER_WORDS + (1 + rank) * self.ring_words;
        Log {
            memory: self,
            tag: Some(first + FIRST_TAG + rank),
            control: first + FIRST_CONTROL + rank,
            ring,
        }
    }

    /// The log of those without a slot whose first bucket is `home`.
    pub(super) fn overflow(&self, home: usize) -> Log<'_> {
        let first = self.first_word(home);
        Log {
            memory: self,
            tag: None,
            control: first,
            ring: first + HEADER_WORDS,
        }
    }

    /// The two buckets that a key may live in; they may be one and the same.
    pub(super) fn homes(&self, tag: Tag) -> [usize; 2] {
        tag.points().map(|point| scale(point, self.buckets))
    }

    /// The slots of a bucket in the order in which `tag` looks for its own and for a free one.
    #[inline]
    pub(super) fn slots_of(home: usize, tag: Tag) -> impl Iterator<Item = usize> + Clone {
        let lot = scale(tag.lot(), SLOTS);
        (lot..SLOTS)
            .chain(0..lot)
            .map(move |rank| home * SLOTS + rank)
    }

    /// The tag words of both buckets, each once, with their slots, in the order of `tag`.
    #[inline]
    pub(super) fn tags(
        &self,
        homes: [usize; 2],
        tag: Tag,
    ) -> impl Iterator<Item = (usize, &AtomicU64)> {
        let distinct = if homes[0] == homes[1] { 1 } else { 2 };
        let lot = scale(tag.lot(), SLOTS);
        homes.into_iter().take(distinct).flat_map(move |home| {
            let first = self.first_word(home) + FIRST_TAG;
            (lot..SLOTS)
                .chain(0..lot)
                .map(move |rank| (home * SLOTS + rank, self.word(first + rank)))
        })
    }
}
