//! Reads rules of routers: matchers with `&&`, `||`, `!` and parentheses, in the syntax of version 3 and in that of version 2.

use sluicegate_base::path::PathCase;

use crate::bounds;
use crate::cells::{ConditionTerm, PathTerm, SignedTerm, TermTruth};
use crate::ingress::annotations::blocks;
use crate::model::RouteValue;
use crate::own_fields::is_field_name;
use crate::paths;

/// The conditions of a router.
#[derive(Clone, Debug)]
pub(super) struct RouterRule {
    /// Alternatives of terms that hold together.
    pub(super) alternatives: Vec<Vec<SignedTerm>>,
    /// The differences, a sentence each.
    pub(super) differences: Vec<String>,
}

impl RouterRule {
    /// Returns the hosts that the rule names and does not exclude.
    pub(super) fn hosts(&self) -> Vec<String> {
        let mut found: Vec<String> = Vec::new();
        let literals = self.alternatives.iter().flatten();
        for literal in literals.filter(|it| !it.is_negated) {
            if let ConditionTerm::Host(hosts) = &literal.term {
                found.extend(hosts.iter().cloned());
            }
        }
        found
    }
}

/// Where a host with an expression is less exact here.
const WILDCARD: &str =
    "a host with `*.` takes every name below it, at any depth and of any characters";

/// An expression of matchers.
enum RuleExpression {
    All(Vec<RuleExpression>),
    Any(Vec<RuleExpression>),
    Not(Box<RuleExpression>),
    Term(ConditionTerm),
}

/// Reads a rule.
///
/// # Errors
///
/// The reason for which no route has these conditions.
pub(super) fn parse(text: &str) -> Result<RouterRule, String> {
    let mut parser = RuleParser {
        rest: text,
        differences: Vec::new(),
    };
    let expression = parser.any(0)?;
    if !parser.rest.trim().is_empty() {
        return Err(format!("the rule ends before {:?}", parser.rest.trim()));
    }
    let alternatives = alternatives(&expression, RulePolarity::Holds)?;
    Ok(RouterRule {
        alternatives,
        differences: parser.differences,
    })
}

/// The truth that is wanted of an expression.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RulePolarity {
    Holds,
    Fails,
}

/// Returns the alternatives of an expression, or of its opposite.
fn alternatives(
    expression: &RuleExpression,
    polarity: RulePolarity,
) -> Result<Vec<Vec<SignedTerm>>, String> {
    match (expression, polarity) {
        (RuleExpression::Not(inner), RulePolarity::Holds) => {
            alternatives(inner, RulePolarity::Fails)
        }
        (RuleExpression::Not(inner), RulePolarity::Fails) => {
            alternatives(inner, RulePolarity::Holds)
        }
        (RuleExpression::Term(term), polarity) => Ok(vec![vec![SignedTerm {
            term: term.clone(),
            is_negated: polarity == RulePolarity::Fails,
        }]]),
        (RuleExpression::Any(parts), RulePolarity::Holds)
        | (RuleExpression::All(parts), RulePolarity::Fails) => {
            let mut found = Vec::new();
            for part in parts {
                found.extend(alternatives(part, polarity)?);
                within_bound(found.len())?;
            }
            Ok(found)
        }
        (RuleExpression::All(parts), RulePolarity::Holds)
        | (RuleExpression::Any(parts), RulePolarity::Fails) => {
            let mut found: Vec<Vec<SignedTerm>> = vec![Vec::new()];
            for part in parts {
                let added = alternatives(part, polarity)?;
                within_bound(found.len() * added.len())?;
                let joined = found.iter().flat_map(|one| {
                    let join = |other: &Vec<SignedTerm>| [one.as_slice(), other].concat();
                    added.iter().map(join)
                });
                found = joined.collect();
            }
            Ok(found)
        }
    }
}

fn within_bound(alternatives: usize) -> Result<(), String> {
    let most = bounds::RULE_ALTERNATIVES;
    match alternatives > most {
        true => Err(format!("the rule has more than {most} alternatives")),
        false => Ok(()),
    }
}

struct RuleParser<'t> {
    rest: &'t str,
    differences: Vec<String>,
}

impl RuleParser<'_> {
    fn takes(&mut self, token: &str) -> bool {
        let rest = self.rest.trim_start();
        match rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn any(&mut self, depth: usize) -> Result<RuleExpression, String> {
        let mut parts = vec![self.all(depth)?];
        while self.takes("||") {
            parts.push(self.all(depth)?);
        }
        Ok(RuleExpression::Any(parts))
    }

    fn all(&mut self, depth: usize) -> Result<RuleExpression, String> {
        let mut parts = vec![self.unary(depth)?];
        while self.takes("&&") {
            parts.push(self.unary(depth)?);
        }
        Ok(RuleExpression::All(parts))
    }

    fn unary(&mut self, depth: usize) -> Result<RuleExpression, String> {
        if depth > bounds::DEPTH {
            return Err(format!(
                "the rule is nested more than {} times",
                bounds::DEPTH
            ));
        }
        if self.takes("!") {
            return Ok(RuleExpression::Not(Box::new(self.unary(depth + 1)?)));
        }
        if self.takes("(") {
            let inner = self.any(depth + 1)?;
            return match self.takes(")") {
                true => Ok(inner),
                false => Err("a parenthesis is open".to_owned()),
            };
        }
        let rest = self.rest.trim_start();
        let end = rest.find('(').ok_or("a matcher is expected")?;
        let name = rest[..end].trim().to_owned();
        self.rest = &rest[end + 1..];
        let arguments = self.arguments()?;
        self.matcher(&name, &arguments)
    }

    fn arguments(&mut self) -> Result<Vec<String>, String> {
        let mut found = Vec::new();
        loop {
            let rest = self.rest.trim_start();
            let quote = rest.chars().next().filter(|it| "`\"'".contains(*it));
            let quote = quote.ok_or("a text in backticks is expected")?;
            let inner = &rest[1..];
            let end = inner.find(quote).ok_or("a text is open")?;
            let text = &inner[..end];
            // A text in double quotes has the escapes of Go.
            let text = match quote {
                '`' => text.to_owned(),
                _ => text.replace("\\\\", "\\"),
            };
            found.push(text);
            self.rest = &inner[end + 1..];
            if self.takes(")") {
                return Ok(found);
            }
            if !self.takes(",") {
                return Err("a comma or a parenthesis is expected".to_owned());
            }
        }
    }

    fn matcher(&mut self, name: &str, arguments: &[String]) -> Result<RuleExpression, String> {
        let terms =
            |terms: Vec<ConditionTerm>| terms.into_iter().map(RuleExpression::Term).collect();
        let paths = |term: fn(String) -> PathTerm| {
            let path = |text: &String| match text.contains('{') {
                _ if !text.starts_with('/') => {
                    Err(format!("the path {text:?} begins with a slash"))
                }
                true => {
                    let expression = expression_of_v2(text, name)?;
                    Ok(PathTerm::Expression(paths::decoded(
                        &expression,
                        PathCase::Kept,
                    )?))
                }
                false => Ok(term(text.clone())),
            };
            let found: Result<Vec<PathTerm>, String> = arguments.iter().map(path).collect();
            found.map(ConditionTerm::Path)
        };
        let term = match name {
            "Host" | "HostHeader" => ConditionTerm::Host(self.hosts(arguments)?),
            "HostRegexp" => {
                let hosts: Result<Vec<_>, String> = arguments
                    .iter()
                    .map(|it| self.host_expression(it))
                    .collect();
                return Ok(RuleExpression::Any(terms(hosts?)));
            }
            "Path" => paths(PathTerm::Exact)?,
            "PathPrefix" => paths(PathTerm::Beginning)?,
            "PathRegexp" => {
                let terms: Result<Vec<PathTerm>, String> =
                    arguments.iter().map(|it| searched(it)).collect();
                ConditionTerm::Path(terms?)
            }
            "Method" => {
                let method = |it: &String| ConditionTerm::Method(vec![it.to_ascii_uppercase()]);
                return Ok(RuleExpression::Any(terms(
                    arguments.iter().map(method).collect(),
                )));
            }
            "ClientIP" => ConditionTerm::Client(blocks(&arguments.join(","))?),
            "Header" | "Headers" => {
                let (pairs, []) = arguments.as_chunks::<2>() else {
                    return Err(format!("{name} has a field and its value"));
                };
                if let Some([name, _]) = pairs.iter().find(|[name, _]| !is_field_name(name)) {
                    return Err(format!("no field is {name:?}"));
                }
                let field = |[name, value]: &[String; 2]| {
                    compared("headers", &name.to_ascii_lowercase(), value)
                };
                return Ok(RuleExpression::All(terms(
                    pairs.iter().map(field).collect(),
                )));
            }
            "Query" => {
                let found = query(arguments)?;
                return Ok(RuleExpression::All(terms(found)));
            }
            "HeaderRegexp" | "HeadersRegexp" => {
                return Err(
                    "a route compares a field with a value, not with an expression".to_owned(),
                );
            }
            "QueryRegexp" => {
                return Err(
                    "a route compares a parameter with a value, not with an expression".to_owned(),
                );
            }
            other => return Err(format!("the matcher {other} is not translated")),
        };
        Ok(RuleExpression::Term(term))
    }

    fn hosts(&mut self, arguments: &[String]) -> Result<Vec<String>, String> {
        let mut found = Vec::new();
        for host in arguments {
            let host = host.trim_end_matches('.').to_ascii_lowercase();
            let host = host
                .strip_prefix("**")
                .map(|it| format!("*{it}"))
                .unwrap_or(host);
            if host.starts_with("*.") {
                self.differs();
            } else if !host
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "-._".contains(c))
                || host.is_empty()
            {
                return Err(format!("no host of a route is {host:?}"));
            }
            found.push(host);
        }
        Ok(found)
    }

    fn differs(&mut self) {
        if self.differences.is_empty() {
            self.differences.push(WILDCARD.to_owned());
        }
    }

    /// Returns the term of an expression for hosts: one host, all names below one, or every host.
    fn host_expression(&mut self, text: &str) -> Result<ConditionTerm, String> {
        let unsayable = || format!("no host of a route is {text:?}");
        let expression = match text.contains('{') && !text.starts_with('^') {
            true => expression_of_v2(text, "HostRegexp")?,
            false => text.to_owned(),
        };
        let inner = expression.trim_start_matches('^').trim_end_matches('$');
        if matches!(inner, ".*" | ".+" | "[^/]+" | "(.*)" | "(.+)" | "[^.]*.*") {
            return Ok(ConditionTerm::Constant(TermTruth::True));
        }
        if !expression.starts_with('^') || !expression.ends_with('$') {
            return Err(unsayable());
        }
        if let Some(host) = literal(inner) {
            return Ok(ConditionTerm::Host(vec![host.to_ascii_lowercase()]));
        }
        let (label, rest) = inner.split_once("\\.").ok_or_else(unsayable)?;
        let base = literal(rest).ok_or_else(unsayable)?;
        let is_label = |it: &str| {
            let it = it.trim_start_matches('(').trim_end_matches(')');
            let it = it.trim_end_matches(['+', '*']);
            it == "." || (it.starts_with('[') && it.ends_with(']') && it.matches('[').count() == 1)
        };
        if !is_label(label) {
            return Err(unsayable());
        }
        if !label.contains(".+") {
            self.differs();
        }
        Ok(ConditionTerm::Host(vec![format!(
            "*.{}",
            base.to_ascii_lowercase()
        )]))
    }
}

/// Returns the term of an expression that is searched in the decoded path.
fn searched(expression: &str) -> Result<PathTerm, String> {
    match PathTerm::searched(expression) {
        PathTerm::Expression(_) => {
            paths::decoded(expression, PathCase::Kept).map(PathTerm::Expression)
        }
        term @ (PathTerm::Ending(_) | PathTerm::Containing(_)) => {
            let decoded = paths::decoded(expression, PathCase::Kept)?;
            Ok(match decoded == expression {
                true => term,
                false => PathTerm::Expression(decoded),
            })
        }
        term => Ok(term),
    }
}

/// Returns the comparison of a field or a parameter.
fn compared(key: &'static str, name: &str, value: &str) -> ConditionTerm {
    ConditionTerm::Value(RouteValue {
        key,
        name: name.to_owned(),
        value: value.to_owned(),
    })
}

/// Returns the parameters of `Query`: a name with a value, or `name=value` as in version 2.
fn query(arguments: &[String]) -> Result<Vec<ConditionTerm>, String> {
    let parameter = |name: &str, value: &str| compared("query", name, value);
    if arguments.iter().any(|it| it.contains('{')) {
        return Err("a parameter of a route has a value, not an expression".to_owned());
    }
    match arguments {
        [pair] if !pair.contains('=') => Ok(vec![parameter(pair, "")]),
        [name, value] if !name.contains('=') => Ok(vec![parameter(name, value)]),
        pairs => {
            let found = pairs.iter().map(|pair| {
                let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                // Without a value version 2 takes any.
                parameter(name, if value.is_empty() { "*" } else { value })
            });
            Ok(found.collect())
        }
    }
}

/// Returns the expression of a text with `{name}` and `{name:expression}`.
fn expression_of_v2(text: &str, matcher: &str) -> Result<String, String> {
    let any = match matcher {
        "HostRegexp" => "[^.]+",
        _ => "[^/]+",
    };
    let mut out = String::from("^");
    let mut rest = text;
    while let Some(start) = rest.find('{') {
        out.push_str(&paths::escaped(&rest[..start]));
        let mut depth = 0_usize;
        let end = rest[start..].find(|c| {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => {}
            }
            depth == 0
        });
        let end = end.ok_or_else(|| format!("a brace of {text:?} is open"))?;
        let inner = &rest[start + 1..start + end];
        let expression = inner.split_once(':').map_or(any, |(_, it)| it);
        if !expression.is_empty() {
            let is_one = matches!(expression, ".+" | ".*") || expression.starts_with('[');
            match is_one && !expression.contains('|') {
                true => out.push_str(expression),
                false => out.push_str(&format!("(?:{expression})")),
            }
        }
        rest = &rest[start + end + 1..];
    }
    out.push_str(&paths::escaped(rest));
    if matcher != "PathPrefix" {
        out.push('$');
    }
    Ok(out)
}

/// Returns the text that an expression without operators matches.
pub(super) fn literal(expression: &str) -> Option<String> {
    let mut text = String::new();
    let mut characters = expression.chars();
    while let Some(c) = characters.next() {
        match c {
            '\\' => text.push(characters.next().filter(|c| !c.is_ascii_alphanumeric())?),
            c if "^$|?*+()[]{}".contains(c) => return None,
            // A dot that is meant as one in a name.
            c => text.push(c),
        }
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        let rule = match parse(text) {
            Ok(rule) => rule,
            Err(reason) => return format!("error: {reason}"),
        };
        let literal = |it: &SignedTerm| {
            let sign = if it.is_negated { "!" } else { "" };
            match &it.term {
                ConditionTerm::Value(it) => format!("{sign}{} {}={}", it.key, it.name, it.value),
                term => format!("{sign}{term:?}"),
            }
        };
        let alternative =
            |it: &Vec<SignedTerm>| it.iter().map(literal).collect::<Vec<_>>().join(" & ");
        let found: Vec<String> = rule.alternatives.iter().map(alternative).collect();
        found.join(" | ")
    }

    /// Goal: operators bind as in Traefik, and a negation reaches each matcher. Method: rules with parentheses.
    #[test]
    fn operators_bind_as_in_traefik() {
        assert_eq!(
            shown("Host(`a`) && (Path(`/x`) || !PathPrefix(`/y`))"),
            "Host([\"a\"]) & Path([Exact(\"/x\")]) | Host([\"a\"]) & !Path([Beginning(\"/y\")])"
        );
        assert_eq!(
            shown("!(Host(`a`) || Method(`GET`))"),
            "!Host([\"a\"]) & !Method([\"GET\"])"
        );
        assert_eq!(
            shown("Host(`a`) || Host(`b`) && Path(`/`)"),
            "Host([\"a\"]) | Host([\"b\"]) & Path([Exact(\"/\")])"
        );
        assert!(shown("Host(`a`").starts_with("error"));
        assert!(shown("Host(a)").starts_with("error"));
        assert!(shown("Host(`a`) Path(`/`)").starts_with("error"));
        let many = vec!["(Path(`/a`) || Path(`/b`))"; 20].join(" && ");
        assert!(shown(&many).contains("alternatives"));
        assert!(shown(&"(".repeat(10_000)).contains("nested"));
    }

    /// Goal: matchers of versions 2 and 3 are the same conditions. Method: each spelling.
    #[test]
    fn both_versions_are_read() {
        assert_eq!(
            shown("Host(`A.test`, `b.test`)"),
            "Host([\"a.test\", \"b.test\"])"
        );
        assert_eq!(
            shown("HostRegexp(`{sub:[a-z]+}.example.com`)"),
            "Host([\"*.example.com\"])"
        );
        assert_eq!(
            shown("HostRegexp(`^.+\\.example\\.com$`)"),
            "Host([\"*.example.com\"])"
        );
        assert_eq!(shown("HostRegexp(`{any:.+}`)"), "Constant(True)");
        assert!(shown("HostRegexp(`example`)").starts_with("error"));
        assert_eq!(
            shown("Path(`/users/{id:[0-9]+}`)"),
            "Path([Expression(\"^/users/[0-9]+$\")])"
        );
        assert_eq!(
            shown("Headers(`X-A`, `1`) && Query(`a=b`)"),
            "headers x-a=1 & query a=b"
        );
        assert_eq!(shown("Query(`a`, `b`)"), "query a=b");
        assert_eq!(shown("Query(`a=`)"), "query a=*");
        assert!(shown("HeaderRegexp(`X-A`, `1.*`)").starts_with("error"));
        assert_eq!(
            shown("Header(`X-A`, `1`) && Header(`X-B`, `1`)"),
            "headers x-a=1 & headers x-b=1"
        );
        assert!(shown("HostSNI(`*`)").starts_with("error"));
    }
}
