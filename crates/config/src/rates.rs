//! Owns how rates are written: `"5 per 10m"`, `"20 per minute"`.
//!
//! Periods are whole seconds, since the `RateLimit` fields cannot say less to a client, and counts are what a packed state holds.

use sluicegate_limiter::{MAX_COUNT, MAX_PERIOD, Period, Rate, Rates};

use super::field::{KeyField, all, quoted};
use super::form::ValueConstraint;
use super::problem::ParseError;
use super::units::{self, ShownDuration};

/// Most rates of a limit.
const MOST: usize = sluicegate_limiter::MAX_RATES;

/// One rate.
pub(super) fn rate(text: &str) -> Result<Rate, ParseError> {
    let wrong = || {
        ParseError::with_advice(
            format!("{} is not a rate", quoted(text)),
            "write a count and a period: \"5 per 10s\", \"20 per minute\", \"1000 per 1h\"",
        )
    };
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let &[count, "per", period] = words.as_slice() else {
        return Err(slashed(text).unwrap_or_else(wrong));
    };
    if count.is_empty() || !count.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(wrong());
    }
    let secs = period_secs(count, period)?;
    let period = Period::from_secs(secs).map_err(|_| {
        let longest = ShownDuration(std::time::Duration::from_secs(MAX_PERIOD.into()));
        let message = format!("the period of {} is out of range", quoted(text));
        ParseError::with_advice(message, format!("the least is 1s, the most {longest}"))
    })?;
    let count: u32 = count.parse().unwrap_or(u32::MAX);
    if count == 0 {
        return Err(ParseError::with_advice(
            "a rate of 0 would admit nothing",
            "to block a route, give it respond = { status = 403 } instead of an origin",
        ));
    }
    Rate::new(count, period).map_err(|_| {
        let message = format!("the count of {} is out of range", quoted(text));
        ParseError::with_advice(
            message,
            format!("the most is {MAX_COUNT}; choose a shorter period"),
        )
    })
}

/// The `rates` of a limit: up to four, in any order, with distinct periods.
pub(super) fn rates(field: &KeyField<'_>) -> Option<Rates> {
    let elements = field.list()?;
    if elements.len() > MOST {
        let message = format!("{} rates are too many", elements.len());
        field.refuse::<()>(message, format!("keep the {MOST} that matter"));
    }
    let read = all(elements.iter().map(|element| {
        element.note(|| ValueConstraint::Rate);
        element.parsed(rate).map(|rate| element.placed(rate))
    }))?;
    let mut distinct = true;
    for (at, rate) in read.iter().enumerate() {
        let same = |earlier: &&_| {
            let earlier: &super::report::PlacedValue<Rate> = earlier;
            earlier.value.period() == rate.value.period()
        };
        if let Some(earlier) = read[..at].iter().find(same) {
            let least = earlier.value.count().min(rate.value.count());
            let period = ShownDuration(std::time::Duration::from_secs(
                rate.value.period().as_secs().into(),
            ));
            field.report.error(
                &rate.place,
                format!("there is a rate per {period} already"),
                format!("keep the one that counts: \"{least} per {period}\""),
            );
            distinct = false;
        }
    }
    if !distinct || elements.len() > MOST {
        return None;
    }
    for rate in &read {
        let mut others = read.iter().filter(|other| other.place != rate.place);
        let why = others.find_map(|other| Some((other, pointless(&rate.value, &other.value)?)));
        if let Some((other, why)) = why {
            let rate_text = show(&rate.value);
            let other = show(&other.value);
            field.report.warning(
                &rate.place,
                format!("{rate_text} is pointless beside {other}: {why}"),
                "leave it out, or lower its count",
            );
        }
    }
    match Rates::new(read.iter().map(|rate| rate.value)) {
        Ok(rates) => Some(rates),
        Err(error) => field.refuse(error.to_string(), field.advice()),
    }
}

/// Why the first rate refuses nothing that the second admits.
fn pointless(rate: &Rate, other: &Rate) -> Option<&'static str> {
    let count = u64::from(rate.count());
    let secs = rate.period().as_secs();
    let others = u64::from(other.count());
    let other_secs = other.period().as_secs();
    if secs < other_secs {
        return (count >= others).then_some("the longer period admits no more in all");
    }
    // In a period as long as several of the other's, the other admits its count in each of them, begun ones included.
    let most = others * u64::from(secs.div_ceil(other_secs));
    (secs > other_secs && count >= most).then_some("the shorter period never lets so many through")
}

/// Returns the rate in the words of the configuration, in quotes.
pub(super) fn show(rate: &Rate) -> String {
    let period = ShownDuration(std::time::Duration::from_secs(
        rate.period().as_secs().into(),
    ));
    format!("\"{} per {period}\"", rate.count())
}

/// `5/s`, `5 per 10 seconds` and `5 requests per 10s` are what other programs take.
fn slashed(text: &str) -> Option<ParseError> {
    if text.starts_with('-') {
        return None;
    }
    let words = text.replace(['/', '-'], " ").replace(" per ", " ");
    let mut words: Vec<&str> = words.split_ascii_whitespace().collect();
    if words.len() > 2 && COUNTED.contains(&words[1]) {
        words.remove(1);
    }
    let (count, number, unit) = match *words.as_slice() {
        [count, period] => {
            let unit = period.trim_start_matches(|digit: char| digit.is_ascii_digit());
            let number = &period[..period.len() - unit.len()];
            (count, if number.is_empty() { "1" } else { number }, unit)
        }
        [count, number, unit] => (count, number, unit),
        _ => return None,
    };
    let (count, rest) = units::digits(count)?;
    let (number, more) = units::digits(number)?;
    // nginx writes 5r/s.
    let is_count = rest == "r" || rest.is_empty() || COUNTED.contains(&rest);
    if !is_count || !more.is_empty() || unit.starts_with("ms") {
        return None;
    }
    let is_month = unit.starts_with("mo");
    let period = match unit.chars().next()? {
        _ if is_month && number == 1 => "month".to_owned(),
        _ if is_month => {
            return Some(ParseError::with_advice(
                format!("the period of {} is out of range", quoted(text)),
                format!("the most is a month: \"{count} per month\""),
            ));
        }
        'w' => format!("{}d", number.checked_mul(7)?),
        letter if "smhd".contains(letter) => format!("{number}{letter}"),
        _ => return None,
    };
    Some(ParseError::with_advice(
        format!("{} is not a rate", quoted(text)),
        format!("write \"{count} per {period}\""),
    ))
}

/// Words between the count of a rate and its period.
const COUNTED: [&str; 6] = ["req", "reqs", "request", "requests", "calls", "times"];

/// Periods that have a name, in seconds.
const NAMED: [(&str, u64); 6] = [
    ("second", 1),
    ("minute", 60),
    ("hour", 3_600),
    ("day", 86_400),
    ("week", 604_800),
    // The longest, unless windows follow a calendar (`algorithm`).
    ("month", 2_678_400),
];

/// An expression that every rate matches, and little else.
pub(super) fn expression() -> String {
    let names = NAMED.map(|(name, _)| name).join("|");
    let duration = units::duration_expression();
    format!("^\\s*[0-9]+\\s+per\\s+({names}|{duration})\\s*$")
}

/// Whole seconds of `10s`, `1h30m` or `minute`.
fn period_secs(count: &str, period: &str) -> Result<u32, ParseError> {
    let secs = match NAMED.into_iter().find(|(name, _)| *name == period) {
        Some((_, secs)) => secs,
        None => {
            let duration = units::duration(period).map_err(|_| {
                ParseError::with_advice(
                    format!("{} is not a period", quoted(period)),
                    "write \"10s\", \"5m\", \"1h30m\", or one of second, minute, hour, day, week, month",
                )
            })?;
            if duration.subsec_nanos() != 0 {
                return Err(ParseError::with_advice(
                    format!("the period {} is not whole seconds", quoted(period)),
                    format!("scale both: {}", scaled(count, duration.as_millis())),
                ));
            }
            duration.as_secs()
        }
    };
    Ok(u32::try_from(secs).unwrap_or(u32::MAX))
}

/// The same rate over whole seconds: the count times as many as make up full seconds.
fn scaled(count: &str, millis: u128) -> String {
    let times = (1..=1000)
        .find(|times| (millis * times).is_multiple_of(1000))
        .unwrap_or(1000);
    match count.parse::<u128>() {
        Ok(count) if count > 0 && count < 1 << 20 => {
            format!(
                "\"{} per {}s\"",
                count * times,
                (millis * times / 1000).max(1)
            )
        }
        _ => "\"10 per 1s\"".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> String {
        match rate(text) {
            Ok(rate) => format!("{} in {}", rate.count(), rate.period().as_secs()),
            Err(mistake) => format!(
                "{}; {}",
                mistake.message,
                mistake.advice.unwrap_or_default()
            ),
        }
    }

    /// Goal: a rate reads as a person would read it. Method: every spelling that is taken.
    #[test]
    fn a_rate_is_a_count_per_period() {
        assert_eq!(said("5 per 3s"), "5 in 3");
        assert_eq!(said("20 per 1m"), "20 in 60");
        assert_eq!(said("20 per minute"), "20 in 60");
        assert_eq!(said("1 per second"), "1 in 1");
        assert_eq!(said("1 per 1h30m"), "1 in 5400");
        assert_eq!(said("1048575 per 31d"), "1048575 in 2678400");
        assert_eq!(said(" 7  per hour "), "7 in 3600");
        assert_eq!(said("100 per week"), "100 in 604800");
        assert_eq!(said("100 per month"), "100 in 2678400");
    }

    /// Goal: what other programs take is answered with how it is written here. Method: their spellings.
    #[test]
    fn other_spellings_are_answered_with_the_right_one() {
        assert_eq!(said("5/s"), "\"5/s\" is not a rate; write \"5 per 1s\"");
        assert_eq!(
            said("10/minute"),
            "\"10/minute\" is not a rate; write \"10 per 1m\""
        );
        assert_eq!(
            said("5 per 10 seconds"),
            "\"5 per 10 seconds\" is not a rate; write \"5 per 10s\""
        );
        for (text, right) in [
            ("5 requests per 10s", "write \"5 per 10s\""),
            ("5/10s", "write \"5 per 10s\""),
            ("100req/min", "write \"100 per 1m\""),
            ("5 per 2 weeks", "write \"5 per 14d\""),
            ("5/month", "write \"5 per month\""),
            ("5 per 2 months", "the most is a month: \"5 per month\""),
        ] {
            assert!(said(text).ends_with(right), "{}", said(text));
        }
        assert!(said("5 per 500ms").ends_with("scale both: \"10 per 1s\""));
        assert!(said("3 per 1500ms").ends_with("scale both: \"6 per 3s\""));
        assert!(said("0 per 1s").contains("respond = { status = 403 }"));
        assert!(said("1048576 per 1d").contains("the most is 1048575"));
        assert!(said("1 per 32d").contains("the most 31d"));
        assert!(said("1 per 0s").contains("the least is 1s"));
        assert!(said("99999999999999999999 per 1s").contains("out of range"));
        for wrong in [
            "",
            "per",
            "5",
            "5 per",
            "five per 1s",
            "-5 per 1s",
            "5 per 1.5s",
            "5 per 1s per 1m",
        ] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
    }

    /// Goal: only what can never refuse is called pointless. Method: pairs on both sides of the line.
    #[test]
    fn a_rate_is_pointless_when_another_refuses_first() {
        let pointless = |a, b| pointless(&rate(a).unwrap(), &rate(b).unwrap()).is_some();
        assert!(pointless("600 per 600s", "10 per 10s"));
        assert!(!pointless("10 per 10s", "600 per 600s"));
        assert!(!pointless("599 per 600s", "10 per 10s"));
        assert!(pointless("20 per 1s", "20 per 1m"));
        assert!(!pointless("5 per 3s", "20 per 1m") && !pointless("20 per 1m", "5 per 3s"));
        assert!(
            !pointless("16 per 15s", "10 per 10s"),
            "two windows of ten begin in fifteen seconds"
        );
    }
}
