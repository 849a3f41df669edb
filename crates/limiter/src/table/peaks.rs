//! Walks a table for the largest use of each key, expired ones included as long as no other key has their slot.

use arrayvec::ArrayVec;

use crate::algorithm::{RateAt, Word};
use crate::key::KeyHash;
use crate::rate::MAX_RATES;
use crate::time::Timestamp;

use super::Table;
use super::layout::Bucket;
use super::stats::SAMPLE;
use super::tag::Tag;

/// Keys that are read at one reading of the clock.
const KEYS_AT_ONCE: usize = 64;

/// The largest use of a key that its counters prove.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyPeak {
    /// The bits of the key's hash that the table holds: all but the lowest.
    pub key: KeyHash,
    /// Units under each rate, in the order of the limit's rates; 0 behind the last.
    pub units: [u32; MAX_RATES],
    /// The time of that use, or a later one where the counters do not say it.
    pub at: Timestamp,
    /// Set if other keys may have used some of the units: those that the key shared counters with while the table was full.
    pub is_shared: bool,
}

impl<const K: usize> Table<K> {
    /// Passes the peak of each key to `visit`. `rates_at` returns the rates at a time that is read when it is called: after the words of
    /// the keys. A debt at an earlier time than that of a charge would be larger than the charge. Of a large table every n-th bucket is
    /// read, from the bucket `part` modulo n on; returns n.
    pub(crate) fn peaks(
        &self,
        part: usize,
        rates_at: impl Fn() -> [RateAt; K],
        mut visit: impl FnMut(&KeyPeak),
    ) -> usize {
        let mut keys = ArrayVec::<(KeyHash, [Word; K]), KEYS_AT_ONCE>::new();
        let was_full = self.stats().overflow.is_some();
        let mut evaluate = |keys: &mut ArrayVec<_, KEYS_AT_ONCE>| {
            let rates_at = rates_at();
            let filter = self.overflow_filter(&rates_at);
            for (key, words) in keys.drain(..) {
                let mut peak = peak_of(key, words, &rates_at);
                peak.is_shared = was_full && filter.contained(Tag::new(key), peak.at);
                if peak.units != [0; MAX_RATES] {
                    visit(&peak);
                }
            }
        };
        let buckets = self.memory.buckets();
        // As in `occupancy`: any choice of buckets is a fair sample of keys.
        let step = buckets.div_ceil(SAMPLE).max(1);
        for bucket_index in (part % step..buckets).step_by(step) {
            for slot in 0..Bucket::<K>::SLOTS {
                keys.extend(self.settled(bucket_index, slot));
                if keys.is_full() {
                    evaluate(&mut keys);
                }
            }
        }
        evaluate(&mut keys);
        step
    }
}

/// Returns the peak that the words of a key prove.
fn peak_of<const K: usize>(key: KeyHash, words: [Word; K], rates_at: &[RateAt; K]) -> KeyPeak {
    let mut peak = KeyPeak {
        key,
        units: [0; MAX_RATES],
        at: Timestamp::from_nanos(0),
        is_shared: false,
    };
    for ((rate_at, word), units) in rates_at.iter().zip(words).zip(&mut peak.units) {
        if let Some(rate) = rate_at.peak(word) {
            *units = rate.units;
            peak.at = peak.at.max(rate.at);
        }
    }
    peak
}
