//! Counts the processes of the fleet by their heartbeats in the store.
//!
//! Every second each process writes its name into a set under the store's time, and reads how many names the set has. The set has no time
//! to live, so a full store does not evict it before other keys; members that were not heard for [`MEMBER_TIMEOUT`] are removed from it. In
//! a Cluster every master has such a set, since any of them may be unavailable; the largest one counts.
//!
//! A set may also be lost: evicted, deleted, or gone with a store that keeps nothing. So each process counts the most members that were
//! reported within [`COUNT_HOLD`], and all write again before that has passed. After a pause in which this process heard no store at all,
//! and after a store has lost its data, the others have [`RETURN_PATIENCE`] to come back: they too may have lost their connections, and
//! what they remember is still to be restored. While the store is unavailable the last number holds: a process that cannot see the
//! others takes its share, not the whole. A process that starts begins with the number of an earlier one, or of the operator, and keeps at
//! least that until the others had [`RETURN_PATIENCE`] to be heard.
//!
//! # Limits
//! A heartbeat costs the same in a fleet of any size. In a Cluster some of whose masters are cut off from some processes, and others from
//! others, the largest set has not all of them.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::call::Reply;
use crate::epoch::EpochChange;
use crate::time::Moment;

/// The pause between two heartbeats.
pub(crate) const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);
/// The silence after which the store removes a member: it missed two heartbeats.
pub(crate) const MEMBER_TIMEOUT: Duration = Duration::from_secs(3);
/// The time for which a number of members holds though fewer are reported. With [`MEMBER_TIMEOUT`] it is the silence after which a member
/// is gone.
const COUNT_HOLD: Duration = Duration::from_secs(2);
/// The time that others have to return to a store that was unavailable: longer than the pauses between two attempts to connect.
pub(crate) const RETURN_PATIENCE: Duration = Duration::from_secs(10);
/// A pause between two answers that means that this process was cut off from the store.
const CUT_OFF_AFTER: Duration = Duration::from_secs(3);

/// The script of a heartbeat. KEYS: the set, the marker of the epoch; ARGV: the name of the process, [`MEMBER_TIMEOUT`] in milliseconds, a
/// new epoch for a store that has none. Returns the store's time in seconds and microseconds of that second, the number of members, and the
/// epoch. Being a write, it also tests whether the store accepts writes.
pub(crate) const SCRIPT: &str = "\
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZADD', KEYS[1], now, ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', '(' .. (now - ARGV[2]))
local epoch = redis.call('GET', KEYS[2])
if not epoch then
  epoch = ARGV[3] .. ' ' .. string.format('%.0f', now)
  redis.call('SET', KEYS[2], epoch)
end
return { tonumber(time[1]), tonumber(time[2]), redis.call('ZCARD', KEYS[1]), epoch }
";

/// The answer to one heartbeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Heartbeat {
    /// The store's time.
    pub(crate) time: Moment,
    /// The number of members that the store has heard lately.
    count: u32,
    /// The epoch of the data: it changes when the store has lost everything.
    pub(crate) epoch: String,
}

/// The processes that share a store.
#[derive(Debug)]
pub(crate) struct Membership {
    /// The number in the name of this process.
    me: u64,
    reported: Mutex<ReportedCounts>,
    count: AtomicU32,
}

/// The numbers of members that were reported, and when.
#[derive(Clone, Debug, Default)]
struct ReportedCounts {
    /// Those that are larger than each later one, the earliest first.
    counts: VecDeque<ReportedCount>,
    /// The time of the store's latest answer.
    last: Option<Moment>,
    /// No number is forgotten before this moment.
    patient_until: Option<Moment>,
    /// The number of members by an earlier process or by the operator; 0 once the others had the time to be heard.
    known_before: u32,
}

#[derive(Clone, Copy, Debug)]
struct ReportedCount {
    at: Moment,
    count: u32,
}

impl Heartbeat {
    /// Returns the arguments of a heartbeat of this process; `random` names the epoch of a store that has none.
    pub(crate) fn arguments(nodes: &Membership, random: u64) -> Vec<Vec<u8>> {
        let words = [
            nodes.name(),
            MEMBER_TIMEOUT.as_millis().to_string(),
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
            Reply::Bytes(epoch),
        ] = &fields[..]
        else {
            return None;
        };
        let micros = Duration::from_micros(u64::try_from(*micros).ok()?);
        let seconds = Moment::from_secs(u64::try_from(*seconds).ok()?);
        Some(Self {
            time: seconds.saturating_add(micros),
            count: u32::try_from(*count).ok()?,
            epoch: String::from_utf8(epoch.clone()).ok()?,
        })
    }
}

impl Membership {
    /// Creates a fleet of which this process has heard nobody, and which had so many members before. `random` names this process; without
    /// one its system id does.
    pub(crate) fn unheard(known_before: NonZeroU32, random: Option<u64>) -> Self {
        let me = random.unwrap_or_else(|| u64::from(std::process::id()));
        Self::with_name(me, known_before)
    }

    /// Returns the same process for another store; it counts as many members as now, and at least `known_before`, until it has heard that
    /// store for long enough.
    pub(crate) fn for_other_store(&self, known_before: NonZeroU32) -> Self {
        let count = known_before.max(NonZeroU32::new(self.count()).unwrap_or(NonZeroU32::MIN));
        Self::with_name(self.me, count)
    }

    fn with_name(me: u64, known_before: NonZeroU32) -> Self {
        let known_before = known_before.get();
        Self {
            me,
            reported: Mutex::new(ReportedCounts {
                known_before,
                ..ReportedCounts::default()
            }),
            count: AtomicU32::new(known_before),
        }
    }

    /// Returns the name of this process, which is random.
    pub(crate) fn name(&self) -> String {
        format!("{:016x}", self.me)
    }

    /// Returns the number of processes, this one included; at least 1.
    pub(crate) fn count(&self) -> u32 {
        // Relaxed: a number by itself, here and below.
        self.count.load(Ordering::Relaxed)
    }

    /// Applies the answer of a server, which came at `now` and changed its epoch so.
    pub(crate) fn apply(&self, beat: &Heartbeat, epoch: EpochChange, now: Moment) {
        let mut reported = self.lock();
        let count = reported.apply(beat.count.max(1), epoch, now);
        self.count.store(count, Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, ReportedCounts> {
        // Entries are whole, so a poisoned lock still holds some.
        self.reported.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReportedCounts {
    /// Notes a number that was reported now, and returns the one that counts.
    fn apply(&mut self, count: u32, epoch: EpochChange, now: Moment) -> u32 {
        let was_cut_off = |last| now.saturating_since(last) > CUT_OFF_AFTER;
        if self.last.is_none_or(was_cut_off) || epoch == EpochChange::Loss {
            self.patient_until = Some(now.saturating_add(RETURN_PATIENCE));
        }
        self.last = Some(now);
        while self
            .counts
            .pop_back_if(|earlier| earlier.count <= count)
            .is_some()
        {}
        self.counts.push_back(ReportedCount { at: now, count });
        if self.patient_until.is_none_or(|until| until <= now) {
            self.known_before = 0;
            let is_old =
                |reported: &mut ReportedCount| now.saturating_since(reported.at) > COUNT_HOLD;
            while self.counts.pop_front_if(is_old).is_some() {}
        }
        let largest = self.counts.front().map_or(count, |reported| reported.count);
        largest.max(self.known_before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::from_secs(1_800_000_000 + seconds)
    }

    fn beat(count: u32) -> Heartbeat {
        Heartbeat {
            time: at(0),
            epoch: String::new(),
            count,
        }
    }

    fn first() -> Membership {
        Membership::with_name(1, NonZeroU32::MIN)
    }

    /// Returns the counts while each second brings this number of members.
    fn counts(nodes: &Membership, seconds: std::ops::Range<u64>, members: u32) -> Vec<u32> {
        let mut counts = Vec::new();
        for second in seconds {
            nodes.apply(&beat(members), EpochChange::None, at(second));
            counts.push(nodes.count());
        }
        counts
    }

    /// Goal: a set that is lost shrinks nobody's count, and who is silent for longer is gone. Method: three members, then a set with this
    /// process alone, for a moment and for longer.
    #[test]
    fn a_number_holds_until_the_others_had_the_time_to_write() {
        let nodes = first();
        assert_eq!(counts(&nodes, 0..12, 3), [3; 12]);
        assert_eq!(counts(&nodes, 12..14, 1), [3; 2]);
        assert_eq!(counts(&nodes, 14..16, 3), [3; 2]);
        assert_eq!(counts(&nodes, 16..18, 1), [3; 2]);
        assert_eq!(counts(&nodes, 18..20, 2), [2; 2]);
    }

    /// Goal: nobody is counted out for what this node could not hear. Method: a pause of a minute without any answer, after which one comes
    /// back late, one not at all.
    #[test]
    fn after_a_pause_the_others_have_time_to_come_back() {
        let nodes = first();
        assert_eq!(counts(&nodes, 0..12, 3), [3; 12]);
        assert_eq!(nodes.count(), 3, "silence changes nothing");
        assert_eq!(counts(&nodes, 72..80, 1), [3; 8]);
        assert_eq!(counts(&nodes, 80..82, 2), [3; 2]);
        assert_eq!(counts(&nodes, 82..84, 2), [2; 2]);
    }

    /// Goal: a store that has lost its data does not shrink the fleet before the others are back to restore it. Method: a pause of two
    /// seconds, which is not long enough for a cut, after which the set is new and one of two others comes back late.
    #[test]
    fn after_a_loss_the_others_have_time_to_come_back() {
        let nodes = first();
        assert_eq!(counts(&nodes, 0..12, 3), [3; 12]);
        nodes.apply(&beat(1), EpochChange::Loss, at(13));
        assert_eq!(nodes.count(), 3);
        assert_eq!(counts(&nodes, 14..18, 1), [3; 4]);
        assert_eq!(counts(&nodes, 18..23, 2), [3; 5]);
        assert_eq!(counts(&nodes, 23..24, 2), [2]);
    }

    /// Goal: a reload that moves to another store does not forget the fleet. Method: the other one has heard of this node alone.
    #[test]
    fn the_number_goes_along_to_another_store() {
        let nodes = first();
        assert_eq!(counts(&nodes, 0..12, 3), [3; 12]);
        let moved = nodes.for_other_store(NonZeroU32::MIN);
        assert_eq!((moved.count(), moved.name()), (3, nodes.name()));
        assert_eq!(counts(&moved, 12..22, 1), [3; 10]);
        assert_eq!(counts(&moved, 22..23, 1), [1]);
    }

    /// Goal: a process that starts while the store is away takes the share of the fleet before it, and no longer once it has heard the
    /// store. Method: a number of three, then a store that has heard of one more, and of none.
    #[test]
    fn the_number_of_an_earlier_process_holds_until_the_others_had_the_time_to_be_heard() {
        let three = NonZeroU32::new(3).unwrap();
        let nodes = Membership::with_name(1, three);
        assert_eq!(nodes.count(), 3);
        assert_eq!(counts(&nodes, 0..5, 2), [3; 5]);
        assert_eq!(counts(&nodes, 5..10, 4), [4; 5]);
        assert_eq!(counts(&nodes, 10..12, 2), [4; 2]);
        assert_eq!(counts(&nodes, 12..13, 2), [2]);
        let larger = NonZeroU32::new(5).unwrap();
        assert_eq!(nodes.for_other_store(larger).count(), 5);
        assert_eq!(nodes.for_other_store(NonZeroU32::MIN).count(), 2);
    }

    /// Goal: limit/N never divides by nothing, memory is bounded, and what is no answer is none. Method: answers of each kind, and numbers
    /// that only fall.
    #[test]
    fn there_is_always_one() {
        let nodes = first();
        nodes.apply(&beat(0), EpochChange::None, at(0));
        assert_eq!(nodes.count(), 1);
        let numbers = [7, 8, 2].map(Reply::Integer);
        let reply = Reply::Rows([&numbers[..], &[Reply::Bytes(b"e".into())]].concat());
        let read = Heartbeat::read(&reply).unwrap();
        assert_eq!((read.count, read.epoch.as_str()), (2, "e"));
        assert_eq!(Heartbeat::read(&Reply::Rows(numbers.to_vec())), None);
        assert_eq!(Heartbeat::read(&Reply::Nil), None);
        for second in 1..1000 {
            nodes.apply(&beat(5_000 - second), EpochChange::None, at(second.into()));
        }
        assert!(nodes.lock().counts.len() < 20);
    }
}
