//! Names what is wrong with the question of a proxy, for that proxy and for the log.

use http::{HeaderName, StatusCode};

/// A part of the request in question that has a field of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OriginalPart {
    /// The method.
    Method,
    /// The host, with or without a port.
    Host,
    /// The path and the query, as the client sent them.
    Uri,
}

impl OriginalPart {
    /// Returns the field that has it.
    #[must_use]
    pub const fn field(self) -> HeaderName {
        match self {
            Self::Method => HeaderName::from_static("x-forwarded-method"),
            Self::Host => HeaderName::from_static("x-forwarded-host"),
            Self::Uri => HeaderName::from_static("x-forwarded-uri"),
        }
    }
}

/// The reason for which a question is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForwardAuthFault {
    /// The peer is no trusted proxy.
    Untrusted,
    /// A part of the request in question is absent.
    Absent(OriginalPart),
    /// A part of the request in question is there more than once.
    Repeated(OriginalPart),
    /// No address of a client can be read.
    NoClient,
}

impl ForwardAuthFault {
    /// Returns the status of the answer.
    #[must_use]
    pub const fn status(self) -> StatusCode {
        match self {
            Self::Untrusted => StatusCode::FORBIDDEN,
            Self::Absent(_) | Self::Repeated(_) | Self::NoClient => StatusCode::BAD_REQUEST,
        }
    }

    /// Returns the text for the proxy and the log.
    #[must_use]
    pub const fn detail(self) -> &'static str {
        match self {
            Self::Untrusted => "only the proxies of [client] trusted_proxies may ask here",
            Self::Absent(OriginalPart::Method) => {
                "the proxy that asks sent no X-Forwarded-Method, the method of the request in question"
            }
            Self::Absent(OriginalPart::Host) => {
                "the proxy that asks sent no X-Forwarded-Host, the host of the request in question"
            }
            Self::Absent(OriginalPart::Uri) => {
                "the proxy that asks sent no X-Forwarded-Uri, the path and query of the request in question"
            }
            Self::Repeated(OriginalPart::Method) => {
                "X-Forwarded-Method came more than once; the proxy that asks must replace that of its client"
            }
            Self::Repeated(OriginalPart::Host) => {
                "X-Forwarded-Host came more than once; the proxy that asks must replace that of its client"
            }
            Self::Repeated(OriginalPart::Uri) => {
                "X-Forwarded-Uri came more than once; the proxy that asks must replace that of its client"
            }
            Self::NoClient => {
                "the proxy that asks named no client: client_ip_header of [client], by default X-Forwarded-For, has no readable address"
            }
        }
    }
}
