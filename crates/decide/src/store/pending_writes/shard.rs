//! The queue of one shard: its counters with what is due and what is tentative, and the order in which they wait for a sync.

use std::collections::VecDeque;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use ahash::HashMap;
use sluicegate_limiter::{KeyHash, Timestamp};

use super::SHARD_KEYS;
use crate::store::replicated_limit::{CounterId, ReplicatedKey, ReplicatedLimit};

#[derive(Debug, Default)]
pub(super) struct ShardState {
    pub(super) deltas: HashMap<CounterId, PendingDelta>,
    /// The queued counters, the longest waiting first.
    pub(super) order: VecDeque<CounterId>,
    /// The units of the latest syncs by counter, the present sync first.
    pushed: [HashMap<CounterId, u64>; RECENT_SYNCS],
    /// The beginning of the present sync.
    sync: Timestamp,
}

/// The units of a counter that the store counts late.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecentUnits {
    /// The units of this node whose push has no answer yet.
    pub unconfirmed: u64,
    /// The units that this node admitted in the latest exchanges: others may have admitted as much each, and it is not known here.
    pub admitted: u64,
}

#[derive(Debug)]
pub(super) struct PendingDelta {
    pub(super) replicated: Arc<ReplicatedLimit>,
    name: KeyHash,
    pub(super) due: u64,
    pub(super) open: u64,
    /// The time when the oldest part of `due` was added.
    pub(super) since: Timestamp,
    pub(super) place: QueueState,
    pub(super) read: PendingRead,
    /// The units of the latest push, which has no answer while the counter is in flight.
    sent: u64,
    /// The exchanges after which the charges of other nodes from before the latest push are known.
    unsettled: u8,
}

/// The exchanges in which the counts of others come, after a push that found the key full: they may have admitted until they heard of that
/// push, by their next exchange, and push that by the one after it.
const SETTLING_EXCHANGES: u8 = 2;
/// The syncs whose units are recent: one that pushes, and those that settle its key.
const RECENT_SYNCS: usize = SETTLING_EXCHANGES as usize + 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QueueState {
    /// Nothing is due.
    Idle,
    /// It waits for the next sync.
    Queued,
    /// A sync has taken it, and its delivery is not known yet.
    InFlight,
}

/// A request to read the counter from the store even if nothing is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PendingRead {
    No,
    Yes,
}

/// The due units of a counter, taken by a sync.
#[derive(Debug)]
pub struct TakenDelta {
    /// The counter.
    pub counter: CounterId,
    /// The limit.
    pub replicated: Arc<ReplicatedLimit>,
    /// The key in the store.
    pub name: KeyHash,
    /// The units; zero to read the counter only.
    pub units: u64,
    /// The time since which it waited.
    pub since: Timestamp,
}

impl ShardState {
    /// Returns the delta of a counter, which it creates if need be; `None` where there is no room.
    pub(super) fn delta(
        &mut self,
        key: &ReplicatedKey,
        now: Timestamp,
    ) -> Option<&mut PendingDelta> {
        let full = self.deltas.len() >= SHARD_KEYS;
        match self.deltas.entry(key.counter()) {
            Entry::Occupied(known) => {
                let delta = known.into_mut();
                // The newest configuration holds.
                if !Arc::ptr_eq(&delta.replicated, &key.replicated) {
                    delta.replicated = Arc::clone(&key.replicated);
                }
                delta.name = key.name;
                Some(delta)
            }
            Entry::Vacant(_) if full => None,
            Entry::Vacant(place) => Some(place.insert(PendingDelta {
                replicated: Arc::clone(&key.replicated),
                name: key.name,
                due: 0,
                open: 0,
                since: now,
                place: QueueState::Idle,
                read: PendingRead::No,
                sent: 0,
                unsettled: 0,
            })),
        }
    }

    /// Queues a counter that has something to send, and drops one that has nothing left.
    pub(super) fn enqueue(&mut self, counter: CounterId) {
        let Some(delta) = self.deltas.get_mut(&counter) else {
            return;
        };
        if delta.place != QueueState::Idle {
            return;
        }
        if delta.has_to_be_sent() {
            delta.place = QueueState::Queued;
            self.order.push_back(counter);
        } else if delta.open == 0 {
            self.deltas.remove(&counter);
        }
    }

    /// Ends the flight of a counter.
    pub(super) fn end_flight(&mut self, counter: CounterId) {
        if let Some(delta) = self.deltas.get_mut(&counter)
            && delta.place == QueueState::InFlight
        {
            delta.place = QueueState::Idle;
            self.enqueue(counter);
        }
    }

    /// Begins the sync of this moment, if it is another than the present one.
    pub(super) fn begin_sync(&mut self, until: Timestamp) {
        if self.sync != until {
            self.sync = until;
            self.pushed.rotate_right(1);
            self.pushed[0] = HashMap::default();
        }
    }

    /// Returns the units of a counter that the store counts late.
    pub(super) fn recent(&self, counter: CounterId) -> RecentUnits {
        let pushed = self.pushed.iter().filter_map(|sync| sync.get(&counter));
        let pushed = pushed.fold(0, |sum: u64, units| sum.saturating_add(*units));
        let delta = self.deltas.get(&counter);
        let unsent = delta.map_or(0, PendingDelta::unsent);
        RecentUnits {
            unconfirmed: unsent.saturating_add(delta.map_or(0, PendingDelta::in_flight)),
            admitted: unsent.saturating_add(pushed),
        }
    }

    /// Forgets the pushes of a counter.
    pub(super) fn forget_pushed(&mut self, counter: CounterId) {
        for sync in &mut self.pushed {
            sync.remove(&counter);
        }
    }

    /// Forgets the pushes of all counters.
    pub(super) fn forget_all_pushed(&mut self) {
        self.pushed = Default::default();
    }

    pub(super) fn next(&mut self, until: Timestamp) -> Option<TakenDelta> {
        let counter = *self.order.front()?;
        let delta = self.deltas.get_mut(&counter)?;
        if delta.since > until {
            return None;
        }
        self.order.pop_front();
        delta.place = QueueState::InFlight;
        delta.read = PendingRead::No;
        delta.sent = delta.due;
        if delta.due > 0 {
            let pushed = self.pushed[0].entry(counter).or_default();
            *pushed = pushed.saturating_add(delta.due);
        }
        Some(TakenDelta {
            counter,
            replicated: Arc::clone(&delta.replicated),
            name: delta.name,
            units: std::mem::take(&mut delta.due),
            since: delta.since,
        })
    }
}

impl PendingDelta {
    fn unsent(&self) -> u64 {
        self.due.saturating_add(self.open)
    }

    fn in_flight(&self) -> u64 {
        match self.place {
            QueueState::InFlight => self.sent,
            QueueState::Idle | QueueState::Queued => 0,
        }
    }

    /// Requests a read of a key that the answer to a push of `units` found full, until the counts of the others have come: a key that is
    /// rejected has no more pushes, and would never hear of them. Returns whether they have come.
    #[must_use]
    pub(super) fn settle_full(&mut self, units: u64, now: Timestamp) -> bool {
        self.unsettled = match units {
            0 => self.unsettled.saturating_sub(1),
            _ => SETTLING_EXCHANGES,
        };
        if self.unsettled > 0 {
            self.request_read(now);
        }
        self.unsettled == 0
    }

    fn has_to_be_sent(&self) -> bool {
        self.due > 0 || self.read == PendingRead::Yes
    }

    pub(super) fn add_due(&mut self, units: u64, now: Timestamp) {
        if !self.has_to_be_sent() {
            self.since = now;
        }
        self.due = self.due.saturating_add(units);
    }

    pub(super) fn request_read(&mut self, now: Timestamp) {
        if !self.has_to_be_sent() {
            self.since = now;
        }
        self.read = PendingRead::Yes;
    }
}
