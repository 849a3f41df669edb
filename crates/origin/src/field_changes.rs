//! Edits the fields of a request without a copy of them: what is removed and what is added stands beside the received fields.

use http::header::{HeaderName, HeaderValue};
use sluicegate_base::received::{FieldValue, ReceivedField, ReceivedFields};

use super::header_edit::FieldEdit;

/// Fields that the gateway adds to most requests.
const MOSTLY_ADDED: usize = 8;

/// The changes of received fields on their way to an origin.
pub struct FieldChanges<'a> {
    received: &'a ReceivedFields,
    /// Names of received fields that are not passed on.
    removed: Vec<HeaderName>,
    added: Vec<(HeaderName, HeaderValue)>,
    /// Has the bit of each length that an added name has.
    added_lengths: u64,
}

impl<'a> FieldChanges<'a> {
    /// Returns the received fields, unchanged.
    #[must_use]
    pub fn new(received: &'a ReceivedFields) -> Self {
        Self {
            received,
            removed: Vec::new(),
            added: Vec::with_capacity(MOSTLY_ADDED),
            added_lengths: 0,
        }
    }

    /// Returns whether a field may have been added under this name.
    fn may_have_added(&self, name: &HeaderName) -> bool {
        self.added_lengths & length_bit(name) != 0
    }

    fn add(&mut self, name: HeaderName, value: HeaderValue) {
        self.added_lengths |= length_bit(&name);
        self.added.push((name, value));
    }

    /// Returns the received fields that are left. Those of one name are in order.
    pub fn left(&self) -> impl Iterator<Item = ReceivedField<'_>> {
        let is_left = |field: &ReceivedField<'_>| {
            let mut removed = self.removed.iter();
            !removed.any(|removed| field.name == *removed)
        };
        self.received.lines().filter(is_left)
    }

    /// Returns the added fields. Those of one name are in order, and come behind the received ones.
    pub fn added(&self) -> &[(HeaderName, HeaderValue)] {
        &self.added
    }
}

impl FieldEdit for FieldChanges<'_> {
    fn get(&self, name: &HeaderName) -> Option<FieldValue<'_>> {
        self.received
            .get(name)
            .filter(|_| !self.removed.contains(name))
            .or_else(|| {
                if !self.may_have_added(name) {
                    return None;
                }
                let added = self.added.iter().find(|(added, _)| added == name)?;
                Some(FieldValue::from(&added.1))
            })
    }

    fn insert(&mut self, name: HeaderName, value: HeaderValue) {
        self.remove(&name);
        self.add(name, value);
    }

    fn append(&mut self, name: HeaderName, value: HeaderValue) {
        self.add(name, value);
    }

    fn remove(&mut self, name: &HeaderName) {
        if self.may_have_added(name) {
            self.added.retain(|(added, _)| added != name);
        }
        if self.received.get(name).is_some() && !self.removed.contains(name) {
            self.removed.push(name.clone());
        }
    }
}

/// Returns a word with the bit that stands for the length of this name.
fn length_bit(name: &HeaderName) -> u64 {
    1 << (name.as_str().len() % 64)
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;
    use proptest::prelude::*;

    use super::*;

    const NAMES: [HeaderName; 3] = [
        http::header::HOST,
        HeaderName::from_static("x-a"),
        HeaderName::from_static("x-b"),
    ];

    #[derive(Clone, Debug)]
    enum Edit {
        Insert(usize),
        Append(usize),
        Remove(usize),
    }

    fn edits() -> impl Strategy<Value = Vec<Edit>> {
        let name = 0..NAMES.len();
        let edit = prop_oneof![
            name.clone().prop_map(Edit::Insert),
            name.clone().prop_map(Edit::Append),
            name.prop_map(Edit::Remove),
        ];
        prop::collection::vec(edit, 0..12)
    }

    fn apply(edits: &[Edit], fields: &mut dyn FieldEdit) {
        for (number, edit) in edits.iter().enumerate() {
            let value = HeaderValue::from(number);
            match edit {
                Edit::Insert(name) => fields.insert(NAMES[*name].clone(), value),
                Edit::Append(name) => fields.append(NAMES[*name].clone(), value),
                Edit::Remove(name) => fields.remove(&NAMES[*name]),
            }
        }
    }

    proptest! {
        /// Goal: edits beside the fields are those of a map. Method: arbitrary edits of both; the values of each name are the same.
        #[test]
        fn edits_are_those_of_a_map(before in edits(), edits in edits()) {
            let mut received = HeaderMap::new();
            apply(&before, &mut received);
            let mut map = received.clone();
            apply(&edits, &mut map);
            let fields = ReceivedFields::from(received);
            let mut changes = FieldChanges::new(&fields);
            apply(&edits, &mut changes);
            for name in &NAMES {
                let left = changes.left().filter(|field| field.name == *name);
                let added = changes.added().iter().filter(|(own, _)| own == name);
                let left = left.map(|field| field.value);
                let found: Vec<_> = left.chain(added.map(|(_, value)| value.into())).collect();
                let expected: Vec<_> = map.get_all(name).iter().map(FieldValue::from).collect();
                prop_assert_eq!(found, expected);
                prop_assert_eq!(changes.get(name), FieldEdit::get(&map, name));
            }
        }
    }
}
