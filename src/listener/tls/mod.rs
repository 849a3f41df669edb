//! Ends TLS: from a connection that was accepted to one that speaks HTTP.
//!
//! The handshake is ours rather than Pingora's listener's, so that the PROXY protocol can stand before it, and so that it has tickets,
//! versions, a deadline and a cap; decision 0014 says more. Its first message is read before anything is decided: by it a certificate
//! authority that checks a name is told from a client, and a name that nobody serves ends in a count of its own.
//!
//! # Limits
//! A handshake takes at most [`HANDSHAKE_TIME`](bounds::HANDSHAKE_TIME), and [`HANDSHAKES`](bounds::HANDSHAKES) are under way at once:
//! each costs as much arithmetic as a hundred requests. rustls bounds its messages, at 64 KiB.

mod certificate;
mod certificates;
mod clients;
mod stream;
mod termination;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use log::debug;
use pingora::prelude::timeout;
use pingora::protocols::Stream;
use rustls::server::Acceptor;
use rustls::{Error, ServerConnection};
use tokio_rustls::{LazyConfigAcceptor, StartHandshake};

pub use certificate::{Certificate, CertificateError, CertificateTexts, Validity, served};
pub use certificates::Certificates;
pub use clients::ClientTrust;
pub(crate) use stream::{secured, secured_by};
pub use termination::Termination;

use crate::bounds;
use crate::client::{ClientCertificate, Secured};
use crate::record::{HandshakeFailure, HandshakeKind, Handshakes};
use stream::SecuredStream;

/// Lets a client prove what it must, and gives the connection under TLS; `None` when it ends here, which is counted.
pub(super) async fn shake_hands(
    stream: Stream,
    termination: &Termination,
    installed: &Certificates,
    handshakes: &Handshakes,
    patience: Duration,
) -> Option<Stream> {
    let Some(_under_way) = handshakes.begin() else {
        handshakes.failed(HandshakeFailure::Crowded);
        return None;
    };
    let shake = shake(stream, termination, installed, handshakes);
    let ended = timeout(patience.min(bounds::HANDSHAKE_TIME), shake).await;
    match ended.unwrap_or(Err(HandshakeFailure::TimedOut)) {
        Ok(stream) => stream,
        Err(failure) => {
            handshakes.failed(failure);
            None
        }
    }
}

/// `None` where it was a question of a certificate authority, which is answered by then.
async fn shake(
    stream: Stream,
    termination: &Termination,
    installed: &Certificates,
    handshakes: &Handshakes,
) -> Result<Option<Stream>, HandshakeFailure> {
    let start: StartHandshake<Stream> = LazyConfigAcceptor::new(Acceptor::default(), stream)
        .await
        .map_err(|error| failure(&error))?;
    let hello = start.client_hello();
    if let Some(answer) = installed.challenge(&hello) {
        // RFC 8737 §3: the connection ends with its handshake.
        let answered = start.into_stream(termination::challenge(answer)).await;
        let mut answered = answered.map_err(|error| failure(&error))?;
        let _ = tokio::io::AsyncWriteExt::shutdown(&mut answered).await;
        handshakes.challenged();
        return Ok(None);
    }
    // rustls ends the handshake of an unknown name itself, by the alert that says so; here it is only told from others.
    let why: fn(&io::Error) -> HandshakeFailure = if termination.knows(hello.server_name()) {
        failure
    } else {
        |_| HandshakeFailure::UnknownName
    };
    let shaken = start.into_stream(Arc::clone(termination.config())).await;
    let tls = shaken.map_err(|error| why(&error))?;
    let session = tls.get_ref().1;
    handshakes.succeeded(match session.handshake_kind() {
        Some(rustls::HandshakeKind::Resumed) => HandshakeKind::Resumed,
        _ => HandshakeKind::Full,
    });
    let secured = Arc::new(secured_of(session, termination));
    match SecuredStream::new(tls, secured) {
        Ok(stream) => Ok(Some(Box::new(stream))),
        Err(_) => Err(HandshakeFailure::Other),
    }
}

/// What the handshake said.
fn secured_of(session: &ServerConnection, termination: &Termination) -> Secured {
    let version = session.protocol_version();
    let suite = session.negotiated_cipher_suite();
    let certificate = session.peer_certificates().and_then(|chain| chain.first());
    Secured {
        version: match version {
            Some(rustls::ProtocolVersion::TLSv1_2) => "TLSv1.2",
            _ => "TLSv1.3",
        },
        cipher: suite.map_or("", |suite| suite.suite().as_str().unwrap_or_default()),
        server_name: session
            .server_name()
            .map(|name| name.to_ascii_lowercase().into()),
        certificate: certificate.map(|certificate| ClientCertificate::of(certificate)),
        asked: termination.asked(),
        strict_transport: termination.rules.strict_transport.clone(),
    }
}

/// Why a handshake failed, for the count. Nothing is logged above debug: anybody can make handshakes fail.
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
