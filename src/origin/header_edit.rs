//! Edits the fields of a message, whatever holds them: a map, a head of Pingora, or received fields with their changes.

use http::header::{HeaderMap, HeaderName, HeaderValue};

use crate::failure::Result;

/// Fields that can be edited.
pub trait FieldEdit {
    /// Returns the first value of this name.
    fn get(&self, name: &HeaderName) -> Option<&HeaderValue>;
    /// Replaces every field of this name.
    ///
    /// # Errors
    /// When there are more than 32,768 fields; heads have a cap far below.
    fn insert(&mut self, name: HeaderName, value: HeaderValue) -> Result<()>;
    /// Adds a field beside those of the same name.
    ///
    /// # Errors
    /// The errors of [`insert`](Self::insert).
    fn append(&mut self, name: HeaderName, value: HeaderValue) -> Result<()>;
    /// Removes every field of this name.
    fn remove(&mut self, name: &HeaderName);
}

/// Fields that can be edited and are all in one map.
pub trait HeaderEdit: FieldEdit {
    /// Returns all fields.
    fn all(&self) -> &HeaderMap;
}

impl FieldEdit for HeaderMap {
    fn get(&self, name: &HeaderName) -> Option<&HeaderValue> {
        HeaderMap::get(self, name)
    }

    fn insert(&mut self, name: HeaderName, value: HeaderValue) -> Result<()> {
        drop(HeaderMap::insert(self, name, value));
        Ok(())
    }

    fn append(&mut self, name: HeaderName, value: HeaderValue) -> Result<()> {
        HeaderMap::append(self, name, value);
        Ok(())
    }

    fn remove(&mut self, name: &HeaderName) {
        drop(HeaderMap::remove(self, name));
    }
}

impl HeaderEdit for HeaderMap {
    fn all(&self) -> &HeaderMap {
        self
    }
}
