//! Splits the head of an origin's response: the fields that stages read or write become a header map, the others are copied as bytes, and
//! those of the connection are dropped.

use std::mem;

use http::StatusCode;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use sluicegate_http1::{ConnectionOptions, HeaderField, KnownField, ResponseHead};

use super::field_sink::FieldSink;
use crate::gateway::context::Context;
use crate::gateway::forwarded::ForwardedRequest;
use sluicegate_origin::passes_upgrade;

/// The fields of a response that become a header map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MappedFields {
    /// None: the response has none of those that the gateway writes.
    None,
    /// Those that the gateway writes.
    Few,
    /// All: the charges of a limit, the edits of the route, or `Connection` may name any of them, or `Upgrade` passes.
    All,
}

impl MappedFields {
    /// Returns the fields that the stages need of a response with this status and these options.
    pub(super) fn needed(
        (status, options): (StatusCode, ConnectionOptions),
        forwarded: &ForwardedRequest,
        context: &Context,
    ) -> Self {
        let limits = &forwarded.route.compiled.limits;
        let names_fields = passes_upgrade(status)
            || options.others() > 0
            || !limits.confidential().is_empty()
            || context.shape().is_some()
            || forwarded.pool.rules.sticky.is_some()
            || forwarded.cached.is_some()
            || context.is_pending();
        match names_fields {
            true => Self::All,
            false => Self::Few,
        }
    }

    /// Returns the fields that are mapped of a response of which `found` of these are in the map.
    pub(super) fn found(self, found: usize) -> Self {
        match self {
            Self::Few if found == 0 => Self::None,
            _ => self,
        }
    }

    fn handling_of(self, field: &HeaderField<'_>) -> FieldHandling {
        if self == Self::All || self == Self::Few && is_written(field) {
            return FieldHandling::Mapped;
        }
        match field.known() {
            KnownField::ContentLength => FieldHandling::Dropped,
            known if known.is_hop_by_hop() => FieldHandling::Dropped,
            _ => FieldHandling::Copied,
        }
    }
}

/// A field of a response with its line.
pub(super) struct ResponseLine<'r> {
    pub(super) field: HeaderField<'r>,
    /// The line with its end, as HTTP/1.1 writes it, if it was received so.
    pub(super) line: Option<&'r [u8]>,
}

/// The handling of a field of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldHandling {
    /// It is part of the map.
    Mapped,
    /// It is copied to the client.
    Copied,
    /// It concerns the connection or the framing, which are written anew.
    Dropped,
}

/// Returns whether the gateway writes a field of this name.
pub(super) fn is_written(field: &HeaderField<'_>) -> bool {
    // None of the names that the parser knows is one of these.
    if field.known() != KnownField::Other {
        return false;
    }
    match field.name.len() {
        7 => field.is(b"alt-svc"),
        9 => field.is(b"ratelimit"),
        12 => field.is(b"x-request-id"),
        16 => field.is(b"ratelimit-policy"),
        25 => field.is(b"strict-transport-security") || is_x_rate_limit(field),
        _ => is_x_rate_limit(field),
    }
}

fn is_x_rate_limit(field: &HeaderField<'_>) -> bool {
    // The first letter first: most fields differ in it.
    if !matches!(field.name, [b'x' | b'X', ..]) {
        return false;
    }
    let beginning = field.name.get(..X_RATE_LIMIT.len());
    beginning.is_some_and(|beginning| beginning.eq_ignore_ascii_case(X_RATE_LIMIT))
}

/// The beginning of the names of the older fields about limits.
const X_RATE_LIMIT: &[u8] = b"x-ratelimit";

/// Returns those of the fields of a head that are mapped.
pub(super) fn mapped_fields<'r>(
    received: impl Iterator<Item = HeaderField<'r>>,
    mapped: MappedFields,
) -> HeaderMap {
    // Without memory, since mostly none of the origin's is mapped as one of few.
    let mut fields = HeaderMap::new();
    for field in received.filter(|field| mapped.handling_of(field) == FieldHandling::Mapped) {
        // A header map takes what is a token, and a value without control characters.
        let name = HeaderName::from_bytes(field.name);
        let value = HeaderValue::from_bytes(field.value);
        if let (Ok(name), Ok(value)) = (name, value) {
            fields.append(name, value);
        }
    }
    fields
}

/// Returns the fields of a parsed head with their lines.
pub(super) fn parsed_lines<'r>(
    parsed: &'r ResponseHead,
    read: &'r [u8],
) -> impl Iterator<Item = ResponseLine<'r>> {
    let fields = parsed.fields().iter(read).enumerate();
    fields.map(move |(index, field)| ResponseLine {
        field,
        line: parsed.fields().usual_line(read, index),
    })
}

/// Writes the other ones of these lines, and `Content-Length` by this handling. Returns whether `Date` is among them.
pub(super) fn write_others<'r>(
    into: &mut dyn FieldSink,
    lines: impl Iterator<Item = ResponseLine<'r>>,
    mapped: MappedFields,
    mut length: FieldHandling,
) -> bool {
    let mut has_date = false;
    for ResponseLine { field, line } in lines {
        let is_copied = match mapped.handling_of(&field) {
            FieldHandling::Copied => true,
            // RFC 9110 §8.6: lines that say the same are one.
            FieldHandling::Dropped => {
                field.known() == KnownField::ContentLength
                    && mem::replace(&mut length, FieldHandling::Dropped) == FieldHandling::Copied
            }
            FieldHandling::Mapped => false,
        };
        if is_copied {
            has_date |= field.known() == KnownField::Date;
            into.copy(&field, line);
        }
    }
    has_date
}

#[cfg(test)]
mod tests {
    use sluicegate_decide::response::{RATE_LIMIT, RATE_LIMIT_POLICY, XRateLimit};
    use sluicegate_http1::HeadLimits;

    use super::*;

    fn parsed(head: &str) -> ResponseHead {
        let limits = HeadLimits {
            bytes: 1024,
            fields: 32,
            target: 0,
        };
        let mut parsed = ResponseHead::new();
        parsed.parse(head.as_bytes(), &limits).unwrap();
        parsed
    }

    /// Goal: each field is in the map or copied, but for those of the connection. Method: fields of both kinds, mapped as few and all.
    #[test]
    fn every_field_is_mapped_or_copied() {
        let head = "HTTP/1.1 200 Fine\r\nETag: a\r\nDate: b\r\nSet-Cookie: c\r\nSet-Cookie: d\r\nX-RateLimit-Reset: 5\r\n\
            Connection: close\r\nContent-Length: 0\r\nKeep-Alive: e\r\nTE: f\r\nTrailer: g\r\nUpgrade: h2c\r\n\r\n";
        let parsed = parsed(head);
        for (mapped, fields, copied) in [
            (
                MappedFields::Few,
                1,
                "etag: a\r\ndate: b\r\nset-cookie: c\r\nset-cookie: d\r\n",
            ),
            (MappedFields::All, 11, ""),
        ] {
            let map = mapped_fields(parsed.fields().iter(head.as_bytes()), mapped);
            assert_eq!(map.len(), fields);
            let mut into = Vec::new();
            let has_date = write_others(
                &mut into,
                parsed_lines(&parsed, head.as_bytes()),
                mapped,
                FieldHandling::Dropped,
            );
            assert_eq!(has_date, mapped == MappedFields::Few);
            assert_eq!(String::from_utf8(into).unwrap(), copied);
        }
    }

    /// Goal: where no field is mapped, all but those of the connection are copied. Method: a head without one that the gateway writes.
    #[test]
    fn a_head_of_other_fields_is_copied() {
        let head = "HTTP/1.1 200 Fine\r\nETag: a\r\nConnection: close\r\nX-A:b\r\n\r\n";
        let parsed = parsed(head);
        let map = mapped_fields(parsed.fields().iter(head.as_bytes()), MappedFields::Few);
        let mapped = MappedFields::Few.found(map.len());
        assert_eq!(mapped, MappedFields::None);
        let mut into = Vec::new();
        assert!(!write_others(
            &mut into,
            parsed_lines(&parsed, head.as_bytes()),
            mapped,
            FieldHandling::Dropped
        ));
        assert_eq!(into, b"etag: a\r\nx-a: b\r\n");
    }

    /// Goal: the names that the response stage writes are mapped, so that none is sent twice. Method: each of its names.
    #[test]
    fn names_that_the_gateway_writes_are_mapped() {
        let numbers = XRateLimit {
            limit: 1,
            remaining: 1,
            reset: 1,
        };
        let written = numbers.named().map(|(name, _)| name);
        for name in written.into_iter().chain([&RATE_LIMIT, &RATE_LIMIT_POLICY]) {
            let name = name.as_str().as_bytes();
            let field = HeaderField::new(name, b"");
            let found = MappedFields::Few.handling_of(&field);
            assert_eq!(found, FieldHandling::Mapped, "{}", name.escape_ascii());
        }
    }
}
