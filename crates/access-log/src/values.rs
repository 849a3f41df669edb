//! Owns the meanings that values of lines may have. Each format maps its own names to these, and the values are taken in one way.
//!
//! A line may have a value in several forms: the time of the begin and of the end, the path as it was sent and as a proxy rewrote it. So
//! values are collected first, and [`LineValues::finish`] chooses.

use std::net::IpAddr;

use crate::address::{client_address, last_address};
use crate::calendar::{CalendarPart, CalendarTime};
use crate::line::{FORWARDED_FOR, FieldKind, LineError, LoggedTreatment, ParsedLine};
use crate::text::RawText;
use crate::time;

/// The meaning of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValueMeaning {
    /// The address of the client, with a port or without.
    Client,
    /// The address of the other end of the connection, where the client is another.
    Peer,
    /// The chain of addresses in `X-Forwarded-For`, whose last one is the client where the line has no other.
    ForwardedFor,
    /// The time of the begin or of the end, in any form.
    Time(RequestEdge),
    /// A part of such a time.
    Calendar(RequestEdge, CalendarPart),
    /// The request line, `GET /path HTTP/1.1`; a method alone where it has no space.
    RequestLine,
    /// The method.
    Method,
    /// The host, with a port or without.
    Host,
    /// Path and query as the client sent them.
    Target,
    /// A path that the server may have rewritten; it counts where the line has no target.
    Path,
    /// The query, with its `?` or without.
    Query,
    /// The status of the response.
    Status,
    /// Bytes of the response.
    Bytes,
    /// The time from the begin to the end.
    Duration(DurationUnit),
    /// The time from the begin to the head of the response.
    FirstByte(DurationUnit),
    /// The id of the request.
    Id,
    /// The result of a lookup in a cache.
    CacheResult,
    /// The request field with this name.
    Field(&'static [u8]),
    /// A request field whose name is that of the value, behind so many bytes.
    FieldBehind(usize),
    /// Nothing that is read.
    Other,
}

/// The begin or the end of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum RequestEdge {
    #[default]
    Begin,
    End,
}

/// The unit of a duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DurationUnit {
    Seconds,
    Millis,
    Micros,
    Nanos,
}

/// Takes the values of one line.
#[derive(Debug)]
pub(crate) struct LineValues<'l, 'a> {
    into: &'l mut ParsedLine<'a>,
    begin: u64,
    end: u64,
    calendar: CalendarTime,
    calendar_edge: RequestEdge,
    path: RawText<'a>,
    forwarded: Option<IpAddr>,
    /// Set if the line has a place for a target, with a value or without.
    names_target: bool,
}

impl ValueMeaning {
    /// Returns whether the value begins with a path, and so with a slash.
    pub(crate) const fn is_path(self) -> bool {
        matches!(self, Self::Target | Self::Path)
    }

    /// Returns whether the value says which path was requested.
    pub(crate) const fn is_target(self) -> bool {
        matches!(self, Self::RequestLine | Self::Target | Self::Path)
    }
}

impl<'l, 'a> LineValues<'l, 'a> {
    pub(crate) fn new(into: &'l mut ParsedLine<'a>) -> Self {
        Self {
            into,
            begin: 0,
            end: 0,
            calendar: CalendarTime::default(),
            calendar_edge: RequestEdge::Begin,
            path: RawText::default(),
            forwarded: None,
            names_target: false,
        }
    }

    /// Takes a value with its name; an empty one and `-` are none.
    ///
    /// # Errors
    /// The value has not the form of its meaning.
    #[inline]
    pub(crate) fn set(
        &mut self,
        meaning: ValueMeaning,
        name: &'a [u8],
        value: RawText<'a>,
    ) -> Result<(), LineError> {
        self.names_target |= meaning.is_target();
        let raw = value.raw();
        if matches!(raw, b"-" | b"") {
            return Ok(());
        }
        let into = &mut *self.into;
        match meaning {
            ValueMeaning::Client => match client_address(raw) {
                Some(client) => into.client = Some(client),
                // Servers behind a proxy may write its `X-Forwarded-For` there.
                None => {
                    let last = last_address(raw);
                    into.client =
                        Some(last.ok_or(LineError::Malformed("the client is not an address"))?);
                    into.add_forwarded_for(value);
                }
            },
            ValueMeaning::Peer => into.peer = client_address(raw),
            ValueMeaning::ForwardedFor => {
                self.forwarded = last_address(raw);
                into.add_forwarded_for(value);
            }
            ValueMeaning::Time(edge) => {
                // A line without another time is malformed.
                if let Some(time) = time::in_any_form(raw) {
                    self.set_time(edge, time);
                }
            }
            ValueMeaning::Calendar(edge, part) => {
                self.calendar_edge = edge;
                (self.calendar.set(part, raw))
                    .ok_or(LineError::Malformed("the time is malformed"))?;
            }
            ValueMeaning::RequestLine if memchr::memchr(b' ', raw).is_none() => into.method = value,
            ValueMeaning::RequestLine => into.set_request_line(value),
            ValueMeaning::Method => into.method = value,
            ValueMeaning::Host if into.host.is_empty() => into.host = value,
            ValueMeaning::Target => into.target = value,
            ValueMeaning::Path => self.path = value,
            ValueMeaning::Query => {
                let from = usize::from(raw.starts_with(b"?"));
                into.query = value.part(from..raw.len());
            }
            ValueMeaning::Status => {
                let status = time::number(raw).and_then(|status| u16::try_from(status).ok());
                into.status = status.ok_or(LineError::Malformed("the status is not a number"))?;
            }
            ValueMeaning::Bytes => into.bytes = time::number(raw),
            // Whole seconds do not replace a finer duration.
            ValueMeaning::Duration(unit) if !(unit.is_seconds() && into.duration.is_some()) => {
                into.duration = unit.nanos(raw);
            }
            ValueMeaning::FirstByte(unit) => into.first_byte = unit.nanos(raw),
            ValueMeaning::Id => into.id = value,
            ValueMeaning::CacheResult => {
                if raw
                    .get(..3)
                    .is_some_and(|begin| begin.eq_ignore_ascii_case(b"hit"))
                {
                    into.treatment = LoggedTreatment::Cached;
                }
            }
            ValueMeaning::Field(name) => into.add_request_field(name, value),
            // Servers replace the values of secret fields so.
            ValueMeaning::FieldBehind(_) if raw == b"REDACTED" => {}
            ValueMeaning::FieldBehind(prefix) => {
                let name = name.get(prefix..).unwrap_or_default();
                if into.spelling.is(name, FORWARDED_FOR) {
                    self.forwarded = last_address(raw);
                }
                into.add(FieldKind::RequestField, RawText::plain(name), value);
            }
            ValueMeaning::Host | ValueMeaning::Duration(_) | ValueMeaning::Other => {}
        }
        Ok(())
    }

    /// Takes a time; one with a fraction of a second replaces another.
    pub(crate) fn set_time(&mut self, edge: RequestEdge, time: u64) {
        if self.time(edge) > 0 && time.is_multiple_of(time::SECOND) {
            return;
        }
        match edge {
            RequestEdge::Begin => self.begin = time,
            RequestEdge::End => self.end = time,
        }
    }

    /// Returns the time of an edge; 0 where it is not known.
    const fn time(&self, edge: RequestEdge) -> u64 {
        match edge {
            RequestEdge::Begin => self.begin,
            RequestEdge::End => self.end,
        }
    }

    /// Returns whether the line has a place for a target, with a value or without.
    pub(crate) const fn names_target(&self) -> bool {
        self.names_target
    }

    /// Returns whether the line says what was requested.
    pub(crate) const fn has_target(&self) -> bool {
        !self.into.target.is_empty() || !self.path.is_empty()
    }

    /// Chooses among the values that mean the same.
    pub(crate) fn finish(mut self) {
        if let Some(time) = self.calendar.nanos() {
            self.set_time(self.calendar_edge, time);
        }
        let into = self.into;
        if into.target.is_empty() {
            into.target = self.path;
        }
        if !into.query.is_empty() && memchr::memchr(b'?', into.target.raw()).is_some() {
            // The line has the query twice: `$request_uri` and `$args`.
            into.query = RawText::default();
        }
        into.client = into.client.or(self.forwarded).or(into.peer);
        if self.begin == 0 {
            into.time = self.end;
            into.count_time_from_end();
            return;
        }
        into.time = self.begin;
        if into.duration.is_none() && self.end > 0 {
            into.duration = Some(self.end.saturating_sub(self.begin));
        }
    }
}

impl DurationUnit {
    const fn is_seconds(self) -> bool {
        matches!(self, Self::Seconds)
    }

    /// Returns the nanoseconds of a number of this unit.
    fn nanos(self, digits: &[u8]) -> Option<u64> {
        let divisor = match self {
            Self::Seconds => 1,
            Self::Millis => 1_000,
            Self::Micros => 1_000_000,
            Self::Nanos => return time::number(digits),
        };
        time::seconds(digits).map(|nanos| nanos / divisor)
    }
}
