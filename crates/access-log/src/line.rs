//! Owns what a line says of a request, as texts of that line; each format fills it in.

use std::fmt;
use std::net::IpAddr;

use arrayvec::ArrayVec;

use crate::field_selection::{FieldSelection, FieldSpelling};
use crate::skipped::SkippedKind;
use crate::text::RawText;

/// Named values of a line that are kept; a line with more is counted. Key, cost, refund and reserve of each of eight limits, and as many
/// request fields.
pub const MAX_FIELDS: usize = 64;

/// The request field with the chain of addresses, in lower case.
pub(crate) const FORWARDED_FOR: &[u8] = b"x-forwarded-for";

/// The schemes of targets in absolute form; a load balancer has the kind of the connection there.
const SCHEMES: [&[u8]; 6] = [b"http", b"https", b"ws", b"wss", b"h2", b"grpcs"];

const LONGEST_SCHEME: usize = 5;

/// The facts of a request in one line. What a line does not say is empty, zero or `None`.
#[derive(Debug, Default)]
pub struct ParsedLine<'a> {
    /// The time at which the request began, in nanoseconds since the Unix epoch.
    pub time: u64,
    /// The client's address.
    pub client: Option<IpAddr>,
    /// The other end of the connection, where the line tells it apart from the client.
    pub peer: Option<IpAddr>,
    /// The method.
    pub method: RawText<'a>,
    /// The host, with a port or without.
    pub host: RawText<'a>,
    /// Path and query.
    pub target: RawText<'a>,
    /// The query without its `?`, where the line has it apart from the path.
    pub query: RawText<'a>,
    /// The id of the request.
    pub id: RawText<'a>,
    /// The status of the response; 0 without one.
    pub status: u16,
    /// Bytes of the response.
    pub bytes: Option<u64>,
    /// The time from the begin of the request to its end, in nanoseconds.
    pub duration: Option<u64>,
    /// The time from the begin to the head of the response, in nanoseconds.
    pub first_byte: Option<u64>,
    /// The treatment of the request when it was logged.
    pub treatment: LoggedTreatment,
    /// The number of requests that it counted as, where the line says one; 0 only asked whether there is room.
    pub hits: Option<u32>,
    /// Lines that the log has left out before this one.
    pub left_out: u64,
    /// Values with names.
    pub fields: ArrayVec<ParsedField<'a>, MAX_FIELDS>,
    /// Values that should be in `fields`, which is full.
    pub cut_fields: u64,
    /// The request fields that are kept; `None` for all.
    selection: Option<&'a FieldSelection>,
    pub(crate) spelling: FieldSpelling,
}

/// The treatment of a request by the server that logged it, as far as its line says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LoggedTreatment {
    /// It was answered, by an origin or by the server.
    #[default]
    Answered,
    /// It was answered out of a cache.
    Cached,
    /// A proxy that asked for the decision may forward it; the line says nothing of its response.
    Allowed,
    /// A limit rejected it.
    Limited,
    /// It was rejected before any limit, since it broke a rule.
    Malformed,
}

/// A value with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParsedField<'a> {
    /// The kind of the value.
    pub kind: FieldKind,
    /// The name; of request fields in any case.
    pub name: RawText<'a>,
    /// The value.
    pub value: RawText<'a>,
}

/// The kind of a named value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FieldKind {
    /// A field of the request, by its name.
    RequestField,
    /// The hash of a key in hexadecimal digits, or the reason why the request has none, by the key's template.
    KeyHash,
    /// The units that a request was charged, by the name of the limit.
    Cost,
    /// A value about the crawler of the client, by the name of its field: `crawler`, `crawler_proof`.
    Crawler,
    /// The units that a request announced and that were held until its cost was known, by the name of the limit.
    Reserve,
}

impl<'a> ParsedLine<'a> {
    /// Returns an empty line that keeps the request fields of a selection.
    #[must_use]
    pub fn with_fields(selection: &'a FieldSelection) -> Self {
        Self {
            selection: Some(selection),
            ..Self::default()
        }
    }

    /// Returns whether some request field is kept.
    pub(crate) fn keeps_request_fields(&self) -> bool {
        self.selection.is_none_or(FieldSelection::has_any)
    }

    /// Adds a named value, unless it is a request field that is not kept.
    pub(crate) fn add(&mut self, kind: FieldKind, name: RawText<'a>, value: RawText<'a>) {
        let is_kept = kind != FieldKind::RequestField
            || (self.selection).is_none_or(|fields| fields.has(name.raw(), self.spelling));
        if !is_kept {
            return;
        }
        if (self.fields.try_push(ParsedField { kind, name, value })).is_err() {
            self.cut_fields += 1;
        }
    }

    /// Adds a field of the request, unless the line has `-` in its place.
    pub(crate) fn add_request_field(&mut self, name: &'static [u8], value: RawText<'a>) {
        if value.raw() != b"-" {
            self.add(FieldKind::RequestField, RawText::plain(name), value);
        }
    }

    /// Adds the chain of addresses that a proxy has sent.
    pub(crate) fn add_forwarded_for(&mut self, chain: RawText<'a>) {
        let name = match self.spelling {
            FieldSpelling::AsSent => FORWARDED_FOR,
            FieldSpelling::Variable => b"x_forwarded_for",
        };
        self.add(FieldKind::RequestField, RawText::plain(name), chain);
    }

    /// Fills in the parts of a request line, `GET /path HTTP/1.1`.
    pub(crate) fn set_request_line(&mut self, line: RawText<'a>) {
        let text = line.raw();
        let first = memchr::memchr(b' ', text).unwrap_or(text.len());
        let last = memchr::memrchr(b' ', text)
            .filter(|last| *last > first && text.get(last + 1..).is_some_and(is_protocol));
        self.method = line.part(0..first);
        self.target = line.part((first + 1).min(text.len())..last.unwrap_or(text.len()));
    }

    /// Takes scheme and authority off a target in absolute form (RFC 9112 §3.2.2), which names the host.
    pub(crate) fn split_absolute_target(&mut self) {
        let target = self.target.raw();
        if target.first() == Some(&b'/') {
            return;
        }
        let mark = memchr::memmem::find(target.get(..LONGEST_SCHEME + 3).unwrap_or(target), b"://");
        let scheme = mark.and_then(|at| target.get(..at));
        let Some(scheme) = scheme.filter(|scheme| SCHEMES.contains(scheme)) else {
            return;
        };
        let from = scheme.len() + 3;
        let authority = target.get(from..).unwrap_or_default();
        let length = memchr::memchr2(b'/', b'?', authority).unwrap_or(authority.len());
        self.host = self.target.part(from..from + length);
        self.target = self.target.part(from + length..target.len());
    }

    /// Returns whether the line says what was requested, or that it was malformed.
    pub(crate) fn names_resource(&self) -> bool {
        let target = self.target.raw();
        let is_star_or_authority = || {
            let method = self.method.raw();
            !target.is_empty() && matches!(method, b"OPTIONS" | b"CONNECT")
        };
        target.starts_with(b"/")
            || is_star_or_authority()
            || self.treatment == LoggedTreatment::Malformed
            || self.is_unreadable()
    }

    /// Returns whether the server says that it could not read the request: none came, or another protocol than HTTP.
    fn is_unreadable(&self) -> bool {
        let first = self.method.raw().first();
        let is_no_method = matches!(first, Some(b'-' | b'\\' | ..b' ' | 0x80..));
        matches!(self.status, 400 | 408) && is_no_method
    }

    /// Moves the begin of the request back by its duration: the line has the time of its end.
    pub(crate) fn count_time_from_end(&mut self) {
        self.time = self.time.saturating_sub(self.duration.unwrap_or(0));
    }
}

fn is_protocol(text: &[u8]) -> bool {
    text.starts_with(b"HTTP/")
}

/// The reason why a line is not a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineError {
    /// The line has another form than its format has; the text says where.
    Malformed(&'static str),
    /// The line is longer than [`MAX_LINE`](crate::MAX_LINE).
    TooLong,
    /// The time of the line is far from that of the lines around it.
    Misdated,
    /// The line is one of the log, but no request.
    NoRequest(SkippedKind),
}

impl fmt::Display for LineError {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(part) => write!(into, "{part}"),
            Self::TooLong => write!(into, "the line is longer than {} bytes", crate::MAX_LINE),
            Self::Misdated => into.write_str("the time is far from that of the lines around it"),
            Self::NoRequest(kind) => write!(into, "the line is no request: {}", kind.noun()),
        }
    }
}

impl std::error::Error for LineError {}
