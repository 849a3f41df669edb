//! Converts `Retry-After` both ways: parses it in answers to the gateway's own requests (to an ACME server, to a collector), and rounds
//! waits up, or spreads them, for answers to clients.

use std::time::{Duration, UNIX_EPOCH};

use http::HeaderMap;
use http::header::RETRY_AFTER;
use sluicegate_limiter::Timestamp;

/// Returns the pause in the field, RFC 9110 §10.2.3: seconds, or a date, which means none if it is past. `None` without a valid field. The
/// pause has no bound here.
pub fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    let date = date.duration_since(UNIX_EPOCH).ok()?;
    Some(Timestamp::from_secs(date.as_secs()).saturating_since(now))
}

/// Returns seconds, rounded up, so that a client that obeys `Retry-After` is never early.
pub fn whole_seconds(wait: Duration) -> u64 {
    wait.as_secs() + u64::from(wait.subsec_nanos() > 0)
}

/// Returns a time of less than `most`. It depends on `of` alone, and any two values get unrelated times: the finalizer of SplitMix64
/// (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014) mixes its bits.
pub fn jitter(most: Duration, of: u64) -> Duration {
    let mixed = (of ^ (of >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    let share = u128::from(mixed ^ (mixed >> 31));
    // Less than `most`, whose nanoseconds fit in 64 bits for half a millennium.
    let nanos = u64::try_from((most.as_nanos() * share) >> 64);
    Duration::from_nanos(nanos.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: both forms of Retry-After are read. Method: RFC 9110's own example, read a minute before and after, and invalid values.
    #[test]
    fn retry_after_is_seconds_or_a_date() {
        const DATE: u64 = 784_111_777;
        let asked = |text: &str, now: u64| {
            let headers = HeaderMap::from_iter([(RETRY_AFTER, text.parse().unwrap())]);
            retry_after(&headers, Timestamp::from_secs(now)).map(|pause| pause.as_secs())
        };
        assert_eq!(asked("120", 0), Some(120));
        assert_eq!(asked("Sun, 06 Nov 1994 08:49:37 GMT", DATE - 60), Some(60));
        assert_eq!(asked("Sun, 06 Nov 1994 08:49:37 GMT", DATE + 60), Some(0));
        assert_eq!(asked("soon", 0), None);
        assert_eq!(asked("-1", 0), None);
    }

    /// Goal: clients that were rejected together come back evenly spread. Method: times of consecutive values, in ten parts.
    #[test]
    fn jitter_is_spread_evenly() {
        let most = Duration::from_secs(10);
        let mut parts = [0; 10];
        for of in 0..10_000 {
            parts[jitter(most, of).as_secs() as usize] += 1;
        }
        assert!(
            parts.iter().all(|part| (900..1100).contains(part)),
            "{parts:?}"
        );
        assert_eq!(jitter(Duration::ZERO, 7), Duration::ZERO);
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
