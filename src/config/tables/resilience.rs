//! `outlier_detection`, `retry` and `circuit_breaker` of an origin: what holds when its servers fail, or have enough.

use std::ops::RangeInclusive;
use std::time::Duration;

use toml::de::DeValue;

use crate::config::field::{Field, all, quoted};
use crate::config::problem::Mistake;
use crate::config::rules::{CircuitRules, EjectionRules, FailureClass, Percent, RetryRules};
use crate::config::section::Section;

/// `[origin.NAME.outlier_detection]`
pub(super) fn ejection(section: Section<'_>) -> Option<EjectionRules> {
    let failures = section.or("consecutive_failures", "5", 5, |field| {
        count(field, 1..=1_000)
    });
    let on = section.or(
        "on",
        "[\"connect\", \"timeout\", \"reset\", 502, 503, 504]",
        vec![
            FailureClass::Connect,
            FailureClass::Timeout,
            FailureClass::Reset,
            FailureClass::Status(502..=504),
        ],
        classes,
    );
    let span = Duration::from_millis(100)..=Duration::from_secs(86_400);
    let first = section.or(
        "base_ejection_time",
        "\"10s\"",
        Duration::from_secs(10),
        |field| field.duration(span.clone()),
    );
    let longest = section.or(
        "max_ejection_time",
        "\"5m\"",
        Duration::from_secs(300),
        |field| field.duration(span.clone()),
    );
    let most = section.or("max_percent", "50", Percent(50), |field| {
        let percent = field.integer(1..=100)?;
        u8::try_from(percent).ok().map(Percent)
    });
    if let (Some(first), Some(longest)) = (first, longest)
        && first > longest
    {
        section.report.error(
            &section.place,
            "an ejection lasts longer at first than at most",
            format!(
                "write a `{}` that is at least `{}`",
                section.written_name("max_ejection_time"),
                section.written_name("base_ejection_time")
            ),
        );
        section.finish();
        return None;
    }
    section.finish();
    Some(EjectionRules {
        failures: failures?,
        on: on?,
        first: first?,
        longest: longest?,
        most: most?,
    })
}

/// `[origin.NAME.retry]`
pub(super) fn retry(section: Section<'_>) -> Option<RetryRules> {
    let on = section.or(
        "on",
        "[\"connect\", \"timeout\", 503]",
        vec![FailureClass::Connect],
        classes,
    );
    let budget = section.or("budget", "\"20%\"", Percent(20), |field| {
        field.parsed(percent)
    });
    let floor = section.or("min_per_second", "10", 10, |field| {
        count(field, 0..=100_000)
    });
    let within = section.optional("deadline", "\"10s\"", |field| {
        field.duration(Duration::from_millis(1)..=Duration::from_secs(3_600))
    });
    section.finish();
    Some(RetryRules {
        on: on?,
        budget: budget?,
        floor: floor?,
        within: within?,
    })
}

/// `[origin.NAME.circuit_breaker]`
pub(super) fn circuit(section: Section<'_>) -> Option<CircuitRules> {
    let requests = section.optional("max_requests", "100", |field| count(field, 1..=1_000_000));
    let connections = section.optional("max_connections", "100", |field| count(field, 1..=10_000));
    let pending = section.or("max_pending", "50", 0, |field| count(field, 0..=10_000));
    let patience = section.or(
        "pending_timeout",
        "\"1s\"",
        Duration::from_secs(1),
        |field| field.duration(Duration::from_millis(1)..=Duration::from_secs(60)),
    );
    if matches!((requests, connections), (Some(None), Some(None))) {
        section.report.error(
            &section.place,
            "a circuit bounds neither requests nor connections",
            "write max_requests = 100, max_connections = 100, or both",
        );
        section.finish();
        return None;
    }
    section.finish();
    Some(CircuitRules {
        requests: requests?,
        connections: connections?,
        pending: pending?,
        patience: patience?,
    })
}

fn count(field: &Field<'_>, range: RangeInclusive<u64>) -> Option<u32> {
    field
        .integer(range)
        .and_then(|count| u32::try_from(count).ok())
}

/// `["connect", "timeout", "reset", 503, "500-599"]`
fn classes(field: &Field<'_>) -> Option<Vec<FailureClass>> {
    all(field.list()?.iter().map(|element| match element.value {
        DeValue::String(text) if &**text == "connect" => Some(FailureClass::Connect),
        DeValue::String(text) if &**text == "timeout" => Some(FailureClass::Timeout),
        DeValue::String(text) if &**text == "reset" => Some(FailureClass::Reset),
        _ => statuses(element, 500..=599).map(FailureClass::Status),
    }))
}

/// One status, `503` or `"503"`, or a span of them, `"500-599"`.
pub(super) fn statuses(
    element: &Field<'_>,
    range: RangeInclusive<u64>,
) -> Option<RangeInclusive<u16>> {
    let narrow = |status: u64| u16::try_from(status).ok();
    let DeValue::String(text) = element.value else {
        let status = narrow(element.integer(range)?)?;
        return Some(status..=status);
    };
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let number = |text: &str| text.trim().parse::<u64>().ok();
    match (number(first), number(last)) {
        (Some(first), Some(last)) if first <= last => {
            if !range.contains(&first) || !range.contains(&last) {
                let (least, most) = (range.start(), range.end());
                return element.refuse(
                    format!("{} is out of range", quoted(text)),
                    format!("write statuses from {least} to {most}"),
                );
            }
            Some(narrow(first)?..=narrow(last)?)
        }
        _ => element.refuse(
            format!("{} is not understood here", quoted(text)),
            element.advice(),
        ),
    }
}

/// `"20%"`
fn percent(text: &str) -> Result<Percent, Mistake> {
    let number = text.strip_suffix('%').map(str::trim);
    match number.and_then(|number| number.parse().ok()) {
        Some(share @ 0..=100) => Ok(Percent(share)),
        _ => Err(Mistake::new(format!(
            "{} is not a share of requests from 0% to 100%",
            quoted(text)
        ))),
    }
}
