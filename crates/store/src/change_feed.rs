//! Publishes the keys of shared limits that an operator has changed by hand, and reads what other gateways publish.
//!
//! Each gateway keeps state of a key that only it can change: that the store had refused the key, what it admitted itself, bans. It finds
//! them by a hash that other gateways cannot compute. So the name of the key in the store is published; a gateway that reads it drops its
//! state when the next request with that key comes, and calls the store again.
//!
//! The names lie in a sorted set of the store, by the time of the change there. Each gateway reads once a second what is new.
//!
//! # Concurrency
//! Requests read one number: how many names were read and had no request yet. It is 0 except after an operator's change.
//!
//! # Limits
//! At most [`STORE_CHANGES`] names, each for at most [`KEPT`], in the store and in a gateway; the oldest go first. A gateway ignores what
//! was published before it started.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sluicegate_base::bounds::STORE_CHANGES;
use sluicegate_limiter::{KeyHash, Timestamp};

use super::script::{Call, Reply};
use sluicegate_decide::store::KeyName;
use sluicegate_redis_link::StoreError;

use super::Store;
use sluicegate_decide::store::KeyChange;

/// The pause between two reads.
pub(super) const READ: Duration = Duration::from_secs(1);
/// The time for which a name is kept: a gateway that is cut off from the store for less misses nothing.
const KEPT: Duration = Duration::from_secs(24 * 3600);

/// Publishes a change. KEYS: the set; ARGV: the member, [`KEPT`] in milliseconds, [`STORE_CHANGES`]. Each change is later than the one
/// before.
const PUBLISH: &str = "\
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local newest = tonumber(redis.call('ZREVRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2] or '0')
redis.call('ZADD', KEYS[1], string.format('%.0f', math.max(now, newest + 1)), ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', '(' .. string.format('%.0f', now - ARGV[2]))
local first_beyond = redis.call('ZREVRANGE', KEYS[1], ARGV[3], ARGV[3], 'WITHSCORES')[2]
if first_beyond then redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', first_beyond) end
return 0
";

/// Reads changes. KEYS: the set; ARGV: the time of the latest one that is known, or nothing, the most to read, the milliseconds since the
/// gateway started. Returns the time of the latest one, 0 where there is none, and the members that are later than the known one, without
/// a known one those since the start.
const READ_NEW: &str = "\
local newest = tonumber(redis.call('ZREVRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2] or '0')
local time = redis.call('TIME')
local known = tonumber(ARGV[1]) or time[1] * 1000 + math.floor(time[2] / 1000) - ARGV[3]
local new = {}
if newest > known then
  local all = redis.call('ZREVRANGE', KEYS[1], 0, ARGV[2] - 1, 'WITHSCORES')
  for index = 1, #all, 2 do
    if tonumber(all[index + 1]) <= known then break end
    new[#new + 1] = all[index]
  end
end
return { newest, new }
";

/// The changes at other gateways whose keys no request of this one has had since.
#[derive(Debug)]
pub(super) struct ChangeFeed {
    /// The time at which the gateway started, by its clock.
    started: Timestamp,
    /// The number of names.
    open: AtomicUsize,
    state: Mutex<FeedState>,
}

#[derive(Debug, Default)]
struct FeedState {
    /// The time of the latest change in the store; `None` before the first reading.
    latest: Option<u64>,
    names: HashMap<String, RemoteChange>,
    /// The selections of bans that operators ended at other gateways, the oldest first.
    unbans: VecDeque<String>,
}

/// The word of a selection of bans in a member, in place of that of a change.
const UNBAN: &str = "unban";
/// The maximum of selections that wait; of more that come at once the oldest are left out.
const UNBANS: usize = 64;

#[derive(Clone, Copy, Debug)]
struct RemoteChange {
    change: KeyChange,
    /// The time when it was read, by this gateway's clock.
    at: Timestamp,
}

impl ChangeFeed {
    /// Returns the feed of a gateway that starts at this moment.
    pub(super) fn new(started: Timestamp) -> Self {
        Self {
            started,
            open: AtomicUsize::new(0),
            state: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, FeedState> {
        // Entries are whole, so a poisoned lock still holds some.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether a key was changed elsewhere and had no request here since.
    fn are_open(&self) -> bool {
        // Relaxed: a hint, after which the lock is taken. A request that misses a change came before it.
        self.open.load(Ordering::Relaxed) > 0
    }

    fn take(&self, name: &KeyName) -> Option<KeyChange> {
        let mut state = self.lock();
        let removed = state.names.remove(name.as_str());
        self.open.store(state.names.len(), Ordering::Relaxed);
        Some(removed?.change)
    }

    /// Adds the new `members`, except those that this gateway `me` published itself; `latest` is the time of the latest change in the
    /// store.
    fn receive(&self, latest: u64, members: &[Reply], me: &str, now: Timestamp) {
        let mut state = self.lock();
        state.latest = Some(latest);
        state
            .names
            .retain(|_, known| now.saturating_since(known.at) < KEPT);
        // The latest first.
        for member in members {
            if let Some(selection) = unban(member, me) {
                // The latest comes first, and is repeated last.
                if state.unbans.len() < UNBANS {
                    state.unbans.push_front(selection.to_owned());
                }
                continue;
            }
            let parsed = match member {
                Reply::Bytes(bytes) => str::from_utf8(bytes).ok().and_then(read),
                _ => None,
            };
            // A member that no gateway writes is ignored.
            let Some((publisher, change, name)) = parsed else {
                continue;
            };
            if publisher != me && (state.names.len() < STORE_CHANGES || state.drop_oldest()) {
                let new = RemoteChange { change, at: now };
                let known = state.names.entry(name.to_owned()).or_insert(new);
                // Bans that one change lifts stay lifted.
                if change == KeyChange::Cleared {
                    known.change = change;
                }
            }
        }
        self.open.store(state.names.len(), Ordering::Relaxed);
    }
}

impl FeedState {
    fn drop_oldest(&mut self) -> bool {
        let oldest = self.names.iter().min_by_key(|(_, known)| known.at);
        let oldest = oldest.map(|(name, _)| name.clone());
        oldest.is_some_and(|oldest| self.names.remove(&oldest).is_some())
    }
}

/// Parses a member: the publisher, the change, and the name of the key.
fn read(member: &str) -> Option<(&str, KeyChange, &str)> {
    let (publisher, rest) = member.split_once(' ')?;
    let (change, name) = rest.split_once(' ')?;
    Some((publisher, KeyChange::named(change)?, name))
}

/// Returns the selection of bans that another gateway than `me` ended; `None` of another member.
fn unban<'m>(member: &'m Reply, me: &str) -> Option<&'m str> {
    let Reply::Bytes(bytes) = member else {
        return None;
    };
    let (publisher, rest) = str::from_utf8(bytes).ok()?.split_once(' ')?;
    let (word, selection) = rest.split_once(' ')?;
    (word == UNBAN && publisher != me).then_some(selection)
}

impl Store {
    /// Publishes the selection of the bans that an operator ended.
    ///
    /// # Errors
    /// The cause for which the store did not take it.
    pub async fn publish_unban(&self, selection: &str) -> Result<(), String> {
        let member = format!("{} {UNBAN} {selection}", self.node());
        let published = self.publish(member).await;
        published.map_err(|error| error.to_string())
    }

    /// Takes the selections of bans that operators ended at other gateways since the last time.
    #[must_use]
    pub fn take_unbans(&self) -> Vec<String> {
        self.shared.changes.lock().unbans.drain(..).collect()
    }

    /// Publishes that an operator changed a key.
    pub(super) async fn publish_change(
        &self,
        name: &KeyName,
        change: KeyChange,
    ) -> Result<(), StoreError> {
        let member = format!("{} {} {}", self.node(), change.as_str(), name.as_str());
        self.publish(member).await
    }

    async fn publish(&self, member: String) -> Result<(), StoreError> {
        let kept = KEPT.as_millis().to_string();
        let call = self.about_changes([member, kept, STORE_CHANGES.to_string()].to_vec());
        self.run_other(&call, PUBLISH).await.map(drop)
    }

    /// Reads what other gateways published since the last time.
    pub(super) async fn read_changes(&self, now: Timestamp) {
        let changes = &self.shared.changes;
        let latest = changes.lock().latest;
        let known = latest.map_or_else(String::new, |latest| latest.to_string());
        let since_start = now.saturating_since(changes.started).as_millis();
        let args = [known, STORE_CHANGES.to_string(), since_start.to_string()];
        let call = self.about_changes(args.to_vec());
        let Ok(Reply::Rows(fields)) = self.run_other(&call, READ_NEW).await else {
            return;
        };
        if let [Reply::Integer(latest), Reply::Rows(members)] = &fields[..]
            && let Ok(latest) = u64::try_from(*latest)
        {
            changes.receive(latest, members, &self.node(), now);
        }
    }

    fn about_changes(&self, args: Vec<String>) -> Call {
        Call {
            keys: vec![format!("{}:changes", self.prefix()).into_bytes()],
            args: args.into_iter().map(String::into_bytes).collect(),
        }
    }

    /// Takes the change that an operator made at another gateway to a key with this hash in the store, and drops what this node would send
    /// about the key.
    #[must_use]
    pub(super) fn take_open_change(&self, key: KeyHash, limit: &str) -> Option<KeyChange> {
        let changes = &self.shared.changes;
        if !changes.are_open() {
            return None;
        }
        let name = KeyName::new(self.prefix(), key, limit);
        let change = changes.take(&name)?;
        self.forget_unsent(&name);
        Some(change)
    }

    /// Drops what this node would send about a key whose counts an operator has changed.
    pub(super) fn forget_unsent(&self, name: &KeyName) {
        self.shared.recovery_cache.forget(name);
        self.shared.replay_queue.forget_key(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_secs(1_800_000_000);

    fn knows(changes: &ChangeFeed, name: &KeyName) -> bool {
        changes.lock().names.contains_key(name.as_str())
    }

    fn name(bits: usize) -> KeyName {
        KeyName::new("sluicegate", KeyHash::from_bits(bits as u64), "a")
    }

    fn member(publisher: &str, change: &str, bits: usize) -> Reply {
        let name = name(bits);
        Reply::Bytes(format!("{publisher} {change} {}", name.as_str()).into_bytes())
    }

    /// Goal: a change is met once, a gateway ignores its own, and what no gateway writes. Method: members of two gateways
    /// and some that are none.
    #[test]
    fn a_change_elsewhere_is_met_once() {
        let changes = ChangeFeed::new(NOW);
        let members = [
            member("other", "set", 1),
            member("other", "cleared", 1),
            member("other", "set", 2),
            member("me", "cleared", 3),
            member("other", "eaten", 4),
            Reply::Bytes(b"other cleared".to_vec()),
            Reply::Nil,
        ];
        assert!(!changes.are_open());
        changes.receive(7, &members, "me", NOW);
        assert!(changes.are_open() && knows(&changes, &name(1)));
        assert_eq!(changes.take(&name(1)), Some(KeyChange::Cleared));
        assert_eq!(changes.take(&name(1)), None);
        assert_eq!(changes.take(&name(3)), None);
        assert_eq!(changes.take(&name(2)), Some(KeyChange::Set));
        assert!(!changes.are_open());
    }

    /// Goal: names that no request has are bounded in number and time, and the latest stay. Method: one more than there may be; a day.
    #[test]
    fn changes_are_bounded() {
        let changes = ChangeFeed::new(NOW);
        changes.receive(1, &[member("other", "set", 0)], "me", NOW);
        let later = NOW.saturating_add(Duration::from_secs(1));
        let members: Vec<Reply> = (1..=STORE_CHANGES)
            .map(|bits| member("other", "set", bits))
            .collect();
        changes.receive(2, &members, "me", later);
        assert_eq!(changes.lock().names.len(), STORE_CHANGES);
        assert!(!knows(&changes, &name(0)) && knows(&changes, &name(STORE_CHANGES)));
        changes.receive(2, &[], "me", later.saturating_add(KEPT));
        assert!(!changes.are_open());
    }
}
