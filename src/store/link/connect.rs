//! Makes one connection: socket, TLS, greeting with password and database. What comes of it is a pipe for any number of callers, and the
//! future that moves its bytes.
//!
//! Sockets are opened here rather than by the client library, so that the end of a connection is seen when it happens and not
//! at the next call, and so that a server's name in its certificate can be another than the one it is reached by.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ProtocolVersion, RedisConnectionInfo, RedisError};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

use super::answer::{RefusalReason, refusal};
use crate::bounds::STORE_QUEUE;
use crate::clock;
use crate::config::rules::{Login, StorePlace, StoreRules};

/// A connection that was greeted.
pub(super) struct OpenConnection {
    /// Takes calls, and gives each its own answer: they are paired by order, a call that was given up before it was written is
    /// never written, and the place of one given up later stays in the row.
    pub(super) pipe: MultiplexedConnection,
    /// Moves the bytes; it ends with the connection.
    pub(super) driver: Pin<Box<dyn Future<Output = ()> + Send>>,
}

/// Who is greeted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Handshake<'a> {
    /// A server with keys, as who the rules say, in this database.
    Keys {
        /// Its number.
        database: u16,
    },
    /// A Sentinel, which has users of its own.
    Sentinel(&'a Login),
}

/// Why there is no connection.
#[derive(Debug)]
pub(super) enum DialError {
    /// It did not stand within this.
    Slow(Duration),
    /// The socket.
    Socket(io::Error),
    /// The handshake of TLS.
    Tls(io::Error),
    /// What the server said to the greeting.
    Greeting(RedisError),
}

/// Connects within the rules' `connect_timeout`.
pub(super) async fn connect(
    place: &StorePlace,
    greeting: Handshake<'_>,
    rules: &StoreRules,
) -> Result<OpenConnection, DialError> {
    let deadline = clock::deadline(rules.connect_timeout);
    tokio::time::timeout_at(deadline, at_leisure(place, greeting, rules))
        .await
        .unwrap_or(Err(DialError::Slow(rules.connect_timeout)))
}

async fn at_leisure(
    place: &StorePlace,
    greeting: Handshake<'_>,
    rules: &StoreRules,
) -> Result<OpenConnection, DialError> {
    match place {
        StorePlace::Unix(path) => {
            let stream = UnixStream::connect(path).await.map_err(DialError::Socket)?;
            greet(stream, greeting, rules).await
        }
        StorePlace::Tcp(place) => {
            let stream = TcpStream::connect((&*place.host, place.port))
                .await
                .map_err(DialError::Socket)?;
            // A call is one small packet that should leave at once.
            stream.set_nodelay(true).map_err(DialError::Socket)?;
            match &rules.tls {
                None => greet(stream, greeting, rules).await,
                Some(tls) => {
                    let wrapped = tls.wrap(&place.host, stream).await;
                    greet(wrapped.map_err(DialError::Tls)?, greeting, rules).await
                }
            }
        }
    }
}

async fn greet<S>(
    stream: S,
    greeting: Handshake<'_>,
    rules: &StoreRules,
) -> Result<OpenConnection, DialError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut who = RedisConnectionInfo::default()
        .set_protocol(ProtocolVersion::RESP2)
        .set_lib_name("sluicegate", env!("CARGO_PKG_VERSION"));
    let Login { user, password } = match greeting {
        Handshake::Keys { database } => {
            who = who.set_db(i64::from(database));
            &rules.login
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
        .set_pipeline_buffer_size(STORE_QUEUE);
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
    pub(super) fn is_denied(&self) -> bool {
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
