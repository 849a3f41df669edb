//! Steps are differences of counters, by a clock that the test moves.

use std::sync::Arc;
use std::time::Duration;

use sluicegate_base::bounds::HISTORY_STEPS;

use super::*;
use sluicegate_config::rules::Name;
use sluicegate_origin::AttemptCounts;
use sluicegate_record::{RequestTotals, RouteResults};

fn at(millis: u64) -> Timestamp {
    Timestamp::from_secs(1_800_000_000).saturating_add(Duration::from_millis(millis))
}

fn name(text: &str) -> Name {
    Arc::from(text)
}

/// Counters at so many milliseconds: of the route `login`, whose limit `otp` rejects one of ten requests, and of a server of `app`.
fn reading(millis: u64, requests: u64) -> CounterReading {
    let mut results = RouteResults::default();
    let totals: &mut RequestTotals = &mut results.totals;
    totals.all = requests;
    totals.rejected = requests / 10;
    let attempts = AttemptCounts {
        ended: requests,
        failed: requests / 5,
    };
    CounterReading {
        at: at(millis),
        routes: [(name("login"), results)].into(),
        limits: [((name("login"), name("otp")), [requests, requests / 10, 0])].into(),
        attempts: [((name("app"), "127.0.0.1:1".to_owned()), attempts)].into(),
        connections: 7,
        in_flight: 3,
    }
}

fn numbers(view: &StepView) -> Vec<u64> {
    view.steps.iter().map(|step| step.requests.all).collect()
}

/// Goal: a step is the growth within it, in order, the unfinished one last, and reads in between change nothing. Method: two steps of
/// known counters with a look in the middle of each, then an unfinished one; the whole answer, and the part since the first step.
#[test]
fn steps_are_differences_in_order() {
    let history = GatewayHistory::new(at(0));
    history.look(|| reading(5_000, 40));
    history.close_step(|| reading(10_000, 100));
    history.look(|| reading(15_000, 100));
    history.close_step(|| reading(20_000, 150));
    history.look(|| reading(21_000, 170));
    let view = history.steps(0);
    assert_eq!((view.first, numbers(&view)), (0, vec![100, 50, 20]));
    let last = view.steps[2];
    assert_eq!(
        (last.ended, last.duration),
        (at(21_000), Duration::from_secs(1))
    );
    assert_eq!(
        (last.connections, last.in_flight, last.requests.rejected),
        (7, 3, 2)
    );
    assert_eq!(
        view.limits.rows[&name("otp")],
        [[100, 10, 0], [50, 5, 0], [20, 2, 0]]
    );
    assert_eq!(
        view.origins.rows[&name("app")],
        [[100, 20], [50, 10], [20, 4]]
    );
    let later = history.steps(millis(at(10_000)));
    assert_eq!((later.first, numbers(&later)), (1, vec![50, 20]));
    assert_eq!(later.limits.rows[&name("otp")].len(), 2);
    assert_eq!(history.position().steps, 2);
}

/// Goal: memory is bounded and an hour is kept. Method: two hours of steps with one request each.
#[test]
fn an_hour_is_kept() {
    let history = GatewayHistory::new(at(0));
    for step in 1..=2 * HISTORY_STEPS as u64 {
        history.close_step(|| reading(step * 10_000, step));
    }
    let view = history.steps(0);
    assert_eq!(view.steps.len(), HISTORY_STEPS + 1);
    assert_eq!(view.first, HISTORY_STEPS as u64);
    assert!(
        numbers(&view)[..HISTORY_STEPS]
            .iter()
            .all(|count| *count == 1)
    );
    assert_eq!(view.limits.rows[&name("otp")].len(), HISTORY_STEPS + 1);
}

/// Goal: a late task, or a machine that slept, makes no false peak. Method: a step that is closed an hour late, and one whose time has gone
/// back a little; the durations.
#[test]
fn a_late_tick_makes_a_long_step() {
    let history = GatewayHistory::new(at(0));
    history.close_step(|| reading(10_000, 100));
    history.close_step(|| reading(3_610_000, 200));
    history.close_step(|| reading(3_609_999, 200));
    history.close_step(|| reading(3_620_000, 300));
    let steps = history.steps(0).steps;
    let seconds = |index: usize| steps[index].duration.as_secs_f64();
    assert_eq!((steps[1].requests.all, seconds(1)), (100, 3_600.0));
    assert_eq!((steps[2].requests.all, seconds(2)), (0, 0.0));
    assert_eq!((steps[3].requests.all, seconds(3)), (100, 10.001));
}

/// Goal: a reload neither hides requests nor invents any. Method: a route, its limit and a server that are removed, come again at zero, and
/// are counted from there; a limit that a reload adds.
#[test]
fn parts_that_a_reload_removes_and_adds_are_counted_once() {
    let history = GatewayHistory::new(at(0));
    history.look(|| reading(1_000, 100));
    let empty = CounterReading {
        at: at(2_000),
        ..CounterReading::default()
    };
    history.look(|| empty);
    let mut again = reading(3_000, 30);
    again.limits.insert((name("login"), name("new")), [5, 0, 0]);
    history.look(|| again);
    // Removed and added again between two readings.
    history.look(|| reading(4_000, 20));
    let view = history.steps(0);
    assert_eq!(numbers(&view), [150]);
    assert_eq!(view.limits.rows[&name("otp")], [[150, 15, 0]]);
    assert_eq!(view.limits.rows[&name("new")], [[5, 0, 0]]);
    assert_eq!(view.origins.rows[&name("app")], [[150, 30]]);
}

/// Goal: a page gets the marks that it lacks. Method: two marks, read since a time between them, and a third that is counted to the first.
#[test]
fn marks_are_those_since_a_time() {
    let history = GatewayHistory::new(at(0));
    history.mark(at(1_000), MarkKind::Ban, "otp", "one");
    history.mark(at(3_000), MarkKind::Reload, "", "reloaded");
    let texts = |since| -> Vec<String> {
        let marks = history.marks(since).into_iter();
        marks
            .map(|mark| format!("{} {}", mark.text, mark.count))
            .collect()
    };
    assert_eq!(texts(0), ["one 1", "reloaded 1"]);
    assert_eq!(texts(millis(at(2_000))), ["reloaded 1"]);
    history.mark(at(4_000), MarkKind::Ban, "otp", "one");
    assert_eq!(texts(millis(at(3_000))), ["one 2"]);
    assert_eq!(history.position().events, 3);
}
