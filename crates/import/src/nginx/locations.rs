//! Decides which paths of routes stand for the locations of a server block.
//!
//! nginx takes the exact location, else the longest prefix; if that is no `^~`, the first expression that matches goes before it. Routes
//! are ranked: text, then expressions in the order of the file, then patterns. A prefix that ends with a slash is a pattern. Any other
//! prefix also takes `/prefixed`, so it is an expression; longer prefixes then are expressions before it. nginx looks at an expression within a
//! location for requests of this location alone, and before it looks at those around.

use super::scope::SettingScope;
use super::tree::Directive;
use crate::ledger::{EntryId, Ledger};
use crate::paths;

/// A location with the settings that hold in it.
#[derive(Clone)]
pub(super) struct LocationBlock<'d> {
    /// `None` where the server block itself is meant.
    pub(super) directive: Option<&'d Directive>,
    pub(super) match_kind: LocationMatch,
    pub(super) text: String,
    pub(super) scope: SettingScope<'d>,
    pub(super) children: &'d [Directive],
    /// The slot for the rest of a path behind a prefix.
    pub(super) rest: &'static str,
    /// The `rewrite` that takes these paths, where they are not those of a location.
    pub(super) rewrite: Option<&'d Directive>,
    /// The prefixes that it stands within, from the outermost on.
    pub(super) outer: Vec<OuterPrefix>,
}

/// A location with a prefix that others stand within.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OuterPrefix {
    id: EntryId,
    text: String,
}

impl LocationBlock<'_> {
    /// Returns the expression in the syntax of the engine, with regard to case or without.
    pub(super) fn expression(&self) -> Option<String> {
        let modifier = self.directive.and_then(|it| it.word(0));
        match (self.match_kind, modifier) {
            (LocationMatch::Expression, Some(modifier)) if modifier.starts_with("~*") => {
                Some(format!("(?i){}", self.text))
            }
            (LocationMatch::Expression, _) => Some(self.text.clone()),
            _ => None,
        }
    }

    /// Returns the location as reports name it.
    pub(super) fn shown(&self) -> String {
        format!("location {}", self.text)
    }

    /// Returns true if it stands within a location.
    fn is_within(&self, outer: &OuterPrefix) -> bool {
        self.outer.iter().any(|it| it.id == outer.id)
    }

    /// Returns true if nginx looks at an expression for requests of this prefix.
    fn meets(&self, expression: &LocationBlock<'_>) -> bool {
        let own = self.directive.map(|it| it.id);
        let holds = |outer: &OuterPrefix| self.is_within(outer) || own == Some(outer.id);
        expression.match_kind == LocationMatch::Expression && expression.outer.iter().all(holds)
    }

    /// Returns true if an expression takes paths of this prefix, of which nginx looks here only: it stands within another, shorter prefix.
    fn is_foreign(&self, expression: &LocationBlock<'_>) -> bool {
        let is_beside = |outer: &OuterPrefix| {
            self.text.len() > outer.text.len()
                && self.text.starts_with(&outer.text)
                && !self.is_within(outer)
        };
        expression.match_kind == LocationMatch::Expression && expression.outer.iter().any(is_beside)
    }
}

/// The comparison of a location with paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LocationMatch {
    /// `=`
    Exact,
    Prefix,
    /// `^~`: expressions do not go before it.
    FinalPrefix,
    /// `~` and `~*`
    Expression,
    /// `@name`: other locations pass requests on to it.
    Named,
}

/// A location with the path of its route.
pub(super) struct PlacedLocation<'d> {
    pub(super) location: LocationBlock<'d>,
    pub(super) path: String,
}

/// Collects the locations below a level, those within locations among them. `around` is the location of the level.
pub(super) fn collect<'d>(
    directives: &'d [Directive],
    scope: &SettingScope<'d>,
    around: Option<&LocationBlock<'d>>,
    found: &mut Vec<LocationBlock<'d>>,
    ledger: &mut Ledger,
) {
    for directive in directives.iter().filter(|it| it.name == "location") {
        let read = read_match(directive).and_then(|(kind, text)| {
            let text = match (kind, around) {
                (LocationMatch::Expression, Some(around)) => within(around, &text)?,
                _ => text,
            };
            Ok((kind, text))
        });
        let (match_kind, text) = match read {
            Ok(read) => read,
            Err(reason) => {
                super::leave_out(directive, &reason, ledger);
                ledger.fill_in_for(directive.id, &reason);
                continue;
            }
        };
        let children = directive.children();
        let mut outer = around.map(|it| it.outer.clone()).unwrap_or_default();
        if let Some(around) = around.filter(|it| is_prefix(it.match_kind))
            && let Some(directive) = around.directive
        {
            outer.push(OuterPrefix {
                id: directive.id,
                text: around.text.clone(),
            });
        }
        let location = LocationBlock {
            directive: Some(directive),
            match_kind,
            text,
            scope: scope.within(children),
            children,
            rest: "",
            rewrite: None,
            outer,
        };
        collect(children, &location.scope, Some(&location), found, ledger);
        found.push(location);
    }
}

/// Returns the comparison of a location, and its text. nginx takes a modifier without a blank behind it too.
fn read_match(directive: &Directive) -> Result<(LocationMatch, String), String> {
    let modifiers = [
        ("=", LocationMatch::Exact),
        ("^~", LocationMatch::FinalPrefix),
        ("~*", LocationMatch::Expression),
        ("~", LocationMatch::Expression),
    ];
    let mut kinds = modifiers.into_iter();
    match directive.words.as_slice() {
        [text] if text.starts_with('@') => Ok((LocationMatch::Named, text.clone())),
        [text] => {
            let found = kinds.find_map(|(modifier, kind)| Some((kind, text.strip_prefix(modifier)?)));
            let (kind, text) = found.unwrap_or((LocationMatch::Prefix, text));
            Ok((kind, text.to_owned()))
        }
        [modifier, text] => match kinds.find(|(known, _)| known == modifier) {
            Some((_, kind)) => Ok((kind, text.clone())),
            None => Err(format!("there is no modifier {modifier:?}")),
        },
        _ => Err("a path is expected".to_owned()),
    }
}

/// Returns an expression for paths that a location takes and one within it.
fn within(around: &LocationBlock<'_>, expression: &str) -> Result<String, String> {
    let both = match around.match_kind {
        LocationMatch::Expression => paths::below_expression(&around.text, expression),
        LocationMatch::Exact | LocationMatch::Named => None,
        LocationMatch::Prefix | LocationMatch::FinalPrefix => {
            paths::below_prefix(&around.text, expression)
        }
    };
    both.ok_or_else(|| {
        let outer = around.shown();
        format!("no path of a route is this within {outer}, where alone nginx looks at it")
    })
}

/// Gives each location its path, in the order in which the routes are written. Those that no path stands for are left out.
pub(super) fn place<'d>(
    locations: Vec<LocationBlock<'d>>,
    ledger: &mut Ledger,
) -> Vec<PlacedLocation<'d>> {
    let open: Vec<String> = locations
        .iter()
        .filter(|it| is_prefix(it.match_kind) && !it.text.ends_with('/'))
        .map(|it| it.text.clone())
        .collect();
    let has_expressions = locations
        .iter()
        .any(|it| it.match_kind == LocationMatch::Expression);
    let prefixes: Vec<String> = locations
        .iter()
        .filter(|it| it.match_kind == LocationMatch::Prefix)
        .map(|it| it.text.clone())
        .collect();
    let all = locations.clone();
    let mut placed: Vec<(PathOrder, PlacedLocation<'d>)> = Vec::new();
    for mut location in locations {
        let text = &location.text;
        let is_before_foreign = goes_before_foreign(&location, &all, ledger);
        let is_final = is_before_foreign
            || (location.match_kind == LocationMatch::FinalPrefix && has_expressions);
        let is_expression = is_prefix(location.match_kind)
            && (is_final || open.iter().any(|other| text.starts_with(other.as_str())));
        let path = match location.match_kind {
            LocationMatch::Named => continue,
            LocationMatch::Exact => literal(text),
            LocationMatch::Expression => paths::searched(text),
            _ if is_expression => paths::beginning_with(text),
            _ => literal(text).map(|text| text + "*"),
        };
        let path = match path {
            Ok(path) => path,
            Err(reason) => {
                if let Some(directive) = location.directive {
                    let reason = format!("no path of a route is this: {reason}");
                    super::leave_out(directive, &reason, ledger);
                    ledger.fill_in_for(directive.id, &reason);
                }
                continue;
            }
        };
        if let Some(directive) = location.directive {
            ledger.translated(directive.id);
            let longer =
                |other: &String| other.len() > text.len() && other.starts_with(text.as_str());
            if is_final && prefixes.iter().any(longer) {
                let difference =
                    "expressions do not go before longer prefixes within this one either";
                ledger.differs(directive.id, difference);
            }
        }
        let order = match location.match_kind {
            LocationMatch::Expression if location.rewrite.is_some() => PathOrder::Rewrite,
            LocationMatch::Exact => PathOrder::Exact,
            LocationMatch::Expression => match location.outer.last() {
                Some(outer) => PathOrder::InnerExpression(usize::MAX - outer.text.len()),
                None => PathOrder::Expression,
            },
            _ if is_final => PathOrder::FinalPrefix(usize::MAX - text.len()),
            _ if is_expression => PathOrder::OpenPrefix(usize::MAX - text.len()),
            _ => PathOrder::Pattern(usize::MAX - text.len()),
        };
        location.rest = if is_expression { "{path.1}" } else { "{rest}" };
        placed.push((order, PlacedLocation { location, path }));
    }
    placed.sort_by_key(|(order, _)| *order);
    placed.into_iter().map(|(_, location)| location).collect()
}

/// The order of routes in the file; longer prefixes come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum PathOrder {
    /// By the server block, before a location is looked for.
    Rewrite,
    Exact,
    FinalPrefix(usize),
    /// Within a prefix, where nginx looks at it before those around.
    InnerExpression(usize),
    Expression,
    OpenPrefix(usize),
    Pattern(usize),
}

/// Returns true for a prefix whose route goes before all expressions, since some of them take paths of it that they do not take in nginx.
/// Where others take paths of it in nginx too, its guards are to be filled in.
fn goes_before_foreign(
    location: &LocationBlock<'_>,
    all: &[LocationBlock<'_>],
    ledger: &mut Ledger,
) -> bool {
    if !is_prefix(location.match_kind) {
        return false;
    }
    let mut foreign = all.iter().filter(|it| location.is_foreign(it)).peekable();
    if foreign.peek().is_none() {
        return false;
    }
    let meets_others = all.iter().any(|it| location.meets(it));
    let is_guarded = |it: &LocationBlock<'_>| !it.scope.has_guards_of(&location.scope);
    if meets_others
        && let Some(other) = foreign.find(|it| is_guarded(it))
        && let Some(directive) = location.directive
    {
        let what = format!(
            "requests for its paths that {} fits as well do not meet its limits and lists; write routes for them",
            other.shown()
        );
        ledger.fill_in_for(directive.id, &what);
    }
    !meets_others
}

fn is_prefix(kind: LocationMatch) -> bool {
    matches!(kind, LocationMatch::Prefix | LocationMatch::FinalPrefix)
}

fn literal(text: &str) -> Result<String, String> {
    if !text.starts_with('/') {
        return Err(format!("{text:?} does not begin with a slash"));
    }
    paths::encoded(text).map_err(|c| format!("no path has {c:?}"))
}
