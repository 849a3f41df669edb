//! Cuts the ranges that a client asked for from a body, RFC 9110 §14, while the body passes in pieces.
//!
//! Ranges that overlap or descend get the whole body, as do more than [`RANGES`](bounds::RANGES): a client that reads forward has no
//! use for them, and they cost more than they save (CVE-2011-3192).

use std::ops::Range;

use http::header::{
    ACCEPT_RANGES, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderMap,
    HeaderValue, IF_RANGE, LAST_MODIFIED, RANGE,
};
use http::{Method, StatusCode};
use sluicegate_base::bounds;
use sluicegate_base::received::{FieldValue, ReceivedFields};

/// The ranges that a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestedRanges {
    /// None, or none that are honored.
    Whole,
    /// None of the ranges is in the body.
    Unsatisfiable,
    /// These, in ascending order, each of at least one byte.
    Parts(Vec<Range<u64>>),
}

/// Returns the ranges that a request with this method and these fields asks for, of a response with `status` and a body of `length` bytes.
#[must_use]
pub fn requested(
    (method, request): (&Method, &ReceivedFields),
    (status, response): (StatusCode, &HeaderMap),
    length: u64,
) -> RequestedRanges {
    // RFC 9110 §14.2: GET alone has ranges, and a 200 alone is cut.
    if *method != Method::GET || status != StatusCode::OK {
        return RequestedRanges::Whole;
    }
    let mut lines = request.get_all(RANGE);
    let (Some(line), None) = (lines.next(), lines.next()) else {
        return RequestedRanges::Whole;
    };
    if (request.get(IF_RANGE)).is_some_and(|validator| !is_same(validator, response)) {
        return RequestedRanges::Whole;
    }
    line.to_str()
        .ok()
        .and_then(|line| parse(line, length))
        .unwrap_or(RequestedRanges::Whole)
}

/// Returns whether `If-Range` names this response, RFC 9110 §13.1.5. A weak tag names none.
fn is_same(validator: FieldValue<'_>, response: &HeaderMap) -> bool {
    let bytes = validator.as_bytes();
    if bytes.starts_with(b"W/") {
        return false;
    }
    let own = if bytes.starts_with(b"\"") {
        ETAG
    } else {
        LAST_MODIFIED
    };
    response.get(own).map(FieldValue::from) == Some(validator)
}

/// Parses `bytes=0-3,8-,-2`; `None` where it is malformed, or not honored.
fn parse(line: &str, length: u64) -> Option<RequestedRanges> {
    let (unit, set) = line.split_once('=')?;
    if !unit.trim().eq_ignore_ascii_case("bytes") || set.split(',').count() > bounds::RANGES {
        return None;
    }
    let mut parts: Vec<Range<u64>> = Vec::new();
    for spec in set
        .split(',')
        .map(str::trim)
        .filter(|spec| !spec.is_empty())
    {
        let Some(part) = part_of(spec, length)? else {
            continue;
        };
        if parts.last().is_some_and(|last| part.start < last.end) {
            return None;
        }
        parts.push(part);
    }
    Some(match parts.is_empty() {
        true => RequestedRanges::Unsatisfiable,
        false => RequestedRanges::Parts(parts),
    })
}

/// Returns the part of a body that one range asks for; `Some(None)` where that is not in the body, `None` where it is malformed.
#[expect(
    clippy::option_option,
    reason = "a range that is malformed and one that is not in the body have different effects"
)]
fn part_of(spec: &str, length: u64) -> Option<Option<Range<u64>>> {
    let (first, last) = spec.split_once('-')?;
    let first = number(first)?;
    let last = number(last)?;
    let part = match (first, last) {
        (Some(first), last) => {
            first
                ..last
                    .map_or(length, |last| last.saturating_add(1))
                    .min(length)
        }
        (None, Some(count)) => length.saturating_sub(count)..length,
        (None, None) => return Some(None),
    };
    Some((!part.is_empty()).then_some(part))
}

/// Returns a number of digits, `Some(None)` for none; one that is too large is larger than any body.
#[expect(
    clippy::option_option,
    reason = "no digits are not the same as other characters"
)]
fn number(digits: &str) -> Option<Option<u64>> {
    let digits = digits.trim();
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some((!digits.is_empty()).then(|| digits.parse().unwrap_or(u64::MAX)))
}

/// Ranges that are cut from a body while it passes.
#[derive(Debug)]
pub struct BodyRanges {
    parts: Vec<Range<u64>>,
    /// The index of the part that is passed, or comes next.
    at: usize,
    /// Bytes of the body that passed.
    position: u64,
    /// The lines between several parts.
    multipart: Option<MultipartLines>,
}

/// The lines between the parts of a `multipart/byteranges`, RFC 9110 §14.6.
#[derive(Debug)]
struct MultipartLines {
    boundary: String,
    content_type: Option<HeaderValue>,
    /// Bytes of the whole body.
    total: u64,
}

impl BodyRanges {
    /// Returns these parts of a body of `total` bytes with this type. `boundary` separates several parts, and must not be in the body.
    #[must_use]
    pub fn new(
        parts: Vec<Range<u64>>,
        total: u64,
        content_type: Option<&HeaderValue>,
        boundary: impl FnOnce() -> String,
    ) -> Self {
        let multipart = (parts.len() > 1).then(|| MultipartLines {
            boundary: boundary(),
            content_type: content_type.cloned(),
            total,
        });
        Self {
            parts,
            at: 0,
            position: 0,
            multipart,
        }
    }

    /// Returns the bytes that the client gets.
    #[must_use]
    pub fn length(&self) -> u64 {
        let data: u64 = self.parts.iter().map(|part| part.end - part.start).sum();
        let Some(lines) = &self.multipart else {
            return data;
        };
        let heads = self.parts.iter().map(|part| lines.before(part).len());
        data + heads.chain([lines.last().len()]).sum::<usize>() as u64
    }

    /// Returns whether the client has all of its bytes.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.at == self.parts.len()
    }

    /// Passes the bytes on that are in the next piece of the body.
    ///
    /// # Errors
    /// Those of `pass`.
    pub fn cut<E>(
        &mut self,
        piece: &[u8],
        mut pass: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let begin = self.position;
        self.position += piece.len() as u64;
        while let Some(part) = self.parts.get(self.at) {
            let from = part.start.max(begin);
            let to = part.end.min(self.position);
            if from >= to {
                return Ok(());
            }
            if let Some(lines) = self.multipart.as_ref().filter(|_| from == part.start) {
                pass(lines.before(part).as_bytes())?;
            }
            // Both are within the piece, so they fit.
            let at = |offset: u64| usize::try_from(offset - begin).unwrap_or(piece.len());
            pass(&piece[at(from)..at(to)])?;
            if to < part.end {
                return Ok(());
            }
            self.at += 1;
            if let Some(lines) = self.multipart.as_ref().filter(|_| self.is_over()) {
                pass(lines.last().as_bytes())?;
            }
        }
        Ok(())
    }

    /// Makes the fields of a 206 of those of the whole response.
    pub fn relabel(&self, fields: &mut HeaderMap, total: u64) {
        fields.remove(ACCEPT_RANGES);
        fields.insert(CONTENT_LENGTH, HeaderValue::from(self.length()));
        let (name, value) = match (&self.multipart, self.parts.first()) {
            (Some(lines), _) => {
                let text = format!("multipart/byteranges; boundary={}", lines.boundary);
                (CONTENT_TYPE, text)
            }
            (None, Some(part)) => (CONTENT_RANGE, content_range(part, total)),
            (None, None) => return,
        };
        // Digits, letters and punctuation.
        if let Ok(value) = HeaderValue::try_from(value) {
            fields.insert(name, value);
        }
    }
}

impl MultipartLines {
    fn before(&self, part: &Range<u64>) -> String {
        let kind = self
            .content_type
            .as_ref()
            .and_then(|kind| kind.to_str().ok());
        let kind = kind.unwrap_or("application/octet-stream");
        let boundary = &self.boundary;
        let range = content_range(part, self.total);
        format!("\r\n--{boundary}\r\nContent-Type: {kind}\r\nContent-Range: {range}\r\n\r\n")
    }

    fn last(&self) -> String {
        format!("\r\n--{}--\r\n", self.boundary)
    }
}

/// Returns the value of `Content-Range`, whose last byte is inclusive.
fn content_range(part: &Range<u64>, total: u64) -> String {
    format!("bytes {}-{}/{total}", part.start, part.end - 1)
}

/// Makes the fields of a 416 of those of the whole response.
pub fn relabel_unsatisfiable(fields: &mut HeaderMap, total: u64) {
    for name in [ACCEPT_RANGES, CONTENT_TYPE, CONTENT_ENCODING] {
        fields.remove(name);
    }
    fields.insert(CONTENT_LENGTH, HeaderValue::from(0));
    if let Ok(value) = HeaderValue::try_from(format!("bytes */{total}")) {
        fields.insert(CONTENT_RANGE, value);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parts(line: &str) -> Option<RequestedRanges> {
        parse(line, 10)
    }

    /// Goal: ranges mean what RFC 9110 §14 says. Method: each form, valid, malformed, and outside of a body of ten bytes.
    #[test]
    fn ranges_are_read_as_specified() {
        let some = |parts: &[(u64, u64)]| {
            let parts = parts.iter().map(|(first, end)| *first..*end);
            Some(RequestedRanges::Parts(parts.collect()))
        };
        for (line, expected) in [
            ("bytes=0-1", some(&[(0, 2)])),
            ("bYTes=0-9", some(&[(0, 10)])),
            ("bytes=0-12", some(&[(0, 10)])),
            ("bytes=8-", some(&[(8, 10)])),
            ("bytes=-2", some(&[(8, 10)])),
            ("bytes=-12", some(&[(0, 10)])),
            ("bytes=0-99999999999999999999999", some(&[(0, 10)])),
            ("bytes=0-0, 4-5 ,9-", some(&[(0, 1), (4, 6), (9, 10)])),
            ("bytes=0-1,20-", some(&[(0, 2)])),
            ("bytes=2-1", Some(RequestedRanges::Unsatisfiable)),
            ("bytes=10-11", Some(RequestedRanges::Unsatisfiable)),
            ("bytes=-0", Some(RequestedRanges::Unsatisfiable)),
            ("bytes=-", Some(RequestedRanges::Unsatisfiable)),
            ("bytes=", Some(RequestedRanges::Unsatisfiable)),
            ("bytes=0-3,2-5", None),
            ("bytes=4-5,0-1", None),
            ("bytes=+1-2", None),
            ("bytes=a-", None),
            ("bytes=1", None),
            ("bytes", None),
            ("lines=0-1", None),
        ] {
            assert_eq!(parts(line), expected, "{line}");
        }
        let many = vec!["0-0"; bounds::RANGES + 1].join(",");
        assert_eq!(parts(&format!("bytes={many}")), None);
    }

    proptest! {
        /// Goal: what passes does not depend on the pieces in which the body comes, and is as long as it was announced. Method: arbitrary
        /// ranges of a body, cut from the whole of it and from pieces.
        #[test]
        fn pieces_do_not_matter(
            bounds in prop::collection::btree_set(0_u64..=40, 2..8),
            pieces in prop::collection::vec(1_usize..12, 0..20),
        ) {
            let body: Vec<u8> = (0..40).collect();
            let ends: Vec<u64> = bounds.into_iter().collect();
            let parts: Vec<_> = ends.chunks_exact(2).map(|ends| ends[0]..ends[1]).collect();
            let ranges = || BodyRanges::new(parts.clone(), 40, None, || "b".to_owned());
            let (mut whole, mut joined) = (Vec::new(), Vec::new());
            let mut at_once = ranges();
            let cut = at_once.cut(&body, |bytes| {
                whole.extend_from_slice(bytes);
                Ok::<_, ()>(())
            });
            prop_assert!(cut.is_ok());
            let (mut in_pieces, mut rest) = (ranges(), &body[..]);
            for piece in pieces.into_iter().chain([body.len()]) {
                let (piece, behind) = rest.split_at(piece.min(rest.len()));
                let cut = in_pieces.cut(piece, |bytes| {
                    joined.extend_from_slice(bytes);
                    Ok::<_, ()>(())
                });
                prop_assert!(cut.is_ok());
                rest = behind;
            }
            prop_assert!(at_once.is_over() && in_pieces.is_over());
            prop_assert_eq!(whole.len() as u64, ranges().length());
            prop_assert_eq!(&whole, &joined);
            if let [part] = &parts[..] {
                let part = usize::try_from(part.start).unwrap()..usize::try_from(part.end).unwrap();
                prop_assert_eq!(&whole[..], &body[part]);
            }
        }
    }
}
