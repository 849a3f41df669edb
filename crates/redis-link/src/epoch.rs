//! Detects that a server has lost its data, and keeps calls away from it until the caller has restored it.
//!
//! Each server keeps a marker, its *epoch*, which the first heartbeat that finds none writes. A server that comes back empty, or is
//! replaced by another, has another epoch. Until this process has recovered from the change, guarded calls name the epoch before, and the
//! script refuses them.
//!
//! Recovery has two stages, and each process waits in each for all others that it knows of, up to [`RETURN`]: first all restore what the
//! server had counted, of which the largest value holds; then they add what they counted meanwhile. So nothing is added to a value before
//! that value is restored, and no guarded call passes before both are done.
//!
//! # Limits
//! In a Cluster the marker lies in another slot than the keys, so calls are not bound to it: a master that is emptied while it serves
//! admits again what it has forgotten until the next heartbeat, and until all processes have restored it.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::call::{Call, Reply};
use crate::link::{Link, follow};
use crate::membership::RETURN;

/// Announces a stage. KEYS: the marker of the epoch, a hash of the stages by process; ARGV: the name of the process, the epoch, the stage.
/// Returns how many processes have reached that stage, and the age of the epoch in milliseconds; -1 for another epoch.
const STAGES: &str = "\
local epoch = redis.call('GET', KEYS[1])
if epoch ~= ARGV[2] then return { -1, 0 } end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('HSET', KEYS[2], ARGV[1], epoch .. ' ' .. ARGV[3])
redis.call('PEXPIRE', KEYS[2], 60000)
local there = 0
for _, stage in ipairs(redis.call('HVALS', KEYS[2])) do
  if string.sub(stage, 1, #epoch) == epoch and string.sub(stage, -1) >= ARGV[3] then there = there + 1 end
end
return { there, math.max(now - (tonumber(string.match(epoch, ' (%d+)$')) or 0), 0) }
";

/// A completed step of a recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryStage {
    /// The process has restored what the server had counted.
    Restored,
    /// The process has added what it counted meanwhile.
    Added,
}

/// The result of waiting for the other processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryBarrier {
    /// All processes have reached the stage, or had the time to.
    Passed,
    /// Other processes may still reach it.
    Waiting,
}

/// The epochs of all servers, by the hash tag of each.
#[derive(Debug, Default)]
pub(crate) struct StoreEpochs {
    parts: Mutex<BTreeMap<String, PartEpoch>>,
    /// Wakes the task that recovers.
    pub(crate) changed: Notify,
}

#[derive(Clone, Debug, Default)]
struct PartEpoch {
    seen: String,
    /// The latest epoch that this process has restored.
    told: Option<String>,
    recovered: Option<String>,
}

/// A server whose epoch has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEpoch {
    pub(crate) part: String,
    pub(crate) epoch: String,
    /// True if there was an epoch before, so that data was lost.
    pub is_loss: bool,
}

impl StoreEpochs {
    /// Records the epoch that a heartbeat found.
    pub(crate) fn see(&self, part: &str, epoch: &str) {
        let mut parts = self.lock();
        let known = parts.entry(part.to_owned()).or_default();
        if known.seen != epoch {
            epoch.clone_into(&mut known.seen);
            self.changed.notify_one();
        }
    }

    /// Returns the epochs that this process has not recovered from.
    pub(crate) fn open(&self) -> Vec<NewEpoch> {
        let parts = self.lock();
        let open = parts
            .iter()
            .filter(|(_, known)| known.recovered.as_ref() != Some(&known.seen));
        open.map(|(part, known)| NewEpoch {
            part: part.clone(),
            epoch: known.seen.clone(),
            is_loss: known.recovered.is_some(),
        })
        .collect()
    }

    /// Returns whether this process has restored the server of a new epoch.
    pub(crate) fn has_told(&self, new: &NewEpoch) -> bool {
        let parts = self.lock();
        let known = parts.get(&new.part);
        known.is_some_and(|known| known.told.as_ref() == Some(&new.epoch))
    }

    /// Records that this process has restored the server.
    pub(crate) fn told(&self, new: &NewEpoch) {
        if let Some(known) = self.lock().get_mut(&new.part) {
            known.told = Some(new.epoch.clone());
        }
    }

    /// Records that the recovery is complete.
    pub(crate) fn recovered(&self, from: &NewEpoch) {
        if let Some(known) = self.lock().get_mut(&from.part) {
            known.recovered = Some(from.epoch.clone());
        }
    }

    /// Returns the epoch that guarded calls name, where one server has all keys.
    pub(crate) fn current(&self) -> Option<String> {
        self.lock().get("")?.recovered.clone()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, PartEpoch>> {
        // Entries are whole, so a poisoned lock still holds some.
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Link {
    /// Reads the epochs again, since a call was refused for naming another.
    pub fn was_emptied(&self) {
        for kept in &self.map.load().lines {
            kept.line.beat_soon();
        }
    }

    /// Returns the epochs that this process has not recovered from.
    pub fn new_epochs(&self) -> Vec<NewEpoch> {
        self.shared.epochs.open()
    }

    /// Returns whether this process has restored the server of a new epoch.
    pub fn has_told(&self, new: &NewEpoch) -> bool {
        self.shared.epochs.has_told(new)
    }

    /// Records that this process has restored the server.
    pub fn told(&self, new: &NewEpoch) {
        self.shared.epochs.told(new);
    }

    /// Records that the recovery is complete: guarded calls pass again.
    pub fn recovered(&self, from: &NewEpoch) {
        self.shared.epochs.recovered(from);
    }

    /// Waits until there may be a new epoch.
    pub async fn epoch_changed(&self) {
        self.shared.epochs.changed.notified().await;
    }

    /// Wakes [`Self::epoch_changed`].
    pub fn look_at_epochs(&self) {
        self.shared.epochs.changed.notify_one();
    }

    /// Announces that this process has reached `stage`, and returns whether all others have, or have had the time to.
    pub async fn reach(&self, new: &NewEpoch, stage: RecoveryStage) -> RecoveryBarrier {
        if self.has_slots() {
            return RecoveryBarrier::Passed;
        }
        let stage = match stage {
            RecoveryStage::Restored => "1",
            RecoveryStage::Added => "2",
        };
        let keys = [
            self.epoch_key(),
            format!("{}:told", self.prefix()).into_bytes(),
        ];
        let args = [
            self.shared.nodes.name(),
            new.epoch.clone(),
            stage.to_owned(),
        ];
        let call = Call {
            keys: keys.to_vec(),
            args: args.map(String::into_bytes).to_vec(),
        };
        let reply = follow(&self.map, &self.settings, &self.shared, &call, Some(STAGES)).await;
        let Ok(Reply::Rows(fields)) = reply else {
            return RecoveryBarrier::Waiting;
        };
        let [Reply::Integer(there), Reply::Integer(age)] = fields[..] else {
            return RecoveryBarrier::Waiting;
        };
        let patience = i64::try_from(RETURN.as_millis()).unwrap_or(i64::MAX);
        let all = there >= i64::from(self.shared.nodes.count());
        match all || there > 0 && age >= patience {
            true => RecoveryBarrier::Passed,
            false => RecoveryBarrier::Waiting,
        }
    }
}
