//! Bounds the idle connections of the process, and sweeps the lists of servers.
//!
//! Every idle connection has one of a fixed number of slots. A thread keeps the slots of its own connections from one sweep to the next,
//! so that it seldom asks for one. Where none is free, the connection that is idle for the longest time in a list is closed; where the
//! lists are empty, the new one is.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::time::Instant;

use super::server_list::{IdleList, Registration};
use super::{IdleConnection, SWEEP_INTERVAL};
use sluicegate_transport::timer;

/// The slots of idle connections, and the lists that have some.
pub(crate) struct IdleConnections {
    most: usize,
    /// Number of slots that are taken.
    taken: AtomicUsize,
    registry: Mutex<Registry>,
}

#[derive(Default)]
struct Registry {
    /// The lists with connections.
    lists: Vec<Weak<IdleList>>,
    is_swept: bool,
}

/// A slot of a connection in a list.
pub(crate) struct IdleSlot(Arc<IdleConnections>);

impl IdleConnections {
    /// Returns an empty registry with `most` slots, at least one.
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self {
            most: most.max(1),
            taken: AtomicUsize::new(0),
            registry: Mutex::default(),
        })
    }

    /// Takes a slot. Returns whether there was one.
    pub(super) fn take_slot(&self) -> bool {
        let take = |taken: usize| (taken < self.most).then_some(taken + 1);
        // Relaxed: the number publishes nothing. Each failed round is a slot that was taken or released by another thread.
        let taken = self
            .taken
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        taken.is_ok()
    }

    /// Releases as many slots.
    pub(super) fn release_slots(&self, number: usize) {
        self.taken.fetch_sub(number, Ordering::Relaxed);
    }

    /// Returns the number of slots that are taken.
    #[cfg(test)]
    pub(super) fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// Keeps a connection in the list of its server.
    pub(crate) fn put(self: &Arc<Self>, idle: IdleConnection) {
        let Some(list) = idle.home.list.upgrade() else {
            return;
        };
        let Some(slot) = self.slot() else {
            return;
        };
        if list.put(idle, slot) == Registration::Needed {
            self.register(&list);
        }
    }

    /// Takes a slot, if need be that of the connection that is idle for the longest time.
    pub(crate) fn slot(self: &Arc<Self>) -> Option<IdleSlot> {
        if !self.take_slot() {
            self.close_longest_idle();
            if !self.take_slot() {
                return None;
            }
        }
        Some(IdleSlot(Arc::clone(self)))
    }

    fn close_longest_idle(&self) {
        let lists = self.lists();
        let since = lists
            .iter()
            .filter_map(|list| Some((list.longest_idle()?, list)));
        if let Some((_, list)) = since.min_by_key(|(since, _)| *since) {
            drop(list.take_longest_idle());
        }
    }

    fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lists(&self) -> Vec<Arc<IdleList>> {
        let registry = self.registry();
        registry.lists.iter().filter_map(Weak::upgrade).collect()
    }

    fn register(self: &Arc<Self>, list: &Arc<IdleList>) {
        let mut registry = self.registry();
        registry.lists.push(Arc::downgrade(list));
        if !std::mem::replace(&mut registry.is_swept, true) {
            tokio::spawn(sweep(Arc::clone(self)));
        }
    }

    /// Sweeps the lists. Returns whether some have connections left.
    pub(super) fn sweep(&self, now: Instant) -> bool {
        for list in self.lists() {
            list.sweep(now);
        }
        let mut registry = self.registry();
        registry.lists.retain(|list| {
            let list = list.upgrade();
            list.is_some_and(|list| list.stays_registered())
        });
        registry.is_swept = !registry.lists.is_empty();
        registry.is_swept
    }
}

/// Sweeps the lists until none has connections.
async fn sweep(idle: Arc<IdleConnections>) {
    loop {
        tokio::time::sleep(SWEEP_INTERVAL).await;
        if !idle.sweep(timer::deadline(Duration::ZERO)) {
            return;
        }
    }
}

impl Drop for IdleSlot {
    fn drop(&mut self) {
        self.0.release_slots(1);
    }
}
