//! Compares the guards of two routes: refusals, lists of clients, limits, and the size of bodies. A route to another origin, or with
//! another answer, is no guard of the same requests.

use crate::model::{Limit, LimitAction, LimitAlgorithm, Route};

/// Returns true if requests that one route takes from another get the same answer, behind guards as strict as those of that one.
pub(crate) fn covers(route: &Route, other: &Route, limits: &[Limit]) -> bool {
    if route.action.is_refusal() {
        return true;
    }
    let is_limited = |name: &String| {
        let mut own = route.limits.iter();
        own.any(|own| own == name || is_stricter(own, name, limits))
    };
    route.action == other.action
        && other.client.is_empty()
        && other.limits.iter().all(is_limited)
        && has_all(&route.block, &other.block)
        && (other.limits.is_empty() || has_all(&other.allow, &route.allow))
        && (other.max_body.is_none() || route.max_body == other.max_body)
}

fn has_all(all: &[String], some: &[String]) -> bool {
    some.iter().all(|it| all.contains(it))
}

/// Returns true if one limit admits no more requests of a key than the other.
fn is_stricter(name: &str, other: &str, limits: &[Limit]) -> bool {
    let find = |name: &str| limits.iter().find(|it| it.name == name);
    let (Some(limit), Some(other)) = (find(name), find(other)) else {
        return false;
    };
    let is_comparable = limit.action == LimitAction::Reject
        && limit.concurrency.is_none()
        && other.concurrency.is_none()
        && (&limit.key, limit.on_missing, limit.count_if)
            == (&other.key, other.on_missing, other.count_if);
    let seconds = |limit: &Limit| seconds(&limit.rate.1).map(u128::from);
    let (Some(period), Some(other_period)) = (seconds(limit), seconds(other)) else {
        return false;
    };
    let rate = u128::from(limit.rate.0) * other_period;
    is_comparable && rate <= u128::from(other.rate.0) * period && at_once(limit) <= at_once(other)
}

/// Returns the most requests that a limit admits at once.
fn at_once(limit: &Limit) -> u64 {
    match limit.algorithm {
        LimitAlgorithm::Gcra(burst) | LimitAlgorithm::TokenBucket(burst) => burst,
        LimitAlgorithm::LeakyBucket(queue, _) => queue.saturating_add(1),
        LimitAlgorithm::SlidingWindow | LimitAlgorithm::Exact => limit.rate.0,
    }
}

/// Returns the length of a period such as `minute` or `10s`; `None` where it is none of whole seconds.
fn seconds(period: &str) -> Option<u64> {
    let begin = period.find(|c: char| !c.is_ascii_digit())?;
    let count: u64 = match &period[..begin] {
        "" => 1,
        digits => digits.parse().ok()?,
    };
    let unit = match &period[begin..] {
        "s" | "second" => 1,
        "m" | "minute" => 60,
        "h" | "hour" => 3600,
        "d" | "day" => 86_400,
        _ => return None,
    };
    count.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a limit covers another one only if it admits no more. Method: pairs that differ in rate, burst, period and key.
    #[test]
    fn a_stricter_limit_covers_a_laxer_one() {
        let limit = |name: &str, rate: (u64, &str), burst| Limit {
            name: name.to_owned(),
            remarks: crate::model::TableRemarks::default(),
            key: vec![crate::model::KeyPart::ClientIp],
            on_missing: None,
            rate: (rate.0, rate.1.to_owned()),
            algorithm: LimitAlgorithm::Gcra(burst),
            action: LimitAction::Reject,
            capacity: None,
            concurrency: None,
            status: None,
            count_if: None,
        };
        let mut limits = vec![
            limit("login", (5, "minute"), 4),
            limit("all", (1, "second"), 10),
            limit("burst", (1, "hour"), 11),
            limit("odd", (1, "500ms"), 1),
            limit("host", (1, "second"), 10),
        ];
        limits[4].key = vec![crate::model::KeyPart::Host];
        assert!(is_stricter("login", "all", &limits));
        for (name, other) in [
            ("all", "login"),
            ("burst", "all"),
            ("odd", "all"),
            ("login", "host"),
            ("login", "absent"),
        ] {
            assert!(!is_stricter(name, other, &limits), "{name}, {other}");
        }
    }
}
