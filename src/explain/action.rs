//! Explains what a limit counts, and how it treats a request that exceeds it: docs/actions.md in a sentence each.

use super::text::{count, listed, rates};
use crate::config::rules::{CostRules, CountedRequests, LimitRules, Name, OnMissing, Rules};
use crate::config::{Action, Share};

/// The rule for a request that lacks a part of the key.
pub(super) fn missing(limit: &LimitRules) -> Option<String> {
    let effect = match limit.on_missing? {
        OnMissing::Refuse => "is answered with 400",
        OnMissing::Ip => "is counted by the client's address",
        OnMissing::Shared => "is counted together with all others like it",
        OnMissing::Skip => "is not counted, unless the part is there and cannot be read",
    };
    Some(format!("A request that lacks a part of the key {effect}."))
}

/// The cost of a request, where it is not always one unit.
pub(super) fn counts(limit: &LimitRules) -> Option<String> {
    let cost = match &limit.cost {
        CostRules::Fixed(cost) if cost.get() == 1 => None,
        CostRules::Fixed(cost) => Some(format!(
            "A request takes {} of each count.",
            count(cost.get().into())
        )),
        CostRules::Told { by, at_most } => Some(format!(
            "A request takes 1 of each count when it comes, and with its answer what the field {by} says, at most {}.",
            count((*at_most).into())
        )),
    };
    let condition = limit.count_if.as_ref().map(|condition| {
        format!("It is charged when it comes, and the charge is given back unless {condition}.")
    });
    let stored = (limit.count == CountedRequests::Origin).then(|| {
        "It is charged when it comes, and the charge is given back when a stored answer is served without the origin."
            .to_owned()
    });
    let both: Vec<String> = [cost, condition, stored].into_iter().flatten().collect();
    (!both.is_empty()).then(|| both.join(" "))
}

/// Describes the treatment of a request that exceeds the limit, with its exceptions.
pub(super) fn exceeded(limit: &LimitRules) -> String {
    let mut text = match &limit.action {
        Action::Reject => "What exceeds it is refused.".to_owned(),
        Action::Delay => {
            "What exceeds it waits for its turn, and is refused where the queue ends.".to_owned()
        }
        Action::Mark { field, then: None } => {
            format!("What exceeds it passes, with the field {field}.")
        }
        Action::Mark {
            field,
            then: Some(then),
        } => {
            format!("What exceeds it passes with the field {field}, if {then} has room.")
        }
        Action::Shadow => "It is in shadow: it counts and reports, and refuses nobody.".to_owned(),
    };
    if limit.enforce != Share::ALL {
        text.push_str(&format!(
            " That holds for {} of its keys; for the others it is in shadow.",
            limit.enforce
        ));
    }
    if !limit.retry_jitter.is_zero() {
        text.push_str(&format!(
            " Retry-After is up to {:?} later than it has room again, so that clients do not all come back at once.",
            limit.retry_jitter
        ));
    }
    text
}

/// Describes the shadow rates.
pub(super) fn shadow_rates(limit: &LimitRules) -> Option<String> {
    let policy = limit.shadow_rates.as_ref()?;
    Some(format!(
        "Beside that {} is judged, and only reported.",
        listed(&rates(policy))
    ))
}

/// Returns the limits that use `name` as their fallback limit.
pub(super) fn instead_of<'r>(name: &'r Name, rules: &'r Rules) -> impl Iterator<Item = &'r Name> {
    let asks = move |limit: &LimitRules| matches!(&limit.action, Action::Mark { then: Some(then), .. } if then == name);
    let limits = rules.limits.iter();
    limits
        .filter(move |(_, limit)| asks(limit))
        .map(|(other, _)| other)
}
