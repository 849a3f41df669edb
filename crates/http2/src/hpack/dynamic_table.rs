//! Owns a dynamic table, RFC 7541 §2.3.2 and §4: the fields that a block may refer to since an earlier one had them.
//!
//! The text of all entries lies in one buffer, in the order in which they were added, so that adding and evicting moves no text. Text of
//! evicted entries is dropped when it is more than that of the others.

use std::collections::VecDeque;

/// Bytes that each entry counts beside its text, RFC 7541 §4.1.
pub(super) const ENTRY_OVERHEAD: usize = 32;
/// Bytes of evicted text that are kept in any case.
const EVICTED_TEXT: usize = 1024;

/// The table of one direction of a connection. It takes memory when its first entry is added.
#[derive(Debug)]
pub(super) struct DynamicTable {
    /// The oldest entry first.
    entries: VecDeque<TableEntry>,
    text: Vec<u8>,
    size: usize,
    max_size: usize,
}

/// The place of an entry's text.
#[derive(Clone, Copy, Debug)]
struct TableEntry {
    start: u32,
    name: u32,
    value: u32,
}

impl TableEntry {
    fn size(self) -> usize {
        (self.name + self.value) as usize + ENTRY_OVERHEAD
    }
}

impl DynamicTable {
    /// Returns an empty table of at most so many bytes, as RFC 7541 §4.1 counts them. Sizes are below 4 GiB.
    pub(super) fn new(max_size: usize) -> Self {
        Self {
            entries: VecDeque::new(),
            text: Vec::new(),
            size: 0,
            max_size,
        }
    }

    /// Returns the maximum size.
    pub(super) fn max_size(&self) -> usize {
        self.max_size
    }

    /// Returns the number of entries.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Changes the maximum size, and evicts what is beyond it, RFC 7541 §4.3.
    pub(super) fn resize(&mut self, max_size: usize) {
        self.max_size = max_size;
        self.evict(max_size);
    }

    /// Returns name and value of an entry: 0 is the newest one.
    #[inline]
    pub(super) fn get(&self, index: usize) -> Option<(&[u8], &[u8])> {
        let place = self.entries.len().checked_sub(index + 1)?;
        let entry = self.entries.get(place)?;
        let start = entry.start as usize;
        let middle = start + entry.name as usize;
        let end = middle + entry.value as usize;
        Some((self.text.get(start..middle)?, self.text.get(middle..end)?))
    }

    /// Adds an entry, in place of older ones where there is no room, RFC 7541 §4.4. One that is larger than the table leaves it empty.
    pub(super) fn insert(&mut self, name: &[u8], value: &[u8]) {
        let entry = name.len() + value.len() + ENTRY_OVERHEAD;
        let Some(rest) = self.max_size.checked_sub(entry) else {
            self.evict(0);
            return;
        };
        self.evict(rest);
        self.drop_evicted_text();
        // The text is at most twice as large as the table, and a bit.
        let start = self.text.len() as u32;
        self.text.extend_from_slice(name);
        self.text.extend_from_slice(value);
        self.entries.push_back(TableEntry {
            start,
            name: name.len() as u32,
            value: value.len() as u32,
        });
        self.size += entry;
    }

    /// Evicts the oldest entries until the others have at most this size.
    fn evict(&mut self, size: usize) {
        while self.size > size
            && let Some(entry) = self.entries.pop_front()
        {
            self.size -= entry.size();
        }
        if self.entries.is_empty() {
            self.text.clear();
        }
    }

    fn drop_evicted_text(&mut self) {
        let Some(oldest) = self.entries.front() else {
            return;
        };
        let evicted = oldest.start as usize;
        if evicted <= EVICTED_TEXT || evicted * 2 <= self.text.len() {
            return;
        }
        self.text.drain(..evicted);
        for entry in &mut self.entries {
            entry.start -= evicted as u32;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Goal: the table holds the newest fields that fit. Method: any fields and sizes, beside a list of fields.
        #[test]
        fn the_table_is_a_list_of_the_newest_fields(
            steps in prop::collection::vec((0_usize..200, 0_usize..600, prop::option::weighted(0.1, 0_usize..4096)), 0..200)
        ) {
            let mut table = DynamicTable::new(4096);
            let mut model: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
            let mut max_size = 4096;
            for (step, (name, value, resized)) in steps.into_iter().enumerate() {
                if let Some(size) = resized {
                    table.resize(size);
                    max_size = size;
                } else {
                    let name = vec![step as u8; name];
                    let value = vec![!step as u8; value];
                    table.insert(&name, &value);
                    model.insert(0, (name, value));
                }
                let size = |model: &[(Vec<u8>, Vec<u8>)]| -> usize {
                    model.iter().map(|(name, value)| name.len() + value.len() + 32).sum()
                };
                while size(&model) > max_size {
                    model.pop();
                }
                prop_assert_eq!(table.len(), model.len());
                prop_assert!(table.text.len() <= 2 * 4096 + EVICTED_TEXT);
                for (index, (name, value)) in model.iter().enumerate() {
                    prop_assert_eq!(table.get(index), Some((&name[..], &value[..])));
                }
                prop_assert_eq!(table.get(model.len()), None);
            }
        }
    }
}
