//! Converts `Retry-After` both ways: parses it in answers to the gateway's own requests (to an ACME server, to a collector), and rounds
//! waits up for answers to clients.

use std::time::{Duration, UNIX_EPOCH};

use http::HeaderMap;
use http::header::RETRY_AFTER;
use sluicegate_limiter::Timestamp;

/// Returns the pause in the field, RFC 9110 §10.2.3: seconds, or a date, which means none if it is past. `None` without a valid field. The
/// pause has no bound here.
pub(crate) fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    let date = date.duration_since(UNIX_EPOCH).ok()?;
    Some(Timestamp::from_secs(date.as_secs()).saturating_since(now))
}

/// Returns seconds, rounded up, so that a client that obeys `Retry-After` is never early.
pub(crate) fn whole_seconds(wait: Duration) -> u64 {
    wait.as_secs() + u64::from(wait.subsec_nanos() > 0)
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

    /// Goal: never early. Method: the edges of a second.
    #[test]
    fn waits_are_rounded_up_to_whole_seconds() {
        assert_eq!(whole_seconds(Duration::ZERO), 0);
        assert_eq!(whole_seconds(Duration::from_nanos(1)), 1);
        assert_eq!(whole_seconds(Duration::from_secs(1)), 1);
        assert_eq!(whole_seconds(Duration::from_millis(1001)), 2);
    }
}
