//! Owns the temporary rule that multiplies the rates of a limit in force.

use std::fmt;
use std::sync::Arc;

use crate::rfc3339;
use crate::temporary_rules::{LimitEdits, RateFactor, TemporaryRule};
use serde::{Deserialize, Serialize};
use sluicegate_limiter::Policy;
use tracing::warn;

use sluicegate_config::rules::{LimitRules, Name};

/// The rule that multiplies the rates of a limit, and the rates of the configuration.
#[derive(Clone, Debug)]
pub struct RateScaling {
    /// The rule.
    pub rule: Arc<TemporaryRule>,
    /// Its factor.
    pub factor: RateFactor,
    /// The policy that the configuration says.
    pub configured: Policy,
}

/// The same, as pages of the admin listener have it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ScaledRates {
    /// The factor.
    pub factor: f64,
    /// The rates that the configuration says.
    pub rates: Vec<String>,
    /// The end of the rule.
    pub until: String,
    /// The id of the rule.
    pub rule: String,
}

/// The rules of a limit after the multiplication.
#[derive(Debug)]
pub struct ScaledLimit {
    /// The rules in force.
    pub rules: LimitRules,
    /// The rule that multiplied them.
    pub scaling: RateScaling,
}

impl ScaledLimit {
    /// Returns the rules of a limit with its rates multiplied; `None` where no temporary rule says so. Rates that the algorithm cannot
    /// have stay as they are, which is logged.
    #[must_use]
    pub fn new(name: &Name, limit: &LimitRules, edits: &LimitEdits) -> Option<Self> {
        let rule = edits.scaling_rule(name)?;
        let factor = rule.effect.factor()?;
        match limit.scaled(factor.hundredths()) {
            Ok(rules) => Some(Self {
                rules,
                scaling: RateScaling {
                    rule: Arc::clone(rule),
                    factor,
                    configured: limit.policy.clone(),
                },
            }),
            Err(error) => {
                warn!("limit {name}: a temporary rule cannot multiply its rates: {error}");
                None
            }
        }
    }
}

impl RateScaling {
    /// Returns what pages show of it.
    #[must_use]
    pub fn shown(&self) -> ScaledRates {
        let rates = self.configured.rates().iter();
        ScaledRates {
            factor: self.factor.number(),
            rates: rates.map(ToString::to_string).collect(),
            until: rfc3339::format(self.rule.until),
            rule: self.rule.id.to_string(),
        }
    }
}

impl fmt::Display for RateScaling {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rule = &self.rule;
        let until = rfc3339::format(rule.until);
        write!(
            into,
            "the temporary rule {} multiplies the rates by {} until {until}",
            rule.id,
            self.factor.number()
        )
    }
}
