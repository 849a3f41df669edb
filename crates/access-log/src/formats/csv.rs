//! Parses Cloudflare's Logpush as CSV: rows of values in the order of a header, which has the names of the members of its JSON.
//!
//! Logpush itself writes no header; the columns are those of `field_names` of its job. A row is read as RFC 4180 says, on one line.

use super::json_members::MemberNames;
use crate::line::{LineError, ParsedLine};
use crate::skipped::SkippedKind;
use crate::text::RawText;
use crate::values::{LineValues, ValueMeaning};

/// Most columns that are read.
const MAX_COLUMNS: usize = 256;

/// The meanings of the columns, as the latest header of a log said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CsvHeader(Vec<ValueMeaning>);

impl CsvHeader {
    /// Parses a line; a header sets the order of the columns.
    pub(crate) fn line<'a>(
        &mut self,
        line: &'a [u8],
        into: &mut ParsedLine<'a>,
    ) -> Result<(), LineError> {
        if is_header(line) {
            let names = row_values(line).take(MAX_COLUMNS);
            self.0 = names
                .map(|name| MemberNames::Cloudflare.meaning(name))
                .collect();
            return Err(LineError::NoRequest(SkippedKind::Comment));
        }
        let mut values = LineValues::new(into);
        for (meaning, value) in self.0.iter().zip(row_values(line)) {
            values.set(*meaning, b"", RawText::plain(value))?;
        }
        let has_target = values.has_target();
        values.finish();
        match has_target {
            true => Ok(()),
            false => Err(LineError::Malformed(
                "no line before it names a column with a path; write the `field_names` of the job as the first line",
            )),
        }
    }
}

/// Returns whether a line has the names of columns: each is one word, and one is that of the client's address.
fn is_header(line: &[u8]) -> bool {
    let is_name = |name: &[u8]| name.iter().all(u8::is_ascii_alphanumeric);
    row_values(line).any(|name| name == b"ClientIP") && row_values(line).all(is_name)
}

/// Returns the values of a row, without the quotes around them.
fn row_values(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(line);
    std::iter::from_fn(move || {
        let text = rest?;
        let end = match text.strip_prefix(b"\"") {
            Some(inside) => closing_quote(inside)? + 2,
            None => memchr::memchr(b',', text).unwrap_or(text.len()),
        };
        let (value, behind) = text.split_at_checked(end)?;
        rest = behind.strip_prefix(b",");
        let inside = value
            .strip_prefix(b"\"")
            .and_then(|value| value.strip_suffix(b"\""));
        Some(inside.unwrap_or(value))
    })
}

/// Returns the place of the quote that ends a value; two of them are one that belongs to it.
fn closing_quote(inside: &[u8]) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = from + memchr::memchr(b'"', inside.get(from..)?)?;
        if inside.get(at + 1) != Some(&b'"') {
            return Some(at);
        }
        from = at + 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::value;

    /// Goal: rows are read by their header, whatever its order. Method: values with commas and quotes, an empty one, a second header, and
    /// rows without one.
    #[test]
    fn rows_are_read_by_their_header() {
        let mut header = CsvHeader::default();
        let row = br#"192.0.2.1,GET,"/a?b=c,d","a ""b"" c",,1795245038,404"#;
        let orphan = header.line(row, &mut ParsedLine::default());
        assert!(matches!(orphan, Err(LineError::Malformed(_))), "{orphan:?}");
        for (names, row) in [
            (
                "ClientIP,ClientRequestMethod,ClientRequestURI,ClientRequestUserAgent,RayID,EdgeStartTimestamp,EdgeResponseStatus",
                &row[..],
            ),
            (
                "\"EdgeStartTimestamp\",\"ClientRequestURI\",\"ClientIP\",\"EdgeResponseStatus\"",
                br#""2026-11-21T07:10:38Z","/a?b=c,d","192.0.2.1",404"#,
            ),
        ] {
            let read = header.line(names.as_bytes(), &mut ParsedLine::default());
            assert_eq!(read, Err(LineError::NoRequest(SkippedKind::Comment)));
            let mut into = ParsedLine::default();
            header.line(row, &mut into).unwrap();
            assert_eq!(into.client, Some("192.0.2.1".parse().unwrap()), "{names}");
            assert_eq!(
                (into.time, into.status),
                (1_795_245_038_000_000_000, 404),
                "{names}"
            );
            assert_eq!(value(into.target), "/a?b=c,d");
        }
    }

    proptest::proptest! {
        /// Goal: no bytes panic or are read for ever. Method: bytes out of the alphabet of rows.
        #[test]
        fn any_row_ends(text in "[\",a1/ ]{0,40}") {
            let line = text.as_bytes();
            let length: usize = row_values(line).map(<[u8]>::len).sum();
            proptest::prop_assert!(length <= line.len());
            let _ = CsvHeader(vec![ValueMeaning::Target; 3]).line(line, &mut ParsedLine::default());
        }
    }
}
