//! Makes a head of header maps from the parsed bytes of a request, and finds the requests that only Pingora's proxy serves.

use http::header::{HeaderName, HeaderValue};
use pingora::http::RequestHeader;
use sluicegate_http1::{BodyFraming, ConnectionOptions, HeaderField, HttpVersion, RequestHead};

use crate::response::GrpcDialect;

/// A request whose head was received.
pub(super) struct ReceivedRequest {
    /// Its head, with the names of its fields in lower case.
    pub(super) head: RequestHeader,
    /// The framing of its body.
    pub(super) framing: BodyFraming,
    /// The options of its connection.
    pub(super) options: ConnectionOptions,
}

impl ReceivedRequest {
    /// Returns the request with this head, whose bytes are `read`; `None` where the proxy must serve it.
    pub(super) fn of(parsed: &RequestHead, read: &[u8]) -> Option<Self> {
        if parsed.version() != HttpVersion::Http11 {
            return None;
        }
        let fields = parsed.fields();
        let options = ConnectionOptions::of(fields, read);
        if options.others() > 0 || options.has_upgrade() || options.is_malformed() {
            return None;
        }
        let mut head =
            RequestHeader::build_no_case(parsed.method(read), parsed.target(read), None).ok()?;
        for field in fields.iter(read) {
            if needs_proxy(&field) {
                return None;
            }
            let name = HeaderName::from_bytes(field.name).ok()?;
            let value = HeaderValue::from_bytes(field.value).ok()?;
            head.append_header(name, value).ok()?;
        }
        Some(Self {
            head,
            framing: parsed.framing(),
            options,
        })
    }
}

/// Returns whether only the proxy serves a request with this field.
fn needs_proxy(field: &HeaderField<'_>) -> bool {
    // The length first: most fields differ from all of these in it.
    match field.name.len() {
        6 => field.is(b"expect"),
        7 => field.is(b"upgrade"),
        12 if field.is(b"content-type") => GrpcDialect::named(field.value).is_some(),
        _ => false,
    }
}
