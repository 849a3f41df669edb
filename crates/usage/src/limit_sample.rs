//! Owns the sample of one limit: the walks, the two generations of keys, and what they show.
//!
//! A walk reads one part of a table whole, and a table of the default capacity has one part. Of a larger table each walk reads the first
//! part, whose keys are a fair sample of all, and another one in turn, for the heaviest keys.

use std::collections::HashSet;
use std::time::Duration;

use sluicegate_base::bounds::{USAGE_GENERATION, USAGE_WALK_GAP, USAGE_WALK_PAUSE};
use sluicegate_base::clock;
use sluicegate_base::usage_share::UsageShare;
use sluicegate_limiter::{
    Algorithm, KeyHash, Limit, OverflowPeriod, Policy, Rate, Refill, Timestamp,
};

use super::generation::Generation;
use super::rate_usage::{RateUsage, ShownRate};
use sluicegate_config::rules::KeyTemplate;
use sluicegate_decide::admission::ActiveLimit;

/// Time by which a peak may be older than it says: words hold seconds, and threads may have older readings of the clock.
const SLACK: Duration = Duration::from_secs(2);

/// The sample of a limit.
#[derive(Debug)]
pub(super) struct LimitSample {
    /// The key that is counted by, without which a hash means another key.
    key: KeyTemplate,
    rates: TableSample,
    shadow_rates: Option<TableSample>,
    /// Events of the limit before the last walk; `None` before the first.
    events: Option<u64>,
    walked_at: Timestamp,
    /// Duration of the last walk.
    took: Duration,
}

/// The sample of one table.
#[derive(Debug)]
struct TableSample {
    policy: Policy,
    share: UsageShare,
    present: Generation,
    previous: Option<Generation>,
    /// Parts of the table, of which a walk reads one or two.
    parts: usize,
    turn: PartTurn,
    /// Parts that were not read since keys were charged last.
    unread_parts: usize,
    walked_at: Option<Timestamp>,
}

/// The turn through the parts of a large table behind the first.
#[derive(Debug)]
struct PartTurn {
    /// The part of the latest walk; 0 before the first turn.
    part: usize,
    /// The begin of this turn.
    begun: Timestamp,
    /// The begin of the turn before, since which each part was read.
    begun_before: Timestamp,
}

/// The content of a limit's sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageView {
    /// The time since which uses are recorded.
    pub since: Timestamp,
    /// The time of the last walk.
    pub walked_at: Timestamp,
    /// Each rate.
    pub rates: Vec<RateUsage>,
    /// Each rate in shadow.
    pub shadow_rates: Vec<RateUsage>,
    /// Keys that are banned now; `None` where the limit bans no key.
    pub banned_keys: Option<u64>,
    /// The latest time in which new keys shared counters, where it reaches into the sample.
    pub overflow: Option<OverflowPeriod>,
}

impl LimitSample {
    /// An empty sample of the limit, with this share of the memory for each table.
    pub(super) fn new(active: &ActiveLimit, share: UsageShare, now: Timestamp) -> Self {
        let moment = active.moment(now);
        let shadow_rates = active.shadow_rates.as_ref();
        Self {
            key: active.key.clone(),
            rates: TableSample::new(&active.limit, share, moment),
            shadow_rates: shadow_rates.map(|limit| TableSample::new(limit, share, moment)),
            events: None,
            walked_at: now,
            took: Duration::ZERO,
        }
    }

    /// Returns whether the limit has the key and the rates that were sampled.
    pub(super) fn is_of(&self, active: &ActiveLimit) -> bool {
        self.has_rates(active, active.limit.policy())
    }

    /// Returns whether the limit has the key and the rates that were sampled once no temporary rule multiplies them.
    pub(super) fn is_of_configured(&self, active: &ActiveLimit) -> bool {
        self.has_rates(active, active.configured_policy())
    }

    fn has_rates(&self, active: &ActiveLimit, policy: &Policy) -> bool {
        let shadow = self.shadow_rates.as_ref().map(|sample| &sample.policy);
        self.key == active.key
            && self.rates.policy == *policy
            && shadow == active.shadow_rates.as_ref().map(Limit::policy)
    }

    /// Goes on after a time in which the limit had other rates: uses of that time are left out.
    pub(super) fn resume(&mut self, active: &ActiveLimit, now: Timestamp) {
        let moment = active.moment(now);
        self.walked_at = now;
        let tables = [Some(&mut self.rates), self.shadow_rates.as_mut()];
        for sample in tables.into_iter().flatten() {
            sample.resume(moment);
        }
    }

    /// Sets the share of the memory for each table.
    pub(super) fn bound(&mut self, share: UsageShare) {
        self.rates.bound(share);
        if let Some(sample) = &mut self.shadow_rates {
            sample.bound(share);
        }
    }

    /// Returns whether a walk that somebody waits for may begin: the walk of a small table nearly always, so that a page has what
    /// happened a moment ago.
    pub(super) fn may_walk(&self, now: Timestamp) -> bool {
        let pause = self.took * USAGE_WALK_PAUSE;
        self.events.is_none() || clock::between(self.walked_at, now) >= pause
    }

    /// Returns whether the next walk of the service is due: every quarter of the shortest window.
    pub(super) fn is_due(&self, now: Timestamp) -> bool {
        let shortest = |sample: &TableSample| {
            let rates = sample.policy.rates().iter();
            rates.map(|rate| rate.period().as_secs()).min()
        };
        let tables = [Some(&self.rates), self.shadow_rates.as_ref()];
        let seconds = tables.into_iter().flatten().filter_map(shortest).min();
        let window = Duration::from_secs(seconds.unwrap_or(0).into());
        let gap = (window / 4).clamp(*USAGE_WALK_GAP.start(), *USAGE_WALK_GAP.end());
        // A round that comes a moment early is not put off by another.
        let gap = (gap - *USAGE_WALK_GAP.start() / 2).max(self.took * USAGE_WALK_PAUSE);
        self.events.is_none() || clock::between(self.walked_at, now) >= gap
    }

    /// Walks the tables of the limit, unless nothing happened since all of their parts were read. `events` counts what happened so far.
    /// Returns the duration, zero if nothing was read.
    ///
    /// A request is an event when it has ended, and its debt may be paid back by then. So the tables of buckets are always walked.
    pub(super) fn walk(&mut self, active: &ActiveLimit, events: u64, now: Timestamp) -> Duration {
        let gap = clock::between(std::mem::replace(&mut self.walked_at, now), now);
        let is_idle = self.events.replace(events).unwrap_or(0) == events;
        if !is_idle {
            self.rates.note_charges();
            self.shadow_rates
                .iter_mut()
                .for_each(TableSample::note_charges);
        }
        let shadow = self.shadow_rates.as_ref();
        let are_read = self.rates.is_read() && shadow.is_none_or(TableSample::is_read);
        if are_read && !drains(&self.rates.policy) {
            return Duration::ZERO;
        }
        let moment = || active.moment(clock::now());
        self.rates.walk(&active.limit, gap, moment);
        self.rates.note_walk();
        if let (Some(sample), Some(limit)) = (&mut self.shadow_rates, &active.shadow_rates) {
            sample.walk(limit, gap, moment);
            sample.note_walk();
        }
        active.name_heaviest(|| self.rates.heaviest(&active.limit), now);
        self.took = clock::since(now);
        self.took
    }

    /// Returns what the sample shows, and the keys that are banned at `now`.
    pub(super) fn view(&self, active: &ActiveLimit, now: Timestamp) -> UsageView {
        let shadow = active.shadow_rates.as_ref().zip(self.shadow_rates.as_ref());
        UsageView {
            since: self.rates.since(),
            walked_at: self.walked_at,
            rates: self.rates.view(&active.limit),
            shadow_rates: shadow.map_or_else(Vec::new, |(limit, sample)| sample.view(limit)),
            banned_keys: banned_keys(active, now),
            overflow: (active.limit.stats().overflow)
                .filter(|period| period.until >= self.rates.since()),
        }
    }
}

/// Returns the number of keys that the limit or temporary rules ban; `None` where it has no `ban`, and no rule bans a key.
fn banned_keys(active: &ActiveLimit, now: Timestamp) -> Option<u64> {
    let bans = active.bans.as_ref().map(|active| &active.bans);
    let kept = bans.map(|bans| bans.banned_keys(now));
    let kept = kept.map(|keys| keys.filter(|key| key.banned.is_some()).count() as u64);
    let is_kept = |key| bans.is_some_and(|bans| bans.active(key, now).is_some());
    let rules = active.keys_banned_by_rules();
    let by_rules_alone = rules.filter(|(key, _)| !is_kept(*key)).count() as u64;
    match kept {
        None if by_rules_alone == 0 => None,
        kept => Some(kept.unwrap_or(0) + by_rules_alone),
    }
}

impl TableSample {
    fn new(limit: &Limit, share: UsageShare, now: Timestamp) -> Self {
        let rates = limit.rates().len();
        Self {
            policy: limit.policy().clone(),
            share,
            present: Generation::new(rates, share, now),
            previous: None,
            parts: 1,
            turn: PartTurn {
                part: 0,
                begun: now,
                begun_before: now,
            },
            unread_parts: 0,
            walked_at: None,
        }
    }

    fn since(&self) -> Timestamp {
        let oldest = self.previous.as_ref().unwrap_or(&self.present);
        oldest.begun
    }

    fn bound(&mut self, share: UsageShare) {
        self.share = share;
        self.present.bound(share);
        if let Some(previous) = &mut self.previous {
            previous.bound(share);
        }
    }

    /// Leaves out what was charged before `now` and is not yet in the sample.
    fn resume(&mut self, now: Timestamp) {
        // A walk allows for readings of the clock that are older by so much.
        let now = now.saturating_add(SLACK);
        self.walked_at = Some(now);
        self.turn.begun = now;
        self.turn.begun_before = now;
    }

    /// Adds what the keys that were charged since the last walk used. `gap` is the time since the last look; `read` reads the clock.
    fn walk(&mut self, limit: &Limit, gap: Duration, read: impl Fn() -> Timestamp) {
        let now = read();
        if clock::between(self.present.begun, now) >= USAGE_GENERATION {
            let next = Generation::new(self.policy.rates().len(), self.share, now);
            self.previous = Some(std::mem::replace(&mut self.present, next));
        }
        let since = self.walked_at.replace(now).unwrap_or(self.present.begun);
        let room = limit.room_of_new_keys(now);
        let present = &mut self.present;
        present.longest_gap = present.longest_gap.max(gap);
        self.parts = limit.peaks(0, &read, |peak| {
            if peak.at >= since.saturating_sub(SLACK) {
                present.add(peak, &room);
            }
        });
        let Some(part) = self.turn.next(self.parts, now) else {
            return;
        };
        let since = self.turn.begun_before.saturating_sub(SLACK);
        limit.peaks(part, &read, |peak| {
            if peak.at >= since {
                present.add_heavy(peak);
            }
        });
    }

    /// Notes that keys may have been charged in every part since it was read last.
    fn note_charges(&mut self) {
        self.unread_parts = usize::MAX;
    }

    /// Notes a walk, which reads the first part and one of the others.
    fn note_walk(&mut self) {
        let others = self.parts.saturating_sub(1);
        self.unread_parts = self.unread_parts.min(others).saturating_sub(1);
    }

    /// Returns whether each part was read since keys were charged last.
    fn is_read(&self) -> bool {
        self.unread_parts == 0
    }

    /// Returns the heaviest keys of all rates, by the share of its rate that each used, the heaviest first.
    fn heaviest(&self, limit: &Limit) -> impl Iterator<Item = KeyHash> {
        let room = limit.room_of_new_keys(self.walked_at.unwrap_or(self.present.begun));
        let generations = [Some(&self.present), self.previous.as_ref()];
        let mut keys = Vec::new();
        for generation in generations.into_iter().flatten() {
            for (heaviest, room) in generation.heaviest.iter().zip(room) {
                let share = |used| u64::from(used) * 1_000 / u64::from(room.max(1));
                keys.extend(heaviest.known().map(|heavy| (share(heavy.used), heavy.key)));
            }
        }
        keys.sort_unstable_by(|one, other| other.cmp(one));
        let mut listed = HashSet::new();
        keys.retain(|(_, key)| listed.insert(*key));
        keys.into_iter().map(|(_, key)| KeyHash::from_bits(key))
    }

    fn view(&self, limit: &Limit) -> Vec<RateUsage> {
        let mut seen = self.present.clone();
        if let Some(previous) = &self.previous {
            seen.merge(previous);
        }
        let keys_for_each = seen.sample.keys_for_each();
        let keys_for_each = keys_for_each.saturating_mul(self.parts as u64);
        let room = limit.room_of_new_keys(self.walked_at.unwrap_or(self.present.begun));
        let rates = self.policy.rates().iter().zip(room).enumerate();
        rates
            .map(|(index, (rate, limit))| {
                let shown = ShownRate {
                    rate: *rate,
                    index,
                    limit,
                    unseen: match drains(&self.policy) {
                        true => paid_back(*rate, seen.longest_gap).min(limit),
                        false => 0,
                    },
                };
                RateUsage::new(shown, &seen, keys_for_each)
            })
            .collect()
    }
}

impl PartTurn {
    /// Returns the part of a table of so many that the next walk reads beside the first; `None` where there is no other.
    fn next(&mut self, parts: usize, now: Timestamp) -> Option<usize> {
        if parts < 2 {
            return None;
        }
        self.part += 1;
        if self.part >= parts {
            self.part = 1;
            self.begun_before = std::mem::replace(&mut self.begun, now);
        }
        Some(self.part)
    }
}

/// Returns whether keys pay back all the time, so that their counters do not say what they used before now.
fn drains(policy: &Policy) -> bool {
    match policy.algorithm() {
        Algorithm::TokenBucket { refill, .. } => *refill == Refill::Greedy,
        Algorithm::Gcra { .. } | Algorithm::LeakyBucket { .. } => true,
        Algorithm::SlidingWindow | Algorithm::Exact | Algorithm::FixedWindow(_) => false,
    }
}

/// Returns the units that drain in this time, rounded up.
fn paid_back(rate: Rate, gap: Duration) -> u32 {
    // The limiter rounds each of both readings of the clock down to a millisecond.
    let drained = u128::from(rate.count()) * (gap.as_millis() + 2);
    let units = drained.div_ceil(u128::from(rate.period().as_secs()) * 1_000);
    u32::try_from(units).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use sluicegate_limiter::{Ask, Capacity, Cost, Period, Rates, Seed, decide};

    use super::*;

    /// Goal: a large table that is quiet again is read to its end, so that keys at the limit are counted without an error. Method: keys at
    /// the limit in a table of several parts; one walk after their charges, and as many idle ones as it takes.
    #[test]
    fn a_quiet_table_is_read_to_its_end() {
        let rate = Rate::new(10, Period::from_secs(3_600).unwrap()).unwrap();
        let policy = Policy::new(Algorithm::SlidingWindow, Rates::new([rate]).unwrap()).unwrap();
        let limit = Limit::new(policy, Capacity::new(4_000_000).unwrap());
        let now = Timestamp::from_secs(1_800_000_000);
        for index in 0..200_u32 {
            let mut key = Seed::from_bytes([5; 16]).hasher();
            let ask = Ask {
                limit: &limit,
                key: key.part(&index.to_be_bytes()).finish(),
                cost: Cost::new(10).unwrap(),
                payer: None,
            };
            assert_eq!(decide(&[ask], now).decisions()[0].remaining(), 0);
        }
        let mut sample = TableSample::new(&limit, UsageShare::new(1), now);
        sample.note_charges();
        sample.walk(&limit, Duration::ZERO, || now);
        sample.note_walk();
        assert!(sample.parts > 2 && !sample.is_read(), "{}", sample.parts);
        let mut walks = 1;
        while !sample.is_read() {
            sample.walk(&limit, Duration::ZERO, || now);
            sample.note_walk();
            walks += 1;
        }
        assert_eq!(walks, sample.parts - 1);
        let at_limit = sample.view(&limit)[0].at_limit;
        assert_eq!((at_limit.keys, at_limit.error), (200, 0));
    }

    /// Goal: uses under other rates are in no sample of the configured ones. Method: a key that is charged before the sample is set aside,
    /// one while it is, and one after it goes on.
    #[test]
    fn a_sample_that_was_set_aside_leaves_out_the_time_between() {
        let rate = Rate::new(10, Period::from_secs(60).unwrap()).unwrap();
        let policy = Policy::new(Algorithm::SlidingWindow, Rates::new([rate]).unwrap()).unwrap();
        let limit = Limit::new(policy, Capacity::new(64).unwrap());
        let at = |seconds: u64| Timestamp::from_secs(1_800_000_000 + seconds);
        let charge = |name: &[u8], cost, seconds| {
            let ask = Ask {
                limit: &limit,
                key: Seed::from_bytes([5; 16]).hasher().part(name).finish(),
                cost: Cost::new(cost).unwrap(),
                payer: None,
            };
            assert!(decide(&[ask], at(seconds)).decisions()[0].is_admitted());
        };
        let mut sample = TableSample::new(&limit, UsageShare::new(1), at(0));
        charge(b"before", 7, 1);
        sample.walk(&limit, Duration::ZERO, || at(2));
        charge(b"between", 10, 100);
        sample.resume(at(110));
        charge(b"after", 3, 120);
        sample.walk(&limit, Duration::ZERO, || at(121));
        assert_eq!(sample.view(&limit)[0].peaks, [(3, 1), (7, 1)]);
        assert_eq!(sample.since(), at(0));
    }

    /// Goal: no use of a bucket is larger than what is shown and the error that is shown with it. Method: random charges of one key at
    /// random times under each bucket, walks at random gaps, and the debt after every charge.
    #[test]
    fn a_bucket_is_never_used_more_than_the_sample_allows_for() {
        for algorithm in [
            Algorithm::Gcra { burst: Some(40) },
            Algorithm::TokenBucket {
                burst: Some(40),
                refill: Refill::Greedy,
            },
            Algorithm::LeakyBucket {
                queue: 39,
                max_wait: Duration::from_secs(600),
            },
        ] {
            let rate = Rate::new(10, Period::from_secs(60).unwrap()).unwrap();
            let policy = Policy::new(algorithm, Rates::new([rate]).unwrap()).unwrap();
            let limit = Limit::new(policy, Capacity::new(64).unwrap());
            let key = Seed::from_bytes([5; 16]).hasher().part(b"key").finish();
            let mut random = 0x2545_f491_4f6c_dd1d_u64;
            let mut below = |most: u64| {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                random % most
            };
            let mut now = Timestamp::from_secs(1_800_000_000);
            let mut sample = TableSample::new(&limit, UsageShare::new(1), now);
            let (mut looked, mut most) = (now, 0);
            for _ in 0..3_000 {
                now = now.saturating_add(Duration::from_millis(below(9_000)));
                if below(4) == 0 {
                    sample.walk(&limit, clock::between(looked, now), || now);
                    looked = now;
                    let usage = &sample.view(&limit)[0];
                    let shown = usage.peaks.last().map_or(0, |(used, _)| *used);
                    assert!(shown + usage.unseen >= most, "{usage:?}: {most}");
                    assert!(usage.limit == 40 && shown <= most && usage.unseen > 0);
                } else if below(3) > 0 {
                    let ask = Ask {
                        limit: &limit,
                        key,
                        // Faster than it drains, so that the bucket is full now and then.
                        cost: Cost::new(3).unwrap(),
                        payer: None,
                    };
                    let left = decide(&[ask], now).decisions()[0].remaining();
                    most = most.max(40 - left);
                }
            }
            assert!(most > 20, "{most}");
        }
    }
}
