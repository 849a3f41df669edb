//! Owns what sets some requests of a limit apart from the others: rows that name keys, and tiers that requests name.

use std::fmt;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;

use sluicegate_base::geo::GeoField;
use sluicegate_limiter::{Algorithm, Policy, PolicyError};

use super::{ActivationRules, FileState, LimitRules, Name, OverrideRows, TierIndex, ValuePart};

/// `overrides`: keys of a limit that have rates of their own, or none.
#[derive(Clone, Debug, PartialEq)]
pub struct OverrideRules {
    /// The file that was read, which is watched.
    pub file: PathBuf,
    /// Which of its contents is in force.
    pub state: FileState,
    /// The tiers of its rows, each once.
    pub tiers: Vec<Tier>,
    /// Its rows.
    pub rows: Arc<OverrideRows>,
}

/// The tier of some requests of a limit.
#[derive(Clone, Debug, PartialEq)]
pub enum Tier {
    /// They are judged so, by the limit's counters.
    Rates(Policy),
    /// The limit does not apply.
    Unlimited,
    /// They are refused.
    Blocked,
}

/// `tier` and `tiers`: requests that name a tier have its rates, whatever their key.
#[derive(Clone, Debug, PartialEq)]
pub struct TierRules {
    /// The part that names the tier.
    pub named_by: TierSource,
    /// The tiers by name, at least one.
    pub tiers: Vec<NamedTier>,
}

/// The part of a request that names its tier.
#[derive(Clone, Debug, PartialEq)]
pub enum TierSource {
    /// A claim, or a field that only a trusted hop may write.
    Value(ValuePart),
    /// The place of its client.
    Place(GeoField),
}

/// One of `tiers`.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedTier {
    /// The name as it was written.
    pub name: Name,
    /// The value that a request must have, in its normal form.
    pub said: Vec<u8>,
    /// The tier itself.
    pub tier: Tier,
    /// The rules by which it becomes active; `None`: it always is. While it is not, requests that name it are in no tier.
    pub activation: Option<Arc<ActivationRules>>,
}

impl LimitRules {
    /// Every tier, those of rows first; the place of each is its [`TierIndex`].
    pub fn all_tiers(&self) -> impl Iterator<Item = &Tier> {
        let of_rows = self.overrides.iter().flat_map(|rows| &rows.tiers);
        let named = self.tier.iter().flat_map(|named| &named.tiers);
        of_rows.chain(named.map(|named| &named.tier))
    }

    /// The limit with all rates, those of tiers too, of so many hundredths of what they are. Its key, table and rates in shadow stay.
    ///
    /// # Errors
    /// A count would be larger than the algorithm can have.
    pub fn scaled(&self, hundredths: NonZeroU32) -> Result<Self, PolicyError> {
        let mut scaled = self.clone();
        scaled.policy = self.policy.scaled(hundredths)?;
        let rows = scaled.overrides.iter_mut();
        let rows = rows.flat_map(|rows| &mut rows.tiers);
        let named = scaled.tier.iter_mut();
        let named = named.flat_map(|named| &mut named.tiers);
        for tier in rows.chain(named.map(|named| &mut named.tier)) {
            if let Tier::Rates(policy) = tier {
                *policy = policy.scaled(hundredths)?;
            }
        }
        Ok(scaled)
    }

    /// The tier at `index`.
    #[must_use]
    pub fn tier_at(&self, index: TierIndex) -> Option<&Tier> {
        self.all_tiers().nth(index.0.into())
    }

    /// Every value of a request that the limit reads: those of its key, and what names the tier.
    pub fn values_read(&self) -> impl Iterator<Item = &ValuePart> {
        let named_by = self.tier.iter().filter_map(|tier| tier.named_by.value());
        self.key.values().chain(named_by)
    }

    /// The fields of the client's place that the limit reads: those of its key, and what names the tier.
    pub fn places_read(&self) -> impl Iterator<Item = GeoField> {
        let named_by = self.tier.iter().filter_map(|tier| match tier.named_by {
            TierSource::Value(_) => None,
            TierSource::Place(field) => Some(field),
        });
        self.key.places().chain(named_by)
    }

    /// The policy that counters are made for: that of the limit; of logs the one with the largest counts of all tiers, since their
    /// length follows from that.
    #[must_use]
    pub fn stored_policy(&self) -> Policy {
        let policies = self.all_tiers().filter_map(|tier| match tier {
            Tier::Rates(policy) => Some(policy),
            Tier::Unlimited | Tier::Blocked => None,
        });
        let largest = |policy: &&Policy| policy.rates().iter().map(|rate| rate.count()).max();
        match self.policy.algorithm() {
            Algorithm::Exact => policies
                .chain([&self.policy])
                .max_by_key(largest)
                .unwrap_or(&self.policy)
                .clone(),
            _ => self.policy.clone(),
        }
    }
}

impl TierSource {
    /// The value of the request that names the tier, where one does.
    #[must_use]
    pub fn value(&self) -> Option<&ValuePart> {
        match self {
            Self::Value(value) => Some(value),
            Self::Place(_) => None,
        }
    }
}

impl fmt::Display for TierSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(value) => value.fmt(f),
            Self::Place(field) => field.fmt(f),
        }
    }
}
