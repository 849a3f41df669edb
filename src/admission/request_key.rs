//! Computes the key of a request for one limit, by the limit's rule for requests that lack a part of it.

use sluicegate_limiter::KeyHash;

use super::key::{KeySeed, KeySubstitute, MissingPart, RequestFacts};
use super::limit::ActiveLimit;
use crate::config::rules::OnMissing;
use crate::rejection::{MissingKey, MissingKeys};

/// The key of a request for one limit.
pub(super) struct RequestKey {
    pub(super) key: KeyHash,
    /// The substitute that the key is made of where the request lacks a part.
    pub(super) by: Option<KeySubstitute>,
}

/// Returns the key of a request for the limit at `index` of its route; `None` where it lacks a part for which there is no substitute.
/// Missing parts are added to `missing`.
pub(super) fn request_key(
    index: usize,
    active: &ActiveLimit,
    facts: &RequestFacts<'_>,
    seed: &KeySeed,
    missing: &mut MissingKeys,
) -> Option<RequestKey> {
    let (key, by) = match seed.hash(&active.key, facts) {
        Ok(key) => (key, None),
        Err(part) => {
            let by = substitute(index, active, &part, missing)?;
            (seed.substitute(&active.key, by, facts.client), Some(by))
        }
    };
    Some(RequestKey { key, by })
}

/// Adds the missing part to `missing`, and returns the substitute for it; `None` where the limit does not count the request.
#[cold]
fn substitute(
    limit: usize,
    active: &ActiveLimit,
    part: &MissingPart<'_>,
    missing: &mut MissingKeys,
) -> Option<KeySubstitute> {
    // The rules have a choice wherever a part can be absent; without one nothing passes uncounted.
    let then = active.on_missing.unwrap_or(OnMissing::Shared);
    missing.0.push(MissingKey {
        limit,
        source: part.source.clone(),
        why: part.why,
        then,
    });
    match then {
        OnMissing::Ip => Some(KeySubstitute::Address),
        OnMissing::Skip if !part.why.is_absence() => Some(KeySubstitute::None),
        OnMissing::Shared => Some(KeySubstitute::None),
        OnMissing::Refuse | OnMissing::Skip => None,
    }
}
