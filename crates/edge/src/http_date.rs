//! Makes the value of `Date`, RFC 9110 §6.6.1, once a second in each thread.

use std::cell::RefCell;
use std::time::{Duration, UNIX_EPOCH};

use http::HeaderValue;
use sluicegate_base::clock;

/// A date, and its second since the Unix epoch.
struct LatestDate {
    second: u64,
    value: HeaderValue,
}

impl LatestDate {
    fn at(second: u64) -> Self {
        let text = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(second));
        Self {
            second,
            value: HeaderValue::from_str(&text).expect("names and digits are visible ASCII"),
        }
    }
}

thread_local! {
    static LATEST: RefCell<LatestDate> = RefCell::new(LatestDate::at(0));
}

/// Passes the current time as the value of `Date` to `take`, and returns its result.
pub(crate) fn with_http_date<T>(take: impl FnOnce(&HeaderValue) -> T) -> T {
    let second = clock::wall().as_secs();
    LATEST.with_borrow_mut(|latest| {
        if latest.second != second {
            *latest = LatestDate::at(second);
        }
        take(&latest.value)
    })
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    /// Goal: the date is that of the wall clock, and goes on with it. Method: the time before and behind, at first and a second later.
    #[test]
    fn the_date_goes_on() {
        // Without its fraction, which the date has not.
        let now = || UNIX_EPOCH + Duration::from_secs(clock::wall().as_secs());
        let date = || -> SystemTime {
            let text = with_http_date(|value| value.to_str().unwrap().to_owned());
            httpdate::parse_http_date(&text).unwrap()
        };
        let first = now();
        while now() == first {
            let (before, found, behind) = (now(), date(), now());
            assert!(before <= found && found <= behind);
        }
        assert!(date() > first);
    }

    /// Goal: a date has the form that HTTP prefers, RFC 9110 §5.6.7. Method: the example there.
    #[test]
    fn a_date_has_the_preferred_form() {
        let date = LatestDate::at(784_111_777);
        assert_eq!(date.value, "Sun, 06 Nov 1994 08:49:37 GMT");
    }
}
