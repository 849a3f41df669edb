//! Records the keys of a request for the access log, and gives them back to admission when the log is replayed.
//!
//! A log has no bodies, and mostly no fields that carry credentials, so the values of such keys cannot be known later; the hashes can. They
//! are recorded by the template of the key, not by the limit: a configuration in which limits have other names, rates or actions can be
//! judged by them. What a request announces as its cost is in the body too; it is recorded in units, by the limit.

use super::facts::{RecordedKey, RecordedReserve, RequestFacts};
use super::key::KeySeed;
use super::limit::ActiveLimit;
use super::route::RouteLimits;
use sluicegate_config::rules::Name;

/// Returns the key of a request under the template of `limit`; `None` where the request lacks a part of it.
#[must_use]
pub fn own_key<'t>(
    limit: &'t ActiveLimit,
    facts: &RequestFacts<'_>,
    seed: &KeySeed,
) -> Option<RecordedKey<'t>> {
    let template = &limit.key;
    let key = seed.hash(template, facts).ok()?;
    Some(RecordedKey {
        template,
        key: Ok(key),
    })
}

/// Returns the reserves of a request at those of `limits` where requests announce them.
#[must_use]
pub fn record_reserves(limits: &RouteLimits, facts: &RequestFacts<'_>) -> Vec<RecordedReserve> {
    let announced = limits.iter().filter_map(|limit| {
        Some(RecordedReserve {
            limit: Name::clone(&limit.name),
            reserve: limit.announced_reserve(facts)?,
        })
    });
    announced.collect()
}

/// Returns the keys of a request under the templates of `limits`, each template once.
#[must_use]
pub fn record_keys<'t>(
    limits: &'t RouteLimits,
    facts: &RequestFacts<'_>,
    seed: &KeySeed,
) -> Vec<RecordedKey<'t>> {
    let mut recorded: Vec<RecordedKey<'t>> = Vec::with_capacity(limits.len());
    for limit in limits.iter() {
        let template = &limit.key;
        if recorded.iter().all(|other| other.template != template) {
            let key = seed.hash(template, facts).map_err(|part| part.why);
            recorded.push(RecordedKey { template, key });
        }
    }
    recorded
}
