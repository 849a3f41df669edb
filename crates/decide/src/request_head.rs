//! Holds the parts of a request's head that the stages up to admission read.

use http::Method;
use http::header::HOST;
use http::uri::PathAndQuery;
use sluicegate_base::received::{FieldValue, ReceivedFields, ReceivedHead};

/// The parts of a request's head that the stages up to admission read.
#[derive(Clone, Copy)]
pub struct RequestHead<'a> {
    /// The method.
    pub method: &'a Method,
    /// Path and query as sent.
    pub target: &'a str,
    /// The authority of the target, which outranks `Host` (RFC 9112 §3.2.2).
    pub authority: Option<&'a str>,
    /// The fields.
    pub headers: &'a ReceivedFields,
}

impl<'a> From<&'a ReceivedHead> for RequestHead<'a> {
    fn from(head: &'a ReceivedHead) -> Self {
        Self {
            method: &head.method,
            target: target(head),
            authority: head.uri.authority().map(http::uri::Authority::as_str),
            headers: &head.headers,
        }
    }
}

/// The request target `*`, which names the server itself: RFC 9112 §3.2.4.
pub const ASTERISK: &str = "*";

/// Returns the target as the origin will get it, RFC 9112 §3.2. The listener rewrites absolute targets as paths. Any other form
/// has no path that both sides agree on, and no route matches it: `%2Fauth` parses as `/`, yet its bytes would be forwarded.
fn target(head: &ReceivedHead) -> &str {
    let target = head.uri.path_and_query().map_or("", PathAndQuery::as_str);
    match target.as_bytes() {
        [b'/', ..] | [b'*'] => target,
        _ => "",
    }
}

impl<'a> RequestHead<'a> {
    /// Returns the part of the target after `?`; empty without one.
    #[must_use]
    pub fn query(&self) -> &'a str {
        // The result is needed more than once a request, and most targets contain neither character.
        let bytes = self.target.as_bytes();
        match memchr::memchr2(b'?', b'#', bytes) {
            Some(mark) if bytes[mark] == b'?' => {
                let end = memchr::memchr(b'#', bytes).unwrap_or(bytes.len());
                &self.target[mark + 1..end]
            }
            _ => "",
        }
    }

    /// Returns the path as sent: the target up to its query.
    #[must_use]
    pub fn path(&self) -> &'a str {
        let end = memchr::memchr2(b'?', b'#', self.target.as_bytes());
        &self.target[..end.unwrap_or(self.target.len())]
    }

    /// Returns the authority or `Host` as sent, empty when absent. A value that is not text becomes a text that is no valid
    /// host.
    #[must_use]
    pub fn host(&self) -> &'a str {
        const NOT_TEXT: &str = "\u{fffd}";
        match self.authority {
            Some(authority) => authority,
            None => std::str::from_utf8(self.host_bytes()).unwrap_or(NOT_TEXT),
        }
    }

    /// Returns the bytes of the authority or `Host` as sent, empty when absent.
    pub fn host_bytes(&self) -> &'a [u8] {
        self.authority.map_or_else(
            || {
                let host = self.headers.get(HOST);
                host.map_or(&[][..], FieldValue::as_bytes)
            },
            str::as_bytes,
        )
    }
}
