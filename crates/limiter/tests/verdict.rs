//! What a verdict says, and the bounds that it promises over time.

mod common;
mod oracle;

use std::time::Duration;

use common::{START, admits, after, ask, cost, key, left, limit, take};
use oracle::SlidingLog;
use proptest::prelude::*;
use sluicegate_limiter::{
    Ask, Limit, MAX_ASKS, NEVER, Outcome, RateStatuses, Verdict, decide, peek, reserve,
};

/// Goal: the cap on asks has a policy, and it is not to let pass. Method: none, the most, and one more.
#[test]
fn more_asks_than_fit_are_refused_and_none_is_admitted() {
    let one = limit(&[(100, 60)], 10);
    assert_eq!(decide(&[], START).outcome(), Outcome::Admitted);
    assert_eq!(
        decide(&[ask(&one, 1); MAX_ASKS], START).outcome(),
        Outcome::Admitted
    );
    let verdict = decide(&[ask(&one, 1); MAX_ASKS + 1], START);
    assert_eq!(
        verdict.outcome(),
        Outcome::Refused {
            ask: MAX_ASKS,
            rate: 0
        }
    );
    assert_eq!(
        (verdict.decisions().len(), verdict.retry_after()),
        (MAX_ASKS, Some(NEVER))
    );
    assert_eq!(left(&one, 1, START), 100 - MAX_ASKS as u32);
}

/// Goal: the refusal that is named is the one to wait for, and all limits are reported. Method: a limit with room
/// between two that are full.
#[test]
fn the_rate_with_the_longest_wait_is_named() {
    let short = limit(&[(1, 2)], 10);
    let roomy = limit(&[(9, 60)], 10);
    let long = limit(&[(2, 5), (1, 60)], 10);
    assert!(admits(&short, 1, START) && admits(&long, 1, START));
    let asks = [ask(&short, 1), ask(&roomy, 1), ask(&long, 1)];
    let verdict = decide(&asks, START);
    assert_eq!(verdict.outcome(), Outcome::Refused { ask: 2, rate: 1 });
    assert_eq!(verdict.retry_after(), Some(Duration::from_millis(60_001)));
    let refusing: Vec<_> = verdict
        .decisions()
        .iter()
        .map(|decision| decision.refusing_rate())
        .collect();
    assert_eq!(refusing, [Some(0), None, Some(1)]);
    assert_eq!(
        verdict.decisions()[1].statuses()[0].remaining,
        9,
        "nothing was charged"
    );
    assert_eq!(peek(&asks, START), verdict);
    assert_eq!(
        decide(&asks, after(60_000)).outcome(),
        Outcome::Refused { ask: 2, rate: 1 }
    );
    assert_eq!(decide(&asks, after(60_001)).outcome(), Outcome::Admitted);
}

/// Goal: a cost that can never pass is refused without a slot. Method: one more than the count.
#[test]
fn a_cost_above_the_count_waits_for_ever_and_takes_no_slot() {
    let limit = limit(&[(5, 60)], 10);
    let verdict = decide(
        &[Ask {
            limit: &limit,
            key: key(1),
            cost: cost(6),
            payer: None,
        }],
        START,
    );
    assert_eq!(verdict.retry_after(), Some(NEVER));
    assert_eq!(limit.occupancy(START).live, 0);
}

/// Goal: who watches is not seen. Method: a thousand peeks at new keys.
#[test]
fn a_peek_writes_nothing() {
    let limit: Limit = limit(&[(5, 60)], 10);
    for number in 0..1000 {
        let decision = common::peek(&limit, number, START);
        assert_eq!(
            (decision.refusing_rate(), decision.statuses()[0].remaining),
            (None, 5)
        );
    }
    assert_eq!(limit.occupancy(START).live, 0);
}

/// Goal: a refund that is reported is the one that is made. Method: two limits that are charged different costs, one with two rates, one of
/// them used before; the report of the refund beside a look at both after it.
#[test]
fn a_reported_refund_is_what_a_release_gives_back() {
    let two_rates = limit(&[(10, 60), (9, 10)], 10);
    let one_rate = limit(&[(100, 60)], 10);
    assert!(admits(&two_rates, 1, START));
    let asks = [
        ask(&two_rates, 1),
        Ask {
            cost: cost(7),
            ..ask(&one_rate, 1)
        },
    ];
    let remaining = |verdict: &Verdict| -> Vec<Vec<u32>> {
        let statuses = verdict.decisions().iter().map(|one| one.statuses());
        let remaining = |statuses: RateStatuses| statuses.iter().map(|one| one.remaining).collect();
        statuses.map(remaining).collect()
    };
    let (mut verdict, reservation) = reserve(&asks, START);
    assert_eq!(remaining(&verdict), [vec![7, 8], vec![93]]);
    verdict.refund(|ask| [1, 7][ask]);
    reservation.unwrap().release(START);
    assert_eq!(verdict.outcome(), Outcome::Admitted);
    assert_eq!(remaining(&verdict), [vec![8, 9], vec![100]]);
    assert_eq!(remaining(&verdict), remaining(&peek(&asks, START)));
}

proptest! {
    /// Goal: the documented guarantee. Method: random arrivals, every admission in an exact log; no aligned window
    /// holds more than the count, and none that ends `e` into one more than `count + ⌈count · e / P⌉`.
    #[test]
    fn the_count_holds_in_aligned_windows_and_the_bound_in_all_others(
        count in 1u32..20,
        secs in 1u32..5,
        steps in prop::collection::vec((0u64..700, 1usize..30), 1..80),
    ) {
        let limit = limit(&[(count, secs)], 10);
        let mut log = SlidingLog::default();
        let mut millis = 0;
        for (step, burst) in steps {
            millis += step;
            for _ in 0..burst {
                if take(&limit, 1, after(millis)).outcome() == Outcome::Admitted {
                    log.push(after(millis), 1);
                }
            }
        }
        prop_assert!(log.most_aligned(secs) <= u64::from(count));
        let span = Duration::from_secs(u64::from(secs));
        for (end, units) in log.spans(span) {
            let into = end.as_nanos() % span.as_nanos() as u64;
            let grown = (u64::from(count) * into).div_ceil(span.as_nanos() as u64);
            prop_assert!(units <= u64::from(count) + grown, "{units} until {end:?}");
        }
    }
}
