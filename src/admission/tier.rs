//! Finds the tier of a request by what names it: a claim of its verified token, a field that a trusted hop wrote, or its client's place.
//!
//! A request that names no tier, an unknown tier, or one in a way that is not trusted, is in none: it has the limit's own rates. A client
//! that spoils the name thus has the rates of an anonymous one.

use ahash::HashMap;

use super::key::{RequestFacts, normal_value};
use crate::client::PeerTrust;
use crate::config::rules::{Name, TierIndex, TierRules, TierSource, ValueSource};

/// The tiers of a limit that requests name.
#[derive(Debug)]
pub(super) struct NamedTiers {
    named_by: TierSource,
    /// The tiers by the value in requests, in its normal form.
    tiers: HashMap<Box<[u8]>, (TierIndex, Name)>,
}

impl NamedTiers {
    /// Returns the tiers of `rules`, of which the first has the index `first`.
    pub(super) fn new(rules: &TierRules, first: u8) -> Self {
        let tiers = rules.tiers.iter().zip(first..).map(|(named, index)| {
            let said = named.said.clone().into_boxed_slice();
            (said, (TierIndex(index), named.name.clone()))
        });
        Self {
            named_by: rules.named_by.clone(),
            tiers: tiers.collect(),
        }
    }

    /// Returns the tier that a request names.
    pub(super) fn of(&self, facts: &RequestFacts<'_>) -> Option<(TierIndex, &Name)> {
        let (index, name) = match &self.named_by {
            TierSource::Value(value) => {
                let is_anybodys = matches!(value.source, ValueSource::Header(_));
                if is_anybodys && facts.hop == PeerTrust::Stranger {
                    return None;
                }
                self.tiers.get(&*normal_value(value, facts).ok()?)
            }
            TierSource::Place(field) => self.tiers.get(facts.place.get().text(*field).as_bytes()),
        }?;
        Some((*index, name))
    }
}
