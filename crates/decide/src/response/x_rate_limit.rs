//! Decides the values of the `X-RateLimit` fields: `X-RateLimit-Limit`, `X-RateLimit-Remaining` and `X-RateLimit-Reset`.
//!
//! They have room for one rate, and a request may be checked by many: the fields show the rate nearest to rejection, since the
//! client must obey that one. For a rejected request it is the rate with the longest wait; otherwise the one with the fewest
//! requests left, and of several the one that takes longest to free one. No document defines the fields. Here `Reset` is in
//! seconds from now, as `t` of `RateLimit` is: then at least one more request fits, so a client that waits that long is not
//! rejected again.

use std::cmp::Reverse;

use http::HeaderName;
use sluicegate_limiter::{NEVER, Outcome, RateStatus, Verdict};

use crate::policy_items::PolicyItems;
use crate::retry_after::whole_seconds;

/// `X-RateLimit-Limit`
pub(super) static X_RATE_LIMIT_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
/// `X-RateLimit-Remaining`
pub(super) static X_RATE_LIMIT_REMAINING: HeaderName =
    HeaderName::from_static("x-ratelimit-remaining");
/// `X-RateLimit-Reset`
pub(super) static X_RATE_LIMIT_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// The values of the three fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XRateLimit {
    /// The count of the rate, as it is shown.
    pub limit: u64,
    /// Requests that it still admits, or what it counts instead.
    pub remaining: u64,
    /// Seconds until it admits one more, rounded up; 0 when nothing is used.
    pub reset: u64,
}

impl XRateLimit {
    /// Returns the fields of the rate nearest to rejection, of the limits shown in this style; `limits` are in the verdict's order.
    #[must_use]
    pub fn nearest<'a>(
        limits: impl IntoIterator<Item = &'a PolicyItems> + Clone,
        verdict: &Verdict,
    ) -> Option<Self> {
        let is_shown = |limit: &PolicyItems| limit.style().has_x_rate_limit();
        if !limits.clone().into_iter().any(is_shown) {
            return None;
        }
        let decisive = match verdict.outcome() {
            Outcome::Refused { ask, rate } => Some((ask, rate)),
            Outcome::Admitted => None,
        };
        let shown = limits
            .into_iter()
            .zip(verdict.decisions())
            .enumerate()
            .filter(|(_, (limit, _))| is_shown(limit));
        let statuses = shown.flat_map(|(ask, (limit, decision))| {
            let rates = decision.statuses().into_iter().enumerate();
            rates.map(move |(rate, status)| (Some((ask, rate)) != decisive, status, limit.factor()))
        });
        statuses
            .min_by_key(|(second, status, _)| {
                (*second, status.remaining, Reverse(status.next_free))
            })
            .map(|(_, status, factor)| Self::new(&status, factor))
    }

    fn new(status: &RateStatus, factor: u64) -> Self {
        // No waiting helps a request that takes more than the rate ever admits; others can come by then.
        let wait = match status.next_free < NEVER {
            true => status.next_free,
            false => status.reset,
        };
        Self {
            limit: factor.saturating_mul(status.rate.count().into()),
            remaining: factor.saturating_mul(status.remaining.into()),
            reset: whole_seconds(wait),
        }
    }

    /// Returns the fields by name.
    #[must_use]
    pub fn named(self) -> [(&'static HeaderName, u64); 3] {
        [
            (&X_RATE_LIMIT_LIMIT, self.limit),
            (&X_RATE_LIMIT_REMAINING, self.remaining),
            (&X_RATE_LIMIT_RESET, self.reset),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::super::fields::tests::{rules, verdict_after};
    use super::*;
    use sluicegate_config::rules::FieldStyle;

    const HOUR: u32 = 3_600;

    fn told(limits: &[(&[(u32, u32)], FieldStyle)], requests: usize) -> Option<(u64, u64)> {
        let limits: Vec<_> = limits
            .iter()
            .map(|(numbers, style)| rules(numbers, *style))
            .collect();
        let items: Vec<_> = limits
            .iter()
            .map(|rules| PolicyItems::new("a", rules))
            .collect();
        let verdict = verdict_after(&limits.iter().collect::<Vec<_>>(), requests);
        XRateLimit::nearest(&items, &verdict).map(|x| (x.limit, x.remaining))
    }

    /// Goal: the fields show the rate that a client must obey. Method: two limits, three rates, before and at the rejection.
    #[test]
    fn the_fields_show_the_rate_nearest_to_rejection() {
        let limits: &[(&[(u32, u32)], _)] = &[
            (&[(9, HOUR)], FieldStyle::XRateLimit),
            (&[(3, HOUR), (20, 2 * HOUR)], FieldStyle::Both),
        ];
        assert_eq!(told(limits, 1), Some((3, 2)));
        assert_eq!(told(limits, 4), Some((3, 0)));
    }

    /// Goal: limits of another style do not appear. Method: the nearest is hidden; then all are.
    #[test]
    fn a_limit_that_is_shown_otherwise_does_not_speak() {
        let hidden: (&[(u32, u32)], _) = (&[(3, HOUR)], FieldStyle::Ietf);
        assert_eq!(
            told(&[hidden, (&[(9, HOUR)], FieldStyle::Both)], 2),
            Some((9, 7))
        );
        assert_eq!(told(&[hidden, (&[(9, HOUR)], FieldStyle::None)], 2), None);
    }

    /// Goal: seconds, never early. Method: a refused request; the wait of the fields is the verdict's, rounded up.
    #[test]
    fn reset_is_when_one_more_fits() {
        let limit = rules(&[(2, 10)], FieldStyle::XRateLimit);
        let verdict = verdict_after(&[&limit], 3);
        let x = XRateLimit::nearest(&[PolicyItems::new("a", &limit)], &verdict).expect("fields");
        let wait = verdict.retry_after().expect("a refusal");
        assert_eq!((x.remaining, x.reset), (0, whole_seconds(wait)));
    }
}
