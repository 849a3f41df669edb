//! Owns the TLS settings of one listener: versions, certificates, the client certificate policy, and the session storage.
//!
//! A change of the configuration makes a new one; established connections are unchanged. Sessions survive a change of
//! certificates, so that a renewal does not cost every client a full handshake. They end where the client certificate policy
//! changes: a session stands for the proof of its first handshake, and must not outlive the trust in the authority that signed
//! it (CVE-2025-23419 is that mistake).
//!
//! # Limits
//! Tickets keep the sessions at the clients. [`TLS_SESSIONS`](bounds::TLS_SESSIONS) are stored here for clients without tickets.

use std::fmt;
use std::sync::Arc;

use http::HeaderValue;
use quinn_proto::crypto::rustls::QuicServerConfig;
use rustls::ServerConfig;
use rustls::server::{ProducesTickets, ServerSessionMemoryCache, StoresServerSessions};
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};
use sluicegate_base::bounds;
use sluicegate_base::pki::session_tickets;
use sluicegate_decide::client::ClientCertPolicy;

use super::certificates::{ACME_TLS, Certificates, ServedCertificates, SingleCertificate};
use sluicegate_config::rules::{Http2, Http3, ListenerRules, MinVersion, TlsRules};
use sluicegate_record::counting_provider;

/// The TLS termination of one listener.
pub struct Termination {
    /// The rules that it was made from.
    pub rules: TlsRules,
    config: Arc<ServerConfig>,
    /// The settings of handshakes over QUIC; `None` where HTTP/3 is not spoken.
    quic: Option<Arc<QuicServerConfig>>,
    alternative_service: Option<HeaderValue>,
    served: Arc<ServedCertificates>,
    sessions: Sessions,
}

/// The storage of sessions.
#[derive(Clone)]
struct Sessions {
    /// `None` where the machine has no random bytes for keys.
    tickets: Option<Arc<dyn ProducesTickets>>,
    kept: Arc<dyn StoresServerSessions>,
}

impl Termination {
    /// Builds it; `previous` is the listener's termination before, `installed` are the certificates that are installed at run
    /// time. HTTP/3 is spoken where its socket was `opened`.
    #[must_use]
    pub fn new(
        listener: &ListenerRules,
        opened: Http3,
        tls: &TlsRules,
        installed: &Arc<Certificates>,
        previous: Option<&Self>,
    ) -> Self {
        let sessions = previous
            .filter(|before| before.rules.clients == tls.clients)
            .map_or_else(Sessions::new, |before| before.sessions.clone());
        let served = Arc::new(ServedCertificates::new(
            &tls.certificates,
            tls.unknown_sni,
            installed,
        ));
        let mut config = builder(tls).with_cert_resolver(Arc::clone(&served) as Arc<_>);
        config.alpn_protocols = protocols(listener.http2());
        config.session_storage = Arc::clone(&sessions.kept);
        if let Some(tickets) = &sessions.tickets {
            config.ticketer = Arc::clone(tickets);
        }
        Self {
            rules: tls.clone(),
            quic: match listener.http3 {
                Http3::Accepted => quic(config.clone()),
                Http3::Off => None,
            },
            alternative_service: alternative_service(listener, opened),
            config: Arc::new(config),
            served,
            sessions,
        }
    }

    /// Returns the settings of its handshakes.
    pub(super) fn config(&self) -> &Arc<ServerConfig> {
        &self.config
    }

    /// Returns the settings of its handshakes over QUIC.
    pub fn quic(&self) -> Option<&Arc<QuicServerConfig>> {
        self.quic.as_ref()
    }

    /// Returns the value of `Alt-Svc`, where HTTP/3 is advertised.
    pub fn alternative_service(&self) -> Option<&HeaderValue> {
        self.alternative_service.as_ref()
    }

    /// Returns whether there is a certificate for a client that asks for `name`.
    pub(super) fn knows(&self, name: Option<&str>) -> bool {
        self.served.find(name).is_some()
    }

    /// Returns the client certificate policy.
    pub fn asked(&self) -> ClientCertPolicy {
        match self.rules.clients {
            Some(_) => ClientCertPolicy::ForCertificate,
            None => ClientCertPolicy::Nothing,
        }
    }
}

impl Sessions {
    fn new() -> Self {
        Self {
            // Its keys change every six hours, and tickets of the previous key are accepted for another six.
            tickets: session_tickets(),
            kept: ServerSessionMemoryCache::new(bounds::TLS_SESSIONS),
        }
    }
}

impl fmt::Debug for Termination {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.rules.fmt(into)
    }
}

/// Returns the settings that answer a certificate authority's TLS-ALPN-01: without sessions and client certificates.
pub(super) fn challenge(answer: Arc<CertifiedKey>) -> Arc<ServerConfig> {
    let mut config = ServerConfig::builder_with_provider(counting_provider().into())
        .with_protocol_versions(&[&TLS13, &TLS12])
        .expect("aws-lc-rs has cipher suites for both versions")
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(SingleCertificate(answer)));
    config.alpn_protocols = vec![ACME_TLS.to_vec()];
    Arc::new(config)
}

fn builder(tls: &TlsRules) -> rustls::ConfigBuilder<ServerConfig, rustls::server::WantsServerCert> {
    let versions = match tls.min_version {
        MinVersion::Tls12 => &[&TLS13, &TLS12][..],
        MinVersion::Tls13 => &[&TLS13],
    };
    let builder = ServerConfig::builder_with_provider(counting_provider().into())
        .with_protocol_versions(versions)
        .expect("aws-lc-rs has cipher suites for both versions");
    match &tls.clients {
        Some(clients) => builder.with_client_cert_verifier(clients.verifier()),
        None => builder.with_no_client_auth(),
    }
}

/// Returns the settings of handshakes over QUIC, RFC 9001: TLS 1.3 alone, whatever the least version of TLS is, and no early data.
fn quic(mut config: ServerConfig) -> Option<Arc<QuicServerConfig>> {
    config.alpn_protocols = vec![b"h3".to_vec()];
    // RFC 8446 §8: a request in early data may be repeated by anyone who saw it, and would be counted twice or not at all.
    config.max_early_data_size = 0;
    // aws-lc-rs has the cipher suite of QUIC's first packets.
    QuicServerConfig::try_from(config).ok().map(Arc::new)
}

/// Returns the value of `Alt-Svc`, RFC 7838 §3: the same host, by UDP at the listener's port, as long as its socket is there. Clients
/// forget it where HTTP/3 was turned off since.
fn alternative_service(listener: &ListenerRules, opened: Http3) -> Option<HeaderValue> {
    match (opened, listener.http3) {
        (Http3::Off, _) => None,
        (Http3::Accepted, Http3::Off) => Some(HeaderValue::from_static("clear")),
        (Http3::Accepted, Http3::Accepted) => {
            let seconds = listener.advertise_http3?.as_secs();
            let port = listener.address.port();
            HeaderValue::try_from(format!("h3=\":{port}\"; ma={seconds}")).ok()
        }
    }
}

/// Returns the protocols; by RFC 7301 §3.2 the server's preference decides.
fn protocols(http2: Http2) -> Vec<Vec<u8>> {
    match http2 {
        Http2::Accepted => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
        Http2::Off => vec![b"http/1.1".to_vec()],
    }
}
