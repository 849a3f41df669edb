//! Counts requests and rejections of each key of one limit.

use ahash::AHashMap;

/// Keys that are counted each by itself. 1,000,000 keys take about 50 MB.
pub(super) const MAX_KEYS: usize = 1_000_000;
/// Rejected keys whose values are kept to be shown.
const MAX_VALUES: usize = 100_000;

/// The counts of one key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct KeyCount {
    /// Requests with the key that the limit decided.
    pub(super) requests: u32,
    /// Those that it rejected.
    pub(super) rejected: u32,
    /// Those that it rejected although they were answered with 2xx when they were logged.
    pub(super) answered: u32,
}

/// The counts of all keys of one limit.
#[derive(Debug, Default)]
pub(super) struct KeyCounts {
    keys: AHashMap<u64, KeyCount>,
    /// The values of keys that were rejected.
    values: AHashMap<u64, Box<str>>,
    /// Requests of keys that have no count of their own.
    pub(super) uncounted: u64,
}

impl KeyCounts {
    /// Counts a request with `key`; `values` returns the values of the key for people.
    pub(super) fn add(
        &mut self,
        key: u64,
        is_rejected: bool,
        is_answered: bool,
        values: impl FnOnce() -> String,
    ) {
        if self.keys.len() >= MAX_KEYS && !self.keys.contains_key(&key) {
            self.uncounted += 1;
            return;
        }
        let count = self.keys.entry(key).or_default();
        count.requests = count.requests.saturating_add(1);
        if !is_rejected {
            return;
        }
        count.rejected = count.rejected.saturating_add(1);
        count.answered = count.answered.saturating_add(u32::from(is_answered));
        if count.rejected == 1 && self.values.len() < MAX_VALUES {
            self.values.insert(key, values().into());
        }
    }

    /// Returns the number of keys.
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Returns the counts of a key.
    pub(super) fn get(&self, key: u64) -> KeyCount {
        self.keys.get(&key).copied().unwrap_or_default()
    }

    /// Returns each key that was rejected, in no order.
    pub(super) fn rejected(&self) -> impl Iterator<Item = (u64, KeyCount)> {
        let keys = self.keys.iter().map(|(key, count)| (*key, *count));
        keys.filter(|(_, count)| count.rejected > 0)
    }

    /// Returns the values of a key that was rejected; its hash where they are in no log.
    pub(super) fn shown(&self, key: u64) -> String {
        let values = self.values.get(&key).map(|values| values.to_string());
        let values = values.filter(|values| !values.is_empty());
        values.unwrap_or_else(|| format!("{:016x}", key & !1))
    }
}
