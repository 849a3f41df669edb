//! Writes the fields of an answer for HTTP/2: without those that it forbids (RFC 9113 §8.2.2), and with the length that was decided.

use http::header::{CONTENT_LENGTH, DATE, HeaderName};
use sluicegate_http1::{BodyFraming, is_hop_by_hop};

use super::field_sink::FieldSink;
use super::head_writer::{AnswerHead, passes_length};
use crate::gateway::extended_connect::{OPENED, is_proof};
use crate::http_date::with_http_date;

impl AnswerHead<'_> {
    /// Returns the status as HTTP/2 has it.
    #[must_use]
    pub fn http2_status(&self) -> u16 {
        match self.is_switch() {
            true => OPENED.as_u16(),
            false => self.parts.status.as_u16(),
        }
    }

    /// Writes its fields as HTTP/2 has them, names in lower case.
    pub fn write_http2(&self, into: &mut dyn FieldSink) {
        let map = &self.parts.fields;
        for (name, value) in map {
            if self.is_http2_field(name) {
                into.write(name.as_str().as_bytes(), value.as_bytes());
            }
        }
        let has_date = (self.write_others)(into) || map.contains_key(DATE);
        if let BodyFraming::Length(bytes) = self.framing {
            let mut digits = itoa::Buffer::new();
            let digits = digits.format(bytes).as_bytes();
            into.write(CONTENT_LENGTH.as_str().as_bytes(), digits);
        }
        if !has_date && !self.is_interim() {
            // RFC 9110 §6.6.1: a recipient with a clock adds it.
            with_http_date(|date| into.write(DATE.as_str().as_bytes(), date.as_bytes()));
        }
    }

    /// Returns whether a field of this name in the map is one of the answer's over HTTP/2.
    fn is_http2_field(&self, name: &HeaderName) -> bool {
        if *name == CONTENT_LENGTH {
            return passes_length(self.parts.status, self.framing);
        }
        let name = name.as_str().as_bytes();
        !(is_hop_by_hop(name) || self.is_switch() && is_proof(name))
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderValue, StatusCode};

    use super::super::head_writer::{ConnectionPersistence, ResponseParts};
    use super::*;

    /// Returns the fields of an answer with these in its map and in its lines.
    fn fields(status: u16, map: &[(&str, &str)], lines: &str, framing: BodyFraming) -> String {
        let map = map.iter().map(|(name, value)| {
            let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
            (name, HeaderValue::from_str(value).unwrap())
        });
        let write_others = |into: &mut dyn FieldSink| {
            for line in lines.lines() {
                let (name, value) = line.split_once(": ").unwrap();
                into.write(name.as_bytes(), value.as_bytes());
            }
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
        let mut written = Vec::new();
        head.write_http2(&mut written);
        let written = String::from_utf8(written).unwrap();
        let texts = written.lines().map(|line| {
            let (name, value) = line.split_once(": ").unwrap();
            let value = match name {
                "date" => "now",
                _ => value,
            };
            format!("{name}={value}")
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
