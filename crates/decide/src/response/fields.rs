//! Writes the `RateLimit-Policy` and `RateLimit` fields in the syntax of draft-ietf-httpapi-ratelimit-headers-11.
//!
//! Both are lists of String items (RFC 9651 §3.1, §3.3.3), one item per rate: `"otp";q=5;w=10` has the quota and the window in
//! seconds, `"otp";r=0;t=7` the remaining quota and the seconds until more frees. A limit with several rates names each by its
//! window: `"otp-3s"`, `"otp-60s"`. Names contain only letters, digits, `_`, `-` and `.`, so nothing needs an escape. Limits
//! with another style, or none, have no item.

use std::cell::RefCell;

use http::{HeaderName, HeaderValue};
use sluicegate_limiter::Verdict;

use super::x_rate_limit::XRateLimit;
use crate::policy_items::PolicyItems;

/// `RateLimit`
pub static RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
/// `RateLimit-Policy`
pub static RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// The fields of a response about the limits of its request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LimitFields {
    /// `RateLimit-Policy`; `None` where no limit has this style.
    pub policy: Option<HeaderValue>,
    /// `RateLimit`; `None` where no limit has this style.
    pub status: Option<HeaderValue>,
    /// The `X-RateLimit` fields; `None` where no limit has this style.
    pub x: Option<XRateLimit>,
}

impl LimitFields {
    /// Returns the fields for `verdict` over `limits`, which are in the verdict's order; `policy` is the result of
    /// [`rate_limit_policy`] for them.
    #[must_use]
    pub fn new<'a>(
        policy: Option<HeaderValue>,
        limits: impl IntoIterator<Item = &'a PolicyItems> + Clone,
        verdict: &Verdict,
    ) -> Self {
        Self {
            policy,
            status: rate_limit(limits.clone(), verdict, |text| {
                HeaderValue::from_bytes(text).expect("names and numbers are visible ASCII")
            }),
            x: XRateLimit::nearest(limits, verdict),
        }
    }
}

/// Returns the value of `RateLimit-Policy` for a route with these limits; `None` where none has this style.
#[must_use]
pub fn rate_limit_policy<'a>(
    limits: impl IntoIterator<Item = &'a PolicyItems>,
) -> Option<HeaderValue> {
    let items: Vec<&str> = limits
        .into_iter()
        .filter(|limit| limit.style().has_ietf())
        .flat_map(PolicyItems::policies)
        .collect();
    (!items.is_empty()).then(|| {
        HeaderValue::from_str(&items.join(", ")).expect("names and numbers are visible ASCII")
    })
}

/// Passes the value of `RateLimit` for `verdict` over `limits`, which are in the verdict's order, to `take`, and returns its result; `None`
/// where no limit has this style.
pub fn rate_limit<'a, T>(
    limits: impl IntoIterator<Item = &'a PolicyItems>,
    verdict: &Verdict,
    take: impl FnOnce(&[u8]) -> T,
) -> Option<T> {
    thread_local! {
        /// Most requests need such a value: it is written here and copied once.
        static DRAFT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    }
    DRAFT.with_borrow_mut(|draft| {
        draft.clear();
        for (limit, decision) in limits.into_iter().zip(verdict.decisions()) {
            if limit.style().has_ietf() {
                limit.write_status(decision, draft);
            }
        }
        (!draft.is_empty()).then(|| take(draft))
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;
    use sluicegate_config::rules::{
        CostRules, CountedRequests, FieldStyle, KeyPart, KeyTemplate, LimitRules,
    };
    use sluicegate_config::{Action, Share};
    use sluicegate_limiter::{
        Algorithm, Alignment, Ask, Capacity, Cost, Limit, Period, Policy, Rate, Rates, Refill,
        Seed, Timestamp,
    };

    pub(in crate::response) fn rules(numbers: &[(u32, u32)], headers: FieldStyle) -> LimitRules {
        let rates = Rates::new(numbers.iter().map(|(count, secs)| {
            Rate::new(*count, Period::from_secs(*secs).expect("a period")).expect("a rate")
        }));
        LimitRules {
            key: KeyTemplate(vec![KeyPart::Global]),
            on_missing: None,
            overrides: None,
            tier: None,
            policy: Policy::from(rates.expect("rates")),
            capacity: Capacity::new(16).expect("a capacity"),
            headers,
            refusal: None,
            cost: CostRules::Fixed(Cost::ONE),
            count_if: None,
            count: CountedRequests::All,
            action: Action::Reject,
            activation: None,
            retry_jitter: std::time::Duration::ZERO,
            enforce: Share::ALL,
            shadow_rates: None,
            ban: None,
            concurrency: None,
            shared: None,
        }
    }

    /// Returns the value of `RateLimit`.
    fn value<'a>(
        limits: impl IntoIterator<Item = &'a PolicyItems>,
        verdict: &Verdict,
    ) -> Option<HeaderValue> {
        rate_limit(limits, verdict, |text| {
            HeaderValue::from_bytes(text).expect("visible ASCII")
        })
    }

    /// Returns the verdict over the last of `times` requests at one moment, each checked by all of `limits`.
    pub(in crate::response) fn verdict_after(limits: &[&LimitRules], times: usize) -> Verdict {
        let limits: Vec<Limit> = limits
            .iter()
            .map(|rules| Limit::new(rules.policy.clone(), rules.capacity))
            .collect();
        let key = Seed::from_bytes([1; 16]).hasher().part(b"client").finish();
        let asks: Vec<Ask<'_>> = limits
            .iter()
            .map(|limit| Ask {
                limit,
                key,
                cost: Cost::ONE,
                payer: None,
            })
            .collect();
        let decide = || sluicegate_limiter::decide(&asks, Timestamp::from_secs(1_000_000_004));
        (1..times).for_each(|_| drop(decide()));
        decide()
    }

    /// Goal: the draft's syntax. Method: one limit with one rate, one with two, one with another style.
    #[test]
    fn a_policy_lists_every_rate_with_quota_and_window() {
        let one = PolicyItems::new("otp", &rules(&[(5, 10)], FieldStyle::Ietf));
        let two = PolicyItems::new("api", &rules(&[(5, 3), (20, 60)], FieldStyle::Both));
        let hidden = PolicyItems::new("x", &rules(&[(1, 1)], FieldStyle::XRateLimit));
        assert_eq!(
            rate_limit_policy([&one, &hidden, &two]).expect("a value"),
            r#""otp";q=5;w=10, "api-3s";q=5;w=3, "api-60s";q=20;w=60"#
        );
        assert_eq!(rate_limit_policy([&hidden]), None);
    }

    /// Goal: states in the policy's order. Method: charge once in the middle of a window.
    #[test]
    fn a_status_says_what_remains_and_when_more_frees() {
        let shown = rules(&[(5, 10)], FieldStyle::Ietf);
        let hidden = rules(&[(7, 10)], FieldStyle::None);
        let items = [&hidden, &shown].map(|rules| PolicyItems::new("otp", rules));
        let verdict = verdict_after(&[&hidden, &shown], 1);
        // The window ends in 6 s; a moment later the charge weighs less than one, which counts as nothing.
        assert_eq!(
            value(&items, &verdict).expect("a value"),
            r#""otp";r=4;t=7"#
        );
        assert_eq!(value(&items[..1], &verdict), None);
    }

    proptest! {
        /// Goal: no field says that more frees later than a window from now. Method: counts and windows under each algorithm, of
        /// several units at a time, at moments within a millisecond, until a rejection and once more; `t` and `w` as they are
        /// written.
        #[test]
        fn no_status_is_longer_than_its_window(
            numbers in proptest::collection::btree_map(1u32..200, 1u32..40, 1..=3),
            algorithm in 0usize..7,
            units in 1u32..4,
            start in 1_000_000_000_000_000_000u64..1_000_000_900_000_000_000,
            pause in 0u64..3_000_000_000,
        ) {
            let numbers: Vec<_> = numbers.into_iter().map(|(secs, count)| (count, secs)).collect();
            let rules = rules(&numbers, FieldStyle::Ietf);
            let algorithm = [
                Algorithm::Exact,
                Algorithm::SlidingWindow,
                Algorithm::FixedWindow(Alignment::Epoch),
                Algorithm::FixedWindow(Alignment::FirstRequest),
                Algorithm::FixedWindow(Alignment::Key),
                Algorithm::TokenBucket { burst: None, refill: Refill::Greedy },
                Algorithm::Gcra { burst: None },
            ][algorithm].clone();
            let Ok(policy) = Policy::new(algorithm, rules.policy.rates().clone()) else {
                return Ok(());
            };
            let limit = Limit::new(policy, rules.capacity);
            let items = PolicyItems::new("otp", &rules);
            let ask = Ask {
                limit: &limit,
                key: Seed::from_bytes([1; 16]).hasher().part(b"client").finish(),
                cost: Cost::new(units).expect("a cost"),
                payer: None,
            };
            for turn in 0..50 {
                let verdict = sluicegate_limiter::decide(&[ask], Timestamp::from_nanos(start + turn * pause));
                let field = value([&items], &verdict).expect("a value");
                let field = field.to_str().expect("ASCII").to_owned();
                for (item, (_, window)) in field.split(", ").zip(&numbers) {
                    let wait: u32 = item.rsplit_once(";t=").expect("a wait").1.parse().expect("seconds");
                    prop_assert!(wait <= *window, "{field}");
                }
            }
        }
    }
}
