//! Owns the connections to servers that speak HTTP/1.1: a request takes one that is idle in its thread, or opens one.
//!
//! Each thread keeps its own idle connections, so that taking one locks nothing and a connection never changes its runtime. Pingora's
//! transport opens the sockets, with its TLS and its timeouts.
//!
//! # Limits
//! A thread keeps at most as many idle connections as its share of the descriptors allows; at the bound, the one that is idle for the
//! longest time is closed. Once a second, a task of the thread closes those that the server closed, that received bytes, or whose
//! `idle` timeout has passed. It ends when none is left.

use std::cell::RefCell;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use ahash::HashMap;
use bytes::BytesMut;
use pingora::Result;
use pingora::connectors::{ConnectorOptions, TransportConnector};
use pingora::protocols::{Stream, UniqueIDType};
use pingora::upstreams::peer::Peer;
use sluicegate_base::clock;
use tokio::io::{AsyncRead, AsyncWriteExt, ReadBuf};
use tokio::time::Instant;

use super::server::OriginServer;
use crate::reusable_timeout::ReusableTimeout;
use crate::thread_buffer::read_through;

/// Time between two looks for idle connections that are to be closed.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// Bytes asked for in one read of a response.
const RESPONSE_READ: usize = 32 * 1024;

thread_local! {
    static IDLE: RefCell<IdleConnections> = RefCell::default();
}

/// Opens connections to servers, and takes idle ones of the calling thread.
pub struct OriginConnector {
    transport: TransportConnector,
    most_idle: usize,
}

/// A connection to a server, with the bytes that were read from it and not consumed.
pub struct OriginConnection {
    stream: Stream,
    /// The bytes that were read and not consumed.
    pub read: BytesMut,
    timeout: ReusableTimeout,
    key: u64,
    is_reused: bool,
}

/// The idle connections of one thread.
#[derive(Default)]
struct IdleConnections {
    /// The connections to each peer, the longest idle one first.
    by_peer: HashMap<u64, Vec<IdleConnection>>,
    number: usize,
    is_swept: bool,
}

struct IdleConnection {
    stream: Stream,
    timeout: ReusableTimeout,
    since: Instant,
    /// The time at which it is closed.
    until: Option<Instant>,
}

impl OriginConnector {
    /// Returns a connector whose threads keep at most `most_idle` idle connections each.
    #[must_use]
    pub fn new(most_idle: usize) -> Self {
        // Nothing is kept in Pingora's pool.
        let options = ConnectorOptions::new(1);
        Self {
            transport: TransportConnector::new(Some(options)),
            most_idle,
        }
    }

    /// Returns an idle connection to `server`, or else a new one.
    ///
    /// # Errors
    /// Those of Pingora's transport; nothing was sent.
    pub async fn connect(&self, server: &OriginServer) -> Result<OriginConnection> {
        let key = server.peer.reuse_hash();
        let idle = IDLE.with_borrow_mut(|idle| idle.take(key));
        if let Some(idle) = idle {
            return Ok(OriginConnection::new(idle.stream, idle.timeout, key, true));
        }
        // Boxed: a request with an idle connection should not pay for the size of the handshakes.
        let stream = Box::pin(self.transport.new_stream(&server.peer)).await?;
        Ok(OriginConnection::new(
            stream,
            ReusableTimeout::default(),
            key,
            false,
        ))
    }

    /// Keeps a connection whose last message has ended exactly, for at most `timeout`.
    pub fn keep(&self, connection: OriginConnection, timeout: Option<Duration>) {
        let since = clock::deadline(Duration::ZERO);
        let idle = IdleConnection {
            stream: connection.stream,
            timeout: connection.timeout,
            since,
            until: timeout.map(|timeout| since + timeout),
        };
        let begins = IDLE.with_borrow_mut(|kept| kept.put(connection.key, idle, self.most_idle));
        if begins {
            tokio::spawn(sweep());
        }
    }
}

impl OriginConnection {
    fn new(stream: Stream, timeout: ReusableTimeout, key: u64, is_reused: bool) -> Self {
        Self {
            stream,
            read: BytesMut::new(),
            timeout,
            key,
            is_reused,
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

impl IdleConnections {
    /// Takes the connection that is idle for the shortest time.
    fn take(&mut self, key: u64) -> Option<IdleConnection> {
        let connections = self.by_peer.get_mut(&key)?;
        while let Some(mut idle) = connections.pop() {
            self.number -= 1;
            if is_silent(&mut idle.stream) {
                return Some(idle);
            }
        }
        None
    }

    /// Adds a connection. Returns whether a task is needed that sweeps.
    fn put(&mut self, key: u64, idle: IdleConnection, most: usize) -> bool {
        if self.number >= most.max(1) {
            self.close_longest_idle();
        }
        self.by_peer.entry(key).or_default().push(idle);
        self.number += 1;
        !std::mem::replace(&mut self.is_swept, true)
    }

    fn close_longest_idle(&mut self) {
        let longest = self
            .by_peer
            .iter()
            .filter_map(|(key, connections)| Some((connections.first()?.since, *key)))
            .min();
        if let Some((_, key)) = longest
            && let Some(connections) = self.by_peer.get_mut(&key)
        {
            connections.remove(0);
            self.number -= 1;
        }
    }

    /// Closes the connections that no request can use any more. Returns whether others are left.
    fn sweep(&mut self, now: Instant) -> bool {
        let mut number = 0;
        self.by_peer.retain(|_, connections| {
            connections.retain_mut(|idle| {
                idle.until.is_none_or(|until| now < until) && is_silent(&mut idle.stream)
            });
            number += connections.len();
            !connections.is_empty()
        });
        self.number = number;
        self.is_swept = number > 0;
        self.is_swept
    }
}

/// Sweeps the idle connections of this thread until none is left.
async fn sweep() {
    loop {
        tokio::time::sleep(SWEEP_INTERVAL).await;
        let now = clock::deadline(Duration::ZERO);
        if !IDLE.with_borrow_mut(|idle| idle.sweep(now)) {
            return;
        }
    }
}

/// Returns whether an idle connection is open and has received nothing. A server sends nothing of its own accord; bytes without a request
/// could be taken for the response to the next one.
fn is_silent(stream: &mut Stream) -> bool {
    let mut byte = [0];
    let mut into = ReadBuf::new(&mut byte);
    let mut context = Context::from_waker(Waker::noop());
    // Not counted against the budget of the task, which would make it look silent.
    let read = tokio::task::unconstrained(std::future::poll_fn(|context| {
        Pin::new(&mut *stream).poll_read(context, &mut into)
    }));
    let read = pin!(read);
    matches!(read.poll(&mut context), Poll::Pending)
}
