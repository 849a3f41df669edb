//! C4 for every algorithm: all that can be done to a limit is done to its file, and found there again.
#![cfg(all(feature = "mmap", not(miri)))]

mod common;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use common::{START, admits, after, ask, capacity, cost, key, left, peek, rates};
use sluicegate_limiter::{
    Algorithm, Alignment, CalendarUnit, CalendarZone, KeyPlacement, Limit, OpenOutcome, Outcome,
    Policy, Refill, Seed, StateDir, TableId, reserve,
};

const DAY: u32 = 24 * 60 * 60;
const MEANING: TableId<'static> = TableId {
    name: "otp",
    key: "client.ip",
};

fn state(home: &Path) -> StateDir {
    StateDir::open(home, Seed::from_bytes([3; 16])).expect("a state directory")
}

fn open(state: &StateDir, policy: &Policy) -> (Limit, OpenOutcome) {
    Limit::open(state, MEANING, policy.clone(), capacity(100), START).expect("a limit")
}

fn policy(algorithm: Algorithm, numbers: &[(u32, u32)]) -> Policy {
    Policy::new(algorithm, rates(numbers)).expect("a policy")
}

/// Policies no two of which mean the same, each with room for five at once.
fn policies() -> Vec<Policy> {
    let calendar = Alignment::Calendar {
        zone: Arc::new(CalendarZone::utc()),
        unit: CalendarUnit::Day,
    };
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
        Algorithm::LeakyBucket {
            queue: 4,
            max_wait: Duration::from_secs(31 * u64::from(DAY)),
        },
    ];
    let several = several
        .into_iter()
        .map(|algorithm| policy(algorithm, &[(5, DAY), (6, 2 * DAY)]));
    let daily = policy(Algorithm::FixedWindow(calendar), &[(5, DAY)]);
    several.chain([daily]).collect()
}

/// Goal: whatever was done to a limit is found again after a restart. Method: for every algorithm charges,
/// reservations, set and reset; each key's decision and the fullest keys before and after.
#[test]
fn every_algorithm_goes_on_from_its_file() {
    let home = tempfile::tempdir().expect("a directory");
    for policy in policies() {
        let state = state(home.path());
        let (limit, adopted) = open(&state, &policy);
        assert_eq!(adopted, OpenOutcome::Fresh, "{policy:?}");
        let now = after(1_000);
        assert!(admits(&limit, 1, START) && admits(&limit, 1, now));
        let (_, held) = reserve(&[ask(&limit, 2)], now);
        held.expect("there is room").settle(cost(3), now);
        let (_, held) = reserve(&[ask(&limit, 3)], now);
        held.expect("there is room").release(now);
        assert_eq!(limit.set(key(4), cost(5), now), KeyPlacement::OwnSlot);
        assert_eq!(limit.set(key(5), cost(5), now), KeyPlacement::OwnSlot);
        assert_eq!(limit.reset(key(5), now), KeyPlacement::OwnSlot);

        let lefts = |limit: &Limit| [1, 2, 3, 4, 5].map(|number| left(limit, number, now));
        assert_eq!(lefts(&limit), [3, 2, 5, 0, 5], "{policy:?}");
        let decisions = |limit: &Limit| [1, 2, 3, 4, 5].map(|number| peek(limit, number, now));
        let before = (decisions(&limit), limit.top(2, now), limit.occupancy(now));
        drop(limit);
        let (limit, adopted) = open(&state, &policy);
        assert_eq!(adopted, OpenOutcome::Continued, "{policy:?}");
        let found = (decisions(&limit), limit.top(2, now), limit.occupancy(now));
        assert_eq!(before, found, "{policy:?}");
        assert_eq!(
            limit.top(2, now)[0].key,
            limit
                .active_keys(now)
                .max_by_key(|one| one.fullness())
                .expect("one")
                .key
        );
    }
}

/// Goal: during an upgrade both processes count in the same words. Method: two handles of one file, as two processes
/// have them; what one reserves, gives back, sets and resets, the other sees.
#[test]
fn two_processes_see_what_either_does() {
    let home = tempfile::tempdir().expect("a directory");
    for policy in policies() {
        let (old, new) = (state(home.path()), state(home.path()));
        let (old, _) = open(&old, &policy);
        let (new, adopted) = open(&new, &policy);
        assert_eq!(adopted, OpenOutcome::Joined);
        let (verdict, held) = reserve(&[ask(&old, 1), ask(&old, 2)], START);
        assert_eq!(verdict.outcome(), Outcome::Admitted);
        assert_eq!((left(&new, 1, START), left(&new, 2, START)), (4, 4));
        held.expect("it was admitted").release(START);
        assert_eq!((left(&new, 1, START), left(&new, 2, START)), (5, 5));
        old.set(key(1), cost(5), START);
        assert!(!admits(&new, 1, START), "{policy:?}");
        new.reset(key(1), START);
        assert!(admits(&old, 1, START));
        assert_eq!(left(&new, 1, START), 4);
    }
}

/// Goal: what an edit may change without another table, a restart may too, and nothing else. Method: the files of pairs
/// of policies; counts of one under the other.
#[test]
fn a_restart_keeps_what_an_edit_keeps() {
    let file = |policy: &Policy| {
        let identity = MEANING.identity(policy, capacity(100));
        identity.file_name().to_owned()
    };
    let mut files: Vec<String> = policies().iter().map(file).collect();
    files.sort();
    files.dedup();
    assert_eq!(files.len(), policies().len(), "each means something else");

    let home = tempfile::tempdir().expect("a directory");
    let state = state(home.path());
    let numbers = [(5, DAY)];
    let gcra = policy(Algorithm::Gcra { burst: Some(4) }, &numbers);
    let bucket = Algorithm::TokenBucket {
        burst: Some(7),
        refill: Refill::Greedy,
    };
    let bucket = policy(bucket, &[(9, DAY)]);
    assert_eq!(file(&gcra), file(&bucket), "both are a debt");
    let (limit, _) = open(&state, &gcra);
    assert!((0..4).all(|_| admits(&limit, 1, START)) && !admits(&limit, 1, START));
    drop(limit);
    // Four fifths of a day are owed: 7.2 of nine a day.
    let (limit, adopted) = open(&state, &bucket);
    assert_eq!(adopted, OpenOutcome::Continued);
    assert_eq!(left(&limit, 1, START), 0);
}

/// Goal: an edit to another algorithm survives under its own name. Method: from each algorithm to the next, reopened.
#[test]
fn an_edit_to_another_algorithm_survives() {
    let home = tempfile::tempdir().expect("a directory");
    let state = state(home.path());
    let all = policies();
    for (one, next) in all.iter().zip(&all[1..]) {
        let (limit, _) = open(&state, one);
        limit.set(key(1), cost(3), START);
        let (edited, kept) = limit.edited_in(&state, MEANING, next.clone(), capacity(100), START);
        kept.expect("there is room");
        assert_eq!(left(&edited, 1, START), 2, "{one:?} to {next:?}");
        drop((limit, edited));
        let (reopened, adopted) = open(&state, next);
        assert_eq!(
            (adopted, left(&reopened, 1, START)),
            (OpenOutcome::Continued, 2)
        );
    }
}

/// Goal: logs go on under other counts, other shorter periods and another number of rates, in a file of another length
/// where they must. Method: restarts with rates that need longer logs, shorter ones, and the same.
#[test]
fn logs_go_on_under_other_rates_as_long_as_the_longest_period_is_the_same() {
    let home = tempfile::tempdir().expect("a directory");
    let state = state(home.path());
    let exact = |numbers: &[(u32, u32)]| policy(Algorithm::Exact, numbers);
    let (limit, adopted) = open(&state, &exact(&[(5, DAY)]));
    assert_eq!(adopted, OpenOutcome::Fresh);
    assert!((0..3).all(|_| admits(&limit, 1, START)));
    drop(limit);
    let restarts = [
        &[(1024, DAY)][..],
        &[(1024, 60), (1024, DAY)],
        &[(600, DAY)],
        &[(9, 60), (9, 3_600), (20, DAY)],
        &[(19, DAY)],
        &[(20, DAY)],
    ];
    for (used, numbers) in (3..).zip(restarts) {
        let (limit, adopted) = open(&state, &exact(numbers));
        assert_eq!(adopted, OpenOutcome::Continued, "{numbers:?}");
        let statuses = peek(&limit, 1, START).statuses();
        for (status, (count, _)) in statuses.iter().zip(numbers) {
            assert_eq!(status.remaining, count - used, "{numbers:?}");
        }
        assert!(admits(&limit, 1, START) && admits(&limit, 2, START));
    }
    // Shorter than what is used: refused till the moments that were kept have passed.
    let (limit, adopted) = open(&state, &exact(&[(2, DAY)]));
    assert_eq!(adopted, OpenOutcome::Continued);
    let last_but = u64::from(DAY) * 1_000;
    assert!(!admits(&limit, 1, after(last_but - 1)) && admits(&limit, 1, after(last_but)));
    drop(limit);
    let (_, adopted) = open(&state, &exact(&[(2, DAY / 2)]));
    assert_eq!(
        adopted,
        OpenOutcome::Fresh,
        "what owes is told by the period"
    );
}

/// Goal: an upgrade to longer logs begins with all that was counted, and whoever comes next joins it. Method: a file in
/// use, opened by one that needs longer logs, by another of that kind, and by one of the old.
#[test]
fn logs_that_are_in_use_are_copied_into_longer_ones() {
    let home = tempfile::tempdir().expect("a directory");
    let state = state(home.path());
    let exact = |count| policy(Algorithm::Exact, &[(count, DAY)]);
    let (old, _) = open(&state, &exact(5));
    assert!((0..3).all(|_| admits(&old, 1, START)));
    let (new, adopted) = open(&state, &exact(50));
    assert_eq!(
        (adopted, left(&new, 1, START)),
        (OpenOutcome::Continued, 47)
    );
    assert!(admits(&old, 1, START) && admits(&new, 1, START));
    assert_eq!(
        (left(&old, 1, START), left(&new, 1, START)),
        (1, 46),
        "each counts its own from here on"
    );
    for count in [50, 40] {
        let (next, adopted) = open(&state, &exact(count));
        assert_eq!(
            (adopted, left(&next, 1, START)),
            (OpenOutcome::Joined, count - 4)
        );
    }
}

/// Goal: an edit that needs longer logs survives under the same name. Method: edits of the counts in use, each followed
/// by a restart.
#[test]
fn an_edit_into_longer_logs_survives() {
    let home = tempfile::tempdir().expect("a directory");
    let state = state(home.path());
    let exact = |count| policy(Algorithm::Exact, &[(count, DAY)]);
    let (mut limit, _) = open(&state, &exact(5));
    for (used, count) in (0..).zip([50, 40, 300, 5]) {
        assert!(admits(&limit, 1, START));
        let (edited, kept) = limit.edited_in(&state, MEANING, exact(count), capacity(100), START);
        kept.expect("there is room");
        assert_eq!(left(&edited, 1, START), count - used - 1);
        drop((limit, edited));
        let (reopened, adopted) = open(&state, &exact(count));
        assert_eq!(
            (adopted, left(&reopened, 1, START)),
            (OpenOutcome::Continued, count - used - 1)
        );
        limit = reopened;
    }
}
