//! Tests the controller by single windows; [`super::super::adaptive_limit`] tests it against a model of a server.

use proptest::prelude::*;

use super::*;
use sluicegate_config::rules::Percent;

fn rules() -> AdaptiveConcurrencyRules {
    AdaptiveConcurrencyRules {
        min: 4,
        max: 1000,
        initial: Some(100),
        tolerance: Percent(50),
        window: Duration::from_millis(500),
    }
}

fn window(millis: u64, peak: u32) -> LatencyWindow {
    LatencyWindow {
        answered: 100,
        failed: 0,
        latency: Duration::from_millis(millis),
        peak,
    }
}

/// Returns the state after these windows.
fn after(windows: impl IntoIterator<Item = LatencyWindow>) -> GradientState {
    let start = GradientState::new(&rules());
    windows
        .into_iter()
        .fold(start, |state, window| state.next(&window, &rules()))
}

proptest! {
    /// Goal: the invariants of the limit hold whatever a server does. Method: arbitrary windows.
    #[test]
    fn a_limit_stays_in_its_bounds(
        windows in prop::collection::vec((0_u32..200, 0_u32..200, 0_u64..10_000_000, 0_u32..2000), 1..200),
    ) {
        let mut state = GradientState::new(&rules());
        for (answered, failed, micros, peak) in windows {
            let window = LatencyWindow { answered, failed, latency: Duration::from_micros(micros), peak };
            let next = state.next(&window, &rules());
            prop_assert!((4..=1000).contains(&next.limit()));
            let is_unused = f64::from(peak) < state.limit * USED;
            if is_unused && state.probe.is_none() {
                prop_assert!(next.limit <= state.limit);
            }
            state = next;
        }
    }
}

/// Goal: the limit follows the use and the latency. Method: windows of each kind after ten of a server that takes 10 ms.
#[test]
fn a_limit_grows_when_it_is_used_and_shrinks_when_the_server_slows_down() {
    let calm = after([window(10, 20); 10]);
    assert_eq!(calm.limit(), 100);
    for (next, limit) in [
        (window(10, 100), 110),
        (window(14, 100), 110),
        (window(10, 59), 100),
        (window(20, 100), 87),
        (window(1000, 100), 75),
        // Variation does not shrink a limit that is not used.
        (window(25, 57), 100),
        (window(1000, 57), 95),
        (window(1000, 3), 75),
    ] {
        assert_eq!(calm.next(&next, &rules()).limit(), limit, "{next:?}");
    }
}

/// Goal: failures are overload, a few are not, and their latency counts for nothing. Method: shares of failures.
#[test]
fn failures_are_overload() {
    let calm = after([window(10, 20); 10]);
    for (failed, limit) in [(0, 110), (11, 110), (12, 75), (1000, 75)] {
        let window = LatencyWindow {
            failed,
            ..window(10, 100)
        };
        assert_eq!(calm.next(&window, &rules()).limit(), limit, "{failed}");
    }
    let only = LatencyWindow {
        answered: 0,
        failed: 20,
        latency: Duration::ZERO,
        peak: 100,
    };
    assert_eq!(calm.next(&only, &rules()).limit(), 75);
    assert_eq!(calm.next(&only, &rules()).baseline(), calm.baseline());
}

/// Goal: a server that became slower for good keeps its limit, and is not taken for an overloaded one. Method: a server that takes three
/// times as long whatever the limit; the probe finds out, and the limit is what it was.
#[test]
fn a_slower_server_gets_its_limit_back() {
    let mut state = after([window(10, 100); 10]);
    let before = state.limit();
    let mut least = before;
    for _ in 0..=SHRINKS {
        state = state.next(&window(30, state.limit()), &rules());
        least = least.min(state.limit());
    }
    assert!(least < before / 4, "{least}");
    assert_eq!(state.limit(), before);
    assert_eq!(state.baseline(), Some(Duration::from_millis(30)));
}

/// Goal: clients that send many cheap requests lower the baseline, and thereby the limit for the others, for a few windows only. Method: a
/// flood of requests of 1 ms at a server that otherwise takes 50 ms.
#[test]
fn a_flood_of_cheap_requests_lowers_the_limit_for_a_short_time() {
    let mut state = after([window(50, 50); 20]);
    for _ in 0..100 {
        state = state.next(&window(1, 50), &rules());
    }
    let before = state.limit();
    let mut windows = 0;
    loop {
        state = state.next(&window(50, state.limit()), &rules());
        windows += 1;
        if state.limit() >= before {
            break;
        }
        assert!(windows < 2 * SHRINKS, "{state:?}");
    }
    assert_eq!(state.baseline(), Some(Duration::from_millis(50)));
}

/// Goal: a lasting overload does not become the measure of itself. Method: a server that works on twenty requests at a time, and gets a
/// hundred from the beginning.
#[test]
fn a_lasting_overload_does_not_raise_the_baseline() {
    let mut state = GradientState::new(&rules());
    for _ in 0..10 * PROBE_AFTER {
        let waiting = state.limit();
        let millis = 10 * u64::from(waiting.max(20)) / 20;
        state = state.next(&window(millis, waiting), &rules());
    }
    assert_eq!(state.baseline(), Some(Duration::from_millis(10)));
    assert!((14..=45).contains(&state.limit()), "{state:?}");
}
