//! Owns a dynamic table, RFC 7541 §2.3.2 and §4: the fields that a block may refer to since an earlier one had them.
//!
//! Each entry is the line that its field is in a head, so that a reference to it is one copy. The lines of all entries lie in one buffer,
//! in the order in which they were added, so that adding and evicting moves no text. Lines of evicted entries are dropped when they are
//! more than the others.

use std::collections::VecDeque;

use crate::violation::RuleViolation;

/// Bytes that each entry counts beside its text, RFC 7541 §4.1.
pub(super) const ENTRY_OVERHEAD: usize = 32;
/// Bytes of evicted lines that are kept in any case.
const EVICTED_TEXT: usize = 1024;
/// The bytes between a name and its value, and behind the value.
pub(crate) const BEHIND_NAME: &[u8] = b": ";
pub(crate) const LINE_END: &[u8] = b"\r\n";

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
    violation: Option<RuleViolation>,
}

impl TableEntry {
    fn size(self) -> usize {
        (self.name + self.value) as usize + ENTRY_OVERHEAD
    }

    fn text_length(self) -> usize {
        (self.name + self.value) as usize + BEHIND_NAME.len() + LINE_END.len()
    }
}

/// The line of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TableLine<'a> {
    /// Name, colon, space, value and line end.
    pub(super) text: &'a [u8],
    pub(super) name_length: usize,
    /// The rule that the field breaks.
    pub(super) violation: Option<RuleViolation>,
}

impl<'a> TableLine<'a> {
    /// Returns the name.
    #[inline]
    pub(super) fn name(self) -> &'a [u8] {
        self.text.get(..self.name_length).unwrap_or_default()
    }

    /// Returns the value.
    #[inline]
    pub(super) fn value(self) -> &'a [u8] {
        let end = self.text.len() - LINE_END.len();
        let start = self.name_length + BEHIND_NAME.len();
        self.text.get(start..end).unwrap_or_default()
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

    /// Returns an entry: 0 is the newest one.
    #[inline]
    pub(super) fn get(&self, index: usize) -> Option<TableLine<'_>> {
        let place = self.entries.len().checked_sub(index + 1)?;
        let entry = self.entries.get(place)?;
        let start = entry.start as usize;
        Some(TableLine {
            text: self.text.get(start..start + entry.text_length())?,
            name_length: entry.name as usize,
            violation: entry.violation,
        })
    }

    /// Adds an entry, in place of older ones where there is no room, RFC 7541 §4.4. One that is larger than the table leaves it empty.
    /// The entry keeps the rule that the field breaks, if any.
    pub(super) fn insert(&mut self, name: &[u8], value: &[u8], violation: Option<RuleViolation>) {
        let entry = name.len() + value.len() + ENTRY_OVERHEAD;
        let Some(rest) = self.max_size.checked_sub(entry) else {
            self.evict(0);
            return;
        };
        self.evict(rest);
        self.drop_evicted_text();
        let start = self.text.len() as u32;
        for part in [name, BEHIND_NAME, value, LINE_END] {
            self.text.extend_from_slice(part);
        }
        self.entries.push_back(TableEntry {
            start,
            name: name.len() as u32,
            value: value.len() as u32,
            violation,
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
                    table.insert(&name, &value, None);
                    model.insert(0, (name, value));
                }
                let size = |model: &[(Vec<u8>, Vec<u8>)]| -> usize {
                    model.iter().map(|(name, value)| name.len() + value.len() + 32).sum()
                };
                while size(&model) > max_size {
                    model.pop();
                }
                prop_assert_eq!(table.len(), model.len());
                prop_assert!(table.text.len() <= 2 * 4096 + 2 * EVICTED_TEXT);
                for (index, (name, value)) in model.iter().enumerate() {
                    let entry = table.get(index).unwrap();
                    prop_assert_eq!((entry.name(), entry.value()), (&name[..], &value[..]));
                }
                prop_assert_eq!(table.get(model.len()), None);
            }
        }
    }
}
