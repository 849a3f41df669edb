//! Writes the `RateLimit-Policy` and `RateLimit` fields in the syntax of draft-ietf-httpapi-ratelimit-headers-11.
//!
//! Both are lists of String items (RFC 9651 §3.1, §3.3.3), one item per rate: `"otp";q=5;w=10` says the quota and the window in
//! seconds, `"otp";r=0;t=7` what remains and in how many seconds more frees. A limit with several rates names each by its
//! window: `"otp-3s"`, `"otp-60s"`. Names hold only letters, digits, `_`, `-` and `.`, so nothing needs an escape.

use std::cell::RefCell;
use std::time::Duration;

use arrayvec::ArrayVec;
use bytes::Bytes;
use http::HeaderValue;
use sluicegate_limiter::{Decision, MAX_RATES, Rate, Rates, Verdict};

use super::problem::quota_exceeded;

/// What a limit writes into fields and bodies, made when its snapshot is compiled.
#[derive(Debug)]
pub struct PolicyItems {
    items: ArrayVec<PolicyItem, MAX_RATES>,
}

#[derive(Debug)]
struct PolicyItem {
    /// `"otp"` with its quotes.
    quoted: Box<str>,
    /// `"otp";q=5;w=10`.
    policy: Box<str>,
    /// The problem body when this rate refuses.
    refusal: Bytes,
}

impl PolicyItems {
    /// Those of a limit that clients do not get to see.
    pub const NONE: Self = Self {
        items: ArrayVec::new_const(),
    };

    /// The items of the limit `name` with `rates`, in their order.
    #[must_use]
    pub fn new(name: &str, rates: &Rates) -> Self {
        let items = rates
            .iter()
            .map(|rate| PolicyItem::new(&item_name(name, rate, rates.len()), rate))
            .collect();
        Self { items }
    }

    /// How the limit stands, in the syntax of `RateLimit`.
    #[must_use]
    pub fn standing(&self, decision: &Decision) -> HeaderValue {
        let mut value = Vec::new();
        self.write(decision, &mut value);
        HeaderValue::from_maybe_shared(value).expect("names and numbers are visible ASCII")
    }

    /// Appends how the limit stands, behind a comma where something stands before it.
    fn write(&self, decision: &Decision, into: &mut Vec<u8>) {
        let mut number = itoa::Buffer::new();
        for (item, standing) in self.items.iter().zip(decision.standings()) {
            if !into.is_empty() {
                into.extend_from_slice(b", ");
            }
            into.extend_from_slice(item.quoted.as_bytes());
            into.extend_from_slice(b";r=");
            into.extend_from_slice(number.format(standing.remaining).as_bytes());
            into.extend_from_slice(b";t=");
            into.extend_from_slice(number.format(whole_seconds(standing.next_free)).as_bytes());
        }
    }

    /// The problem body of a refusal by the rate at `index`.
    #[must_use]
    pub fn refusal_body(&self, index: usize) -> Bytes {
        self.items
            .get(index)
            .map(|item| item.refusal.clone())
            .unwrap_or_default()
    }
}

impl PolicyItem {
    fn new(name: &str, rate: &Rate) -> Self {
        let quoted = format!("\"{name}\"");
        Self {
            policy: format!("{quoted};q={};w={}", rate.count(), rate.period().as_secs()).into(),
            refusal: quota_exceeded(name),
            quoted: quoted.into(),
        }
    }
}

fn item_name(limit: &str, rate: &Rate, rates: usize) -> String {
    if rates == 1 {
        limit.to_owned()
    } else {
        format!("{limit}-{}s", rate.period().as_secs())
    }
}

/// The value of `RateLimit-Policy` for a route with these limits; `None` where it has none.
#[must_use]
pub fn rate_limit_policy<'a>(
    limits: impl IntoIterator<Item = &'a PolicyItems>,
) -> Option<HeaderValue> {
    let items: Vec<&str> = limits
        .into_iter()
        .flat_map(|limit| limit.items.iter().map(|item| &*item.policy))
        .collect();
    (!items.is_empty()).then(|| {
        HeaderValue::from_str(&items.join(", ")).expect("names and numbers are visible ASCII")
    })
}

/// The value of `RateLimit` for `verdict` over `limits`, which are in the verdict's order; empty where none of them is shown.
#[must_use]
pub fn rate_limit<'a>(
    limits: impl IntoIterator<Item = &'a PolicyItems>,
    verdict: &Verdict,
) -> HeaderValue {
    thread_local! {
        /// Most requests get such a value: it is written here and copied once, to its size.
        static DRAFT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    }
    DRAFT.with_borrow_mut(|draft| {
        draft.clear();
        for (limit, decision) in limits.into_iter().zip(verdict.decisions()) {
            limit.write(decision, draft);
        }
        HeaderValue::from_bytes(draft).expect("names and numbers are visible ASCII")
    })
}

/// Seconds, rounded up, so that a client that waits as told is never early.
pub(super) fn whole_seconds(wait: Duration) -> u64 {
    wait.as_secs() + u64::from(wait.subsec_nanos() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluicegate_limiter::{Ask, Capacity, Cost, Limit, Period, Seed, Timestamp};

    fn rates(numbers: &[(u32, u32)]) -> Rates {
        Rates::new(numbers.iter().map(|(count, secs)| {
            Rate::new(*count, Period::from_secs(*secs).expect("a period")).expect("a rate")
        }))
        .expect("rates")
    }

    /// Goal: the draft's syntax. Method: one limit with one rate, one with two.
    #[test]
    fn a_policy_lists_every_rate_with_quota_and_window() {
        let one = PolicyItems::new("otp", &rates(&[(5, 10)]));
        let two = PolicyItems::new("api", &rates(&[(5, 3), (20, 60)]));
        assert_eq!(
            rate_limit_policy([&one, &two]).expect("a value"),
            r#""otp";q=5;w=10, "api-3s";q=5;w=3, "api-60s";q=20;w=60"#
        );
        assert_eq!(rate_limit_policy([]), None);
    }

    /// Goal: standings in the policy's order. Method: charge once in the middle of a window.
    #[test]
    fn a_standing_says_what_remains_and_when_more_frees() {
        let numbers = rates(&[(5, 10)]);
        let items = PolicyItems::new("otp", &numbers);
        let limit = Limit::new(numbers, Capacity::new(16).expect("a capacity"));
        let mut hasher = Seed::from_bytes([1; 16]).hasher();
        hasher.part(b"client");
        let key = hasher.finish();
        let ask = Ask {
            limit: &limit,
            key,
            cost: Cost::ONE,
        };
        let verdict = sluicegate_limiter::decide(&[ask], Timestamp::from_secs(1_000_000_004));
        // The charge weighs until the end of the next window and frees when its weight falls to nothing: 6 s + 10 s.
        assert_eq!(rate_limit([&items], &verdict), r#""otp";r=4;t=16"#);
    }

    /// Goal: never early. Method: the edges of a second.
    #[test]
    fn waits_are_rounded_up_to_whole_seconds() {
        assert_eq!(whole_seconds(Duration::ZERO), 0);
        assert_eq!(whole_seconds(Duration::from_nanos(1)), 1);
        assert_eq!(whole_seconds(Duration::from_secs(1)), 1);
        assert_eq!(whole_seconds(Duration::from_millis(1001)), 2);
    }
}
