//! Owns the idle connections to one server that every thread may take.
//!
//! It belongs to the server's state, so it survives reloads and new answers of the resolver, with one exception: all its connections are
//! for one kind of peer. When a reload changes the protocol, the trust or the bound, or the server leaves its origin, they are closed.
//!
//! # Concurrency
//! One lock, held for a few instructions, and by a sweep for some 30 ns a connection. Connections are dropped after it is released: the
//! end of a permit takes the lock of [`Connections`](super::super::Connections), which is held when this lock is taken.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use super::process::IdlePlace;
use super::{IdleConnection, PoolGeneration, TakeFrom, ThreadNumber, thread};

/// Connections that a thread looks at for one of its own.
const OWN_LOOKS: usize = 8;

/// The idle connections to one server.
#[derive(Default)]
pub(in crate::origin) struct IdleList(Mutex<ListState>);

#[derive(Default)]
struct ListState {
    /// The key of its connections; `None` where it takes none.
    key: Option<u64>,
    /// The latest pool that set the key.
    generation: PoolGeneration,
    /// The longest idle one first.
    connections: VecDeque<ListedConnection>,
    is_registered: bool,
}

/// A connection and its place among those of the process.
struct ListedConnection {
    idle: IdleConnection,
    _place: IdlePlace,
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
    pub(in crate::origin) fn accept_only(&self, key: Option<u64>, by: PoolGeneration) {
        let mut state = self.state();
        if by < state.generation {
            return;
        }
        state.generation = by;
        let closed = if state.key == key {
            VecDeque::new()
        } else {
            state.key = key;
            std::mem::take(&mut state.connections)
        };
        drop(state);
        drop(closed);
    }

    /// Returns whether connections with this key are still of use.
    pub(super) fn accepts(&self, key: u64) -> bool {
        self.state().key == Some(key)
    }

    /// Adds a connection, or closes it where it is of no use any more.
    pub(super) fn put(&self, mut idle: IdleConnection, place: IdlePlace) -> Registration {
        idle.leave_foreign_timer();
        let mut state = self.state();
        if state.key != Some(idle.home.key) {
            drop(state);
            return Registration::Made;
        }
        let listed = ListedConnection {
            idle,
            _place: place,
        };
        state.connections.push_back(listed);
        if std::mem::replace(&mut state.is_registered, true) {
            Registration::Made
        } else {
            Registration::Needed
        }
    }

    /// Takes a connection that is idle for a short time, one of the calling thread if there is one.
    pub(in crate::origin) fn take(&self, key: u64, from: TakeFrom) -> Option<IdleConnection> {
        let mut idle = self.take_for(key, from, thread::number())?;
        idle.leave_foreign_timer();
        Some(idle)
    }

    fn take_for(&self, key: u64, from: TakeFrom, taker: ThreadNumber) -> Option<IdleConnection> {
        let mut state = self.state();
        if state.key != Some(key) {
            return None;
        }
        let number = state.connections.len();
        let own = (number.saturating_sub(OWN_LOOKS)..number)
            .rev()
            .find(|&index| state.connections[index].idle.home.thread == taker);
        let index = match from {
            TakeFrom::AllThreads => own.or(number.checked_sub(1)),
            TakeFrom::OwnThread => own,
        };
        Some(state.connections.remove(index?)?.idle)
    }

    /// Returns since when its longest idle connection is idle.
    pub(super) fn longest_idle(&self) -> Option<Instant> {
        let state = self.state();
        state.connections.front().map(|listed| listed.idle.since)
    }

    /// Takes the connection that is idle for the longest time, whatever it is for.
    pub(in crate::origin) fn take_longest_idle(&self) -> Option<IdleConnection> {
        Some(self.state().connections.pop_front()?.idle)
    }

    /// Closes the connections that no request can use at `now`.
    pub(super) fn sweep(&self, now: Instant) {
        let mut closed = Vec::new();
        let mut state = self.state();
        for _ in 0..state.connections.len() {
            if let Some(mut listed) = state.connections.pop_front() {
                if listed.idle.is_usable(now) {
                    state.connections.push_back(listed);
                } else {
                    closed.push(listed);
                }
            }
        }
        drop(state);
        drop(closed);
    }

    /// Returns whether it has connections. One without needs another registration.
    pub(super) fn stays_registered(&self) -> bool {
        let mut state = self.state();
        state.is_registered = !state.connections.is_empty();
        state.is_registered
    }
}

impl std::fmt::Debug for IdleList {
    fn fmt(&self, into: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(into, "IdleList({})", self.state().connections.len())
    }
}
