//! Reads matchers as conditions on host, path, method, client, fields and parameters of a request.

use std::collections::BTreeMap;

use sluicegate_base::path::PathCase;

use super::tree::CaddyDirective;
use crate::addresses;
use crate::cells::PathTerm;
use crate::client_fields;
use crate::ledger::EntryId;
use crate::model::RouteValue;
use crate::paths;

/// A condition on a request. `All` without conditions always holds, `Any` without conditions never does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RequestCondition {
    /// The host is one of these, in lower case; `*.example.com` is any below one.
    Host(Vec<String>),
    Path(PathTerm),
    Method(String),
    /// Blocks of the client's address.
    Client(Vec<String>),
    Value(RouteValue),
    Tls,
    All(Vec<RequestCondition>),
    Any(Vec<RequestCondition>),
    Not(Box<RequestCondition>),
}

/// The matcher of a directive.
#[derive(Clone, Debug)]
pub(super) struct RequestMatcher {
    /// The condition, or the reason for which there is none.
    pub(super) condition: Result<RequestCondition, String>,
    /// The only path that it names, by which directives are ordered.
    pub(super) path: Option<String>,
    /// False if the directive is for all requests.
    pub(super) is_some: bool,
    /// The definition, and what stands in it.
    pub(super) sources: Vec<EntryId>,
}

/// The named matchers of a block and of those around it.
#[derive(Debug, Default)]
pub(super) struct MatcherTable<'o> {
    named: BTreeMap<String, RequestMatcher>,
    outer: Option<&'o MatcherTable<'o>>,
}

impl RequestMatcher {
    /// Returns the matcher for all requests.
    pub(super) fn all() -> Self {
        Self {
            condition: Ok(RequestCondition::All(Vec::new())),
            path: None,
            is_some: false,
            sources: Vec::new(),
        }
    }

    /// Returns the matcher of one path.
    pub(super) fn path(pattern: &str) -> Self {
        Self {
            condition: path(pattern),
            path: Some(pattern.to_owned()),
            is_some: true,
            sources: Vec::new(),
        }
    }
}

impl<'o> MatcherTable<'o> {
    /// Returns the matchers of a block within another one.
    pub(super) fn within(outer: &'o MatcherTable<'o>, directives: &[CaddyDirective]) -> Self {
        let mut table = Self {
            named: BTreeMap::new(),
            outer: Some(outer),
        };
        table.define(directives);
        table
    }

    fn find(&self, name: &str) -> Option<&RequestMatcher> {
        let own = self.named.get(name);
        own.or_else(|| self.outer?.find(name))
    }

    /// Adds the definitions of a block.
    fn define(&mut self, directives: &[CaddyDirective]) {
        let definitions = directives.iter().filter(|it| it.name.starts_with('@'));
        for definition in definitions {
            let mut sources = Vec::new();
            collect(definition, &mut sources);
            let lines = lines(definition);
            let mut paths = lines
                .iter()
                .filter(|line| line.name == "path")
                .flat_map(|line| line.arguments);
            let only_path = match (paths.next(), paths.next()) {
                (Some(path), None) => Some(path.clone()),
                _ => None,
            };
            let matcher = RequestMatcher {
                condition: match definition.is_quoted {
                    true => Err(EXPRESSION.to_owned()),
                    false => set(&lines),
                },
                path: only_path,
                is_some: true,
                sources,
            };
            self.named.insert(definition.name.clone(), matcher);
        }
    }

    /// Returns the matcher of a directive and the words behind it.
    pub(super) fn split<'d>(
        &self,
        directive: &'d CaddyDirective,
    ) -> (RequestMatcher, &'d [String]) {
        let words = directive.words.as_slice();
        let Some((first, rest)) = words.split_first() else {
            return (RequestMatcher::all(), words);
        };
        match first.as_str() {
            "*" => (RequestMatcher::all(), rest),
            path if path.starts_with('/') => (RequestMatcher::path(path), rest),
            name if name.starts_with('@') => {
                let unknown = || RequestMatcher {
                    condition: Err(format!("no matcher is named {name}")),
                    is_some: true,
                    ..RequestMatcher::all()
                };
                (self.find(name).cloned().unwrap_or_else(unknown), rest)
            }
            _ => (RequestMatcher::all(), words),
        }
    }
}

/// Why an expression is no condition.
const EXPRESSION: &str = "a route has no condition for an expression";

/// One line of a set of matchers: its name, its arguments, and its block.
struct MatcherLine<'d> {
    name: &'d str,
    arguments: &'d [String],
    directive: &'d CaddyDirective,
}

/// Returns the lines of a definition, which stand behind its name or in its block.
fn lines(definition: &CaddyDirective) -> Vec<MatcherLine<'_>> {
    match definition.words.split_first() {
        Some((name, arguments)) => vec![MatcherLine {
            name,
            arguments,
            directive: definition,
        }],
        None => nested(definition),
    }
}

/// Returns the lines in a block.
fn nested(directive: &CaddyDirective) -> Vec<MatcherLine<'_>> {
    let children = directive.children().iter();
    let lines = children.map(|child| MatcherLine {
        name: &child.name,
        arguments: &child.words,
        directive: child,
    });
    lines.collect()
}

/// Returns the condition of the matchers in a block, of which all must hold.
///
/// # Errors
///
/// The reason for which there is none.
pub(super) fn nested_set(directive: &CaddyDirective) -> Result<RequestCondition, String> {
    match directive.words.split_first() {
        Some((name, arguments)) => set(&[MatcherLine {
            name,
            arguments,
            directive,
        }]),
        None => set(&nested(directive)),
    }
}

fn collect(directive: &CaddyDirective, into: &mut Vec<EntryId>) {
    into.push(directive.id);
    directive.children().iter().for_each(|it| collect(it, into));
}

fn set(lines: &[MatcherLine<'_>]) -> Result<RequestCondition, String> {
    let mut all = Vec::new();
    // Values of one kind are alternatives, of fields and parameters those of one name.
    let mut alternatives: BTreeMap<String, Vec<RequestCondition>> = BTreeMap::new();
    for line in lines {
        match line.name {
            "not" => {
                let inner = match line.arguments.split_first() {
                    Some((name, arguments)) => set(&[MatcherLine {
                        name,
                        arguments,
                        directive: line.directive,
                    }])?,
                    None => set(&nested(line.directive))?,
                };
                all.push(RequestCondition::Not(Box::new(inner)));
            }
            "header" if is_implied(line, lines) => {}
            "header" | "query" => {
                for (name, condition) in values(line)? {
                    let name = format!("{} {name}", line.name);
                    alternatives.entry(name).or_default().push(condition);
                }
            }
            name => {
                let conditions = terms(line)?;
                let same = alternatives.entry(name.to_owned()).or_default();
                same.extend(conditions);
            }
        }
    }
    all.extend(alternatives.into_values().map(RequestCondition::Any));
    Ok(RequestCondition::All(all))
}

/// Returns true for `Connection *Upgrade*` beside a condition on `Upgrade`, without which no request upgrades.
fn is_implied(line: &MatcherLine<'_>, lines: &[MatcherLine<'_>]) -> bool {
    let field = |line: &MatcherLine<'_>| {
        let field = line.arguments.first();
        field.map(|it| it.to_ascii_lowercase()).unwrap_or_default()
    };
    let value = line.arguments.get(1).map(|it| it.to_ascii_lowercase());
    field(line) == "connection"
        && value.is_some_and(|it| it.trim_matches('*') == "upgrade")
        && lines.iter().any(|other| field(other) == "upgrade")
}

/// Reads the arguments of a matcher other than `header`, `query` and `not`.
fn terms(line: &MatcherLine<'_>) -> Result<Vec<RequestCondition>, String> {
    let arguments = line.arguments;
    if let Some(unknown) = arguments.iter().find(|it| it.contains('{'))
        && line.name != "path_regexp"
        && line.name != "expression"
    {
        return Err(format!("a route compares with no placeholder: {unknown}"));
    }
    match line.name {
        "path" => arguments.iter().map(|it| path(it)).collect(),
        "path_regexp" => {
            let pattern = arguments.last().ok_or("path_regexp names no expression")?;
            let pattern = pattern.strip_prefix("(?i)").unwrap_or(pattern);
            let term = PathTerm::Expression(paths::decoded(pattern, PathCase::Kept)?);
            Ok(vec![RequestCondition::Path(term)])
        }
        "host" => {
            let hosts = arguments.iter().map(|it| it.to_ascii_lowercase());
            Ok(vec![RequestCondition::Host(hosts.collect())])
        }
        "method" => {
            let methods = arguments.iter().map(|it| it.to_ascii_uppercase());
            Ok(methods.map(RequestCondition::Method).collect())
        }
        "remote_ip" | "client_ip" => Ok(vec![RequestCondition::Client(blocks(arguments)?)]),
        "protocol" => match arguments.first().map(String::as_str) {
            Some("https") => Ok(vec![RequestCondition::Tls]),
            Some("http") => Ok(vec![RequestCondition::Not(Box::new(RequestCondition::Tls))]),
            other => Err(format!(
                "a route has no condition on the protocol {}",
                other.unwrap_or_default()
            )),
        },
        "expression" => Err(EXPRESSION.to_owned()),
        name => Err(format!("a route has no condition for the matcher {name}")),
    }
}

/// The networks that `private_ranges` stands for.
pub(super) const PRIVATE_RANGES: [&str; 6] = [
    "192.168.0.0/16",
    "172.16.0.0/12",
    "10.0.0.0/8",
    "127.0.0.1/8",
    "fd00::/8",
    "::1",
];

/// Returns blocks of addresses.
///
/// # Errors
///
/// The word that is none.
pub(super) fn blocks(words: &[String]) -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    for word in words {
        match word.as_str() {
            "private_ranges" => {
                found.extend(PRIVATE_RANGES.into_iter().filter_map(addresses::block));
            }
            "forwarded" => {
                return Err(
                    "`forwarded` believes any client; write client_ip and [client]".to_owned(),
                );
            }
            word => {
                let block = addresses::block(word);
                found.push(block.ok_or_else(|| format!("{word} is no block of addresses"))?);
            }
        }
    }
    Ok(found)
}

/// Returns the conditions on fields or parameters, each with the name.
fn values(line: &MatcherLine<'_>) -> Result<Vec<(String, RequestCondition)>, String> {
    let value = |key, name: &str, value: &str| {
        let compared = RouteValue {
            key,
            name: name.to_owned(),
            value: value.to_owned(),
        };
        (name.to_owned(), RequestCondition::Value(compared))
    };
    if line.arguments.iter().any(|it| it.contains('{')) {
        return Err("a route compares with no placeholder".to_owned());
    }
    if line.name == "query" {
        let pairs = line.arguments.iter().map(|pair| {
            let (name, text) = pair.split_once('=').ok_or("a parameter has no value")?;
            match text.contains('*') && text != "*" {
                true => Err(format!("a route has no condition for a part of {name}")),
                false => Ok(value("query", name, text)),
            }
        });
        return pairs.collect();
    }
    let [field, text] = line.arguments else {
        return Err("a route has no condition for a field that is there or absent".to_owned());
    };
    let field = field.to_ascii_lowercase();
    if text.contains('*') || field.starts_with('!') {
        return Err(format!(
            "a route has no condition for a part of {field}, or for its absence"
        ));
    }
    if field == "host" {
        let host = RequestCondition::Host(vec![text.to_ascii_lowercase()]);
        return Ok(vec![(field, host)]);
    }
    if client_fields::is_removed(&field) {
        return Err(format!(
            "the gateway reads {field} of [client] trusted_proxies only"
        ));
    }
    Ok(vec![value("headers", &field, text)])
}

/// Returns the condition of a pattern of paths.
fn path(pattern: &str) -> Result<RequestCondition, String> {
    if pattern == "*" || pattern == "/*" {
        return Ok(RequestCondition::All(Vec::new()));
    }
    if let Some(c) = pattern
        .chars()
        .find(|c| matches!(c, '%' | '[' | '\\' | '{'))
    {
        return Err(format!("a route has no path with {c:?}: {pattern}"));
    }
    let stars = pattern.matches('*').count();
    let inner = pattern.trim_matches('*').to_owned();
    let begins = pattern.starts_with('*');
    let ends = pattern.ends_with('*');
    let term = match (stars, begins, ends) {
        (0, ..) if !pattern.contains('?') => PathTerm::Exact(inner),
        (1, false, true) if !inner.contains('?') => PathTerm::Beginning(inner),
        (1, true, false) => found(&inner, "$", PathTerm::Ending)?,
        (2, true, true) => found(&inner, "", PathTerm::Containing)?,
        _ => {
            let text = paths::escaped(pattern).replace("\\*", "[^/]*");
            // Unlike `path_regexp` it ignores case.
            let text = format!("^(?i){}$", text.replace("\\?", "[^/]"));
            PathTerm::Expression(paths::decoded(&text, PathCase::Ignored)?)
        }
    };
    match &term {
        PathTerm::Exact(text) | PathTerm::Beginning(text) if !text.starts_with('/') => {
            Err(format!("no path begins with {text:?}"))
        }
        PathTerm::Exact(text) | PathTerm::Beginning(text) => match paths::encoded(text) {
            Ok(_) => Ok(RequestCondition::Path(term)),
            Err(c) => Err(format!("no path has {c:?}")),
        },
        PathTerm::Expression(text) => paths::searched(text).map(|_| RequestCondition::Path(term)),
        _ => Ok(RequestCondition::Path(term)),
    }
}

/// Returns the term of a text that is found in the decoded path. Of bytes that a path does not contain plainly it is an expression.
fn found(text: &str, end: &str, term: fn(String) -> PathTerm) -> Result<PathTerm, String> {
    let expression = format!("{}{end}", paths::escaped(text));
    let decoded = paths::decoded(&expression, PathCase::Ignored)?;
    Ok(match decoded == expression {
        true => term(text.to_owned()),
        false => PathTerm::Expression(format!("^(?i){}", decoded.trim_start_matches('^'))),
    })
}

#[cfg(test)]
mod tests {
    use super::super::tree;
    use super::*;
    use crate::ledger::Ledger;
    use crate::source::NoFiles;

    fn read(text: &str) -> Result<RequestCondition, String> {
        let text = format!("a {{\n{text}\n}}\n");
        let tree = tree::parse("c", &text, &NoFiles, &mut Ledger::default()).unwrap();
        let mut table = MatcherTable::default();
        table.define(&tree.sites[0].directives);
        table.named["@m"].condition.clone()
    }

    /// Goal: patterns of paths are those of Caddy. Method: each place of a wildcard.
    #[test]
    fn patterns_become_paths() {
        let term = |pattern: &str| match path(pattern) {
            Ok(RequestCondition::Path(term)) => Ok(term),
            other => Err(format!("{other:?}")),
        };
        let text = str::to_owned;
        assert_eq!(term("/a"), Ok(PathTerm::Exact(text("/a"))));
        assert_eq!(term("/a*"), Ok(PathTerm::Beginning(text("/a"))));
        assert_eq!(term("*.php"), Ok(PathTerm::Ending(text(".php"))));
        assert_eq!(term("*/x/*"), Ok(PathTerm::Containing(text("/x/"))));
        assert_eq!(
            term("/a/*/b"),
            Ok(PathTerm::Expression(text("^(?i)/a/[^/]*/b$")))
        );
        assert_eq!(path("/*"), Ok(RequestCondition::All(Vec::new())));
        assert!(path("/a%2Fb").is_err() && path("a").is_err());
    }

    /// Goal: what a route cannot say is never another condition. Method: matchers that have no counterpart.
    #[test]
    fn matchers_without_a_counterpart_are_errors() {
        for text in [
            "@m expression `{method} == 'GET'`",
            "@m `path('/x')`",
            "@m header X-A",
            "@m header !X-A",
            "@m header X-A b*",
            "@m header X-Forwarded-Proto http",
            "@m not header_regexp X ^a",
            "@m remote_ip forwarded 10.0.0.0/8",
            "@m path /{env.X}",
            "@m path_regexp (",
            "@m protocol grpc",
            "@m file",
            "@m {\n path /a\n vars x y\n}",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    /// Goal: lines hold together, values of one name are alternatives. Method: two fields, one of them twice, and an implied one.
    #[test]
    fn values_of_one_name_are_alternatives() {
        let text = "@m {\n header X-A 1\n header X-A 2\n query b=1\n header Connection *Upgrade*\n header Upgrade websocket\n}";
        let Ok(RequestCondition::All(all)) = read(text) else {
            panic!("no condition");
        };
        let counts = all.iter().map(|it| match it {
            RequestCondition::Any(any) => any.len(),
            _ => 0,
        });
        assert_eq!(counts.collect::<Vec<_>>(), [1, 2, 1]);
    }
}
