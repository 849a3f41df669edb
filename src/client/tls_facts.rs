//! Owns what a connection under TLS says about itself, as the stages behind the listener read it.
//!
//! It is made once, when the handshake ends, and shared by all requests of the connection. Nothing in it comes from a request, so no
//! field that a client writes can contradict it.

use http::HeaderValue;

use super::certificate::ClientCertificate;

/// The other end of a connection: where it is, and what it proved.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionPeer<'a> {
    /// Its address.
    pub address: std::net::IpAddr,
    /// What its handshake said; `None` where the connection is in clear text.
    pub secured: Option<&'a TlsFacts>,
}

/// What a handshake said.
#[derive(Debug)]
pub struct TlsFacts {
    /// `TLSv1.3` or `TLSv1.2`.
    pub version: &'static str,
    /// The name that IANA has for the cipher suite.
    pub cipher: &'static str,
    /// The name that the client asked for, lower case.
    pub server_name: Option<Box<str>>,
    /// What the client proved to be; `None` where it was not asked, or had nothing to show.
    pub certificate: Option<ClientCertificate>,
    /// Whether the listener asks clients for certificates.
    pub asked: ClientCertPolicy,
    /// The client's fingerprint by JA4; `None` where its first message was too long for one.
    pub ja4: Option<Box<str>>,
    /// What every answer tells browsers about coming back, RFC 6797.
    pub strict_transport: Option<HeaderValue>,
}

/// Whether a listener asks clients for certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientCertPolicy {
    /// It does: who reaches another name on this connection may meet other rules.
    ForCertificate,
    /// Anybody may come.
    Nothing,
}

/// How a request travelled to the gateway, RFC 9110 §4.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UrlScheme {
    /// In clear text.
    Http,
    /// Under TLS.
    Https,
}

impl UrlScheme {
    /// As it stands in a URL.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }
}

impl<'a> ConnectionPeer<'a> {
    /// One at `address`, in clear text.
    #[must_use]
    pub fn plain(address: std::net::IpAddr) -> Self {
        Self {
            address,
            secured: None,
        }
    }

    /// How its requests travel.
    #[must_use]
    pub fn scheme(&self) -> UrlScheme {
        self.secured.map_or(UrlScheme::Http, |_| UrlScheme::Https)
    }
}

impl TlsFacts {
    /// Whether a request for `host`, in normal form, may be served here.
    ///
    /// RFC 9110 §7.4: a connection that proved a client's identity for one name is not one for another, whose listener might ask more
    /// of it. Where no client is asked, and where none named a host when the connection began, there is nothing to walk around.
    #[must_use]
    pub fn covers(&self, host: &str) -> bool {
        match (self.asked, &self.server_name) {
            (ClientCertPolicy::ForCertificate, Some(name)) => host.eq_ignore_ascii_case(name),
            _ => true,
        }
    }
}
