//! `[[listener]]`, typed: where connections are accepted, and what is spoken there.

use std::net::SocketAddr;
use std::num::NonZeroU16;

use http::HeaderValue;
use ipnet::IpNet;

use super::NameSet;
use crate::pki::{ClientTrust, ServerCertificate};

/// `[[listener]]`: one address to accept on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerRules {
    /// Where to accept; only a restart changes it, all else follows a reload.
    pub address: SocketAddr,
    /// Whether HTTP/2 is accepted beside HTTP/1.1.
    pub http2: Http2,
    /// Whether a proxy in front announces its clients.
    pub proxy_protocol: ProxyProtocol,
    /// The port to which requests are sent on that come in clear text; `None`: they are served.
    pub redirect_to_https: Option<NonZeroU16>,
    /// `[listener.tls]`; `None` where connections are in clear text.
    pub tls: Option<TlsRules>,
}

/// Whether a listener speaks HTTP/2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Http2 {
    /// It does: in cleartext with prior knowledge, under TLS by ALPN.
    Accepted,
    /// Only HTTP/1.1.
    Off,
}

/// Whether a proxy in front announces its clients before their first byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProxyProtocol {
    /// Nobody does.
    Off,
    /// Those in these networks may.
    Optional(Vec<IpNet>),
    /// Those in these networks must, and nobody else is served.
    Required(Vec<IpNet>),
}

/// `[listener.tls]`: how TLS ends here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsRules {
    /// The first is the default.
    pub certificates: Vec<ServerCertificate>,
    /// The names that a certificate is ordered for, which comes at run time; there are these, or certificates, or both.
    pub ordered: Option<NameSet>,
    /// The least version.
    pub min_version: MinVersion,
    /// Whose certificates of clients are believed; `None` where no client is asked.
    pub clients: Option<ClientTrust>,
    /// What holds for names that no certificate has.
    pub unknown_name: UnknownName,
    /// `Strict-Transport-Security` of every answer.
    pub strict_transport: Option<HeaderValue>,
}

/// The least version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MinVersion {
    /// The default.
    Tls12,
    /// TLS 1.3 alone.
    Tls13,
}

/// What a client meets that asks for a name without a certificate, or for none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownName {
    /// The first certificate.
    Default,
    /// The end of the handshake.
    Refuse,
}
