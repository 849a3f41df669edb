//! Writes heads as HTTP/1.1. The framing fields are written from the framing that was decided, never copied.

use http::header::{
    CONNECTION, CONTENT_LENGTH, DATE, HeaderMap, HeaderName, HeaderValue, TRANSFER_ENCODING,
};
use http::{Method, StatusCode};
use pingora::http::ResponseHeader;
use pingora::protocols::http::date::get_cached_date;
use sluicegate_http1::BodyFraming;

use crate::origin::FieldChanges;

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
#[derive(Clone, Copy)]
pub(super) struct ResponseParts<'a> {
    /// The status.
    pub(super) status: StatusCode,
    /// The reason, which may be empty.
    pub(super) reason: &'a [u8],
    /// The fields.
    pub(super) fields: &'a HeaderMap,
}

impl<'a> From<&'a ResponseHeader> for ResponseParts<'a> {
    fn from(head: &'a ResponseHeader) -> Self {
        Self {
            status: head.status,
            reason: head.get_reason_phrase().unwrap_or_default().as_bytes(),
            fields: &head.headers,
        }
    }
}

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
    write_fields(into, head.fields.iter());
    if head.is_upgrade {
        into.extend_from_slice(WEBSOCKET_UPGRADE);
    }
    write_framing(into, framing);
    into.extend_from_slice(b"\r\n");
}

/// Appends the head of a response to `into`; `write_others` appends the fields that are not in the map.
pub(super) fn write_response(
    into: &mut Vec<u8>,
    head: ResponseParts<'_>,
    framing: BodyFraming,
    persistence: ConnectionPersistence,
    write_others: impl FnOnce(&mut Vec<u8>),
) {
    write_status_line(into, head);
    write_others(into);
    write_fields(into, head.fields);
    if framing == BodyFraming::None
        && head.status != StatusCode::NO_CONTENT
        && !head.status.is_informational()
        && let Some(length) = head.fields.get(CONTENT_LENGTH)
    {
        // RFC 9110 §8.6: a response to HEAD and a 304 state the length of a body that they do not have, a 204 and a 101 must not.
        write_field(into, b"content-length", length.as_bytes());
    }
    write_framing(into, framing);
    if !head.fields.contains_key(DATE) {
        // RFC 9110 §6.6.1: a recipient with a clock adds it.
        write_field(into, b"date", get_cached_date().as_bytes());
    }
    let connection: &[u8] = match persistence {
        ConnectionPersistence::Keep => b"keep-alive",
        ConnectionPersistence::Close => b"close",
        ConnectionPersistence::Switch => b"Upgrade",
    };
    write_field(into, b"connection", connection);
    into.extend_from_slice(b"\r\n");
}

/// Appends the head of an interim response to `into`.
pub(super) fn write_interim(into: &mut Vec<u8>, head: ResponseParts<'_>) {
    write_status_line(into, head);
    write_fields(into, head.fields);
    into.extend_from_slice(b"\r\n");
}

fn write_status_line(into: &mut Vec<u8>, head: ResponseParts<'_>) {
    into.extend_from_slice(b"HTTP/1.1 ");
    into.extend_from_slice(head.status.as_str().as_bytes());
    into.push(b' ');
    into.extend_from_slice(head.reason);
    into.extend_from_slice(b"\r\n");
}

/// Appends the fields, without those that frame the message and `Connection`.
fn write_fields<'f>(
    into: &mut Vec<u8>,
    fields: impl IntoIterator<Item = (&'f HeaderName, &'f HeaderValue)>,
) {
    for (name, value) in fields {
        if ![CONTENT_LENGTH, TRANSFER_ENCODING, CONNECTION].contains(name) {
            write_field(into, name.as_str().as_bytes(), value.as_bytes());
        }
    }
}

fn write_framing(into: &mut Vec<u8>, framing: BodyFraming) {
    into.extend_from_slice(framing.field_line().as_ref());
}

/// Appends one field line.
pub(super) fn write_field(into: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    into.reserve(name.len() + value.len() + 4);
    into.extend_from_slice(name);
    into.extend_from_slice(b": ");
    into.extend_from_slice(value);
    into.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
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
                fields: &fields,
            };
            let mut bytes = Vec::new();
            write_response(
                &mut bytes,
                parts,
                framing,
                ConnectionPersistence::Close,
                |_| {},
            );
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
