//! Takes the fields of an answer in the form that its client gets: lines of HTTP/1.1, a block of HTTP/2, or a section of HTTP/3.

use sluicegate_http1::HeaderField;

use super::head_writer::write_field;

/// Bytes of the longest name that is made lower case without memory of its own.
const USUAL_NAME: usize = 64;

/// Takes the fields of an answer, one after another.
pub trait FieldSink {
    /// Takes a field whose name is in lower case.
    fn write(&mut self, name: &[u8], value: &[u8]);

    /// Takes a field of an origin, whose name is in any case. `line` is the field as it was received, where it is in the usual form.
    fn copy(&mut self, field: &HeaderField<'_>, line: Option<&[u8]>);
}

/// Appends lines of HTTP/1.1.
impl FieldSink for Vec<u8> {
    fn write(&mut self, name: &[u8], value: &[u8]) {
        write_field(self, name, value);
    }

    fn copy(&mut self, field: &HeaderField<'_>, line: Option<&[u8]>) {
        let start = self.len();
        match line {
            Some(line) => self.extend_from_slice(line),
            None => write_field(self, field.name, field.value),
        }
        self[start..start + field.name.len()].make_ascii_lowercase();
    }
}

/// Writes a block of HTTP/2.
impl FieldSink for sluicegate_http2::FieldWriter<'_> {
    fn write(&mut self, name: &[u8], value: &[u8]) {
        Self::write(self, name, value);
    }

    fn copy(&mut self, field: &HeaderField<'_>, _: Option<&[u8]>) {
        write_in_lower_case(self, field);
    }
}

/// Writes a section of HTTP/3.
impl FieldSink for sluicegate_http3::FieldWriter<'_> {
    fn write(&mut self, name: &[u8], value: &[u8]) {
        Self::write(self, name, value);
    }

    fn copy(&mut self, field: &HeaderField<'_>, _: Option<&[u8]>) {
        write_in_lower_case(self, field);
    }
}

fn write_in_lower_case(into: &mut impl FieldSink, field: &HeaderField<'_>) {
    let mut usual = [0; USUAL_NAME];
    let Some(name) = usual.get_mut(..field.name.len()) else {
        return into.write(&field.name.to_ascii_lowercase(), field.value);
    };
    name.copy_from_slice(field.name);
    name.make_ascii_lowercase();
    into.write(name, field.value);
}
