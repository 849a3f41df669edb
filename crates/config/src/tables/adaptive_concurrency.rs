//! Declares `adaptive_concurrency` of an origin: a limit on the requests at a server that follows its latency.

use std::ops::RangeInclusive;
use std::time::Duration;

use sluicegate_config_derive::Table;

use super::resilience::percent_in;
use crate::declaration::{DurationIn, IntegerIn, ParsedText};
use crate::problem::ParseError;
use crate::rules::{Percent, QueueOrder};
use crate::section::TableSection;
use crate::tables::resilience::CircuitBreakerRules;

/// Bounds of the limit: a count of one client has 16 bits.
const LIMITS: RangeInclusive<u64> = 1..=10_000;
/// Bounds of `tolerance`. At 100% half the limit could still have a queue, and the latency without one could not be measured there.
const TOLERANCES: RangeInclusive<u8> = 10..=90;
/// The limit of a new server, as far as `min` and `max` allow.
const INITIAL: u32 = 20;

/// A limit on the requests that wait for a server's response. It follows the server's latency: docs/overload.md. With this table the
/// defaults below apply. Default: none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Table)]
#[table(path = "origin.NAME.adaptive_concurrency", check = check_order)]
pub struct AdaptiveConcurrencyRules {
    /// The smallest limit of each server. 1 to 10000.
    #[key(example = "4", default = 4, reader = IntegerIn(LIMITS))]
    pub min: u32,
    /// The largest. 1 to 10000. max_requests of circuit_breaker holds too.
    #[key(example = "1000", default = 1000, reader = IntegerIn(LIMITS))]
    pub max: u32,
    /// The limit of a server of which nothing is known. Default: 20, or the nearest of min and max.
    #[key(example = "20", reader = IntegerIn(LIMITS))]
    pub initial: Option<u32>,
    /// By how much the latency may exceed that of the server without a queue before the limit shrinks. 10% to 90%. More lets a longer queue
    /// stand at the server; less takes variation for overload.
    #[key(example = "\"50%\"", default = Percent(50), reader = ParsedText(tolerance))]
    pub tolerance: Percent,
    /// The time after which the limit changes; longer, until ten requests that began in it have been answered. 10ms to 1m.
    #[key(
        example = "\"500ms\"",
        default = Duration::from_millis(500),
        reader = DurationIn(Duration::from_millis(10)..=Duration::from_secs(60))
    )]
    pub window: Duration,
}

impl AdaptiveConcurrencyRules {
    /// Returns the limit of a server of which nothing is known.
    #[must_use]
    pub fn first_limit(&self) -> u32 {
        self.initial.unwrap_or(INITIAL).clamp(self.min, self.max)
    }
}

fn check_order(keys: &AdaptiveConcurrencyRulesKeys, section: &TableSection<'_>) -> Option<()> {
    let (least, most) = keys.min.zip(keys.max)?;
    if least > most {
        section.report.error(
            &section.place,
            format!("the smallest limit, {least}, is larger than the largest, {most}"),
            "write a `max` that is at least `min`",
        );
        return None;
    }
    let outside = keys
        .initial?
        .filter(|first| !(least..=most).contains(first));
    let Some(first) = outside else {
        return Some(());
    };
    section.report.error(
        &section.place,
        format!("`initial` is {first}, outside of the limits {least} to {most}"),
        "write a number between `min` and `max`, or leave it out",
    );
    None
}

/// Warns of a queue that one client can fill.
pub(super) fn review_queue(
    adaptive: Option<&AdaptiveConcurrencyRules>,
    circuit: Option<&CircuitBreakerRules>,
    section: &TableSection<'_>,
) {
    let fills = circuit
        .is_some_and(|circuit| circuit.max_pending > 0 && circuit.queue_order != QueueOrder::Fair);
    if adaptive.is_some() && fills {
        section.report.warning(
            &section.place,
            "with adaptive_concurrency the client with the most requests fills this queue, and the others are rejected",
            "write queue_order = \"fair\" in circuit_breaker",
        );
    }
}

/// `"50%"`
fn tolerance(text: &str) -> Result<Percent, ParseError> {
    percent_in(text, TOLERANCES, "a tolerance")
}
