//! Holds the facts of a TLS connection that the stages after the listener read.
//!
//! They are collected once, when the handshake ends, and shared by all requests of the connection. None of them comes from a
//! request, so no field of a client can contradict them.

use http::HeaderValue;

use super::certificate::ClientCertificate;
use crate::url_scheme::UrlScheme;

/// The other end of a connection: its address, where it came to, and the facts of its handshake.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionPeer<'a> {
    /// Its address.
    pub address: std::net::IpAddr,
    /// The address of the listener that accepted it; `None` where that is not known.
    pub listener: Option<std::net::SocketAddr>,
    /// The facts of its handshake; `None` where the connection is in clear text.
    pub secured: Option<&'a TlsFacts>,
}

/// The facts of a TLS handshake.
#[derive(Debug)]
pub struct TlsFacts {
    /// `TLSv1.3` or `TLSv1.2`.
    pub version: &'static str,
    /// The name that IANA has for the cipher suite.
    pub cipher: &'static str,
    /// The name that the client asked for, lower case.
    pub server_name: Option<Box<str>>,
    /// The client's verified certificate; `None` where the listener asked for none, or the client sent none.
    pub certificate: Option<ClientCertificate>,
    /// The listener's policy on client certificates.
    pub asked: ClientCertPolicy,
    /// The client's fingerprint by JA4; `None` where its first message was too long for one.
    pub ja4: Option<Box<str>>,
    /// The value of `Strict-Transport-Security` in every response, RFC 6797.
    pub strict_transport: Option<HeaderValue>,
    /// The value of `Alt-Svc` in every response, RFC 7838 §3.
    pub alternative_service: Option<HeaderValue>,
}

/// A listener's policy on client certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientCertPolicy {
    /// The listener requests one: a request for another name on this connection may fall under other rules.
    ForCertificate,
    /// The listener requests none.
    Nothing,
}

impl<'a> ConnectionPeer<'a> {
    /// Returns a peer at `address`, in clear text, by a listener that is not known.
    #[must_use]
    pub fn plain(address: std::net::IpAddr) -> Self {
        Self {
            address,
            listener: None,
            secured: None,
        }
    }

    /// Returns the scheme of its requests.
    #[must_use]
    pub fn scheme(&self) -> UrlScheme {
        self.secured.map_or(UrlScheme::Http, |_| UrlScheme::Https)
    }
}

impl TlsFacts {
    /// Returns whether a request for `host`, in normal form, may be served on this connection.
    ///
    /// RFC 9110 §7.4: a connection that proved a client's identity for one name did not prove it for another, whose listener may
    /// require more. Where no client certificate is requested, and where the client sent no server name, there is nothing to
    /// bypass.
    #[must_use]
    pub fn covers(&self, host: &str) -> bool {
        match (self.asked, &self.server_name) {
            (ClientCertPolicy::ForCertificate, Some(name)) => host.eq_ignore_ascii_case(name),
            _ => true,
        }
    }
}
