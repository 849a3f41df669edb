//! Owns the connections that are open to one server for requests, where `max_connections` bounds them: how many there are, which of
//! them a request uses, and which can go because another is wanted.
//!
//! Pingora opens and keeps connections, deep inside a try. What it may open is decided here: [`super::dialer`] takes a [`Permit`] before
//! it connects, or refuses. A request that is refused sent nothing, and looks again ([`Connections::another_look`]): mostly it was only
//! too early, because a connection is just being made, given back or closed.
//!
//! # Invariants
//! 1. A permit lives from before the socket is opened until after it is closed, so there are never more sockets than permits.
//! 2. A connection that no request can use again does not keep its permit for ever. After a reload that changed what is spoken, or the
//!    bound, connections are of another group than new requests; and HTTP/2 is of no use to who wants to leave HTTP. Such a connection is
//!    closed when no request uses it and another is wanted, those of another group soon in any case.
//!
//! # Concurrency
//! One lock for all, held for some words, by requests of origins that have the bound: when they get a connection, and when they end.
//! Whether none is to be had is a word of its own: advice, which choices read and which is taken back twenty times a second.

use std::collections::HashMap;
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pingora::upstreams::peer::Tracing;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::circuit::Queue;
use crate::bounds::{CONNECTION_LOOKS, CONNECTION_PAUSE, CONNECTION_PAUSES};
use crate::clock;

/// How long a close that was asked for, or a connection that is being made, is waited for until somebody looks again.
const CHANGE: Duration = Duration::from_secs(1);

/// The connections of one server.
#[derive(Debug, Default)]
pub struct Connections {
    state: Mutex<State>,
    /// Rings for all who look again: one was closed, or carries requests from now on.
    changed: Notify,
    /// Somebody looked for one as often as makes sense, and got none.
    exhausted: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    /// Permits.
    open: u32,
    /// Those of them whose connection was not used yet.
    dialing: u32,
    sockets: HashMap<RawFd, Open>,
    /// Counts what happened, so that of two moments one is told to be the earlier.
    moment: u64,
    /// When the latest sweep was.
    swept: u64,
}

/// A connection that was made.
#[derive(Debug)]
struct Open {
    /// Which: a number that the system gives again is another connection.
    made: u64,
    /// What may be spoken over it, and under which bound it was made.
    group: Group,
    usage: Usage,
    /// The same socket once more, to end what Pingora keeps.
    socket: TcpStream,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Usage {
    /// Not used yet: TLS and HTTP/2 begin.
    Fresh,
    /// By so many requests.
    By(u32),
    /// By none since then.
    Idle(u64),
    /// It was asked to close.
    Closing,
}

/// The `group_key` of the peer that a connection was made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Group(pub(super) u64);

/// The right to have one connection open.
#[derive(Debug)]
pub(super) struct Permit {
    connections: Arc<Connections>,
    /// Who waits for what is free when it ends.
    queue: Arc<Queue>,
    group: Group,
    /// The connection, once it is made, and when that was.
    made: Option<(RawFd, u64)>,
}

/// A request's use of a connection, which ends when this is dropped.
#[derive(Debug)]
pub(super) struct Use {
    connections: Arc<Connections>,
    socket: RawFd,
    made: u64,
}

/// What a request remembers that was refused a connection.
#[derive(Debug, Default)]
pub struct Refusal {
    /// Looks in all.
    looks: u16,
    /// Pauses before the server that it is at.
    pauses: u32,
    /// When it was first refused there.
    since: Option<u64>,
    /// Until when it waits.
    end: Option<Instant>,
}

impl Connections {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many are open.
    #[must_use]
    pub fn open(&self) -> u32 {
        self.state().open
    }

    /// The right to open one more where fewer than `most` are; it says so in `queue` when it ends.
    pub(super) fn permit(
        self: &Arc<Self>,
        most: u32,
        group: Group,
        queue: &Arc<Queue>,
    ) -> Option<Permit> {
        let mut state = self.state();
        if state.open >= most {
            // The request cannot have found it, and whoever could did not want it for a while. What goes makes room for another look.
            let swept = state.swept;
            state.close_one(|open, idle_since| open.group != group && idle_since <= swept);
            return None;
        }
        state.open += 1;
        state.dialing += 1;
        Some(Permit {
            connections: Arc::clone(self),
            queue: Arc::clone(queue),
            group,
            made: None,
        })
    }

    /// A request uses a connection from now on; `None` for one that has no permit: it was made before there was a bound.
    pub(super) fn begin_use(self: &Arc<Self>, socket: RawFd) -> Option<Use> {
        let mut state = self.state();
        let open = state.sockets.get_mut(&socket)?;
        let made = open.made;
        let fresh = open.usage == Usage::Fresh;
        open.usage = match open.usage {
            Usage::By(requests) => Usage::By(requests + 1),
            Usage::Fresh | Usage::Idle(_) | Usage::Closing => Usage::By(1),
        };
        if fresh {
            state.dialing -= 1;
        }
        drop(state);
        if fresh {
            // Over HTTP/2 it carries others too.
            self.changed.notify_waiters();
        }
        Some(Use {
            connections: Arc::clone(self),
            socket,
            made,
        })
    }

    /// Waits until another look at the server may find a connection, at the latest until the end of the refusal; false where that is not
    /// to be expected before a request ends there.
    pub(super) async fn another_look(
        &self,
        most: u32,
        refusal: &mut Refusal,
        end: Instant,
    ) -> bool {
        let mut changed = pin!(self.changed.notified());
        changed.as_mut().enable();
        let Some(pause) = self.pause(most, refusal) else {
            return false;
        };
        // Whether it rang or not: a look tells.
        let _ = tokio::time::timeout_at(clock::deadline(pause).min(end), changed).await;
        clock::deadline(Duration::ZERO) < end
    }

    /// How long to wait before another look, if nothing changes; `None` where it makes no sense.
    fn pause(&self, most: u32, refusal: &mut Refusal) -> Option<Duration> {
        let mut state = self.state();
        if state.open < most {
            return Some(Duration::ZERO);
        }
        let now = state.moment;
        let since = *refusal.since.get_or_insert(now);
        if state.dialing > 0 || state.is_closing() {
            return Some(CHANGE);
        }
        if refusal.pauses < CONNECTION_PAUSES {
            refusal.pauses += 1;
            return Some(CONNECTION_PAUSE * (1 << (refusal.pauses - 1)));
        }
        // It was there at every look, and the request cannot use it.
        let closes = state.close_one(|_, idle_since| idle_since <= since);
        closes.then_some(CHANGE)
    }

    /// Closes what no request used since the sweep before and none of `group` can.
    pub(super) fn sweep(&self, group: Group) {
        self.relieve();
        let mut state = self.state();
        let (swept, now) = (state.swept, state.moment);
        state.swept = now;
        while state.close_one(|open, idle_since| open.group != group && idle_since <= swept) {}
    }

    // ── whether there is any to be had ──

    /// Says that none is to be had, so that others need not try; until one ends, or the next sweep.
    pub(super) fn exhaust(&self) {
        self.exhausted.store(true, Ordering::Relaxed);
    }

    /// Takes that back.
    pub(super) fn relieve(&self) {
        if self.is_exhausted() {
            self.exhausted.store(false, Ordering::Relaxed);
        }
    }

    pub(super) fn is_exhausted(&self) -> bool {
        self.exhausted.load(Ordering::Relaxed)
    }
}

impl State {
    /// Ends the connection to the server of one that no request uses and `may_go`, which is told since when that is so; whether there is
    /// one. What Pingora keeps of it meets its end, and lets go.
    fn close_one(&mut self, may_go: impl Fn(&Open, u64) -> bool) -> bool {
        let found = self.sockets.values_mut().find(|open| match open.usage {
            Usage::Idle(since) => may_go(open, since),
            Usage::Fresh | Usage::By(_) | Usage::Closing => false,
        });
        let Some(open) = found else {
            return false;
        };
        open.usage = Usage::Closing;
        // Only what is read ends: a request that has just taken it can still write, meets its end like that of one which the server
        // closed, and is sent again. It fails where the server was faster.
        let _ = open.socket.shutdown(Shutdown::Read);
        true
    }

    /// Whether one was asked to close and has not yet.
    fn is_closing(&self) -> bool {
        self.sockets
            .values()
            .any(|open| open.usage == Usage::Closing)
    }

    /// Forgets a connection, so that it is not touched once its number belongs to another.
    fn forget(&mut self, socket: RawFd, made: u64) {
        if self
            .sockets
            .get(&socket)
            .is_none_or(|open| open.made != made)
        {
            return;
        }
        if let Some(open) = self.sockets.remove(&socket)
            && open.usage == Usage::Fresh
        {
            self.dialing -= 1;
        }
    }
}

impl Permit {
    /// Its connection is made.
    pub(super) fn made(&mut self, stream: &tokio::net::TcpStream) -> std::io::Result<()> {
        let socket = TcpStream::from(stream.as_fd().try_clone_to_owned()?);
        let mut state = self.connections.state();
        state.moment += 1;
        let (number, made) = (stream.as_raw_fd(), state.moment);
        let open = Open {
            made,
            group: self.group,
            usage: Usage::Fresh,
            socket,
        };
        state.sockets.insert(number, open);
        drop(state);
        self.made = Some((number, made));
        Ok(())
    }
}

/// A permit goes with the stream of its connection, which drops it after the socket (invariant 1).
impl Tracing for Permit {
    fn on_connected(&self) {}

    fn on_disconnected(&self) {
        if let Some((socket, made)) = self.made {
            self.connections.state().forget(socket, made);
        }
    }

    fn boxed_clone(&self) -> Box<dyn Tracing> {
        Box::new(NoPermit)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut state = self.connections.state();
        match self.made {
            Some((socket, made)) => state.forget(socket, made),
            None => state.dialing -= 1,
        }
        state.open -= 1;
        drop(state);
        self.connections.relieve();
        self.connections.changed.notify_waiters();
        self.queue.ring();
    }
}

/// The copy of a permit, which gives no right.
#[derive(Debug)]
struct NoPermit;

impl Tracing for NoPermit {
    fn on_connected(&self) {}

    fn on_disconnected(&self) {}

    fn boxed_clone(&self) -> Box<dyn Tracing> {
        Box::new(Self)
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        let mut state = self.connections.state();
        state.moment += 1;
        let moment = state.moment;
        let open = state.sockets.get_mut(&self.socket);
        if let Some(open) = open.filter(|open| open.made == self.made)
            && let Usage::By(requests) = open.usage
        {
            open.usage = match requests {
                0 | 1 => Usage::Idle(moment),
                more => Usage::By(more - 1),
            };
        }
    }
}

impl Refusal {
    /// Counts a look; false where it was one too many.
    pub fn may_look(&mut self) -> bool {
        self.looks = self.looks.saturating_add(1);
        self.looks <= CONNECTION_LOOKS
    }

    /// Until when it waits: as long as requests of the origin do, from the first time on that it is asked.
    pub fn end(&mut self, queue: &Queue) -> Instant {
        *self.end.get_or_insert_with(|| queue.deadline())
    }

    /// It is to be at another server, or at the same anew.
    pub fn begin_anew(&mut self) {
        self.pauses = 0;
        self.since = None;
    }
}

#[cfg(test)]
#[path = "connections_tests.rs"]
mod tests;
