//! Writes fields into a section that was begun.

use crate::qpack::write_field;

/// Writes the fields of one section.
#[derive(Debug)]
pub struct FieldWriter<'a>(&'a mut Vec<u8>);

impl<'a> FieldWriter<'a> {
    /// Returns the writer of a section that ends with the bytes of `out`.
    pub(super) fn new(out: &'a mut Vec<u8>) -> Self {
        Self(out)
    }

    /// Writes a field. The name is in lower case.
    pub fn write(&mut self, name: &[u8], value: &[u8]) {
        write_field(name, value, self.0);
    }

    /// Writes several fields.
    pub fn write_all<'f>(&mut self, fields: impl IntoIterator<Item = (&'f [u8], &'f [u8])>) {
        for (name, value) in fields {
            self.write(name, value);
        }
    }
}
