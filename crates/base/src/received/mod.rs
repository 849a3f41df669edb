//! The head of a request, as the stages read it.
//!
//! Stages look fields up by name, and read their values as bytes; what holds the fields is of no concern to them.

mod head;
mod value;

use std::borrow::Borrow;

use http::header::{HeaderMap, HeaderName, HeaderValue, IntoHeaderName, ValueIter};

pub use head::ReceivedHead;
pub use value::{FieldName, FieldValue, NotText};

/// Fields among which one is found by a look at each name; among more, by the hash of its name, which costs more than a few looks.
const FEW: usize = 12;

/// The fields of a request: of one that was received, or of one that a log, a proxy or an operator describes.
#[derive(Clone, Debug, Default)]
pub struct ReceivedFields(HeaderMap);

impl ReceivedFields {
    /// Returns a request's fields where it has none.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of fields. One that came twice counts twice.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there is no field.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether there is a field of this name.
    #[must_use]
    pub fn contains_key(&self, name: impl Borrow<HeaderName>) -> bool {
        self.get(name).is_some()
    }

    /// Returns the first value of a field.
    #[must_use]
    pub fn get(&self, name: impl Borrow<HeaderName>) -> Option<FieldValue<'_>> {
        let name = name.borrow();
        if self.0.len() > FEW {
            return self.0.get(name).map(FieldValue::from);
        }
        // Most fields that are looked for are not there, and a look at names alone costs least.
        if !self.0.keys().any(|own| own == name) {
            return None;
        }
        let mut all = self.0.iter();
        all.find(|(own, _)| *own == name)
            .map(|(_, value)| value.into())
    }

    /// Returns the values of a field, in order.
    pub fn get_all(&self, name: impl Borrow<HeaderName>) -> FieldValues<'_> {
        FieldValues(self.0.get_all(name.borrow()).iter())
    }

    /// Returns the fields. Those of one name are in order.
    pub fn iter(&self) -> impl Iterator<Item = (FieldName<'_>, FieldValue<'_>)> {
        let fields = self.0.iter();
        fields.map(|(name, value)| (FieldName::from(name), FieldValue::from(value)))
    }

    /// Sets a field, in place of all values that it has.
    pub fn insert(&mut self, name: impl IntoHeaderName, value: HeaderValue) {
        self.0.insert(name, value);
    }

    /// Adds a value to a field.
    pub fn append(&mut self, name: impl IntoHeaderName, value: HeaderValue) {
        self.0.append(name, value);
    }

    /// Removes a field with all its values.
    pub fn remove(&mut self, name: &HeaderName) {
        self.0.remove(name);
    }

    /// Returns the fields as a map, for a stage that needs one.
    #[must_use]
    pub fn to_map(&self) -> HeaderMap {
        self.0.clone()
    }

    /// Returns one field as a map, for a reader that takes one.
    #[must_use]
    pub fn map_of(&self, name: &HeaderName) -> HeaderMap {
        let values = self.get_all(name);
        let lines = values.map(|value| (name.clone(), value.to_header_value()));
        lines.collect()
    }
}

impl From<HeaderMap> for ReceivedFields {
    fn from(map: HeaderMap) -> Self {
        Self(map)
    }
}

impl FromIterator<(HeaderName, HeaderValue)> for ReceivedFields {
    fn from_iter<T: IntoIterator<Item = (HeaderName, HeaderValue)>>(fields: T) -> Self {
        HeaderMap::from_iter(fields).into()
    }
}

/// The values of one field, in order.
#[derive(Debug)]
pub struct FieldValues<'a>(ValueIter<'a, HeaderValue>);

impl<'a> Iterator for FieldValues<'a> {
    type Item = FieldValue<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(FieldValue::from)
    }
}

impl DoubleEndedIterator for FieldValues<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.next_back().map(FieldValue::from)
    }
}
