//! Notices that a store has lost what it counted, and keeps calls away from it until it was told again.
//!
//! Each server of the store keeps a marker, its *epoch*, which the first heartbeat that finds none writes. A server that comes back empty,
//! or is another one, has another epoch. Until this gateway has recovered from the change, calls that let requests pass are for the epoch
//! before, and the script does not carry them out.
//!
//! Recovery has two stages, and each gateway waits in each for all others that it knows of, up to [`RETURN`]: first they tell what the
//! store had counted, of which the most holds, then what they admitted meanwhile, which is added. So nothing is added before what it is
//! added to, and nobody passes before everything is known.
//!
//! # Limits
//! In a Cluster the marker lies in another slot than the keys, so calls are not bound to it: a master that is emptied while it serves lets
//! pass what it has forgotten until the next heartbeat, and until everybody has told it.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::call::{Call, Reply};
use crate::link::{Link, follow};
use crate::membership::RETURN;

/// Says how far a gateway is. KEYS: the marker of the epoch, a hash of how far each is; ARGV: the gateway's name, the epoch, its stage.
/// Answers how many are at that stage or behind it, and the epoch's age in milliseconds; -1 for another epoch.
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

/// What a gateway has done to recover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryStage {
    /// Told what the store had counted.
    Restored,
    /// Told what was admitted meanwhile.
    Added,
}

/// Whether it may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryBarrier {
    /// All are as far.
    Passed,
    /// Others are not, and may still come.
    Waiting,
}

/// The epochs of a store, by the part of the keys that a server has.
#[derive(Debug, Default)]
pub(crate) struct StoreEpochs {
    parts: Mutex<BTreeMap<String, PartEpoch>>,
    /// Wakes who recovers.
    pub(crate) changed: Notify,
}

#[derive(Clone, Debug, Default)]
struct PartEpoch {
    seen: String,
    /// What this gateway knew was told.
    told: Option<String>,
    recovered: Option<String>,
}

/// A part whose epoch is another than the one before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEpoch {
    pub(crate) part: String,
    pub(crate) epoch: String,
    /// Whether there was one before, so that something was lost.
    pub is_loss: bool,
}

impl StoreEpochs {
    /// A heartbeat found this epoch.
    pub(crate) fn see(&self, part: &str, epoch: &str) {
        let mut parts = self.lock();
        let known = parts.entry(part.to_owned()).or_default();
        if known.seen != epoch {
            epoch.clone_into(&mut known.seen);
            self.changed.notify_one();
        }
    }

    /// Those that this gateway has not recovered from.
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

    /// Whether this gateway has told what it knew to the server of a new epoch.
    pub(crate) fn has_told(&self, new: &NewEpoch) -> bool {
        let parts = self.lock();
        let known = parts.get(&new.part);
        known.is_some_and(|known| known.told.as_ref() == Some(&new.epoch))
    }

    /// It has.
    pub(crate) fn told(&self, new: &NewEpoch) {
        if let Some(known) = self.lock().get_mut(&new.part) {
            known.told = Some(new.epoch.clone());
        }
    }

    /// This gateway has recovered from a change.
    pub(crate) fn recovered(&self, from: &NewEpoch) {
        if let Some(known) = self.lock().get_mut(&from.part) {
            known.recovered = Some(from.epoch.clone());
        }
    }

    /// The one that calls are for, of a store that is not in parts.
    pub(crate) fn current(&self) -> Option<String> {
        self.lock().get("")?.recovered.clone()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, PartEpoch>> {
        // Entries are whole, so a poisoned lock still holds some.
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Link {
    /// A call was for another epoch: looks which one it is.
    pub fn was_emptied(&self) {
        for kept in &self.map.load().lines {
            kept.line.beat_soon();
        }
    }

    /// Epochs that this gateway has not recovered from.
    pub fn new_epochs(&self) -> Vec<NewEpoch> {
        self.shared.epochs.open()
    }

    /// Whether this gateway has told what it knew to the server of this one.
    pub fn has_told(&self, new: &NewEpoch) -> bool {
        self.shared.epochs.has_told(new)
    }

    /// It has.
    pub fn told(&self, new: &NewEpoch) {
        self.shared.epochs.told(new);
    }

    /// Calls may pass again.
    pub fn recovered(&self, from: &NewEpoch) {
        self.shared.epochs.recovered(from);
    }

    /// Returns when there may be a new epoch.
    pub async fn epoch_changed(&self) {
        self.shared.epochs.changed.notified().await;
    }

    /// Has them looked at again.
    pub fn look_at_epochs(&self) {
        self.shared.epochs.changed.notify_one();
    }

    /// Says how far this gateway is with `new`, and finds out whether all others are, or were given the time to.
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
