//! Computes the key of a request for one limit, by the limit's rule for requests that lack a part of it.

use crate::rejection::{MissingKey, MissingKeys, MissingReason};
use sluicegate_limiter::KeyHash;

use super::facts::RequestFacts;
use super::key::{KeySeed, KeySubstitute, MissingPart};
use super::key_values::SubstitutedPart;
use super::limit::ActiveLimit;
use sluicegate_config::rules::{KeyTemplate, OnMissing, ValueSource};

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
    let (key, lacking) = match own_key(active, facts, seed) {
        Ok(key) => (key, None),
        Err(part) => {
            let by = substitute(index, active, &part, missing)?;
            let key = seed.substitute(&active.key, by, facts.client);
            let source = part.source;
            (key, Some(SubstitutedPart { source, by }))
        }
    };
    active.offer_text(key, facts, lacking);
    let by = lacking.map(|part| part.by);
    Some(RequestKey { key, by })
}

/// Returns the key that the log recorded, else that of the request's own values.
fn own_key<'l>(
    active: &'l ActiveLimit,
    facts: &RequestFacts<'_>,
    seed: &KeySeed,
) -> Result<KeyHash, MissingPart<'l>> {
    if facts.recorded.is_empty() {
        return seed.hash(&active.key, facts);
    }
    let mut recorded = facts.recorded.iter();
    match recorded.find(|recorded| *recorded.template == active.key) {
        Some(recorded) => recorded.key.map_err(|why| missing_part(&active.key, why)),
        None => seed.hash(&active.key, facts),
    }
}

/// Returns the part that a request lacks, of which only the reason was recorded: the first that a request can lack.
#[cold]
fn missing_part(template: &KeyTemplate, why: MissingReason) -> MissingPart<'_> {
    static NONE: ValueSource = ValueSource::Ja4;
    let source = template.values().next().map_or(&NONE, |part| &part.source);
    MissingPart { source, why }
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
    let rule = active.on_missing.unwrap_or(OnMissing::Shared);
    // A limit in shadow rejects nobody, and counts only requests with a key.
    let is_left_out = rule == OnMissing::Refuse && active.is_in_shadow();
    let then = if is_left_out { OnMissing::Skip } else { rule };
    missing.0.push(MissingKey {
        limit,
        source: part.source.clone(),
        why: part.why,
        then,
    });
    match then {
        _ if is_left_out => None,
        OnMissing::Ip => Some(KeySubstitute::Address),
        OnMissing::Skip if !part.why.is_absence() => Some(KeySubstitute::None),
        OnMissing::Shared => Some(KeySubstitute::None),
        OnMissing::Refuse | OnMissing::Skip => None,
    }
}
