//! Makes one connection: socket, TLS, greeting with password and database. What comes of it is a pipe for any number of callers, and the
//! future that moves its bytes.
//!
//! Sockets are opened here rather than by the client library, so that the end of a connection is seen when it happens and not
//! at the next call, and so that a server's name in its certificate can be another than the one it is reached by.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ProtocolVersion, RedisConnectionInfo, RedisError};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::bounds::QUEUE;
use crate::error::{RefusalReason, refusal};
use crate::settings::{LinkSettings, Login, ServerAddress, TlsSettings};
use crate::time::deadline;

/// A connection that was greeted.
pub(crate) struct OpenConnection {
    /// Takes calls, and gives each its own answer: they are paired by order, a call that was given up before it was written is
    /// never written, and the place of one given up later stays in the row.
    pub(crate) pipe: MultiplexedConnection,
    /// Moves the bytes; it ends with the connection.
    pub(crate) driver: Pin<Box<dyn Future<Output = ()> + Send>>,
}

/// Who is greeted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Handshake<'a> {
    /// A server with keys, as who the settings say, in this database.
    Keys {
        /// Its number.
        database: u16,
    },
    /// A Sentinel, which has users of its own.
    Sentinel(&'a Login),
}

/// Why there is no connection.
#[derive(Debug)]
pub(crate) enum DialError {
    /// It did not stand within this.
    Slow(Duration),
    /// The socket.
    Socket(io::Error),
    /// The handshake of TLS.
    Tls(io::Error),
    /// What the server said to the greeting.
    Greeting(RedisError),
}

/// Connects within the settings' `connect_timeout`.
pub(crate) async fn connect(
    place: &ServerAddress,
    greeting: Handshake<'_>,
    settings: &LinkSettings,
) -> Result<OpenConnection, DialError> {
    let deadline = deadline(settings.connect_timeout);
    tokio::time::timeout_at(deadline, at_leisure(place, greeting, settings))
        .await
        .unwrap_or(Err(DialError::Slow(settings.connect_timeout)))
}

async fn at_leisure(
    place: &ServerAddress,
    greeting: Handshake<'_>,
    settings: &LinkSettings,
) -> Result<OpenConnection, DialError> {
    match place {
        ServerAddress::Unix(path) => {
            let stream = UnixStream::connect(path).await.map_err(DialError::Socket)?;
            greet(stream, greeting, settings).await
        }
        ServerAddress::Tcp(place) => {
            let stream = TcpStream::connect((&*place.host, place.port))
                .await
                .map_err(DialError::Socket)?;
            // A call is one small packet that should leave at once.
            stream.set_nodelay(true).map_err(DialError::Socket)?;
            match &settings.tls {
                None => greet(stream, greeting, settings).await,
                Some(tls) => {
                    let wrapped = encrypt(tls, &place.host, stream).await;
                    greet(wrapped.map_err(DialError::Tls)?, greeting, settings).await
                }
            }
        }
    }
}

/// Encrypts a connection to `host`.
async fn encrypt(
    tls: &TlsSettings,
    host: &str,
    stream: TcpStream,
) -> io::Result<TlsStream<TcpStream>> {
    let name = match &tls.server_name {
        Some(name) => name.clone(),
        None => ServerName::try_from(host.to_owned()).map_err(io::Error::other)?,
    };
    TlsConnector::from(Arc::clone(&tls.config))
        .connect(name, stream)
        .await
}

async fn greet<S>(
    stream: S,
    greeting: Handshake<'_>,
    settings: &LinkSettings,
) -> Result<OpenConnection, DialError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut who = RedisConnectionInfo::default()
        .set_protocol(ProtocolVersion::RESP2)
        .set_lib_name(settings.library.name, settings.library.version);
    let Login { user, password } = match greeting {
        Handshake::Keys { database } => {
            who = who.set_db(i64::from(database));
            &settings.login
        }
        Handshake::Sentinel(login) => login,
    };
    if let Some(user) = user {
        who = who.set_username(user);
    }
    if let Some(password) = password {
        who = who.set_password(password.reveal());
    }
    // Every call has a deadline of its own.
    let config = AsyncConnectionConfig::new()
        .set_response_timeout(None)
        .set_pipeline_buffer_size(QUEUE);
    let (pipe, driver) = MultiplexedConnection::new_with_config(&who, stream, config)
        .await
        .map_err(DialError::Greeting)?;
    Ok(OpenConnection {
        pipe,
        driver: Box::pin(driver),
    })
}

impl DialError {
    /// Whether the server refused who the gateway says it is.
    pub(crate) fn is_denied(&self) -> bool {
        matches!(self, Self::Greeting(error) if {
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
            Self::Greeting(error) => write!(into, "the greeting failed: {error}"),
        }
    }
}
