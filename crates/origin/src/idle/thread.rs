//! Owns the idle connections that a busy thread keeps for itself, and decides when it is busy.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ahash::HashMap;
use tokio::time::Instant;

use super::process::IdleConnections;
use super::{BUSY_USES, IdleConnection, SWEEP_INTERVAL, TakeFrom, ThreadNumber};
use sluicegate_transport::timer;

thread_local! {
    static NUMBER: ThreadNumber = next_number();
    static OWN: RefCell<ThreadConnections> = RefCell::default();
}

/// The idle connections of one thread.
#[derive(Default)]
struct ThreadConnections {
    by_peer: HashMap<u64, PeerConnections>,
    number: usize,
    /// Slots that the thread has taken, at least `number`.
    slots: usize,
    is_swept: bool,
}

/// The idle connections of one thread to one peer, and the thread's use of it since the last sweep.
#[derive(Default)]
struct PeerConnections {
    /// The longest idle one first.
    connections: Vec<IdleConnection>,
    uses: u32,
    /// Uses by the busy thread that found no connection here.
    misses: u32,
    was_busy: bool,
    /// The smallest number of connections since the last sweep.
    fewest: usize,
}

/// The absence of a connection.
struct Miss {
    /// The connections that the request may take instead.
    from: TakeFrom,
    /// True if a task is needed that sweeps.
    begins_sweep: bool,
}

/// The result of keeping a connection.
struct KeepResult {
    /// The connection, where the thread does not keep it.
    back: Option<IdleConnection>,
    /// True if a task is needed that sweeps.
    begins_sweep: bool,
}

/// Returns the number of the calling thread.
pub(crate) fn number() -> ThreadNumber {
    NUMBER.with(|number| *number)
}

/// Takes the connection of this thread that is idle for the shortest time.
///
/// # Errors
/// There is none. Returns the connections of the server's list that the request may take.
pub(crate) fn take(key: u64, all: &Arc<IdleConnections>) -> Result<IdleConnection, TakeFrom> {
    OWN.with_borrow_mut(|own| own.take(key)).map_err(|miss| {
        if miss.begins_sweep {
            tokio::spawn(sweep(Arc::clone(all)));
        }
        miss.from
    })
}

/// Keeps a connection in this thread where the thread is busy, or else in the list of its server.
pub(crate) fn keep(connection: IdleConnection, all: &Arc<IdleConnections>) {
    let kept = OWN.with_borrow_mut(|own| own.put(connection, all));
    if kept.begins_sweep {
        tokio::spawn(sweep(Arc::clone(all)));
    }
    if let Some(connection) = kept.back {
        all.put(connection);
    }
}

/// Returns the number of connections that this thread keeps.
#[cfg(test)]
pub(super) fn kept() -> usize {
    OWN.with_borrow(|own| own.number)
}

impl ThreadConnections {
    fn take(&mut self, key: u64) -> Result<IdleConnection, Miss> {
        let peer = self.by_peer.entry(key).or_default();
        peer.uses = peer.uses.saturating_add(1);
        while let Some(mut idle) = peer.connections.pop() {
            self.number -= 1;
            if idle.is_usable_now() {
                peer.fewest = peer.fewest.min(peer.connections.len());
                return Ok(idle);
            }
        }
        peer.fewest = 0;
        if peer.is_busy() {
            peer.misses = peer.misses.saturating_add(1);
        }
        let from = if peer.misses <= BUSY_USES {
            TakeFrom::AllThreads
        } else {
            TakeFrom::OwnThread
        };
        Err(Miss {
            from,
            begins_sweep: self.begins_sweep(),
        })
    }

    /// Returns true if a task is needed that sweeps: once until the sweep is over.
    fn begins_sweep(&mut self) -> bool {
        !std::mem::replace(&mut self.is_swept, true)
    }

    fn put(&mut self, idle: IdleConnection, all: &IdleConnections) -> KeepResult {
        let begins_sweep = self.begins_sweep();
        let peer = self.by_peer.entry(idle.home.key).or_default();
        let is_kept = peer.is_busy()
            && idle.home.thread == number()
            && (self.number < self.slots || all.take_slot());
        if !is_kept {
            return KeepResult {
                back: Some(idle),
                begins_sweep,
            };
        }
        peer.connections.push(idle);
        self.number += 1;
        self.slots = self.slots.max(self.number);
        KeepResult {
            back: None,
            begins_sweep,
        }
    }

    /// Closes the connections that no request can use at `now`, and begins another interval. Returns the connections that the thread did
    /// not need.
    fn sweep(&mut self, now: Instant, all: &IdleConnections) -> Vec<IdleConnection> {
        let mut spare = Vec::new();
        let mut number = 0;
        self.by_peer.retain(|key, peer| {
            peer.connections
                .retain_mut(|idle| idle.is_usable(now) && is_accepted(idle, *key));
            (peer.connections.iter_mut()).for_each(IdleConnection::release_task);
            spare.extend(peer.begin_interval());
            number += peer.connections.len();
            peer.was_busy
        });
        self.number = number;
        all.release_slots(self.slots - number);
        self.slots = number;
        self.is_swept = !self.by_peer.is_empty();
        spare
    }
}

impl PeerConnections {
    fn is_busy(&self) -> bool {
        self.was_busy || self.uses >= BUSY_USES
    }

    /// Begins another interval, and removes the connections that were not needed in the one before.
    fn begin_interval(&mut self) -> impl Iterator<Item = IdleConnection> {
        self.was_busy = self.uses >= BUSY_USES;
        let connections = self.connections.len();
        let spare = if self.was_busy {
            self.fewest.min(connections)
        } else {
            connections
        };
        self.uses = 0;
        self.misses = 0;
        self.fewest = connections - spare;
        self.connections.drain(..spare)
    }
}

/// Returns whether the connection is still of use to its server.
fn is_accepted(idle: &IdleConnection, key: u64) -> bool {
    let list = idle.home.list.upgrade();
    list.is_some_and(|list| list.accepts(key))
}

/// Sweeps the connections of this thread until it is busy with no server.
async fn sweep(all: Arc<IdleConnections>) {
    loop {
        tokio::time::sleep(SWEEP_INTERVAL).await;
        let now = timer::deadline(Duration::ZERO);
        let (spare, is_over) = OWN.with_borrow_mut(|own| {
            let spare = own.sweep(now, &all);
            (spare, !own.is_swept)
        });
        for connection in spare {
            all.put(connection);
        }
        if is_over {
            return;
        }
    }
}

fn next_number() -> ThreadNumber {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    // Relaxed: the number publishes nothing.
    ThreadNumber(NEXT.fetch_add(1, Ordering::Relaxed))
}
