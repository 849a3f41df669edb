//! Makes the fields of an answer for HTTP/2: without those that it forbids (RFC 9113 §8.2.2), and with the length that was decided.

use std::iter;

use http::HeaderMap;
use http::header::{CONTENT_LENGTH, DATE};
use memchr::memchr;
use sluicegate_http1::{BodyFraming, is_hop_by_hop};

use super::head_writer::{AnswerHead, passes_length, write_field};
use crate::gateway::extended_connect::{OPENED, is_proof};
use crate::http_date::with_http_date;
use crate::thread_buffer::WriteBuffer;

/// The fields of an answer.
pub struct Http2Fields<'a> {
    status: u16,
    /// True if the answer opens a WebSocket.
    is_switch: bool,
    map: &'a HeaderMap,
    /// True if `Content-Length` of the map is one of them.
    has_length: bool,
    /// The lines of HTTP/1.1 of the others.
    lines: WriteBuffer,
}

impl<'a> Http2Fields<'a> {
    /// Returns the fields of an answer with this head.
    pub(super) fn new(head: &'a AnswerHead<'_>) -> Self {
        let map = &head.parts.fields;
        let status = head.parts.status;
        let mut lines = WriteBuffer::take();
        let has_date = (head.write_others)(&mut lines) || map.contains_key(DATE);
        if let BodyFraming::Length(bytes) = head.framing {
            let mut digits = itoa::Buffer::new();
            let digits = digits.format(bytes).as_bytes();
            write_field(&mut lines, CONTENT_LENGTH.as_str().as_bytes(), digits);
        }
        if !has_date && !head.is_interim() {
            // RFC 9110 §6.6.1: a recipient with a clock adds it.
            let name = DATE.as_str().as_bytes();
            with_http_date(|date| write_field(&mut lines, name, date.as_bytes()));
        }
        Self {
            status: match head.is_switch() {
                true => OPENED.as_u16(),
                false => status.as_u16(),
            },
            is_switch: head.is_switch(),
            map,
            has_length: passes_length(status, head.framing),
            lines,
        }
    }

    /// Returns the status.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Returns the names and values, names in lower case.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let of_map = self.map.iter().filter_map(|(name, value)| {
            let is_left_out = match name {
                &CONTENT_LENGTH => !self.has_length,
                name => is_hop_by_hop(name.as_str().as_bytes()),
            };
            (!is_left_out).then(|| (name.as_str().as_bytes(), value.as_bytes()))
        });
        let mut lines = self.lines.as_slice();
        let of_lines = iter::from_fn(move || {
            let (line, rest) = lines.split_at_checked(memchr(b'\n', lines)? + 1)?;
            lines = rest;
            Some(line)
        });
        let fields = of_map.chain(of_lines.filter_map(name_and_value));
        fields.filter(|(name, _)| !self.is_switch || !is_proof(name))
    }
}

/// Returns the name and the value of a line as the gateway writes it.
fn name_and_value(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let line = line.strip_suffix(b"\r\n")?;
    let (name, value) = line.split_at_checked(memchr(b':', line)?)?;
    Some((name, value.strip_prefix(b": ")?))
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue, StatusCode};

    use super::super::head_writer::{ConnectionPersistence, ResponseParts};
    use super::*;

    /// Returns the fields of an answer with these in its map and in its lines.
    fn fields(status: u16, map: &[(&str, &str)], lines: &str, framing: BodyFraming) -> String {
        let map = map.iter().map(|(name, value)| {
            let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
            (name, HeaderValue::from_str(value).unwrap())
        });
        let write_others = |into: &mut Vec<u8>| {
            into.extend_from_slice(lines.as_bytes());
            lines.contains("date: ")
        };
        let head = AnswerHead {
            parts: ResponseParts {
                status: StatusCode::from_u16(status).unwrap(),
                reason: b"",
                fields: map.collect(),
            },
            framing,
            persistence: ConnectionPersistence::Keep,
            write_others: &write_others,
        };
        let fields = head.http2_fields();
        let texts = fields.iter().map(|(name, value)| {
            let value = match name {
                b"date" => "now".into(),
                _ => String::from_utf8_lossy(value),
            };
            format!("{}={value}", String::from_utf8_lossy(name))
        });
        texts.collect::<Vec<_>>().join(" ")
    }

    /// Goal: RFC 9113 §8.2.2, no field of the connection passes; RFC 9110 §6.6.1 and §8.6, a final answer has one date and the length that
    /// was decided. Method: answers with fields in the map, in the lines, and in both.
    #[test]
    fn fields_are_those_of_http2() {
        let of_connection = [("connection", "x"), ("keep-alive", "1"), ("x-a", "1")];
        for (status, map, lines, framing, expected) in [
            (
                200,
                &of_connection[..],
                "",
                BodyFraming::Chunked,
                "x-a=1 date=now",
            ),
            (
                200,
                &[("content-length", "9")],
                "x-b: a: b\r\nx-c: \r\n",
                BodyFraming::Length(3),
                "x-b=a: b x-c= content-length=3 date=now",
            ),
            (
                200,
                &[("content-length", "9")],
                "",
                BodyFraming::UntilClose,
                "date=now",
            ),
            (
                304,
                &[("content-length", "9")],
                "date: x\r\n",
                BodyFraming::None,
                "content-length=9 date=now",
            ),
            (
                204,
                &[("content-length", "9")],
                "",
                BodyFraming::None,
                "date=now",
            ),
            (
                103,
                &[("link", "a"), ("date", "x")],
                "",
                BodyFraming::None,
                "link=a date=now",
            ),
            (103, &[("link", "a")], "", BodyFraming::None, "link=a"),
        ] {
            assert_eq!(
                fields(status, map, lines, framing),
                expected,
                "{status} {lines:?}"
            );
        }
    }
}
