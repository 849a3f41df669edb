//! Terminates TLS: from an accepted connection to one that speaks HTTP.
//!
//! The handshake is ours rather than that of Pingora's listener, so that the PROXY protocol can precede it, and so that it has
//! tickets, versions, a deadline and a cap; decision 0014 has the details. Its first message is read before anything is decided:
//! it distinguishes a certificate authority that validates a name from a client, and an unknown name has a count of its own.
//!
//! # Limits
//! A handshake takes at most [`HANDSHAKE_TIME`](bounds::HANDSHAKE_TIME). It takes a permit with its first byte, so that the listener bounds
//! how many run at once. rustls bounds its messages, at 64 KiB.
#![forbid(unsafe_code)]
// A test that unwraps fails where it should.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

mod certificates;
pub mod client_socket;
mod hello;
mod listeners;
mod stream;
mod termination;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use pingora::prelude::timeout;
use quinn_proto::crypto::Session;
use quinn_proto::crypto::rustls::HandshakeData;
use rustls::pki_types::CertificateDer;
use rustls::server::Acceptor;
use rustls::{Error, ServerConnection};
use tokio_rustls::{LazyConfigAcceptor, StartHandshake};
use tracing::debug;

pub use certificates::Certificates;
pub use listeners::{ActiveListener, Listeners, compile};
use sluicegate_decide::client::{ClientCertificate, TlsFacts};
pub use stream::SecuredStream;
pub use termination::Termination;

use crate::client_socket::ClientSocket;
use sluicegate_base::bounds;
use sluicegate_record::{HandshakeCounts, HandshakeFailure, HandshakeKind, TlsVersion};

/// The times that a client has for its handshake.
#[derive(Clone, Copy, Debug)]
pub struct HandshakeTimes {
    /// For its first byte.
    pub first_byte: Duration,
    /// For all of it, where [`bounds::HANDSHAKE_TIME`] is not less.
    pub whole: Duration,
}

/// Performs the handshake and returns the connection under TLS; `None` where it was a validation by a certificate authority. `enter`
/// acquires a permit once the first byte is here, which is kept to the end of the handshake.
///
/// # Errors
/// The reason of the failure, which is counted.
pub async fn shake_hands<Permit>(
    socket: ClientSocket,
    termination: &Termination,
    installed: &Certificates,
    handshakes: &HandshakeCounts,
    times: HandshakeTimes,
    enter: impl FnOnce() -> Result<Permit, HandshakeFailure>,
) -> Result<Option<SecuredStream>, HandshakeFailure> {
    let silence = times.first_byte;
    let shake = shake(socket, termination, installed, handshakes, silence, enter);
    let ended = timeout(times.whole.min(bounds::HANDSHAKE_TIME), shake).await;
    let ended = ended.unwrap_or(Err(HandshakeFailure::TimedOut));
    ended.inspect_err(|failure| handshakes.failed(*failure))
}

/// Returns `None` where it was a validation by a certificate authority, which is answered by then.
async fn shake<Permit>(
    mut socket: ClientSocket,
    termination: &Termination,
    installed: &Certificates,
    handshakes: &HandshakeCounts,
    silence: Duration,
    enter: impl FnOnce() -> Result<Permit, HandshakeFailure>,
) -> Result<Option<SecuredStream>, HandshakeFailure> {
    let begun = timeout(silence, hello::begin(&mut socket)).await;
    let begun = begun.map_err(|_| HandshakeFailure::TimedOut)?;
    let first = begun.ok_or(HandshakeFailure::Gone)?;
    let _permit = enter()?;
    let looked = hello::look(&mut socket, first).await;
    let ja4 = looked.ok_or(HandshakeFailure::Gone)?;
    let start: StartHandshake<ClientSocket> = LazyConfigAcceptor::new(Acceptor::default(), socket)
        .await
        .map_err(|error| failure(&error))?;
    let hello = start.client_hello();
    if let Some(answer) = installed.challenge(&hello) {
        // RFC 8737 §3: the connection ends with its handshake.
        let answered = start.into_stream(termination::challenge(answer)).await;
        let mut answered = answered.map_err(|error| failure(&error))?;
        let _ = tokio::io::AsyncWriteExt::shutdown(&mut answered).await;
        handshakes.succeeded(HandshakeKind::Acme, version_of(answered.get_ref().1));
        return Ok(None);
    }
    // rustls itself ends the handshake of an unknown name, by the alert for it; here it only gets a count of its own.
    let why: fn(&io::Error) -> HandshakeFailure = if termination.knows(hello.server_name()) {
        failure
    } else {
        |_| HandshakeFailure::UnknownName
    };
    let shaken = start.into_stream(Arc::clone(termination.config())).await;
    let tls = shaken.map_err(|error| why(&error))?;
    let session = tls.get_ref().1;
    let kind = match session.handshake_kind() {
        Some(rustls::HandshakeKind::Resumed) => HandshakeKind::Resumed,
        _ => HandshakeKind::Full,
    };
    handshakes.succeeded(kind, version_of(session));
    let secured = Arc::new(TlsFacts {
        ja4,
        ..secured_of(session, termination)
    });
    Ok(Some(SecuredStream::new(tls, secured)))
}

/// Returns the version that was negotiated.
fn version_of(session: &ServerConnection) -> TlsVersion {
    match session.protocol_version() {
        Some(rustls::ProtocolVersion::TLSv1_2) => TlsVersion::Tls12,
        _ => TlsVersion::Tls13,
    }
}

/// Returns the facts of the handshake.
fn secured_of(session: &ServerConnection, termination: &Termination) -> TlsFacts {
    let suite = session.negotiated_cipher_suite();
    let certificate = session.peer_certificates().and_then(|chain| chain.first());
    TlsFacts {
        version: version_of(session).as_str(),
        cipher: suite.map_or("", |suite| suite.suite().as_str().unwrap_or_default()),
        server_name: session
            .server_name()
            .map(|name| name.to_ascii_lowercase().into()),
        certificate: certificate.map(|certificate| ClientCertificate::from_der(certificate)),
        asked: termination.asked(),
        ja4: None,
        strict_transport: termination.rules.hsts.clone(),
        alternative_service: termination.alternative_service().cloned(),
    }
}

/// Returns the facts of a handshake over QUIC. Its cipher suite, and the message of which JA4 is made, stay in QUIC.
pub fn quic_facts(session: &dyn Session, termination: &Termination) -> TlsFacts {
    let negotiated = session.handshake_data();
    let negotiated = negotiated.and_then(|negotiated| negotiated.downcast::<HandshakeData>().ok());
    let chain = session.peer_identity();
    let chain = chain.and_then(|chain| chain.downcast::<Vec<CertificateDer<'static>>>().ok());
    let certificate = chain.as_ref().and_then(|chain| chain.first());
    TlsFacts {
        version: TlsVersion::Tls13.as_str(),
        cipher: "",
        server_name: negotiated
            .and_then(|negotiated| negotiated.server_name)
            .map(|name| name.to_ascii_lowercase().into()),
        certificate: certificate.map(|certificate| ClientCertificate::from_der(certificate)),
        asked: termination.asked(),
        ja4: None,
        strict_transport: termination.rules.hsts.clone(),
        alternative_service: termination.alternative_service().cloned(),
    }
}

/// Returns why a handshake failed, for the count. Nothing is logged above debug: any client can make handshakes fail.
fn failure(error: &io::Error) -> HandshakeFailure {
    debug!("handshake: {error}");
    let reason = error
        .get_ref()
        .and_then(|reason| reason.downcast_ref::<Error>());
    match reason {
        None => HandshakeFailure::Gone,
        Some(Error::InvalidMessage(_)) => HandshakeFailure::NotTls,
        Some(Error::PeerIncompatible(_) | Error::NoApplicationProtocol) => {
            HandshakeFailure::NothingInCommon
        }
        Some(Error::NoCertificatesPresented | Error::InvalidCertificate(_)) => {
            HandshakeFailure::ClientCertificate
        }
        Some(Error::AlertReceived(_)) => HandshakeFailure::RefusedByClient,
        Some(Error::PeerMisbehaved(_) | Error::InappropriateMessage { .. }) => {
            HandshakeFailure::NotTls
        }
        Some(_) => HandshakeFailure::Other,
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::num::NonZeroU16;

    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, ServerName};
    use rustls::{ClientConfig, RootCertStore};
    use tokio::net::{TcpListener, TcpStream};
    use tokio_rustls::TlsConnector;

    use super::*;
    use sluicegate_base::pki::{CertificateTexts, ServerCertificate, crypto_provider};
    use sluicegate_base::secret::Secret;
    use sluicegate_config::rules::{
        Http2, Http3, ListenerProtocol, ListenerRules, MinVersion, ProxyProtocol, TlsRules,
        UnknownName,
    };

    fn certificate() -> (ServerCertificate, CertificateDer<'static>) {
        let made = rcgen::generate_simple_self_signed(["a.test".to_owned()]).unwrap();
        let chain = made.cert.pem();
        let certificate = ServerCertificate::new(CertificateTexts {
            chain: chain.as_str().into(),
            key: Secret::new(&made.signing_key.serialize_pem()),
            names: None,
        });
        let der = CertificateDer::from_pem_slice(chain.as_bytes()).unwrap();
        (certificate.unwrap(), der)
    }

    fn listener(certificate: &ServerCertificate) -> ListenerRules {
        ListenerRules {
            address: SocketAddr::from(([127, 0, 0, 1], 443)),
            name: None,
            protocol: ListenerProtocol::Http,
            http2: Http2::Accepted,
            http3: Http3::Off,
            advertise_http3: None,
            proxy_protocol: ProxyProtocol::Off,
            redirect_to_https: NonZeroU16::new(443),
            tls: Some(TlsRules {
                certificates: vec![certificate.clone()],
                acme: None,
                min_version: MinVersion::Tls12,
                clients: None,
                unknown_sni: UnknownName::Default,
                hsts: None,
            }),
        }
    }

    /// Returns the certificate that a client gets which offers `protocols`, if any, and whether the connection continues.
    async fn shown(
        protocols: &[&[u8]],
        (termination, installed): (&Termination, &Certificates),
        trusted: &[CertificateDer<'static>],
    ) -> (Option<CertificateDer<'static>>, bool) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut roots = RootCertStore::empty();
        for certificate in trusted {
            roots.add(certificate.clone()).unwrap();
        }
        let mut config = ClientConfig::builder_with_provider(crypto_provider())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        let client = async {
            let stream = TcpStream::connect(address).await.unwrap();
            let name = ServerName::try_from("a.test").unwrap();
            let connector = TlsConnector::from(Arc::new(config));
            let tls = connector.connect(name, stream).await.ok()?;
            let chain = tls.get_ref().1.peer_certificates()?;
            chain.first().map(|first| first.clone().into_owned())
        };
        let server = async {
            let (socket, peer) = listener.accept().await.unwrap();
            let socket = ClientSocket::new(socket, peer);
            let counts = HandshakeCounts::default();
            let patience = Duration::from_secs(60);
            let times = HandshakeTimes {
                first_byte: patience,
                whole: patience,
            };
            let enter = || Ok(());
            let shaken = shake_hands(socket, termination, installed, &counts, times, enter).await;
            let goes_on = shaken.ok().flatten();
            goes_on.is_some()
        };
        tokio::join!(client, server)
    }

    /// Goal: TLS-ALPN-01 (RFC 8737) works. Method: a certificate authority and browsers connect before, while and after an
    /// answer is there.
    #[tokio::test]
    async fn only_a_certificate_authority_gets_the_challenge_certificate() {
        let ((site, site_der), (answer, answer_der)) = (certificate(), certificate());
        let installed = Arc::new(Certificates::default());
        let rules = listener(&site);
        let tls = rules.tls.as_ref().unwrap();
        let termination = Termination::new(&rules, Http3::Off, tls, &installed, None);
        let trusted = [site_der.clone(), answer_der.clone()];
        let ask = async |protocols: &[&[u8]]| {
            shown(protocols, (&termination, &installed), &trusted).await
        };
        let authority: &[&[u8]] = &[b"acme-tls/1"];
        // No common protocol, RFC 7301 §3.2.
        assert_eq!(ask(authority).await, (None, false));
        installed.answer_challenge("A.test", Arc::clone(answer.certified()));
        assert_eq!(ask(authority).await, (Some(answer_der), false));
        let others: [&[&[u8]]; 3] = [&[], &[b"h2"], &[b"http/1.1", b"acme-tls/1"]];
        for other in others {
            assert_eq!(ask(other).await, (Some(site_der.clone()), true));
        }
        installed.forget_challenge("a.test");
        assert_eq!(ask(authority).await, (None, false));
    }
}
