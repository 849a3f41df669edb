//! Counts the gateways of the fleet, by their heartbeats in the store: N of limit/N.
//!
//! Every second each node writes its name into a set under the store's time, forgets those not seen for 5 s, and learns how many are
//! left. In a Cluster every master has such a set, since any of them may be away; the largest says how many there are. While the store is
//! away the last number holds: a node that cannot see the others takes its share, not the whole.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use sluicegate_limiter::Timestamp;

use super::script::Reply;

/// How often a node says that it lives.
pub(super) const BEAT: Duration = Duration::from_secs(1);
/// A node not heard of for this is gone: it missed four beats.
pub(super) const GONE: Duration = Duration::from_secs(5);

/// One heartbeat. KEYS: the set; ARGV: the node's name, [`GONE`] in milliseconds. Answers the store's time, in seconds and microseconds
/// of that second, and how many nodes there are. Being a write, it also finds out whether the store takes any.
pub(super) const SCRIPT: &str = "\
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZADD', KEYS[1], now, ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', '(' .. (now - ARGV[2]))
redis.call('PEXPIRE', KEYS[1], ARGV[2] * 2)
return { tonumber(time[1]), tonumber(time[2]), redis.call('ZCARD', KEYS[1]) }
";

/// What one heartbeat brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Beat {
    /// The store's time.
    pub(super) time: Timestamp,
    /// Nodes that it has heard of.
    pub(super) nodes: u32,
}

/// How many nodes there are.
#[derive(Debug)]
pub(super) struct Nodes {
    /// This one's name: random, for a process.
    pub(super) name: String,
    heard: Mutex<BTreeMap<String, Heard>>,
    count: AtomicU32,
}

/// What one server said, and when.
#[derive(Clone, Copy, Debug)]
struct Heard {
    nodes: u32,
    at: Timestamp,
}

impl Beat {
    /// Reads the script's answer.
    pub(super) fn read(reply: &Reply) -> Option<Self> {
        let Reply::Rows(fields) = reply else {
            return None;
        };
        let [
            Reply::Integer(seconds),
            Reply::Integer(micros),
            Reply::Integer(nodes),
        ] = &fields[..]
        else {
            return None;
        };
        let micros = Duration::from_micros(u64::try_from(*micros).ok()?);
        let seconds = Timestamp::from_secs(u64::try_from(*seconds).ok()?);
        Some(Self {
            time: seconds.saturating_add(micros),
            nodes: u32::try_from(*nodes).ok()?,
        })
    }
}

impl Nodes {
    /// Nobody but this node is known.
    pub(super) fn alone() -> Self {
        let random = getrandom::u64().unwrap_or_else(|_| u64::from(std::process::id()));
        Self::of(format!("{random:016x}"), 1)
    }

    /// As many as these, of whom nothing else is known.
    pub(super) fn known(&self) -> Self {
        Self::of(self.name.clone(), self.count())
    }

    fn of(name: String, count: u32) -> Self {
        Self {
            name,
            heard: Mutex::default(),
            count: AtomicU32::new(count),
        }
    }

    /// How many there are, this one included; at least 1.
    pub(super) fn count(&self) -> u32 {
        // Relaxed: a number by itself.
        self.count.load(Ordering::Relaxed)
    }

    /// `server` has heard of so many.
    pub(super) fn hear(&self, server: &str, nodes: u32, now: Timestamp) {
        // Entries are whole, so a poisoned lock still holds some.
        let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        heard.insert(server.to_owned(), Heard { nodes, at: now });
        heard.retain(|_, heard| now.saturating_since(heard.at) <= GONE);
        let most = heard.values().map(|heard| heard.nodes).max();
        self.count
            .store(most.unwrap_or(1).max(1), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_secs(1_800_000_000 + seconds)
    }

    /// Goal: a cut to some masters of a Cluster does not shrink the fleet, and one to all leaves the last number. Method: two servers,
    /// of which one falls silent.
    #[test]
    fn the_largest_of_what_was_heard_lately_counts() {
        let nodes = Nodes::alone();
        assert_eq!(nodes.count(), 1);
        nodes.hear("one", 3, at(0));
        nodes.hear("two", 2, at(1));
        assert_eq!(nodes.count(), 3);
        nodes.hear("two", 2, at(6));
        assert_eq!(nodes.count(), 2);
        assert_eq!(nodes.count(), 2, "silence changes nothing");
    }

    /// Goal: limit/N never divides by nothing. Method: a store that has heard of nobody.
    #[test]
    fn there_is_always_one() {
        let nodes = Nodes::alone();
        nodes.hear("one", 0, at(0));
        assert_eq!(nodes.count(), 1);
        let numbers = [-1, 0, 1].map(Reply::Integer);
        assert_eq!(Beat::read(&Reply::Rows(numbers.to_vec())), None);
        assert_eq!(Beat::read(&Reply::Nil), None);
    }
}
