//! Gives the stages one view of the final head of a response, whose version may be HTTP/1.1 or HTTP/2.

use std::cell::RefCell;
use std::mem;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use http::header::{CONTENT_LENGTH, HeaderMap};
use http::{StatusCode, Version};
use sluicegate_http1::{
    AnsweredMethod, BodyFraming, ConnectionOptions, HeaderField, KnownField, ResponseHead,
};
use sluicegate_http2::ResponseHead as StreamHead;

use super::field_sink::FieldSink;
use super::response_split::{
    FieldHandling, MappedFields, ResponseLine, mapped_fields, parsed_lines, write_others,
};
use crate::gateway::http_versions::has_streams;
use sluicegate_cache::name_case::ReceivedNames;
use sluicegate_origin::request_failure::{RequestFailure, Result};

/// Heads that a thread keeps.
const SPARE_HEADS: usize = 16;

thread_local! {
    static SPARE: RefCell<Vec<ResponseHead>> = const { RefCell::new(Vec::new()) };
}

/// A head to be parsed, which goes back to its thread with its memory for fields.
pub(super) struct LentHead(ResponseHead);

impl LentHead {
    /// Returns a head of which nothing has been parsed.
    pub(super) fn take() -> Self {
        Self(SPARE.with_borrow_mut(Vec::pop).unwrap_or_default())
    }
}

impl Deref for LentHead {
    type Target = ResponseHead;

    fn deref(&self) -> &ResponseHead {
        &self.0
    }
}

impl DerefMut for LentHead {
    fn deref_mut(&mut self) -> &mut ResponseHead {
        &mut self.0
    }
}

impl Drop for LentHead {
    fn drop(&mut self) {
        let mut head = mem::take(&mut self.0);
        head.clear();
        // While its thread ends, it is freed.
        let _ = SPARE.try_with(|spare| {
            let mut spare = spare.borrow_mut();
            if spare.len() < SPARE_HEADS {
                spare.push(head);
            }
        });
    }
}

/// Returns the standard reason phrase of a status; empty where it has none.
pub(super) fn standard_reason(status: StatusCode) -> &'static [u8] {
    status.canonical_reason().unwrap_or_default().as_bytes()
}

/// The final head of a response.
pub(super) enum FinalHead {
    /// A parsed head of HTTP/1.1, and its length in the bytes that were read.
    Http1(LentHead, usize),
    /// A head of HTTP/2, and whether the response ends with it.
    Http2(StreamHead, bool),
}

impl FinalHead {
    /// Returns its length in the bytes that were read.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Http1(_, bytes) => *bytes,
            Self::Http2(..) => 0,
        }
    }

    pub(super) fn status(&self) -> Result<StatusCode> {
        status_of(match self {
            Self::Http1(head, _) => head.status(),
            Self::Http2(head, _) => head.status(),
        })
    }

    /// Returns the reason phrase; a response of HTTP/2 has none, and gets the standard one of its status.
    pub(super) fn reason<'r>(&self, read: &'r [u8], status: StatusCode) -> &'r [u8] {
        match self {
            Self::Http1(head, _) => head.reason(read),
            Self::Http2(..) => standard_reason(status),
        }
    }

    /// Returns the options of `Connection`, which HTTP/2 has not.
    pub(super) fn options(&self, read: &[u8]) -> ConnectionOptions {
        match self {
            Self::Http1(head, _) => ConnectionOptions::new(head.fields(), read),
            Self::Http2(..) => ConnectionOptions::default(),
        }
    }

    /// Returns the framing of the body for a client of this version: of HTTP/2 the length that is announced, if any. A stream that
    /// announces no byte and goes on has trailers, which only a client of HTTP/2 or HTTP/3 gets: the head does not end its answer.
    pub(super) fn framing(&self, method: AnsweredMethod, client: Version) -> BodyFraming {
        match self {
            Self::Http1(head, _) => head.framing(method),
            Self::Http2(head, _) if has_no_body(head.status(), method) => BodyFraming::None,
            Self::Http2(_, true) => BodyFraming::Length(0),
            Self::Http2(head, _) => match head.content_length() {
                Some(0) if has_streams(client) => BodyFraming::UntilClose,
                Some(bytes) => BodyFraming::Length(bytes),
                None => BodyFraming::UntilClose,
            },
        }
    }

    /// Returns the framing by which the body is read: a stream ends by itself, also one whose length was announced.
    pub(super) fn received_framing(&self, framing: BodyFraming) -> BodyFraming {
        match (self, framing) {
            (Self::Http2(..), BodyFraming::Length(1..)) => BodyFraming::UntilClose,
            _ => framing,
        }
    }

    /// Returns whether the connection may carry another request.
    pub(super) fn keeps_connection(&self, options: ConnectionOptions) -> bool {
        match self {
            Self::Http1(head, _) => options.keeps_connection(head.version()),
            Self::Http2(..) => false,
        }
    }

    /// Returns the time for which the server keeps the connection idle, where it announces one, as Node and Apache do:
    /// `Keep-Alive: timeout=5`.
    pub(super) fn announced_idle(&self, read: &[u8]) -> Option<Duration> {
        let Self::Http1(head, _) = self else {
            return None;
        };
        let mut fields = head.fields().iter(read);
        let field = fields.find(|field| field.known() == KnownField::KeepAlive)?;
        announced_timeout(field.value)
    }

    /// Returns the fields that become a header map.
    pub(super) fn mapped_fields(&self, read: &[u8], mapped: MappedFields) -> HeaderMap {
        match self {
            Self::Http1(head, _) => mapped_fields(head.fields().iter(read), mapped),
            Self::Http2(head, _) => mapped_fields(stream_fields(head), mapped),
        }
    }

    /// Writes the other fields, and `Content-Length` by this handling. Returns whether `Date` is among them.
    pub(super) fn write_others(
        &self,
        into: &mut dyn FieldSink,
        read: &[u8],
        mapped: MappedFields,
        length: FieldHandling,
    ) -> bool {
        match self {
            Self::Http1(head, _) => write_others(into, parsed_lines(head, read), mapped, length),
            Self::Http2(head, _) => {
                let fields = stream_fields(head);
                let lines = fields.map(|field| ResponseLine { field, line: None });
                write_others(into, lines, mapped, length)
            }
        }
    }

    /// Returns the names as they were received, for a client that distinguishes their case; over HTTP/2 all are in lower case.
    pub(super) fn names(&self, read: &[u8]) -> ReceivedNames {
        match self {
            Self::Http1(head, _) => ReceivedNames::new(head.fields(), read),
            Self::Http2(..) => ReceivedNames::default(),
        }
    }
}

/// Returns the seconds that a value of `Keep-Alive` has as its `timeout`.
fn announced_timeout(value: &[u8]) -> Option<Duration> {
    let text = std::str::from_utf8(value).ok()?;
    let seconds = text.split(',').find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        (name.trim().eq_ignore_ascii_case("timeout")).then(|| value.trim())
    });
    seconds?.parse().ok().map(Duration::from_secs)
}

/// Returns the fields of a head of HTTP/2.
pub(super) fn stream_fields(head: &StreamHead) -> impl Iterator<Item = HeaderField<'_>> {
    let fields = head.fields().iter();
    fields.map(|(name, value)| HeaderField::new(name, value))
}

/// Returns the length of the body that a response to GET has, as far as its head states it.
pub(super) fn stated_length(framing: BodyFraming, fields: &HeaderMap) -> Option<u64> {
    match framing {
        BodyFraming::Length(bytes) => Some(bytes),
        // RFC 9110 §8.6: the field of a response to HEAD has the length of that to GET.
        BodyFraming::None | BodyFraming::Chunked | BodyFraming::UntilClose => length_field(fields),
    }
}

fn length_field(fields: &HeaderMap) -> Option<u64> {
    fields.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Returns whether a response has no body whatever it announces, RFC 9110 §6.4.1.
fn has_no_body(status: u16, method: AnsweredMethod) -> bool {
    method == AnsweredMethod::Head || matches!(status, 204 | 304)
}

/// Returns the status of a head.
pub(super) fn status_of(number: u16) -> Result<StatusCode> {
    // That of a head is from 100 to 999.
    StatusCode::from_u16(number).map_err(RequestFailure::internal)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the timeout of `Keep-Alive` is read as servers write it, and nothing else is one. Method: values of Node, Apache and
    /// others, and slips.
    #[test]
    fn a_timeout_is_read_as_servers_write_it() {
        for (value, seconds) in [
            ("timeout=5", Some(5)),
            ("timeout=5, max=100", Some(5)),
            ("max=100 , Timeout = 72", Some(72)),
            ("timeout=0", Some(0)),
            ("", None),
            ("5", None),
            ("max=5", None),
            ("timeout=", None),
            ("timeout=-1", None),
            ("timeout=1.5", None),
            ("timeout=99999999999999999999", None),
        ] {
            let found = announced_timeout(value.as_bytes());
            assert_eq!(found, seconds.map(Duration::from_secs), "{value}");
        }
        assert_eq!(announced_timeout(b"timeout=\xff"), None);
    }
}
