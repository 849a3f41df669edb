//! Decides whether a list of fields is the head of a request, RFC 9113 §8.3.1, and owns the head.

use std::ops::Range;

use bytes::BytesMut;

use crate::field_lines::FieldLines;
use crate::field_rules::{content_length, is_authority, is_scheme, is_target, is_token};
use crate::hpack::{DecodedField, FieldPlaces};
use crate::priority::StreamPriority;
use crate::violation::RuleViolation;

/// Fields for which there is room: those of browsers are about as many.
const USUAL_FIELDS: usize = 16;

/// The rule for extended CONNECT, RFC 8441, which WebSocket uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtendedConnect {
    /// `:protocol` is a rule that is broken.
    Refused,
    /// SETTINGS_ENABLE_CONNECT_PROTOCOL is sent.
    Allowed,
}

/// The head of a request that keeps the rules.
#[derive(Debug, Default)]
pub struct RequestHead {
    fields: FieldLines,
    pseudo: PseudoFieldPlaces,
    content_length: Option<u64>,
    priority: Option<StreamPriority>,
}

/// The places of the values of pseudo-fields in the bytes of a head.
#[derive(Clone, Debug, Default)]
pub struct PseudoFieldPlaces {
    /// The place of `:method`.
    pub method: Option<Range<usize>>,
    /// The place of `:scheme`.
    pub scheme: Option<Range<usize>>,
    /// The place of `:authority`.
    pub authority: Option<Range<usize>>,
    /// The place of `:path`.
    pub path: Option<Range<usize>>,
    /// The place of `:protocol`.
    pub protocol: Option<Range<usize>>,
}

impl RequestHead {
    /// Returns `:method`.
    #[must_use]
    pub fn method(&self) -> &[u8] {
        self.value(&self.pseudo.method).unwrap_or_default()
    }

    /// Returns `:scheme`, which CONNECT has only with `:protocol`.
    #[must_use]
    pub fn scheme(&self) -> Option<&[u8]> {
        self.value(&self.pseudo.scheme)
    }

    /// Returns `:authority`. A request without it has one field `host`.
    #[must_use]
    pub fn authority(&self) -> Option<&[u8]> {
        self.value(&self.pseudo.authority)
    }

    /// Returns `:path`, which CONNECT has only with `:protocol`.
    #[must_use]
    pub fn path(&self) -> Option<&[u8]> {
        self.value(&self.pseudo.path)
    }

    /// Returns `:protocol` of an extended CONNECT, RFC 8441 §4.
    #[must_use]
    pub fn protocol(&self) -> Option<&[u8]> {
        self.value(&self.pseudo.protocol)
    }

    /// Returns the length that Content-Length announces.
    #[must_use]
    pub fn content_length(&self) -> Option<u64> {
        self.content_length
    }

    /// Returns the fields.
    #[must_use]
    pub fn fields(&self) -> &FieldLines {
        &self.fields
    }

    /// Returns the fields, and the places of pseudo-fields in their bytes.
    #[must_use]
    pub fn into_parts(self) -> (FieldLines, PseudoFieldPlaces) {
        (self.fields, self.pseudo)
    }

    /// Returns the priority that the field `priority` names, RFC 9218 §5.
    #[must_use]
    pub fn priority(&self) -> Option<StreamPriority> {
        self.priority
    }

    #[inline]
    fn value(&self, place: &Option<Range<usize>>) -> Option<&[u8]> {
        self.fields.bytes.get(place.clone()?)
    }

    fn check(
        &self,
        extended: ExtendedConnect,
        hosts: &[Range<usize>],
    ) -> Result<(), RuleViolation> {
        if !is_token(self.method()) {
            return Err(RuleViolation::Method);
        }
        let is_connect = self.method() == b"CONNECT";
        if let Some(protocol) = self.protocol() {
            // RFC 8441 §4.
            if !is_connect || extended == ExtendedConnect::Refused || !is_token(protocol) {
                return Err(RuleViolation::Protocol);
            }
        } else if is_connect {
            // RFC 9113 §8.5: CONNECT names its target in `:authority` alone.
            return match (self.scheme(), self.path(), self.authority()) {
                (None, None, Some(authority)) if is_authority(authority) => Ok(()),
                (Some(_), _, _) => Err(RuleViolation::Scheme),
                (_, Some(_), _) => Err(RuleViolation::Path),
                _ => Err(RuleViolation::Authority),
            };
        }
        if !self.scheme().is_some_and(is_scheme) {
            return Err(RuleViolation::Scheme);
        }
        let path = self.path().unwrap_or_default();
        let has_form = path.starts_with(b"/") || path == b"*" && self.method() == b"OPTIONS";
        if !has_form || !is_target(path) {
            return Err(RuleViolation::Path);
        }
        self.check_host(hosts)
    }

    fn check_host(&self, hosts: &[Range<usize>]) -> Result<(), RuleViolation> {
        let host = hosts
            .first()
            .and_then(|place| self.fields.bytes.get(place.clone()));
        let named = host.or(self.authority()).unwrap_or_default();
        let is_same = self.authority().is_none_or(|authority| authority == named);
        // RFC 9113 §8.3.1: a Host that differs makes the request malformed; RFC 9112 §3.2: there is one at most.
        match is_authority(named) && is_same && hosts.len() < 2 {
            true => Ok(()),
            false => Err(RuleViolation::Authority),
        }
    }
}

/// Gathers the fields of a request while its block is decoded.
#[derive(Debug, Default)]
pub struct HeadBuilder {
    head: RequestHead,
    hosts: Vec<Range<usize>>,
    violation: Option<RuleViolation>,
}

impl HeadBuilder {
    /// Returns a head without a field, with room for those that most requests have.
    #[must_use]
    pub fn new() -> Self {
        let mut builder = Self::default();
        builder.head.fields.places.reserve(USUAL_FIELDS);
        builder
    }

    /// Adds a field that was decoded.
    pub fn add(&mut self, bytes: &BytesMut, field: DecodedField) {
        let violation = self.violation.or(field.violation);
        self.violation = violation.or_else(|| self.try_add(bytes, field.places).err());
    }

    #[inline]
    fn try_add(&mut self, bytes: &BytesMut, places: FieldPlaces) -> Result<(), RuleViolation> {
        let name = bytes.get(places.name.clone()).unwrap_or_default();
        let value = bytes.get(places.value.clone()).unwrap_or_default();
        if name.first() == Some(&b':') {
            return self.add_pseudo(name, places.value);
        }
        match name {
            b"host" => self.hosts.push(places.value.clone()),
            b"content-length" => {
                let length = content_length(value)?;
                if self.head.content_length.replace(length).is_some() {
                    return Err(RuleViolation::ContentLength);
                }
            }
            b"priority" => {
                let priority = self.head.priority.unwrap_or(StreamPriority::SIGNALED);
                self.head.priority = Some(priority.updated(value));
            }
            _ => {}
        }
        self.head.fields.places.push(places);
        Ok(())
    }

    fn add_pseudo(&mut self, name: &[u8], value: Range<usize>) -> Result<(), RuleViolation> {
        let pseudo = &mut self.head.pseudo;
        let place = match name {
            b":method" => &mut pseudo.method,
            b":scheme" => &mut pseudo.scheme,
            b":authority" => &mut pseudo.authority,
            b":path" => &mut pseudo.path,
            b":protocol" => &mut pseudo.protocol,
            _ => return Err(RuleViolation::PseudoField),
        };
        // RFC 9113 §8.3: once, and in front of all fields.
        let is_repeated = place.replace(value).is_some();
        match is_repeated || !self.head.fields.is_empty() {
            true => Err(RuleViolation::PseudoField),
            false => Ok(()),
        }
    }

    /// Returns the head, which lies in these bytes.
    ///
    /// # Errors
    /// The head breaks a rule.
    pub fn finish(
        self,
        bytes: BytesMut,
        extended: ExtendedConnect,
    ) -> Result<RequestHead, RuleViolation> {
        if let Some(violation) = self.violation {
            return Err(violation);
        }
        let mut head = self.head;
        head.fields.bytes = bytes;
        head.check(extended, &self.hosts)?;
        Ok(head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hpack::{FieldDecoder, write_field};

    /// Returns the head of a request with these fields, one a line.
    fn head(lines: &str, extended: ExtendedConnect) -> Result<RequestHead, RuleViolation> {
        let mut block = Vec::new();
        for line in lines.lines() {
            let at = line[1..].find(':').unwrap() + 1;
            let line = line.as_bytes();
            write_field(&line[..at], &line[at + 1..], &mut block);
        }
        let mut bytes = BytesMut::new();
        let mut builder = HeadBuilder::new();
        let mut decoder = FieldDecoder::new(4096);
        let decoded = decoder.decode(&block, &mut bytes, |bytes, field| builder.add(bytes, field));
        decoded.unwrap();
        builder.finish(bytes, extended)
    }

    /// Goal: the parts of a head are found, and its lines are those of HTTP/1.1. Method: one request with all parts.
    #[test]
    fn the_parts_of_a_head_are_found() {
        let lines = ":method:CONNECT\n:protocol:websocket\n:scheme:https\n:authority:a.test\n:path:/x?y\n\
                     content-length:7\npriority:u=1, i\ncookie:a=b";
        let head = head(lines, ExtendedConnect::Allowed).unwrap();
        assert_eq!(head.method(), b"CONNECT");
        assert_eq!(head.protocol(), Some(&b"websocket"[..]));
        assert_eq!(head.scheme(), Some(&b"https"[..]));
        assert_eq!(head.authority(), Some(&b"a.test"[..]));
        assert_eq!(head.path(), Some(&b"/x?y"[..]));
        assert_eq!(head.content_length(), Some(7));
        let priority = head.priority().unwrap();
        assert_eq!((priority.urgency, priority.incremental), (1, true));
        assert_eq!(head.fields().len(), 3);
        assert_eq!(
            head.fields().iter().last(),
            Some((&b"cookie"[..], &b"a=b"[..]))
        );
        let (fields, pseudo) = head.into_parts();
        let (bytes, places) = fields.into_parts();
        assert_eq!(bytes[pseudo.path.unwrap()], b"/x?y"[..]);
        let lines = b"content-length: 7\r\npriority: u=1, i\r\ncookie: a=b\r\n";
        assert_eq!(bytes[places[0].name.start..], lines[..]);
    }

    /// Goal: each rule rejects, and requests that keep them pass. Method: heads on both sides of each rule.
    #[test]
    fn each_rule_has_two_sides() {
        use RuleViolation::{
            Authority, ConnectionField, ContentLength, FieldName, FieldValue, Method, Path,
            Protocol, PseudoField, Scheme,
        };
        let get = ":method:GET\n:scheme:http\n:path:/\n:authority:a.test\n";
        for (before, after, violation) in [
            (get, "", None),
            (get, "te:trailers", None),
            (get, "host:a.test", None),
            (
                ":method:OPTIONS\n:scheme:http\n:path:*\n:authority:a.test",
                "",
                None,
            ),
            (
                ":method:GET\n:scheme:http\n:path:/\nhost:a.test:80",
                "",
                None,
            ),
            (":method:CONNECT\n:authority:a.test:443", "", None),
            (get, "X-a:b", Some(FieldName)),
            (get, "x a:b", Some(FieldName)),
            (get, "x-a: b", Some(FieldValue)),
            (get, "x-a:b\t", Some(FieldValue)),
            (get, "x-a:b\0", Some(FieldValue)),
            (get, "x-a:b\rc", Some(FieldValue)),
            (get, "connection:close", Some(ConnectionField)),
            (get, "keep-alive:1", Some(ConnectionField)),
            (get, "proxy-connection:close", Some(ConnectionField)),
            (get, "transfer-encoding:chunked", Some(ConnectionField)),
            (get, "upgrade:h2c", Some(ConnectionField)),
            (get, "te:gzip", Some(ConnectionField)),
            (get, "x-a:b\n:method:GET", Some(PseudoField)),
            (get, ":method:GET", Some(PseudoField)),
            (get, ":status:200", Some(PseudoField)),
            (get, ":protocol:websocket", Some(Protocol)),
            (":scheme:http\n:path:/\n:authority:a.test", "", Some(Method)),
            (
                ":method:G T\n:scheme:http\n:path:/\n:authority:a.test",
                "",
                Some(Method),
            ),
            (":method:GET\n:path:/\n:authority:a.test", "", Some(Scheme)),
            (
                ":method:GET\n:scheme:1\n:path:/\n:authority:a.test",
                "",
                Some(Scheme),
            ),
            (
                ":method:GET\n:scheme:\n:path:/\n:authority:a.test",
                "",
                Some(Scheme),
            ),
            (
                ":method:GET\n:scheme:http\n:authority:a.test",
                "",
                Some(Path),
            ),
            (
                ":method:GET\n:scheme:http\n:path:\n:authority:a.test",
                "",
                Some(Path),
            ),
            (
                ":method:GET\n:scheme:http\n:path:*\n:authority:a.test",
                "",
                Some(Path),
            ),
            (
                ":method:GET\n:scheme:http\n:path:/a b\n:authority:a.test",
                "",
                Some(Path),
            ),
            (
                ":method:GET\n:scheme:http\n:path:/a#b\n:authority:a.test",
                "",
                Some(Path),
            ),
            (":method:GET\n:scheme:http\n:path:/", "", Some(Authority)),
            (
                ":method:GET\n:scheme:http\n:path:/\n:authority:",
                "",
                Some(Authority),
            ),
            (
                ":method:GET\n:scheme:http\n:path:/\n:authority:u@a.test",
                "",
                Some(Authority),
            ),
            (get, "host:b.test", Some(Authority)),
            (get, "host:a.test\nhost:a.test", Some(Authority)),
            (":method:CONNECT\n:authority:a:1\n:path:/", "", Some(Path)),
            (
                ":method:CONNECT\n:authority:a:1\n:scheme:http",
                "",
                Some(Scheme),
            ),
            (":method:CONNECT", "", Some(Authority)),
            (get, "content-length:", Some(ContentLength)),
            (get, "content-length:+1", Some(ContentLength)),
            (get, "content-length:1, 1", Some(ContentLength)),
            (
                get,
                "content-length:1\ncontent-length:1",
                Some(ContentLength),
            ),
            (
                get,
                "content-length:18446744073709551616",
                Some(ContentLength),
            ),
        ] {
            let lines = format!("{}\n{after}", before.trim_end());
            let found = head(lines.trim_end_matches('\n'), ExtendedConnect::Refused);
            assert_eq!(found.err(), violation, "{lines:?}");
        }
    }
}
