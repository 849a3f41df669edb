//! A damaged file locks nobody out: whatever lies further ahead than a window is dropped when it is opened.
#![cfg(all(feature = "mmap", not(miri)))]

mod common;

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use common::{START, admits, alone, capacity, key, rates};
use proptest::prelude::Rng;
use proptest::test_runner::{RngAlgorithm, TestRng};
use sluicegate_limiter::{
    Algorithm, Alignment, BanFactor, BanRules, Bans, CalendarUnit, CalendarZone, Cost, Limit,
    OpenOutcome, Policy, Refill, Seed, StateDir, TableId, Timestamp,
};

const MEANING: TableId<'static> = TableId {
    name: "otp",
    key: "client.ip",
};
/// Seconds of a window.
const WINDOW: u32 = 3_600;
/// Bytes before the first word of a file.
const HEADER: u64 = 4096;

fn policies() -> Vec<Policy> {
    let (zone, unit) = (Arc::new(CalendarZone::utc()), CalendarUnit::Day);
    let token_bucket = |refill| Algorithm::TokenBucket {
        burst: None,
        refill,
    };
    let several = [
        Algorithm::SlidingWindow,
        Algorithm::Exact,
        Algorithm::FixedWindow(Alignment::Epoch),
        Algorithm::FixedWindow(Alignment::FirstRequest),
        Algorithm::FixedWindow(Alignment::Key),
        token_bucket(Refill::Interval),
        token_bucket(Refill::Greedy),
        Algorithm::Gcra { burst: None },
        Algorithm::LeakyBucket {
            queue: 4,
            max_wait: Duration::from_secs(WINDOW.into()),
        },
    ];
    let several = several.map(|algorithm| (algorithm, &[(5, WINDOW / 2), (6, WINDOW)][..]));
    let daily = Algorithm::FixedWindow(Alignment::Calendar { zone, unit });
    several
        .into_iter()
        .chain([(daily, &[(5, 86_400)][..])])
        .map(|(algorithm, numbers)| Policy::new(algorithm, rates(numbers)).expect("a policy"))
        .collect()
}

fn state(home: &Path) -> StateDir {
    StateDir::open(home, Seed::from_bytes([3; 16])).expect("a state directory")
}

fn open(home: &Path, policy: &Policy) -> (Limit, OpenOutcome) {
    let open = || Limit::open(&state(home), MEANING, policy.clone(), capacity(100), START);
    alone(|| open().expect("a limit"))
}

/// Overwrites all words of the only file of counters.
fn scrawl(home: &Path, bits: &mut impl Rng) {
    let names = fs::read_dir(home).expect("a directory");
    let counters =
        |path: &std::path::PathBuf| path.extension().is_some_and(|end| end == "counters");
    let mut found = names
        .map(|name| name.expect("a name").path())
        .filter(counters);
    let path = found.next().expect("there is one");
    assert!(found.next().is_none());
    let file = OpenOptions::new().write(true).open(&path).expect("a file");
    let length = file.metadata().expect("a length").len() - HEADER;
    let mut words = vec![0; usize::try_from(length).expect("a small file")];
    bits.fill_bytes(&mut words);
    file.write_all_at(&words, HEADER).expect("room");
}

/// Goal: what lies ahead is dropped and told, and nobody is refused for it. Method: every algorithm, charged as by clocks that were
/// hours to years ahead, opened by one that is right.
#[test]
fn what_lies_ahead_of_a_window_is_dropped() {
    for hours in [3, 40, 24 * 20, 24 * 365 * 10] {
        for policy in policies() {
            let home = tempfile::tempdir().expect("a directory");
            let ahead = START.saturating_add(Duration::from_secs(3_600 * hours));
            let (limit, _) = open(home.path(), &policy);
            // More than there are slots, so that what they share is ahead as well.
            (0..1_000).for_each(|number| while admits(&limit, number, ahead) {});
            drop(limit);
            let (limit, adopted) = open(home.path(), &policy);
            assert_eq!(adopted, OpenOutcome::Continued);
            if hours == 3 && policy.longest_window() == WINDOW {
                assert!(limit.stats().dropped > 0, "{policy:?}");
            }
            assert_waits(&limit, &policy);
        }
    }
}

/// Goal: no pattern of bits locks anybody out for longer than the limit itself could. Method: random words in the file of every
/// algorithm.
#[test]
fn random_words_lock_nobody_out() {
    let mut bits = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    for policy in policies() {
        for _ in 0..20 {
            let home = tempfile::tempdir().expect("a directory");
            drop(open(home.path(), &policy));
            scrawl(home.path(), &mut bits);
            let (limit, adopted) = open(home.path(), &policy);
            assert_eq!(adopted, OpenOutcome::Continued);
            assert_waits(&limit, &policy);
        }
    }
}

/// No key waits for longer than two windows.
fn assert_waits(limit: &Limit, policy: &Policy) {
    for number in 0..1_000 {
        let decision = limit.peek(key(number), Cost::ONE, START);
        let most = Duration::from_secs(2 * u64::from(policy.longest_window()));
        let wait = decision.retry_after().unwrap_or_default();
        assert!(wait <= most, "{policy:?}: {wait:?} {decision:?}");
    }
}

trait Longest {
    fn longest_window(&self) -> u32;
}

impl Longest for Policy {
    fn longest_window(&self) -> u32 {
        self.rates()
            .iter()
            .map(|rate| rate.period().as_secs())
            .max()
            .unwrap_or(0)
    }
}

/// Goal: a ban in a damaged file is no longer than the rules make one. Method: random words, most of which are bans for centuries.
#[test]
fn random_words_ban_nobody_for_longer_than_the_rules() {
    let mut bits = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let rules = BanRules::new(
        Duration::from_secs(60),
        BanFactor::TWO,
        Duration::from_secs(600),
    )
    .expect("rules");
    for _ in 0..20 {
        let home = tempfile::tempdir().expect("a directory");
        let open = || {
            let now: Timestamp = START;
            Bans::open(&state(home.path()), MEANING, rules, capacity(100), now).expect("bans")
        };
        drop(alone(open));
        scrawl(home.path(), &mut bits);
        let (bans, _) = alone(open);
        for number in 0..1_000 {
            let left = bans.active(key(number), START).map(|banned| banned.left);
            assert!(left.is_none_or(|left| left <= rules.max()), "{left:?}");
        }
    }
}
