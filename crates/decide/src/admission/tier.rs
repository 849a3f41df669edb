//! Finds the tier of a request by what names it: a claim of its verified token, a field that a trusted hop wrote, or its client's place.
//!
//! A request that names no tier, an unknown tier, or one in a way that is not trusted, is in none: it has the limit's own rates. A client
//! that spoils the name thus has the rates of an anonymous one.

use std::sync::Arc;

use crate::activation::LoadActivation;
use crate::client::PeerTrust;
use ahash::HashMap;

use super::facts::RequestFacts;
use super::key::normal_value;
use super::overrides::TierMatch;
use sluicegate_config::rules::{Name, TierIndex, TierRules, TierSource, ValueSource};

/// The tiers of a limit that requests name.
#[derive(Debug)]
pub(super) struct NamedTiers {
    named_by: TierSource,
    /// The tiers by the value in requests, in its normal form.
    tiers: HashMap<Box<[u8]>, ActiveNamedTier>,
}

/// A tier that requests name.
#[derive(Debug)]
struct ActiveNamedTier {
    index: TierIndex,
    name: Name,
    /// `None` where it is always active.
    activation: Option<Arc<LoadActivation>>,
}

impl NamedTiers {
    /// Returns the tiers of `rules`, of which the first has the index `first`. Tiers of the same value in `before` keep their activation.
    pub(super) fn new(rules: &TierRules, first: u8, before: Option<&Self>) -> Self {
        let tiers = rules.tiers.iter().zip(first..).map(|(named, index)| {
            let said = named.said.clone().into_boxed_slice();
            let before = before.and_then(|before| before.tiers.get(&said)?.activation.as_ref());
            let activation = named.activation.as_ref();
            let tier = ActiveNamedTier {
                index: TierIndex(index),
                name: named.name.clone(),
                activation: activation.map(|rules| LoadActivation::new(rules, before)),
            };
            (said, tier)
        });
        Self {
            named_by: rules.named_by.clone(),
            tiers: tiers.collect(),
        }
    }

    /// Returns the tier that a request names, active or not.
    pub(super) fn find(&self, facts: &RequestFacts<'_>) -> Option<TierMatch<'_>> {
        let tier = match &self.named_by {
            TierSource::Value(value) => {
                let is_anybodys = matches!(value.source, ValueSource::Header(_));
                if is_anybodys && facts.hop == PeerTrust::Stranger {
                    return None;
                }
                self.tiers.get(&*normal_value(value, facts).ok()?)
            }
            TierSource::Place(field) => self.tiers.get(facts.place.get().text(*field).as_bytes()),
        }?;
        Some(TierMatch {
            index: tier.index,
            name: Some(&tier.name),
            activation: tier.activation.as_ref(),
        })
    }

    /// Returns the activations of tiers with conditions.
    pub(super) fn activations(&self) -> impl Iterator<Item = (&Name, &Arc<LoadActivation>)> {
        let tiers = self.tiers.values();
        tiers.filter_map(|tier| Some((&tier.name, tier.activation.as_ref()?)))
    }
}
