//! Writes fields into a block that was begun.

use crate::hpack::FieldEncoder;

/// Writes the fields of one block.
#[derive(Debug)]
pub struct FieldWriter<'a> {
    encoder: &'a mut FieldEncoder,
    out: &'a mut Vec<u8>,
}

impl<'a> FieldWriter<'a> {
    /// Returns the writer of a block that ends with the bytes of `out`.
    pub(super) fn new(encoder: &'a mut FieldEncoder, out: &'a mut Vec<u8>) -> Self {
        Self { encoder, out }
    }

    /// Writes a field. The name is in lower case.
    pub fn write(&mut self, name: &[u8], value: &[u8]) {
        self.encoder.write(name, value, self.out);
    }

    /// Writes several fields.
    pub fn write_all<'f>(&mut self, fields: impl IntoIterator<Item = (&'f [u8], &'f [u8])>) {
        for (name, value) in fields {
            self.write(name, value);
        }
    }
}
