//! Makes one connection: socket, TLS, greeting with password and database. The result is a pipe for any number of callers and the future
//! that moves its bytes.
//!
//! The environment of the link opens sockets, not the client library, so that the link sees the end of a connection when it happens and
//! not at the next call, and so that the name in a server's certificate can be another than the one by which it is reached.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ProtocolVersion, RedisConnectionInfo, RedisError};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::address::ServerAddress;
use crate::bounds::QUEUE;
use crate::environment::ByteStream;
use crate::error::{RefusalReason, refusal};
use crate::settings::{LinkSettings, Login, TlsSettings};
use crate::time::deadline;

/// A connection after its greeting.
pub(crate) struct OpenConnection {
    /// Takes calls and returns to each its own answer. Calls and answers are paired by order: a call that was given up before it was
    /// written is never written, and one that is given up later keeps its place in the order.
    pub(crate) multiplexed: MultiplexedConnection,
    /// Moves the bytes, and ends with the connection.
    pub(crate) driver: Pin<Box<dyn Future<Output = ()> + Send>>,
}

/// The kind of server that is greeted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Handshake<'a> {
    /// A server with keys, greeted with the login of the settings.
    Keys {
        /// The number of the database.
        database: u16,
    },
    /// A Sentinel, which has its own users.
    Sentinel(&'a Login),
}

/// The cause of a failed connection.
#[derive(Debug)]
pub(crate) enum DialError {
    /// The connection was not made within this time.
    Slow(Duration),
    /// The socket failed.
    Socket(io::Error),
    /// The TLS handshake failed.
    Tls(io::Error),
    /// The server answered the greeting with this error.
    Handshake(RedisError),
}

/// Connects within the settings' `connect_timeout`.
pub(crate) async fn connect(
    address: &ServerAddress,
    handshake: Handshake<'_>,
    settings: &LinkSettings,
) -> Result<OpenConnection, DialError> {
    let deadline = deadline(settings.connect_timeout);
    tokio::time::timeout_at(deadline, connect_untimed(address, handshake, settings))
        .await
        .unwrap_or(Err(DialError::Slow(settings.connect_timeout)))
}

async fn connect_untimed(
    address: &ServerAddress,
    handshake: Handshake<'_>,
    settings: &LinkSettings,
) -> Result<OpenConnection, DialError> {
    let opened = settings.environment.open(address).await;
    let stream = opened.map_err(DialError::Socket)?;
    match (address, &settings.tls) {
        (ServerAddress::Tcp(address), Some(tls)) => {
            let wrapped = connect_tls(tls, &address.host, stream).await;
            shake_hands(wrapped.map_err(DialError::Tls)?, handshake, settings).await
        }
        (ServerAddress::Tcp(_), None) | (ServerAddress::Unix(_), _) => {
            shake_hands(stream, handshake, settings).await
        }
    }
}

/// Encrypts a connection to `host`.
async fn connect_tls(
    tls: &TlsSettings,
    host: &str,
    stream: Box<dyn ByteStream>,
) -> io::Result<TlsStream<Box<dyn ByteStream>>> {
    let name = match &tls.server_name {
        Some(name) => name.clone(),
        None => ServerName::try_from(host.to_owned()).map_err(io::Error::other)?,
    };
    TlsConnector::from(Arc::clone(&tls.config))
        .connect(name, stream)
        .await
}

async fn shake_hands<S>(
    stream: S,
    handshake: Handshake<'_>,
    settings: &LinkSettings,
) -> Result<OpenConnection, DialError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut info = RedisConnectionInfo::default()
        .set_protocol(ProtocolVersion::RESP2)
        .set_lib_name(settings.library.name, settings.library.version);
    let Login { user, password } = match handshake {
        Handshake::Keys { database } => {
            info = info.set_db(i64::from(database));
            &settings.login
        }
        Handshake::Sentinel(login) => login,
    };
    if let Some(user) = user {
        info = info.set_username(user);
    }
    if let Some(password) = password {
        info = info.set_password(password.reveal());
    }
    // Every call has a deadline of its own.
    let config = AsyncConnectionConfig::new()
        .set_response_timeout(None)
        .set_pipeline_buffer_size(QUEUE);
    let (multiplexed, driver) = MultiplexedConnection::new_with_config(&info, stream, config)
        .await
        .map_err(DialError::Handshake)?;
    Ok(OpenConnection {
        multiplexed,
        driver: Box::pin(driver),
    })
}

impl DialError {
    /// Returns whether the server refused the login.
    pub(crate) fn is_denied(&self) -> bool {
        matches!(self, Self::Handshake(error) if {
            let code = error.code().unwrap_or_default();
            let details = error.detail().unwrap_or_default();
            refusal(code, details) == RefusalReason::Denied
                || error.kind() == redis::ErrorKind::AuthenticationFailed
        })
    }
}

impl fmt::Display for DialError {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Slow(patience) => write!(into, "no connection within {patience:?}"),
            Self::Socket(error) => write!(into, "no connection: {error}"),
            Self::Tls(error) => write!(into, "no TLS: {error}"),
            Self::Handshake(error) => write!(into, "the greeting failed: {error}"),
        }
    }
}
