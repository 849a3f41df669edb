//! Decides in which location requests are answered that another one passes on: by `rewrite`, `try_files` and `error_page`.
//!
//! A request that a `rewrite` passes on has met none of the limits of its first location. One that `try_files` or `error_page` passes on
//! has met them: nginx then skips limits of the same kind in the location behind, and compares the client with the `allow` and `deny` of
//! both.

use super::divisions;
use super::location_block::{LocationBlock, LocationMatch};
use super::location_index::LocationIndex;
use super::redirects;
use super::scope::SettingScope;
use super::templates::{self, PathChange};
use super::tree::Directive;
use crate::bounds;

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
    /// The steps by paths.
    pub(super) steps: Vec<PathStep<'d>>,
}

/// A step of which the path decides where it leads.
pub(super) struct PathStep<'d> {
    pub(super) directive: &'d Directive,
    pub(super) from: LocationBlock<'d>,
    /// The location that is taken.
    pub(super) to: LocationBlock<'d>,
    /// True where further routes have the paths that reach others.
    pub(super) is_divided: bool,
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
    pub(super) locations: Vec<LocationBlock<'d>>,
    pub(super) index: LocationIndex,
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
            steps: Vec::new(),
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
            let by_path = jump.via.iter().find(|it| leads_by_path(it));
            found.steps.extend(by_path.map(|directive| PathStep {
                directive,
                from: found.location.clone(),
                to: jump.target.clone(),
                is_divided: found.left.is_empty() && jump.kind == JumpKind::Rewrite,
            }));
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

    /// Returns all locations but those within others that no path is known for.
    pub(super) fn locations(&self) -> impl Iterator<Item = &LocationBlock<'d>> {
        self.locations.iter()
    }

    /// Returns the location that paths with a beginning reach unless a narrower one takes them.
    pub(super) fn base(&self, beginning: &str) -> Option<&LocationBlock<'d>> {
        let widest = self.widest(beginning);
        if widest.is_some_and(|it| it.match_kind == LocationMatch::FinalPrefix) {
            return widest;
        }
        let expression = self.index.whole_expression(beginning);
        expression
            .and_then(|place| self.locations.get(place))
            .or(widest)
    }

    /// Returns the location with the longest prefix of a text.
    pub(super) fn widest(&self, text: &str) -> Option<&LocationBlock<'d>> {
        self.locations.get(self.index.widest(text)?)
    }

    /// Returns the `rewrite` that passes on all paths of a location to others.
    pub(super) fn rewrite_of_all(&self, location: &LocationBlock<'d>) -> Option<&'d Directive> {
        let jump = self.next(location, location, &PathChange::Unchanged)?;
        let rewrite = jump.via.last().copied();
        rewrite.filter(|it| jump.kind == JumpKind::Rewrite && it.name == "rewrite")
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
        let target = match stays_in(rewrite, location) {
            true => location,
            false => self.target_of(rewrite, location)?,
        };
        Some(LocationJump {
            via: vec![rewrite],
            target: target.clone(),
            kind,
            path,
        })
    }

    /// Returns the location that a `rewrite` leads to.
    fn target_of(
        &self,
        rewrite: &'d Directive,
        location: &LocationBlock<'d>,
    ) -> Option<&LocationBlock<'d>> {
        if location.passes_to.is_some() {
            return self.passed_to(location);
        }
        divisions::base(location, rewrite, self).or_else(|| self.locate(rewrite.word(1)?))
    }

    /// Returns the location that a part of the paths of a `rewrite` reaches.
    pub(super) fn passed_to(&self, part: &LocationBlock<'d>) -> Option<&LocationBlock<'d>> {
        let id = part.passes_to?.id;
        let mut all = self.locations.iter();
        all.find(|it| it.directive.is_some_and(|it| it.id == id))
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

/// Returns true for a directive with the path that requests are passed on by.
fn leads_by_path(directive: &Directive) -> bool {
    matches!(
        directive.name.as_str(),
        "rewrite" | "try_files" | "error_page"
    )
}

/// Returns the directive by which a location answers, unless with files.
pub(super) fn handler<'d>(location: &LocationBlock<'d>) -> Option<&'d Directive> {
    let answers = |it: &&Directive| it.name == "return" || HANDLERS.contains(&it.name.as_str());
    location.children.iter().find(answers)
}

pub(super) fn has_handler(location: &LocationBlock<'_>) -> bool {
    let mut children = location.children.iter();
    children.any(|it| HANDLERS.contains(&it.name.as_str()))
}

/// Returns true if a location answers with more than a file.
fn leads_on(location: &LocationBlock<'_>) -> bool {
    let passes_on = |it: &Directive| matches!(it.name.as_str(), "rewrite" | "try_files" | "if");
    has_handler(location) || location.children.iter().any(passes_on)
}

pub(super) fn answers_at_once(location: &LocationBlock<'_>) -> bool {
    location.children.iter().any(|it| it.name == "return") || redirects::answer(location).is_some()
}

/// Returns true if the location goes on with the new path.
pub(super) fn stays_in(rewrite: &Directive, location: &LocationBlock<'_>) -> bool {
    let is_of_location = location.directive.is_some() && location.rewrite.is_none();
    is_of_location && rewrite.word(2) == Some("break")
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
