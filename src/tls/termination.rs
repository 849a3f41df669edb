//! Owns what the handshakes of one listener follow: versions, certificates, whom to ask for one, and the memory of sessions.
//!
//! A change of the configuration makes a new one; connections that stand are not touched. Sessions go on across a change of
//! certificates, so that a renewal does not cost every client a full handshake. They end where the question to clients changes: a
//! session proves what its first handshake proved, and must not outlive the trust in who signed that (CVE-2025-23419 is that mistake).
//!
//! # Limits
//! Tickets leave the sessions with the clients. [`TLS_SESSIONS`](bounds::TLS_SESSIONS) are kept here for those that take none.

use std::fmt;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::ring::Ticketer;
use rustls::server::{ProducesTickets, ServerSessionMemoryCache, StoresServerSessions};
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};

use super::certificates::{ACME_TLS, Certificates, Only, Served};
use crate::bounds;
use crate::client::ClientCertPolicy;
use crate::config::rules::{Http2, ListenerRules, MinVersion, TlsRules};

/// How one listener ends TLS.
pub struct Termination {
    /// The rules that it was made of.
    pub rules: TlsRules,
    config: Arc<ServerConfig>,
    served: Arc<Served>,
    sessions: Sessions,
}

/// The memory of sessions.
#[derive(Clone)]
struct Sessions {
    /// `None` where the machine has no random bytes to make keys of.
    tickets: Option<Arc<dyn ProducesTickets>>,
    kept: Arc<dyn StoresServerSessions>,
}

impl Termination {
    /// Makes it; `previous` is what the listener had, `installed` what comes at run time.
    #[must_use]
    pub(crate) fn new(
        listener: &ListenerRules,
        tls: &TlsRules,
        installed: &Arc<Certificates>,
        previous: Option<&Self>,
    ) -> Self {
        let sessions = previous
            .filter(|before| before.rules.clients == tls.clients)
            .map_or_else(Sessions::new, |before| before.sessions.clone());
        let served = Arc::new(Served::new(&tls.certificates, tls.unknown_name, installed));
        let mut config = builder(tls).with_cert_resolver(Arc::clone(&served) as Arc<_>);
        config.alpn_protocols = protocols(listener.http2);
        config.session_storage = Arc::clone(&sessions.kept);
        if let Some(tickets) = &sessions.tickets {
            config.ticketer = Arc::clone(tickets);
        }
        Self {
            rules: tls.clone(),
            config: Arc::new(config),
            served,
            sessions,
        }
    }

    /// What its handshakes follow.
    pub(super) fn config(&self) -> &Arc<ServerConfig> {
        &self.config
    }

    /// Whether there is a certificate for a client that asks for `name`.
    pub(super) fn knows(&self, name: Option<&str>) -> bool {
        self.served.find(name).is_some()
    }

    /// Whether clients are asked for certificates.
    pub(super) fn asked(&self) -> ClientCertPolicy {
        match self.rules.clients {
            Some(_) => ClientCertPolicy::ForCertificate,
            None => ClientCertPolicy::Nothing,
        }
    }
}

impl Sessions {
    fn new() -> Self {
        Self {
            // Its keys change every six hours, and tickets of the last are taken for another six.
            tickets: Ticketer::new().ok(),
            kept: ServerSessionMemoryCache::new(bounds::TLS_SESSIONS),
        }
    }
}

impl fmt::Debug for Termination {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.rules.fmt(into)
    }
}

/// What a certificate authority is answered that asks by TLS-ALPN-01: neither sessions, nor questions to it.
pub(super) fn challenge(answer: Arc<CertifiedKey>) -> Arc<ServerConfig> {
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13, &TLS12])
        .expect("ring has cipher suites for both versions")
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(Only(answer)));
    config.alpn_protocols = vec![ACME_TLS.to_vec()];
    Arc::new(config)
}

fn builder(tls: &TlsRules) -> rustls::ConfigBuilder<ServerConfig, rustls::server::WantsServerCert> {
    let versions = match tls.min_version {
        MinVersion::Tls12 => &[&TLS13, &TLS12][..],
        MinVersion::Tls13 => &[&TLS13],
    };
    let builder = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(versions)
        .expect("ring has cipher suites for both versions");
    match &tls.clients {
        Some(clients) => builder.with_client_cert_verifier(clients.verifier()),
        None => builder.with_no_client_auth(),
    }
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// RFC 7301 §3.2: the server's preference decides.
fn protocols(http2: Http2) -> Vec<Vec<u8>> {
    match http2 {
        Http2::Accepted => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
        Http2::Off => vec![b"http/1.1".to_vec()],
    }
}
