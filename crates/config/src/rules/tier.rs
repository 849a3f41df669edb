//! Owns what sets some requests of a limit apart from the others: rows that name keys, and tiers that requests name.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use sluicegate_base::geo::GeoField;
use sluicegate_limiter::Policy;

use super::{ActivationRules, FileState, Name, OverrideRows, ValuePart};

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
