//! Decodes blocks of fields, RFC 7541 §3.2 and §6.
//!
//! Each field is written behind the others as a line of HTTP/1.1, `name: value` with its line end, and reported by its places. So a head
//! is one buffer, as it is where it came over HTTP/1.1, and lines that go on unchanged are copied at once.
//!
//! A field is checked once, when it comes as text: an entry of the table keeps the result for those that refer to it.
//!
//! # Limits
//! A list of fields has a greatest size, RFC 9113 §6.5.2. Fields beyond it are decoded, since later blocks may refer to them, and dropped.
//! Entries of the table may be long and references to them are short, so a block that decodes into several times the greatest size is
//! an error: it would make work without end.

use std::ops::Range;

use bytes::BytesMut;

use super::dynamic_table::{BEHIND_NAME, DynamicTable, ENTRY_OVERHEAD, LINE_END, TableLine};
use super::{huffman, integer, static_table};
use crate::field_rules::check_field;
use crate::violation::RuleViolation;

/// Bytes of the decoder's table: the default of RFC 9113 §6.5.2, which the server does not change.
const TABLE_SIZE: usize = 4096;
/// The index of the newest entry of the dynamic table, RFC 7541 §2.3.3.
const FIRST_DYNAMIC: usize = static_table::FIELDS.len() + 1;
/// A list of fields may be so many times its greatest size before it ends the connection.
const BOMB_FACTOR: usize = 4;

/// A block of fields that is none of HPACK, or too large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HpackError {
    /// The block ends within a field.
    Truncated,
    /// An integer is too large, RFC 7541 §5.1.
    Integer,
    /// An index is 0, or beyond the tables, RFC 7541 §2.3.3.
    Index,
    /// A string is none of the Huffman code, RFC 7541 §5.2.
    Huffman,
    /// A new size of the table is larger than allowed, or does not begin the block, RFC 7541 §4.2, §6.3.
    TableSize,
    /// The block decodes into several times the greatest size of a list.
    ListSize,
}

/// The size of a decoded list of fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodedList {
    /// All its fields were reported.
    Whole,
    /// It is larger than allowed: its last fields were not reported.
    TooLarge,
}

/// The places of a field's name and value in the bytes of its head. A colon and a space are between them, a line end is behind them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldPlaces {
    /// The name.
    pub name: Range<usize>,
    /// The value.
    pub value: Range<usize>,
}

/// A field of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodedField {
    /// The places of its name and value.
    pub places: FieldPlaces,
    /// The rule for single fields that it breaks. Pseudo-fields are subject to none.
    pub violation: Option<RuleViolation>,
}

/// The decoder of a connection.
#[derive(Debug)]
pub struct FieldDecoder {
    table: DynamicTable,
    max_list_size: usize,
}

impl FieldDecoder {
    /// Returns the decoder of a new connection. A list of fields has at most so many bytes, each field 32 beside its text.
    #[must_use]
    pub fn new(max_list_size: usize) -> Self {
        Self {
            table: DynamicTable::new(TABLE_SIZE),
            max_list_size,
        }
    }

    /// Returns the greatest size of a list of fields.
    #[must_use]
    pub fn max_list_size(&self) -> usize {
        self.max_list_size
    }

    /// Decodes a whole block: writes its fields behind the bytes of `into`, and calls `report` for each.
    ///
    /// # Errors
    /// The block is none, which ends the connection: the tables of both sides differ from then on.
    pub fn decode(
        &mut self,
        block: &[u8],
        into: &mut BytesMut,
        mut report: impl FnMut(&BytesMut, DecodedField),
    ) -> Result<DecodedList, HpackError> {
        let mut rest = self.resize_table(block)?;
        let mut size = 0;
        let mut list = DecodedList::Whole;
        while let Some(first) = rest.first() {
            let start = into.len();
            let field;
            (field, rest) = match first {
                // RFC 7541 §6.1: an indexed field.
                0x80.. => self.read_indexed(rest, into)?,
                // RFC 7541 §6.2.1: a literal with incremental indexing.
                0x40..0x80 => {
                    let (field, rest) = self.read_literal(rest, 6, into)?;
                    let name = into.get(field.places.name.clone()).unwrap_or_default();
                    let value = into.get(field.places.value.clone()).unwrap_or_default();
                    self.table.insert(name, value, field.violation);
                    (field, rest)
                }
                // RFC 7541 §4.2: a change of size occurs at the beginning of a block.
                0x20..0x40 => return Err(HpackError::TableSize),
                // RFC 7541 §6.2.2, §6.2.3: a literal without indexing, or never indexed.
                0x00..0x20 => self.read_literal(rest, 4, into)?,
            };
            size += field.places.name.len() + field.places.value.len() + ENTRY_OVERHEAD;
            if size > self.max_list_size {
                if size > self.max_list_size.saturating_mul(BOMB_FACTOR) {
                    return Err(HpackError::ListSize);
                }
                list = DecodedList::TooLarge;
            }
            match list {
                DecodedList::Whole => report(into, field),
                DecodedList::TooLarge => into.truncate(start),
            }
        }
        Ok(list)
    }

    /// Reads the changes of the table's size with which a block may begin. Returns the rest of the block.
    fn resize_table<'a>(&mut self, block: &'a [u8]) -> Result<&'a [u8], HpackError> {
        let mut rest = block;
        while let Some(0x20..0x40) = rest.first() {
            let (size, behind) = integer::read(rest, 5)?;
            // RFC 7541 §6.3: the size is at most that of the server's settings.
            if size > TABLE_SIZE {
                return Err(HpackError::TableSize);
            }
            self.table.resize(size);
            rest = behind;
        }
        Ok(rest)
    }

    #[inline]
    fn read_indexed<'a>(
        &self,
        block: &'a [u8],
        into: &mut BytesMut,
    ) -> Result<(DecodedField, &'a [u8]), HpackError> {
        let (index, rest) = integer::read(block, 7)?;
        let start = into.len();
        if let Some(index) = index.checked_sub(FIRST_DYNAMIC) {
            let line = self.table.get(index).ok_or(HpackError::Index)?;
            into.extend_from_slice(line.text);
            let places = FieldPlaces {
                name: start..start + line.name_length,
                value: start + line.name_length + BEHIND_NAME.len()..into.len() - LINE_END.len(),
            };
            let violation = line.violation;
            return Ok((DecodedField { places, violation }, rest));
        }
        let field = static_table::get(index).ok_or(HpackError::Index)?;
        let name = write_name(field.name, into);
        let value_start = into.len();
        into.extend_from_slice(field.value);
        Ok((end_line(name, value_start, into), rest))
    }

    /// Reads a literal whose index has so many bits of the first byte.
    fn read_literal<'a>(
        &self,
        block: &'a [u8],
        index_bits: u32,
        into: &mut BytesMut,
    ) -> Result<(DecodedField, &'a [u8]), HpackError> {
        let (index, mut rest) = integer::read(block, index_bits)?;
        let name = match index {
            0 => {
                let start = into.len();
                rest = read_string(rest, into)?;
                let name = start..into.len();
                into.extend_from_slice(BEHIND_NAME);
                name
            }
            _ => write_name(self.name(index)?, into),
        };
        let value_start = into.len();
        let rest = read_string(rest, into)?;
        Ok((end_line(name, value_start, into), rest))
    }

    #[inline]
    fn name(&self, index: usize) -> Result<&[u8], HpackError> {
        let name = match index.checked_sub(FIRST_DYNAMIC) {
            Some(index) => self.table.get(index).map(TableLine::name),
            None => static_table::get(index).map(|field| field.name),
        };
        name.ok_or(HpackError::Index)
    }
}

/// Writes the name of a field and what follows it on its line. Returns its place.
#[inline]
pub fn write_name(name: &[u8], into: &mut BytesMut) -> Range<usize> {
    let start = into.len();
    into.extend_from_slice(name);
    into.extend_from_slice(BEHIND_NAME);
    start..start + name.len()
}

/// Writes the end of a line whose value begins at `value_start`, and checks its field.
#[inline]
pub fn end_line(name: Range<usize>, value_start: usize, into: &mut BytesMut) -> DecodedField {
    let value = value_start..into.len();
    into.extend_from_slice(LINE_END);
    let name_text = into.get(name.clone()).unwrap_or_default();
    let value_text = into.get(value.clone()).unwrap_or_default();
    let violation = match name_text {
        [b':', ..] => None,
        _ => check_field(name_text, value_text).err(),
    };
    let places = FieldPlaces { name, value };
    DecodedField { places, violation }
}

/// Reads a string, RFC 7541 §5.2, behind the bytes of `into`. Returns the rest of the block.
#[inline]
fn read_string<'a>(block: &'a [u8], into: &mut BytesMut) -> Result<&'a [u8], HpackError> {
    let is_encoded = block.first().is_some_and(|first| first & 0x80 != 0);
    let (length, rest) = integer::read(block, 7)?;
    let (text, rest) = rest.split_at_checked(length).ok_or(HpackError::Truncated)?;
    match is_encoded {
        true => huffman::decode(text, into)?,
        false => into.extend_from_slice(text),
    }
    Ok(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the fields of a block, one a line.
    fn decode(decoder: &mut FieldDecoder, block: &[u8]) -> Result<String, HpackError> {
        let mut into = BytesMut::from("before");
        let mut found = String::new();
        let list = decoder.decode(block, &mut into, |bytes, field| {
            let places = field.places;
            let text = |range: Range<usize>| String::from_utf8_lossy(&bytes[range]).into_owned();
            let line = format!(
                "{}: {}\r\n",
                text(places.name.clone()),
                text(places.value.clone())
            );
            assert_eq!(text(places.name.start..places.value.end + 2), line);
            found += &line;
        })?;
        assert_eq!(into, format!("before{found}").as_bytes());
        if list == DecodedList::TooLarge {
            found += "…";
        }
        Ok(found)
    }

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<u8> = hex.bytes().filter(|byte| *byte != b' ').collect();
        let pairs = digits
            .chunks(2)
            .map(|pair| std::str::from_utf8(pair).unwrap());
        pairs
            .map(|pair| u8::from_str_radix(pair, 16).unwrap())
            .collect()
    }

    /// Goal: blocks are decoded as the RFC does. Method: the examples of RFC 7541 Appendix C.2.
    #[test]
    fn single_fields_of_the_rfc_are_decoded() {
        for (block, expected) in [
            (
                "400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572",
                "custom-key: custom-header\r\n",
            ),
            (
                "040c 2f73 616d 706c 652f 7061 7468",
                ":path: /sample/path\r\n",
            ),
            (
                "1008 7061 7373 776f 7264 0673 6563 7265 74",
                "password: secret\r\n",
            ),
            ("82", ":method: GET\r\n"),
        ] {
            let mut decoder = FieldDecoder::new(4096);
            assert_eq!(decode(&mut decoder, &bytes(block)).unwrap(), expected);
            let entries = usize::from(block.starts_with("40"));
            assert_eq!(decoder.table.len(), entries);
        }
    }

    /// Goal: later blocks refer to fields of earlier ones. Method: the requests of RFC 7541 Appendix C.3, plain, and C.4, by Huffman's
    /// code.
    #[test]
    fn requests_of_the_rfc_are_decoded() {
        let first = ":method: GET\r\n:scheme: http\r\n:path: /\r\n:authority: www.example.com\r\n";
        let second = format!("{first}cache-control: no-cache\r\n");
        let third = ":method: GET\r\n:scheme: https\r\n:path: /index.html\r\n:authority: www.example.com\r\ncustom-key: custom-value\r\n";
        for blocks in [
            [
                "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
                "8286 84be 5808 6e6f 2d63 6163 6865",
                "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
            ],
            [
                "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
                "8286 84be 5886 a8eb 1064 9cbf",
                "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
            ],
        ] {
            let mut decoder = FieldDecoder::new(4096);
            for (block, expected) in blocks.iter().zip([first, &second, third]) {
                assert_eq!(decode(&mut decoder, &bytes(block)).unwrap(), expected);
            }
        }
    }

    /// Goal: entries are evicted as the RFC does. Method: the responses of RFC 7541 Appendix C.6, with a table of 256 bytes.
    #[test]
    fn responses_of_the_rfc_are_decoded() {
        let mut decoder = FieldDecoder::new(4096);
        assert_eq!(decode(&mut decoder, &[0x3f, 0xe1, 0x01]).unwrap(), "");
        let date = |second: u8| format!("date: Mon, 21 Oct 2013 20:13:{second} GMT\r\n");
        let place = "location: https://www.example.com\r\n";
        let first = format!("cache-control: private\r\n{}{place}", date(21));
        for (block, expected) in [
            (
                "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d 29ad \
                 1718 63c7 8f0b 97c8 e9ae 82ae 43d3",
                format!(":status: 302\r\n{first}"),
            ),
            ("4883 640e ffc1 c0bf", format!(":status: 307\r\n{first}")),
            (
                "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d d7f2 \
                 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07",
                format!(
                    ":status: 200\r\ncache-control: private\r\n{}{place}content-encoding: gzip\r\n\
                     set-cookie: foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1\r\n",
                    date(22)
                ),
            ),
        ] {
            assert_eq!(decode(&mut decoder, &bytes(block)).unwrap(), expected);
        }
        assert_eq!(decoder.table.len(), 3);
    }

    /// Goal: what is no block is an error. Method: one block on the wrong side of each rule.
    #[test]
    fn malformed_blocks_are_rejected() {
        for (block, error) in [
            ("80", HpackError::Index),
            ("be", HpackError::Index),
            ("7f00", HpackError::Index),
            ("ff", HpackError::Truncated),
            ("ffff ffff ffff", HpackError::Integer),
            ("40", HpackError::Truncated),
            ("4001 61", HpackError::Truncated),
            ("4002 61", HpackError::Truncated),
            ("0081 ff00", HpackError::Huffman),
            ("3fe2 1f", HpackError::TableSize),
            ("8220", HpackError::TableSize),
        ] {
            let mut decoder = FieldDecoder::new(4096);
            let found = decode(&mut decoder, &bytes(block));
            assert_eq!(found, Err(error), "{block}");
        }
    }

    /// Goal: a list that is too long is cut and the table stays right; one that is far too long is an error. Method: copies of one entry.
    #[test]
    fn long_lists_are_cut_and_bombs_are_errors() {
        let mut decoder = FieldDecoder::new(300);
        // A field of 100 bytes, then the same again by its index.
        let mut block = vec![0x40, 1, b'a', 67];
        block.extend([b'v'; 67]);
        block.push(0xbe);
        let once = format!("a: {}\r\n", "v".repeat(67));
        assert_eq!(decode(&mut decoder, &block).unwrap(), once.repeat(2));
        assert_eq!(decode(&mut decoder, &[0xbe; 3]).unwrap(), once.repeat(3));
        let mut block = vec![0xbe; 4];
        block.extend([0x40, 1, b'b', 1, b'w']);
        assert_eq!(decode(&mut decoder, &block).unwrap(), once.repeat(3) + "…");
        assert_eq!(decode(&mut decoder, &[0xbe]).unwrap(), "b: w\r\n");
        assert_eq!(decode(&mut decoder, &[0xbf; 13]), Err(HpackError::ListSize));
    }
}
