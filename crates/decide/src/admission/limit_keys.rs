//! Computes the keys by which all limits of a route count a request, for those that report about keys.

use crate::rejection::MissingKeys;
use sluicegate_limiter::{KeyHash, MAX_ASKS};

use super::facts::RequestFacts;
use super::key::KeySeed;
use super::request_key::request_key;
use super::route::RouteLimits;

/// Most keys of a request: of the limits of a route, and of the fallback limits of some of them.
pub const MAX_LIMIT_KEYS: usize = 2 * MAX_ASKS;

/// Returns the key of a request for each of `limits`, in the order of the route; `None` where a limit does not count it.
pub fn limit_keys(
    limits: &RouteLimits,
    facts: &RequestFacts<'_>,
    seed: &KeySeed,
) -> impl Iterator<Item = Option<KeyHash>> {
    let mut missing = MissingKeys::default();
    let each = limits.iter().enumerate().take(MAX_LIMIT_KEYS);
    each.map(move |(index, active)| {
        let key = request_key(index, active, facts, seed, &mut missing)?;
        Some(key.key)
    })
}
