//! Owns a location of nginx: its comparison with paths, and the settings that hold in it.

use sluicegate_base::path::PathCase;

use super::listens::ServerBlock;
use super::scope::SettingScope;
use super::tree::Directive;
use crate::ledger::EntryId;

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
    /// The location that this leads to, where the paths decide that.
    pub(super) passes_to: Option<&'d Directive>,
    /// The prefixes that it stands within, from the outermost on.
    pub(super) outer: Vec<OuterPrefix>,
}

/// A location with a prefix that others stand within.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OuterPrefix {
    pub(super) id: EntryId,
    pub(super) text: String,
}

impl<'d> LocationBlock<'d> {
    /// Returns the paths of a server block that no location takes, with directives that answer them.
    pub(super) fn of_server(server: &ServerBlock<'d>, children: &'d [Directive]) -> Self {
        Self {
            directive: None,
            match_kind: LocationMatch::Prefix,
            text: "/".to_owned(),
            scope: server.scope.clone(),
            children,
            rest: "{rest}",
            rewrite: None,
            passes_to: None,
            outer: Vec::new(),
        }
    }

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

    /// Returns the treatment of case: `~*` ignores it.
    pub(super) fn case(&self) -> PathCase {
        let is_folded = |text: &str| text.starts_with("(?i)");
        match self.expression().is_some_and(|it| is_folded(&it)) {
            true => PathCase::Ignored,
            false => PathCase::Kept,
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

/// Returns true for a comparison with the beginning of a path.
pub(super) fn is_prefix(kind: LocationMatch) -> bool {
    matches!(kind, LocationMatch::Prefix | LocationMatch::FinalPrefix)
}
