//! Opens and keeps the connections to servers that speak HTTP/1.1, for the gateway's own path.
//!
//! A request takes an idle connection ([`super::idle`]), or opens one. Pingora's transport opens the sockets, with its TLS and its
//! timeouts; nothing is kept in Pingora's pool. Where connections have a bound, [`super::dialer`] opens only those that have a permit.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use pingora::connectors::{ConnectorOptions, TransportConnector};
use pingora::protocols::{Stream, UniqueIDType};
use pingora::{ErrorType, Result};
use tokio::io::AsyncWriteExt;

use super::dialer::NO_CONNECTION;
use super::idle::{ConnectionHome, IdleConnection, IdleConnections, KeepPlace, TakeFrom, thread};
use super::server::OriginServer;
use crate::reusable_timeout::ReusableTimeout;
use crate::thread_buffer::read_through;

/// Bytes asked for in one read of a response.
const RESPONSE_READ: usize = 32 * 1024;

/// Idle connections of a list that a request takes in turn until one is open. Beyond that the server has most likely closed all.
const IDLE_LOOKS: usize = 16;

/// Opens connections to servers, and keeps idle ones.
pub struct OriginConnector {
    transport: TransportConnector,
    idle: Arc<IdleConnections>,
}

/// A connection to a server, with the bytes that were read from it and not consumed.
pub struct OriginConnection {
    stream: Stream,
    /// The bytes that were read and not consumed.
    pub read: BytesMut,
    timeout: ReusableTimeout,
    home: ConnectionHome,
    is_reused: bool,
}

impl OriginConnector {
    /// Returns a connector that keeps at most `most_idle` idle connections, those of all threads together.
    #[must_use]
    pub fn new(most_idle: usize) -> Self {
        // Nothing is kept in Pingora's pool.
        let options = ConnectorOptions::new(1);
        Self {
            transport: TransportConnector::new(Some(options)),
            idle: IdleConnections::new(most_idle),
        }
    }

    /// Returns an idle connection to `server`, or else a new one.
    ///
    /// # Errors
    /// Those of Pingora's transport, and that of [`NO_CONNECTION`]; nothing was sent.
    pub async fn connect(&self, server: &OriginServer) -> Result<OriginConnection> {
        let from = match server.keep_place() {
            KeepPlace::Thread => match thread::take(server.reuse_key, &self.idle) {
                Ok(idle) => return Ok(idle.into()),
                Err(from) => from,
            },
            KeepPlace::List => TakeFrom::AllThreads,
        };
        if let Some(idle) = take_listed(server, from) {
            return Ok(idle.into());
        }
        // Boxed: a request with an idle connection should not pay for the size of the handshakes.
        Box::pin(self.open(server)).await
    }

    async fn open(&self, server: &OriginServer) -> Result<OriginConnection> {
        match self.transport.new_stream(&server.peer).await {
            Ok(stream) => Ok(OriginConnection::new(stream, server)),
            Err(error) if matches!(error.etype(), ErrorType::Custom(NO_CONNECTION)) => {
                // A connection may have become idle meanwhile. If not, idle ones are of no use to this request, and make room.
                if let Some(idle) = take_listed(server, TakeFrom::AllThreads) {
                    return Ok(idle.into());
                }
                server.close_one_idle();
                Err(error)
            }
            Err(error) => Err(error),
        }
    }

    /// Keeps a connection whose last message has ended exactly, for at most `timeout`.
    pub fn keep(&self, connection: OriginConnection, timeout: Option<Duration>) {
        let OriginConnection {
            stream,
            timeout: timer,
            home,
            ..
        } = connection;
        let place = home.place;
        let idle = IdleConnection::new(stream, timer, home, timeout);
        match place {
            KeepPlace::Thread => thread::keep(idle, &self.idle),
            KeepPlace::List => self.idle.put(idle),
        }
    }
}

/// Takes an open connection from the list of a server; closes those that it finds closed.
fn take_listed(server: &OriginServer, from: TakeFrom) -> Option<IdleConnection> {
    let list = &server.server_state.idle;
    for _ in 0..IDLE_LOOKS {
        let mut idle = list.take(server.reuse_key, from)?;
        if idle.is_silent() {
            return Some(idle);
        }
    }
    None
}

impl OriginConnection {
    /// Returns a connection that the calling thread opened.
    fn new(stream: Stream, server: &OriginServer) -> Self {
        Self {
            stream,
            read: BytesMut::new(),
            timeout: ReusableTimeout::default(),
            home: ConnectionHome {
                key: server.reuse_key,
                list: Arc::downgrade(&server.server_state.idle),
                thread: thread::number(),
                place: server.keep_place(),
            },
            is_reused: false,
        }
    }

    /// Returns whether it carried requests before.
    #[must_use]
    pub fn is_reused(&self) -> bool {
        self.is_reused
    }

    /// Returns the number of its socket.
    #[must_use]
    pub fn socket(&self) -> UniqueIDType {
        self.stream.id()
    }

    /// Returns its stream, for a protocol other than HTTP.
    pub fn stream(&mut self) -> &mut Stream {
        &mut self.stream
    }

    /// Reads once, behind the bytes that were read. Returns the number of bytes, 0 at the end; `None` when it takes longer than `patience`.
    /// Dropping the future loses no byte.
    pub async fn read_within(&mut self, patience: Duration) -> Option<io::Result<usize>> {
        let read = pin!(read_through(
            &mut self.stream,
            &mut self.read,
            RESPONSE_READ
        ));
        self.timeout.over(read, patience).await
    }

    /// Writes all bytes; `None` when it takes longer than `patience`.
    pub async fn write_within(
        &mut self,
        bytes: &[u8],
        patience: Duration,
    ) -> Option<io::Result<()>> {
        let stream = &mut self.stream;
        let write = pin!(async {
            stream.write_all(bytes).await?;
            stream.flush().await
        });
        self.timeout.over(write, patience).await
    }
}

impl From<IdleConnection> for OriginConnection {
    fn from(idle: IdleConnection) -> Self {
        Self {
            stream: idle.stream,
            read: BytesMut::new(),
            timeout: idle.timeout,
            home: idle.home,
            is_reused: true,
        }
    }
}

#[cfg(test)]
#[path = "connector_tests.rs"]
mod tests;
