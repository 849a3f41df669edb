//! Makes failures of the errors of Pingora's transport, the only ones that the path of a request gets from Pingora.

use std::error::Error as Cause;
use std::io;

use pingora::{Error, ErrorType};

use super::dialer::NO_CONNECTION;
use super::server::OriginServer;
use crate::request_failure::{ConnectFailure, ConnectStep};

/// The cure for a self-signed certificate that `openssl req -x509` makes, which is also marked as a certificate authority.
const SELF_SIGNED_AUTHORITY: &str = "the server shows the certificate of an authority; make it with \
     -addext basicConstraints=critical,CA:FALSE, and name it in ca_file";

/// Words in the texts of rustls, and what they mean to an operator. docs/operations/tls.md lists what is spoken with servers.
const TLS_CAUSES: [(&str, &str); 7] = [
    ("CaUsedAsEndEntity", SELF_SIGNED_AUTHORITY),
    (
        "UnsupportedCertVersion",
        "its certificate has X.509 version 1; make one of version 3, or write tls = { verify = \"off\" }",
    ),
    (
        "UnsupportedCriticalExtension",
        "its certificate has a critical extension that is not known here; tls = { verify = \"off\" } accepts it",
    ),
    (
        "UnsupportedSignatureAlgorithm",
        "a certificate of its chain has a key or a signature of a kind that cannot be verified, such as SHA-1, or RSA of less than \
         2048 bits",
    ),
    (
        "BadSignature",
        "a signature of its chain is wrong, or made with an RSA key of less than 2048 bits",
    ),
    (
        "HandshakeFailure",
        "the server accepts none of the cipher suites, groups and signatures that are offered: TLS 1.2 with ECDHE and AES-GCM or \
         ChaCha20, or TLS 1.3",
    ),
    (
        "ProtocolVersion",
        "the server speaks neither TLS 1.2 nor TLS 1.3",
    ),
];

/// The reason for which a request has no connection. Nothing was sent.
#[derive(Debug)]
pub enum ConnectError {
    /// The server has all the connections that it may. It did not fail.
    AtBound,
    /// The server failed.
    Failed(ConnectFailure),
}

impl From<ConnectFailure> for ConnectError {
    fn from(failure: ConnectFailure) -> Self {
        Self::Failed(failure)
    }
}

impl ConnectError {
    /// Returns the reason behind an error of a connection to `server`.
    pub(super) fn from_error(error: &Error, server: &OriginServer) -> Self {
        use ErrorType as E;
        Self::Failed(match error.etype() {
            E::Custom(NO_CONNECTION) => return Self::AtBound,
            E::ConnectTimedout => {
                ConnectFailure::Timeout(step(error, server), server.connect_timeout())
            }
            E::TLSHandshakeFailure | E::InvalidCert => ConnectFailure::Tls(tls_text(error)),
            // The kernel accepted the connection, and it was reset before its first use.
            _ if is_reset(error) => ConnectFailure::Reset(text(error)),
            _ => ConnectFailure::Other(text(error)),
        })
    }
}

/// Returns the step that took too long. Pingora's errors differ in their context alone, and say nothing of it where the connections of the
/// server have a bound.
fn step(error: &Error, server: &OriginServer) -> ConnectStep {
    let is_behind_tcp = context(error).is_some_and(|text| text.starts_with("connecting to server"));
    match server.peer.is_tls() {
        true if server.connections.is_some() => ConnectStep::All,
        true if is_behind_tcp => ConnectStep::Tls,
        _ => ConnectStep::Tcp,
    }
}

/// Returns whether the operating system reports a reset by the other side.
fn is_reset(error: &Error) -> bool {
    let mut cause: Option<&dyn Cause> = Some(error.root_cause());
    while let Some(inner) = cause {
        if let Some(io) = inner.downcast_ref::<io::Error>() {
            return io.kind() == io::ErrorKind::ConnectionReset;
        }
        cause = inner.source();
    }
    false
}

/// Returns the innermost of Pingora's errors.
fn root(error: &Error) -> &Error {
    let mut root = error;
    while let Some(cause) = &root.cause
        && let Some(inner) = cause.downcast_ref::<Box<Error>>()
    {
        root = inner;
    }
    root
}

/// Returns the context of the innermost of Pingora's errors.
fn context(error: &Error) -> Option<&str> {
    root(error).context.as_ref().map(|context| context.as_str())
}

/// Returns the text of the operating system or of a library; without one, that of Pingora.
fn text(error: &Error) -> String {
    match (&root(error).cause, context(error)) {
        (Some(cause), _) => cause.to_string(),
        (None, Some(context)) => context.to_owned(),
        (None, None) => error.etype().as_str().to_owned(),
    }
}

/// Returns the text of a failed handshake, which Pingora puts into a context together with its own text and the server name.
fn tls_text(error: &Error) -> String {
    let text = context(error).map_or_else(|| text(error), str::to_owned);
    let end = text.rfind(", SNI:").unwrap_or(text.len());
    let inner = &text[..end];
    let begin = ["cause: ", "context: ", "failed: "]
        .iter()
        .find_map(|word| inner.rfind(word).map(|at| at + word.len()));
    let inner = &inner[begin.unwrap_or(0)..];
    let inner = inner
        .strip_prefix("tls stream error: ")
        .unwrap_or(inner)
        .trim();
    let cause = TLS_CAUSES.iter().find(|(word, _)| inner.contains(word));
    cause.map_or_else(
        || inner.to_owned(),
        |(_, cause)| format!("{inner}: {cause}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::tests::pool;
    use crate::request_failure::{FailureKind, OriginFailure, ResponseStage};

    /// Goal: the cause of a Pingora error stays readable. Method: errors as Pingora 0.9.1 raises them.
    #[test]
    fn causes_keep_the_text_of_their_source() {
        use ErrorType as E;
        let pool = pool("servers = [\"127.0.0.1:9\"]\ntimeouts = { connect = \"2s\" }");
        let server = &pool.servers()[0];
        let [refused, reset] = [111, 104].map(io::Error::from_raw_os_error);
        for (error, kind, text) in [
            (
                Error::because(E::ConnectRefused, "Fail to connect", refused)
                    .more_context("Peer: 127.0.0.1:9"),
                FailureKind::Connect,
                "Connection refused (os error 111)",
            ),
            (
                Error::because(E::ConnectError, "Fail to connect", reset),
                FailureKind::Reset,
                "Connection reset by peer (os error 104)",
            ),
            (
                Error::explain(E::ConnectTimedout, "timeout 2s connecting to server a"),
                FailureKind::ConnectTimeout,
                "no connection within 2s",
            ),
            (
                Error::explain(
                    E::TLSHandshakeFailure,
                    "TLS connect() failed:  TLSHandshakeFailure context: invalid peer certificate: UnknownIssuer, SNI: a.b",
                ),
                FailureKind::Tls,
                "invalid peer certificate: UnknownIssuer",
            ),
        ] {
            let ConnectError::Failed(failure) = ConnectError::from_error(&error, server) else {
                panic!("{error}");
            };
            let failure = OriginFailure::Connect(failure);
            assert_eq!(failure.kind(ResponseStage::Awaited), kind, "{error}");
            assert_eq!(failure.to_string(), text, "{error}");
        }
    }
}
