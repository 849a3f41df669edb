//! The fields of a request, as the stages read them.
//!
//! The fields stay in the bytes in which they were received: a field is four numbers that say where its name and its value are. Stages
//! look names up, and read values as bytes; most names that they look for are not there, which one word tells. A map would hash each
//! name, and count references to each value.
//!
//! # Invariants
//!
//! 1. Names are in lower case.
//! 2. The lines of one name stand together, in the order in which they were received, as in a map.
//! 3. The set of names has each name; it may have names that were removed.
//!
//! # Limits
//! A look-up of a name that is there compares it with the names of all fields, of which a head has as many as its parser lets through; so
//! do adding and removing one. [`ReceivedFields::names`] and [`ReceivedFields::remove_all`] pass over the fields once: what is done for
//! each field of a head whose fields are not counted yet uses these.

mod head;
mod lower_case;
mod name_set;
mod value;

use std::borrow::Borrow;
use std::ops::Range;

use bytes::{Bytes, BytesMut};
use http::header::{HeaderMap, HeaderName, HeaderValue};
use sluicegate_http1::{FieldPlaces, LINE_END};

pub use head::ReceivedHead;
use name_set::{NameSet, NameTag};
pub use value::{FieldName, FieldValue, NotText};

const BEHIND_NAME: &[u8] = b": ";

/// Bytes for which there is room for each line of a map: the lines of a browser have 50 to 60 without cookies. HTTP/2 counts 32 bytes for a
/// field beside its text, so this room is at most twice `max_header_bytes`.
const USUAL_LINE: usize = 64;

/// The fields of a request: of one that was received, or of one that a log, a proxy or an operator describes.
#[derive(Clone, Debug, Default)]
pub struct ReceivedFields {
    bytes: Bytes,
    lines: Vec<FieldLine>,
    names: NameSet,
}

/// The places of a field's name and value in the bytes.
#[derive(Clone, Copy, Debug)]
struct FieldLine {
    name: u32,
    value: u32,
    value_length: u32,
    name_length: u16,
    tag: NameTag,
    /// True if the bytes have the line as it is written: a colon and a space in front of the value, and the line end behind it.
    is_as_written: bool,
}

/// A field with its line.
#[derive(Clone, Copy, Debug)]
pub struct ReceivedField<'a> {
    /// The name.
    pub name: FieldName<'a>,
    /// The value.
    pub value: FieldValue<'a>,
    /// The line with its end, as HTTP/1.1 writes it; `None` where it was received with other blanks around the value.
    pub line: Option<&'a [u8]>,
}

impl ReceivedFields {
    /// Returns a request's fields where it has none.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the fields that have their names and values at `places` in `read`; `None` where a name is longer than names may be, or a
    /// place is beyond the bytes.
    pub fn in_bytes(
        mut read: BytesMut,
        places: impl ExactSizeIterator<Item = FieldPlaces>,
    ) -> Option<Self> {
        let mut fields = Self {
            bytes: Bytes::new(),
            lines: Vec::with_capacity(places.len()),
            names: NameSet::default(),
        };
        for places in places {
            let name = places.name;
            let value = places.value;
            let text = read.get_mut(name.clone())?;
            lower_case::make(text);
            let tag = NameTag::new(text);
            let behind = read.get(value.end..)?;
            debug_assert!(
                !places.is_usual
                    || read.get(name.end..value.start) == Some(BEHIND_NAME)
                        && behind.starts_with(LINE_END)
            );
            let line = FieldLine {
                name: place(name.start),
                value: place(value.start),
                value_length: place(value.len()),
                name_length: u16::try_from(name.len()).ok()?,
                tag,
                is_as_written: places.is_usual,
            };
            fields.push(line, &read);
        }
        fields.bytes = read.freeze();
        Some(fields)
    }

    /// Returns the bytes that hold the fields: where they were received, those of the whole head.
    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Returns the number of fields. One that came twice counts twice.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Returns whether there is no field.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Returns the length of all lines, as HTTP/1.1 writes them.
    #[must_use]
    pub fn written_length(&self) -> usize {
        self.lines.iter().map(|line| line.written_length()).sum()
    }

    /// Returns whether there is a field of this name.
    #[must_use]
    #[inline]
    pub fn contains_key(&self, name: impl Borrow<HeaderName>) -> bool {
        self.get(name).is_some()
    }

    /// Returns the first value of a field.
    #[must_use]
    #[inline]
    pub fn get(&self, name: impl Borrow<HeaderName>) -> Option<FieldValue<'_>> {
        let name = name.borrow().as_str().as_bytes();
        let first = self.first(name, NameTag::new(name))?;
        self.lines.get(first).map(|line| line.value(&self.bytes))
    }

    /// Returns the values of a field, in order.
    #[inline]
    pub fn get_all(&self, name: impl Borrow<HeaderName>) -> FieldValues<'_> {
        let name = name.borrow().as_str().as_bytes();
        let range = self.range(name, NameTag::new(name));
        FieldValues {
            bytes: &self.bytes,
            lines: self.lines.get(range).unwrap_or_default().iter(),
        }
    }

    /// Returns the fields. Those of one name are in order.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = (FieldName<'_>, FieldValue<'_>)> {
        let bytes = &*self.bytes;
        let lines = self.lines.iter();
        lines.map(move |line| (FieldName::new(line.name(bytes)), line.value(bytes)))
    }

    /// Returns the names of the fields, each once.
    #[inline]
    pub fn names(&self) -> impl Iterator<Item = FieldName<'_>> {
        let bytes = &*self.bytes;
        let is_same = |one: &FieldLine, next: &FieldLine| one.is_of_name(*next, bytes);
        let first_lines = self.lines.chunk_by(is_same).filter_map(<[_]>::first);
        first_lines.map(|line| FieldName::new(line.name(bytes)))
    }

    /// Returns the fields with their lines. Those of one name are in order.
    #[inline]
    pub fn lines(&self) -> impl Iterator<Item = ReceivedField<'_>> {
        let bytes = &*self.bytes;
        let lines = self.lines.iter();
        lines.map(move |line| line.field(bytes))
    }

    /// Sets a field, in place of all values that it has. Copies the bytes of all fields.
    pub fn insert(&mut self, name: impl Into<HeaderName>, value: HeaderValue) {
        let name = name.into();
        self.remove(&name);
        self.append(name, value);
    }

    /// Adds a value to a field. Copies the bytes of all fields.
    pub fn append(&mut self, name: impl Into<HeaderName>, value: HeaderValue) {
        let name = name.into();
        let mut bytes = Vec::with_capacity(self.bytes.len() + line_length((&name, &value)));
        bytes.extend_from_slice(&self.bytes);
        let line = FieldLine::written(&mut bytes, &name, &value);
        self.push(line, &bytes);
        self.bytes = bytes.into();
    }

    /// Removes a field with all its values.
    pub fn remove(&mut self, name: &HeaderName) {
        let name = name.as_str().as_bytes();
        self.lines.drain(self.range(name, NameTag::new(name)));
    }

    /// Removes fields with all their values, in one pass over the fields.
    pub fn remove_all(&mut self, mut names: Vec<HeaderName>) {
        names.sort_unstable_by(|one, other| one.as_str().cmp(other.as_str()));
        let bytes = &*self.bytes;
        self.lines.retain(|line| {
            let name = line.name(bytes);
            let found = names.binary_search_by(|other| other.as_str().as_bytes().cmp(name));
            found.is_err()
        });
    }

    /// Returns the fields as a map, for a stage that needs one.
    #[must_use]
    pub fn to_map(&self) -> HeaderMap {
        let fields = self.iter();
        let fields = fields.map(|(name, value)| (name.to_header_name(), value.to_header_value()));
        fields.collect()
    }

    /// Returns one field as a map, for a reader that takes one.
    #[must_use]
    pub fn map_of(&self, name: &HeaderName) -> HeaderMap {
        let values = self.get_all(name);
        let lines = values.map(|value| (name.clone(), value.to_header_value()));
        lines.collect()
    }

    /// Adds the line of a field in `bytes`, behind those of its name.
    fn push(&mut self, line: FieldLine, bytes: &[u8]) {
        if !self.names.add(line.tag) {
            self.lines.push(line);
            return;
        }
        let is_same = |other: &FieldLine| other.is_of_name(line, bytes);
        let last = self.lines.iter().rposition(is_same);
        let at = last.map_or(self.lines.len(), |last| last + 1);
        self.lines.insert(at, line);
    }

    /// Returns the place of the first line of this name.
    #[inline]
    fn first(&self, name: &[u8], tag: NameTag) -> Option<usize> {
        // Nearly all look-ups end here, in the code of the caller.
        if !self.names.may_have(tag) {
            return None;
        }
        self.search(name, tag)
    }

    /// Compares the names of all lines, as [`first`](Self::first) does where there may be one.
    fn search(&self, name: &[u8], tag: NameTag) -> Option<usize> {
        let is_this = |line: &FieldLine| line.tag == tag && line.name(&self.bytes) == name;
        self.lines.iter().position(is_this)
    }

    /// Returns the places of the lines of this name.
    #[inline]
    fn range(&self, name: &[u8], tag: NameTag) -> Range<usize> {
        match self.first(name, tag) {
            None => 0..0,
            Some(first) => self.range_from(first, name, tag),
        }
    }

    /// Returns the places of the lines of this name, the first of which is at `first`.
    fn range_from(&self, first: usize, name: &[u8], tag: NameTag) -> Range<usize> {
        let others = self.lines.get(first + 1..).unwrap_or_default().iter();
        let is_this = |line: &&FieldLine| line.tag == tag && line.name(&self.bytes) == name;
        first..first + 1 + others.take_while(is_this).count()
    }
}

impl FieldLine {
    /// Writes a field behind the others.
    fn written(into: &mut Vec<u8>, name: &HeaderName, value: &HeaderValue) -> Self {
        let start = into.len();
        let name = name.as_str().as_bytes();
        into.extend_from_slice(name);
        into.extend_from_slice(BEHIND_NAME);
        into.extend_from_slice(value.as_bytes());
        into.extend_from_slice(LINE_END);
        Self {
            name: place(start),
            value: place(start + name.len() + BEHIND_NAME.len()),
            value_length: place(value.len()),
            // The longest name of the http crate has as many bytes.
            name_length: u16::try_from(name.len()).unwrap_or(u16::MAX),
            tag: NameTag::new(name),
            is_as_written: true,
        }
    }

    #[inline]
    fn field(self, bytes: &[u8]) -> ReceivedField<'_> {
        let length = self.written_length();
        ReceivedField {
            name: FieldName::new(self.name(bytes)),
            value: self.value(bytes),
            line: (self.is_as_written).then(|| part(bytes, self.name, length)),
        }
    }

    #[inline]
    fn written_length(self) -> usize {
        // RFC 9112 §2.1: a field line is its name, a colon and a space, its value and the line end.
        let text = usize::from(self.name_length) + self.value_length as usize;
        text + BEHIND_NAME.len() + LINE_END.len()
    }

    #[inline]
    fn is_of_name(self, other: Self, bytes: &[u8]) -> bool {
        self.tag == other.tag && self.name(bytes) == other.name(bytes)
    }

    #[inline]
    fn name(self, bytes: &[u8]) -> &[u8] {
        part(bytes, self.name, usize::from(self.name_length))
    }

    #[inline]
    fn value(self, bytes: &[u8]) -> FieldValue<'_> {
        FieldValue::new(part(bytes, self.value, self.value_length as usize))
    }
}

/// Returns the length of a field's line.
fn line_length((name, value): (&HeaderName, &HeaderValue)) -> usize {
    name.as_str().len() + BEHIND_NAME.len() + value.len() + LINE_END.len()
}

/// Returns a place within the bytes. The largest stands for all beyond it: no head has 4 GiB.
fn place(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

#[inline]
fn part(bytes: &[u8], start: u32, length: usize) -> &[u8] {
    let start = start as usize;
    bytes.get(start..start + length).unwrap_or_default()
}

impl From<HeaderMap> for ReceivedFields {
    fn from(map: HeaderMap) -> Self {
        // Without a pass that counts the bytes: a long head is moved once or twice instead.
        let mut bytes = Vec::with_capacity(map.len() * USUAL_LINE);
        let mut fields = Self {
            lines: Vec::with_capacity(map.len()),
            ..Self::default()
        };
        // The lines of one name stand together in a map too.
        for (name, value) in &map {
            let line = FieldLine::written(&mut bytes, name, value);
            fields.names.add(line.tag);
            fields.lines.push(line);
        }
        fields.bytes = bytes.into();
        fields
    }
}

impl FromIterator<(HeaderName, HeaderValue)> for ReceivedFields {
    fn from_iter<T: IntoIterator<Item = (HeaderName, HeaderValue)>>(fields: T) -> Self {
        let mut bytes = Vec::new();
        let mut received = Self::default();
        for (name, value) in fields {
            let line = FieldLine::written(&mut bytes, &name, &value);
            received.push(line, &bytes);
        }
        received.bytes = bytes.into();
        received
    }
}

/// The values of one field, in order.
#[derive(Clone, Debug)]
pub struct FieldValues<'a> {
    bytes: &'a [u8],
    lines: std::slice::Iter<'a, FieldLine>,
}

impl<'a> Iterator for FieldValues<'a> {
    type Item = FieldValue<'a>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.lines.next().map(|line| line.value(self.bytes))
    }
}

impl DoubleEndedIterator for FieldValues<'_> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        self.lines.next_back().map(|line| line.value(self.bytes))
    }
}

#[cfg(test)]
mod tests;
