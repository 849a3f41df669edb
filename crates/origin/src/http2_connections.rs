//! Owns the connections of HTTP/2 to one server, each of which carries many requests.
//!
//! They belong to the server's state, so they survive reloads and new answers of the resolver, with one exception: all are for one kind of
//! peer. When a reload changes the protocol, the trust or the bound, or the server leaves its origin, they get no more requests and end
//! with their last one.
//!
//! # Limits
//! A connection carries [`ORIGIN_STREAMS`](sluicegate_base::bounds::ORIGIN_STREAMS) requests at the same time, or as many as its server
//! takes if those are fewer. An idle connection has one of the places of idle connections ([`super::idle`]); without a free place it is
//! closed. The `idle` timeout of the origin is checked once a second.
//!
//! # Concurrency
//! One lock, held for a few instructions. That of a connection may be taken under it, and never the other way round. A task in the runtime
//! that opened a connection drives it until it ends.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pingora::protocols::{Stream, UniqueIDType};
use sluicegate_base::clock;
use sluicegate_limiter::Timestamp;
use tokio::sync::OwnedMutexGuard;
use tokio::time::Instant;

use super::http2_connection::{Http2Connection, OriginDriver};
use super::idle::{IdleConnections, IdleSlot, PoolGeneration, SWEEP_INTERVAL};
use super::stream_window;
use sluicegate_transport::timer;

/// The connections to one server.
#[derive(Default)]
pub(super) struct Http2Connections {
    state: Mutex<ConnectionsState>,
    /// Held while a connection is opened.
    opening: Arc<tokio::sync::Mutex<()>>,
}

/// The terms of a new connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConnectionTerms {
    /// The key of the connections that its requests take.
    pub(super) key: u64,
    /// The configured window of its streams; `None`: that for its distance.
    pub(super) window: Option<u32>,
    /// The time for which it may be idle; `None` without a bound.
    pub(super) idle_timeout: Option<Duration>,
}

/// The turn of one request to open a connection.
pub(super) struct OpeningTurn {
    _guard: OwnedMutexGuard<()>,
}

#[derive(Default)]
struct ConnectionsState {
    /// The key of its connections; `None` where it takes none.
    key: Option<u64>,
    /// The latest pool that set the key.
    generation: PoolGeneration,
    connections: Vec<OpenConnection>,
    /// The streams that the server lets a connection have, as its latest settings say; `None` before the first.
    streams: Option<u32>,
    /// True if the server may choose the version, and the latest choice was HTTP/1.1.
    chose_http1: bool,
    /// True if the server has answered a request of HTTP/2 by asking for HTTP/1.1.
    requires_http1: bool,
    /// The number of connections that were added.
    added: u64,
}

struct OpenConnection {
    number: ConnectionNumber,
    connection: Arc<Http2Connection>,
    socket: UniqueIDType,
    window: u32,
    opened: Timestamp,
    /// Since when it carries none.
    idle: Option<(Instant, IdleSlot)>,
}

/// The number of a connection, unique in its list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ConnectionNumber(u64);

/// A place for one request on a connection. Dropping it releases the place.
pub(super) struct StreamPlace {
    pub(super) connection: Arc<Http2Connection>,
    connections: Arc<Http2Connections>,
    idle: Arc<IdleConnections>,
    number: ConnectionNumber,
    /// The socket of the connection.
    pub(super) socket: UniqueIDType,
    /// Bytes that the server may send ahead on the stream.
    pub(super) window: u32,
    /// The number of reads of the connection when the request was sent.
    reads: u64,
    /// True if the connection carried requests before.
    pub(super) is_reused: bool,
}

impl Http2Connections {
    fn state(&self) -> MutexGuard<'_, ConnectionsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes connections with this key from now on; with `None` it takes none. A pool of an earlier configuration than the latest that
    /// called this changes nothing.
    pub(super) fn accept_only(&self, key: Option<u64>, by: PoolGeneration) {
        let mut state = self.state();
        if by < state.generation {
            return;
        }
        state.generation = by;
        if state.key != key {
            state.key = key;
            state.streams = None;
            state.chose_http1 = false;
            state.requires_http1 = false;
            let ended = std::mem::take(&mut state.connections);
            drop(state);
            retire(ended);
        }
    }

    /// Records that the server of connections with this key chose HTTP/1.1.
    pub(super) fn note_http1(&self, key: u64) {
        let mut state = self.state();
        state.chose_http1 |= state.key == Some(key);
    }

    /// Returns whether a new connection with this key will hardly speak HTTP/2, so that no request need wait for it.
    pub(super) fn chose_http1(&self, key: u64) -> bool {
        let state = self.state();
        state.chose_http1 && state.key == Some(key)
    }

    /// Records that the server of connections with this key asks for HTTP/1.1, which later connections offer alone.
    pub(super) fn require_http1(&self, key: u64) {
        let mut state = self.state();
        state.requires_http1 |= state.key == Some(key);
    }

    /// Returns whether connections with this key offer HTTP/1.1 alone.
    pub(super) fn requires_http1(&self, key: u64) -> bool {
        let state = self.state();
        state.requires_http1 && state.key == Some(key)
    }

    /// Waits until no other request opens a connection.
    pub(super) async fn turn_to_open(&self) -> OpeningTurn {
        let _guard = Arc::clone(&self.opening).lock_owned().await;
        OpeningTurn { _guard }
    }

    /// Takes a place on a connection that can carry another request, with `opened_since` on one that is no older.
    pub(super) fn take(
        self: &Arc<Self>,
        key: u64,
        idle: &Arc<IdleConnections>,
        opened_since: Option<Timestamp>,
    ) -> Option<StreamPlace> {
        let mut state = self.state();
        if state.key != Some(key) {
            return None;
        }
        let mut open = state.connections.iter_mut();
        let open = open.find(|open| {
            opened_since.is_none_or(|since| open.opened >= since) && open.connection.enter()
        })?;
        open.idle = None;
        Some(StreamPlace {
            connection: Arc::clone(&open.connection),
            connections: Arc::clone(self),
            idle: Arc::clone(idle),
            number: open.number,
            socket: open.socket,
            window: open.window,
            reads: 0,
            is_reused: true,
        })
    }

    /// Begins HTTP/2 on a new connection, and takes its first place. Others may take the rest: at once where an earlier connection had the
    /// settings of the server, or else when they come, until when `turn` lasts. A stream beyond them would be refused.
    pub(super) fn open(
        self: &Arc<Self>,
        (stream, turn): (Stream, Option<OpeningTurn>),
        terms: ConnectionTerms,
        idle: &Arc<IdleConnections>,
    ) -> StreamPlace {
        let socket = stream.id();
        let window = (terms.window).unwrap_or_else(|| stream_window::of_socket(socket));
        let mut state = self.state();
        let known = state.streams;
        let connection = Http2Connection::new(window, known);
        let number = ConnectionNumber(state.added);
        state.added += 1;
        // A connection for an earlier configuration carries its first request alone.
        if state.key == Some(terms.key) {
            state.chose_http1 = false;
            state.connections.push(OpenConnection {
                number,
                connection: Arc::clone(&connection),
                socket,
                window,
                opened: clock::now(),
                idle: None,
            });
        } else {
            connection.retire();
        }
        drop(state);
        tokio::spawn(drive(
            OriginDriver::new(Arc::clone(&connection), stream),
            turn.filter(|_| known.is_none()),
            Arc::clone(self),
            number,
            terms.idle_timeout,
        ));
        StreamPlace {
            connection,
            connections: Arc::clone(self),
            idle: Arc::clone(idle),
            number,
            socket,
            window,
            reads: 0,
            is_reused: false,
        }
    }

    /// Gives a connection no more requests. It ends with its last one.
    fn remove(&self, number: ConnectionNumber) {
        let mut state = self.state();
        let index = (state.connections.iter()).position(|open| open.number == number);
        let removed = index.map(|index| state.connections.swap_remove(index));
        drop(state);
        retire(removed);
    }

    /// Gives no connection any more requests. Each ends with its last one.
    pub(super) fn remove_all(&self) {
        let removed = std::mem::take(&mut self.state().connections);
        retire(removed);
    }

    /// Removes a connection that carries no request, and carried none for this time.
    fn remove_idle(&self, number: ConnectionNumber, timeout: Duration) {
        let now = timer::deadline(Duration::ZERO);
        let state = self.state();
        let is_over = state.connections.iter().any(|open| {
            let idle = open.idle.as_ref();
            open.number == number && idle.is_some_and(|(since, _)| *since + timeout <= now)
        });
        drop(state);
        if is_over {
            self.remove(number);
        }
    }
}

impl std::fmt::Debug for Http2Connections {
    fn fmt(&self, into: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(into, "Http2Connections({})", self.state().connections.len())
    }
}

impl StreamPlace {
    /// Gives the connection no more requests, because its server is closing it.
    pub(super) fn close_connection(&self) {
        self.connections.remove(self.number);
    }

    /// Records that the request is sent now.
    pub(super) fn note_sent(&mut self) {
        self.reads = self.connection.reads();
    }

    /// Returns whether its connection has received nothing since the request was sent.
    pub(super) fn is_silent(&self) -> bool {
        self.connection.reads() == self.reads
    }
}

impl Drop for StreamPlace {
    fn drop(&mut self) {
        let mut state = self.connections.state();
        let is_empty = self.connection.leave();
        let mut open = state.connections.iter_mut();
        let Some(open) = open.find(|open| is_empty && open.number == self.number) else {
            return;
        };
        let slot = self.idle.slot();
        let is_kept = slot.is_some();
        open.idle = slot.map(|slot| (timer::deadline(Duration::ZERO), slot));
        drop(state);
        if !is_kept {
            self.connections.remove(self.number);
        }
    }
}

/// Gives these connections no more requests.
fn retire(connections: impl IntoIterator<Item = OpenConnection>) {
    for open in connections {
        open.connection.retire();
    }
}

/// Reads and writes the frames of a connection until it ends. `turn` lasts until the settings of its server come.
async fn drive(
    mut driver: OriginDriver,
    mut turn: Option<OpeningTurn>,
    connections: Arc<Http2Connections>,
    number: ConnectionNumber,
    idle_timeout: Option<Duration>,
) {
    let mut is_settled = false;
    loop {
        let ended = poll_fn(|context| {
            let polled = driver.poll_drive(context);
            if !is_settled && let Some(streams) = driver.connection().max_streams() {
                is_settled = true;
                // A server that takes none at first may take some later.
                connections.state().streams = Some(streams.max(1));
                turn = None;
            }
            if driver.connection().is_going_away() {
                connections.remove(number);
            }
            polled
        });
        // A timeout is the time to look.
        match tokio::time::timeout(SWEEP_INTERVAL, ended).await {
            Ok(()) => break,
            Err(_) => {
                driver.connection().shrink();
                if let Some(timeout) = idle_timeout {
                    connections.remove_idle(number, timeout);
                }
            }
        }
    }
    drop(turn);
    connections.remove(number);
    driver.finish().await;
}
