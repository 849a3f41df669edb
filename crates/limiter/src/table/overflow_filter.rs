//! Remembers which keys were counted in overflow: a Bloom filter of their tags, whose entries expire.
//!
//! Overflow words have no keys. A key that gets a slot must begin with what it used in overflow, so without more it would begin
//! with all that its buckets' overflow words count, whichever key used it: one flood, and every new key is refused until the words have
//! expired, in a larger table too. The filter says which keys were in overflow. All others begin with nothing.
//!
//! It errs to one side: a key that was counted in overflow is always found as long as the charge counts, and a few that
//! were not are found too. They begin with the overflow words, as those that were.
//!
//! # The words
//! ```text
//! | everyone until | unused | pair | pair | … |      a pair: | marks | marks |      63           48 47         0
//!                                                                             | generation 16  | marks 48    |
//! ```
//! The range of all hashes is cut into as many equal parts as the pairs have marks in one of their words. A tag has two
//! [points](Tag::points), and is in the filter if the parts of both are marked. Parts follow from the tag alone, so a filter is
//! copied into one of any other size: each part that is marked marks all that overlap with it.
//!
//! Time is cut into generations as long as twice the longest period, or a minute. The marks of a word count to the end of
//! the generation that it names; even generations use the first word of a pair, odd ones the second. So when the word of a
//! generation is needed again, what it held has expired, and it is written anew. Should a charge count for longer than until
//! the end of the next generation, as large costs of a token bucket do, its mark joins the word that is there, and all marks of the
//! word count as long. Should it count for more than [`MOST_AHEAD`] generations, every key is found until then.
//!
//! Others that are found, by the keys in overflow:
//!
//! | capacity | bytes | a tenth of the capacity | half | as many | twice as many |
//! |---|---|---|---|---|---|
//! | up to 32,768 | 128 KiB | below 0.1 % | below 0.7 % | below 3 % | below 9 % |
//! | 262,144 | 896 KiB | 0.04 % | 0.8 % | 3 % | 10 % |
//! | 1,146,880 and more | 0.8 a key | 0.7 % | 12 % | 32 % | 66 % |
//!
//! # Concurrency
//! Each word is a fact by itself, changed by compare-and-swap. Marks are written after the overflow words and before their writer asks
//! whether the key has a slot, or frees the bucket's lock; the insertion of the key reads the filter behind the same fence, or lock.
//!
//! # Limits
//! Generations repeat after 65,536: after six weeks and more a word that was not written since may count again, for keys that then
//! begin with overflow words in which they never were.

use crate::capacity::Capacity;
use crate::prefetch::ahead;
use crate::rate::Period;
use crate::sync::{AtomicU64, Ordering};
use crate::time::Timestamp;

use super::layout::{overlapping, scale};
use super::tag::Tag;

/// Tells the layout of words with such a filter behind them from others. Another arrangement takes another number than 1.
#[cfg(feature = "mmap")]
pub(crate) const LAYOUT: u64 = 1 << 24;
/// Words before the pairs.
const HEADER_WORDS: usize = 2;
/// Marks of a word.
const MARKS: usize = 48;
const MARKS_MASK: u64 = (1 << MARKS) - 1;
/// Words of the smallest filter for more than one key, 128 KiB, since small tables meet large floods too, and of the largest with half a
/// word a key, 896 KiB: with it a table of a million keys takes no more than 32 bytes a key.
#[cfg(not(any(loom, miri)))]
const HALF_A_WORD_A_KEY: std::ops::RangeInclusive<u64> = 16_384..=114_688;
/// Loom's time grows with every word, Miri's too.
#[cfg(any(loom, miri))]
const HALF_A_WORD_A_KEY: std::ops::RangeInclusive<u64> = 4..=4;
/// Keys of a word in the filters of larger tables.
const KEYS_A_WORD: u64 = 10;
/// Generations that a word may be ahead of now.
const MOST_AHEAD: u16 = 1000;
/// Shortest generation, in seconds.
const LEAST_SECONDS: u64 = 60;

/// Words of the filter of a table for this capacity; for none, as many as for the least of several keys.
pub(crate) fn words_for(capacity: Option<Capacity>) -> usize {
    let keys = capacity.map_or(0, Capacity::keys);
    if keys == 1 {
        // One key, as of a limit on all requests together: it has a slot.
        return HEADER_WORDS + 2;
    }
    let half = (keys / 2).clamp(*HALF_A_WORD_A_KEY.start(), *HALF_A_WORD_A_KEY.end());
    // Whole pairs. A capacity has at most 2^30 keys.
    let words = half.max(keys / KEYS_A_WORD).next_multiple_of(2);
    usize::try_from(words).unwrap_or(usize::MAX)
}

/// The filter in these words, for a limit with this longest period.
#[derive(Clone, Copy)]
pub(crate) struct OverflowFilter<'t> {
    words: &'t [AtomicU64],
    seconds: u64,
}

impl<'t> OverflowFilter<'t> {
    /// The filter in as many words as [`words_for`] says.
    pub(crate) fn new(words: &'t [AtomicU64], longest: Period) -> Self {
        let seconds = (2 * u64::from(longest.as_secs())).max(LEAST_SECONDS);
        Self { words, seconds }
    }

    /// Returns whether a key was counted in overflow with charges that may still count; for some keys that were not,
    /// too.
    pub(crate) fn contains(&self, tag: Tag, now: Timestamp) -> bool {
        let stamp = self.generation(now) as u16;
        // SeqCst, here and below: what the copy to a successor misses is told to it (`limit::edit`).
        now.as_secs() < self.words[0].load(Ordering::SeqCst)
            || self.parts_of(tag).all(|part| self.is_marked(part, stamp))
    }

    /// Returns whether a charge of a key at this time may count what others used: the key was counted in overflow less than a generation
    /// before, so that the slot that it has begun with shared counts, or may have.
    pub(crate) fn contained(&self, tag: Tag, charged: Timestamp) -> bool {
        let before = charged.saturating_sub(std::time::Duration::from_secs(self.seconds));
        self.contains(tag, before)
    }

    /// Asks for the first of `words` that [`contains`](Self::contains) reads for this key: in most filters it is not marked, and no other
    /// is read.
    pub(crate) fn ahead(words: &'t [AtomicU64], tag: Tag) {
        let parts = (words.len() - HEADER_WORDS) / 2 * MARKS;
        let [point, _] = tag.points();
        ahead(&words[HEADER_WORDS + scale(point, parts) / MARKS * 2]);
    }

    /// Finds this key until then.
    pub(crate) fn insert(&self, tag: Tag, now: Timestamp, until: Timestamp) {
        if self.is_too_far(now, until) {
            return self.insert_all(until);
        }
        for part in self.parts_of(tag) {
            self.mark(part, now, until);
        }
    }

    /// Finds every key until then.
    pub(crate) fn insert_all(&self, until: Timestamp) {
        // The end of a second that has begun.
        let end = until.as_secs().saturating_add(1);
        self.words[0].fetch_max(end, Ordering::SeqCst);
    }

    /// Finds in `new` whatever is found here, for as long as here and until then at least.
    pub(crate) fn copy_into(&self, new: &OverflowFilter<'_>, now: Timestamp, until: Timestamp) {
        let everyone = self.words[0].load(Ordering::SeqCst);
        if now.as_secs() < everyone {
            new.insert_all(until.max(Timestamp::from_secs(everyone)));
        }
        let generation = self.generation(now);
        for (index, word) in self.words[HEADER_WORDS..].iter().enumerate() {
            let word = word.load(Ordering::SeqCst);
            let ahead = stamp_of(word).wrapping_sub(generation as u16);
            if ahead > MOST_AHEAD || word & MARKS_MASK == 0 {
                continue;
            }
            // The last second of the generation.
            let end = (generation + u64::from(ahead) + 1) * self.seconds - 1;
            let until = until.max(Timestamp::from_secs(end));
            if new.is_too_far(now, until) {
                return new.insert_all(until);
            }
            for mark in (0..MARKS).filter(|mark| word >> mark & 1 != 0) {
                let part = index / 2 * MARKS + mark;
                for part in overlapping(part, self.parts(), new.parts()) {
                    new.mark(part, now, until);
                }
            }
        }
    }

    /// Estimates how many of 1000 keys are found that were never counted in overflow.
    pub(crate) fn false_positives(&self, now: Timestamp) -> u64 {
        if now.as_secs() < self.words[0].load(Ordering::Relaxed) {
            return 1000;
        }
        let stamp = self.generation(now) as u16;
        let pairs = self.words[HEADER_WORDS..].chunks_exact(2);
        let marked: u64 = pairs
            .map(|pair| u64::from(live_marks(pair, stamp, Ordering::Relaxed).count_ones()))
            .sum();
        // Both parts of a key are marked: the square of the share that is.
        let marked = u128::from(marked);
        let parts = self.parts() as u128;
        (1000 * marked * marked).div_ceil(parts * parts) as u64
    }

    fn parts(&self) -> usize {
        (self.words.len() - HEADER_WORDS) / 2 * MARKS
    }

    fn parts_of(&self, tag: Tag) -> impl Iterator<Item = usize> {
        let parts = self.parts();
        tag.points()
            .into_iter()
            .map(move |point| scale(point, parts))
    }

    fn generation(&self, at: Timestamp) -> u64 {
        at.as_secs() / self.seconds
    }

    fn is_too_far(&self, now: Timestamp, until: Timestamp) -> bool {
        self.generation(until).saturating_sub(self.generation(now)) > u64::from(MOST_AHEAD)
    }

    fn pair(&self, part: usize) -> &[AtomicU64] {
        let first = HEADER_WORDS + part / MARKS * 2;
        &self.words[first..first + 2]
    }

    fn is_marked(&self, part: usize, now: u16) -> bool {
        live_marks(self.pair(part), now, Ordering::SeqCst) >> (part % MARKS) & 1 != 0
    }

    /// Marks a part until then, at most [`MOST_AHEAD`] generations from now.
    fn mark(&self, part: usize, now: Timestamp, until: Timestamp) {
        let now = self.generation(now);
        let end = self.generation(until);
        let end = end.max(now);
        let word = &self.pair(part)[(end & 1) as usize];
        let mut seen = word.load(Ordering::SeqCst);
        // Lock-free: another round means that another thread changed the word.
        loop {
            let next = marked(seen, part % MARKS, now as u16, end as u16);
            if next == seen {
                return;
            }
            match word.compare_exchange(seen, next, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => return,
                Err(other) => seen = other,
            }
        }
    }
}

/// The generation to whose end the marks of a word count.
fn stamp_of(word: u64) -> u16 {
    (word >> MARKS) as u16
}

fn is_live(stamp: u16, now: u16) -> bool {
    stamp.wrapping_sub(now) <= MOST_AHEAD
}

/// The marks of a pair that count in the generation `now`.
fn live_marks(pair: &[AtomicU64], now: u16, ordering: Ordering) -> u64 {
    pair.iter()
        .map(|word| word.load(ordering))
        .filter(|word| is_live(stamp_of(*word), now))
        .fold(0, |marks, word| marks | word & MARKS_MASK)
}

/// A word with this mark, which counts to the end of the generation `end`.
fn marked(word: u64, mark: usize, now: u16, end: u16) -> u64 {
    let stamp = stamp_of(word);
    let (stamp, marks) = if !is_live(stamp, now) {
        (end, 0)
    } else if stamp.wrapping_sub(now) < end.wrapping_sub(now) {
        // What the word has still counts: it joins.
        (end, word & MARKS_MASK)
    } else {
        (stamp, word & MARKS_MASK)
    };
    u64::from(stamp) << MARKS | marks | 1 << mark
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::key::KeyHash;

    const NOW: Timestamp = Timestamp::from_secs(1_800_000_000);

    struct Owned {
        words: Vec<AtomicU64>,
        period: Period,
    }

    impl Owned {
        fn new(words: usize, seconds: u64) -> Self {
            Self {
                words: (0..words).map(|_| AtomicU64::new(0)).collect(),
                period: Period::from_secs(seconds as u32).expect("a period"),
            }
        }

        fn filter(&self) -> OverflowFilter<'_> {
            OverflowFilter::new(&self.words, self.period)
        }
    }

    fn tag(number: u64) -> Tag {
        let seed = crate::key::Seed::from_bytes([5; 16]);
        let mut hasher = seed.hasher();
        let hash: KeyHash = hasher.part(&number.to_le_bytes()).finish();
        Tag::new(hash)
    }

    fn after(seconds: u64) -> Timestamp {
        Timestamp::from_secs(NOW.as_secs() + seconds)
    }

    /// A change to a filter at a moment.
    #[derive(Clone, Debug)]
    enum Step {
        Insert { key: u64, lasts: u64 },
        InsertAll { lasts: u64 },
        CopyInto { words: usize, period: u64 },
    }

    fn any_step() -> impl Strategy<Value = (u64, Step)> {
        let lasts = || prop_oneof![0..200_u64, 0..20_000_u64, 0..2_000_000_u64];
        let step = prop_oneof![
            20 => (0..500_u64, lasts()).prop_map(|(key, lasts)| Step::Insert { key, lasts }),
            1 => (0..100_u64).prop_map(|lasts| Step::InsertAll { lasts }),
            1 => (2..300_usize, 1..100_000_u64)
                .prop_map(|(pairs, period)| Step::CopyInto { words: 2 * pairs, period }),
        ];
        (prop_oneof![Just(0), 0..100_u64, 0..10_000_u64], step)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 3 } else { 300 }))]

        /// Goal: a key is found for as long as it was to be. Method: keys for times of all lengths, copies into filters of other sizes
        /// and periods, and a map that knows.
        #[test]
        fn what_was_inserted_is_found_until_then(
            words in (2..300_usize).prop_map(|pairs| 2 * pairs),
            period in 1..100_000_u64,
            steps in proptest::collection::vec(any_step(), 1..150),
        ) {
            let mut owned = Owned::new(words, period);
            let mut until = std::collections::HashMap::new();
            let mut everyone = 0;
            let mut now = 0;
            for (wait, step) in steps {
                now += wait;
                match step {
                    Step::Insert { key, lasts } => {
                        owned.filter().insert(tag(key), after(now), after(now + lasts));
                        let end = until.entry(key).or_insert(0);
                        *end = (now + lasts).max(*end);
                    }
                    Step::InsertAll { lasts } => {
                        owned.filter().insert_all(after(now + lasts));
                        everyone = everyone.max(now + lasts);
                    }
                    Step::CopyInto { words, period } => {
                        let copy = Owned::new(words, period);
                        owned.filter().copy_into(&copy.filter(), after(now), after(now));
                        owned = copy;
                    }
                }
                for key in 0..500 {
                    let end = until.get(&key).copied().unwrap_or(0).max(everyone);
                    let found = owned.filter().contains(tag(key), after(now));
                    prop_assert!(found || now > end || end == 0, "{key} at {now} of {end}");
                }
            }
        }
    }

    /// Goal: few others are found, and what was inserted expires. Method: floods beside the size of a filter of the default capacity; the
    /// part of others that is found, counted and as estimated, now and two generations later, and in a copy of twice the size.
    #[test]
    #[cfg(not(miri))]
    fn few_others_are_found_and_none_in_the_end() {
        let owned = Owned::new(words_for(Some(Capacity::DEFAULT)), 3_600);
        let filter = owned.filter();
        let found = |filter: &OverflowFilter<'_>, now| {
            let others = (1_u64 << 32..).take(20_000);
            others
                .filter(|other| filter.contains(tag(*other), now))
                .count()
        };
        assert_eq!((found(&filter, NOW), filter.false_positives(NOW)), (0, 0));
        let mut inserted = 0;
        for (keys, most) in [
            (26_214, 30),
            (131_072, 300),
            (262_144, 900),
            (524_288, 2_600),
        ] {
            for key in inserted..keys {
                filter.insert(tag(key), NOW, after(7_200));
            }
            inserted = keys;
            let others = found(&filter, NOW);
            assert!(others <= most, "{others} of 20,000 beside {keys}");
            let estimate = filter.false_positives(NOW) as usize * 20;
            assert!(others.abs_diff(estimate) < 200, "{others}, {estimate}");
        }
        let larger = Owned::new(words_for(Some(Capacity::MAX)) / 128, 3_600);
        filter.copy_into(&larger.filter(), NOW, NOW);
        assert!(found(&larger.filter(), NOW) <= 2_600);
        for filter in [&filter, &larger.filter()] {
            assert_eq!(found(filter, after(2 * 7_200 + 1)), 0);
        }
    }

    /// Goal: generations wrap as they must. Method: a mark just before the number of generations wraps, read after it.
    #[test]
    fn a_mark_outlasts_the_wrap_of_its_generation() {
        let owned = Owned::new(4, 1_800);
        let wrap = Timestamp::from_secs(3_600 * 65_536 * 8);
        let before = wrap.saturating_sub(std::time::Duration::from_secs(10));
        owned.filter().insert(tag(1), before, wrap);
        assert!(owned.filter().contains(tag(1), wrap));
        let later = wrap.saturating_add(std::time::Duration::from_secs(3_600));
        assert!(!owned.filter().contains(tag(1), later));
    }

    /// Goal: no words make a filter panic, and what is inserted into them is found. Method: all bits set, and a pattern.
    #[test]
    fn damaged_words_do_no_harm_but_to_others() {
        for bits in [u64::MAX, 0x5555_aaaa_0123_4567] {
            let owned = Owned::new(64, 60);
            owned
                .words
                .iter()
                .for_each(|word| word.store(bits, Ordering::Relaxed));
            let copy = Owned::new(32, 3_600);
            for key in 0..100 {
                owned.filter().insert(tag(key), NOW, after(60));
                owned.filter().copy_into(&copy.filter(), NOW, NOW);
                for filter in [owned.filter(), copy.filter()] {
                    assert!(filter.contains(tag(key), after(60)));
                    assert!(filter.false_positives(NOW) <= 1000);
                }
            }
        }
    }
}
