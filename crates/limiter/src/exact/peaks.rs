//! Walks a table of logs for the largest use of each key, as [`Table::peaks`](crate::table::Table::peaks) does.

use crate::rate::{MAX_RATES, Rates};
use crate::table::KeyPeak;
use crate::time::Timestamp;

use super::LogTable;
use super::evaluate::{LogTime, NANOS_PER_MILLI};
use super::layout::SLOTS;
use super::migrate::settled;
use super::stats::SAMPLE;

impl LogTable {
    /// Passes the use of each key right after its latest charge to `visit`. Of a large table every n-th bucket is read, from
    /// the bucket `part` modulo n on; returns n.
    pub(crate) fn peaks(
        &self,
        part: usize,
        rates: &Rates,
        mut visit: impl FnMut(&KeyPeak),
    ) -> usize {
        let was_full = self.stats().overflow.is_some();
        let filter = self.overflow_filter(rates);
        let buckets = self.memory.buckets();
        let step = buckets.div_ceil(SAMPLE).max(1);
        for bucket_index in (part % step..buckets).step_by(step) {
            for slot in bucket_index * SLOTS..(bucket_index + 1) * SLOTS {
                let (owner, found) = settled(self.memory.slot(slot), |view| {
                    let at = view.latest()?.saturating_mul(NANOS_PER_MILLI);
                    let moment = LogTime::new(Timestamp::from_nanos(at));
                    let mut units = [0; MAX_RATES];
                    for (rate, units) in rates.iter().zip(&mut units) {
                        *units = view.used(rate.period(), moment);
                    }
                    Some((units, moment.now()))
                });
                if let (Some(tag), Some((units, at))) = (owner, found) {
                    visit(&KeyPeak {
                        key: tag.key(),
                        units,
                        at,
                        is_shared: was_full && filter.contained(tag, at),
                    });
                }
            }
        }
        step
    }
}
