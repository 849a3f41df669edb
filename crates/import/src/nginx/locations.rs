//! Decides which paths of routes stand for the locations of a server block.
//!
//! nginx takes the exact location, else the longest prefix; if that is no `^~`, the first expression that matches goes before it. Routes
//! are ranked: text, then expressions in the order of the file, then patterns. A prefix that ends with a slash is a pattern. Any other
//! prefix also takes `/prefixed`, so it is an expression; longer prefixes then are expressions before it.

use super::scope::SettingScope;
use super::tree::Directive;
use crate::ledger::Ledger;
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
}

impl LocationBlock<'_> {
    /// Returns the expression in the syntax of the engine, with regard to case or without.
    pub(super) fn expression(&self) -> Option<String> {
        let modifier = self.directive.and_then(|it| it.word(0));
        match (self.match_kind, modifier) {
            (LocationMatch::Expression, Some("~*")) => Some(format!("(?i){}", self.text)),
            (LocationMatch::Expression, _) => Some(self.text.clone()),
            _ => None,
        }
    }

    /// Returns the location as reports name it.
    pub(super) fn shown(&self) -> String {
        format!("location {}", self.text)
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

/// Collects the locations below a level, those within locations among them.
pub(super) fn collect<'d>(
    directives: &'d [Directive],
    scope: &SettingScope<'d>,
    found: &mut Vec<LocationBlock<'d>>,
    ledger: &mut Ledger,
) {
    for directive in directives.iter().filter(|it| it.name == "location") {
        let (match_kind, text) = match directive.words.as_slice() {
            [text] => match text.chars().next() {
                // nginx takes these without a blank too.
                Some('=') => (LocationMatch::Exact, text[1..].to_owned()),
                Some('@') => (LocationMatch::Named, text.clone()),
                _ => (LocationMatch::Prefix, text.clone()),
            },
            [modifier, text] => {
                let kind = match modifier.as_str() {
                    "=" => LocationMatch::Exact,
                    "^~" => LocationMatch::FinalPrefix,
                    "~" | "~*" => LocationMatch::Expression,
                    other => {
                        ledger.left_out(directive.id, format!("there is no modifier {other:?}"));
                        continue;
                    }
                };
                (kind, text.clone())
            }
            _ => {
                ledger.left_out(directive.id, "a path is expected");
                continue;
            }
        };
        let children = directive.children();
        let scope = scope.within(children);
        collect(children, &scope, found, ledger);
        found.push(LocationBlock {
            directive: Some(directive),
            match_kind,
            text,
            scope,
            children,
            rest: "",
            rewrite: None,
        });
    }
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
    let mut placed: Vec<(PathOrder, PlacedLocation<'d>)> = Vec::new();
    for mut location in locations {
        let text = &location.text;
        let is_final = location.match_kind == LocationMatch::FinalPrefix && has_expressions;
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
            LocationMatch::Expression => PathOrder::Expression,
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
    Expression,
    OpenPrefix(usize),
    Pattern(usize),
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
