//! Walks a table for the largest use of each key, expired ones included as long as no other key has their slot.

use crate::algorithm::RateAt;
use crate::key::KeyHash;
use crate::rate::MAX_RATES;
use crate::time::Timestamp;

use super::Table;
use super::layout::Bucket;
use super::stats::SAMPLE;

/// The largest use of a key that its counters prove.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyPeak {
    /// The bits of the key's hash that the table holds: all but the lowest.
    pub key: KeyHash,
    /// Units under each rate, in the order of the limit's rates; 0 behind the last.
    pub units: [u32; MAX_RATES],
    /// The time of that use, or a later one where the counters do not say it.
    pub at: Timestamp,
}

impl<const K: usize> Table<K> {
    /// Passes the peak of each key to `visit`. Of a large table every n-th bucket is read; returns n.
    pub(crate) fn peaks(&self, rates_at: &[RateAt; K], mut visit: impl FnMut(&KeyPeak)) -> usize {
        let buckets = self.memory.buckets();
        // As in `occupancy`: any choice of buckets is a fair sample of keys.
        let step = buckets.div_ceil(SAMPLE).max(1);
        for bucket_index in (0..buckets).step_by(step) {
            for slot in 0..Bucket::<K>::SLOTS {
                let Some((key, words)) = self.settled(bucket_index, slot) else {
                    continue;
                };
                let mut peak = KeyPeak {
                    key,
                    units: [0; MAX_RATES],
                    at: Timestamp::from_nanos(0),
                };
                for ((rate_at, word), units) in rates_at.iter().zip(words).zip(&mut peak.units) {
                    if let Some(rate) = rate_at.peak(word) {
                        *units = rate.units;
                        peak.at = peak.at.max(rate.at);
                    }
                }
                if peak.units != [0; MAX_RATES] {
                    visit(&peak);
                }
            }
        }
        step
    }
}
