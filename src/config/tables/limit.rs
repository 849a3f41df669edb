//! `[limit.NAME]`: how much may pass.

use sluicegate_limiter::{Capacity, Limit};

use crate::config::algorithm;
use crate::config::field::Field;
use crate::config::key;
use crate::config::rates;
use crate::config::rules::LimitRules;
use crate::config::section::Section;

/// Bytes beyond which the memory of a limit is worth a warning.
const LARGE: u64 = 3 << 30;

pub(in crate::config) const EXAMPLE: &str = "with key = \"client.ip\" and rates = [\"5 per 10s\"]";

pub(in crate::config) fn read(section: Section<'_>) -> Option<LimitRules> {
    let key = section
        .required("key", "\"client.ip\"")
        .and_then(|field| key::template(&field));
    let on_missing = key::on_missing(&section, key.as_ref());
    let rates = section
        .required("rates", "[\"5 per 10s\"]")
        .and_then(|field| rates::rates(&field));
    let capacity_field = section.field("capacity", "262_144");
    let capacity = capacity_field
        .as_ref()
        .map_or(Some(Capacity::DEFAULT), capacity);
    let policy = algorithm::policy(&section, rates.clone());
    if let (Some(policy), Some(capacity)) = (&policy, capacity) {
        let bytes = Limit::bytes_for(policy, capacity);
        if bytes > LARGE {
            let place = capacity_field
                .as_ref()
                .map_or(&section.place, |field| &field.place);
            section.report.warning(
                place,
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
    }
    section.finish();
    Some(LimitRules {
        key: key?,
        on_missing: on_missing?,
        policy: policy?,
        capacity: capacity?,
    })
}

fn capacity(field: &Field<'_>) -> Option<Capacity> {
    let keys = field.integer(1..=Capacity::MAX.keys())?;
    match Capacity::new(keys) {
        Ok(capacity) => Some(capacity),
        Err(error) => field.refuse(error.to_string(), field.advice()),
    }
}
