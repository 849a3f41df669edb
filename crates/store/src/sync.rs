//! Replicates counts every `[store] sync_interval`: pushes what this node admitted of limits with `store = "shared"`, and applies the
//! store's state.
//!
//! A background task does it for the store of the snapshot in force. Its pauses are three quarters to all of `sync_interval`, each drawn
//! anew, so that nodes that were started together do not sync together, and none syncs later than configured. A sync takes what was
//! queued when it began, in pieces; keys that are charged meanwhile wait for the next.
//!
//! While the store is unavailable nothing is taken. What was admitted meanwhile is queued, and goes with the first sync after the store
//! is back, together with what limits with `store = "shared-strict"` admitted.
//!
//! # Limits
//! What a process has not sent when it is killed is lost to the others: at most what it admitted in one `sync_interval`. A process that
//! drains syncs every [`HURRY`] until it ends.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use sluicegate_decide::in_force::InForce;
use sluicegate_limiter::Timestamp;
use tokio::sync::watch;
use tracing::{info, warn};

use super::Store;
use super::change_feed::READ;
use super::replication::{EpochGuard, PendingPush, SyncQueues, SyncResult, SyncSession};
use super::store_switch::flush_and_close;
use sluicegate_config::rules::Name;
use sluicegate_decide::store::CountingStore;
use sluicegate_redis_link::{BATCH, NewEpoch, RecoveryBarrier, RecoveryStage};

/// The target of process logs: the module of the gateway that this was, so that filters on it or a module above it go on.
const LOG_TARGET: &str = "sluicegate::store::sync";
/// The least pause between two syncs, however many keys wait.
pub(super) const HURRY: Duration = Duration::from_millis(10);
/// The difference of clocks that is logged: NTP keeps them within some milliseconds.
const FAR_APART: Duration = Duration::from_secs(1);
/// The pause between two checks whether all nodes have restored an emptied store.
const RECOVER_AGAIN: Duration = Duration::from_millis(50);
/// The least time for which an exchange may be under way before its answer is late.
const LEAST_PATIENCE: Duration = Duration::from_millis(250);
/// The pause between two checks whether another store is in force.
const LOOK: Duration = Duration::from_millis(250);

/// The task that syncs with the store in force.
pub struct SyncTask {
    /// The store in force; `None` where the configuration names none.
    pub store: InForce<Option<Arc<Store>>>,
}

/// The state of replication, for an operator.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReplicationStats {
    /// Keys with units to send, or with tentative charges.
    pub keys: usize,
    /// The time for which the oldest key has waited.
    pub lag: Duration,
    /// Syncs that sent everything.
    pub syncs: u64,
    /// Units that the store has charged.
    pub units: u64,
    /// Units that the store will never get.
    pub lost: u64,
    /// Pushes that were sent again because their answer was lost.
    pub repeated: u64,
    /// Units charged beyond what a limit admits, by limit.
    pub excess: Vec<(Name, u64)>,
}

impl SyncTask {
    /// Syncs until the process ends; hurries once `draining` changes.
    pub async fn run(&self, mut draining: watch::Receiver<bool>) {
        tokio::join!(self.replicate(&mut draining), self.read_changes());
    }

    /// Syncs with the store in force.
    async fn replicate(&self, shutdown: &mut watch::Receiver<bool>) {
        let mut draining = false;
        let mut met: Option<Arc<Store>> = None;
        // Until the process ends: requests come while it drains.
        loop {
            let store = self.store.load();
            if let Some(old) = std::mem::replace(&mut met, store.clone())
                && !store.as_ref().is_some_and(|store| store.follows(&*old))
            {
                // It ends by itself, soon; as many of them as there were reloads meanwhile.
                tokio::spawn(flush_and_close(old));
            }
            let Some(store) = store else {
                tokio::time::sleep(LOOK).await;
                continue;
            };
            tokio::time::sleep(HURRY).await;
            if !draining {
                let pause =
                    pause(store.rules().sync_interval, store.jitter()).saturating_sub(HURRY);
                tokio::select! {
                    biased;
                    _ = shutdown.changed() => draining = true,
                    () = self.wait_until_replaced(&store) => continue,
                    () = tokio::time::sleep(pause) => {}
                    () = store.epoch_changed() => {}
                    () = store.pending_writes().wait_until_full() => {}
                }
            }
            store.sync().await;
        }
    }

    /// Applies what operators change at other gateways.
    async fn read_changes(&self) {
        loop {
            let pause = match self.store.load() {
                Some(store) => {
                    store.read_changes(store.now()).await;
                    pause(READ, store.jitter())
                }
                None => READ,
            };
            tokio::time::sleep(pause).await;
        }
    }

    /// Waits until another store is in force, or none.
    async fn wait_until_replaced(&self, store: &Arc<Store>) {
        let in_force = || {
            let now = self.store.load();
            now.is_some_and(|now| Arc::ptr_eq(&now, store))
        };
        while in_force() {
            tokio::time::sleep(LOOK).await;
        }
    }
}

/// Returns three quarters to all of `sync_interval`; `random` is any number.
fn pause(sync: Duration, random: u64) -> Duration {
    let thousandths = 750 + u32::try_from(random % 251).unwrap_or_default();
    sync * thousandths / 1_000
}

impl Store {
    /// Sends what was queued until now.
    pub async fn sync(&self) {
        let shared = &*self.shared;
        let until = self.now();
        if !self.is_up() {
            shared.pending_writes.drop_expired(until);
        }
        let mut session = shared.session.lock().await;
        // What was counted comes before what is added.
        let lost = self.new_epochs();
        if !self.restore_all(&lost).await {
            return self.recover_later().await;
        }
        let queues = SyncQueues {
            pending: &shared.pending_writes,
            replay: &shared.replay_queue,
            remembered: &shared.recovery_cache,
            pushed: &shared.pushed,
        };
        if !self.adopt_seed(&mut session, queues) {
            if !lost.is_empty() {
                self.recover_later().await;
            }
            return;
        }
        let guard = self.epoch_guard(&lost);
        let result = self
            .push_all(&mut session, queues, guard.as_ref(), until)
            .await;
        shared.pushed.record_end(&session, result);
        match result {
            SyncResult::Complete => self.recover(&lost).await,
            // Another master of a Cluster may be unavailable for long.
            SyncResult::Partial if self.has_slots() => self.recover(&lost).await,
            SyncResult::Partial if lost.is_empty() => {}
            SyncResult::Partial => self.recover_later().await,
        }
    }

    /// Returns the epoch in which this node has restored the counts of the store: one of those that are being recovered, or the latest.
    /// `None` in a Cluster, where calls name no epoch.
    fn epoch_guard(&self, lost: &[NewEpoch]) -> Option<EpochGuard> {
        if self.has_slots() {
            return None;
        }
        let restored = lost.first().map(|new| new.as_str().to_owned());
        Some(EpochGuard {
            marker: self.epoch_key(),
            epoch: restored.or_else(|| self.epoch())?,
        })
    }

    /// Sends the charges that have waited since `until` or longer, batch by batch, as long as the store answers.
    async fn push_all(
        &self,
        session: &mut SyncSession,
        queues: SyncQueues<'_>,
        guard: Option<&EpochGuard>,
        until: Timestamp,
    ) -> SyncResult {
        let mut result = SyncResult::Complete;
        // Charges that come back because their server is unavailable wait behind the others: each key has its turn.
        let keys = queues.pending.backlog().keys + queues.replay.keys();
        for _ in 0..keys / BATCH + 2 {
            let now = self.now();
            let batch = session.batch(self.prefix(), BATCH, queues, until, now);
            if batch.is_empty() {
                break;
            }
            let (of_batch, time) = self.push(session, batch, queues, guard, now).await;
            if of_batch == SyncResult::Partial {
                result = SyncResult::Partial;
            }
            self.notice_foreign();
            // No answer had a time: the store is unavailable.
            let Some(time) = time else { break };
            self.ahead.update(now, time);
            self.notice_skew(now, time);
        }
        result
    }

    /// Sends one batch. Returns the result, and the store's time in the first answer that has it: that answer was under way least.
    async fn push(
        &self,
        session: &mut SyncSession,
        batch: Vec<PendingPush>,
        queues: SyncQueues<'_>,
        guard: Option<&EpochGuard>,
        now: Timestamp,
    ) -> (SyncResult, Option<Timestamp>) {
        let at = self.moments(now);
        let calls: Vec<_> = batch
            .iter()
            .map(|push| session.call(push, guard, at))
            .collect();
        let pushed = &self.shared.pushed;
        pushed.record_begin(now);
        let answers = self.run_all(&calls).await;
        let is_answered = answers.iter().any(Result::is_ok);
        pushed.record_answer(is_answered.then(|| self.since(now)));
        let mut result = SyncResult::Complete;
        let mut time: Option<Timestamp> = None;
        for (push, answer) in batch.into_iter().zip(answers) {
            if answer.is_err() {
                result = SyncResult::Partial;
            }
            let of_answer = session.apply(push, answer, queues);
            time = time.or(of_answer);
        }
        // Relaxed: only this task writes it.
        if pushed.is_refused_by_epoch.swap(false, Ordering::Relaxed) {
            self.reread_epochs();
            result = SyncResult::Partial;
        }
        (result, time)
    }

    /// Returns the longest time until the store counts what a node admits: the pause between two syncs, and the exchange under way before
    /// it and its own, if they take no longer than this node's latest.
    pub(super) fn longest_push_time(&self) -> Duration {
        let pause = self.rules().sync_interval.max(HURRY);
        let exchanges = self.shared.pushed.round_trip().saturating_mul(2);
        // Timers fire late, by some milliseconds.
        pause.saturating_add(exchanges).saturating_add(HURRY)
    }

    /// Returns whether the answer to an exchange is late, so that counts of the others may be missing.
    pub(super) fn is_exchange_late(&self, now: Timestamp) -> bool {
        let rules = self.rules();
        let patience = rules.sync_interval.max(rules.timeout).max(LEAST_PATIENCE);
        self.shared.pushed.is_late(patience, now)
    }

    /// Restores emptied servers as far as this node remembers their counts, and returns whether all nodes have.
    async fn restore_all(&self, lost: &[NewEpoch]) -> bool {
        let mut all_restored = true;
        for new in lost {
            if !self.has_restored(new) && self.restore(new).await {
                self.restored(new);
            }
            all_restored &= self.has_restored(new)
                && self.reach(new, RecoveryStage::Restored).await == RecoveryBarrier::Passed;
        }
        all_restored
    }

    async fn restore(&self, new: &NewEpoch) -> bool {
        let mut calls = self.shared.recovery_cache.calls(self.moment(self.now()));
        calls.retain(|call| self.concerns(new, call));
        // Keys have no names before the seed is known.
        let is_complete = (calls.is_empty() || self.seed().is_some())
            && self.run_all(&calls).await.iter().all(Result::is_ok);
        if is_complete && new.is_loss {
            let keys = calls.len();
            warn!(target: LOG_TARGET, "store: data lost, {keys} keys restored");
        }
        is_complete
    }

    /// Completes the recovery once all nodes have sent what they admitted meanwhile: then calls pass again.
    async fn recover(&self, lost: &[NewEpoch]) {
        for new in lost {
            if self.reach(new, RecoveryStage::Added).await == RecoveryBarrier::Waiting {
                return self.recover_later().await;
            }
            self.recovered(new);
            if new.is_loss {
                info!(target: LOG_TARGET, "store: recovery complete, the store decides again");
            }
        }
    }

    async fn recover_later(&self) {
        tokio::time::sleep(RECOVER_AGAIN).await;
        self.wake_recovery();
    }

    /// Returns the state of replication.
    #[must_use]
    pub fn replication_stats(&self, now: Timestamp) -> ReplicationStats {
        let pending_writes = &self.shared.pending_writes;
        let pushed = &self.shared.pushed;
        let backlog = pending_writes.backlog();
        let oldest = backlog
            .oldest
            .into_iter()
            .chain(pushed.oldest_unanswered())
            .min();
        let mut excess: Vec<_> = pending_writes
            .registered_limits()
            .iter()
            .map(|registered| (Name::clone(&registered.limit), registered.excess()))
            .collect();
        excess.sort();
        ReplicationStats {
            keys: backlog.keys,
            lag: oldest.map_or(Duration::ZERO, |oldest| now.saturating_since(oldest)),
            syncs: pushed.syncs(),
            units: pushed.units(),
            lost: pending_writes.lost(),
            repeated: pushed.repeated(),
            excess,
        }
    }

    /// Logs once when the clocks have come apart, and once when they agree again.
    fn notice_skew(&self, here: Timestamp, there: Timestamp) {
        let apart = here
            .saturating_since(there)
            .max(there.saturating_since(here));
        let far = apart > FAR_APART;
        // Relaxed: the flag guards log lines and publishes nothing.
        if self.shared.pushed.is_skewed.swap(far, Ordering::Relaxed) != far {
            match far {
                true => warn!(
                    target: LOG_TARGET,
                    "store: clock skew of {apart:?} between the store and this machine; set the clocks right: windows of what \
                     this gateway admitted end by the one, those of the fleet by the other"
                ),
                false => info!(target: LOG_TARGET, "store: clock skew ended"),
            }
        }
    }

    fn notice_foreign(&self) {
        // Relaxed: the flag guards one log line and publishes nothing.
        if self.shared.pushed.foreign() > 0 && !self.shared.foreign.swap(true, Ordering::Relaxed) {
            warn!(
                target: LOG_TARGET,
                "store: a key under {:?} holds a foreign value and cannot be counted in; set [store] prefix to one of your own",
                self.prefix()
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: no pause is longer than `sync_interval`, and nodes drift apart. Method: both ends of chance.
    #[test]
    fn pauses_differ_and_are_never_longer_than_configured() {
        let sync = Duration::from_millis(200);
        let pauses = [0, 125, 250, 251, u64::MAX].map(|random| pause(sync, random));
        assert_eq!(pauses[0], Duration::from_millis(150));
        assert_eq!(pauses[2], sync);
        assert!(pauses.iter().all(|pause| *pause <= sync));
        assert_ne!(pauses[0], pauses[1]);
    }
}
