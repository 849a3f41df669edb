//! `[[listener]]`, typed: where connections are accepted, and what is spoken there.

use std::net::SocketAddr;

/// `[[listener]]`: one address to accept on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerRules {
    /// Where to accept; only a restart changes it, all else follows a reload.
    pub address: SocketAddr,
    /// Whether HTTP/2 is accepted beside HTTP/1.1.
    pub http2: Http2,
}

/// Whether a listener speaks HTTP/2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Http2 {
    /// It does: in cleartext with prior knowledge, under TLS by ALPN.
    Accepted,
    /// Only HTTP/1.1.
    Off,
}
