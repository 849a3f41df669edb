//! Writes attributes, the form of which all records share.

use super::wire::{FieldNumber, bytes, message, tagged};

/// Writes the attributes of a record.
#[derive(Debug)]
pub struct AttributeWriter<'a> {
    into: &'a mut Vec<u8>,
    /// The number of the field that an attribute is in the record.
    field: FieldNumber,
}

impl<'a> AttributeWriter<'a> {
    pub(super) fn new(into: &'a mut Vec<u8>, field: FieldNumber) -> Self {
        Self { into, field }
    }

    /// Returns the buffer, for other fields of the record.
    pub(super) fn buffer(&mut self) -> &mut Vec<u8> {
        self.into
    }

    /// Adds a text.
    pub fn string(&mut self, name: &str, value: &str) {
        attribute(self.into, self.field, name, value);
    }

    /// Adds a number.
    pub fn number(&mut self, name: &str, value: u64) {
        self.attribute(|into| {
            bytes(into, 1, name.as_bytes());
            message(into, 2, |into| tagged(into, 3, value));
        });
    }

    /// Adds the attribute whose name and value `write` writes.
    pub(super) fn attribute<R>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        message(self.into, self.field, write)
    }
}

/// Writes an attribute that is a text into a message where attributes have the number `field`.
pub(super) fn attribute(into: &mut Vec<u8>, field: FieldNumber, name: &str, value: &str) {
    message(into, field, |into| {
        bytes(into, 1, name.as_bytes());
        message(into, 2, |into| bytes(into, 1, value.as_bytes()));
    });
}
