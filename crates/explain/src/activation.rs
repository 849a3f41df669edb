//! Explains when a limit or a tier with a condition applies.

use super::text::{listed, span};
use sluicegate_config::rules::{ActivationRules, LimitRules};

/// Describes the times at which a limit with a condition applies.
pub(super) fn of_limit(limit: &LimitRules) -> Option<String> {
    let rules = limit.activation.as_ref()?;
    Some(format!(
        "It applies only while {}. At all other times it is in shadow: it counts and reports, but rejects no request.",
        while_active(rules)
    ))
}

/// Describes the times at which tiers with conditions apply.
pub(super) fn of_tiers(limit: &LimitRules) -> Option<String> {
    let tiers = limit.tier.iter().flat_map(|named| &named.tiers);
    let tiers: Vec<String> = tiers
        .filter_map(|tier| {
            let rules = tier.activation.as_ref()?;
            Some(format!(
                "{:?} only while {}",
                tier.name,
                while_active(rules)
            ))
        })
        .collect();
    (!tiers.is_empty()).then(|| {
        format!(
            "Of the tiers, {} applies; at all other times its requests have the limit's own rates.",
            listed(&tiers)
        )
    })
}

/// Returns `origin.app.p99 > 500ms, and from then on until origin.app.p99 > 450ms has not held for 10 s`.
pub(super) fn while_active(rules: &ActivationRules) -> String {
    let kept = span(rules.keep_active_for.as_secs());
    match &rules.until {
        Some(until) => format!(
            "{}, and from then on until {until} has held for {kept}",
            rules.when
        ),
        None => format!(
            "{}, and from then on until {} has not held for {kept}",
            rules.when,
            rules.when.with_margin()
        ),
    }
}
