//! The settings of the export: the collector, the headers and the attributes of a call, and its times.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::uri::PathAndQuery;
use http::{HeaderName, HeaderValue};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;

/// The settings of the export of one signal to one collector.
#[derive(Clone, Debug)]
pub struct ExportSettings {
    /// The collector.
    pub collector: CollectorAddress,
    /// Headers of each request to the collector.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// The longest time of a call, connecting included.
    pub timeout: Duration,
    /// The longest time that a record waits for others, while the collector accepts them.
    pub interval: Duration,
    /// Attributes of the resource, `service.name` first.
    pub attributes: Vec<(Box<str>, Box<str>)>,
    /// The program that exports.
    pub software: SoftwareName,
}

/// The address of a collector. A connection is kept for as long as the address stays equal.
#[derive(Clone, Debug, PartialEq)]
pub struct CollectorAddress {
    /// A name or an address, without brackets.
    pub host: Box<str>,
    /// Its port.
    pub port: u16,
    /// The `Host` header, as in the URL.
    pub authority: HeaderValue,
    /// The path that batches are posted to.
    pub path: PathAndQuery,
    /// The encryption of the connection; `None`: in clear text.
    pub tls: Option<TlsSettings>,
}

/// The encryption of a connection. Two are equal if they share one configuration and one name.
#[derive(Clone)]
pub struct TlsSettings {
    /// Trusted certificates, the client's own certificate, versions.
    pub config: Arc<ClientConfig>,
    /// The name that the collector must prove; `None`: the host of its address.
    pub server_name: Option<ServerName<'static>>,
}

/// The name and version of a program: for the `User-Agent`, the instrumentation scope and `service.version`.
#[derive(Clone, Copy, Debug)]
pub struct SoftwareName {
    /// Its name.
    pub name: &'static str,
    /// Its version.
    pub version: &'static str,
}

impl PartialEq for TlsSettings {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.config, &other.config) && self.server_name == other.server_name
    }
}

impl fmt::Debug for TlsSettings {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        into.debug_struct("TlsSettings")
            .field("server_name", &self.server_name)
            .finish_non_exhaustive()
    }
}
