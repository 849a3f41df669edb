//! Finds the tier that a request names: a claim of its verified token, or a field that a trusted hop wrote.
//!
//! A request that names none, or one that nobody knows, or in a way that cannot be believed, is in none: it has the limit's own rates,
//! like everybody else. Whoever spoils the name thus gets what a stranger gets.

use ahash::HashMap;

use super::key::{RequestFacts, normal_value};
use crate::client::PeerTrust;
use crate::config::rules::{Name, TierIndex, TierRules, ValuePart, ValueSource};

/// The tiers of a limit that requests name.
#[derive(Debug)]
pub(super) struct NamedTiers {
    named_by: ValuePart,
    /// By what a request says, in its normal form.
    tiers: HashMap<Box<[u8]>, (TierIndex, Name)>,
}

impl NamedTiers {
    /// The tiers of `rules`, of which the first is at `first`.
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

    /// The tier that a request names.
    pub(super) fn of(&self, facts: &RequestFacts<'_>) -> Option<(TierIndex, &Name)> {
        let is_anybodys = matches!(self.named_by.source, ValueSource::Header(_));
        if is_anybodys && facts.hop == PeerTrust::Stranger {
            return None;
        }
        let said = normal_value(&self.named_by, facts).ok()?;
        let (index, name) = self.tiers.get(&*said)?;
        Some((*index, name))
    }
}
