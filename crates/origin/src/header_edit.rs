//! Edits the fields of a message, whatever holds them: a map, or received fields with their changes.

use http::header::{HeaderMap, HeaderName, HeaderValue};
use sluicegate_base::received::FieldValue;

/// Fields that can be edited.
pub trait FieldEdit {
    /// Returns the first value of this name.
    fn get(&self, name: &HeaderName) -> Option<FieldValue<'_>>;
    /// Replaces every field of this name.
    fn insert(&mut self, name: HeaderName, value: HeaderValue);
    /// Adds a field beside those of the same name.
    fn append(&mut self, name: HeaderName, value: HeaderValue);
    /// Removes every field of this name.
    fn remove(&mut self, name: &HeaderName);
}

impl FieldEdit for HeaderMap {
    fn get(&self, name: &HeaderName) -> Option<FieldValue<'_>> {
        HeaderMap::get(self, name).map(FieldValue::from)
    }

    fn insert(&mut self, name: HeaderName, value: HeaderValue) {
        drop(HeaderMap::insert(self, name, value));
    }

    fn append(&mut self, name: HeaderName, value: HeaderValue) {
        HeaderMap::append(self, name, value);
    }

    fn remove(&mut self, name: &HeaderName) {
        drop(HeaderMap::remove(self, name));
    }
}
