//! Owns how the algorithm of a limit is written: its name, and the keys that say more about it.
//!
//! Every key is asked for whatever the algorithm is; one that says nothing to the algorithm is an error, because somebody who
//! wrote `burst` expects one.

use std::sync::Arc;
use std::time::Duration;

use sluicegate_limiter::{Algorithm, Alignment, CalendarUnit, MAX_COUNT, Policy, Rates, Refill};

use super::field::{KeyField, quoted};
use super::problem::ParseError;
use super::section::TableSection;
use super::{rates, zone};

/// The default algorithm.
pub(super) const SLIDING_WINDOW: &str = "sliding-window";
/// The algorithm that delays requests.
pub(super) const LEAKY_BUCKET: &str = "leaky-bucket";

const NAMES: [&str; 6] = [
    SLIDING_WINDOW,
    "exact",
    "fixed-window",
    "token-bucket",
    "gcra",
    LEAKY_BUCKET,
];

/// The default longest wait of a request in a leaky bucket.
const MAX_WAIT: Duration = Duration::from_secs(10);
/// Longest `max_wait`: clients and proxies in front give up long before.
const LONGEST_WAIT: Duration = Duration::from_secs(600);

/// The algorithm that `[limit.NAME]` names, or else the `usual` one, with the rates that it judges.
pub(super) fn policy(
    section: &TableSection<'_>,
    rates: Option<Rates>,
    usual: &'static str,
) -> Option<Policy> {
    let written = section.field("algorithm", "\"sliding-window\"");
    let name = written.as_ref().map_or(Some(usual), name);
    let keys = AlgorithmKeys::from_section(section);
    let name = name?;
    let rates = rates?;
    let algorithm = keys.algorithm(name, &rates)?;
    if written.is_none() && algorithm == Algorithm::SlidingWindow {
        check_edges(section, &rates);
    }
    let field = written.or(keys.burst).or(keys.queue);
    Policy::new(algorithm, rates)
        .map_err(|error| {
            let (message, advice) = split(&error.to_string());
            let place = field.as_ref().map_or(&section.place, |field| &field.place);
            section.report.error(place, message, advice);
        })
        .ok()
}

/// Warns of a small count that nobody said is to be approximated: where two windows meet, twice as many pass at once, and of one or two
/// that is noticed (docs/limiter.md, "The approximated sliding window").
fn check_edges(section: &TableSection<'_>, rates: &Rates) {
    const NOTICED: u32 = 2;
    let small = rates.iter().find(|rate| rate.count() <= NOTICED);
    if let Some(rate) = small
        && Policy::new(Algorithm::Exact, rates.clone()).is_ok()
    {
        section.report.warning(
            &section.place,
            format!(
                "where two windows meet, a client that waits for it gets {} through at once of {}",
                2 * rate.count(),
                rates::show(rate)
            ),
            "write algorithm = \"exact\", which never does that, or algorithm = \"sliding-window\" if it is meant",
        );
    }
}

/// The name of an algorithm.
#[must_use]
pub fn algorithm_name(algorithm: &Algorithm) -> &'static str {
    match algorithm {
        Algorithm::SlidingWindow => "sliding-window",
        Algorithm::Exact => "exact",
        Algorithm::FixedWindow(_) => "fixed-window",
        Algorithm::TokenBucket { .. } => "token-bucket",
        Algorithm::Gcra { .. } => "gcra",
        Algorithm::LeakyBucket { .. } => "leaky-bucket",
    }
}

fn name(field: &KeyField<'_>) -> Option<&'static str> {
    let words = NAMES.map(|name| (name, name));
    field.word(&words, |got| format!("there is no algorithm {got}"))
}

/// The keys that not every algorithm has.
struct AlgorithmKeys<'d> {
    align: Option<KeyField<'d>>,
    timezone: Option<KeyField<'d>>,
    burst: Option<KeyField<'d>>,
    refill: Option<KeyField<'d>>,
    queue: Option<KeyField<'d>>,
    max_wait: Option<KeyField<'d>>,
}

impl<'d> AlgorithmKeys<'d> {
    fn from_section(section: &TableSection<'d>) -> Self {
        Self {
            align: section.field("align", "\"clock\""),
            timezone: section.field("timezone", "\"Europe/Berlin\""),
            burst: section.field("burst", "20"),
            refill: section.field("refill", "\"greedy\""),
            queue: section.field("queue", "20"),
            max_wait: section.field("max_wait", "\"5s\""),
        }
    }

    /// The algorithm of this name; keys that say nothing to it are reported.
    fn algorithm(&self, name: &str, rates: &Rates) -> Option<Algorithm> {
        let mut foreign = false;
        for (key, owners) in [
            (&self.align, &["fixed-window"][..]),
            (&self.timezone, &["fixed-window"]),
            (&self.burst, &["token-bucket", "gcra"]),
            (&self.refill, &["token-bucket"]),
            (&self.queue, &["leaky-bucket"]),
            (&self.max_wait, &["leaky-bucket"]),
        ] {
            if let Some(field) = key
                && !owners.contains(&name)
            {
                foreign = true;
                field.refuse::<()>(
                    format!("{} says nothing to \"{name}\"", field.key),
                    format!("leave it out, or write algorithm = \"{}\"", owners[0]),
                );
            }
        }
        let algorithm = match name {
            "exact" => Some(Algorithm::Exact),
            "fixed-window" => self.alignment(rates).map(Algorithm::FixedWindow),
            "token-bucket" => self.token_bucket(rates),
            "gcra" => self.burst(rates).map(|burst| Algorithm::Gcra { burst }),
            "leaky-bucket" => self.leaky_bucket(rates),
            _ => Some(Algorithm::SlidingWindow),
        };
        algorithm.filter(|_| !foreign)
    }

    fn alignment(&self, rates: &Rates) -> Option<Alignment> {
        let align = self.align.as_ref().map(|field| {
            let words = [
                ("clock", Alignment::Epoch),
                ("first-request", Alignment::FirstRequest),
                ("key", Alignment::Key),
            ];
            field.choice(&words, |other| {
                ParseError::with_advice(
                    format!("there is no alignment {}", quoted(other)),
                    "write \"clock\", \"first-request\" or \"key\"",
                )
            })
        });
        let Some(field) = &self.timezone else {
            return align.unwrap_or(Some(Alignment::Epoch));
        };
        match align {
            Some(Some(Alignment::FirstRequest)) => {
                return field.refuse(
                    "windows that start with a request follow no calendar",
                    "leave out either timezone or align = \"first-request\"",
                );
            }
            Some(Some(Alignment::Key)) => {
                return field.refuse(
                    "a day of a calendar begins at midnight for every key",
                    "leave out timezone: windows of a day then begin at a time of the day that belongs to the key; or keep it, leave out \
                     align, and write retry_jitter = \"10m\", so that rejected clients come back apart",
                );
            }
            _ => {}
        }
        let zone = field.parsed(zone::zone)?;
        // A limit has no period twice, so a second rate would have another unit.
        let unit = match rates.as_slice() {
            [rate] => match rate.period().as_secs() {
                86_400 => Some(CalendarUnit::Day),
                604_800 => Some(CalendarUnit::Week),
                2_678_400 => Some(CalendarUnit::Month),
                _ => None,
            },
            _ => None,
        };
        let Some(unit) = unit else {
            return field.refuse(
                "a calendar has days, weeks and months",
                "write one rate per day, per week or per month, and others in limits of their own",
            );
        };
        let zone = Arc::new(zone);
        align.unwrap_or(Some(Alignment::Epoch))?;
        Some(Alignment::Calendar { zone, unit })
    }

    fn token_bucket(&self, rates: &Rates) -> Option<Algorithm> {
        let refill = self.refill.as_ref().map_or(Some(Refill::Greedy), |field| {
            let words = [("greedy", Refill::Greedy), ("interval", Refill::Interval)];
            field.choice(&words, |other| {
                ParseError::with_advice(
                    format!("there is no refill {}", quoted(other)),
                    "write \"greedy\", all the time, or \"interval\", all at once",
                )
            })
        });
        let burst = self.burst(rates);
        Some(Algorithm::TokenBucket {
            burst: burst?,
            refill: refill?,
        })
    }

    /// `None` inside: as many as the rate counts.
    fn burst(&self, rates: &Rates) -> Option<Option<u32>> {
        let Some(field) = &self.burst else {
            return Some(None);
        };
        let burst = count(field)?;
        if rates.len() > 1 {
            return field.refuse(
                "a burst belongs to one rate, and this limit has several",
                "leave it out: each rate then has its count, or write limits of their own",
            );
        }
        Some(Some(burst))
    }

    fn leaky_bucket(&self, rates: &Rates) -> Option<Algorithm> {
        let shortest = rates.iter().next().map_or(1, |rate| rate.count());
        let queue = self.queue.as_ref().map_or(Some(shortest), count);
        let max_wait = self.max_wait.as_ref().map_or(Some(MAX_WAIT), |field| {
            field.duration(Duration::from_millis(1)..=LONGEST_WAIT)
        });
        Some(Algorithm::LeakyBucket {
            queue: queue?,
            max_wait: max_wait?,
        })
    }
}

fn count(field: &KeyField<'_>) -> Option<u32> {
    field
        .integer(1..=u64::from(MAX_COUNT - 1))
        .and_then(|count| u32::try_from(count).ok())
}

/// Splits an error of the limiter into its message and its advice.
fn split(error: &str) -> (String, String) {
    match error.split_once("; ") {
        Some((message, advice)) => (message.to_owned(), advice.to_owned()),
        None => (error.to_owned(), "write another algorithm".to_owned()),
    }
}
