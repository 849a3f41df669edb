//! Owns the keys that were seen within a [`USAGE_GENERATION`](sluicegate_base::bounds::USAGE_GENERATION): a fair sample of all, and of each
//! rate the heaviest.

use std::time::Duration;

use sluicegate_base::usage_share::UsageShare;
use sluicegate_limiter::{KeyPeak, Timestamp};

use super::heaviest_keys::HeaviestKeys;
use super::key_sample::{KeySample, SHARED, SHARED_LIMIT, Units};

/// The keys that were seen within a time.
#[derive(Clone, Debug)]
pub(super) struct Generation {
    /// Its begin, in the time of the table.
    pub(super) begun: Timestamp,
    /// A fair sample of all keys.
    pub(super) sample: KeySample,
    /// The keys with the largest uses of each rate.
    pub(super) heaviest: Vec<HeaviestKeys>,
    /// The longest time between two looks at the table.
    pub(super) longest_gap: Duration,
}

impl Generation {
    /// Has no key of a table of so many rates yet.
    pub(super) fn new(rates: usize, share: UsageShare, begun: Timestamp) -> Self {
        Self {
            begun,
            sample: KeySample::new(share.keys),
            heaviest: vec![HeaviestKeys::new(share.heaviest); rates],
            longest_gap: Duration::ZERO,
        }
    }

    /// Sets how many keys it may have.
    pub(super) fn bound(&mut self, share: UsageShare) {
        self.sample.bound(share.keys);
        for heaviest in &mut self.heaviest {
            heaviest.bound(share.heaviest);
        }
    }

    /// Adds a use of a key that belongs to the fair sample. `room` is what a key may use at once.
    pub(super) fn add(&mut self, peak: &KeyPeak, room: &Units) {
        let units = match peak.is_shared {
            true => std::array::from_fn(|rate| shared_units(peak.units[rate], room[rate])),
            false => peak.units,
        };
        self.sample.add(peak.key, &units);
        self.add_heavy(peak);
    }

    /// Adds a use of a key of which only a large use is kept.
    pub(super) fn add_heavy(&mut self, peak: &KeyPeak) {
        for (heaviest, used) in self.heaviest.iter_mut().zip(peak.units) {
            let own = if peak.is_shared { used.min(1) } else { used };
            heaviest.add(peak.key, own);
        }
    }

    /// Adds the keys of the generation before.
    pub(super) fn merge(&mut self, previous: &Self) {
        self.begun = previous.begun;
        self.sample.merge(&previous.sample);
        for (heaviest, before) in self.heaviest.iter_mut().zip(&previous.heaviest) {
            heaviest.merge(before);
        }
        self.longest_gap = self.longest_gap.max(previous.longest_gap);
    }
}

/// Returns the units that a key which shared counters surely used itself: one, whatever they count. The marks say what is not known.
fn shared_units(used: u32, room: u32) -> u32 {
    match used {
        0 => 0,
        used if used < room => SHARED | 1,
        _ => SHARED | SHARED_LIMIT | 1,
    }
}
