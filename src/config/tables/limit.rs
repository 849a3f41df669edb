//! `[limit.NAME]`: how much may pass.

use sluicegate_limiter::{Capacity, MAX_RATES};

use crate::config::field::{Field, quoted};
use crate::config::key;
use crate::config::rates;
use crate::config::rules::{Algorithm, LimitRules};
use crate::config::section::Section;
use crate::config::suggest;

/// Keys beyond which the memory is worth a warning.
const LARGE: u64 = 1 << 27;
/// Bytes that a key takes with one to four rates: see the layout of the limiter's table.
const BYTES_PER_KEY: [u64; MAX_RATES] = [26, 38, 53, 89];
/// The algorithms that exist.
const ALGORITHMS: [&str; 1] = ["sliding-window"];

pub(in crate::config) const EXAMPLE: &str = "with key = \"client.ip\" and rates = [\"5 per 10s\"]";

pub(in crate::config) fn read(section: Section<'_>) -> Option<LimitRules> {
    let key = section
        .required("key", "\"client.ip\"")
        .and_then(|field| key::template(&field));
    let rates = section
        .required("rates", "[\"5 per 10s\"]")
        .and_then(|field| rates::rates(&field));
    let capacity_field = section.field("capacity", "262_144");
    let capacity = capacity_field
        .as_ref()
        .map_or(Some(Capacity::DEFAULT), capacity);
    let algorithm = section.or(
        "algorithm",
        "\"sliding-window\"",
        Algorithm::SlidingWindow,
        algorithm,
    );
    if let (Some(field), Some(capacity), Some(rates)) = (&capacity_field, capacity, &rates)
        && capacity.keys() > LARGE
    {
        let per_key = BYTES_PER_KEY.get(rates.len() - 1).copied().unwrap_or(89);
        let bytes = capacity.keys() * per_key;
        field.report.warning(
            &field.place,
            format!(
                "{} keys take about {} GiB, all of it from the start",
                capacity.keys(),
                bytes >> 30
            ),
            format!(
                "write the number of clients that owe something at once; {} is the default",
                Capacity::DEFAULT.keys()
            ),
        );
    }
    section.finish();
    Some(LimitRules {
        key: key?,
        rates: rates?,
        capacity: capacity?,
        algorithm: algorithm?,
    })
}

fn capacity(field: &Field<'_>) -> Option<Capacity> {
    let keys = field.integer(1..=Capacity::MAX.keys())?;
    match Capacity::new(keys) {
        Ok(capacity) => Some(capacity),
        Err(error) => field.refuse(error.to_string(), field.advice()),
    }
}

fn algorithm(field: &Field<'_>) -> Option<Algorithm> {
    let text = field.text()?;
    if text == "sliding-window" {
        return Some(Algorithm::SlidingWindow);
    }
    let message = format!("there is no algorithm {}", quoted(text));
    match suggest::nearest(text, ALGORITHMS) {
        Some(meant) => field.refuse(message, format!("did you mean \"{meant}\"?")),
        None => field.refuse(message, field.advice()),
    }
}
