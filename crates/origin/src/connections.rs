//! Owns the connections that are open to one server for requests, where `max_connections` bounds them: their number, the request
//! that uses each, and the idle ones that may be closed for a new one.
//!
//! Pingora's transport opens connections, deep inside an attempt. This module decides which it may open: [`super::dialer`] takes a
//! [`ConnectionPermit`] before it connects, or fails. A request that fails so has sent nothing. Either a connection is about to
//! become free for it, and it waits for that at the server ([`Connections::refused`]), or the server is exhausted, and the
//! request waits with the others of its origin ([`super::pending_queue`]).
//!
//! Idle connections of HTTP/1.1 are in an [`IdleList`], those of HTTP/2 in a list of their own. A request that can use none of either, and
//! gets no permit, closes an idle one: a request with an upgrade cannot use HTTP/2.
//!
//! A connection changes owners: for a moment, while one request takes it or releases it, no other finds it, though over HTTP/2 it could
//! carry both. So a refusal is not final while other requests are about to get a connection. Each of
//! those is counted as a [`ConnectionSearch`], and the end of a search wakes the first of the refused requests.
//!
//! # Invariants
//! 1. A permit lives from before the socket is opened until after it is closed, so there are never more sockets than permits.
//! 2. A connection that no request can use again does not keep its permit forever. After a reload that changed the protocol or
//!    the bound, connections are of another group than new requests; and a request for an upgrade cannot use HTTP/2. Such a
//!    connection is closed when no request uses it and another is wanted; one of another group is closed soon in any case.
//! 3. A request that waits here is woken: by the end of another search, by a release, by the server's exhaustion, or after
//!    [`SETTLING`].
//!
//! # Concurrency
//! One lock for all, held for a few instructions, by requests of origins that have the bound: when they look for a connection,
//! get it, and end. The lock of the list may be taken while it is held, never the reverse. The exhaustion of the server is a word
//! of its own, which picks read. It is written under the lock, and cleared by every release.

use std::collections::BTreeMap;
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use ahash::HashMap;
use pingora::upstreams::peer::Tracing;
use socket2::SockRef;
use tokio::sync::oneshot::{self, Receiver, Sender};
use tokio::time::Instant;

use super::idle::{IdleConnection, IdleList};
use super::pending_queue::{AttemptWait, OriginQueues};
use super::waiting_order::QueueTicket;
use sluicegate_transport::timer;

/// Time for which a refused request waits, once, for a connection that is being released, which takes microseconds.
const SETTLING: Duration = Duration::from_millis(20);

/// The connections of one server.
#[derive(Debug, Default)]
pub struct Connections {
    state: Mutex<State>,
    /// True when a request found no connection, and nothing was released since.
    exhausted: AtomicBool,
    /// The idle ones. Weak, because their permits refer to this value.
    idle: Weak<IdleList>,
}

#[derive(Debug, Default)]
struct State {
    /// Number of permits.
    open: u32,
    sockets: HashMap<RawFd, EstablishedConnection>,
    /// Number of requests that look for a connection.
    searches: u32,
    /// Requests that were refused a connection while others looked.
    waiters: BTreeMap<QueueTicket, Sender<ConnectionSearch>>,
    /// A counter of events, which orders them.
    moment: u64,
    /// The time of the latest sweep.
    swept: u64,
}

/// A connection that is established.
#[derive(Debug)]
struct EstablishedConnection {
    /// Its serial number, since the system may reuse a socket's number for another connection.
    serial: u64,
    /// The protocol group and the bound that it was made for.
    group: Group,
    usage: Usage,
    /// A duplicate of the socket, to close a connection of HTTP/2, which its own task owns.
    socket: OwnedFd,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Usage {
    /// Not used yet: TLS and HTTP/2 are being set up.
    Fresh,
    /// Used by so many requests.
    By(u32),
    /// Unused since then.
    Idle(u64),
    /// Being closed.
    Closing,
}

/// The `group_key` of the peer that a connection was made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Group(pub(super) u64);

/// A permit for one open connection.
#[derive(Debug)]
pub(super) struct ConnectionPermit {
    connections: Arc<Connections>,
    /// The queues of requests to wake when it ends.
    queues: Arc<OriginQueues>,
    group: Group,
    /// The connection and its serial number, once it is established.
    established: Option<(RawFd, u64)>,
}

/// A request's use of a connection, which ends with its server permit.
#[derive(Debug)]
pub(super) struct Use {
    connections: Arc<Connections>,
    socket: RawFd,
    serial: u64,
}

/// The reason why a request cannot use the connection that it got: another request needs its permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionClosing;

/// A request that looks for a connection, from the choice of the server to the connection or the refusal.
#[derive(Debug)]
pub(super) struct ConnectionSearch {
    /// `None` once it has ended.
    connections: Option<Arc<Connections>>,
    /// The time at which it began.
    began: u64,
}

/// The next step of a refused request.
#[derive(Debug)]
enum NextStep {
    /// Search again at once.
    Search(ConnectionSearch),
    /// Search again when it is woken.
    Wait(Receiver<ConnectionSearch>),
    /// Search again when it is woken, or after [`SETTLING`].
    Settle(Receiver<ConnectionSearch>),
    /// Nothing: no connection is available before a request of the server ends.
    Exhausted,
}

/// A request that waits for another search.
struct ConnectionWaiter<'c> {
    connections: &'c Arc<Connections>,
    ticket: QueueTicket,
    search: Receiver<ConnectionSearch>,
}

impl Connections {
    /// Returns the connections of a server with this list.
    pub(super) fn new(idle: &Arc<IdleList>) -> Self {
        Self {
            idle: Arc::downgrade(idle),
            ..Self::default()
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of open connections.
    #[must_use]
    pub fn open(&self) -> u32 {
        self.state().open
    }

    /// Returns a permit for one more connection where fewer than `most` are open; its end wakes a request of `queues`.
    pub(super) fn permit(
        self: &Arc<Self>,
        most: u32,
        group: Group,
        queues: &Arc<OriginQueues>,
    ) -> Option<ConnectionPermit> {
        let mut state = self.state();
        if state.open >= most {
            return None;
        }
        state.open += 1;
        Some(ConnectionPermit {
            connections: Arc::clone(self),
            queues: Arc::clone(queues),
            group,
            established: None,
        })
    }

    /// Begins a request's use of a connection; `None` for a connection without a permit, made before there was a bound.
    ///
    /// # Errors
    /// The connection is being closed for another request, and not dropped yet.
    pub(super) fn begin_use(
        self: &Arc<Self>,
        socket: RawFd,
    ) -> Result<Option<Use>, ConnectionClosing> {
        let mut state = self.state();
        let Some(open) = state.sockets.get_mut(&socket) else {
            return Ok(None);
        };
        open.usage = match open.usage {
            Usage::By(requests) => Usage::By(requests + 1),
            Usage::Fresh | Usage::Idle(_) => Usage::By(1),
            Usage::Closing => return Err(ConnectionClosing),
        };
        Ok(Some(Use {
            connections: Arc::clone(self),
            socket,
            serial: open.serial,
        }))
    }

    /// Closes connections that no request has used since the sweep before and that no request of `group` can use.
    pub(super) fn sweep(&self, group: Group) {
        let mut state = self.state();
        let swept = state.swept;
        let now = state.moment;
        state.swept = now;
        while state.close_one(|open, idle_since| open.group != group && idle_since <= swept) {}
    }

    // ── searches ──

    /// Counts a request that looks for a connection from now on.
    pub(super) fn begin_search(self: &Arc<Self>) -> ConnectionSearch {
        let mut state = self.state();
        state.searches += 1;
        self.search(&state)
    }

    fn search(self: &Arc<Self>, state: &State) -> ConnectionSearch {
        ConnectionSearch {
            connections: Some(Arc::clone(self)),
            began: state.moment,
        }
    }

    /// Waits, after a search that was refused, until another may find one of `most` connections. `None` where the server is
    /// exhausted, or the wait has ended.
    pub(super) async fn search_again(
        self: &Arc<Self>,
        refused: ConnectionSearch,
        most: u32,
        wait: &mut AttemptWait,
        end: Instant,
    ) -> Option<ConnectionSearch> {
        let ticket = wait.ticket();
        let (search, until) = match self.refused(refused, most, wait) {
            NextStep::Search(search) => {
                return (timer::deadline(Duration::ZERO) < end).then_some(search);
            }
            NextStep::Wait(search) => (search, end),
            NextStep::Settle(search) => {
                wait.settled = true;
                (search, end.min(timer::deadline(SETTLING)))
            }
            NextStep::Exhausted => return None,
        };
        let mut waiter = ConnectionWaiter {
            connections: self,
            ticket,
            search,
        };
        match tokio::time::timeout_at(until, &mut waiter.search).await {
            Ok(woken) => woken.ok(),
            Err(_) => (until < end).then(|| self.begin_search()),
        }
    }

    /// Ends a search that was refused, and returns the next step.
    fn refused(
        self: &Arc<Self>,
        mut refused: ConnectionSearch,
        most: u32,
        wait: &mut AttemptWait,
    ) -> NextStep {
        let ticket = wait.ticket();
        let has_settled = std::mem::take(&mut wait.settled);
        // The search ends here, under the lock, and wakes no other: another would find no more than this one did.
        refused.connections = None;
        let mut state = self.state();
        state.searches -= 1;
        // Others look, and the connection that they find or open may carry this request too.
        if state.searches > 0 || state.is_closing() {
            return NextStep::Wait(state.add_waiter(ticket));
        }
        if state.open < most || state.moment != refused.began {
            state.searches += 1;
            return NextStep::Search(self.search(&state));
        }
        // The request looked there, or it is one of the other path and cannot use it.
        if let Some(unused) = self.take_longest_idle() {
            let wait = NextStep::Wait(state.add_waiter(ticket));
            drop(state);
            // The end of its permit wakes the request.
            drop(unused);
            return wait;
        }
        // A request misses a connection that another one is just releasing.
        if !has_settled {
            return NextStep::Settle(state.add_waiter(ticket));
        }
        // A connection that was idle all the time, and was not found by the only request that looked, is useless to it.
        if state.close_one(|_, _| true) {
            return NextStep::Wait(state.add_waiter(ticket));
        }
        self.exhausted.store(true, Ordering::Relaxed);
        // The end of the channel wakes all that wait here; they then look for another server.
        state.waiters.clear();
        NextStep::Exhausted
    }

    /// Closes an idle connection for a request that can use none of them. Does nothing while another request
    /// looks, which may be about to take it.
    pub(super) fn close_one_idle(&self) {
        let mut state = self.state();
        if state.searches > 1 {
            return;
        }
        let unused = self.take_longest_idle();
        if unused.is_none() {
            state.close_one(|_, _| true);
        }
        drop(state);
        drop(unused);
    }

    fn take_longest_idle(&self) -> Option<IdleConnection> {
        self.idle.upgrade()?.take_longest_idle()
    }

    /// Lets the first of the refused requests search again, because a connection was released or a search ended. Returns whether
    /// there was one.
    fn wake(self: &Arc<Self>, mut state: MutexGuard<'_, State>) -> bool {
        let Some((_, first)) = state.waiters.pop_first() else {
            return false;
        };
        state.searches += 1;
        let search = self.search(&state);
        drop(state);
        // A search that no request takes wakes the next when it is dropped.
        drop(first.send(search));
        true
    }

    /// Records that a connection was released or closed. Returns whether a request that waits here takes it.
    fn freed(self: &Arc<Self>, mut state: MutexGuard<'_, State>) -> bool {
        state.moment += 1;
        self.exhausted.store(false, Ordering::Relaxed);
        self.wake(state)
    }

    // ── exhaustion ──

    /// Lets requests search again, since the bound may have changed.
    pub(super) fn clear_exhaustion(&self) {
        self.exhausted.store(false, Ordering::Relaxed);
    }

    /// Returns whether a request found no connection, and nothing was released since.
    pub(super) fn is_exhausted(&self) -> bool {
        self.exhausted.load(Ordering::Relaxed)
    }
}

impl State {
    /// Closes a connection that no request uses and for which `may_go` returns true; its second argument is the time since when
    /// it is unused. Returns whether there is one. Its owner sees the end of the socket, and drops it.
    fn close_one(&mut self, may_go: impl Fn(&EstablishedConnection, u64) -> bool) -> bool {
        let found = self.sockets.values_mut().find(|open| match open.usage {
            Usage::Idle(since) => may_go(open, since),
            Usage::Fresh | Usage::By(_) | Usage::Closing => false,
        });
        let Some(open) = found else {
            return false;
        };
        open.usage = Usage::Closing;
        // A request that takes the connection before it is dropped is refused (`begin_use`). The call fails if the server
        // closed first.
        let _ = SockRef::from(&open.socket).shutdown(Shutdown::Read);
        true
    }

    /// Returns whether a connection is being closed.
    fn is_closing(&self) -> bool {
        self.sockets
            .values()
            .any(|open| open.usage == Usage::Closing)
    }

    /// Adds a request that waits for another search.
    fn add_waiter(&mut self, ticket: QueueTicket) -> Receiver<ConnectionSearch> {
        let (sender, search) = oneshot::channel();
        self.waiters.insert(ticket, sender);
        search
    }

    /// Removes a connection, so that it is not touched once its number belongs to another.
    fn forget(&mut self, socket: RawFd, serial: u64) {
        let known = self.sockets.get(&socket);
        if known.is_some_and(|open| open.serial == serial) {
            self.sockets.remove(&socket);
        }
    }
}

impl ConnectionPermit {
    /// Records the established connection.
    pub(super) fn record_established(&mut self, socket: &impl AsFd) -> std::io::Result<()> {
        let original = socket.as_fd();
        let socket = original.try_clone_to_owned()?;
        let mut state = self.connections.state();
        state.moment += 1;
        let number = original.as_raw_fd();
        let serial = state.moment;
        let open = EstablishedConnection {
            serial,
            group: self.group,
            usage: Usage::Fresh,
            socket,
        };
        state.sockets.insert(number, open);
        drop(state);
        self.established = Some((number, serial));
        Ok(())
    }
}

/// Attaches the permit to the stream of its connection, which drops it after the socket (invariant 1).
impl Tracing for ConnectionPermit {
    fn on_connected(&self) {}

    fn on_disconnected(&self) {
        if let Some((socket, serial)) = self.established {
            self.connections.state().forget(socket, serial);
        }
    }

    fn boxed_clone(&self) -> Box<dyn Tracing> {
        Box::new(ClonedPermit)
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut state = self.connections.state();
        if let Some((socket, serial)) = self.established {
            state.forget(socket, serial);
        }
        state.open -= 1;
        if !self.connections.freed(state) {
            self.queues.wake();
        }
    }
}

/// The copy of a permit, which is not a permit.
#[derive(Debug)]
struct ClonedPermit;

impl Tracing for ClonedPermit {
    fn on_connected(&self) {}

    fn on_disconnected(&self) {}

    fn boxed_clone(&self) -> Box<dyn Tracing> {
        Box::new(Self)
    }
}

impl Use {
    /// Ends the use. Returns whether a request that waits at the server takes the connection.
    pub(super) fn end(self) -> bool {
        let mut state = self.connections.state();
        // Connections idle since before the next event were idle before this use ended.
        let moment = state.moment + 1;
        let open = state.sockets.get_mut(&self.socket);
        if let Some(open) = open.filter(|open| open.serial == self.serial)
            && let Usage::By(requests) = open.usage
        {
            open.usage = match requests {
                0 | 1 => Usage::Idle(moment),
                more => Usage::By(more - 1),
            };
        }
        self.connections.freed(state)
    }
}

impl Drop for ConnectionSearch {
    fn drop(&mut self) {
        if let Some(connections) = self.connections.take() {
            let mut state = connections.state();
            state.searches -= 1;
            connections.wake(state);
        }
    }
}

impl Drop for ConnectionWaiter<'_> {
    fn drop(&mut self) {
        let mut state = self.connections.state();
        // Requests behind this one wait for its next look.
        if state.waiters.remove(&self.ticket).is_some() && state.searches == 0 {
            self.connections.wake(state);
        }
    }
}

#[cfg(test)]
#[path = "connections_tests.rs"]
mod tests;
