//! Writes heads as HTTP/1.1. The framing fields are written from the framing that was decided, never copied.

use http::header::{CONTENT_LENGTH, DATE, HeaderMap, HeaderName, HeaderValue, UPGRADE};
use http::{Method, StatusCode};
use sluicegate_http1::BodyFraming;

use super::field_sink::FieldSink;
use crate::http_date::with_http_date;
use sluicegate_origin::FieldChanges;

/// The fields by which a request asks for a WebSocket, RFC 6455 §4.1.
const WEBSOCKET_UPGRADE: &[u8] = b"connection: Upgrade\r\nupgrade: websocket\r\n";

/// The decision over a connection after a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionPersistence {
    /// It may carry another request.
    Keep,
    /// It ends with this response.
    Close,
    /// It carries another protocol after this response.
    Switch,
}

/// The head of a response for the client.
pub(super) struct ResponseParts<'a> {
    /// The status.
    pub(super) status: StatusCode,
    /// The reason, which may be empty.
    pub(super) reason: &'a [u8],
    /// The fields.
    pub(super) fields: HeaderMap,
}

/// The head of an answer on its way to the client.
pub struct AnswerHead<'a> {
    pub(super) parts: ResponseParts<'a>,
    pub(super) framing: BodyFraming,
    pub(super) persistence: ConnectionPersistence,
    /// Writes the fields that are not in the map.
    pub(super) write_others: WriteOthers<'a>,
}

/// Writes fields. Returns whether `Date` was among them.
pub(super) type WriteOthers<'a> = &'a dyn Fn(&mut dyn FieldSink) -> bool;

/// Writes nothing.
pub(super) const NO_OTHERS: WriteOthers<'static> = &|_| false;

/// The head of a request for an origin.
#[derive(Clone, Copy)]
pub(super) struct RequestParts<'a> {
    /// The method.
    pub(super) method: &'a Method,
    /// The target.
    pub(super) target: &'a [u8],
    /// The fields.
    pub(super) fields: &'a FieldChanges<'a>,
    /// True if it asks for an upgrade to WebSocket.
    pub(super) is_upgrade: bool,
}

/// Appends the head of a request to `into`.
pub(super) fn write_request(into: &mut Vec<u8>, head: RequestParts<'_>, framing: BodyFraming) {
    into.extend_from_slice(head.method.as_str().as_bytes());
    into.push(b' ');
    into.extend_from_slice(head.target);
    into.extend_from_slice(b" HTTP/1.1\r\n");
    for field in head.fields.left() {
        let name = field.name.as_bytes();
        match field.line {
            _ if is_written_anew(name) => {}
            Some(line) => into.extend_from_slice(line),
            None => write_field(into, name, field.value.as_bytes()),
        }
    }
    let added = head.fields.added().iter();
    write_fields(into, added.map(|(name, value)| (name, value)));
    if head.is_upgrade {
        into.extend_from_slice(WEBSOCKET_UPGRADE);
    }
    write_framing(into, framing);
    into.extend_from_slice(b"\r\n");
}

impl AnswerHead<'_> {
    /// Returns whether the head ends the answer.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        matches!(self.framing, BodyFraming::None | BodyFraming::Length(0))
            && !self.parts.status.is_informational()
    }

    /// Returns whether the bytes of another protocol follow.
    #[must_use]
    pub fn is_switch(&self) -> bool {
        self.parts.status == StatusCode::SWITCHING_PROTOCOLS
    }

    /// Returns whether the end of the connection ends the body, over HTTP/1, RFC 9112 §6.3.
    #[must_use]
    pub fn ends_with_connection(&self) -> bool {
        self.framing == BodyFraming::UntilClose
    }

    /// Returns whether another head follows.
    #[must_use]
    pub fn is_interim(&self) -> bool {
        self.parts.status.is_informational() && !self.is_switch()
    }

    /// Appends it as a head of HTTP/1.1 to `into`.
    pub fn write_http1(&self, into: &mut Vec<u8>) {
        if self.is_interim() {
            write_status_line(into, &self.parts);
            write_fields(into, self.parts.fields.iter());
            into.extend_from_slice(b"\r\n");
        } else {
            write_response(into, self);
        }
    }
}

/// Appends the head of a final response to `into`.
fn write_response(into: &mut Vec<u8>, answer: &AnswerHead<'_>) {
    let head = &answer.parts;
    let framing = answer.framing;
    write_status_line(into, head);
    let has_date = (answer.write_others)(into) || head.fields.contains_key(DATE);
    write_fields(into, head.fields.iter());
    if passes_length(head.status, framing)
        && let Some(length) = head.fields.get(CONTENT_LENGTH)
    {
        write_field(into, b"content-length", length.as_bytes());
    }
    write_framing(into, framing);
    if !has_date {
        // RFC 9110 §6.6.1: a recipient with a clock adds it.
        with_http_date(|date| write_field(into, b"date", date.as_bytes()));
    }
    into.extend_from_slice(match answer.persistence {
        ConnectionPersistence::Keep => b"connection: keep-alive",
        ConnectionPersistence::Close => b"connection: close",
        ConnectionPersistence::Switch => b"connection: Upgrade",
    });
    if head.status == StatusCode::UPGRADE_REQUIRED && head.fields.contains_key(UPGRADE) {
        // RFC 9110 §7.8: the sender of `Upgrade` names it in `Connection`.
        into.extend_from_slice(b", upgrade");
    }
    into.extend_from_slice(b"\r\n\r\n");
}

/// Returns whether a response without a body states the length of one, RFC 9110 §8.6: to HEAD and in a 304 it does, in a 204 and a 101 it
/// must not.
pub(super) fn passes_length(status: StatusCode, framing: BodyFraming) -> bool {
    framing == BodyFraming::None && status != StatusCode::NO_CONTENT && !status.is_informational()
}

fn write_status_line(into: &mut Vec<u8>, head: &ResponseParts<'_>) {
    into.extend_from_slice(b"HTTP/1.1 ");
    into.extend_from_slice(head.status.as_str().as_bytes());
    into.push(b' ');
    into.extend_from_slice(head.reason);
    into.extend_from_slice(b"\r\n");
}

/// Appends the fields, without those that frame the message and `Connection`.
fn write_fields<'f>(
    into: &mut Vec<u8>,
    fields: impl Iterator<Item = (&'f HeaderName, &'f HeaderValue)>,
) {
    for (name, value) in fields {
        let name = name.as_str().as_bytes();
        if !is_written_anew(name) {
            write_field(into, name, value.as_bytes());
        }
    }
}

/// Returns whether a field of this name is written from what was decided, if at all.
fn is_written_anew(name: &[u8]) -> bool {
    matches!(
        name,
        b"content-length" | b"transfer-encoding" | b"connection"
    )
}

fn write_framing(into: &mut Vec<u8>, framing: BodyFraming) {
    into.extend_from_slice(framing.field_line().as_ref());
}

/// Appends one field line.
pub(crate) fn write_field(into: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    into.reserve(name.len() + value.len() + 4);
    into.extend_from_slice(name);
    into.extend_from_slice(b": ");
    into.extend_from_slice(value);
    into.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use http::header::{CONNECTION, TRANSFER_ENCODING};
    use sluicegate_http1::{AnsweredMethod, HeadLimits, HeadProgress, ResponseHead};

    use super::*;

    /// Goal: what is written has the framing that was decided, whatever framing fields came in. Method: each framing, with both framing
    /// fields in the map, read by the parser; a length stays in answers to HEAD and in 304, and in no 204.
    #[test]
    fn the_written_framing_is_the_decided_one() {
        let limits = HeadLimits {
            bytes: 1024,
            fields: 8,
            target: 0,
        };
        let fields = HeaderMap::from_iter([
            (CONTENT_LENGTH, HeaderValue::from_static("7")),
            (TRANSFER_ENCODING, HeaderValue::from_static("gzip")),
            (CONNECTION, HeaderValue::from_static("x")),
        ]);
        for (status, framing, read, length) in [
            (200, BodyFraming::Length(5), BodyFraming::Length(5), true),
            (200, BodyFraming::Chunked, BodyFraming::Chunked, false),
            (200, BodyFraming::UntilClose, BodyFraming::UntilClose, false),
            (304, BodyFraming::None, BodyFraming::None, true),
            (204, BodyFraming::None, BodyFraming::None, false),
        ] {
            let parts = ResponseParts {
                status: StatusCode::from_u16(status).unwrap(),
                reason: b"",
                fields: fields.clone(),
            };
            let mut bytes = Vec::new();
            let answer = AnswerHead {
                parts,
                framing,
                persistence: ConnectionPersistence::Close,
                write_others: NO_OTHERS,
            };
            answer.write_http1(&mut bytes);
            let mut head = ResponseHead::new();
            let progress = head.parse(&bytes, &limits);
            assert_eq!(progress, Ok(HeadProgress::Whole(bytes.len())));
            assert_eq!(head.framing(AnsweredMethod::Other), read, "{status}");
            let has_length = head
                .fields()
                .iter(&bytes)
                .any(|field| field.is(b"content-length"));
            assert_eq!(has_length, length, "{status}");
        }
    }
}
