//! Decides in which location requests are answered that another one passes on: by `rewrite`, `try_files` and `error_page`.
//!
//! A request that a `rewrite` passes on has met none of the limits of its first location. One that `try_files` or `error_page` passes on
//! has met them: nginx then skips limits of the same kind in the location behind, and compares the client with the `allow` and `deny` of
//! both.

use std::collections::BTreeSet;

use super::location_index::LocationIndex;
use super::locations::{LocationBlock, LocationMatch};
use super::redirects;
use super::scope::SettingScope;
use super::templates::{self, PathChange};
use super::tree::Directive;
use crate::bounds;
use crate::ledger::Ledger;

/// Statuses that nginx answers where a file is missing, is a directory, or is written to.
const FILE_STATUSES: [&str; 3] = ["404", "403", "405"];

/// Directives by which a location answers with something else than files.
const HANDLERS: [&str; 6] = [
    "proxy_pass",
    "grpc_pass",
    "fastcgi_pass",
    "uwsgi_pass",
    "scgi_pass",
    "memcached_pass",
];

/// The location that answers, and what holds on the way to it.
pub(super) struct Destination<'d> {
    /// Its scope has the limits that nginx counts.
    pub(super) location: LocationBlock<'d>,
    /// The lists of `allow` and `deny` of the locations before.
    pub(super) access_before: Vec<Vec<&'d Directive>>,
    /// The bounds on bodies of the locations before.
    pub(super) max_body_before: Vec<&'d Directive>,
    /// The path that it gets.
    pub(super) path: PathChange,
    /// The directives that pass requests on.
    pub(super) jumps: Vec<&'d Directive>,
    /// Those of them that leave requests for files where they are.
    pub(super) files: Vec<&'d Directive>,
    /// The locations whose limits and lists no request meets.
    pub(super) unmet: Vec<SettingScope<'d>>,
    /// The locations before.
    pub(super) left: Vec<LocationBlock<'d>>,
}

impl<'d> Destination<'d> {
    /// Returns the lists of `allow` and `deny` that a request meets.
    pub(super) fn access(&self) -> Vec<Vec<&'d Directive>> {
        let mut levels = self.access_before.clone();
        levels.push(self.location.scope.access.clone());
        levels
    }
}

/// A step from one location to another.
struct LocationJump<'d> {
    /// The directives that make it.
    via: Vec<&'d Directive>,
    target: LocationBlock<'d>,
    kind: JumpKind,
    path: PathChange,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum JumpKind {
    /// Before limits are counted.
    Rewrite,
    /// Before limits are counted, for requests without a file; those with one stay.
    FileTest,
    /// Behind the limits, for requests without a file.
    Fallback,
    /// Before limits are counted, by a status that `return` gives.
    Error,
}

/// All locations of a server block.
pub(super) struct JumpTable<'d> {
    locations: Vec<LocationBlock<'d>>,
    index: LocationIndex,
}

impl<'d> JumpTable<'d> {
    pub(super) fn new(locations: Vec<LocationBlock<'d>>) -> Self {
        let index = LocationIndex::new(&locations);
        Self { locations, index }
    }

    /// Follows requests of a location to the one that answers them.
    pub(super) fn destination(&self, from: &LocationBlock<'d>) -> Destination<'d> {
        let mut found = Destination {
            location: from.clone(),
            access_before: Vec::new(),
            max_body_before: Vec::new(),
            path: PathChange::Unchanged,
            jumps: Vec::new(),
            files: Vec::new(),
            unmet: Vec::new(),
            left: Vec::new(),
        };
        let mut counted = SettingScope::default();
        for _ in 0..bounds::JUMPS {
            let Some(jump) = self.next(&found.location, from, &found.path) else {
                break;
            };
            let scope = &found.location.scope;
            match jump.kind {
                JumpKind::Rewrite if same(&found.location, &jump.target) => {}
                // nginx answers `return` in the same phase.
                JumpKind::Rewrite | JumpKind::Error => found.unmet.push(scope.clone()),
                JumpKind::FileTest => {
                    counted.count_both(scope, &jump.target.scope);
                    found.access_before.push(scope.access.clone());
                }
                JumpKind::Fallback => {
                    counted.count_first(scope);
                    found.access_before.push(scope.access.clone());
                }
            }
            if matches!(jump.kind, JumpKind::FileTest | JumpKind::Fallback) {
                found.files.extend(jump.via.first());
            }
            found.max_body_before.extend(scope.max_body);
            found.jumps.extend(jump.via);
            if jump.path != PathChange::Unchanged {
                found.path = jump.path;
            }
            let stays = same(&found.location, &jump.target);
            let left = std::mem::replace(&mut found.location, jump.target);
            if stays {
                break;
            }
            found.left.push(left);
        }
        counted.count_first(&found.location.scope);
        found.location.scope.take_limits(counted);
        found
    }

    /// Records the directives that pass requests to locations with guards that the route does not have.
    pub(super) fn require_others(&self, destination: &Destination<'d>, ledger: &mut Ledger) {
        for location in destination.left.iter().chain([&destination.location]) {
            let pages = location.scope.error_pages.iter().copied();
            let pages = pages.chain(location.scope.index);
            let directives = location.children.iter().chain(pages);
            let passes_on = |it: &&Directive| !targets(it, location).is_empty();
            let is_followed = |it: &Directive| {
                // A `rewrite` of a part of the paths has a route of its own.
                destination.jumps.iter().any(|jump| jump.id == it.id)
                    || (it.name == "rewrite" && ledger.is_translated(it.id))
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
                true => super::leave_out(
                    directive,
                    "no route takes the requests that come to it",
                    ledger,
                ),
                false => super::leave_without_effect(
                    directive,
                    "no directive passes requests on to it",
                    ledger,
                ),
            }
        }
    }

    /// Returns the next step of requests of a location; `first` is the location that they came to.
    fn next(
        &self,
        location: &LocationBlock<'d>,
        first: &LocationBlock<'d>,
        changed: &PathChange,
    ) -> Option<LocationJump<'d>> {
        if redirects::answer(location).is_some() {
            return None;
        }
        if let Some(jump) = self.rewritten(location, first, changed) {
            return Some(jump);
        }
        let find = |name: &str| location.children.iter().find(|it| it.name == name);
        if let Some(answer) = find("return") {
            let mut jump = self.by_error_page(location, &[answer.word(0)?], first)?;
            jump.via.push(answer);
            return Some(LocationJump {
                kind: JumpKind::Error,
                ..jump
            });
        }
        if let Some(files) = find("try_files")
            && let Some(last) = files.words.last()
            && let Some(target) = self.locate(last)
        {
            let passes_on = !same(location, target) && !answers_at_once(target);
            return passes_on.then(|| LocationJump {
                via: vec![files],
                path: templates::internal(last, first),
                target: target.clone(),
                kind: JumpKind::Fallback,
            });
        }
        match has_handler(location) {
            true => None,
            false => self.by_error_page(location, &FILE_STATUSES, first),
        }
    }

    fn by_error_page(
        &self,
        location: &LocationBlock<'d>,
        statuses: &[&str],
        first: &LocationBlock<'d>,
    ) -> Option<LocationJump<'d>> {
        let of_status = |status: &&str| {
            let mut pages = location.scope.error_pages.iter();
            pages.find(|page| page.arguments().any(|word| word == *status))
        };
        let page = statuses.iter().find_map(of_status)?;
        let last = page.words.last()?;
        // Without `=` a path is that of a page, which nginx answers with the status of the error.
        let is_answer = last.starts_with('@') || page.arguments().any(|word| word.starts_with('='));
        let target = self.locate(last).filter(|_| is_answer)?;
        // A page that is a file is no other way to an origin.
        let is_other = !same(location, target) && !answers_at_once(target) && leads_on(target);
        is_other.then(|| LocationJump {
            via: vec![page],
            path: templates::internal(last, first),
            target: target.clone(),
            kind: JumpKind::Fallback,
        })
    }

    /// Returns the step by `rewrite` of all requests of a location, or of those without a file.
    fn rewritten(
        &self,
        location: &LocationBlock<'d>,
        first: &LocationBlock<'d>,
        changed: &PathChange,
    ) -> Option<LocationJump<'d>> {
        if let Some(rewrite) = location.rewrite {
            return self.by_rewrite(rewrite, location, first, changed, JumpKind::Rewrite);
        }
        // Those of the server block come before a location is looked for.
        location.directive?;
        for directive in location.children {
            let jump = match directive.name.as_str() {
                "rewrite" => {
                    self.by_rewrite(directive, location, first, changed, JumpKind::Rewrite)
                }
                "if" if is_file_test(directive) => {
                    self.by_file_test(directive, location, first, changed)
                }
                "break" | "return" => return None,
                _ => None,
            };
            if jump.is_some() {
                return jump;
            }
        }
        None
    }

    fn by_rewrite(
        &self,
        rewrite: &'d Directive,
        location: &LocationBlock<'d>,
        first: &LocationBlock<'d>,
        changed: &PathChange,
        kind: JumpKind,
    ) -> Option<LocationJump<'d>> {
        let [expression, replacement, ..] = rewrite.words.as_slice() else {
            return None;
        };
        if is_redirect(rewrite) {
            return None;
        }
        let path = templates::rewritten(expression, replacement, location, first, changed)?;
        let stays = rewrite.word(2) == Some("break") && location.directive.is_some();
        let target = match stays && location.rewrite.is_none() {
            true => location,
            false => self.locate(replacement)?,
        };
        Some(LocationJump {
            via: vec![rewrite],
            target: target.clone(),
            kind,
            path,
        })
    }

    /// Returns the step by `if (!-f $request_filename) { … }`.
    fn by_file_test(
        &self,
        test: &'d Directive,
        location: &LocationBlock<'d>,
        first: &LocationBlock<'d>,
        changed: &PathChange,
    ) -> Option<LocationJump<'d>> {
        let children = test.children();
        let find = |name: &str| children.iter().find(|it| it.name == name);
        if let Some(rewrite) = find("rewrite") {
            let jump = self.by_rewrite(rewrite, location, first, changed, JumpKind::FileTest)?;
            return Some(LocationJump {
                via: vec![test, rewrite],
                ..jump
            });
        }
        find("proxy_pass")?;
        let mut scope = location.scope.within(children);
        scope.assignments.clone_from(&location.scope.assignments);
        Some(LocationJump {
            via: vec![test],
            target: LocationBlock {
                scope,
                children,
                ..location.clone()
            },
            kind: JumpKind::FileTest,
            path: PathChange::Unchanged,
        })
    }

    /// Returns the location of a path or of a name; variables stand for some text.
    pub(super) fn locate(&self, text: &str) -> Option<&LocationBlock<'d>> {
        let place = self.index.place(text, &self.locations)?;
        self.locations.get(place)
    }
}

fn same(a: &LocationBlock<'_>, b: &LocationBlock<'_>) -> bool {
    let id = |it: &LocationBlock<'_>| it.directive.map(|directive| directive.id);
    id(a) == id(b) && a.rewrite.is_none() && b.rewrite.is_none()
}

fn has_handler(location: &LocationBlock<'_>) -> bool {
    let mut children = location.children.iter();
    children.any(|it| HANDLERS.contains(&it.name.as_str()))
}

/// Returns true if a location answers with more than a file.
fn leads_on(location: &LocationBlock<'_>) -> bool {
    let passes_on = |it: &Directive| matches!(it.name.as_str(), "rewrite" | "try_files" | "if");
    has_handler(location) || location.children.iter().any(passes_on)
}

fn answers_at_once(location: &LocationBlock<'_>) -> bool {
    location.children.iter().any(|it| it.name == "return") || redirects::answer(location).is_some()
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

/// Returns true if clients are sent elsewhere.
pub(super) fn is_redirect(rewrite: &Directive) -> bool {
    let is_url = |text: &str| {
        ["http://", "https://", "$scheme"]
            .iter()
            .any(|scheme| text.starts_with(scheme))
    };
    rewrite.word(1).is_none_or(is_url) || matches!(rewrite.word(2), Some("redirect" | "permanent"))
}

/// Returns true for `if (!-f $request_filename)` and the like.
fn is_file_test(condition: &Directive) -> bool {
    let test = condition.word(0).unwrap_or_default();
    ["(!-f", "(!-e", "(!-d"].contains(&test) && condition.words.len() == 2
}
