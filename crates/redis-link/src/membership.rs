//! Counts the processes of the fleet by their heartbeats in the store.
//!
//! Every second each process writes its name into a set under the store's time, and reads the other names. The set has no time to live,
//! so a full store does not evict it before other keys; members that were not heard for 5 s are removed from it. In a Cluster every
//! master has such a set, since any of them may be unavailable; a member of any counts.
//!
//! A set may also be lost: evicted, deleted, or gone with a store that keeps nothing. So each process remembers the members by itself, and
//! forgets one only when it was silent for [`MEMBER_TIMEOUT`] while this process heard the store. After a pause in which this process heard
//! no store at all, the others have [`RETURN_PATIENCE`] to come back. While the store is unavailable the last number holds: a process that
//! cannot see the others takes its share, not the whole. A process that starts begins with the number of an earlier one, or of the
//! operator, and keeps at least that until the others had [`RETURN_PATIENCE`] to be heard.
//!
//! # Limits
//! A process remembers [`MEMBERS`] others; of a larger fleet it counts as many as the store reports.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::bounds::MEMBERS;
use crate::call::Reply;
use crate::time::Moment;

/// The pause between two heartbeats.
pub(crate) const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);
/// The silence after which a member is gone: it missed four heartbeats.
pub(crate) const MEMBER_TIMEOUT: Duration = Duration::from_secs(5);
/// The time that others have to return to a store that was unavailable: longer than the pauses between two attempts to connect.
pub(crate) const RETURN_PATIENCE: Duration = Duration::from_secs(10);
/// A pause between two answers that means that this process was cut off from the store.
const CUT_OFF_AFTER: Duration = Duration::from_secs(3);

/// The script of a heartbeat. KEYS: the set, the marker of the epoch; ARGV: the name of the process, [`MEMBER_TIMEOUT`] in milliseconds,
/// the number of members to read, a new epoch for a store that has none. Returns the store's time in seconds and microseconds of that
/// second, the number of members, the latest names with their ages in milliseconds, and the epoch. Being a write, it also tests whether the
/// store accepts writes.
pub(crate) const SCRIPT: &str = "\
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZADD', KEYS[1], now, ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', '(' .. (now - ARGV[2]))
local members = redis.call('ZREVRANGE', KEYS[1], 0, ARGV[3] - 1, 'WITHSCORES')
for index = 2, #members, 2 do members[index] = math.max(now - members[index], 0) end
redis.call('SET', KEYS[2], ARGV[4] .. ' ' .. string.format('%.0f', now), 'NX')
return { tonumber(time[1]), tonumber(time[2]), redis.call('ZCARD', KEYS[1]), members, redis.call('GET', KEYS[2]) }
";

/// The answer to one heartbeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Heartbeat {
    /// The store's time.
    pub(crate) time: Moment,
    /// The number of members that the store has heard lately.
    count: u32,
    /// The latest members, and the time since the store heard each.
    members: Vec<(MemberId, Duration)>,
    /// The epoch of the data: it changes when the store has lost everything.
    pub(crate) epoch: String,
}

/// A process, by the number in its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct MemberId(u64);

/// The processes that share a store.
#[derive(Debug)]
pub(crate) struct Membership {
    me: MemberId,
    seen: Mutex<SeenMembers>,
    count: AtomicU32,
}

/// The members that were heard, and when.
#[derive(Clone, Debug, Default)]
struct SeenMembers {
    members: BTreeMap<MemberId, Moment>,
    /// The time of the store's latest answer.
    last: Option<Moment>,
    /// No member is forgotten before this moment.
    patient_until: Option<Moment>,
    /// The number of members by an earlier process or by the operator; 0 once the others had the time to be heard.
    known_before: u32,
}

impl Heartbeat {
    /// Returns the arguments of a heartbeat of this process; `random` names the epoch of a store that has none.
    pub(crate) fn arguments(nodes: &Membership, random: u64) -> Vec<Vec<u8>> {
        let words = [
            nodes.name(),
            MEMBER_TIMEOUT.as_millis().to_string(),
            MEMBERS.to_string(),
            format!("{random:016x}"),
        ];
        words.map(String::into_bytes).to_vec()
    }

    /// Parses the answer of the script.
    pub(crate) fn read(reply: &Reply) -> Option<Self> {
        let Reply::Rows(fields) = reply else {
            return None;
        };
        let [
            Reply::Integer(seconds),
            Reply::Integer(micros),
            Reply::Integer(count),
            Reply::Rows(members),
            Reply::Bytes(epoch),
        ] = &fields[..]
        else {
            return None;
        };
        let micros = Duration::from_micros(u64::try_from(*micros).ok()?);
        let seconds = Moment::from_secs(u64::try_from(*seconds).ok()?);
        let known = members.chunks_exact(2).take(MEMBERS);
        Some(Self {
            time: seconds.saturating_add(micros),
            count: u32::try_from(*count).ok()?,
            // What no gateway writes is nobody.
            members: known.filter_map(member).collect(),
            epoch: String::from_utf8(epoch.clone()).ok()?,
        })
    }
}

/// Parses a name and an age in milliseconds.
fn member(pair: &[Reply]) -> Option<(MemberId, Duration)> {
    let [Reply::Bytes(name), Reply::Integer(age)] = pair else {
        return None;
    };
    let number = u64::from_str_radix(str::from_utf8(name).ok()?, 16).ok()?;
    let age = Duration::from_millis(u64::try_from(*age).ok()?);
    Some((MemberId(number), age))
}

impl Membership {
    /// Creates a fleet of which this process has heard nobody, and which had so many members before. `random` names this process; without
    /// one its system id does.
    pub(crate) fn unheard(known_before: NonZeroU32, random: Option<u64>) -> Self {
        let me = random.unwrap_or_else(|| u64::from(std::process::id()));
        Self::with_members(MemberId(me), SeenMembers::default(), known_before)
    }

    /// Returns the same process with the members that it knows, for another store; it counts at least `known_before` until it has heard
    /// that store for long enough.
    pub(crate) fn for_other_store(&self, known_before: NonZeroU32) -> Self {
        let seen = SeenMembers {
            last: None,
            ..self.lock().clone()
        };
        let count = known_before.max(NonZeroU32::new(self.count()).unwrap_or(NonZeroU32::MIN));
        Self::with_members(self.me, seen, count)
    }

    fn with_members(me: MemberId, seen: SeenMembers, known_before: NonZeroU32) -> Self {
        let known_before = known_before.get();
        Self {
            me,
            seen: Mutex::new(SeenMembers {
                known_before,
                ..seen
            }),
            count: AtomicU32::new(known_before),
        }
    }

    /// Returns the name of this process, which is random.
    pub(crate) fn name(&self) -> String {
        format!("{:016x}", self.me.0)
    }

    /// Returns the number of processes, this one included; at least 1.
    pub(crate) fn count(&self) -> u32 {
        // Relaxed: a number by itself, here and below.
        self.count.load(Ordering::Relaxed)
    }

    /// Applies the answer of a server, which came at `now`.
    pub(crate) fn apply(&self, beat: &Heartbeat, now: Moment) {
        let mut seen = self.lock();
        seen.apply(self.me, beat, now);
        let known = u32::try_from(seen.members.len()).unwrap_or(u32::MAX);
        // A fleet that is too large to be remembered has the store's number.
        let reported = match beat.members.len() < MEMBERS {
            true => 1,
            false => beat.count,
        };
        let count = known.max(reported).max(seen.known_before);
        self.count.store(count, Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, SeenMembers> {
        // Entries are whole, so a poisoned lock still holds some.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SeenMembers {
    fn apply(&mut self, me: MemberId, beat: &Heartbeat, now: Moment) {
        let was_cut_off = |last| now.saturating_since(last) > CUT_OFF_AFTER;
        if self.last.is_none_or(was_cut_off) {
            self.patient_until = Some(now.saturating_add(RETURN_PATIENCE));
        }
        self.last = Some(now);
        for (member, age) in &beat.members {
            self.record(*member, now.saturating_sub(*age));
        }
        self.record(me, now);
        if self.patient_until.is_none_or(|until| until <= now) {
            self.known_before = 0;
            self.members
                .retain(|_, seen| now.saturating_since(*seen) <= MEMBER_TIMEOUT);
        }
    }

    fn record(&mut self, member: MemberId, at: Moment) {
        if let Some(seen) = self.members.get_mut(&member) {
            *seen = at.max(*seen);
        } else if self.members.len() < MEMBERS {
            self.members.insert(member, at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::from_secs(1_800_000_000 + seconds)
    }

    fn beat(members: &[u64]) -> Heartbeat {
        let members = members.iter();
        Heartbeat {
            time: at(0),
            epoch: String::new(),
            count: u32::try_from(members.len()).unwrap(),
            members: members
                .map(|name| (MemberId(*name), Duration::ZERO))
                .collect(),
        }
    }

    fn first() -> Membership {
        Membership::with_members(MemberId(1), SeenMembers::default(), NonZeroU32::MIN)
    }

    /// Returns the counts while each second brings these members.
    fn counts(nodes: &Membership, seconds: std::ops::Range<u64>, members: &[u64]) -> Vec<u32> {
        let mut counts = Vec::new();
        for second in seconds {
            nodes.apply(&beat(members), at(second));
            counts.push(nodes.count());
        }
        counts
    }

    /// Goal: a set that is lost shrinks nobody's count, and who is silent for the timeout is gone. Method: three members, then a set with
    /// this node alone, for longer and longer.
    #[test]
    fn a_member_is_gone_when_it_was_silent_for_the_timeout() {
        let nodes = first();
        assert_eq!(counts(&nodes, 0..12, &[1, 2, 3]), [3; 12]);
        assert_eq!(counts(&nodes, 12..17, &[1]), [3; 5]);
        assert_eq!(counts(&nodes, 17..18, &[1]), [1]);
        assert_eq!(counts(&nodes, 18..20, &[1, 3]), [2; 2]);
    }

    /// Goal: nobody is counted out for what this node could not hear. Method: a pause of a minute without any answer, after which one comes
    /// back late, one not at all.
    #[test]
    fn after_a_pause_the_others_have_time_to_come_back() {
        let nodes = first();
        assert_eq!(counts(&nodes, 0..12, &[1, 2, 3]), [3; 12]);
        assert_eq!(nodes.count(), 3, "silence changes nothing");
        assert_eq!(counts(&nodes, 72..80, &[1]), [3; 8]);
        assert_eq!(counts(&nodes, 80..82, &[1, 2]), [3; 2]);
        assert_eq!(counts(&nodes, 82..84, &[1, 2]), [2; 2]);
    }

    /// Goal: a reload that moves to another store does not forget the fleet. Method: the other one has heard of this node alone.
    #[test]
    fn whom_a_node_knows_goes_along_to_another_store() {
        let nodes = first();
        assert_eq!(counts(&nodes, 0..12, &[1, 2, 3]), [3; 12]);
        let moved = nodes.for_other_store(NonZeroU32::MIN);
        assert_eq!((moved.count(), moved.name()), (3, nodes.name()));
        assert_eq!(counts(&moved, 12..22, &[1]), [3; 10]);
        assert_eq!(counts(&moved, 22..23, &[1]), [1]);
    }

    /// Goal: a process that starts while the store is away takes the share of the fleet before it, and no longer once it has heard the
    /// store. Method: a number of three, then a store that has heard of one more, and of none.
    #[test]
    fn the_number_of_an_earlier_process_holds_until_the_others_had_the_time_to_be_heard() {
        let three = NonZeroU32::new(3).unwrap();
        let nodes = Membership::with_members(MemberId(1), SeenMembers::default(), three);
        assert_eq!(nodes.count(), 3);
        assert_eq!(counts(&nodes, 0..5, &[1, 2]), [3; 5]);
        assert_eq!(counts(&nodes, 5..10, &[1, 2, 3, 4]), [4; 5]);
        assert_eq!(counts(&nodes, 10..15, &[1, 2]), [4; 5]);
        assert_eq!(counts(&nodes, 15..16, &[1, 2]), [2]);
        let larger = NonZeroU32::new(5).unwrap();
        assert_eq!(nodes.for_other_store(larger).count(), 5);
        assert_eq!(nodes.for_other_store(NonZeroU32::MIN).count(), 2);
    }

    /// Goal: limit/N never divides by nothing, names that no gateway has are nobody, and memory is bounded. Method: answers of each kind.
    #[test]
    fn there_is_always_one_and_never_too_many() {
        let nodes = first();
        nodes.apply(&beat(&[]), at(0));
        assert_eq!(nodes.count(), 1);
        let name = |name: &str| [Reply::Bytes(name.into()), Reply::Integer(5)];
        let rows = [name("stranger"), name("000000000000000a")].concat();
        let numbers = [7, 8, 2].map(Reply::Integer);
        let reply = Reply::Rows(
            [
                &numbers[..],
                &[Reply::Rows(rows), Reply::Bytes(b"e".into())],
            ]
            .concat(),
        );
        let read = Heartbeat::read(&reply).unwrap();
        assert_eq!(read.members, [(MemberId(10), Duration::from_millis(5))]);
        assert_eq!(Heartbeat::read(&Reply::Rows(numbers.to_vec())), None);
        assert_eq!(Heartbeat::read(&Reply::Nil), None);

        let many: Vec<u64> = (0..MEMBERS as u64).collect();
        let larger = Heartbeat {
            count: 5_000,
            ..beat(&many)
        };
        nodes.apply(&larger, at(1));
        assert_eq!(nodes.count(), 5_000);
        assert_eq!(nodes.lock().members.len(), MEMBERS);
    }
}
