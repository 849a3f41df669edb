//! Explains which keys and requests have other rates than those of the limit: keys in rows of a file, and requests that name a tier.

use super::text::{count, listed, rates};
use sluicegate_config::rules::{LimitRules, Tier, TierIndex, ValueSource};

/// Describes the rates of a tier: `50 in 10s and 200 in 1h`.
pub(super) fn means(tier: &Tier) -> String {
    match tier {
        Tier::Rates(policy) => listed(&rates(policy)),
        Tier::Unlimited => "unlimited".to_owned(),
        Tier::Blocked => "blocked".to_owned(),
    }
}

/// Describes the file of overrides in numbers.
pub(super) fn overrides(limit: &LimitRules) -> Option<String> {
    let written = limit.overrides.as_ref()?;
    let of = |tier: TierIndex| written.tiers.get(usize::from(tier.0));
    let mut rated = 0;
    let mut unlimited = 0;
    let mut blocked = 0;
    for (_, tier) in written.rows.iter() {
        match of(tier) {
            Some(Tier::Unlimited) => unlimited += 1,
            Some(Tier::Blocked) => blocked += 1,
            _ => rated += 1,
        }
    }
    Some(format!(
        "Overrides: in {}, {} keys have rates of their own, {} are unlimited and {} are rejected with 403.",
        written.file.display(),
        count(rated),
        count(unlimited),
        count(blocked)
    ))
}

/// Describes the rates of each tier that requests name.
pub(super) fn named(limit: &LimitRules) -> Option<String> {
    let tier = limit.tier.as_ref()?;
    let named_by = &tier.named_by;
    let said = tier.tiers.iter().map(|named| match &named.tier {
        Tier::Rates(_) => format!("{:?} allows {}", named.name, means(&named.tier)),
        Tier::Unlimited => format!("{:?} is unlimited", named.name),
        Tier::Blocked => format!("{:?} is rejected with 403", named.name),
    });
    let source = named_by.value().map(|value| &value.source);
    let believed = match source {
        Some(ValueSource::Header(_)) => " The field is used only from trusted proxies.",
        _ => "",
    };
    let before = match limit.overrides {
        Some(_) => " A row of the file takes precedence.",
        None => "",
    };
    Some(format!(
        "Tiers by {named_by}: {}; any other request has the limit's own rates.{believed}{before}",
        listed(&said.collect::<Vec<_>>())
    ))
}
