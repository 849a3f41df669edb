//! Owns how the cost of a request is written: `cost = 5`, or `cost = "response.header.x-cost"` with `max_cost`.

use http::HeaderName;
use sluicegate_limiter::{Cost, KeyHash, Limit, Policy, Timestamp};
use toml::de::DeValue;

use super::field::{KeyField, quoted};
use super::problem::ParseError;
use super::rules::CostRules;
use super::section::TableSection;

/// The keys that say what a request costs.
pub(super) struct CostKeys<'d> {
    cost: Option<KeyField<'d>>,
    max_cost: Option<KeyField<'d>>,
}

impl<'d> CostKeys<'d> {
    /// The keys of `[limit.NAME]`, asked for whatever is written.
    pub(super) fn of(section: &TableSection<'d>) -> Self {
        Self {
            cost: section.field("cost", "1"),
            max_cost: section.field("max_cost", "100"),
        }
    }

    /// The cost under a limit with this policy; `None` when what is written is wrong, which was reported then.
    pub(super) fn read(&self, policy: &Policy) -> Option<CostRules> {
        let largest = policy.rates().iter().map(|rate| rate.count()).max();
        let largest = largest.unwrap_or(1);
        let by = match &self.cost {
            Some(field) => match field.value {
                DeValue::String(_) => field.parsed(told_by)?,
                _ => {
                    self.refuse_max_cost();
                    return fixed(field, policy);
                }
            },
            None => {
                self.refuse_max_cost()?;
                return Some(CostRules::Fixed(Cost::ONE));
            }
        };
        let at_most = match &self.max_cost {
            Some(field) => field.integer(1..=u64::from(largest))?,
            None => u64::from(largest),
        };
        Some(CostRules::Told {
            by,
            at_most: u32::try_from(at_most).unwrap_or(largest),
        })
    }

    /// `max_cost` bounds what an origin says, so it says nothing beside a number.
    fn refuse_max_cost(&self) -> Option<()> {
        match &self.max_cost {
            None => Some(()),
            Some(field) => field.refuse(
                "max_cost bounds what the origin says, and this limit does not ask it",
                "leave it out, or write cost = \"response.header.x-cost\"",
            ),
        }
    }
}

fn told_by(text: &str) -> Result<HeaderName, ParseError> {
    let name = text.strip_prefix("response.header.");
    name.and_then(|name| HeaderName::from_bytes(name.as_bytes()).ok())
        .ok_or_else(|| {
            ParseError::with_advice(
                format!("{} is no cost", quoted(text)),
                "write a number, or the field of the response that says it: \"response.header.x-cost\"",
            )
        })
}

fn fixed(field: &KeyField<'_>, policy: &Policy) -> Option<CostRules> {
    let units = field.integer(1..=u64::from(u32::MAX))?;
    let cost = u32::try_from(units).ok().and_then(Cost::new)?;
    // A limit that nobody has used knows best whether it can ever admit this.
    let unused = Limit::with_buckets(policy.clone(), 1);
    let now = Timestamp::from_secs(0);
    let decision = unused.peek(KeyHash::from_bits(0), cost, now);
    if decision.retry_after().is_some() {
        return field.refuse(
            format!("a request that costs {units} would never be admitted"),
            "write no more than the smallest count of the rates, or than fits into the bucket",
        );
    }
    Some(CostRules::Fixed(cost))
}
