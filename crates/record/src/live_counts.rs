//! Adds the counters of limits up over routes, for the event stream of the page.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::limit_counters::LimitCounter;
use super::metrics::{LimitCounts, RequestMetrics};
use sluicegate_config::rules::Name;

/// The number of counters of a limit.
const COUNTERS: usize = LimitCounter::ALL.len();

/// The counts of one limit over all routes, in the order of [`counter_names`].
pub type LimitTotals = [u64; COUNTERS];

/// The requests that a limit on a route admitted, rejected, and would have rejected in shadow.
pub type LimitAnswers = [u64; 3];

/// The counters of each of [`LimitAnswers`].
const ANSWERS: [&[LimitCounter]; 3] = [
    // A limit in shadow admits in shadow.
    &[LimitCounter::Admitted, LimitCounter::ShadowAdmitted],
    &[
        LimitCounter::Refused,
        LimitCounter::Challenged,
        LimitCounter::Banned,
        LimitCounter::ConcurrencyRefused,
        LimitCounter::StoreUnavailable,
        LimitCounter::Blocked,
    ],
    &[
        LimitCounter::ShadowRefused,
        LimitCounter::ShadowRatesRefused,
    ],
];

/// Returns the names of the counters of a limit: those of the metrics, without what they have in common.
pub fn counter_names() -> [&'static str; COUNTERS] {
    LimitCounter::ALL.map(|counter| {
        let name = counter.name();
        let name = name.split_once("_limit_").map_or(name, |(_, name)| name);
        name.strip_suffix("_total").unwrap_or(name)
    })
}

/// Returns the counts of every limit that a route uses.
pub fn limit_totals(metrics: &RequestMetrics) -> BTreeMap<Name, LimitTotals> {
    let mut totals: BTreeMap<Name, LimitTotals> = BTreeMap::new();
    for LimitCounts { limit, sums, .. } in metrics.read_limits() {
        let total = totals.entry(limit).or_insert([0; COUNTERS]);
        for (total, count) in total.iter_mut().zip(sums.counts) {
            *total += count;
        }
    }
    totals
}

/// Returns the answers of each limit by route and limit.
pub fn limit_answers(metrics: &RequestMetrics) -> BTreeMap<(Name, Name), LimitAnswers> {
    let counts = metrics.read_limits().into_iter().map(|limit| {
        let sum = |counters: &[LimitCounter]| {
            let counts = counters
                .iter()
                .map(|counter| limit.sums.counts[*counter as usize]);
            counts.sum::<u64>()
        };
        (
            (Arc::clone(&limit.route), Arc::clone(&limit.limit)),
            ANSWERS.map(sum),
        )
    });
    counts.collect()
}

#[cfg(test)]
mod tests {
    use super::super::example::{Example, refused};
    use super::*;

    /// Goal: the page reads each counter by its name. Method: a request that a limit rejects; the names, and where its count is.
    #[test]
    fn a_rejection_is_counted_under_its_name() {
        let names = counter_names();
        assert_eq!(names[..3], ["admitted", "refused", "delayed"]);
        assert!(names.contains(&"shadow_rates_refused"), "{names:?}");
        let metrics = RequestMetrics::new();
        let (_, verdict) = refused();
        let route = metrics.route(&"login".into(), &["otp".into()]);
        let example = Example {
            verdict: Some(&verdict),
            route: Some(&route),
            ..Example::default()
        };
        metrics.record(&example.outcome());
        let totals = limit_totals(&metrics);
        let otp = totals.get("otp").expect("the limit of the route");
        let refused = names.iter().position(|name| *name == "refused");
        assert_eq!(otp[refused.expect("a name")], 1, "{otp:?}");
        assert_eq!(otp.iter().sum::<u64>(), 1, "{otp:?}");
        let answers = limit_answers(&metrics);
        assert_eq!(answers[&("login".into(), "otp".into())], [0, 1, 0]);
    }
}
