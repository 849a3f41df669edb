//! Owns the field lines of a head: where each name and each value lies in the received bytes.
//!
//! A field is four numbers, so a head can be kept, judged and written without a copy of it. The bytes stay with the caller, who
//! passes them to each method that returns some.

use std::ops::Range;

use crate::bytes::{LINE_END, is_token, is_value, name_length, text_length};
use crate::known_field::KnownField;
use crate::violation::RuleViolation;

/// A range of the received bytes. Heads have less than 4 GiB, [`crate::HeadLimits`] sees to that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ByteRange {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

impl ByteRange {
    /// Returns the range of so many bytes from `start`.
    pub(crate) fn new(start: usize, bytes: usize) -> Self {
        Self {
            start: position(start),
            end: position(start + bytes),
        }
    }

    /// Returns the bytes of this range.
    pub(crate) fn of_bytes(self, read: &[u8]) -> &[u8] {
        // Other bytes than those that were parsed are a mistake of the caller, which does not panic here.
        read.get(self.places()).unwrap_or_default()
    }

    pub(crate) fn len(self) -> usize {
        (self.end - self.start) as usize
    }

    fn places(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// Returns a position within a head. The largest stands for all beyond it, which no head that passes its limits has.
pub(crate) fn position(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

/// One field of a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderField<'a> {
    /// Its name, as sent: a token.
    pub name: &'a [u8],
    /// Its value, without the blanks around it.
    pub value: &'a [u8],
    known: KnownField,
}

impl<'a> HeaderField<'a> {
    /// Returns the field with this name and value.
    #[must_use]
    pub fn new(name: &'a [u8], value: &'a [u8]) -> Self {
        Self {
            name,
            value,
            known: KnownField::named(name),
        }
    }

    /// Returns the field that its name stands for.
    #[must_use]
    pub const fn known(&self) -> KnownField {
        self.known
    }

    /// Returns whether the field has this name, which is in lower case.
    #[must_use]
    pub fn is(&self, name: &[u8]) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }
}

/// The places of a field's name and value within a head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldPlaces {
    /// The name.
    pub name: Range<usize>,
    /// The value, without the blanks around it.
    pub value: Range<usize>,
    /// True if the line has one space in front of the value, no other blank around it, and ends in CR LF.
    pub is_usual: bool,
}

/// The places of a field's name and value, as they are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FieldRange {
    start: u32,
    name_end: u32,
    value: ByteRange,
    known: KnownField,
    is_usual: bool,
}

/// The field lines of a head, in the order in which they were sent.
#[derive(Clone, Debug, Default)]
pub struct FieldLines {
    ranges: Vec<FieldRange>,
    /// Fields beyond the limit, which are judged and not kept.
    surplus: usize,
    /// The end of the last line.
    end: u32,
}

/// Fields for which there is room from the beginning, and for which it is kept between two messages: 1 KiB.
const USUAL_FIELDS: usize = 64;

impl FieldLines {
    /// Returns the number of fields.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ranges.len() + self.surplus
    }

    /// Returns whether there is no field.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns a field of the head in `read`; `None` where there are fewer.
    #[must_use]
    pub fn get<'a>(&self, read: &'a [u8], index: usize) -> Option<HeaderField<'a>> {
        self.ranges.get(index).map(|range| range.field(read))
    }

    /// Returns the fields of the head in `read`, in order.
    pub fn iter<'a>(&self, read: &'a [u8]) -> impl Iterator<Item = HeaderField<'a>> {
        self.ranges.iter().map(|range| range.field(read))
    }

    /// Returns the places of each field's name and value within the head, in order.
    pub fn places(&self) -> impl ExactSizeIterator<Item = FieldPlaces> {
        let ranges = self.ranges.iter();
        ranges.map(|range| FieldPlaces {
            name: range.name().places(),
            value: range.value.places(),
            is_usual: range.is_usual,
        })
    }

    /// Returns the values of the fields of the head in `read` that are this one, in order.
    pub(crate) fn values<'a>(
        &self,
        read: &'a [u8],
        known: KnownField,
    ) -> impl Iterator<Item = &'a [u8]> {
        let named = self.ranges.iter().filter(move |range| range.known == known);
        named.map(|range| range.value.of_bytes(read))
    }

    /// Returns the lines of the fields that `keep` accepts, in order, with their line ends as sent: those of a response may be bare line
    /// feeds. Consecutive lines are one item, so that a
    /// head is written with few copies. `keep` is called once a field.
    ///
    /// # Example
    ///
    /// ```
    /// use sluicegate_http1::{HeadLimits, KnownField, RequestHead};
    ///
    /// # fn main() -> Result<(), sluicegate_http1::HeadError> {
    /// let read = b"GET / HTTP/1.1\r\nHost: a\r\nA: b\r\nConnection: close\r\nC: d\r\n\r\n";
    /// let mut head = RequestHead::new();
    /// head.parse(read, &HeadLimits { bytes: 1024, fields: 16, target: 64 })?;
    /// let kept = head.fields().kept_lines(read, |field| field.known() != KnownField::Connection);
    /// assert_eq!(kept.collect::<Vec<_>>(), [&b"Host: a\r\nA: b\r\n"[..], b"C: d\r\n"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn kept_lines<'a>(
        &self,
        read: &'a [u8],
        mut keep: impl FnMut(HeaderField<'a>) -> bool,
    ) -> impl Iterator<Item = &'a [u8]> {
        let mut next = 0;
        std::iter::from_fn(move || {
            let mut run = next..next;
            while let Some(field) = self.get(read, next) {
                next += 1;
                match keep(field) {
                    true => run.end = next,
                    false if run.is_empty() => run = next..next,
                    false => break,
                }
            }
            (!run.is_empty()).then(|| self.lines(read, run))
        })
    }

    /// Returns the line of a field of the head in `read`, with its end, if it has one space in front of the value, no other blank, and ends
    /// in CR LF, as nearly all lines do; `None` where it is written otherwise, or there are fewer fields.
    ///
    /// # Example
    ///
    /// ```
    /// use sluicegate_http1::{HeadLimits, RequestHead};
    ///
    /// # fn main() -> Result<(), sluicegate_http1::HeadError> {
    /// let read = b"GET / HTTP/1.1\r\nHost: a\r\nB:c\r\n\r\n";
    /// let mut head = RequestHead::new();
    /// head.parse(read, &HeadLimits { bytes: 1024, fields: 16, target: 64 })?;
    /// assert_eq!(head.fields().usual_line(read, 0), Some(&b"Host: a\r\n"[..]));
    /// assert_eq!(head.fields().usual_line(read, 1), None);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn usual_line<'a>(&self, read: &'a [u8], index: usize) -> Option<&'a [u8]> {
        let range = self.ranges.get(index).filter(|range| range.is_usual)?;
        let line = ByteRange {
            start: range.start,
            end: range.value.end.saturating_add(LINE_END.len() as u32),
        };
        Some(line.of_bytes(read))
    }

    /// Returns the bytes of the lines of some fields, with their line ends.
    pub(crate) fn lines<'a>(&self, read: &'a [u8], fields: Range<usize>) -> &'a [u8] {
        let begin_of = |index: usize| self.ranges.get(index).map_or(self.end, |range| range.start);
        let range = ByteRange {
            start: begin_of(fields.start),
            end: begin_of(fields.end),
        };
        range.of_bytes(read)
    }

    /// Adds the field of a line that begins at `start`, unless there are `most` already. Returns the place of its value.
    pub(crate) fn add(&mut self, line: FieldLine<'_>, start: usize, most: usize) -> ByteRange {
        let value_start = start + line.value_start;
        let range = FieldRange {
            start: position(start),
            name_end: position(start + line.field.name.len()),
            value: ByteRange::new(value_start, line.field.value.len()),
            known: line.field.known,
            is_usual: line.is_usual,
        };
        if self.ranges.len() < most {
            if self.ranges.capacity() == 0 {
                self.ranges.reserve(USUAL_FIELDS / 4);
            }
            self.ranges.push(range);
        } else {
            self.surplus += 1;
        }
        self.end = position(start + line.bytes);
        range.value
    }

    /// Forgets all fields.
    pub(crate) fn clear(&mut self) {
        self.ranges.clear();
        self.ranges.shrink_to(USUAL_FIELDS);
        self.surplus = 0;
        self.end = 0;
    }
}

impl FieldRange {
    fn name(self) -> ByteRange {
        ByteRange {
            start: self.start,
            end: self.name_end,
        }
    }

    fn field(self, read: &[u8]) -> HeaderField<'_> {
        HeaderField {
            name: self.name().of_bytes(read),
            value: self.value.of_bytes(read),
            known: self.known,
        }
    }
}

/// One field line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FieldLine<'a> {
    /// Its field.
    pub(crate) field: HeaderField<'a>,
    /// Bytes in front of the value.
    value_start: usize,
    /// Bytes of the line, with its end.
    pub(crate) bytes: usize,
    /// True if it has one space in front of the value, no other blank, and ends in CR LF.
    is_usual: bool,
}

impl<'a> FieldLine<'a> {
    /// Parses a line, which comes without its end, and has so many bytes with it.
    ///
    /// # Errors
    /// The line is folded, has no name, or contains a forbidden byte.
    pub(crate) fn parse(line: &'a [u8], bytes: usize) -> Result<Self, RuleViolation> {
        let end = line.iter().position(|&byte| !is_token(byte));
        let (name, value) = split(line, end.ok_or(RuleViolation::FieldName)?)?;
        // RFC 9110 §5.6.3: the other white space is of control characters, which a value has none of.
        let after = value.trim_ascii_start();
        let field = HeaderField::new(name, after.trim_ascii_end());
        Ok(Self {
            field,
            value_start: line.len() - after.len(),
            bytes,
            is_usual: value.strip_prefix(b" ") == Some(field.value)
                && bytes == line.len() + LINE_END.len(),
        })
    }

    /// Finds the line at the start of `rest` in one pass, if it is whole, right, and has no other white space than one space behind the
    /// colon. `None` leaves the judgment to [`parse`](Self::parse): nearly all lines are of this kind.
    pub(crate) fn find_usual(rest: &'a [u8]) -> Option<Self> {
        let (name, after) = rest.split_at_checked(name_length(rest)?)?;
        let is_usual = after.starts_with(b": ");
        let value_start = name.len() + 1 + usize::from(is_usual);
        let text = rest.get(value_start..)?;
        let (value, behind) = text.split_at_checked(text_length(text))?;
        let is_trimmed = !matches!(value, [b' ', ..] | [.., b' ']);
        (is_trimmed && behind.starts_with(LINE_END)).then(|| Self {
            field: HeaderField::new(name, value),
            value_start,
            bytes: value_start + value.len() + LINE_END.len(),
            is_usual,
        })
    }
}

/// Returns name and value of a field line, in which the byte at `end` is the first that a token may not contain.
fn split(line: &[u8], end: usize) -> Result<(&[u8], &[u8]), RuleViolation> {
    match line.split_at(end) {
        // RFC 9112 §5.2: a line that starts with a blank continues the previous one, which is obsolete.
        ([], [b' ' | b'\t', ..]) => Err(RuleViolation::FoldedField),
        // §5.1: no blank stands before the colon.
        ([], _) => Err(RuleViolation::FieldName),
        (name, [b':', value @ ..]) if is_value(value) => Ok((name, value)),
        (_, [b':', ..]) => Err(RuleViolation::FieldValue),
        _ => Err(RuleViolation::FieldName),
    }
}

/// Checks that further bytes can complete a field, or the end of the head.
pub(crate) fn check_beginning(line: &[u8]) -> Result<(), RuleViolation> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    match line.iter().position(|&byte| !is_token(byte)) {
        None => Ok(()),
        Some(end) => split(line, end).map(|_| ()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::head::{HeadLimits, HeadProgress};
    use crate::response::ResponseHead;

    /// Goal: names and values are those of the bytes, beyond the limit too. Method: three lines, of which two are kept.
    #[test]
    fn fields_are_ranges_of_the_bytes() {
        let read = b"A: b\r\nC:\t d e \r\nF:\r\n";
        let mut fields = FieldLines::default();
        for (start, line) in [(0, &b"A: b"[..]), (6, b"C:\t d e "), (16, b"F:")] {
            let line = FieldLine::parse(line, line.len() + 2).unwrap();
            fields.add(line, start, 2);
        }
        let found: Vec<_> = fields
            .iter(read)
            .map(|field| (field.name, field.value))
            .collect();
        assert_eq!(found, [(&b"A"[..], &b"b"[..]), (b"C", b"d e")]);
        let places: Vec<_> = fields.places().collect();
        let expected = [(0..1, 3..4, true), (6..7, 10..13, false)];
        let expected = expected.map(|(name, value, is_usual)| FieldPlaces {
            name,
            value,
            is_usual,
        });
        assert_eq!(places, expected);
        assert_eq!(fields.len(), 3);
        assert!(fields.get(read, 1).unwrap().is(b"c"));
        assert_eq!(fields.get(read, 2), None);
        assert_eq!(fields.get(b"", 1).unwrap().value, b"");
        fields.clear();
        assert!(fields.is_empty());
    }

    proptest! {
        /// Goal: the one pass finds what the parser finds, and only that. Method: lines that are nearly right, with bytes behind them.
        #[test]
        fn usual_lines_are_parsed_alike(
            line in "[a-c ]{0,9}[:;][ \\t]?[a-c \\t\\r\\x7f\u{e9}]{0,17}",
            end in "\r\n|\n|\r|",
            behind in "[a:\r\n]{0,9}",
        ) {
            let rest = [line.as_bytes(), end.as_bytes(), behind.as_bytes()].concat();
            if let Some(found) = FieldLine::find_usual(&rest) {
                let feed = rest.iter().position(|&byte| byte == b'\n').unwrap();
                prop_assert_eq!(Ok(found), FieldLine::parse(&rest[..feed - 1], feed + 1));
                prop_assert_eq!(found.bytes, feed + 1);
            }
        }

        /// Goal: a line that is copied whole is what writing name and value makes. Method: fields with blanks of each kind around values,
        /// empty ones too, and both line ends.
        #[test]
        fn usual_lines_are_those_that_are_written(
            lines in prop::collection::vec("[A-Za-z]{1,3}:[ \t]{0,2}[!-~]{0,3}[ \t]{0,2}\r?\n", 0..12),
        ) {
            const LIMITS: HeadLimits = HeadLimits { bytes: 1024, fields: 12, target: 0 };
            let read = ["HTTP/1.1 200\r\n", &lines.concat(), "\r\nbody"].concat();
            let (read, mut head) = (read.as_bytes(), ResponseHead::new());
            head.parse(read, &LIMITS).unwrap();
            for (index, (field, line)) in head.fields().iter(read).zip(&lines).enumerate() {
                let written = [field.name, b": ", field.value, b"\r\n"].concat();
                let is_usual = written == line.as_bytes();
                prop_assert_eq!(head.fields().usual_line(read, index), is_usual.then_some(&written[..]));
            }
        }

        /// Goal: the fields that are copied are those that are kept, in as few pieces as possible. Method: any fields, of which any
        /// are kept, copied into another head.
        #[test]
        fn kept_lines_are_parsed_as_meant(
            lines in prop::collection::vec(("[A-Za-z]{1,3}:[ \t]?[!-~]{0,3}[ \t]?\r\n", any::<bool>()), 0..12),
        ) {
            const START: &[u8] = b"HTTP/1.1 200\r\n";
            const LIMITS: HeadLimits = HeadLimits { bytes: 1024, fields: 12, target: 0 };
            let sent: String = lines.iter().map(|(line, _)| line.as_str()).collect();
            let read = [START, sent.as_bytes(), b"\r\nbody"].concat();
            let mut head = ResponseHead::new();
            prop_assert_eq!(head.parse(&read, &LIMITS), Ok(HeadProgress::Whole(read.len() - 4)));
            let mut is_kept = lines.iter().map(|(_, is_kept)| *is_kept);
            let runs: Vec<_> = head.fields().kept_lines(&read, |_| is_kept.next().unwrap()).collect();
            prop_assert_eq!(is_kept.next(), None);
            let kept: Vec<bool> = lines.iter().map(|(_, is_kept)| *is_kept).collect();
            prop_assert_eq!(runs.len(), kept.split(|is_kept| !is_kept).filter(|run| !run.is_empty()).count());

            let copied = [START, &runs.concat(), b"\r\n"].concat();
            let mut copy = ResponseHead::new();
            prop_assert_eq!(copy.parse(&copied, &LIMITS), Ok(HeadProgress::Whole(copied.len())));
            let expected: Vec<_> = head.fields().iter(&read).zip(&kept).filter(|(_, is_kept)| **is_kept).map(|(field, _)| field).collect();
            prop_assert_eq!(copy.fields().iter(&copied).collect::<Vec<_>>(), expected);
        }
    }
}
