//! Owns the idle connections to one server that every thread may take.
//!
//! It belongs to the server's state, so it survives reloads and new answers of the resolver, with one exception: all its connections are
//! for one kind of peer. When a reload changes the protocol, the trust or the bound, or the server leaves its origin, they are closed.
//!
//! # Concurrency
//! One lock, held for a few instructions a thread that has connections, and by a sweep for some 30 ns a connection. Connections are dropped
//! after it is released: the end of a permit takes the lock of [`Connections`](super::super::Connections), which is held when this lock is
//! taken.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use super::process::IdleSlot;
use super::{IdleConnection, PoolGeneration, TakeFrom, ThreadNumber, thread};

/// The idle connections to one server.
#[derive(Default)]
pub(crate) struct IdleList(Mutex<ListState>);

#[derive(Default)]
struct ListState {
    /// The key of its connections; `None` where it takes none.
    key: Option<u64>,
    /// The latest pool that set the key.
    generation: PoolGeneration,
    /// Those that have connections, at most one for each thread that requests run in.
    threads: Vec<ThreadList>,
    is_registered: bool,
}

/// The connections of one home thread. Each thread finds its own at once, however many others there are: a thread that did not would open
/// one connection after the other.
struct ThreadList {
    thread: ThreadNumber,
    /// The longest idle one first.
    connections: VecDeque<ListedConnection>,
}

/// A connection and its place among those of the process.
struct ListedConnection {
    idle: IdleConnection,
    _slot: IdleSlot,
}

/// The need for a registration of a list that gets a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Registration {
    Needed,
    Made,
}

impl IdleList {
    fn state(&self) -> MutexGuard<'_, ListState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes connections with this key from now on, and closes others; with `None` it takes none. A pool of an earlier configuration than
    /// the latest that called this changes nothing: its look-up of names may end after the reload.
    pub(crate) fn accept_only(&self, key: Option<u64>, by: PoolGeneration) {
        let mut state = self.state();
        if by < state.generation {
            return;
        }
        state.generation = by;
        let closed = if state.key == key {
            Vec::new()
        } else {
            state.key = key;
            std::mem::take(&mut state.threads)
        };
        drop(state);
        drop(closed);
    }

    /// Returns whether connections with this key are still of use.
    pub(super) fn accepts(&self, key: u64) -> bool {
        self.state().key == Some(key)
    }

    /// Adds a connection, or closes it where it is of no use any more.
    pub(super) fn put(&self, mut idle: IdleConnection, slot: IdleSlot) -> Registration {
        idle.leave_foreign_timer();
        let mut state = self.state();
        if state.key != Some(idle.home.key) {
            drop(state);
            return Registration::Made;
        }
        let listed = ListedConnection { idle, _slot: slot };
        state.push(listed);
        if std::mem::replace(&mut state.is_registered, true) {
            Registration::Made
        } else {
            Registration::Needed
        }
    }

    /// Takes a connection that is idle for a short time, one of the calling thread if there is one.
    pub(crate) fn take(&self, key: u64, from: TakeFrom) -> Option<IdleConnection> {
        let mut idle = self.take_for(key, from, thread::number())?;
        idle.leave_foreign_timer();
        Some(idle)
    }

    fn take_for(&self, key: u64, from: TakeFrom, taker: ThreadNumber) -> Option<IdleConnection> {
        let mut state = self.state();
        if state.key != Some(key) {
            return None;
        }
        let mut threads = state.threads.iter_mut();
        let own = threads.find(|list| list.thread == taker);
        if let Some(listed) = own.and_then(|list| list.connections.pop_back()) {
            return Some(listed.idle);
        }
        if from == TakeFrom::OwnThread {
            return None;
        }
        let since = |list: &&mut ThreadList| Some(list.connections.back()?.idle.since);
        let latest = state.threads.iter_mut().max_by_key(since)?;
        Some(latest.connections.pop_back()?.idle)
    }

    /// Returns since when its longest idle connection is idle.
    pub(super) fn longest_idle(&self) -> Option<Instant> {
        let state = self.state();
        state
            .threads
            .iter()
            .filter_map(ThreadList::longest_idle)
            .min()
    }

    /// Takes the connection that is idle for the longest time, whatever it is for.
    pub(crate) fn take_longest_idle(&self) -> Option<IdleConnection> {
        let mut state = self.state();
        let lists = state.threads.iter_mut();
        let longest = lists
            .filter_map(|list| Some((list.longest_idle()?, list)))
            .min_by_key(|(since, _)| *since);
        let (_, list) = longest?;
        Some(list.connections.pop_front()?.idle)
    }

    /// Closes the connections that no request can use at `now`.
    pub(super) fn sweep(&self, now: Instant) {
        let mut closed = Vec::new();
        let mut state = self.state();
        for list in &mut state.threads {
            for _ in 0..list.connections.len() {
                if let Some(mut listed) = list.connections.pop_front() {
                    if listed.idle.is_usable(now) {
                        listed.idle.release_task();
                        list.connections.push_back(listed);
                    } else {
                        closed.push(listed);
                    }
                }
            }
        }
        state.threads.retain(|list| !list.connections.is_empty());
        drop(state);
        drop(closed);
    }

    /// Returns whether it has connections. One without needs another registration.
    pub(super) fn stays_registered(&self) -> bool {
        let mut state = self.state();
        let mut lists = state.threads.iter();
        state.is_registered = lists.any(|list| !list.connections.is_empty());
        state.is_registered
    }
}

impl ListState {
    fn push(&mut self, listed: ListedConnection) {
        let thread = listed.idle.home.thread;
        let list = self.threads.iter_mut().find(|list| list.thread == thread);
        match list {
            Some(list) => list.connections.push_back(listed),
            None => self.threads.push(ThreadList {
                thread,
                connections: VecDeque::from([listed]),
            }),
        }
    }
}

impl ThreadList {
    fn longest_idle(&self) -> Option<Instant> {
        Some(self.connections.front()?.idle.since)
    }
}

impl std::fmt::Debug for IdleList {
    fn fmt(&self, into: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.state();
        let connections = state.threads.iter().map(|list| list.connections.len());
        write!(into, "IdleList({})", connections.sum::<usize>())
    }
}
