//! Decides whether a list of fields is the head of a response, RFC 9113 §8.3.2, and owns the head.

use bytes::BytesMut;

use crate::field_lines::FieldLines;
use crate::field_rules::content_length;
use crate::hpack::{DecodedField, FieldPlaces};
use crate::violation::RuleViolation;

/// Fields for which there is room: those of most answers are about as many.
const USUAL_FIELDS: usize = 16;

/// The method of a request, as far as the content of its response depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestedContent {
    /// HEAD: none.
    Nothing,
    /// CONNECT: a tunnel, if it succeeds.
    Tunnel,
    /// Any other method.
    Representation,
}

impl RequestedContent {
    pub(crate) fn from_method(method: &[u8]) -> Self {
        match method {
            b"HEAD" => Self::Nothing,
            b"CONNECT" => Self::Tunnel,
            _ => Self::Representation,
        }
    }
}

/// The head of a response that keeps the rules, interim or final.
#[derive(Debug, Default)]
pub struct ResponseHead {
    fields: FieldLines,
    status: u16,
    content_length: Option<u64>,
}

impl ResponseHead {
    /// Returns `:status`, from 100 to 999 without 101.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Returns whether another head follows, RFC 9110 §15.2.
    #[must_use]
    pub fn is_interim(&self) -> bool {
        self.status < 200
    }

    /// Returns the length that Content-Length announces, which a response without content may have.
    #[must_use]
    pub fn content_length(&self) -> Option<u64> {
        self.content_length
    }

    /// Returns the fields.
    #[must_use]
    pub fn fields(&self) -> &FieldLines {
        &self.fields
    }

    /// Returns the number of bytes that DATA of a final response must have; `None` where nothing says it.
    pub(crate) fn body_length(&self, requested: RequestedContent) -> Option<u64> {
        match (requested, self.status) {
            // RFC 9113 §8.1.1: there is no content, whatever Content-Length says.
            (RequestedContent::Nothing, _) | (_, 204 | 304) => Some(0),
            // RFC 9110 §9.3.6: Content-Length of a tunnel is ignored.
            (RequestedContent::Tunnel, 200..=299) => None,
            _ => self.content_length,
        }
    }
}

/// Gathers the fields of a response while its block is decoded.
#[derive(Debug, Default)]
pub(crate) struct ResponseBuilder {
    head: ResponseHead,
    violation: Option<RuleViolation>,
}

impl ResponseBuilder {
    /// Returns a head without a field, with room for those that most responses have.
    pub(crate) fn new() -> Self {
        let mut builder = Self::default();
        builder.head.fields.places.reserve(USUAL_FIELDS);
        builder
    }

    /// Adds a field that was decoded.
    pub(crate) fn add(&mut self, bytes: &BytesMut, field: DecodedField) {
        let violation = self.violation.or(field.violation);
        self.violation = violation.or_else(|| self.try_add(bytes, field.places).err());
    }

    #[inline]
    fn try_add(&mut self, bytes: &BytesMut, places: FieldPlaces) -> Result<(), RuleViolation> {
        let name = bytes.get(places.name.clone()).unwrap_or_default();
        let value = bytes.get(places.value.clone()).unwrap_or_default();
        let head = &mut self.head;
        match name {
            // RFC 9113 §8.3: once, and in front of all fields.
            b":status" if head.status == 0 && head.fields.is_empty() => {
                head.status = status(value)?;
                return Ok(());
            }
            [b':', ..] => return Err(RuleViolation::PseudoField),
            b"content-length" => {
                let length = content_length(value)?;
                // RFC 9110 §8.6: lines that say the same may be taken for one.
                if head.content_length.is_some_and(|first| first != length) {
                    return Err(RuleViolation::ContentLength);
                }
                head.content_length = Some(length);
            }
            _ => {}
        }
        head.fields.places.push(places);
        Ok(())
    }

    /// Returns the head, which lies in these bytes.
    ///
    /// # Errors
    /// The head breaks a rule.
    pub(crate) fn finish(self, bytes: BytesMut) -> Result<ResponseHead, RuleViolation> {
        if let Some(violation) = self.violation {
            return Err(violation);
        }
        let mut head = self.head;
        head.fields.bytes = bytes;
        // RFC 9113 §8.3.2.
        match head.status {
            0 => Err(RuleViolation::Status),
            _ => Ok(head),
        }
    }
}

/// Returns the number of a status.
fn status(value: &[u8]) -> Result<u16, RuleViolation> {
    match value {
        // RFC 9113 §8.6: nothing is upgraded.
        b"101" => Err(RuleViolation::Status),
        // RFC 9110 §15: three digits.
        [b'1'..=b'9', b'0'..=b'9', b'0'..=b'9'] => {
            let digits = value.iter().map(|digit| u16::from(*digit - b'0'));
            Ok(digits.fold(0, |number, digit| 10 * number + digit))
        }
        _ => Err(RuleViolation::Status),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hpack::{FieldDecoder, write_field};

    /// Returns the head of a response with these fields, one a line.
    fn head(lines: &str) -> Result<ResponseHead, RuleViolation> {
        let mut block = Vec::new();
        for line in lines.lines() {
            let at = line[1..].find(':').unwrap() + 1;
            let line = line.as_bytes();
            write_field(&line[..at], &line[at + 1..], &mut block);
        }
        let mut bytes = BytesMut::new();
        let mut builder = ResponseBuilder::new();
        let mut decoder = FieldDecoder::new(4096);
        let decoded = decoder.decode(&block, &mut bytes, |bytes, field| builder.add(bytes, field));
        decoded.unwrap();
        builder.finish(bytes)
    }

    /// Goal: the parts of a head are found, and its lines are those of HTTP/1.1. Method: one with a length, and an interim one.
    #[test]
    fn the_parts_of_a_head_are_found() {
        let found = head(":status:404\ncontent-length:7\nset-cookie:a=b").unwrap();
        assert_eq!((found.status(), found.content_length()), (404, Some(7)));
        assert!(!found.is_interim());
        assert_eq!(found.fields().len(), 2);
        let (bytes, places) = found.fields.into_parts();
        let lines = b"content-length: 7\r\nset-cookie: a=b\r\n";
        assert_eq!(bytes[places[0].name.start..], lines[..]);
        assert!(head(":status:103\nlink:</a>").unwrap().is_interim());
    }

    /// Goal: each rule rejects, and responses that keep them pass. Method: heads on both sides of each rule.
    #[test]
    fn each_rule_has_two_sides() {
        use RuleViolation::{
            ConnectionField, ContentLength, FieldName, FieldValue, PseudoField, Status,
        };
        for (lines, violation) in [
            (":status:200", None),
            (":status:999", None),
            (":status:200\ncontent-length:1\ncontent-length:1", None),
            ("server:a", Some(Status)),
            (":status:", Some(Status)),
            (":status:99", Some(Status)),
            (":status:099", Some(Status)),
            (":status:2000", Some(Status)),
            (":status:20x", Some(Status)),
            (":status:101", Some(Status)),
            (":status:200\n:status:200", Some(PseudoField)),
            ("server:a\n:status:200", Some(PseudoField)),
            (":status:200\n:path:/", Some(PseudoField)),
            (":status:200\nServer:a", Some(FieldName)),
            (":status:200\nserver: a", Some(FieldValue)),
            (":status:200\nserver:a\nb:c\rd", Some(FieldValue)),
            (":status:200\nconnection:close", Some(ConnectionField)),
            (
                ":status:200\ntransfer-encoding:chunked",
                Some(ConnectionField),
            ),
            (":status:200\ncontent-length:1, 1", Some(ContentLength)),
            (
                ":status:200\ncontent-length:1\ncontent-length:2",
                Some(ContentLength),
            ),
        ] {
            assert_eq!(head(lines).err(), violation, "{lines:?}");
        }
    }

    /// Goal: a body has the length that request and status say. Method: one of each kind, with a Content-Length.
    #[test]
    fn the_length_depends_on_request_and_status() {
        for (method, status, length) in [
            ("GET", 200, Some(7)),
            ("HEAD", 200, Some(0)),
            ("GET", 204, Some(0)),
            ("GET", 304, Some(0)),
            ("CONNECT", 200, None),
            ("CONNECT", 407, Some(7)),
        ] {
            let found = head(&format!(":status:{status}\ncontent-length:7")).unwrap();
            let requested = RequestedContent::from_method(method.as_bytes());
            assert_eq!(found.body_length(requested), length, "{method} {status}");
        }
    }
}
