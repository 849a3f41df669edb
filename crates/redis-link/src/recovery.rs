//! Keeps calls away from a server that has lost its data until the caller has restored it.
//!
//! Until this process has recovered from a new epoch (`epoch.rs`), guarded calls name the epoch before, and the script refuses them.
//!
//! Recovery has two stages, and each process waits in each for all others that it knows of, or that one of them knows of, up to
//! [`RETURN_PATIENCE`]: a process that was away shortly before is not known to all yet. First all restore what the server had counted, of
//! which the largest value holds; then they add what they counted meanwhile. So nothing is added to a value before that value is restored,
//! and no guarded call passes before both are done.
//!
//! # Limits
//! In a Cluster the marker lies in another slot than the keys, so calls are not bound to it: a master that is emptied while it serves
//! admits again what it has forgotten until the next heartbeat, and until all processes have restored it.

use crate::call::{Call, Reply};
use crate::epoch::NewEpoch;
use crate::link::Link;
use crate::membership::RETURN_PATIENCE;

/// Announces a stage. KEYS: the marker of the epoch, a hash of the stages by process; ARGV: the name of the process, the epoch, the stage,
/// the number of processes that it knows of. Returns how many processes have reached that stage, the age of the epoch in milliseconds, and
/// the largest number that one of them knows of; -1 for another epoch.
const STAGES: &str = "\
local epoch = redis.call('GET', KEYS[1])
if epoch ~= ARGV[2] then return { -1, 0, 0 } end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('HSET', KEYS[2], ARGV[1], epoch .. ' ' .. ARGV[4] .. ' ' .. ARGV[3])
redis.call('PEXPIRE', KEYS[2], 60000)
local there, known = 0, 0
for _, stage in ipairs(redis.call('HVALS', KEYS[2])) do
  if string.sub(stage, 1, #epoch) == epoch then
    known = math.max(known, tonumber(string.match(string.sub(stage, #epoch + 1), '^ (%d+) ') or 0))
    if string.sub(stage, -1) >= ARGV[3] then there = there + 1 end
  end
end
return { there, math.max(now - (tonumber(string.match(epoch, ' (%d+)$')) or 0), 0), known }
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

impl Link {
    /// Reads the epochs again, since a call was refused for naming another.
    pub fn reread_epochs(&self) {
        for supervised in &self.map.load().connections {
            supervised.connection.trigger_heartbeat();
        }
    }

    /// Returns the epochs that this process has not recovered from.
    pub fn new_epochs(&self) -> Vec<NewEpoch> {
        self.shared.epochs.unrecovered()
    }

    /// Returns whether this process has restored the server of a new epoch.
    pub fn has_restored(&self, new: &NewEpoch) -> bool {
        self.shared.epochs.has_restored(new)
    }

    /// Records that this process has restored the server.
    pub fn restored(&self, new: &NewEpoch) {
        self.shared.epochs.restored(new);
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
    pub fn wake_recovery(&self) {
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
            self.shared.nodes.count().to_string(),
        ];
        let call = Call {
            keys: keys.to_vec(),
            args: args.map(String::into_bytes).to_vec(),
        };
        let reply = self.run_other(&call, STAGES).await;
        let Ok(Reply::Rows(fields)) = reply else {
            return RecoveryBarrier::Waiting;
        };
        let [
            Reply::Integer(reached),
            Reply::Integer(age),
            Reply::Integer(known),
        ] = fields[..]
        else {
            return RecoveryBarrier::Waiting;
        };
        let patience = i64::try_from(RETURN_PATIENCE.as_millis()).unwrap_or(i64::MAX);
        let has_all = reached >= known.max(i64::from(self.shared.nodes.count()));
        match has_all || reached > 0 && age >= patience {
            true => RecoveryBarrier::Passed,
            false => RecoveryBarrier::Waiting,
        }
    }
}
