//! Reads the vectors: lines that say what is asked when, and what has to be said. Two drivers read them, the local core's
//! beside this file and the store's in `tests/e2e/store/vectors.rs`.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use sluicegate_limiter::{
    Algorithm, Alignment, CalendarUnit, CalendarZone, Cost, Decision, KeyHash, NEVER, Period,
    Policy, Rate, Rates, Refill, Timestamp,
};

/// The key that the vectors ask for, where windows begin by key.
pub(crate) const KEY: KeyHash = KeyHash::from_bits(0x9E37_79B9_7F4A_7C15);

/// The vectors.
pub(crate) const TEXT: &str = include_str!("vectors.txt");

/// A limit, new, and what happens to one key of it.
pub(crate) struct Section {
    /// Its line.
    pub(crate) line: usize,
    pub(crate) policy: Policy,
    pub(crate) steps: Vec<Step>,
}

/// One ask.
pub(crate) struct Step {
    /// Its line.
    pub(crate) line: usize,
    pub(crate) now: Timestamp,
    pub(crate) cost: Cost,
    /// What has to be said, as [`said`] spells it.
    pub(crate) says: String,
}

/// All sections, in their order.
pub(crate) fn sections() -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    for (index, text) in TEXT.lines().enumerate() {
        let line = index + 1;
        let text = text.split('#').next().unwrap_or_default().trim();
        let words: Vec<&str> = text.split_whitespace().collect();
        match words.as_slice() {
            [] => {}
            ["limit", words @ ..] => sections.push(Section {
                line,
                policy: policy(words),
                steps: Vec::new(),
            }),
            ["at", at, "cost", units, says @ ..] => {
                let step = Step {
                    line,
                    now: START.saturating_add(Duration::from_micros(number(at))),
                    cost: Cost::new(number(units) as u32).expect("a cost"),
                    says: says.join(" "),
                };
                sections.last_mut().expect("a limit first").steps.push(step);
            }
            _ => unreachable!("line {line} is no vector: {text}"),
        }
    }
    sections
}

/// What a decision says, as the vectors spell it: times in milliseconds.
pub(crate) fn said(decision: &Decision) -> String {
    let mut says = match decision.is_admitted() {
        true => "admitted, left".to_owned(),
        false => "refused, left".to_owned(),
    };
    for status in decision.statuses() {
        let _ = write!(says, " {}", status.remaining);
    }
    let time = |time: Duration| match time {
        NEVER => "never".to_owned(),
        time => (time.as_nanos() as f64 / 1e6).to_string(),
    };
    if let Some(wait) = decision.retry_after() {
        let _ = write!(says, ", wait {}", time(wait));
    }
    if decision.delay() > Duration::ZERO {
        let _ = write!(says, ", delay {}", time(decision.delay()));
    }
    says
}

/// Where `at 0` is: the beginning of a window of each period that divides ten hours.
const START: Timestamp = Timestamp::from_secs(1_800_000_000);

/// A time in milliseconds with up to three decimals, in microseconds; of anything else the number.
fn number(text: &str) -> u64 {
    match text.strip_suffix("ms") {
        Some(millis) => (millis.parse::<f64>().expect("milliseconds") * 1e3).round() as u64,
        None => text.parse().expect("a number"),
    }
}

/// Berlin around the transitions of 2027.
fn berlin() -> Arc<CalendarZone> {
    let transitions = [(1_806_195_600, 7_200), (1_824_944_400, 3_600)];
    Arc::new(CalendarZone::new(3_600, transitions).expect("a zone"))
}

/// `ALGORITHM [WORD VALUE]... RATE[, RATE]...`
fn policy(words: &[&str]) -> Policy {
    let (algorithm, words) = words.split_first().expect("an algorithm");
    let first_rate = words.iter().position(|word| word.starts_with("rates"));
    let (settings, listed) = words.split_at(first_rate.expect("rates"));
    let setting = |name: &str| {
        let at = settings.iter().position(|word| *word == name)?;
        settings.get(at + 1).copied()
    };
    let units = |name: &str| setting(name).map(|value| number(value) as u32);
    let rates = listed[1..].chunks(3).map(|rate| match rate {
        [count, "per", secs] => {
            let secs = secs.trim_end_matches(',').trim_end_matches('s');
            let period = Period::from_secs(number(secs) as u32).expect("a period");
            Rate::new(number(count) as u32, period).expect("a rate")
        }
        other => unreachable!("no rate: {other:?}"),
    });
    let burst = units("burst");
    let algorithm = match *algorithm {
        "sliding-window" => Algorithm::SlidingWindow,
        "exact" => Algorithm::Exact,
        "fixed-window" => Algorithm::FixedWindow(match setting("align") {
            None => Alignment::Epoch,
            Some("first-request") => Alignment::FirstRequest,
            Some("key") => Alignment::Key,
            Some("berlin-days") => Alignment::Calendar {
                zone: berlin(),
                unit: CalendarUnit::Day,
            },
            Some(other) => unreachable!("no alignment: {other}"),
        }),
        "token-bucket" => Algorithm::TokenBucket {
            burst,
            refill: match setting("refill") {
                Some("interval") => Refill::Interval,
                _ => Refill::Greedy,
            },
        },
        "gcra" => Algorithm::Gcra { burst },
        "leaky-bucket" => Algorithm::LeakyBucket {
            queue: units("queue").unwrap_or(0),
            max_wait: Duration::from_micros(setting("max_wait").map_or(u64::MAX, number)),
        },
        other => unreachable!("no algorithm: {other}"),
    };
    Policy::new(algorithm, Rates::new(rates).expect("rates")).expect("a policy")
}
