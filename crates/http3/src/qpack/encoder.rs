//! Encodes field sections, RFC 9204 §4.5, without a dynamic table: the same field has the same bytes in any section.
//!
//! A literal is written as it is: Huffman's code would take more time than all else of its field, for a quarter of its bytes.

use sluicegate_http2::hpack::integer;

use super::static_table::{self, StaticMatch};

/// The index of a `:status` whose value follows.
const STATUS: usize = 24;
/// The patterns of RFC 9204 §4.5.2, §4.5.4 with a static name, and §4.5.6.
const INDEXED: u8 = 0xc0;
const NAME_REFERENCE: u8 = 0x50;
const LITERAL_NAME: u8 = 0x20;
/// The bit that lets no proxy index a literal, RFC 9204 §7.1.3, in either pattern.
const NEVER_INDEXED_REFERENCE: u8 = 0x20;
const NEVER_INDEXED_NAME: u8 = 0x10;

/// Writes the prefix with which a section begins, RFC 9204 §4.5.1: no inserts, the base 0.
pub fn write_prefix(out: &mut Vec<u8>) {
    out.extend_from_slice(&[0, 0]);
}

/// Writes `:status`.
pub fn write_status(status: u16, out: &mut Vec<u8>) {
    match static_table::status_index(status) {
        Some(index) => integer::write(out, INDEXED, 6, index),
        None => {
            integer::write(out, NAME_REFERENCE, 4, STATUS);
            let digits =
                [status / 100, status / 10, status].map(|digits| b'0' + (digits % 10) as u8);
            write_string(&digits, 0, 7, out);
        }
    }
}

/// Writes a field, which is no pseudo-field. The name is in lower case.
pub fn write_field(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    // RFC 9204 §7.1.3.
    let is_secret = matches!(
        name,
        b"set-cookie" | b"authorization" | b"proxy-authorization" | b"cookie"
    );
    let bit = |never_indexed: u8| if is_secret { never_indexed } else { 0 };
    match static_table::find(name, value) {
        StaticMatch::Field(index) => return integer::write(out, INDEXED, 6, index),
        StaticMatch::Name(index) => {
            let pattern = NAME_REFERENCE | bit(NEVER_INDEXED_REFERENCE);
            integer::write(out, pattern, 4, index);
        }
        StaticMatch::Nothing => {
            write_string(name, LITERAL_NAME | bit(NEVER_INDEXED_NAME), 3, out);
        }
    }
    write_string(value, 0, 7, out);
}

/// Writes a string, RFC 9204 §4.1.2. Its length has so many bits of the first byte, behind those of `pattern`.
fn write_string(text: &[u8], pattern: u8, bits: u32, out: &mut Vec<u8>) {
    integer::write(out, pattern, bits, text.len());
    out.extend_from_slice(text);
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use proptest::prelude::*;

    use super::*;
    use crate::qpack::{SectionSize, decode};

    fn decoded(section: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut found = Vec::new();
        let mut into = BytesMut::new();
        let size = decode(section, usize::MAX, &mut into, |bytes, field| {
            let name = bytes[field.places.name].to_vec();
            found.push((name, bytes[field.places.value].to_vec()));
        });
        assert_eq!(size, Ok(SectionSize::Whole));
        found
    }

    /// Goal: a status takes few bytes, and any is written. Method: one with an entry, and one without.
    #[test]
    fn statuses_are_written() {
        for (status, bytes) in [(200, 3), (429, 8), (999, 8)] {
            let mut out = Vec::new();
            write_prefix(&mut out);
            write_status(status, &mut out);
            assert_eq!(out.len(), bytes, "{status}");
            let expected = (b":status".to_vec(), status.to_string().into_bytes());
            assert_eq!(decoded(&out), [expected]);
        }
    }

    /// Goal: no proxy behind may index a secret. Method: the bit N of RFC 9204 §4.5.4 and §4.5.6.
    #[test]
    fn secrets_are_never_indexed() {
        for (name, first) in [("set-cookie", 0x7e), ("server", 0x5f), ("cookie", 0x75)] {
            let mut out = Vec::new();
            write_field(name.as_bytes(), b"secret", &mut out);
            assert_eq!(out[0], first, "{name}");
        }
        let mut out = Vec::new();
        write_field(b"proxy-authorization", b"secret", &mut out);
        assert_eq!(out[0] & 0x30, 0x30);
    }

    proptest! {
        /// Goal: encoding loses nothing. Method: fields with and without entries and any bytes, there and back.
        #[test]
        fn encoded_fields_are_decoded(
            fields in prop::collection::vec((
                prop_oneof![
                    Just(b"server".to_vec()),
                    Just(b"vary".to_vec()),
                    "[a-z-]{1,40}".prop_map(String::into_bytes),
                ],
                prop_oneof![
                    Just(b"origin".to_vec()),
                    "[ -~]{0,200}".prop_map(String::into_bytes),
                    prop::collection::vec(any::<u8>(), 0..40),
                ],
            ), 0..12)
        ) {
            let mut out = Vec::new();
            write_prefix(&mut out);
            for (name, value) in &fields {
                write_field(name, value, &mut out);
            }
            prop_assert_eq!(decoded(&out), fields);
        }
    }
}
