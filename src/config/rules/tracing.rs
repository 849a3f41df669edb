//! Owns the typed rules of traces, and of who is told of the gateway's part in them.

use std::sync::Arc;
use std::time::Duration;

use http::uri::PathAndQuery;
use http::{HeaderName, HeaderValue};

use crate::config::Share;
use crate::pki::Tls;

/// `[tracing]`: requests carry a trace to their origin, W3C Trace Context.
#[derive(Clone, Debug, PartialEq)]
pub struct TracingRules {
    /// The share of traces that are recorded, where that is the gateway's to say; default all.
    pub sample: Share,
    /// Who is told of the spans that are; default nobody, the log has their ids.
    pub otlp: Option<Arc<OtlpRules>>,
}

/// `[tracing.otlp]`: an OpenTelemetry collector, told by OTLP over HTTP.
#[derive(Clone, Debug, PartialEq)]
pub struct OtlpRules {
    /// Where it is.
    pub collector: OtlpPlace,
    /// Fields of each request to it; their values are kept from logs.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// How long a call may take in all.
    pub timeout: Duration,
    /// How long a span waits for others at most, as long as the collector takes them.
    pub interval: Duration,
    /// What is said of this gateway, `service.name` first.
    pub attributes: Vec<(Box<str>, Box<str>)>,
}

/// Where a collector is.
#[derive(Clone, Debug, PartialEq)]
pub struct OtlpPlace {
    /// A name or an address, without brackets.
    pub host: Box<str>,
    /// Its port.
    pub port: u16,
    /// `Host`, as in the URL.
    pub authority: HeaderValue,
    /// What is posted to.
    pub path: PathAndQuery,
    /// How the connection is encrypted; `None`: in clear text.
    pub tls: Option<Tls>,
}
