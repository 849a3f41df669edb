//! Reads conditions: `acl` lines, and what stands behind `if` and `unless`.

use std::collections::BTreeMap;

use ipnet::IpNet;

use super::samples::{self, TableCounter, counter, pieces, with_converters};
use super::sections::{ConfigSection, SectionLine};
use crate::addresses;
use crate::cells::{ConditionTerm, PathTerm, RuleCondition, SignedTerm, TermTruth};
use crate::ledger::EntryId;

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
    pub(super) fn new(section: &ConfigSection) -> Self {
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
            if word == "||" || word.eq_ignore_ascii_case("or") {
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
            "TRUE" | "HTTP" | "WAIT_END" => ConditionTerm::Constant(TermTruth::True),
            "FALSE" => ConditionTerm::Constant(TermTruth::False),
            "LOCALHOST" => ConditionTerm::Client(vec!["127.0.0.0/8".to_owned(), "::1".to_owned()]),
            "METH_GET" => ConditionTerm::Method(vec!["GET".to_owned(), "HEAD".to_owned()]),
            name => match name.strip_prefix("METH_") {
                Some(method) => ConditionTerm::Method(vec![method.to_owned()]),
                None if PREDEFINED.contains(&name) => {
                    return Err(format!("no condition of a route is {name}"));
                }
                None => return Err(format!("there is no acl {name}")),
            },
        };
        Ok(vec![term])
    }
}

/// The conditions that HAProxy defines, and that are not read.
const PREDEFINED: [&str; 10] = [
    "HTTP_1.0",
    "HTTP_1.1",
    "HTTP_2.0",
    "HTTP_3.0",
    "HTTP_CONTENT",
    "HTTP_URL_ABS",
    "HTTP_URL_SLASH",
    "HTTP_URL_STAR",
    "RDP_COOKIE",
    "REQ_CONTENT",
];

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

/// The reason for values in a file.
const IN_FILE: &str = "values in a file are not read; write them into the rule, and import again";

/// Reads `sample [flags] values`.
fn term(words: &[String]) -> Result<ConditionTerm, String> {
    let [sample, rest @ ..] = words else {
        return Err("an empty condition".to_owned());
    };
    let mut matching = None;
    let mut ignores_case = false;
    let mut values: Vec<String> = Vec::new();
    let mut rest = rest.iter();
    while let Some(word) = rest.next() {
        match word.as_str() {
            "-i" => ignores_case = true,
            "-n" | "--" => {}
            "-m" => matching = rest.next().map(String::as_str),
            "-f" if sample == "src" && matches!(rest.as_slice(), [_]) && values.is_empty() => {
                return Ok(ConditionTerm::ClientFile(rest.as_slice()[0].clone()));
            }
            "-f" => return Err(IN_FILE.to_owned()),
            flag if flag.starts_with('-') && flag.len() == 2 => {
                return Err(format!("the flag {flag} is not read"));
            }
            value => values.push(value.to_owned()),
        }
    }
    if let Some(counter) = counter(sample)? {
        return above(counter, &values).ok_or_else(|| unsayable(words))?;
    }
    let (name, converters) = with_converters(sample);
    let name = name.to_ascii_lowercase();
    let plain = || matches!(converters, "" | "lower").then_some(());
    let mut paths = values.clone();
    if ignores_case && matching != Some("reg") && name != "path_reg" {
        // A condition on `/ADMIN` holds below `/admin/` too.
        paths
            .iter_mut()
            .for_each(|path| path.make_ascii_lowercase());
    }
    let term = host_term(&name, (converters, matching), &values)
        .or_else(|| plain().and_then(|()| path_term(&name, matching, &paths)))
        .or_else(|| plain().and_then(|()| other_term(&name, matching, &values)));
    term.ok_or_else(|| unsayable(words))
}

fn unsayable(words: &[String]) -> String {
    let text = words.join(" ");
    match words.first().and_then(|sample| samples::field(sample)) {
        Some(_) => format!(
            "{text:?} is not translated: `headers` of a route compares a whole field, HAProxy each part between commas"
        ),
        None => format!("no condition of a route is {text:?}"),
    }
}

/// Returns the comparison of a counter; `None` where it is another one than `gt` or `ge`.
fn above(counter: TableCounter, values: &[String]) -> Option<Result<ConditionTerm, String>> {
    let [operator, number] = values else {
        return None;
    };
    let number: u64 = number.parse().ok()?;
    let most = match operator.as_str() {
        "gt" => Some(number),
        "ge" => number.checked_sub(1),
        _ => return None,
    };
    let most = most.ok_or_else(|| "a counter is never below 0".to_owned());
    Some(most.map(|most| ConditionTerm::Above(counter, most)))
}

/// Returns a comparison with the host. A route compares hosts without a port, and in lower case.
fn host_term(
    name: &str,
    (converters, matching): (&str, Option<&str>),
    values: &[String],
) -> Option<ConditionTerm> {
    let is_implied = |it: &str| matches!(it, "" | "lower" | "host_only" | "field(1,:)");
    if values.is_empty() || !pieces(converters).all(is_implied) {
        return None;
    }
    let is_host = matches!(name, "hdr(host)" | "req.hdr(host)" | "req.fhdr(host)");
    let begins_with_dot = || values.iter().all(|value| value.starts_with('.'));
    match (name, matching) {
        (_, None | Some("str")) if is_host => Some(ConditionTerm::Host(
            values.iter().map(|value| host(value)).collect(),
        )),
        ("hdr_end(host)" | "req.hdr_end(host)", None) if begins_with_dot() => Some(below(values)),
        (_, Some("end")) if is_host && begins_with_dot() => Some(below(values)),
        _ => None,
    }
}

/// Returns the term for all hosts below some.
fn below(values: &[String]) -> ConditionTerm {
    let hosts = values.iter().map(|value| format!("*{}", host(value)));
    ConditionTerm::Host(hosts.collect())
}

/// Returns a comparison with the path.
fn path_term(name: &str, matching: Option<&str>, values: &[String]) -> Option<ConditionTerm> {
    let kind = match (name, matching) {
        ("path", kind) => kind.unwrap_or("str"),
        (name, None) => name.strip_prefix("path_")?,
        _ => return None,
    };
    let term = |value: &String| {
        let value = value.clone();
        Some(match kind {
            "str" => PathTerm::Exact(value),
            "beg" => PathTerm::Beginning(value),
            "end" => PathTerm::Ending(value),
            "sub" => PathTerm::Containing(value),
            "dir" => PathTerm::Segments(value.trim_matches('/').to_owned()),
            "reg" => PathTerm::searched(&value),
            _ => return None,
        })
    };
    let paths: Vec<PathTerm> = values.iter().map(term).collect::<Option<_>>()?;
    (!paths.is_empty()).then_some(ConditionTerm::Path(paths))
}

/// Returns a comparison with the client, the method or the connection.
fn other_term(name: &str, matching: Option<&str>, values: &[String]) -> Option<ConditionTerm> {
    let term = match (name, matching) {
        ("ssl_fc", None | Some("bool")) if values.is_empty() => return Some(ConditionTerm::Tls),
        ("src", None | Some("ip")) => {
            let blocks: Option<Vec<String>> = values.iter().map(|it| block(it)).collect();
            ConditionTerm::Client(blocks?)
        }
        ("method", None | Some("str")) => ConditionTerm::Method(values.to_vec()),
        _ => return None,
    };
    (!values.is_empty()).then_some(term)
}

/// Returns a block of addresses; `None` for a name, which HAProxy resolves as it starts.
fn block(text: &str) -> Option<String> {
    addresses::block(text).or_else(|| {
        // The mask may be written as an address.
        let (address, mask) = text.split_once('/')?;
        let network = IpNet::with_netmask(address.parse().ok()?, mask.parse().ok()?).ok()?;
        Some(network.trunc().to_string())
    })
}

/// Returns a host in lower case and without a port.
fn host(value: &str) -> String {
    let name = value.split(':').next().unwrap_or(value);
    name.to_ascii_lowercase()
}
