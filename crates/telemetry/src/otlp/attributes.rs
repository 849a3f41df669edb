//! Writes attributes, the form of which all records share.

use super::wire::{FieldNumber, bytes, message, varint};

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
        message(self.into, self.field, |into| {
            bytes(into, 1, name.as_bytes());
            message(into, 2, |into| {
                // Written even where it is 0: a value without a field has no kind.
                into.push(3 << 3);
                varint(into, value);
            });
        });
    }
}

/// Writes an attribute that is a text into a message where attributes have the number `field`.
pub(super) fn attribute(into: &mut Vec<u8>, field: FieldNumber, name: &str, value: &str) {
    message(into, field, |into| {
        bytes(into, 1, name.as_bytes());
        message(into, 2, |into| bytes(into, 1, value.as_bytes()));
    });
}
