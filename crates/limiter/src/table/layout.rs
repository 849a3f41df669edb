//! Lays buckets out in flat memory: which word of which cache line is what.
//!
//! A bucket of a limit with K rates is a lock, an overflow word a rate, and S slots of a tag with its K state words
//! side by side:
//!
//! ```text
//! | lock | overflow × K | tag state × K | tag state × K | … |
//! ```
//!
//! | rates K | bytes a bucket | slots S | keys a slot | bytes a key and rate | without a slot, of 10^6 keys at capacity 10^6 |
//! |---|---|---|---|---|---|
//! | 1 | 128 | 7 | 0.60 | 30.5 | 2 |
//! | 2 | 256 | 9 | 0.66 | 21.5 | 3 |
//! | 3 | 256 | 7 | 0.60 | 20.3 | 2 |
//! | 4 | 256 | 5 | 0.52 | 24.6 | 5 |
//!
//! The load, keys a slot, is what keeps fewer than 1 of 100,000 keys out when all keys of a capacity are alive
//! (`examples/loads.rs` measures it). Wide buckets buy that: with two choices of 3 slots, one cache line, the same
//! takes 64 bytes a key and rate, and at 32 bytes 0.6 % of the keys would share a counter. With few buckets chance
//! weighs more, so every table gets [`SPARE_BUCKETS`] on top.
//!
//! A known key costs mostly one bucket: new keys go to their first one while it has more than [`SPARE`](Bucket::SPARE)
//! slots free. With two choices from the start a sixth less memory would do, and half of all decisions would wait for a
//! second cache miss.
//!
//! A bucket has two halves, of one line each under one rate and of two under more, and a key prefers one of them. When all
//! keys of a capacity are alive, six in seven lie in the half where their search begins, one in eleven in the same half of
//! its second bucket, one in twenty-five in the other half of its first: those two are asked for [ahead](crate::prefetch). All
//! tags of both buckets are compared before a key counts as unknown, so that the order in which slots were filled decides
//! about time and nothing else. Alignment to 128 bytes, which every [`Region`] has, keeps halves apart.

use crate::capacity::Capacity;
use crate::prefetch::ahead;
use crate::rate::MAX_RATES;
use crate::region::Region;
use crate::sync::{AtomicU64, Ordering};

use super::tag::{SlotOwner, Tag};

/// Words of two cache lines of 64 bytes.
#[cfg(not(loom))]
const PAIR_WORDS: usize = 16;
/// Two slots a bucket of one rate and three of two rates: loom's time grows with every word that is looked at.
#[cfg(loom)]
const PAIR_WORDS: usize = 6;
/// Buckets that a table has beyond what its load asks for: a simulation of tables for up to 64 keys keeps all but 1 key
/// of 10^6 apart.
const SPARE_BUCKETS: u64 = 8;
/// Most slots of a bucket, whatever the number of rates.
pub(super) const MOST_SLOTS: usize = 9;

/// The memory of a table: a fixed number of buckets of K rates, and behind them the words of its
/// [filter](super::overflow_filter), in one run of words of which zero means unused.
pub(super) struct TableMemory<const K: usize> {
    region: Region,
    buckets: usize,
}

impl<const K: usize> TableMemory<K> {
    /// Buckets for a capacity, at the load that keeps its keys apart.
    pub(super) fn buckets_for(capacity: Capacity) -> u64 {
        let slots = (capacity.keys() * 100).div_ceil(Bucket::<K>::LOAD_PERCENT);
        slots.div_ceil(Bucket::<K>::SLOTS as u64) + SPARE_BUCKETS
    }

    /// Memory of the buckets for a capacity.
    pub(super) fn bytes_for(capacity: Capacity) -> u64 {
        Self::buckets_for(capacity) * (Bucket::<K>::WORDS * size_of::<u64>()) as u64
    }

    /// Memory of `buckets` buckets, at least one, and a filter of so many words, of this process alone.
    pub(super) fn new(buckets: usize, filter_words: usize) -> Self {
        let words = Self::words_of(buckets).saturating_add(filter_words);
        Self::within(Region::owned(words), filter_words)
    }

    /// Words of `buckets` buckets, at least one.
    pub(super) fn words_of(buckets: usize) -> usize {
        buckets.max(1).saturating_mul(Bucket::<K>::WORDS)
    }

    /// Lays out as many buckets as fit into a region beside a filter of so many words.
    pub(super) fn within(region: Region, filter_words: usize) -> Self {
        let buckets = region.len().saturating_sub(filter_words) / Bucket::<K>::WORDS;
        Self { region, buckets }
    }

    /// The words behind the buckets.
    pub(super) fn filter(&self) -> &[AtomicU64] {
        &self.region[self.buckets * Bucket::<K>::WORDS..]
    }

    pub(super) fn buckets(&self) -> usize {
        self.buckets
    }

    pub(super) fn slots(&self) -> usize {
        self.buckets * Bucket::<K>::SLOTS
    }

    /// All words, bucket after bucket, then the filter's.
    #[cfg(all(test, not(loom)))]
    pub(super) fn words(&self) -> &[AtomicU64] {
        &self.region
    }

    /// The words of all buckets.
    #[cfg(all(test, not(loom)))]
    pub(super) fn buckets_words(&self) -> &[AtomicU64] {
        &self.region[..self.buckets * Bucket::<K>::WORDS]
    }

    pub(super) fn bytes(&self) -> usize {
        self.region.bytes()
    }

    /// The bucket at `index`, below [`buckets`](Self::buckets).
    #[inline]
    pub(super) fn bucket(&self, index: usize) -> Bucket<'_, K> {
        let first = index * Bucket::<K>::WORDS;
        Bucket {
            words: self.region.run(first, Bucket::<K>::WORDS),
        }
    }

    /// The two buckets that a key may live in; the first has the lock that its new keys take.
    ///
    /// They follow from the tag alone, so that a table can be rebuilt from its slots. They may be one and the same:
    /// rarely, unless the table is tiny.
    #[inline]
    pub(super) fn candidate_buckets(&self, tag: Tag) -> [usize; 2] {
        tag.points().map(|point| scale(point, self.buckets))
    }

    /// The buckets of `candidate_buckets`, each once, with their place among the two.
    #[inline]
    pub(super) fn distinct(
        candidate_buckets: [usize; 2],
    ) -> impl Iterator<Item = (usize, usize)> + Clone {
        let count = if candidate_buckets[0] == candidate_buckets[1] {
            1
        } else {
            2
        };
        candidate_buckets.into_iter().take(count).enumerate()
    }
}

/// The part of `0..n` that `point` lies in when all 2^64 points are dealt out evenly, for any n.
#[inline]
pub(crate) fn scale(point: u64, n: usize) -> usize {
    // The product is below n · 2^64, so the quotient is below n.
    ((u128::from(point) * n as u128) >> 64) as usize
}

/// The buckets of a table with `others` that take keys from the part of the hashes that bucket `bucket_index` of `buckets` has.
pub(crate) fn overlapping(
    bucket_index: usize,
    buckets: usize,
    others: usize,
) -> std::ops::Range<usize> {
    let point = |bucket_index: usize| bucket_index as u128 * others as u128;
    let first = point(bucket_index) / buckets as u128;
    let end = point(bucket_index + 1).div_ceil(buckets as u128);
    // Both at most `others`.
    first as usize..end as usize
}

/// One half of a bucket, by its first slot and its last.
#[derive(Clone, Copy)]
pub(super) struct BucketHalf {
    first: usize,
    last: usize,
}

impl BucketHalf {
    /// The slots of the half, in the order in which a new key takes them: as they are looked at.
    #[inline(always)]
    pub(super) fn slots(self) -> std::ops::RangeInclusive<usize> {
        self.first..=self.last
    }
}

/// The result of searching one half of a bucket.
#[derive(Clone, Copy)]
pub(super) struct HalfSearch {
    /// The slot of the key.
    pub(super) slot: Option<usize>,
    /// Tells if a slot in this half is changing hands.
    pub(super) hides: bool,
}

/// One bucket.
#[derive(Clone, Copy)]
pub(super) struct Bucket<'t, const K: usize> {
    words: &'t [AtomicU64],
}

impl<'t, const K: usize> Bucket<'t, K> {
    /// All buckets of a run of words, which has nothing behind them.
    #[cfg(any(test, feature = "mmap"))]
    pub(super) fn all(words: &'t [AtomicU64]) -> impl Iterator<Item = Self> {
        words.chunks_exact(Self::WORDS).map(|words| Self { words })
    }

    const WORDS: usize = if K == 1 { PAIR_WORDS } else { 2 * PAIR_WORDS };
    const FIRST_OVERFLOW: usize = 1;
    const FIRST_SLOT: usize = Self::FIRST_OVERFLOW + K;
    const SLOT_WORDS: usize = 1 + K;

    /// Keys that have a slot of their own.
    pub(super) const SLOTS: usize = (Self::WORDS - Self::FIRST_SLOT) / Self::SLOT_WORDS;

    /// Free slots that new keys leave in their first bucket when the second has more.
    pub(super) const SPARE: usize = 2;

    const RATES_KNOWN: () = assert!(K >= 1 && K <= MAX_RATES && Self::SLOTS <= MOST_SLOTS);

    /// Keys per hundred slots; see the table above.
    const LOAD_PERCENT: u64 = match K {
        1 | 3 => 60,
        2 => 66,
        _ => 52,
    };

    /// Slots of the first half: with the words before them they fill the first line, or pair of lines.
    const CUT: usize = Self::SLOTS / 2;

    /// The halves of a bucket; the first is where `tag` is looked for first.
    #[inline(always)]
    pub(super) fn halves(tag: Tag) -> [BucketHalf; 2] {
        // By multiplication: which half it is, no processor guesses, and a jump would have it guess.
        let half = |side: usize| BucketHalf {
            first: side * Self::CUT,
            // Saturating for buckets of one slot, as loom has them: both halves are that slot then.
            last: (Self::CUT + side * (Self::SLOTS - Self::CUT)).saturating_sub(1),
        };
        let side = tag.lot() as usize & 1;
        [half(side), half(side ^ 1)]
    }

    /// Says that this half may be looked at soon; under more than one rate it is two lines.
    #[inline(always)]
    pub(super) fn ahead(&self, half: BucketHalf) {
        ahead(self.tag(half.first));
        if K > 1 {
            ahead(self.tag(half.last));
        }
    }

    /// Looks for `tag` in a half.
    #[inline(always)]
    pub(super) fn search(&self, half: BucketHalf, tag: Tag) -> HalfSearch {
        // All of them, and no branch before the last: where a key sits in its half is a coin that no processor guesses,
        // and a wrong guess costs more than the comparisons.
        let mut at = usize::MAX;
        let mut joined = 0;
        for step in 0..Self::SLOTS - Self::CUT {
            // The second half may have one slot more; then the last one of the first is looked at twice, but not by loom, to
            // which every load is a point to explore.
            if cfg!(loom) && half.first + step > half.last {
                break;
            }
            let slot = if step < Self::CUT {
                half.first + step
            } else {
                half.last
            };
            // Acquire: pairs with the claim's release of the tag, so that its words are seen.
            let bits = self.tag(slot).load(Ordering::Acquire);
            at = if bits == tag.bits() { slot } else { at };
            joined |= bits;
        }
        HalfSearch {
            slot: (at < Self::SLOTS).then_some(at),
            hides: SlotOwner::hides(joined),
        }
    }

    #[inline]
    fn word(&self, index: usize) -> &'t AtomicU64 {
        const { Self::RATES_KNOWN };
        &self.words[index]
    }

    /// Held by the new key that may seat keys whose first bucket this is; 0 is free.
    pub(super) fn lock(&self) -> &'t AtomicU64 {
        self.word(0)
    }

    /// The overflow word of rate `rate`: the count of new keys without a slot.
    pub(super) fn overflow(&self, rate: usize) -> &'t AtomicU64 {
        self.word(Self::FIRST_OVERFLOW + rate)
    }

    /// The tag word of a slot: the key that the slot belongs to.
    #[inline]
    pub(super) fn tag(&self, slot: usize) -> &'t AtomicU64 {
        self.word(Self::FIRST_SLOT + slot * Self::SLOT_WORDS)
    }

    /// The state word of rate `rate` of that key.
    #[inline]
    pub(super) fn state(&self, slot: usize, rate: usize) -> &'t AtomicU64 {
        self.word(Self::FIRST_SLOT + slot * Self::SLOT_WORDS + 1 + rate)
    }
}

#[cfg(test)]
mod tests {
    use super::overlapping;

    /// Goal: no old bucket is forgotten, whatever the sizes. Method: every pair of sizes up to 40, ends against
    /// neighbors.
    #[test]
    fn parts_of_the_hashes_cover_each_other() {
        const MOST: usize = if cfg!(miri) { 8 } else { 40 };
        for buckets in 1..MOST {
            for others in 1..MOST {
                assert_eq!(overlapping(0, buckets, others).start, 0);
                assert_eq!(overlapping(buckets - 1, buckets, others).end, others);
                for bucket_index in 1..buckets {
                    let before = overlapping(bucket_index - 1, buckets, others);
                    let here = overlapping(bucket_index, buckets, others);
                    assert!(
                        here.start <= before.end
                            && here.start + 1 >= before.end
                            && !here.is_empty()
                    );
                }
            }
        }
    }
}
