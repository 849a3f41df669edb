//! Parses the times of access logs into nanoseconds since the Unix epoch.
//!
//! The calendar stands here, since a date is parsed for every line; a test holds it beside jiff's. Times before 1970, and those that a
//! number of 64 bits cannot hold, are malformed.

/// Nanoseconds of a second.
pub(crate) const SECOND: u64 = 1_000_000_000;

/// The last second of a minute: a leap second, which counts as the first of the next minute.
const LAST_SECOND: u64 = 60;

/// Nanoseconds of a digit, by the number of digits behind the point up to it.
const NANOS: [u64; 10] = [
    SECOND,
    100_000_000,
    10_000_000,
    1_000_000,
    100_000,
    10_000,
    1_000,
    100,
    10,
    1,
];

const MONTHS: [&[u8; 3]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];

/// A date and a time of day without a zone.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CivilTime {
    pub(crate) year: u64,
    pub(crate) month: u64,
    pub(crate) day: u64,
    pub(crate) hour: u64,
    pub(crate) minute: u64,
    pub(crate) second: u64,
}

impl CivilTime {
    /// Returns the seconds since the epoch, were the time in UTC.
    pub(crate) fn seconds(self) -> Option<u64> {
        let is_valid = (1970..=2500).contains(&self.year)
            && (1..=12).contains(&self.month)
            && (1..=31).contains(&self.day)
            && self.hour < 24
            && self.minute < 60
            && self.second <= LAST_SECOND;
        let of_day = self.hour * 3_600 + self.minute * 60 + self.second;
        is_valid.then(|| days(self.year, self.month, self.day) * 86_400 + of_day)
    }
}

/// Returns the days from 1970-01-01 to a date of the Gregorian calendar.
fn days(year: u64, month: u64, day: u64) -> u64 {
    // Years begin in March, so that the leap day is the last of its year.
    let year = if month <= 2 { year - 1 } else { year };
    let month = if month <= 2 { month + 9 } else { month - 3 };
    let leap_days = year / 4 - year / 100 + year / 400;
    let of_year = (153 * month + 2) / 5 + day - 1;
    // 719,468 days lie between 0000-03-01 and 1970-01-01.
    (year * 365 + leap_days + of_year).saturating_sub(719_468)
}

/// Returns the number of the month with this short name.
pub(crate) fn month(name: &[u8]) -> Option<u64> {
    Some(MONTHS.iter().position(|month| **month == name)? as u64 + 1)
}

/// Parses a time in any form that logs have: RFC 3339, that of Apache and nginx, or the time since the epoch.
pub(crate) fn in_any_form(text: &[u8]) -> Option<u64> {
    match (text.get(2), text.get(4)) {
        (Some(b'/'), _) => clf(text),
        (_, Some(b'-')) => rfc3339(text),
        _ => since_epoch(text),
    }
}

/// Parses a number of seconds, milliseconds, microseconds or nanoseconds since the epoch. The number says which of them: each is a thousand
/// times the one before, and no time of a log is as far in the past or in the future.
fn since_epoch(text: &[u8]) -> Option<u64> {
    let point = memchr::memchr(b'.', text).unwrap_or(text.len());
    match point {
        0..=11 => seconds(text),
        12..=14 => millis_since_epoch(text, point),
        15..=17 => number(text)?.checked_mul(1_000),
        _ => number(text),
    }
}

/// Parses `1646861401524.1024`, whose point is at `point`.
fn millis_since_epoch(text: &[u8], point: usize) -> Option<u64> {
    let (whole, fraction) = text.split_at_checked(point)?;
    let fraction = match fraction.strip_prefix(b".") {
        Some(digits) => fraction_of_second(digits)? / 1_000,
        None => 0,
    };
    number(whole)?.checked_mul(1_000_000)?.checked_add(fraction)
}

/// Parses digits behind the point of a second into nanoseconds; digits beyond nanoseconds are cut.
pub(crate) fn fraction_of_second(decimals: &[u8]) -> Option<u64> {
    let kept = decimals.get(..9).unwrap_or(decimals);
    Some(digits(kept)? * NANOS.get(kept.len())?)
}

/// Parses `17/May/2015:10:05:03 +0000`, the time of Apache and nginx.
pub(crate) fn clf(text: &[u8]) -> Option<u64> {
    let (seconds, rest) = clf_date(text)?;
    clf_end(seconds, rest)
}

/// Returns the time whose [`clf_date`] returned these seconds and this rest.
#[inline]
pub(crate) fn clf_end(seconds: u64, rest: &[u8]) -> Option<u64> {
    let zone = rest.strip_prefix(b" ")?;
    in_zone(seconds, zone)?.checked_mul(SECOND)
}

/// Parses `06/Feb/2009:12:14:14.655`, the time of HAProxy, as one in UTC.
pub(crate) fn clf_millis(text: &[u8]) -> Option<u64> {
    let (seconds, rest) = clf_date(text)?;
    let (nanos, rest) = fraction(rest)?;
    if !rest.is_empty() {
        return None;
    }
    seconds.checked_mul(SECOND)?.checked_add(nanos)
}

/// Parses `17/May/2015:10:05:03` into seconds, and returns what follows.
pub(crate) fn clf_date(text: &[u8]) -> Option<(u64, &[u8])> {
    let (date, rest) = text.split_at_checked(20)?;
    let punctuation = (date[2], date[6], date[11], date[14], date[17]);
    if punctuation != (b'/', b'/', b':', b':', b':') {
        return None;
    }
    let month = month(&date[3..6])?;
    let time = CivilTime {
        year: digits(&date[7..11])?,
        month,
        day: digits(&date[..2])?,
        hour: digits(&date[12..14])?,
        minute: digits(&date[15..17])?,
        second: digits(&date[18..20])?,
    };
    Some((time.seconds()?, rest))
}

/// Parses `2026-11-21T07:10:38.042Z`, RFC 3339, with a `T` or a space.
pub(crate) fn rfc3339(text: &[u8]) -> Option<u64> {
    let (seconds, rest) = rfc3339_date(text)?;
    rfc3339_end(seconds, rest)
}

/// Returns the time whose [`rfc3339_date`] returned these seconds and this rest.
#[inline]
pub(crate) fn rfc3339_end(seconds: u64, rest: &[u8]) -> Option<u64> {
    let (nanos, zone) = fraction(rest)?;
    let seconds = in_zone(seconds, zone)?;
    seconds.checked_mul(SECOND)?.checked_add(nanos)
}

/// Parses `2026-11-21T07:10:38` into seconds, and returns what follows.
pub(crate) fn rfc3339_date(text: &[u8]) -> Option<(u64, &[u8])> {
    let (date, rest) = text.split_at_checked(19)?;
    let is_separated = date[4] == b'-'
        && date[7] == b'-'
        && matches!(date[10], b'T' | b't' | b' ')
        && date[13] == b':'
        && date[16] == b':';
    if !is_separated {
        return None;
    }
    let time = CivilTime {
        year: digits(&date[..4])?,
        month: digits(&date[5..7])?,
        day: digits(&date[8..10])?,
        hour: digits(&date[11..13])?,
        minute: digits(&date[14..16])?,
        second: digits(&date[17..19])?,
    };
    Some((time.seconds()?, rest))
}

/// Parses `2019-12-04` and `21:02:31`, in UTC.
pub(crate) fn date_and_time(date: &[u8], time: &[u8]) -> Option<u64> {
    let mut text = [b'Z'; 20];
    text.get_mut(..10)?.copy_from_slice(date.get(..10)?);
    text[10] = b'T';
    let (clock, behind) = time.split_at_checked(8)?;
    text.get_mut(11..19)?.copy_from_slice(clock);
    let (nanos, rest) = fraction(behind)?;
    let is_whole = date.len() == 10 && rest.is_empty();
    is_whole.then(|| rfc3339(&text))??.checked_add(nanos)
}

/// Parses the seconds of a minute.
#[inline]
pub(crate) fn second(text: [u8; 2]) -> Option<u64> {
    digits(&text).filter(|second| *second <= LAST_SECOND)
}

/// Parses seconds in decimal, such as `1646861401.5241024`; digits beyond nanoseconds are cut.
#[inline]
pub(crate) fn seconds(text: &[u8]) -> Option<u64> {
    match text.len() {
        // As many digits as a number of 64 bits holds.
        1..19 => short_seconds(text).or_else(|| long_seconds(text)),
        _ => long_seconds(text),
    }
}

/// Parses seconds in decimal of at most 18 bytes, with at most nine digits behind the point; `None` where the text may still be seconds in
/// another form.
#[inline]
fn short_seconds(text: &[u8]) -> Option<u64> {
    let mut value = 0;
    let mut point = None;
    for (at, byte) in text.iter().enumerate() {
        let digit = byte.wrapping_sub(b'0');
        match digit {
            0..10 => value = value * 10 + u64::from(digit),
            _ if *byte == b'.' && at > 0 && point.is_none() => point = Some(at),
            _ => return None,
        }
    }
    let decimals = point.map_or(0, |point| text.len() - 1 - point);
    NANOS.get(decimals)?.checked_mul(value)
}

#[cold]
fn long_seconds(text: &[u8]) -> Option<u64> {
    let end = memchr::memchr(b'.', text).unwrap_or(text.len());
    let (whole, rest) = text.split_at(end);
    let whole = number(whole)?.checked_mul(SECOND)?;
    let (nanos, rest) = fraction(rest)?;
    // Go writes short times as 9.29675e-05; less than a millisecond is no more than that.
    match rest {
        [] => whole.checked_add(nanos),
        [b'e' | b'E', b'-', ..] => Some(0),
        _ => None,
    }
}

/// Parses milliseconds in decimal, such as `3.042`.
pub(crate) fn millis(text: &[u8]) -> Option<u64> {
    seconds(text).map(|nanos| nanos / 1_000)
}

/// Parses a number in decimal.
pub(crate) fn number(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 19 {
        return None;
    }
    digits(text)
}

fn digits(text: &[u8]) -> Option<u64> {
    text.iter().try_fold(0_u64, |value, digit| {
        let digit = digit.wrapping_sub(b'0');
        (digit < 10).then(|| value * 10 + u64::from(digit))
    })
}

/// Parses `.042`, which may be absent, into nanoseconds, and returns what follows.
#[inline]
fn fraction(text: &[u8]) -> Option<(u64, &[u8])> {
    let Some(rest) = text.strip_prefix(b".") else {
        return Some((0, text));
    };
    let end = rest
        .iter()
        .position(|byte| !byte.is_ascii_digit())
        .unwrap_or(rest.len());
    let (decimals, rest) = rest.split_at(end);
    Some((fraction_of_second(decimals)?, rest))
}

/// Returns the seconds since the epoch of a time in this zone: `Z`, `+0200` or `+02:00`.
#[inline]
fn in_zone(seconds: u64, zone: &[u8]) -> Option<u64> {
    match zone {
        b"Z" | b"z" | b"+0000" => Some(seconds),
        _ => seconds.checked_add_signed(-zone_offset(zone)?),
    }
}

/// Parses a zone, `+0200` or `+02:00`, into the seconds that it is before UTC.
pub(crate) fn zone_offset(zone: &[u8]) -> Option<i64> {
    let (sign, hours, minutes) = match zone {
        [sign, a, b, c, d] | [sign, a, b, b':', c, d] => (sign, [*a, *b], [*c, *d]),
        _ => return None,
    };
    let offset = i64::try_from(digits(&hours)? * 3_600 + digits(&minutes)? * 60).ok()?;
    match sign {
        b'+' => Some(offset),
        b'-' => Some(-offset),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Goal: each written form is the same moment. Method: one time in all of them.
    #[test]
    fn every_form_is_the_same_moment() {
        let at = 1_431_857_103 * SECOND;
        assert_eq!(clf(b"17/May/2015:10:05:03 +0000"), Some(at));
        assert_eq!(clf(b"17/May/2015:12:35:03 +0230"), Some(at));
        assert_eq!(rfc3339(b"2015-05-17T10:05:03Z"), Some(at));
        assert_eq!(rfc3339(b"2015-05-17T05:05:03.000-05:00"), Some(at));
        assert_eq!(rfc3339(b"2015-05-17 10:05:03.5Z"), Some(at + SECOND / 2));
        assert_eq!(date_and_time(b"2015-05-17", b"10:05:03"), Some(at));
        let fraction = date_and_time(b"2015-05-17", b"10:05:03.042");
        assert_eq!(fraction, Some(at + 42_000_000));
        assert_eq!(date_and_time(b"2015-05-17", b"10:05:03x"), None);
        assert_eq!(seconds(b"1431857103"), Some(at));
        assert_eq!(seconds(b"1431857103.0000000001"), Some(at));
        assert_eq!(
            clf_millis(b"17/May/2015:10:05:03.042"),
            Some(at + 42_000_000)
        );
        assert_eq!(seconds(b"0.000929675"), Some(929_675));
        assert_eq!(seconds(b"9.29675e-05"), Some(0));
        assert_eq!(millis(b"3.042"), Some(3_042_000));
        for text in [
            "17/May/2015:10:05:03 +0000",
            "2015-05-17T10:05:03Z",
            "1431857103",
            "1431857103.0",
            "1431857103000",
            "1431857103000.0",
            "1431857103000000",
            "1431857103000000000",
        ] {
            assert_eq!(in_any_form(text.as_bytes()), Some(at), "{text}");
        }
        let fraction = in_any_form(b"1431857103000.5");
        assert_eq!(fraction, Some(at + 500_000));
    }

    /// Goal: what is no time is none. Method: wrong separators, numbers out of range, cut texts.
    #[test]
    fn other_texts_are_no_times() {
        for text in [
            "",
            "-",
            "17/May/2015:10:05:03",
            "17/Mai/2015:10:05:03 +0000",
            "17/May/2015:24:05:03 +0000",
            "99/May/2015:10:05:03 +0000",
            "17/May/1915:10:05:03 +0000",
            "17/May/2015:10:05:03 0000",
            "17-May-2015:10:05:03 +0000",
        ] {
            assert_eq!(clf(text.as_bytes()), None, "{text}");
        }
        for text in [
            "2015-05-17",
            "2015-05-17T10:05:03",
            "2015-05-17T10:05:03.Y",
            "2015-13-17T10:05:03Z",
        ] {
            assert_eq!(rfc3339(text.as_bytes()), None, "{text}");
        }
        assert_eq!(seconds(b"1,5"), None);
        assert_eq!(seconds(b"99999999999999999999"), None);
    }

    proptest! {
        /// Goal: the short way to parse seconds is the long one. Method: texts that are nearly seconds, with and without an exponent.
        #[test]
        fn short_seconds_are_long_ones(text in "[0-9]{0,20}(\\.[0-9]{0,12})?([.eE-]{0,2}[0-9]{0,2})?") {
            prop_assert_eq!(seconds(text.as_bytes()), long_seconds(text.as_bytes()));
        }

        /// Goal: the calendar is jiff's. Method: any second up to the year 2500.
        #[test]
        fn dates_are_those_of_another_calendar(second in 0_i64..16_700_000_000) {
            let time = jiff::Timestamp::from_second(second).unwrap();
            let nanos = u64::try_from(second).unwrap() * SECOND;
            prop_assert_eq!(rfc3339(time.to_string().as_bytes()), Some(nanos));
            let clf_text = time.strftime("%d/%b/%Y:%H:%M:%S +0000").to_string();
            prop_assert_eq!(clf(clf_text.as_bytes()), Some(nanos));
        }
    }
}
