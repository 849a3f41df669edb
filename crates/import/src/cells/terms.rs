//! The terms of conditions on requests: host, path, client, fields, parameters and method.

use crate::decoded_paths;
use crate::ledger::EntryId;
use crate::model::RouteValue;
use crate::paths;

/// A comparison of a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ConditionTerm {
    /// The host, in lower case; one of these.
    Host(Vec<String>),
    /// The whole path.
    Path(Vec<PathTerm>),
    Method(Vec<String>),
    /// Blocks of the client's address.
    Client(Vec<String>),
    /// A file with blocks of the client's address.
    ClientFile(String),
    /// A request field, or a parameter of the query.
    Value(RouteValue),
    /// A counter above a number: the most that is let through.
    Above(TableCounter, u64),
    /// The connection has TLS.
    Tls,
    /// Always, or never.
    Constant(TermTruth),
}

/// A counter of a stick table, by which entry it is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableCounter {
    pub(crate) kind: CounterKind,
    /// The number of the sticky counter; `None` for the entry of the client's address.
    pub(crate) tracked: Option<u8>,
    /// The table, where it is named.
    pub(crate) table: Option<String>,
}

/// The events that a counter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CounterKind {
    /// `http_req_rate`
    Requests,
    /// `http_err_rate`
    Errors,
    /// `conn_cur`
    InFlight,
}

impl CounterKind {
    /// Returns the word by which a stick table stores it.
    pub(crate) fn stored(self) -> &'static str {
        match self {
            Self::Requests => "http_req_rate",
            Self::Errors => "http_err_rate",
            Self::InFlight => "conn_cur",
        }
    }
}

/// A term that depends on nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TermTruth {
    True,
    False,
}

/// A comparison with the path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PathTerm {
    Exact(String),
    Beginning(String),
    Ending(String),
    /// A beginning and an ending, which do not overlap.
    Between(String, String),
    Containing(String),
    /// One or several whole segments, without a slash at either side.
    Segments(String),
    /// An expression that is searched in the path.
    Expression(String),
    /// Several comparisons that hold together.
    Every(Vec<PathTerm>),
}

impl PathTerm {
    /// Returns the comparison that an expression is, so that two spellings of one comparison are one route.
    pub(crate) fn searched(expression: &str) -> Self {
        let begins = expression.strip_prefix('^');
        let inner = begins.unwrap_or(expression);
        let ended = inner.strip_suffix('$').filter(|it| !it.ends_with('\\'));
        let text = paths::literal(ended.unwrap_or(inner)).filter(|it| !it.is_empty());
        match (text, begins, ended) {
            (None, _, _) => Self::Expression(expression.to_owned()),
            (Some(text), Some(_), Some(_)) => Self::Exact(text),
            (Some(text), Some(_), None) => Self::Beginning(text),
            (Some(text), None, Some(_)) => Self::Ending(text),
            (Some(text), None, None) => Self::Containing(text),
        }
    }

    /// Returns true if this term holds for every path for which the other one holds.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Every(own), _) => own.iter().all(|it| it.covers(other)),
            (_, Self::Every(parts)) => parts.iter().any(|it| self.covers(it)),
            (Self::Expression(own), Self::Exact(path)) => is_found(own, path),
            (Self::Beginning(own), Self::Expression(text)) => paths::always_begins(text, own),
            (Self::Beginning(own), Self::Beginning(path) | Self::Exact(path)) => {
                path.starts_with(own.as_str())
            }
            (Self::Ending(own), Self::Ending(path) | Self::Exact(path)) => {
                path.ends_with(own.as_str())
            }
            (Self::Beginning(own), Self::Between(begin, _)) => begin.starts_with(own.as_str()),
            (Self::Ending(own), Self::Between(_, end)) => end.ends_with(own.as_str()),
            (Self::Containing(own), Self::Between(begin, end)) => {
                begin.contains(own.as_str()) || end.contains(own.as_str())
            }
            (Self::Between(begin, end), Self::Between(inner, inner_end)) => {
                inner.starts_with(begin.as_str()) && inner_end.ends_with(end.as_str())
            }
            (Self::Between(begin, end), Self::Exact(path)) => {
                let rest = path.strip_prefix(begin.as_str());
                rest.is_some_and(|rest| rest.ends_with(end.as_str()))
            }
            (
                Self::Containing(own),
                Self::Exact(path)
                | Self::Beginning(path)
                | Self::Ending(path)
                | Self::Containing(path),
            ) => path.contains(own.as_str()),
            (Self::Segments(own), Self::Exact(path)) => {
                format!("{path}/").contains(&format!("/{own}/"))
            }
            (Self::Segments(own), Self::Ending(path)) => {
                format!("{path}/").contains(&format!("/{own}/"))
            }
            (Self::Segments(own), Self::Beginning(path) | Self::Containing(path)) => {
                path.contains(&format!("/{own}/"))
            }
            _ => self == other,
        }
    }

    /// Returns true if the term holds for every path.
    pub(crate) fn is_always(&self) -> bool {
        matches!(self, Self::Beginning(text) if matches!(text.as_str(), "" | "/"))
    }

    /// Returns true if a path may exist for which both hold.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Every(parts), other) | (other, Self::Every(parts)) => {
                parts.iter().all(|it| it.overlaps(other))
            }
            (Self::Expression(_), Self::Exact(_)) => self.covers(other),
            (Self::Exact(_), Self::Expression(_)) => other.covers(self),
            (Self::Expression(text), other) | (other, Self::Expression(text)) => {
                let begins = other.beginning();
                let ends = other.ending();
                begins.is_none_or(|it| paths::may_begin(text, it))
                    && ends.is_none_or(|it| paths::may_end(text, it))
            }
            (Self::Exact(_) | Self::Beginning(_), Self::Exact(_) | Self::Beginning(_))
            | (Self::Exact(_), _)
            | (_, Self::Exact(_)) => self.covers(other) || other.covers(self),
            _ => {
                let begins = match (self.beginning(), other.beginning()) {
                    (Some(one), Some(other)) => one.starts_with(other) || other.starts_with(one),
                    _ => true,
                };
                let ends = match (self.ending(), other.ending()) {
                    (Some(one), Some(other)) => one.ends_with(other) || other.ends_with(one),
                    _ => true,
                };
                begins && ends
            }
        }
    }

    fn beginning(&self) -> Option<&str> {
        match self {
            Self::Beginning(text) | Self::Between(text, _) => Some(text),
            _ => None,
        }
    }

    fn ending(&self) -> Option<&str> {
        match self {
            Self::Ending(text) | Self::Between(_, text) => Some(text),
            _ => None,
        }
    }

    /// Returns the term as HAProxy writes it.
    pub(crate) fn text(&self) -> String {
        let (word, value) = match self {
            Self::Exact(value) => ("path", value),
            Self::Beginning(value) => ("path_beg", value),
            Self::Ending(value) => ("path_end", value),
            Self::Between(begin, end) => return format!("path_beg {begin} path_end {end}"),
            Self::Containing(value) => ("path_sub", value),
            Self::Segments(value) => ("path_dir", value),
            Self::Expression(value) => ("path_reg", value),
            Self::Every(parts) => {
                let texts: Vec<String> = parts.iter().map(Self::text).collect();
                return texts.join(" ");
            }
        };
        format!("{word} {value}")
    }
}

/// Returns true if an expression is found in a path, which is decoded unless it has escapes. One that cannot be read has no route, and is
/// to be filled in.
fn is_found(expression: &str, path: &str) -> bool {
    let path = match path.contains('%') {
        true => path.to_owned(),
        false => decoded_paths::text_in_normal_form(path),
    };
    regex::Regex::new(expression).is_ok_and(|it| it.is_match(&path))
}

/// A term, or its opposite.
#[derive(Clone, Debug)]
pub(crate) struct SignedTerm {
    pub(crate) term: ConditionTerm,
    pub(crate) is_negated: bool,
}

/// Alternatives of terms that hold together. No alternative is never, an alternative without terms is always.
#[derive(Clone, Debug, Default)]
pub(crate) struct RuleCondition {
    pub(crate) alternatives: Vec<Vec<SignedTerm>>,
    /// The `acl` lines that it names.
    pub(crate) sources: Vec<EntryId>,
}
