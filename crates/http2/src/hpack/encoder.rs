//! Encodes blocks of fields, RFC 7541 §6, and decides which fields get an entry of the dynamic table.
//!
//! An entry costs both sides work, and evicts another one; it pays when the field comes again. So a field gets one when it comes for the
//! second time while few others came between: `server` and `content-type` do, `content-length` and request ids do not, and no list of names
//! has to say which. A name that no table has gets one entry, with the second of its values, so that later values follow a reference to it.
//! What is secret is never indexed, RFC 7541 §7.1.3.
//!
//! Only an entry is written by Huffman's code, since it is written once. A literal is written as it is: its code would take more time than
//! all else of its field, for a quarter of its bytes.

use super::dynamic_table::DynamicTable;
use super::{huffman, integer, static_table};

/// Bytes of the largest table that is used: more entries take longer to search than they save.
const LARGEST_TABLE: usize = 4096;
/// Sets of two hashes of fields that came lately and have no entry. A power of two. Two fields of each message may share a set.
const RECENT_SETS: usize = 16;
/// Hashes of names that came lately and have no entry. Values that differ in each message take no place of a name, and a message with more
/// names than this gives none of them an entry.
const RECENT_NAMES: usize = 16;
/// Bytes of the longest field that gets an entry.
const LONGEST_ENTRY: usize = 512;
/// The index of the newest entry, RFC 7541 §2.3.3.
const FIRST_DYNAMIC: usize = static_table::FIELDS.len() + 1;
/// The index of `:status` in the static table.
const STATUS: usize = 8;

/// The pattern of a literal that gets an entry, of one without indexing, and of one that is never indexed, RFC 7541 §6.2.1 to §6.2.3.
const INCREMENTAL_INDEXING: u8 = 0x40;
const WITHOUT_INDEXING: u8 = 0x00;
const NEVER_INDEXED: u8 = 0x10;

/// The encoder of a connection.
#[derive(Debug)]
pub struct FieldEncoder {
    table: DynamicTable,
    /// The hash of each entry of the table, the oldest first.
    fields: Vec<u32>,
    /// The hash of the name of each.
    names: Vec<u32>,
    recent: [[u32; 2]; RECENT_SETS],
    /// The newest first.
    recent_names: [u32; RECENT_NAMES],
    /// Sizes of the table that were set since the last block.
    resized: Option<SizeChange>,
}

/// One size after another.
#[derive(Clone, Copy, Debug)]
struct SizeChange {
    least: usize,
    last: usize,
}

impl Default for FieldEncoder {
    fn default() -> Self {
        Self::new()
    }
}

impl FieldEncoder {
    /// Returns the encoder of a new connection.
    #[must_use]
    pub fn new() -> Self {
        Self {
            table: DynamicTable::new(LARGEST_TABLE),
            fields: Vec::new(),
            names: Vec::new(),
            recent: [[0; 2]; RECENT_SETS],
            recent_names: [0; RECENT_NAMES],
            resized: None,
        }
    }

    /// Sets the greatest size of the table that the peer's settings allow, once they are acknowledged.
    pub fn set_max_size(&mut self, size: u32) {
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        let size = size.min(LARGEST_TABLE);
        if size == self.table.max_size() {
            return;
        }
        let least = self.resized.map_or(size, |change| change.least.min(size));
        self.resized = Some(SizeChange { least, last: size });
        self.table.resize(size);
        self.drop_evicted();
    }

    /// Begins a block: writes the sizes of the table that the peer waits for.
    ///
    /// RFC 7541 §4.2: the smallest size since the last block, then the final one.
    #[inline]
    pub fn begin(&mut self, out: &mut Vec<u8>) {
        if let Some(SizeChange { least, last }) = self.resized.take() {
            if least < last {
                integer::write(out, 0x20, 5, least);
            }
            integer::write(out, 0x20, 5, last);
        }
    }

    /// Writes a pseudo-field of a request.
    pub fn write_pseudo(&mut self, name: &[u8], value: &[u8], out: &mut Vec<u8>) {
        match static_table::pseudo_index(name, value) {
            Some(index) => integer::write(out, 0x80, 7, index),
            None => self.write(name, value, out),
        }
    }

    /// Writes a field. The name is in lower case.
    pub fn write(&mut self, name: &[u8], value: &[u8], out: &mut Vec<u8>) {
        if let Some(pattern) = unindexed_pattern(name, value) {
            return write_literal(name, value, pattern, out);
        }
        let hash = FieldHash::new(name, value);
        if let Some(entry) = self.find(hash, name, value) {
            return integer::write(out, 0x80, 7, FIRST_DYNAMIC + entry);
        }
        let index = static_table::name_index(name).or_else(|| self.find_name(hash, name));
        if self.field_came_lately(hash.field) || index.is_none() && self.name_came_lately(hash.name)
        {
            return self.write_entry(hash, name, value, index, out);
        }
        write_name(name, index, WITHOUT_INDEXING, 4, out);
        write_plain(value, out);
    }

    /// Writes a field that gets an entry. Its name has this index, if any.
    fn write_entry(
        &mut self,
        hash: FieldHash,
        name: &[u8],
        value: &[u8],
        index: Option<usize>,
        out: &mut Vec<u8>,
    ) {
        match index {
            Some(index) => integer::write(out, INCREMENTAL_INDEXING, 6, index),
            None => {
                out.push(INCREMENTAL_INDEXING);
                write_shortest(name, out);
            }
        }
        write_shortest(value, out);
        self.table.insert(name, value, None);
        self.fields.push(hash.field);
        self.names.push(hash.name);
        self.drop_evicted();
    }

    /// Returns whether a field with this hash came lately, and remembers it.
    #[inline]
    fn field_came_lately(&mut self, hash: u32) -> bool {
        let recent = &mut self.recent[hash as usize % RECENT_SETS];
        let came = recent.contains(&hash);
        if !came {
            *recent = [hash, recent[0]];
        }
        came
    }

    /// Returns whether a name with this hash came lately, and remembers it.
    fn name_came_lately(&mut self, hash: u32) -> bool {
        let came = self.recent_names.contains(&hash);
        if !came {
            self.recent_names.rotate_right(1);
            self.recent_names[0] = hash;
        }
        came
    }

    /// Returns the place of the entry with this field: 0 is the newest one.
    #[inline]
    fn find(&self, hash: FieldHash, name: &[u8], value: &[u8]) -> Option<usize> {
        let place = newest_place(&self.fields, hash.field)?;
        // Another field may have the same hash.
        let line = self.table.get(place)?;
        (line.name() == name && line.value() == value).then_some(place)
    }

    /// Returns the index of the newest entry with this name.
    #[inline]
    fn find_name(&self, hash: FieldHash, name: &[u8]) -> Option<usize> {
        let place = newest_place(&self.names, hash.name)?;
        let line = self.table.get(place)?;
        (line.name() == name).then_some(FIRST_DYNAMIC + place)
    }

    fn drop_evicted(&mut self) {
        let evicted = self.fields.len().saturating_sub(self.table.len());
        self.fields.drain(..evicted);
        self.names.drain(..evicted);
    }
}

/// Writes `:status`, without a table of the connection.
pub(crate) fn write_status(status: u16, out: &mut Vec<u8>) {
    match static_table::status_index(status) {
        Some(index) => integer::write(out, 0x80, 7, index),
        None => {
            integer::write(out, WITHOUT_INDEXING, 4, STATUS);
            let digits =
                [status / 100, status / 10, status].map(|digits| b'0' + (digits % 10) as u8);
            write_plain(&digits, out);
        }
    }
}

/// Writes a field without a table of the connection, so that the bytes are right in any block. The name is in lower case.
pub fn write_field(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    let pattern = unindexed_pattern(name, value).unwrap_or(WITHOUT_INDEXING);
    write_literal(name, value, pattern, out);
}

/// Returns the pattern of a field that gets no entry in any case.
#[inline]
fn unindexed_pattern(name: &[u8], value: &[u8]) -> Option<u8> {
    match name {
        // RFC 7541 §7.1.3: who can make a server repeat a guess learns from its length whether it is right.
        b"set-cookie" | b"authorization" | b"proxy-authorization" | b"cookie" => {
            Some(NEVER_INDEXED)
        }
        // They differ in each message, mostly.
        b"content-length" | b"etag" | b":path" => Some(WITHOUT_INDEXING),
        _ if name.len() + value.len() > LONGEST_ENTRY => Some(WITHOUT_INDEXING),
        _ => None,
    }
}

fn write_literal(name: &[u8], value: &[u8], pattern: u8, out: &mut Vec<u8>) {
    write_name(name, static_table::name_index(name), pattern, 4, out);
    write_plain(value, out);
}

/// Writes the pattern of a field, and its name by this index, if any.
#[inline]
fn write_name(name: &[u8], index: Option<usize>, pattern: u8, prefix_bits: u32, out: &mut Vec<u8>) {
    match index {
        Some(index) => integer::write(out, pattern, prefix_bits, index),
        None => {
            out.push(pattern);
            write_plain(name, out);
        }
    }
}

/// Writes a string as it is, RFC 7541 §5.2.
#[inline]
fn write_plain(text: &[u8], out: &mut Vec<u8>) {
    integer::write(out, 0, 7, text.len());
    out.extend_from_slice(text);
}

/// Writes a string by Huffman's code where that is shorter, RFC 7541 §5.2.
fn write_shortest(text: &[u8], out: &mut Vec<u8>) {
    let encoded = huffman::encoded_length(text);
    if encoded < text.len() {
        integer::write(out, 0x80, 7, encoded);
        huffman::encode(text, out);
    } else {
        write_plain(text, out);
    }
}

/// Returns the place of the last of these hashes that is this one: 0 is the last of all.
#[inline]
fn newest_place(hashes: &[u32], hash: u32) -> Option<usize> {
    let is_same = |other: &u32| *other == hash;
    let chunks = hashes.as_rchunks::<8>().1.iter().rev();
    // Without a branch for each entry, so that several are compared at once.
    let has = |chunk: &[u32; 8]| (chunk.iter()).fold(false, |found, other| found | is_same(other));
    let skipped = 8 * chunks.take_while(|chunk| !has(chunk)).count();
    let older = hashes.get(..hashes.len() - skipped)?;
    Some(skipped + older.iter().rev().position(is_same)?)
}

/// The hashes of a field and of its name. What has the same one only misses an entry.
#[derive(Clone, Copy, Debug)]
struct FieldHash {
    name: u32,
    field: u32,
}

impl FieldHash {
    #[inline]
    fn new(name: &[u8], value: &[u8]) -> Self {
        let of_name = add_to_hash(name.len() as u64, name);
        let of_field = add_to_hash(of_name ^ value.len() as u64, value);
        Self {
            name: folded(of_name),
            field: folded(of_field),
        }
    }
}

#[inline]
fn folded(hash: u64) -> u32 {
    (hash ^ hash >> 32) as u32
}

#[inline]
fn add_to_hash(mut hash: u64, text: &[u8]) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let (words, rest) = text.as_chunks::<8>();
    for word in words {
        hash = (hash ^ u64::from_le_bytes(*word))
            .wrapping_mul(FACTOR)
            .rotate_left(29);
    }
    let last = match text.last_chunk::<8>() {
        // Some of its bytes are those of the last word, which costs less than a loop over the others.
        Some(last) => u64::from_le_bytes(*last),
        None => rest
            .iter()
            .fold(0, |last, byte| last << 8 | u64::from(*byte)),
    };
    (hash ^ last).wrapping_mul(FACTOR).rotate_left(29)
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use proptest::prelude::*;

    use super::*;
    use crate::hpack::{DecodedList, FieldDecoder};

    /// Returns the fields of a block.
    fn decode(decoder: &mut FieldDecoder, block: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut into = BytesMut::new();
        let mut found = Vec::new();
        let list = decoder.decode(block, &mut into, |bytes, field| {
            let places = field.places;
            found.push((bytes[places.name].to_vec(), bytes[places.value].to_vec()));
        });
        assert_eq!(list, Ok(DecodedList::Whole));
        found
    }

    /// Goal: a field that repeats takes one byte, a name whose values vary gets one entry, and a secret is never indexed. Method: blocks of
    /// each.
    #[test]
    fn fields_that_repeat_get_an_entry() {
        let mut encoder = FieldEncoder::new();
        let mut lengths = Vec::new();
        let mut ids = Vec::new();
        for round in 0_u8..4 {
            let mut out = Vec::new();
            encoder.write(b"server", b"sluicegate", &mut out);
            lengths.push(out.len());
            let before = out.len();
            encoder.write(b"x-request-id", &[b'a' + round; 20], &mut out);
            ids.push(out.len() - before);
        }
        assert_eq!(lengths, [13, 9, 1, 1]);
        assert_eq!(ids, [35, 27, 23, 23]);
        assert_eq!(encoder.table.len(), 2);
        for _ in 0..3 {
            let mut out = Vec::new();
            encoder.write(b"set-cookie", b"a=b", &mut out);
            assert_eq!(out[..2], [0x1f, 55 - 15]);
        }
        assert_eq!(encoder.table.len(), 2);
    }

    /// Goal: an entry is found wherever it is in the table. Method: more fields than the table is searched for at once, each again.
    #[test]
    fn each_entry_is_found() {
        let mut encoder = FieldEncoder::new();
        for count in 1..=30 {
            let mut out = Vec::new();
            for _ in 0..2 {
                encoder.write(format!("x-{count}").as_bytes(), b"a", &mut out);
            }
            for other in 1..=count {
                let mut out = Vec::new();
                encoder.write(format!("x-{other}").as_bytes(), b"a", &mut out);
                assert_eq!(out, [0x80 + 62 + count - other], "{other} of {count}");
            }
        }
    }

    /// Goal: two fields of each message get entries although they share a set. Method: two such fields, in turns.
    #[test]
    fn two_fields_of_one_set_get_entries() {
        let set = |value: &str| FieldHash::new(b"x", value.as_bytes()).field as usize % RECENT_SETS;
        let values = (0..).map(|number: u32| number.to_string());
        let values: Vec<_> = values.filter(|value| set(value) == 0).take(2).collect();
        let mut encoder = FieldEncoder::new();
        let mut out = Vec::new();
        for _ in 0..2 {
            for value in &values {
                encoder.write(b"x", value.as_bytes(), &mut out);
            }
        }
        assert_eq!(encoder.table.len(), 2);
    }

    /// Goal: names get entries whatever their values are. Method: messages with as many names as are remembered, whose values never repeat.
    #[test]
    fn values_take_no_place_of_names() {
        let mut encoder = FieldEncoder::new();
        for message in 0..2_u32 {
            for name in 0..RECENT_NAMES {
                let mut out = Vec::new();
                let value = format!("{message}{name}");
                encoder.write(format!("x-{name}").as_bytes(), value.as_bytes(), &mut out);
            }
            assert_eq!(encoder.table.len(), RECENT_NAMES * message as usize);
        }
    }

    /// Goal: the client learns each size of the table. Method: sizes that fall and rise between blocks, RFC 7541 §4.2.
    #[test]
    fn blocks_begin_with_the_sizes_of_the_table() {
        let begun = |encoder: &mut FieldEncoder| {
            let mut out = Vec::new();
            encoder.begin(&mut out);
            out
        };
        let mut encoder = FieldEncoder::new();
        assert_eq!(begun(&mut encoder), []);
        encoder.set_max_size(1 << 20);
        assert_eq!(begun(&mut encoder), []);
        encoder.set_max_size(0);
        encoder.set_max_size(30);
        encoder.set_max_size(20);
        assert_eq!(begun(&mut encoder), [0x20, 0x34]);
        assert_eq!(begun(&mut encoder), []);
        encoder.set_max_size(4096);
        assert_eq!(begun(&mut encoder), [0x3f, 0xe1, 0x1f]);
    }

    /// Goal: a status takes one byte where the static table has it. Method: one of each kind, decoded.
    #[test]
    fn statuses_are_written() {
        for (status, bytes) in [(200, 1), (404, 1), (429, 5), (103, 5)] {
            let mut out = Vec::new();
            write_status(status, &mut out);
            assert_eq!(out.len(), bytes);
            let expected = (b":status".to_vec(), status.to_string().into_bytes());
            assert_eq!(decode(&mut FieldDecoder::new(4096), &out), [expected]);
        }
    }

    /// Goal: pseudo-fields take a byte where a table has them, and a path leaves no entry. Method: three requests that are alike.
    #[test]
    fn pseudo_fields_are_written() {
        let mut encoder = FieldEncoder::new();
        let mut decoder = FieldDecoder::new(4096);
        let fields = [
            (&b":method"[..], &b"GET"[..]),
            (b":scheme", b"https"),
            (b":authority", b"a.test"),
            (b":path", b"/x"),
        ];
        let mut lengths = Vec::new();
        for _ in 0..3 {
            let mut out = Vec::new();
            for (name, value) in fields {
                encoder.write_pseudo(name, value, &mut out);
            }
            let expected = fields.map(|(name, value)| (name.to_vec(), value.to_vec()));
            assert_eq!(decode(&mut decoder, &out), expected);
            lengths.push(out.len());
        }
        assert_eq!(lengths, [14, 12, 7]);
    }

    /// Returns fields of which some repeat.
    fn fields() -> impl Strategy<Value = Vec<(Vec<u8>, Vec<u8>)>> {
        let name = prop_oneof![
            Just(b"server".to_vec()),
            Just(b"content-type".to_vec()),
            Just(b"set-cookie".to_vec()),
            "[a-z-]{1,12}".prop_map(String::into_bytes),
        ];
        let value = prop_oneof![
            Just(b"text/html".to_vec()),
            "[ -~]{0,40}".prop_map(String::into_bytes),
            prop::collection::vec(any::<u8>(), 0..600),
        ];
        prop::collection::vec((name, value), 0..12)
    }

    proptest! {
        /// Goal: encoding loses nothing, in any state of the tables. Method: blocks of fields that repeat and tables that change their
        /// sizes, there and back; each block twice, so that fields get entries.
        #[test]
        fn what_is_encoded_is_decoded(
            blocks in prop::collection::vec((fields(), prop::option::weighted(0.2, 0_u32..5000)), 1..12)
        ) {
            let mut encoder = FieldEncoder::new();
            let mut decoder = FieldDecoder::new(64 * 1024);
            for (fields, resized) in blocks {
                if let Some(size) = resized {
                    encoder.set_max_size(size);
                }
                for _ in 0..2 {
                    let mut out = Vec::new();
                    encoder.begin(&mut out);
                    for (name, value) in &fields {
                        encoder.write(name, value, &mut out);
                    }
                    prop_assert_eq!(decode(&mut decoder, &out), fields.clone());
                }
                let mut out = Vec::new();
                for (name, value) in &fields {
                    write_field(name, value, &mut out);
                }
                prop_assert_eq!(decode(&mut decoder, &out), fields);
            }
        }
    }
}
