//! Judges what limits say about each other: `fallback_limit`, the limit that is asked when another is exceeded.
//!
//! The limit that `unsolved` names is asked in the same way, when a challenge is to be given.
//!
//! A second limit must be able to refuse, and has no second one itself: a chain of marks would let everything pass, and a circle of them
//! would have no end.

use std::collections::BTreeMap;

use super::action::Action;
use super::defined_names::DefinedNames;
use super::field::quoted;
use super::report::{PlacedValue, ProblemReport};
use super::rules::{CostRules, CountedRequests, LimitRules, Name};
use super::suggest;
use super::tables::parsed_route::ParsedRoute;

/// The second limit of each limit that names one.
#[derive(Default)]
pub(super) struct FallbackLimits(BTreeMap<Name, PlacedValue<Name>>);

impl FallbackLimits {
    /// `limit` names this one.
    pub(super) fn add(&mut self, limit: &Name, then: Option<PlacedValue<Name>>) {
        if let Some(then) = then {
            self.0.insert(limit.clone(), then);
        }
    }

    /// The second limit of `limit`.
    pub(super) fn find(&self, limit: &Name) -> Option<&PlacedValue<Name>> {
        self.0.get(limit)
    }

    /// Every second limit.
    pub(super) fn all(&self) -> impl Iterator<Item = &PlacedValue<Name>> {
        self.0.values()
    }

    /// Reports those that nobody defines, that cannot refuse, and that a route asks anyway.
    pub(super) fn check(
        &self,
        limits: &BTreeMap<Name, LimitRules>,
        defined: &DefinedNames,
        routes: &[ParsedRoute],
        report: &ProblemReport<'_>,
    ) {
        for (limit, then) in &self.0 {
            let name = &then.value;
            let owner = limits.get(limit).map(|limit| &limit.action);
            let counts_pages = matches!(owner, Some(Action::Challenge { .. }));
            if !defined.limits.contains_key(name) {
                let advice = match suggest::nearest(name, defined.limits.keys().map(|name| &**name))
                {
                    Some(meant) => format!("did you mean \"{meant}\"?"),
                    None => format!("define it with [limit.{name}], or leave it out"),
                };
                let message = format!("there is no limit {}", quoted(name));
                report.absent(&then.place, message, advice);
            } else if let Some(rules) = limits.get(name)
                && counts_pages
            {
                check_unsolved(then, rules, report);
            } else if let Some(rules) = limits.get(name)
                && !matches!(rules.action, Action::Reject | Action::Delay)
            {
                report.error(
                    &then.place,
                    format!(
                        "the action of {} is \"{}\", so it never refuses",
                        quoted(name),
                        rules.action.name()
                    ),
                    "name a limit that rejects or delays",
                );
            }
        }
        let counts_pages_of = |limit: &PlacedValue<Name>| {
            let action = limits.get(&limit.value).map(|limit| &limit.action);
            matches!(action, Some(Action::Challenge { .. }))
        };
        for route in routes {
            let limits = route.limits.as_deref().unwrap_or_default();
            for limit in limits {
                let Some(then) = self.find(&limit.value) else {
                    continue;
                };
                if let Some(both) = limits.iter().find(|other| other.value == then.value) {
                    report.error(
                        &both.place,
                        format!(
                            "{} is also the second limit of {}, which would ask it again",
                            quoted(&both.value),
                            quoted(&limit.value)
                        ),
                        match counts_pages_of(limit) {
                            true => "leave it out here, or name another one with `unsolved`",
                            false => "leave it out here, or name another one with `fallback_limit`",
                        },
                    );
                }
            }
        }
    }
}

/// Reports a limit of pages that does not count each of them, or does not reject.
fn check_unsolved(then: &PlacedValue<Name>, rules: &LimitRules, report: &ProblemReport<'_>) {
    let name = quoted(&then.value);
    let is_settled = rules.count_if.is_some()
        || matches!(rules.cost, CostRules::Measured(_))
        || rules.count == CountedRequests::Origin;
    if rules.action != Action::Reject {
        report.error(
            &then.place,
            format!(
                "the action of {name} is \"{}\", and it has to reject clients that solve no challenge",
                rules.action.name()
            ),
            "name a limit with action = \"reject\"",
        );
    } else if rules.activation.is_some() {
        report.error(
            &then.place,
            format!("{name} rejects only while its condition holds, and else pages would be free"),
            "name a limit without `when`",
        );
    } else if is_settled {
        report.error(
            &then.place,
            format!("{name} counts by the origin's response, and a page with a challenge has none"),
            "name a limit without count_if, count and a cost of the response",
        );
    }
}
