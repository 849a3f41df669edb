//! Encodes and decodes Protocol Buffers, as far as OTLP needs them: written straight into a buffer, read without trust.
//!
//! Four of the encoding's wire types are all that OTLP's records have, so this is a page; values of generated types would be trees of
//! some forty strings a record first. Tests hold what is written to OpenTelemetry's own definitions.
//!
//! <https://protobuf.dev/programming-guides/encoding/> is the rule for everything here.

/// The number of a field in its message.
pub(super) type FieldNumber = u32;

const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const LENGTH: u64 = 2;
const FIXED32: u64 = 5;

/// Writes a whole number; a zero is left out, since a missing field means zero.
pub(super) fn uint(into: &mut Vec<u8>, field: FieldNumber, value: u64) {
    if value != 0 {
        tagged(into, field, value);
    }
}

/// Writes a whole number, a zero too: the presence of the field is the type of a value.
pub(super) fn tagged(into: &mut Vec<u8>, field: FieldNumber, value: u64) {
    key(into, field, VARINT);
    varint(into, value);
}

/// Writes a whole number of eight bytes.
pub(super) fn fixed64(into: &mut Vec<u8>, field: FieldNumber, value: u64) {
    key(into, field, FIXED64);
    into.extend_from_slice(&value.to_le_bytes());
}

/// Writes a whole number of four bytes.
pub(super) fn fixed32(into: &mut Vec<u8>, field: FieldNumber, value: u32) {
    key(into, field, FIXED32);
    into.extend_from_slice(&value.to_le_bytes());
}

/// Writes a string, or bytes.
pub(super) fn bytes(into: &mut Vec<u8>, field: FieldNumber, value: &[u8]) {
    key(into, field, LENGTH);
    varint(into, value.len() as u64);
    into.extend_from_slice(value);
}

/// Writes a string of two parts.
pub(super) fn concatenated(into: &mut Vec<u8>, field: FieldNumber, parts: [&str; 2]) {
    key(into, field, LENGTH);
    varint(into, parts.iter().map(|part| part.len() as u64).sum());
    for part in parts {
        into.extend_from_slice(part.as_bytes());
    }
}

/// Writes a message inside a message, and returns the result of `write`.
pub(super) fn message<R>(
    into: &mut Vec<u8>,
    field: FieldNumber,
    write: impl FnOnce(&mut Vec<u8>) -> R,
) -> R {
    key(into, field, LENGTH);
    let start = into.len();
    let result = write(into);
    // The length goes before the message and is known behind it: its few bytes are written here, then moved to the front.
    let end = into.len();
    varint(into, (end - start) as u64);
    let length = into.len() - end;
    into[start..].rotate_right(length);
    result
}

fn key(into: &mut Vec<u8>, field: FieldNumber, wire_type: u64) {
    varint(into, u64::from(field) << 3 | wire_type);
}

/// Writes a number in groups of seven bits.
fn varint(into: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        into.push(value as u8 | 0x80);
        value >>= 7;
    }
    into.push(value as u8);
}

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldValue<'b> {
    /// A whole number.
    Uint(u64),
    /// A string, bytes or a message.
    Bytes(&'b [u8]),
}

/// Reads the fields of a message from another program; ends where the bytes are no field.
#[derive(Clone, Debug)]
pub(super) struct FieldReader<'b>(pub(super) &'b [u8]);

impl<'b> Iterator for FieldReader<'b> {
    type Item = (FieldNumber, FieldValue<'b>);

    fn next(&mut self) -> Option<Self::Item> {
        let (key, rest) = read_varint(self.0)?;
        let field = FieldNumber::try_from(key >> 3).ok()?;
        let (value, rest) = match key & 7 {
            VARINT => {
                let (value, rest) = read_varint(rest)?;
                (FieldValue::Uint(value), rest)
            }
            FIXED64 => {
                let (value, rest) = rest.split_first_chunk()?;
                (FieldValue::Uint(u64::from_le_bytes(*value)), rest)
            }
            LENGTH => {
                let (length, rest) = read_varint(rest)?;
                let (value, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
                (FieldValue::Bytes(value), rest)
            }
            FIXED32 => {
                let (value, rest) = rest.split_first_chunk()?;
                (FieldValue::Uint(u32::from_le_bytes(*value).into()), rest)
            }
            _ => return None,
        };
        self.0 = rest;
        Some((field, value))
    }
}

fn read_varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    /// The bytes of a varint of 64 bits, seven bits a byte.
    const LONGEST: usize = 10;
    let mut value = 0_u64;
    for (at, byte) in bytes.iter().take(LONGEST).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Some((value, &bytes[at + 1..]));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Goal: lengths on both sides of a byte's seven bits are right. Method: messages of 0 to 300 bytes, read back.
    #[test]
    fn a_message_is_led_by_its_length() {
        for length in [0, 1, 127, 128, 300] {
            let inner = vec![7; length];
            let mut text = Vec::new();
            message(&mut text, 9, |into| into.extend_from_slice(&inner));
            uint(&mut text, 1, 300);
            fixed64(&mut text, 2, 5);
            fixed32(&mut text, 16, 6);
            bytes(&mut text, 3, b"x");
            let read: Vec<_> = FieldReader(&text).collect();
            assert_eq!(
                read,
                [
                    (9, FieldValue::Bytes(&inner)),
                    (1, FieldValue::Uint(300)),
                    (2, FieldValue::Uint(5)),
                    (16, FieldValue::Uint(6)),
                    (3, FieldValue::Bytes(b"x")),
                ]
            );
        }
    }

    proptest! {
        /// Goal: no bytes of a collector make the reader panic or read for ever. Method: any bytes.
        #[test]
        fn any_bytes_are_read_to_an_end(text in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(FieldReader(&text).count() <= text.len());
        }
    }
}
