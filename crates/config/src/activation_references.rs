//! Judges what conditions over figures say about limits and origins: those that nobody defines, figures that have no value, and circles.
//!
//! A limit that rejects only while another rejects, which depends on the first, would never begin, or switch on and off; so a circle is an
//! error.

use std::collections::{BTreeMap, BTreeSet};

use super::action::Action;
use super::defined_names::DefinedNames;
use super::field::quoted;
use super::load_condition::{LimitFigure, LoadCondition, LoadFigure, OriginFigure};
use super::report::{KeyPlace, PlacedValue, ProblemReport};
use super::rules::{KeyPart, LimitRules, Name, OriginRules};
use super::suggest;

/// The conditions of each limit and its tiers.
pub(super) type PlacedConditions = BTreeMap<Name, Vec<PlacedValue<LoadCondition>>>;

/// The tables that conditions are about.
pub(super) struct ConditionSubjects<'t> {
    pub(super) limits: &'t BTreeMap<Name, LimitRules>,
    pub(super) origins: &'t BTreeMap<Name, OriginRules>,
    pub(super) defined: &'t DefinedNames,
}

/// Reports every figure that has no value, and limits whose conditions depend on themselves.
pub(super) fn check(
    conditions: &PlacedConditions,
    subjects: &ConditionSubjects<'_>,
    report: &ProblemReport<'_>,
) {
    for condition in conditions.values().flatten() {
        for figure in condition.value.figures() {
            match figure {
                LoadFigure::Limit(name, figure) => {
                    subjects.check_limit(name, *figure, &condition.place, report);
                }
                LoadFigure::Origin(name, figure) => {
                    subjects.check_origin(name, *figure, &condition.place, report);
                }
                LoadFigure::Connections => {}
            }
        }
    }
    check_circles(conditions, report);
}

impl ConditionSubjects<'_> {
    fn check_limit(
        &self,
        name: &Name,
        figure: LimitFigure,
        place: &KeyPlace,
        report: &ProblemReport<'_>,
    ) {
        if !self.defined.limits.contains_key(name) {
            return undefined("limit", name, &self.defined.limits, place, report);
        }
        // A limit that could not be read was reported.
        let Some(limit) = self.limits.get(name) else {
            return;
        };
        let shown = quoted(name);
        match figure {
            LimitFigure::Used if limit.key.0 != [KeyPart::Global] => report.error(
                place,
                format!(
                    "the limit {shown} counts each value of {} by itself, so no one share of it is used",
                    limit.key
                ),
                format!(
                    "name a limit with key = \"global\", or compare limit.{name}.rejected, its rejections per second"
                ),
            ),
            LimitFigure::Rejected
                if matches!(limit.action, Action::Shadow | Action::Mark { .. }) =>
            {
                report.error(
                    place,
                    format!(
                        "the action of {shown} is \"{}\", so it never rejects",
                        limit.action.name()
                    ),
                    "name a limit that rejects, delays or challenges",
                );
            }
            LimitFigure::Used | LimitFigure::Rejected => {}
        }
    }

    fn check_origin(
        &self,
        name: &Name,
        figure: OriginFigure,
        place: &KeyPlace,
        report: &ProblemReport<'_>,
    ) {
        if !self.defined.origins.contains_key(name) {
            return undefined("origin", name, &self.defined.origins, place, report);
        }
        let Some(origin) = self.origins.get(name) else {
            return;
        };
        let queues = origin
            .circuit_breaker
            .is_some_and(|rules| rules.max_pending > 0);
        if figure == OriginFigure::Pending && !queues {
            report.error(
                place,
                format!("no request waits for a place at the origin {}", quoted(name)),
                format!(
                    "write [origin.{name}.circuit_breaker] with max_requests = 100 and max_pending = 200, or compare \
                     origin.{name}.in_flight"
                ),
            );
        }
    }
}

fn undefined(
    kind: &str,
    name: &Name,
    known: &BTreeMap<Name, KeyPlace>,
    place: &KeyPlace,
    report: &ProblemReport<'_>,
) {
    let advice = match suggest::nearest(name, known.keys().map(|name| &**name)) {
        Some(meant) => format!("did you mean \"{meant}\"?"),
        None => format!("define it with [{kind}.{name}], or compare another figure"),
    };
    report.absent(
        place,
        format!("there is no {kind} {}", quoted(name)),
        advice,
    );
}

/// Reports each limit from which conditions lead back to the limit itself, at its first condition.
fn check_circles(conditions: &PlacedConditions, report: &ProblemReport<'_>) {
    for (name, own) in conditions {
        let (Some(circle), Some(first)) = (circle_of(name, conditions), own.first()) else {
            continue;
        };
        // A circle of several limits is told once, at the limit whose name is first.
        if circle.iter().min() != Some(&name) {
            continue;
        }
        let path: Vec<String> = circle.iter().map(|name| quoted(name)).collect();
        let message = match path.as_slice() {
            [one] => format!("the condition of {one} depends on {one} itself"),
            path => format!(
                "the conditions of {} depend on each other in a circle",
                path.join(" and ")
            ),
        };
        report.error(
            &first.place,
            message,
            "compare a figure of another limit, or of an origin",
        );
    }
}

/// Returns the shortest way through conditions from a limit back to itself, from there on; `None` where there is none.
fn circle_of<'c>(start: &'c Name, conditions: &'c PlacedConditions) -> Option<Vec<&'c Name>> {
    let mut ways = vec![vec![start]];
    let mut seen = BTreeSet::new();
    // Each limit extends one way at most.
    while !ways.is_empty() {
        let mut longer = Vec::new();
        for way in ways {
            let end = *way.last()?;
            for next in limits_in(end, conditions) {
                if next == start {
                    return Some(way);
                }
                if seen.insert(next) {
                    longer.push(way.iter().copied().chain([next]).collect());
                }
            }
        }
        ways = longer;
    }
    None
}

/// Returns the limits whose figures the conditions of a limit compare.
fn limits_in<'c>(name: &Name, conditions: &'c PlacedConditions) -> impl Iterator<Item = &'c Name> {
    let own = conditions.get(name).into_iter().flatten();
    let figures = own.flat_map(|condition| condition.value.figures());
    figures.filter_map(|figure| match figure {
        LoadFigure::Limit(name, _) => Some(name),
        LoadFigure::Origin(..) | LoadFigure::Connections => None,
    })
}
