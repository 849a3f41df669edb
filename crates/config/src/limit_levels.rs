//! Owns the limits that `prefixes` of other limits make: their names, and the routes that ask them.

use std::collections::BTreeMap;

use super::fallback_limit::FallbackLimits;
use super::field::quoted;
use super::prefixes::PrefixLevel;
use super::report::{KeyPlace, PlacedValue, ProblemReport};
use super::rules::{LimitRules, Name};
use super::section::is_name;
use super::tables::parsed_route::ParsedRoute;
use super::tables::route::MOST_LIMITS;

/// The names of the levels of each limit that has some.
#[derive(Default)]
pub(super) struct LimitLevels(BTreeMap<Name, Vec<Name>>);

impl LimitLevels {
    /// Adds the levels of the limit `owner`, and their names to those that are `defined`; the rules of each under its name.
    pub(super) fn add(
        &mut self,
        owner: &Name,
        levels: Vec<PrefixLevel>,
        defined: &mut BTreeMap<Name, KeyPlace>,
        report: &ProblemReport<'_>,
    ) -> Vec<(Name, LimitRules)> {
        let mut named = Vec::new();
        for PrefixLevel {
            suffix,
            place,
            rules,
        } in levels
        {
            let name = Name::from(format!("{owner}{suffix}"));
            if let Some(other) = defined.get(&name) {
                let line = report.line_of(other);
                report.error(
                    &place,
                    format!(
                        "this level is called {}, as is the limit on line {line}",
                        quoted(&name)
                    ),
                    "give that limit another name",
                );
            } else if !is_name(&name) {
                report.error(
                    &place,
                    format!(
                        "this level is called {}, which is too long for a name",
                        quoted(&name)
                    ),
                    format!(
                        "give the limit a name of at most {} characters",
                        64 - suffix.len()
                    ),
                );
            } else {
                defined.insert(name.clone(), place);
                self.0.entry(owner.clone()).or_default().push(name.clone());
                named.push((name, rules));
            }
        }
        named
    }

    /// Lets each route ask the levels of its limits, behind their limit.
    pub(super) fn extend_routes(&self, routes: &mut [ParsedRoute], report: &ProblemReport<'_>) {
        for route in routes {
            let Some(written) = route.limits.take() else {
                continue;
            };
            let with_levels = |limit: PlacedValue<Name>| {
                let levels = self.0.get(&limit.value).into_iter().flatten();
                let levels = levels.map(|name| PlacedValue {
                    value: name.clone(),
                    place: limit.place.clone(),
                });
                let levels: Vec<_> = levels.collect();
                std::iter::once(limit).chain(levels)
            };
            let all: Vec<_> = written.into_iter().flat_map(with_levels).collect();
            if let Some(surplus) = all.get(MOST_LIMITS) {
                report.error(
                    &surplus.place,
                    format!(
                        "with the prefixes of its limits this route has {} limits",
                        all.len()
                    ),
                    format!("keep at most {MOST_LIMITS}, each prefix counted"),
                );
                route.rules = None;
            }
            if let Some(rules) = &mut route.rules {
                rules.limits = all.iter().map(|limit| limit.value.clone()).collect();
            }
            route.limits = Some(all);
        }
    }

    /// Reports limits with levels that stand in for another limit, which has one stand-in.
    pub(super) fn check_fallbacks(&self, fallbacks: &FallbackLimits, report: &ProblemReport<'_>) {
        for then in fallbacks
            .all()
            .filter(|then| self.0.contains_key(&then.value))
        {
            report.error(
                &then.place,
                format!(
                    "{} has prefixes, and one limit alone is asked in place of another",
                    quoted(&then.value)
                ),
                "name a limit without prefixes",
            );
        }
    }
}
