//! Owns the idle connections to servers that speak HTTP/1.1, between two requests.
//!
//! An idle connection is in one of two places:
//!
//! - **In its thread** ([`thread`]), which takes and keeps it without locks and atomics. Only a busy thread has such connections: one that
//!   used a server [`BUSY_USES`] times since the last sweep. No other thread takes them, so others cannot use up what a busy thread needs.
//! - **In the list of its server** ([`server_list`]), from which every thread takes. All connections of threads that are not busy are
//!   there, those that a busy thread did not need between two sweeps, and all connections of a server with `max_connections`: while one of
//!   those is idle, no request is refused a connection, and one is closed at once for a request that cannot use it.
//!
//! A request looks in its thread, then in the list of its server, and then opens a connection. [`process`] bounds both places together.
//!
//! # Threads
//! A socket is registered for its lifetime in the runtime of the thread that opened it, its home thread: neither Pingora's streams nor TLS
//! sessions give their socket away. Another thread can use the connection, as Pingora's pool does, but each wait for bytes then wakes the
//! home thread too. So a connection is kept only by its home thread, a list has those of each thread apart and gives the calling thread its
//! own first, and a thread takes those of others for its first [`BUSY_USES`] misses of an interval; after these it opens connections of its
//! own. The bound on connections matters more than these wake-ups, so a server with `max_connections` has no such limit.
//!
//! When the runtime of the home thread ends, reads and writes fail: an idle connection looks closed and is dropped, and a request on it
//! fails like one whose server closed a kept connection. Runtimes end only with the process, all at the same time, after the drain.
//!
//! # Bytes without a request
//! A server that has read more than one request, or that writes more than its response, sends bytes which the next request on the
//! connection would take for its response. A connection with such bytes is closed before it is used ([`IdleConnection::is_silent`]).
//! Nothing in HTTP/1.1 distinguishes those that come after the request was written.
//!
//! # Limits
//! A connection is idle for at most `idle` of the `timeouts`, and for a moment less than its server announced with `Keep-Alive: timeout=`:
//! it would close the connection while a request is on its way, and one that is not idempotent cannot be sent again.
//! Once a second, the connections that the server closed, that received bytes, or whose `idle` timeout has passed are closed, and the
//! others release the tasks that used them. A server that leaves its origin, or gets another `reuse_hash` by a reload, closes its list at
//! once, and its connections in threads at the next sweep.

use std::pin::{Pin, pin};
use std::sync::Weak;
use std::task::{Context, Waker};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv};
use pingora::protocols::Stream;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::time::Instant;

use sluicegate_transport::reusable_timeout::ReusableTimeout;
use sluicegate_transport::timer;

pub(super) mod process;
pub(super) mod server_list;
pub(super) mod thread;

pub(super) use process::{IdleConnections, IdleSlot};
pub(super) use server_list::IdleList;

/// Time between two looks for idle connections that are to be closed.
pub(super) const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// Uses of one server between two sweeps that make a thread busy. Below that, a lock and a wake-up for each request cost nothing.
const BUSY_USES: u32 = 100;

/// A connection without a request.
pub(super) struct IdleConnection {
    pub(super) stream: Stream,
    check: IdleCheck,
    /// Its timer is in the home thread, or there is none yet.
    pub(super) timeout: ReusableTimeout,
    pub(super) home: ConnectionHome,
    since: Instant,
    /// The time at which it is closed.
    until: Option<Instant>,
}

/// The way in which a request finds bytes that came on an idle connection, which could be taken for the response to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdleCheck {
    /// By the readiness that the runtime has: bytes that came since it last asked the kernel, a moment ago, are not found. No system call.
    Readiness,
    /// In the socket, up to the moment before the request is written.
    Socket,
}

/// The server and the thread that a connection belongs to.
pub(super) struct ConnectionHome {
    /// The `reuse_hash` of the peer that it was opened for.
    pub(super) key: u64,
    /// The list of its server.
    pub(super) list: Weak<IdleList>,
    /// The thread that opened it.
    pub(super) thread: ThreadNumber,
    /// The place where it waits for its next request.
    pub(super) location: IdleLocation,
}

/// The place where connections of a server are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IdleLocation {
    /// In the thread while it is busy.
    Thread,
    /// In the list of the server.
    List,
}

/// The number of a thread, unique in the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ThreadNumber(u64);

/// The configuration of a pool: each reload that changes the pool counts one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PoolGeneration(u64);

impl PoolGeneration {
    /// Returns the generation of the pool that replaces this one.
    pub(super) fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// The connections of a list that a thread takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TakeFrom {
    AllThreads,
    OwnThread,
}

impl IdleConnection {
    /// Returns a connection that is idle from now on, for at most `idle_timeout`.
    pub(super) fn new(
        (stream, check): (Stream, IdleCheck),
        timeout: ReusableTimeout,
        home: ConnectionHome,
        idle_timeout: Option<Duration>,
    ) -> Self {
        let since = timer::deadline(Duration::ZERO);
        Self {
            stream,
            check,
            timeout,
            home,
            since,
            until: idle_timeout.map(|timeout| since + timeout),
        }
    }

    /// Returns whether a request can use it at `now`.
    fn is_usable(&mut self, now: Instant) -> bool {
        self.until.is_none_or(|until| now < until) && self.is_silent()
    }

    /// Returns whether a request can use it now. Reads the clock only where its time ends.
    pub(super) fn is_usable_now(&mut self) -> bool {
        let is_in_time = |until| timer::deadline(Duration::ZERO) < until;
        self.until.is_none_or(is_in_time) && self.is_silent()
    }

    /// Returns whether it is open and has received nothing. A server sends nothing of its own accord; bytes without a request could be
    /// taken for the response to the next one.
    pub(super) fn is_silent(&mut self) -> bool {
        let mut byte = [0];
        let mut into = ReadBuf::new(&mut byte);
        let mut context = Context::from_waker(Waker::noop());
        // Not counted against the budget of the task, which would make it look silent.
        let read = tokio::task::unconstrained(std::future::poll_fn(|context| {
            Pin::new(&mut self.stream).poll_read(context, &mut into)
        }));
        let read = pin!(read);
        read.poll(&mut context).is_pending()
            && (self.check == IdleCheck::Readiness || self.has_empty_socket())
    }

    /// Returns whether the kernel has no bytes of the connection, and no end of it.
    fn has_empty_socket(&self) -> bool {
        let flags = MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT;
        recv(self.stream.id(), &mut [0], flags) == Err(Errno::EAGAIN)
    }

    /// Drops the timer, whose waker keeps the memory of the task that used the connection last. A sweep does so, not each request: mostly
    /// the same task uses the connection again.
    fn release_task(&mut self) {
        self.timeout = ReusableTimeout::default();
    }

    /// Drops the timer where it is not in the calling thread, whose timers cost less than those of another one.
    fn leave_foreign_timer(&mut self) {
        if self.home.thread != thread::number() {
            self.timeout = ReusableTimeout::default();
        }
    }
}

#[cfg(test)]
mod tests;
