//! Reads conditions: `acl` lines, and what stands behind `if` and `unless`.

use std::collections::BTreeMap;

use super::samples::{TableCounter, counter};
use super::sections::{ConfigSection, SectionLine};
use crate::ledger::EntryId;

/// A comparison of a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ConditionTerm {
    /// The host, in lower case; one of these.
    Host(Vec<String>),
    /// The whole path.
    Path(Vec<PathTerm>),
    Method(Vec<String>),
    /// Blocks of the client's address.
    Client(Vec<String>),
    /// A counter above a number: the most that is let through.
    Above(TableCounter, u64),
    /// The connection has TLS.
    Tls,
    /// Always, or never.
    Constant(TermTruth),
}

/// A term that depends on nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TermTruth {
    True,
    False,
}

/// A comparison with the path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PathTerm {
    Exact(String),
    Beginning(String),
    /// An expression that is searched in the path.
    Expression(String),
}

/// A term, or its opposite.
#[derive(Clone, Debug)]
pub(super) struct SignedTerm {
    pub(super) term: ConditionTerm,
    pub(super) is_negated: bool,
}

/// Alternatives of terms that hold together. No alternative is never, an alternative without terms is always.
#[derive(Clone, Debug, Default)]
pub(super) struct RuleCondition {
    pub(super) alternatives: Vec<Vec<SignedTerm>>,
    /// The `acl` lines that it names.
    pub(super) sources: Vec<EntryId>,
}

/// The `acl` lines of a section by their names.
#[derive(Default)]
pub(super) struct AclTable {
    acls: BTreeMap<String, Vec<NamedAcl>>,
}

struct NamedAcl {
    id: EntryId,
    term: Result<ConditionTerm, String>,
}

impl AclTable {
    /// Reads the lines of a section.
    pub(super) fn of(section: &ConfigSection) -> Self {
        let mut acls = Self::default();
        for line in section.named("acl") {
            let acl = NamedAcl {
                id: line.id,
                term: term(line.words.get(2..).unwrap_or_default()),
            };
            acls.acls
                .entry(line.word(1).to_owned())
                .or_default()
                .push(acl);
        }
        acls
    }

    /// Returns the condition of a line, and the words before it.
    ///
    /// # Errors
    ///
    /// The reason for which it has no counterpart.
    pub(super) fn condition(
        &self,
        line: &SectionLine,
    ) -> Result<(Vec<String>, RuleCondition), String> {
        let at = line
            .words
            .iter()
            .position(|word| word == "if" || word == "unless");
        let Some(at) = at else {
            let always = RuleCondition {
                alternatives: vec![Vec::new()],
                sources: Vec::new(),
            };
            return Ok((line.words.clone(), always));
        };
        let condition = self.read(&line.words[at + 1..])?;
        let condition = if line.words[at] == "unless" {
            opposite(condition)?
        } else {
            condition
        };
        Ok((line.words[..at].to_vec(), condition))
    }

    fn read(&self, words: &[String]) -> Result<RuleCondition, String> {
        let mut condition = RuleCondition::default();
        // Alternatives of the terms that were read since the last `or`.
        let mut open: Vec<Vec<SignedTerm>> = vec![Vec::new()];
        let mut words = words.iter();
        while let Some(word) = words.next() {
            if word == "||" || word == "or" {
                condition.alternatives.append(&mut open);
                open = vec![Vec::new()];
                continue;
            }
            let (is_negated, name) = match word.strip_prefix('!') {
                Some("") => (true, words.next().map_or("", String::as_str)),
                Some(name) => (true, name),
                None => (false, word.as_str()),
            };
            let terms: Vec<ConditionTerm> = if name == "{" {
                let inner: Vec<String> = words
                    .by_ref()
                    .take_while(|word| *word != "}")
                    .cloned()
                    .collect();
                vec![term(&inner)?]
            } else {
                self.named(name, &mut condition.sources)?
            };
            open = with_terms(open, terms, is_negated)?;
        }
        condition.alternatives.append(&mut open);
        Ok(condition)
    }

    /// Returns the terms of an ACL, of which one is enough.
    fn named(&self, name: &str, sources: &mut Vec<EntryId>) -> Result<Vec<ConditionTerm>, String> {
        if let Some(acls) = self.acls.get(name) {
            let terms = acls.iter().map(|acl| {
                sources.push(acl.id);
                acl.term.clone()
            });
            return terms.collect();
        }
        let term = match name {
            "TRUE" | "HTTP" => ConditionTerm::Constant(TermTruth::True),
            "FALSE" => ConditionTerm::Constant(TermTruth::False),
            "LOCALHOST" => ConditionTerm::Client(vec!["127.0.0.0/8".to_owned(), "::1".to_owned()]),
            "METH_GET" => ConditionTerm::Method(vec!["GET".to_owned(), "HEAD".to_owned()]),
            name => match name.strip_prefix("METH_") {
                Some(method) => ConditionTerm::Method(vec![method.to_owned()]),
                None => return Err(format!("there is no acl {name}")),
            },
        };
        Ok(vec![term])
    }
}

/// Most alternatives of a condition.
const MOST_ALTERNATIVES: usize = 32;

fn with_terms(
    open: Vec<Vec<SignedTerm>>,
    terms: Vec<ConditionTerm>,
    is_negated: bool,
) -> Result<Vec<Vec<SignedTerm>>, String> {
    let literal = |term: ConditionTerm| SignedTerm { term, is_negated };
    if is_negated {
        // None of the terms may hold.
        let all = open.into_iter().map(|mut alternative| {
            alternative.extend(terms.iter().cloned().map(literal));
            alternative
        });
        return Ok(all.collect());
    }
    if open.len() * terms.len() > MOST_ALTERNATIVES {
        return Err(format!(
            "the condition has more than {MOST_ALTERNATIVES} alternatives"
        ));
    }
    let all = open.iter().flat_map(|alternative| {
        terms.iter().cloned().map(move |term| {
            let mut alternative = alternative.clone();
            alternative.push(literal(term));
            alternative
        })
    });
    Ok(all.collect())
}

/// Returns the opposite of a condition with one alternative, or of several with one term each.
fn opposite(condition: RuleCondition) -> Result<RuleCondition, String> {
    let not = |literal: &SignedTerm| SignedTerm {
        term: literal.term.clone(),
        is_negated: !literal.is_negated,
    };
    let alternatives = match condition.alternatives.as_slice() {
        [one] => one.iter().map(|literal| vec![not(literal)]).collect(),
        several if several.iter().all(|one| one.len() == 1) => {
            vec![several.iter().flatten().map(not).collect()]
        }
        _ => return Err("`unless` with alternatives of several terms is not read".to_owned()),
    };
    Ok(RuleCondition {
        alternatives,
        ..condition
    })
}

/// Reads `sample [flags] values`.
fn term(words: &[String]) -> Result<ConditionTerm, String> {
    let [sample, rest @ ..] = words else {
        return Err("an empty condition".to_owned());
    };
    let mut matching = None;
    let mut values: Vec<String> = Vec::new();
    let mut rest = rest.iter();
    while let Some(word) = rest.next() {
        match word.as_str() {
            "-i" | "-n" | "--" => {}
            "-m" => matching = rest.next().cloned(),
            "-f" => {
                return Err("values in a file are not read; write `[list.NAME] file`".to_owned());
            }
            flag if flag.starts_with('-') && flag.len() == 2 => {
                return Err(format!("the flag {flag} is not read"));
            }
            value => values.push(value.to_owned()),
        }
    }
    let (name, converters) = with_converters(sample);
    let unsayable = || Err(format!("no condition of a route is {:?}", words.join(" ")));
    if !matches!(converters, "" | "lower") {
        return unsayable();
    }
    let is_number = |word: &String| word.parse::<u64>().is_ok();
    if let Some(counter) = counter(sample)? {
        let number = values
            .iter()
            .find(|word| is_number(word))
            .and_then(|word| word.parse().ok());
        let Some(number): Option<u64> = number else {
            return unsayable();
        };
        let most = match values.first().map(String::as_str) {
            Some("gt") => number,
            Some("ge") => number.checked_sub(1).ok_or("a counter is never below 0")?,
            _ => return unsayable(),
        };
        return Ok(ConditionTerm::Above(counter, most));
    }
    let prefix = |values: Vec<String>| values.into_iter().map(PathTerm::Beginning).collect();
    let term = match (name, matching.as_deref()) {
        ("src", None | Some("ip")) => ConditionTerm::Client(values),
        ("method", None | Some("str")) => ConditionTerm::Method(values),
        ("ssl_fc", None | Some("bool")) => ConditionTerm::Tls,
        ("path", None | Some("str")) => {
            ConditionTerm::Path(values.into_iter().map(PathTerm::Exact).collect())
        }
        ("path_beg", None) | ("path", Some("beg")) => ConditionTerm::Path(prefix(values)),
        ("path_dir", None) | ("path", Some("dir")) => {
            let expression = |value: String| {
                PathTerm::Expression(format!("/{}(/|$)", regex::escape(value.trim_matches('/'))))
            };
            ConditionTerm::Path(values.into_iter().map(expression).collect())
        }
        ("path_end", None) | ("path", Some("end")) => {
            let expression =
                |value: String| PathTerm::Expression(format!("{}$", regex::escape(&value)));
            ConditionTerm::Path(values.into_iter().map(expression).collect())
        }
        ("path_sub", None) | ("path", Some("sub")) => {
            let expression = |value: String| PathTerm::Expression(regex::escape(&value));
            ConditionTerm::Path(values.into_iter().map(expression).collect())
        }
        ("path_reg", None) | ("path", Some("reg")) => {
            ConditionTerm::Path(values.into_iter().map(PathTerm::Expression).collect())
        }
        ("hdr(host)" | "req.hdr(host)" | "hdr(Host)" | "req.hdr(Host)", None | Some("str")) => {
            ConditionTerm::Host(values.iter().map(|value| host(value)).collect())
        }
        ("hdr_end(host)", None) | ("hdr(host)" | "req.hdr(host)", Some("end"))
            if values.iter().all(|value| value.starts_with('.')) =>
        {
            ConditionTerm::Host(
                values
                    .iter()
                    .map(|value| format!("*{}", host(value)))
                    .collect(),
            )
        }
        _ => return unsayable(),
    };
    if matches!(&term, ConditionTerm::Client(values) | ConditionTerm::Method(values) | ConditionTerm::Host(values) if values.is_empty())
    {
        return unsayable();
    }
    Ok(term)
}

/// Returns a sample, and the converters behind it; a comma between parentheses separates arguments.
fn with_converters(sample: &str) -> (&str, &str) {
    let arguments = sample.find('(').map_or(0, |open| {
        sample[open..]
            .find(')')
            .map_or(sample.len(), |close| open + close)
    });
    match sample[arguments..].find(',') {
        Some(at) => (&sample[..arguments + at], &sample[arguments + at + 1..]),
        None => (sample, ""),
    }
}

/// Returns a host in lower case and without a port.
fn host(value: &str) -> String {
    let name = value.split(':').next().unwrap_or(value);
    name.to_ascii_lowercase()
}
