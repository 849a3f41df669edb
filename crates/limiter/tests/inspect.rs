//! What a limit tells of its table: since when new keys share counters, and how old what it holds is.

mod common;

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use common::{START, admits, after, capacity, key, limit, peek, rates};
use sluicegate_limiter::{
    Algorithm, Alignment, CalendarUnit, CalendarZone, KeyAges, KeyPlacement, Limit, Policy, Refill,
    Timestamp,
};

fn one_of_each() -> Vec<Algorithm> {
    let (burst, refill) = (None, Refill::Interval);
    vec![
        Algorithm::SlidingWindow,
        Algorithm::Exact,
        Algorithm::FixedWindow(Alignment::Epoch),
        Algorithm::FixedWindow(Alignment::FirstRequest),
        Algorithm::FixedWindow(Alignment::Key),
        Algorithm::FixedWindow(Alignment::Calendar {
            zone: Arc::new(CalendarZone::utc()),
            unit: CalendarUnit::Day,
        }),
        Algorithm::TokenBucket { burst, refill },
        Algorithm::Gcra { burst },
    ]
}

/// A limit of one bucket under `2 per 1d`.
fn tiny(algorithm: Algorithm) -> Limit {
    let policy = Policy::new(algorithm, rates(&[(2, 86_400)])).expect("a policy");
    Limit::with_buckets(policy, 1)
}

/// New keys from `first` on, each charged once, until one is counted with others; the first number not used.
fn fill(limit: &Limit, first: u64, now: Timestamp) -> u64 {
    let in_overflow = |number: &u64| {
        let counted = peek(limit, *number, now).placement();
        assert!(admits(limit, *number, now));
        counted == KeyPlacement::Overflow
    };
    1 + (first..).find(in_overflow).expect("a bucket is finite")
}

/// Goal: the spell of overflow begins with the first who shares, and does not end while anything shared still counts, nor
/// much later. Method: every algorithm, hour by hour through three days, beside the census of the words.
#[test]
fn overflow_is_told_for_as_long_as_it_weighs_on_anybody() {
    for algorithm in one_of_each() {
        let limit = tiny(algorithm.clone());
        assert_eq!(limit.overflow(START), None);
        fill(&limit, 0, after(5_000));
        let spell = limit.overflow(after(5_000)).expect("somebody shares");
        assert_eq!(spell.since, after(5_000), "{algorithm:?}");
        for hour in 1..72 {
            // Not on the hour, where windows end: the end is told to the second.
            let now = after(3_600_000 * hour - 60_000);
            let weighs = limit.occupancy(now).overflowing > 0;
            assert_eq!(
                limit.overflow(now).is_some(),
                weighs,
                "{algorithm:?}, hour {hour}"
            );
        }
        assert_eq!(
            limit.stats().overflow,
            Some(spell),
            "the last one is remembered"
        );
    }
}

/// Goal: one spell goes on while new keys keep coming, another begins after a rest. Method: two fillings a period apart,
/// and a third after all has expired.
#[test]
fn a_rest_ends_a_spell_of_overflow() {
    for algorithm in [Algorithm::SlidingWindow, Algorithm::Exact] {
        let limit = tiny(algorithm);
        let next = fill(&limit, 0, START);
        let halfway = after(43_200_000);
        let next = fill(&limit, next, halfway);
        let spell = limit.overflow(halfway).expect("it goes on");
        assert_eq!(spell.since, START);
        let later = after(10 * 86_400_000);
        assert_eq!(limit.overflow(later), None);
        fill(&limit, next, later);
        assert_eq!(limit.overflow(later).map(|spell| spell.since), Some(later));
    }
}

/// Goal: an edit forgets no spell, and knows that it may last longer then. Method: from words to words of a longer period,
/// and between words and logs.
#[test]
fn a_spell_of_overflow_survives_edits() {
    let to = |algorithm, secs| Policy::new(algorithm, rates(&[(2, secs)])).expect("a policy");
    let edits = [
        (Algorithm::SlidingWindow, Algorithm::SlidingWindow),
        (Algorithm::SlidingWindow, Algorithm::Exact),
        (Algorithm::Exact, Algorithm::SlidingWindow),
    ];
    for (from, into) in edits {
        let limit = tiny(from);
        fill(&limit, 0, START);
        let before = limit.overflow(START).expect("somebody shares");
        let now = after(1_000);
        let edited = limit.edited(to(into, 7 * 86_400), capacity(1), now);
        let spell = edited.overflow(now).expect("somebody still shares");
        assert_eq!(spell.since, before.since);
        assert!(spell.until > before.until, "{spell:?}");
    }
}

/// Goal: ages are those of the latest charges. Method: keys charged at times of every span, some twice; a key that owes
/// nothing any more is none.
#[test]
fn ages_are_told_where_states_know_them() {
    let limits = [
        limit(&[(9, 3_600)], 1_000),
        Limit::new(
            Policy::new(Algorithm::Exact, rates(&[(9, 7_200)])).expect("a policy"),
            capacity(1_000),
        ),
    ];
    for limit in limits {
        for number in 0..10 {
            // Charged 0, 1, 4, 9 … 81 s before the end; and earlier, too.
            let charged = after(3_600_000 - 1_000 * number * number);
            assert!(admits(&limit, number, START) && admits(&limit, number, charged));
        }
        let now = after(3_600_000);
        let ages = limit.ages(now).expect("it tells");
        let mut expected = [0; KeyAges::SPANS];
        expected[..8].copy_from_slice(&[1, 1, 0, 1, 1, 2, 2, 2]);
        assert_eq!(ages.keys, expected);
        assert_eq!(ages.oldest, Duration::from_secs(81));
        let charged = limit.active_keys(now).map(|occupant| occupant.charged());
        assert_eq!(charged.min(), Some(Some(after(3_600_000 - 81_000))));
        let later = limit.ages(after(4 * 3_600_000)).expect("it tells");
        assert_eq!(later, KeyAges::default(), "nothing owes any more");
    }
    let debts = tiny(Algorithm::Gcra { burst: None });
    assert!(admits(&debts, 1, START));
    assert_eq!(debts.ages(START), None);
    assert!(
        debts
            .active_keys(START)
            .all(|occupant| occupant.charged().is_none())
    );
    assert_eq!(
        debts
            .peek(key(1), sluicegate_limiter::Cost::ONE, START)
            .placement(),
        KeyPlacement::OwnSlot
    );
}

/// Goal: a large table is told by a sample. Method: keys of two ages in more buckets than are looked at.
#[test]
fn ages_of_a_large_table_are_extrapolated() {
    const KEYS: u64 = 700_000;
    let limit = limit(&[(5, 600)], KEYS);
    for number in 0..KEYS {
        assert!(admits(&limit, number, after(number % 2 * 100_000)));
    }
    let ages = limit.ages(after(100_000)).expect("it tells");
    assert!(ages.keys[0].abs_diff(KEYS / 2) < KEYS / 100, "{ages:?}");
    assert!(ages.keys[7].abs_diff(KEYS / 2) < KEYS / 100, "{ages:?}");
    assert_eq!(ages.oldest, Duration::from_secs(100));
}

/// Goal: the largest use of a key is known although it has expired by the time of the walk. Method: keys that ask once to five times, one
/// of them again in a later window; a walk days later, under each algorithm whose words keep it.
#[test]
fn the_largest_use_of_a_key_can_be_read_after_it_expired() {
    for algorithm in one_of_each() {
        let keeps = !matches!(algorithm, Algorithm::Gcra { .. });
        let policy = Policy::new(algorithm.clone(), rates(&[(5, 86_400)]));
        let limit = Limit::new(policy.expect("a policy"), capacity(100));
        assert_eq!(
            limit.room_of_new_keys(START)[..3],
            [5, 0, 0],
            "{algorithm:?}"
        );
        for number in 0..5 {
            for _ in 0..=number {
                assert!(admits(&limit, number, after(1_500)), "{algorithm:?}");
            }
        }
        let walk = |now| {
            let mut peaks = Vec::new();
            let step = limit.peaks(0, || now, |peak| peaks.push(*peak));
            assert_eq!(step, 1);
            peaks.sort_by_key(|peak| peak.units);
            peaks
        };
        let at_once: Vec<_> = walk(after(1_500))
            .iter()
            .map(|peak| peak.units[0])
            .collect();
        assert_eq!(at_once, [1, 2, 3, 4, 5], "{algorithm:?}");
        let late = walk(after(3 * 86_400_000));
        if keeps {
            let units: Vec<_> = late.iter().map(|peak| peak.units[..2].to_vec()).collect();
            assert_eq!(units[4], [5, 0], "{algorithm:?}");
            assert_eq!(units.len(), 5, "{algorithm:?}");
            assert!(
                late.iter()
                    .all(|peak| peak.at >= START && peak.at <= after(2 * 86_400_000))
            );
        } else {
            assert!(late.is_empty(), "a debt is forgotten once it is paid");
        }
    }
}

/// Goal: a key that is charged while its table is walked is seen with what it was charged, no more. Method: under each algorithm a walk
/// over a thousand keys, at whose first key the clock goes on and another thousand keys are charged.
#[test]
fn a_charge_during_a_walk_is_seen_as_it_was() {
    for algorithm in one_of_each() {
        let policy = Policy::new(algorithm.clone(), rates(&[(5, 86_400)])).expect("a policy");
        let limit = Limit::new(policy, capacity(10_000));
        for number in 0..1_000 {
            assert!(admits(&limit, number, START), "{algorithm:?}");
        }
        let time = Cell::new(START);
        let mut seen = 0;
        let read = || time.get();
        limit.peaks(0, read, |peak| {
            if time.replace(after(60_000)) == START {
                for number in 1_000..2_000 {
                    assert!(admits(&limit, number, time.get()), "{algorithm:?}");
                }
            }
            assert_eq!(peak.units[0], 1, "{algorithm:?}");
            seen += 1;
        });
        assert!(seen > 1_500, "{algorithm:?}: {seen}");
    }
}

/// Goal: the parts of a large table have each key once. Method: a table of several parts, by words and by logs, with a thousand keys; the
/// keys of all parts, and those of the first under another number.
#[test]
fn the_parts_of_a_large_table_have_each_key_once() {
    for algorithm in [Algorithm::SlidingWindow, Algorithm::Exact] {
        let policy = Policy::new(algorithm.clone(), rates(&[(1, 86_400)])).expect("a policy");
        let limit = Limit::new(policy, capacity(1_200_000));
        for number in 0..1_000 {
            assert!(admits(&limit, number, START), "{algorithm:?}");
        }
        let keys_of = |part| {
            let mut keys = Vec::new();
            let parts = limit.peaks(part, || START, |peak| keys.push(peak.key.bits()));
            (parts, keys)
        };
        let (parts, first) = keys_of(0);
        assert!((2..100).contains(&parts), "{algorithm:?}: {parts}");
        let share = 1_000 / parts;
        assert!(
            (share / 2..share * 2).contains(&first.len()),
            "{algorithm:?}: {}",
            first.len()
        );
        let mut all: Vec<u64> = (0..parts).flat_map(|part| keys_of(part).1).collect();
        assert_eq!(all.len(), 1_000, "{algorithm:?}");
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 1_000, "{algorithm:?}");
        assert_eq!(keys_of(parts), (parts, first), "{algorithm:?}");
    }
}

/// Goal: a key that asks all the time is seen at its limit, never above. Method: a client that asks ten times a second under a short
/// window, with a walk after each request.
#[test]
fn a_greedy_key_peaks_at_its_limit() {
    let calendar = Algorithm::FixedWindow(Alignment::Calendar {
        zone: Arc::new(CalendarZone::utc()),
        unit: CalendarUnit::Day,
    });
    for algorithm in one_of_each().into_iter().filter(|other| *other != calendar) {
        let policy = Policy::new(algorithm.clone(), rates(&[(7, 3)])).expect("a policy");
        let limit = Limit::new(policy, capacity(100));
        let mut most = 0;
        for tenth in 0..300 {
            let now = after(100 * tenth);
            admits(&limit, 1, now);
            limit.peaks(
                0,
                || now,
                |peak| {
                    assert!(peak.units[0] <= 7, "{algorithm:?}: {peak:?}");
                    most = most.max(peak.units[0]);
                },
            );
        }
        assert_eq!(most, 7, "{algorithm:?}");
    }
}
