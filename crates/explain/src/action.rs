//! Explains what a limit counts, and how it treats a request that exceeds it: docs/actions.md in a sentence each.

use std::time::Duration;

use sluicegate_base::parameter_name::OtherNames;

use super::text::{count, listed, rates, span};
use sluicegate_config::rules::{
    AbsentPart, AnnouncedReserve, CostRules, CostSource, CountedRequests, LimitRules, MeasuredCost,
    Name, OnMissing, ReportedPart, ReportedSum, ReservePart, ReserveRules, Rules, ValuePart,
};
use sluicegate_config::{Action, Share};

/// The rule for a request that lacks a part of the key.
pub(super) fn missing(limit: &LimitRules) -> Option<String> {
    let effect = match limit.on_missing? {
        OnMissing::Refuse if limit.action == Action::Shadow => {
            "passes, and would be answered with 400 without shadow"
        }
        OnMissing::Refuse => "is answered with 400",
        OnMissing::Ip => "is counted by the client's address",
        OnMissing::Shared => "is counted together with all others without it",
        OnMissing::Skip => "is not counted, unless the part is present and unreadable",
    };
    Some(format!("A request that lacks a part of the key {effect}."))
}

/// The treatment of names beside the key's, where the limit accepts any.
pub(super) fn other_names(limit: &LimitRules) -> Option<String> {
    let is_any = |part: &ValuePart| part.other_names == OtherNames::Any;
    limit.key.values().any(is_any).then(|| {
        "Parameters may have any names: an origin that rewrites one to the name in the key can read another value than is counted."
            .to_owned()
    })
}

/// The cost of a request, where it is not always one unit.
pub(super) fn counts(limit: &LimitRules) -> Option<String> {
    let cost = match &limit.cost {
        CostRules::Fixed(cost) if cost.get() == 1 => None,
        CostRules::Fixed(cost) => Some(format!(
            "A request costs {} units.",
            count(cost.get().into())
        )),
        CostRules::Measured(measured) => Some(measured_cost(measured)),
    };
    let condition = limit.count_if.as_ref().map(|condition| {
        format!("The charge is made when the request arrives, and refunded unless {condition}.")
    });
    let stored = (limit.count == CountedRequests::Origin).then(|| {
        "The charge is made when the request arrives, and refunded when the response comes from the cache without the origin."
            .to_owned()
    });
    let both: Vec<String> = [cost, condition, stored].into_iter().flatten().collect();
    (!both.is_empty()).then(|| both.join(" "))
}

/// Describes a cost that is known late, and what is reserved until then.
fn measured_cost(measured: &MeasuredCost) -> String {
    let unit = measured.per_unit.get();
    let at_most = count(measured.at_most.into());
    let reserved = match &measured.reserve {
        ReserveRules::OneUnit => "1".to_owned(),
        ReserveRules::Fixed(cost) => count(cost.get().into()),
        ReserveRules::Announced(announced) => announced_reserve(announced, measured.at_most),
    };
    let each = |what: &str| match unit {
        1 => format!("1 for every {what}"),
        _ => format!("1 for every {} {what}s", count(unit)),
    };
    let amount = match &measured.source {
        CostSource::ResponseField(by) if unit == 1 => {
            format!("then the value of the response field {by}")
        }
        CostSource::ResponseField(by) => {
            format!("then {} of the response field {by}", each("unit"))
        }
        CostSource::ResponseJson(sum) if unit == 1 => {
            format!("at its end the value of {}", reported_sum(sum))
        }
        CostSource::ResponseJson(sum) => {
            format!("at its end {} of {}", each("unit"), reported_sum(sum))
        }
        CostSource::ResponseBytes => format!("at its end {} of the response body", each("byte")),
        CostSource::RequestBytes => format!("at its end {} of the request body", each("byte")),
        CostSource::ResponseDuration => format!(
            "at its end 1 for every {:?} since its decision",
            Duration::from_millis(unit)
        ),
    };
    let mut text =
        format!("A request costs {reserved} when it arrives, and {amount}, at most {at_most}.");
    if measured.reserve != ReserveRules::OneUnit {
        text.push_str(" The difference is refunded or charged.");
    }
    text
}

/// Describes the numbers in a body that make up a cost.
fn reported_sum(sum: &ReportedSum) -> String {
    let part = |part: &ReportedPart| {
        let mut places: Vec<String> = part.places.iter().map(ToString::to_string).collect();
        if part.absent == AbsentPart::Zero {
            places.push("0".to_owned());
        }
        places.join(", or else ")
    };
    let parts: Vec<String> = sum.0.iter().map(part).collect();
    format!("{} in the response body", parts.join(" plus "))
}

/// Describes a reserve that requests announce.
fn announced_reserve(announced: &AnnouncedReserve, at_most: u32) -> String {
    let parts: Vec<String> = (announced.parts.iter())
        .map(|part| match part {
            ReservePart::Units(units) => count((*units).into()),
            ReservePart::Json(at) => format!("the value of {at} in its body"),
        })
        .collect();
    let most = count(announced.largest_admitted.get().min(at_most).into());
    format!("{} ({most} without one)", parts.join(" plus "))
}

/// Describes the treatment of a request that exceeds the limit, with its exceptions.
pub(super) fn exceeded(limit: &LimitRules) -> String {
    let mut text = match &limit.action {
        Action::Reject => "A request that exceeds it is rejected.".to_owned(),
        Action::Delay => {
            "A request that exceeds it waits, and is rejected if the queue is full.".to_owned()
        }
        Action::Mark { field, then: None } => {
            format!("A request that exceeds it passes, with the field {field}.")
        }
        Action::Mark {
            field,
            then: Some(then),
        } => {
            format!("A request that exceeds it passes with the field {field}, if {then} admits it.")
        }
        Action::Challenge { rules, unsolved } => format!(
            "A browser that exceeds it gets a challenge page, as often as {unsolved} admits; after it has solved that, by {}, it has \
             these rates for itself for {}. Any other request that exceeds it is rejected.",
            rules.methods.name(),
            span(rules.valid_for.as_secs())
        ),
        Action::Shadow => "In shadow: it counts and reports, and rejects nothing.".to_owned(),
    };
    if limit.enforce != Share::ALL {
        text.push_str(&format!(
            " It is enforced for {} of its keys, and in shadow for the others.",
            limit.enforce
        ));
    }
    if !limit.retry_jitter.is_zero() {
        text.push_str(&format!(
            " Retry-After has a jitter of up to {:?}, so that clients do not all return at once.",
            limit.retry_jitter
        ));
    }
    text
}

/// Describes the shadow rates.
pub(super) fn shadow_rates(limit: &LimitRules) -> Option<String> {
    let policy = limit.shadow_rates.as_ref()?;
    Some(format!(
        "Shadow rates: {}, only reported.",
        listed(&rates(policy))
    ))
}

/// Returns the limits that use `name` as their fallback limit.
pub(super) fn instead_of<'r>(name: &'r Name, rules: &'r Rules) -> impl Iterator<Item = &'r Name> {
    let asks = move |limit: &LimitRules| match &limit.action {
        Action::Mark { then, .. } => then.as_ref() == Some(name),
        Action::Challenge { unsolved, .. } => unsolved == name,
        _ => false,
    };
    let limits = rules.limits.iter();
    limits
        .filter(move |(_, limit)| asks(limit))
        .map(|(other, _)| other)
}
