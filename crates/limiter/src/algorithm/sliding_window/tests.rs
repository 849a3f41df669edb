//! Examples of the formulas, and the ends of every range; the oracle in tests/ does the rest.

use super::*;
use crate::rate::{MAX_PERIOD, Period};

/// A moment at which windows of 10 s begin, somewhere in a round of stamps.
const START: u64 = 1_800_000_000;

fn judge_of(count: u32, secs: u32, now: Timestamp) -> SlidingAt {
    let period = Period::from_secs(secs).expect("a period");
    SlidingRate::new(Rate::new(count, period).expect("a rate")).at(now)
}

/// A rate of 10 per 10 s, `millis` after START.
fn rate_at(millis: u64) -> SlidingAt {
    judge_of(
        10,
        10,
        Timestamp::from_secs(START).saturating_add(Duration::from_millis(millis)),
    )
}

fn cost(units: u32) -> Cost {
    Cost::new(units).expect("a cost")
}

/// The charge that left `word`.
fn charge(left: Word, cost: Cost) -> RateCharge {
    RateCharge {
        cost,
        left,
        made: Timestamp::from_secs(START),
    }
}

/// The word of a key that took `units` when `rate_at` judged.
fn charged(rate_at: SlidingAt, units: u32) -> Word {
    rate_at.charge_unchecked(Word::UNUSED, cost(units))
}

/// Goal: the formula. Method: 8 units in one window, what is left 0, 5 and 10 s into the next.
#[test]
fn the_previous_window_fades_out() {
    let word = charged(rate_at(9_000), 8);
    let left = |millis| rate_at(millis).status(word, None).remaining;
    assert_eq!(
        [
            left(9_000),
            left(10_000),
            left(15_000),
            left(19_999),
            left(20_000)
        ],
        [2, 2, 6, 10, 10]
    );
    assert_eq!((left(15_001), left(18_750), left(18_751)), (7, 9, 10));
    assert!(rate_at(15_000).fits(word, cost(6)) && !rate_at(15_000).fits(word, cost(7)));
}

/// Goal: true waits. Method: a full window; when one unit fits again, when two and ten do, and one millisecond before.
#[test]
fn a_wait_ends_at_the_first_moment_that_admits() {
    let word = charged(rate_at(1_000), 10);
    let wait = |units| rate_at(1_000).status(word, Some(cost(units))).next_free;
    // The window ends in 9 s; with the first millisecond of the next one less than ten count, after a tenth less than nine.
    assert_eq!(wait(1), Duration::from_millis(9_001));
    assert_eq!(wait(2), Duration::from_millis(10_001));
    assert_eq!(wait(10), Duration::from_millis(18_001));
    assert_eq!(wait(11), NEVER);
    assert!(!rate_at(10_000).fits(word, cost(1)) && rate_at(10_001).fits(word, cost(1)));
    assert!(!rate_at(11_000).fits(word, cost(2)) && rate_at(11_001).fits(word, cost(2)));
    assert_eq!(
        rate_at(1_000).status(word, None).reset,
        Duration::from_millis(18_001)
    );
}

/// Goal: the documented worst case is real and not exceeded. Method: a burst at the end of a window, then as much as is
/// admitted as early as it is.
#[test]
fn timed_bursts_get_twice_the_count_and_no_more() {
    let mut word = charged(rate_at(9_999), 10);
    let mut within = 10;
    for millis in (10_000..19_999).step_by(if cfg!(miri) { 500 } else { 1 }) {
        while let Some(next) = rate_at(millis).charge(word, Cost::ONE) {
            word = next;
            within += 1;
        }
    }
    assert_eq!(within, 20);
}

/// Goal: who keeps to the rate is never refused. Method: counts and periods of all sizes, requests P / count and 1 ms apart
/// or a little more, from everywhere in a window on.
#[test]
fn who_asks_evenly_and_no_faster_than_the_rate_is_never_refused() {
    for (count, secs) in [
        (1, 1),
        (1, 10),
        (2, 10),
        (3, 10),
        (7, 10),
        (10, 10),
        (100, 60),
        (1_000, 7),
    ] {
        let least = u64::from(secs) * NANOS_PER_SECOND / u64::from(count) + 1_000_000;
        for (gap, phase) in (0..40).map(|n| (least + n * n * 777_777, n * 98_765_432)) {
            let mut word = Word::UNUSED;
            for request in 0..3 * u64::from(count) + 9 {
                let now = Timestamp::from_nanos(START * NANOS_PER_SECOND + phase + request * gap);
                let charged = judge_of(count, secs, now).charge(word, Cost::ONE);
                word = charged.expect("it keeps to the rate");
            }
        }
    }
}

/// Goal: who asks all the time gets all of the count. Method: windows in each of which one unit more than fits is asked for
/// all through.
#[test]
fn who_asks_all_the_time_gets_the_count_in_every_window() {
    let mut word = Word::UNUSED;
    for window in 0..5 {
        let mut admitted = 0;
        for millis in 10_000 * window..10_000 * (window + 1) {
            while let Some(next) = rate_at(millis).charge(word, Cost::ONE) {
                word = next;
                admitted += 1;
            }
        }
        assert_eq!(admitted, 10, "window {window}");
    }
}

/// Goal: an undo finds its charge, or finds that it counts no more. Method: undo in the same window, the next, and the
/// one after.
#[test]
fn an_undo_subtracts_where_the_charge_was_counted() {
    let first = rate_at(0);
    let one = charged(first, 4);
    let charge = charge(one, cost(4));
    let undone = |millis: u64, word| rate_at(millis).undo(word, charge);
    assert_eq!(
        first
            .status(undone(0, one).expect("it counts"), None)
            .remaining,
        10
    );
    let later = rate_at(10_000).charge_unchecked(one, cost(2));
    let rest = undone(10_000, later).expect("it still counts as previous");
    assert_eq!(rate_at(10_000).status(rest, None).remaining, 8);
    assert_eq!(
        undone(20_000, charged(rate_at(20_000), 2)),
        None,
        "two windows on it counts no more, or is another key's"
    );
    assert_eq!(undone(0, Word::UNUSED), None);
}

/// Goal: what is undone still owes, by time. Method: a word whose counts are zero again, through two windows.
#[test]
fn a_word_owes_for_two_windows_whatever_it_counts() {
    let first = rate_at(9_999);
    let word = charged(first, 1);
    let word = first
        .undo(word, charge(word, Cost::ONE))
        .expect("it counts");
    assert!(rate_at(19_999).owes(word) && !rate_at(20_000).owes(word));
    assert!(!rate_at(0).owes(Word::UNUSED));
}

/// Goal: saturated counts stay honest. Method: force past the ceiling, then undo both ways.
#[test]
fn a_count_at_its_ceiling_is_not_lowered_by_a_forced_undo() {
    let now = rate_at(0);
    let full = now.charge_unchecked(charged(now, MAX_COUNT - 1), cost(u32::MAX));
    assert_eq!(now.undo_unchecked(full, charge(full, cost(5))), Some(full));
    assert!(!judge_of(MAX_COUNT, 10, Timestamp::from_secs(START)).fits(full, Cost::ONE));
}

/// Goal: a clock that steps back keeps counts for a day. Method: a full word seen from a minute, a day and more than a
/// day earlier.
#[test]
fn a_clock_that_steps_back_by_up_to_a_day_forgets_nothing() {
    const DAY: u64 = 24 * 60 * 60;
    let word = charged(rate_at(0), 10);
    let seen = |back: u64| judge_of(10, 10, Timestamp::from_secs(START - back));
    for back in [1, 60, DAY] {
        assert!(!seen(back).fits(word, Cost::ONE) && seen(back).owes(word));
        let wait = seen(back).status(word, Some(Cost::ONE)).next_free;
        assert_eq!(
            wait,
            Duration::from_secs(back + 10) + Duration::from_millis(1),
            "until less than all of the window of the word counts"
        );
    }
    assert!(seen(DAY + 1).fits(word, cost(10)) && !seen(DAY + 1).owes(word));
    assert_eq!(
        seen(5)
            .charge_unchecked(word, Cost::ONE)
            .snapshot()
            .map(|word| word.stamp),
        word.snapshot().map(|word| word.stamp)
    );
}

/// Goal: stamps go round without a trace. Method: charges on both sides of the turn, and the silence after which a word
/// reads as one to come.
#[test]
fn the_turn_of_the_stamps_is_no_event() {
    let turn = (START / STAMPS as u64 + 1) * STAMPS as u64;
    let at = |second: u64| judge_of(10, 10, Timestamp::from_secs(second));
    for second in turn - 12..turn + 12 {
        let word = charged(at(second), 3);
        assert_ne!(word, Word::UNUSED, "no charge reads as never used");
        assert_eq!(at(second).status(word, None).remaining, 7);
        assert!(at(second + 9).owes(word) && !at(second + 20).owes(word));
        assert!(!at(second + (STAMPS - MOST_AHEAD) as u64 - 1).owes(word));
        assert!(
            at(second + (STAMPS - MOST_AHEAD) as u64).owes(word),
            "the documented price of 24 bits"
        );
    }
}

/// Goal: no arithmetic overflows. Method: the largest and smallest of everything together.
#[test]
fn the_ends_of_every_range_are_judged() {
    for nanos in [0, 1, 999_999_999, u64::MAX - 1, u64::MAX] {
        for (count, secs) in [
            (1, 1),
            (1, MAX_PERIOD),
            (MAX_COUNT, 1),
            (MAX_COUNT, MAX_PERIOD),
        ] {
            let now = judge_of(count, secs, Timestamp::from_nanos(nanos));
            let full = charged(now, MAX_COUNT);
            for bits in [
                0,
                full.bits(),
                u64::MAX,
                1,
                1 << 40,
                full.bits() | 0xFF_FFFF_FFFF,
            ] {
                let word = Word::from_bits(bits);
                for units in [1, MAX_COUNT, u32::MAX] {
                    assert_eq!(
                        now.charge(word, cost(units)).is_some(),
                        now.fits(word, cost(units))
                    );
                    let status = now.status(word, Some(cost(units)));
                    assert!(status.next_free <= NEVER && status.remaining <= count);
                    let _ = now.undo(word, charge(word, cost(units)));
                }
            }
        }
    }
}

/// Goal: nothing is lost when words are joined or change their period. Method: charges in neighbouring windows, and a
/// conversion both ways.
#[test]
fn words_that_are_joined_or_converted_count_no_less() {
    let now = rate_at(12_000);
    let (old, new) = (charged(rate_at(9_000), 3), charged(rate_at(11_000), 4));
    let sum = now.sum(old, new);
    assert_eq!(sum, now.sum(new, old));
    assert_eq!(now.used_units(sum), 6, "4 and 3 · 0.8, rounded down");
    let larger = now.larger(old, charged(rate_at(9_500), 2));
    assert_eq!(rate_at(10_000).used_units(larger), 3);
    for secs in [2, 5, 60, 3600] {
        let other = judge_of(100, secs, Timestamp::from_secs(START + 12));
        assert_eq!(other.used_units(other.convert(new, &now)), 4);
        assert!(other.used_units(other.convert(sum, &now)) >= 7);
    }
}
