//! Decodes field sections, RFC 9204 §4.5, into lines of HTTP/1.1 in one buffer, as the decoder of HPACK does.
//!
//! # Limits
//! A list of fields has a greatest size, RFC 9114 §4.2.2. Since no later section depends on the rest, decoding ends there.

use std::ops::Range;

use bytes::BytesMut;
use sluicegate_http2::hpack::{DecodedField, end_line, huffman, integer, write_name};

use super::static_table::{self, StaticField};
use crate::violation::RuleViolation;

/// Bytes that each field counts beside its text, RFC 9114 §4.2.2.
const FIELD_OVERHEAD: usize = 32;
/// The bytes between a name and its value.
const BEHIND_NAME: &[u8] = b": ";

/// The size of a decoded list of fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SectionSize {
    /// All its fields were reported.
    Whole,
    /// It is larger than allowed: its last fields were not reported.
    TooLarge,
}

/// Decodes a whole section whose list has at most `max_list` bytes: writes its fields behind the bytes of `into`, and calls `report` for
/// each.
///
/// # Errors
/// The section is none of QPACK, or refers to a dynamic table. Either ends the connection.
pub fn decode(
    section: &[u8],
    max_list: usize,
    into: &mut BytesMut,
    mut report: impl FnMut(&BytesMut, DecodedField),
) -> Result<SectionSize, RuleViolation> {
    let mut rest = read_prefix(section)?;
    let mut size = 0;
    while let Some(first) = rest.first() {
        let field;
        (field, rest) = match first {
            // RFC 9204 §4.5.2: an indexed field line, static with the bit T.
            0xc0.. => read_indexed(rest, into)?,
            // RFC 9204 §4.5.4: a literal with a name reference, static with the bit T.
            0x50..0x60 | 0x70..0x80 => read_name_reference(rest, into)?,
            // RFC 9204 §4.5.6: a literal with a literal name.
            0x20..0x40 => read_literal(rest, into)?,
            // RFC 9204 §4.5.3, §4.5.5, and those of §4.5.2, §4.5.4 without T refer to the dynamic table.
            _ => return Err(RuleViolation::DynamicTable),
        };
        size += field.places.name.len() + field.places.value.len() + FIELD_OVERHEAD;
        if size > max_list {
            return Ok(SectionSize::TooLarge);
        }
        report(into, field);
    }
    Ok(SectionSize::Whole)
}

/// Reads the prefix of a section, RFC 9204 §4.5.1. Returns the bytes behind it.
fn read_prefix(section: &[u8]) -> Result<&[u8], RuleViolation> {
    let (required_inserts, rest) = read_integer(section, 8)?;
    // RFC 9204 §2.2.1: more inserts than there can be.
    if required_inserts != 0 {
        return Err(RuleViolation::DynamicTable);
    }
    let has_sign = rest.first().is_some_and(|first| first & 0x80 != 0);
    // RFC 9204 §4.5.1.2: any base will do, but it is not negative.
    match has_sign {
        true => Err(RuleViolation::FieldSection),
        false => read_integer(rest, 7).map(|(_, rest)| rest),
    }
}

fn read_indexed<'a>(
    section: &'a [u8],
    into: &mut BytesMut,
) -> Result<(DecodedField, &'a [u8]), RuleViolation> {
    let (field, rest) = read_entry(section, 6)?;
    let name = write_name(field.name, into);
    let value_start = into.len();
    into.extend_from_slice(field.value);
    Ok((end_line(name, value_start, into), rest))
}

fn read_name_reference<'a>(
    section: &'a [u8],
    into: &mut BytesMut,
) -> Result<(DecodedField, &'a [u8]), RuleViolation> {
    let (field, rest) = read_entry(section, 4)?;
    let name = write_name(field.name, into);
    read_value(name, rest, into)
}

fn read_literal<'a>(
    section: &'a [u8],
    into: &mut BytesMut,
) -> Result<(DecodedField, &'a [u8]), RuleViolation> {
    let start = into.len();
    let rest = read_string(section, 3, into)?;
    let name = start..into.len();
    into.extend_from_slice(BEHIND_NAME);
    read_value(name, rest, into)
}

/// Reads the value behind a name that was written.
fn read_value<'a>(
    name: Range<usize>,
    section: &'a [u8],
    into: &mut BytesMut,
) -> Result<(DecodedField, &'a [u8]), RuleViolation> {
    let value_start = into.len();
    let rest = read_string(section, 7, into)?;
    Ok((end_line(name, value_start, into), rest))
}

/// Reads the index of an entry of the static table, which has so many bits of the first byte.
fn read_entry(section: &[u8], bits: u32) -> Result<(StaticField, &[u8]), RuleViolation> {
    let (index, rest) = read_integer(section, bits)?;
    // RFC 9204 §3.1: an index beyond the table.
    let field = static_table::FIELDS.get(index);
    Ok((*field.ok_or(RuleViolation::FieldSection)?, rest))
}

/// Reads a string, RFC 9204 §4.1.2, whose length has so many bits of the first byte, behind the bit of Huffman's code.
fn read_string<'a>(
    section: &'a [u8],
    bits: u32,
    into: &mut BytesMut,
) -> Result<&'a [u8], RuleViolation> {
    let is_encoded = section.first().is_some_and(|first| first >> bits & 1 == 1);
    let (length, rest) = read_integer(section, bits)?;
    let (text, rest) = rest
        .split_at_checked(length)
        .ok_or(RuleViolation::FieldSection)?;
    match is_encoded {
        true => huffman::decode(text, into).map_err(|_| RuleViolation::FieldSection)?,
        false => into.extend_from_slice(text),
    }
    Ok(rest)
}

fn read_integer(section: &[u8], bits: u32) -> Result<(usize, &[u8]), RuleViolation> {
    integer::read(section, bits).map_err(|_| RuleViolation::FieldSection)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the lines of a section.
    fn decoded(section: &[u8]) -> Result<String, RuleViolation> {
        let mut into = BytesMut::from("before");
        let mut found = String::new();
        let size = decode(section, 4096, &mut into, |bytes, field| {
            let places = field.places;
            found += &String::from_utf8_lossy(&bytes[places.name.start..places.value.end + 2]);
        })?;
        assert_eq!(size, SectionSize::Whole);
        assert_eq!(into, format!("before{found}").as_bytes());
        Ok(found)
    }

    /// Goal: sections are decoded as the RFC does, and references to a table that is not there are errors. Method: the examples of
    /// RFC 9204 Appendix B, and a section on each side of each rule.
    #[test]
    fn sections_are_decoded() {
        use RuleViolation::{DynamicTable, FieldSection};
        let first = b"\x00\x00\x51\x0b/index.html";
        assert_eq!(decoded(first).unwrap(), ":path: /index.html\r\n");
        for (section, expected) in [
            (&b"\0\0"[..], Ok("")),
            (b"\0\x05\xd1", Ok(":method: GET\r\n")),
            (b"\0\0\xff\x23", Ok("x-frame-options: sameorigin\r\n")),
            (b"\0\0\x23a-b\x01c", Ok("a-b: c\r\n")),
            // By Huffman's code: `a` is 00011, then ones.
            (b"\0\0\x29\x1f\x81\x1f", Ok("a: a\r\n")),
            (b"", Err(FieldSection)),
            (b"\0", Err(FieldSection)),
            (b"\0\x80", Err(FieldSection)),
            (b"\x01\0", Err(DynamicTable)),
            (b"\x03\x81\x10\x11", Err(DynamicTable)),
            (b"\0\0\x80", Err(DynamicTable)),
            (b"\0\0\x40\x01a", Err(DynamicTable)),
            (b"\0\0\x10", Err(DynamicTable)),
            (b"\0\0\x00\x01a", Err(DynamicTable)),
            (b"\0\0\xff\x24", Err(FieldSection)),
            (b"\0\0\x21a", Err(FieldSection)),
            (b"\0\0\x21a\x02b", Err(FieldSection)),
            (b"\0\0\x29\0\x01a", Err(FieldSection)),
            (b"\0\0\x27\xff\xff\xff\xff\xff\x0f", Err(FieldSection)),
        ] {
            let found = decoded(section);
            assert_eq!(found.as_deref(), expected.as_ref().copied(), "{section:x?}");
        }
    }

    /// Goal: a list ends at its greatest size. Method: as many small fields as fit, and one more.
    #[test]
    fn a_list_has_a_greatest_size() {
        let mut section = vec![0, 0];
        section.extend([0xd1; 10]);
        let mut count = 0;
        let most = 10 * (":method".len() + "GET".len() + 32);
        for (max_list, size) in [
            (most, SectionSize::Whole),
            (most - 1, SectionSize::TooLarge),
        ] {
            let mut into = BytesMut::new();
            let found = decode(&section, max_list, &mut into, |_, _| count += 1);
            assert_eq!(found, Ok(size));
        }
        assert_eq!(count, 19);
    }
}
