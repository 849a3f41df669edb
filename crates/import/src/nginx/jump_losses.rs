//! Records the locations that requests are passed on to, and whose limits and lists the route of these requests does not have.

use std::collections::BTreeSet;

use super::divisions;
use super::jumps::{
    Destination, JumpTable, PathStep, answers_at_once, handler, has_handler, is_redirect, stays_in,
};
use super::location_block::{LocationBlock, LocationMatch};
use super::omissions;
use super::scope::SettingScope;
use super::tree::Directive;
use crate::bounds;
use crate::ledger::Ledger;

impl<'d> JumpTable<'d> {
    /// Records the directives that pass requests to locations with guards that the route does not have.
    pub(super) fn require_others(&self, destination: &Destination<'d>, ledger: &mut Ledger) {
        let all = destination.left.iter().chain([&destination.location]);
        for (number, location) in all.enumerate() {
            let pages = location.scope.error_pages.iter().copied();
            let pages = pages.chain(location.scope.index);
            let directives = location.children.iter().chain(pages);
            let passes_on = |it: &&Directive| !targets(it, location).is_empty();
            let is_followed = |it: &Directive| {
                // A `rewrite` of a part of the paths of the first location has a route of its own.
                destination.jumps.iter().any(|jump| jump.id == it.id)
                    || (it.name == "rewrite" && number == 0 && ledger.is_translated(it.id))
            };
            let others = directives.filter(passes_on).filter(|it| !is_followed(it));
            let others: Vec<&Directive> = others.take(bounds::JUMP_DIRECTIVES + 1).collect();
            if let Some(last) = others.get(bounds::JUMP_DIRECTIVES) {
                let what = "the limits of locations that this one and further directives pass requests on to";
                ledger.fill_in_for(last.id, what);
            }
            for directive in others.into_iter().take(bounds::JUMP_DIRECTIVES) {
                self.require_other(directive, location, destination, ledger);
            }
        }
        for step in &destination.steps {
            self.require_possible(step, ledger);
        }
    }

    fn require_other(
        &self,
        directive: &Directive,
        location: &LocationBlock<'d>,
        destination: &Destination<'d>,
        ledger: &mut Ledger,
    ) {
        for target in targets(directive, location) {
            let target = self.locate(&target);
            if let Some(target) = target
                && !answers_at_once(target)
                && !is_guarded_like(&target.scope, destination)
            {
                let what = format!(
                    "the limits and lists of {} do not hold for requests that it passes on",
                    target.shown()
                );
                ledger.fill_in_for(directive.id, &what);
            }
        }
    }

    /// Records the locations that some paths of a step reach, where a route does not have what they have.
    fn require_possible(&self, step: &PathStep<'d>, ledger: &mut Ledger) {
        let PathStep {
            directive,
            from,
            to,
            is_divided,
        } = step;
        let division = match directive.name.as_str() {
            "rewrite" if from.passes_to.is_some() || stays_in(directive, from) => return,
            "rewrite" => divisions::divide(from, directive, self),
            _ => None,
        };
        let possible = match division {
            Some(division) => {
                if division.repeats {
                    let difference = "a path that it makes is not passed on by it once more";
                    ledger.differs(directive.id, difference);
                }
                let parts = division.parts.iter().filter(|_| !is_divided);
                let mut possible: Vec<_> = parts.filter_map(|it| self.passed_to(it)).collect();
                possible.extend(division.rest);
                possible
            }
            None => self.possible(directive, from),
        };
        // One that has neither is the place of some file.
        let regards = |it: &LocationBlock<'_>| handler(it).is_some() || !it.scope.has_no_guards();
        let others = possible.into_iter().filter(|it| {
            regards(it) && !divisions::is_same_location(it, to) && !divisions::answers_alike(it, to)
        });
        let others: Vec<&LocationBlock<'d>> = others.take(bounds::REWRITE_PARTS + 1).collect();
        if others.len() > bounds::REWRITE_PARTS {
            let most = bounds::REWRITE_PARTS;
            let what = format!("more than {most} locations take the requests that it passes on");
            ledger.fill_in_for(directive.id, &what);
            return;
        }
        for other in others {
            let what = format!(
                "{} takes some of the requests that it passes on; write a route with its limits, lists and server for them",
                other.shown()
            );
            ledger.fill_in_for(directive.id, &what);
        }
    }

    /// Returns the locations that the paths which a directive makes can reach.
    fn possible(&self, directive: &Directive, from: &LocationBlock<'_>) -> Vec<&LocationBlock<'d>> {
        let texts = targets(directive, from);
        let places = texts
            .iter()
            .flat_map(|text| self.index.possible(text, &self.locations));
        places
            .filter_map(|place| self.locations.get(place))
            .collect()
    }

    /// Leaves out the locations that no route takes. One that no directive names has no requests.
    pub(super) fn leave_unreached(&self, server: &[Directive], ledger: &mut Ledger) {
        let mut named = BTreeSet::new();
        add_names(server, &mut named);
        let pages = self
            .locations
            .iter()
            .flat_map(|it| it.scope.error_pages.first());
        for page in pages {
            named.extend(page.arguments());
        }
        for location in &self.locations {
            let Some(directive) = location.directive else {
                continue;
            };
            if location.match_kind != LocationMatch::Named || ledger.is_translated(directive.id) {
                continue;
            }
            match named.contains(location.text.as_str()) {
                true => omissions::leave_out(
                    directive,
                    "no route takes the requests that come to it",
                    ledger,
                ),
                false => omissions::leave_without_effect(
                    directive,
                    "no directive passes requests on to it",
                    ledger,
                ),
            }
        }
    }
}

/// Collects the names of locations that directives pass requests on to.
fn add_names<'d>(directives: &'d [Directive], names: &mut BTreeSet<&'d str>) {
    for directive in directives {
        if directive.name != "location" {
            names.extend(directive.arguments().filter(|word| word.starts_with('@')));
        }
        add_names(directive.children(), names);
    }
}

/// Returns the paths and names that a directive of a location passes requests on to.
fn targets(directive: &Directive, location: &LocationBlock<'_>) -> Vec<String> {
    let words = || directive.arguments().map(str::to_owned);
    match directive.name.as_str() {
        "rewrite" if !is_redirect(directive) => words().nth(1).into_iter().collect(),
        "try_files" | "error_page" => words().last().into_iter().collect(),
        "index" if !has_handler(location) => {
            let folder = location.text.trim_end_matches('/').to_owned() + "/";
            words().map(|file| folder.clone() + &file).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns true if the guards of a level hold for requests at a destination.
fn is_guarded_like(scope: &SettingScope<'_>, destination: &Destination<'_>) -> bool {
    let own = &destination.location.scope;
    let is_held = |directive: &&Directive| {
        let lists = [&own.requests, &own.connections, &own.access];
        let mut held = lists
            .into_iter()
            .chain(&destination.access_before)
            .flatten();
        held.any(|it| it.id == directive.id)
    };
    let lists = [&scope.requests, &scope.connections, &scope.access];
    lists.into_iter().flatten().all(is_held)
}
