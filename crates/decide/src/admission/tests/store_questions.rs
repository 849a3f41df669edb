//! A decision that asks a store goes on with any answer, and refunds what it charged when nobody answers.

use sluicegate_config::rules::StoreSeed;
use sluicegate_limiter::{Decision, RemoteOutcome, RemoteState};

use super::*;
use crate::store::{
    ChargeResult, StoreAnswer, StoreAskResult, StoreCall, StoreCharge, StoreFailure,
};

/// A limit that the store decides, and that admits nothing without it.
fn strict() -> String {
    format!("{FIVE}\nstore = \"shared-strict\"\non_store_failure = \"closed\"")
}

/// Returns the limits of a route, in this order.
fn bench(limits: &[(&str, &str)]) -> Bench {
    let names: Vec<&str> = limits.iter().map(|(name, _)| *name).collect();
    Bench::with_store_seed(limits, &names, Some(StoreSeed([7; 16])))
}

fn begin(bench: &Bench) -> LimitProgress<'_> {
    let mut missing = MissingKeys::default();
    let charging = ChargeTiming::AtOnce;
    bench.asked(|facts| evaluate(&bench.route, facts, &bench.seed, charging, &mut missing))
}

/// Returns the question that a decision ends with.
fn question(progress: LimitProgress<'_>) -> Box<StoreQuestion<'_>> {
    match progress {
        LimitProgress::AskStore(question) => question,
        LimitProgress::Decided(admission) => unreachable!("{admission:?}"),
    }
}

fn decided(progress: LimitProgress<'_>) -> Admission {
    match progress {
        LimitProgress::Decided(admission) => admission,
        LimitProgress::AskStore(_) => unreachable!("the store has answered"),
    }
}

/// Returns the answer of a store that charges each ask of the call, or none since the first rate of each refuses.
fn answer(call: &StoreCall<'_>, charge_result: ChargeResult, now: Timestamp) -> StoreAnswer {
    let results = call.asks.iter().map(|ask| {
        let state = RemoteState::default();
        let is_charged = charge_result == ChargeResult::Charged;
        let outcome = match is_charged {
            true => RemoteOutcome::Charged(ask.cost),
            false => RemoteOutcome::NotCharged {
                cost: ask.cost,
                refusing: 1,
            },
        };
        StoreAskResult {
            decision: Decision::remote(ask.policy, &state, outcome, now),
            charge: is_charged.then(|| StoreCharge::new(ask, state.clone(), now)),
            state,
        }
    });
    StoreAnswer {
        now,
        charge_result,
        results: results.collect(),
        unreadable: 0,
    }
}

/// Answers the question so.
fn answered<'a>(
    question: Box<StoreQuestion<'a>>,
    charge_result: ChargeResult,
    bench: &Bench,
) -> LimitProgress<'a> {
    let answer = answer(&question.call(), charge_result, bench.now);
    question.answer(Ok(answer), bench.now)
}

/// Goal: limits of this gateway are charged before the store is asked; only an answer that charges keeps that. Method: each answer, each
/// failure of the call, and no answer at all.
#[test]
fn a_question_holds_what_was_charged_here() {
    let bench = bench(&[("a", FIVE), ("b", &strict())]);
    let left_here = || bench.left()[0];
    let asked = question(begin(&bench));
    assert_eq!((left_here(), asked.call().asks.len()), (4, 1));
    drop(asked);
    assert_eq!(left_here(), 5, "no answer");
    for failure in [StoreFailure::NotSent, StoreFailure::Unknown] {
        let rejected = decided(question(begin(&bench)).answer(Err(failure), bench.now));
        let Admission::Rejected(Rejection::ByLimit(by), _) = rejected else {
            unreachable!("{rejected:?}")
        };
        assert_eq!(
            (by.limit, by.reason),
            (1, RejectionReason::StoreUnavailable)
        );
        assert_eq!(left_here(), 5, "{failure:?}");
    }
    let rejected = decided(answered(
        question(begin(&bench)),
        ChargeResult::NotCharged,
        &bench,
    ));
    let Admission::Rejected(Rejection::ByLimit(by), Some(_)) = rejected else {
        unreachable!("{rejected:?}")
    };
    assert_eq!((by.limit, by.reason), (1, RejectionReason::RateLimited(0)));
    assert_eq!(left_here(), 5, "the store refuses");
    let admitted = decided(answered(
        question(begin(&bench)),
        ChargeResult::Charged,
        &bench,
    ));
    assert!(matches!(admitted, Admission::Admitted(..)), "{admitted:?}");
    drop(admitted);
    assert_eq!(left_here(), 4, "the store charges");
}

/// Goal: a limit in shadow is asked after the others are charged, and rejects nobody; a request that is dropped meanwhile is refunded.
/// Method: one that the store decides beside one of this gateway, with each answer and with none.
#[test]
fn a_limit_in_shadow_asks_its_store_last() {
    let shadow = format!("{}\naction = \"shadow\"", strict());
    let bench = bench(&[("a", FIVE), ("b", &shadow)]);
    drop(question(begin(&bench)));
    assert_eq!(bench.left()[0], 5, "no answer");
    for (result, event) in [
        (ChargeResult::Charged, LimitEvent::ShadowAdmitted),
        (ChargeResult::NotCharged, LimitEvent::ShadowRefused),
    ] {
        let admission = decided(answered(question(begin(&bench)), result, &bench));
        let Admission::Admitted(_, Some(report)) = admission else {
            unreachable!("{admission:?}")
        };
        let details = report.details.expect("it is not plain");
        let expected = LimitNote { limit: 1, event };
        assert!(details.notes.contains(&expected), "{:?}", details.notes);
    }
    assert_eq!(bench.left()[0], 3, "two requests passed");
}

/// Goal: a rejection that is known here asks no store. Method: a limit of this gateway without room beside one that the store decides.
#[test]
fn a_request_that_is_rejected_here_asks_no_store() {
    let bench = bench(&[("a", FIVE), ("b", &strict())]);
    for _ in 0..5 {
        _ = sluicegate_limiter::decide(&[bench.check(0).ask], bench.now);
    }
    let rejected = decided(begin(&bench));
    let Admission::Rejected(Rejection::ByLimit(by), _) = rejected else {
        unreachable!("{rejected:?}")
    };
    assert_eq!(by.limit, 0);
}
