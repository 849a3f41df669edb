//! Names the fields of W3C Trace Context, which the gateway reads from clients and writes for origins.

use http::HeaderName;

/// `traceparent`
pub static TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
/// `tracestate`
pub static TRACESTATE: HeaderName = HeaderName::from_static("tracestate");
