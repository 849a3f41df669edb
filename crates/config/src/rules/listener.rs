//! `[[listener]]`, typed: where connections are accepted, and what is spoken there.

use http::StatusCode;
use ipnet::IpNet;

/// The meaning of the requests that come to a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListenerProtocol {
    /// They are to be served.
    Http,
    /// Each asks, in fields, about a request that another proxy has received.
    ForwardAuth {
        /// The status of every rejection; `None` for the own one of each.
        rejection_status: Option<StatusCode>,
    },
    /// They are calls of Envoy's rate limit service, version 3.
    RateLimitService,
}

/// Says whether a listener speaks HTTP/2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Http2 {
    /// It does: in cleartext with prior knowledge, under TLS by ALPN.
    Accepted,
    /// Only HTTP/1.1.
    Off,
}

/// Says whether a listener speaks HTTP/3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Http3 {
    /// It does, over UDP at its address.
    Accepted,
    /// It does not.
    Off,
}

/// Says whether a proxy in front announces its clients before their first byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProxyProtocol {
    /// Nobody does.
    Off,
    /// Those in these networks may.
    Optional(Vec<IpNet>),
    /// Those in these networks must, and nobody else is served.
    Required(Vec<IpNet>),
}

/// The least version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MinVersion {
    /// The default.
    Tls12,
    /// TLS 1.3 alone.
    Tls13,
}

/// The answer to a client that asks for a name without a certificate, or for none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownName {
    /// The first certificate.
    Default,
    /// The end of the handshake.
    Refuse,
}
