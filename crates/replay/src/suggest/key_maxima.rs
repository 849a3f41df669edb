//! Counts the most requests of each key in any window of several lengths.
//!
//! Windows may begin in any second. A key keeps the seconds in which it asked, with counts, as long as the longest window reaches back.
//! Each window has a place in that queue and a sum, so each second of a key is added and removed once a window, and memory is that of one
//! day of the log at most.

use std::collections::VecDeque;

use ahash::AHashMap;

use super::numbers::KeyUses;

/// The lengths of the windows, in seconds.
pub(super) const PERIODS: [u64; 5] = [10, 60, 600, 3_600, 86_400];

/// Keys that are counted, of all limits together; later ones are left out.
const MAX_KEYS: usize = 1_000_000;

/// The maxima of all keys.
#[derive(Debug)]
pub(super) struct KeyMaxima {
    keys: AHashMap<u64, KeyWindows>,
    most_keys: usize,
    /// Requests of keys that are left out.
    pub(super) left_out: u64,
}

/// The windows of one key that end now.
#[derive(Debug)]
struct KeyWindows {
    /// Seconds with the requests in each, those of the longest window.
    seconds: VecDeque<(u64, u32)>,
    /// Seconds that were removed from the queue.
    removed: u64,
    windows: [SlidingCount; PERIODS.len()],
    requests: u64,
    values: Box<str>,
}

/// A request in a second, and the number of requests that it counts as.
#[derive(Clone, Copy, Debug)]
pub(super) struct HitsAt {
    pub(super) second: u64,
    pub(super) hits: u32,
}

/// The count of one window.
#[derive(Clone, Copy, Debug, Default)]
struct SlidingCount {
    /// Seconds before this one are not in the window; counts those that were removed from the queue too.
    from: u64,
    sum: u32,
    most: u32,
}

impl KeyMaxima {
    /// Returns the maxima of one of so many limits, which share the room for keys.
    pub(super) fn of_one_in(limits: usize) -> Self {
        Self {
            keys: AHashMap::new(),
            most_keys: MAX_KEYS / limits.max(1),
            left_out: 0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Adds a request of `key` that counts as `hits`; seconds do not go back. Returns false where the key is left out.
    pub(super) fn add(&mut self, key: u64, hits: HitsAt, values: impl FnOnce() -> String) -> bool {
        if self.keys.len() >= self.most_keys && !self.keys.contains_key(&key) {
            self.left_out += 1;
            return false;
        }
        let windows = self.keys.entry(key).or_insert_with(|| KeyWindows {
            seconds: VecDeque::new(),
            removed: 0,
            windows: Default::default(),
            requests: 0,
            values: values().into(),
        });
        windows.add(hits);
        true
    }

    /// Returns the maxima of all keys in the window at this index of [`PERIODS`].
    pub(super) fn uses(&self, period: usize) -> KeyUses {
        let windows = self.keys.values().filter_map(|key| key.windows.get(period));
        KeyUses::new(windows.map(|window| (window.most, 1)).collect())
    }

    /// Returns the keys with the largest maxima in the window at this index: values, maximum, and all requests.
    pub(super) fn largest(&self, period: usize, keys: usize) -> Vec<(String, u32, u64)> {
        let mut all: Vec<_> = self.keys.iter().collect();
        let most = |key: &KeyWindows| key.windows.get(period).map_or(0, |window| window.most);
        all.sort_unstable_by_key(|(hash, key)| (u32::MAX - most(key), **hash));
        let largest = all.into_iter().take(keys);
        let shown = |hash: u64, values: &str| match values {
            "" => format!("{hash:016x}"),
            values => values.to_owned(),
        };
        largest
            .map(|(hash, key)| (shown(*hash, &key.values), most(key), key.requests))
            .collect()
    }
}

impl KeyWindows {
    fn add(&mut self, HitsAt { second, hits }: HitsAt) {
        self.requests += 1;
        match self.seconds.back_mut() {
            Some((last, count)) if *last == second => *count = count.saturating_add(hits),
            _ => self.seconds.push_back((second, hits)),
        }
        for (window, period) in self.windows.iter_mut().zip(PERIODS) {
            window.sum = window.sum.saturating_add(hits);
            while let Some((oldest, count)) = usize::try_from(window.from - self.removed)
                .ok()
                .and_then(|at| self.seconds.get(at))
            {
                // A window of ten seconds that ends now has this second and nine before.
                if oldest + period > second {
                    break;
                }
                window.sum = window.sum.saturating_sub(*count);
                window.from += 1;
            }
            window.most = window.most.max(window.sum);
        }
        let oldest = self
            .windows
            .iter()
            .map(|window| window.from)
            .min()
            .unwrap_or(self.removed);
        while self.removed < oldest && self.seconds.pop_front().is_some() {
            self.removed += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Goal: the maximum is that over all windows. Method: any steps of seconds with requests that count as several, against a count
        /// that goes through all of them.
        #[test]
        fn maxima_are_those_of_every_window(steps in proptest::collection::vec((0_u64..90, 1_u32..4), 1..120)) {
            let mut maxima = KeyMaxima::of_one_in(1);
            let mut seconds = Vec::new();
            let mut now = 1_795_245_000;
            for (step, hits) in steps {
                now += if step > 40 { step * step } else { step / 8 };
                seconds.push((now, hits));
                maxima.add(7, HitsAt { second: now, hits }, String::new);
            }
            for (index, period) in PERIODS.into_iter().enumerate() {
                let in_window = |end: u64| {
                    let within = seconds.iter().filter(|(at, _)| *at <= end && *at + period > end);
                    within.map(|(_, hits)| *hits).sum::<u32>()
                };
                let expected = seconds.iter().map(|(end, _)| in_window(*end)).max();
                prop_assert_eq!(maxima.uses(index).max(), expected.unwrap());
            }
        }
    }
}
