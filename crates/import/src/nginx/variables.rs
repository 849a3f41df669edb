//! The variables that `map` and `geo` define, and what each depends on.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Subnets, Ipv6Subnets};

use super::choice::{JOINT, RequestProperty, ValueChoice};
use super::keys::{self, TextPiece};
use super::tree::Directive;
use crate::addresses;
use crate::bounds;
use crate::ledger::{EntryId, Ledger};
use crate::model::{KeyPart, RouteValue};

/// The definitions of a configuration, by the names of their variables without `$`.
#[derive(Default)]
pub(super) struct VariableTable {
    definitions: BTreeMap<String, VariableDefinition>,
}

struct VariableDefinition {
    id: EntryId,
    /// The directives of its block.
    entries: Vec<EntryId>,
    kind: VariableKind,
}

enum VariableKind {
    /// The source, and values by its text.
    Map {
        source: String,
        values: Vec<(String, String)>,
        default: String,
        /// Patterns that are no texts, and the values by them.
        expressions: Vec<(String, String)>,
    },
    /// Values by blocks of the client's address.
    Geo {
        source: String,
        blocks: Vec<(IpNet, String)>,
        default: String,
    },
    /// The reason for which it cannot be said.
    Unknown(String),
}

impl VariableTable {
    /// Reads a `map` or a `geo`.
    pub(super) fn define(&mut self, directive: &Directive, ledger: &mut Ledger) {
        let is_map = directive.name == "map";
        let (source, name) = match directive.words.as_slice() {
            [source, name] => (source.as_str(), name),
            [name] if !is_map => ("$remote_addr", name),
            _ => {
                ledger.left_out(directive.id, "a variable is expected, as in nginx");
                return;
            }
        };
        let entries = directive.children();
        let kind = match is_map {
            true => map(source, entries),
            false if keys::is_client(plain(source)) => geo(source, entries),
            false => VariableKind::Unknown(format!(
                "blocks of {source} instead of the client's address have no counterpart"
            )),
        };
        let reason = "no limit that is imported depends on it";
        ledger.left_out(directive.id, reason);
        for entry in entries {
            match is_unread(entry) {
                true => require_cases(entry, name, ledger),
                false => ledger.left_out(entry.id, reason),
            }
        }
        let read = entries.iter().filter(|entry| !is_unread(entry));
        let definition = VariableDefinition {
            id: directive.id,
            entries: read.map(|entry| entry.id).collect(),
            kind,
        };
        let name = name.trim_start_matches('$').to_owned();
        self.definitions.insert(name, definition);
    }

    /// Returns true if a `map` or a `geo` defines this variable.
    pub(super) fn defines(&self, name: &str) -> bool {
        self.definitions.contains_key(name)
    }

    /// Returns the texts that a variable can have.
    ///
    /// # Errors
    ///
    /// The reason for which the configuration cannot say it.
    pub(super) fn choice(&self, name: &str) -> Result<ValueChoice<String>, String> {
        self.choice_within(name, bounds::VARIABLE_DEPTH)
    }

    fn choice_within(&self, name: &str, depth: usize) -> Result<ValueChoice<String>, String> {
        let Some(definition) = self.definitions.get(name) else {
            return Err(format!("${name} cannot be compared with texts"));
        };
        if depth == 0 {
            return Err(format!("${name} is behind too many other variables"));
        }
        match &definition.kind {
            VariableKind::Unknown(reason) => Err(reason.clone()),
            VariableKind::Geo {
                blocks, default, ..
            } => Ok(ValueChoice {
                property: Some(RequestProperty::Client),
                cases: blocks
                    .iter()
                    .map(|(block, value)| (block.to_string(), value.clone()))
                    .collect(),
                default: default.clone(),
                differences: Vec::new(),
                looser: Vec::new(),
            }),
            VariableKind::Map {
                source,
                values,
                default,
                expressions,
            } => {
                let source = plain(source);
                let results = values.iter().chain(expressions).map(|(_, result)| result);
                let is_address = |text: &String| is_client_text(text, expressions);
                let exempts =
                    |(case, result): &(String, String)| !case.is_empty() && result.is_empty();
                if keys::proxy_field(source).is_some()
                    && keys::is_client(source)
                    && results.chain([default]).all(is_address)
                    && !values.iter().any(exempts)
                {
                    return Ok(ValueChoice::constant(format!("${source}")));
                }
                let results = values.iter().rev();
                // Of equal values the first one holds.
                let by_value: BTreeMap<String, &String> = results
                    .map(|(value, result)| (value.to_ascii_lowercase(), result))
                    .collect();
                let look_up = |text: &str| {
                    let found = by_value.get(&text.to_ascii_lowercase());
                    found.map_or(default, |result| *result).clone()
                };
                let told_apart = match expressions.first() {
                    Some((expression, _)) => Err(format!(
                        "${source} is compared with the expression {expression:?}, and conditions of routes have none"
                    )),
                    None if self.defines(source) => {
                        let inner = self.choice_within(source, depth - 1)?;
                        inner.try_map(|text| Ok(look_up(&text)))
                    }
                    None => by_property(source, values, default),
                };
                let mut results = values.iter().chain(expressions);
                let has_other = results.any(|(_, result)| !result.is_empty() && result != default);
                let mut choice = told_apart.or_else(|reason| undistinguished(reason, default))?;
                if has_other && choice.property.is_none() {
                    choice.looser.clone_from(&choice.differences);
                }
                Ok(choice)
            }
        }
    }

    /// Returns the fields that only a proxy may write, and on which a text depends.
    pub(super) fn proxy_fields(&self, text: &str) -> Vec<String> {
        let mut found = Vec::new();
        self.add_proxy_fields(text, bounds::VARIABLE_DEPTH, &mut found);
        found
    }

    fn add_proxy_fields(&self, text: &str, depth: usize, found: &mut Vec<String>) {
        for piece in keys::pieces(text) {
            let TextPiece::Variable(name) = piece else {
                continue;
            };
            let definition = self.definitions.get(&name);
            match definition.map(|definition| &definition.kind) {
                _ if depth == 0 => {}
                Some(VariableKind::Map {
                    source,
                    values,
                    default,
                    ..
                }) => {
                    let results = values.iter().map(|(_, result)| result);
                    for text in [source, default].into_iter().chain(results) {
                        self.add_proxy_fields(text, depth - 1, found);
                    }
                }
                Some(VariableKind::Geo { source, .. }) => {
                    self.add_proxy_fields(source, depth - 1, found);
                }
                Some(VariableKind::Unknown(_)) => {}
                None => {
                    let field = keys::proxy_field(&name).filter(|field| !found.contains(field));
                    found.extend(field);
                }
            }
        }
    }

    /// Records that the configuration says what a variable is, and what it depends on.
    pub(super) fn use_of(&self, name: &str, ledger: &mut Ledger) {
        let mut name = name.to_owned();
        for _ in 0..bounds::VARIABLE_DEPTH {
            let Some(definition) = self.definitions.get(&name) else {
                return;
            };
            ledger.translated(definition.id);
            definition
                .entries
                .iter()
                .for_each(|entry| ledger.translated(*entry));
            let VariableKind::Map { source, .. } = &definition.kind else {
                return;
            };
            name = plain(source).to_owned();
        }
    }
}

/// Returns true for an `include` that was not read: those that were are replaced by what they contain.
fn is_unread(entry: &Directive) -> bool {
    entry.name == "include"
}

/// Records that the cases of a file are to be filled in, which was not read.
fn require_cases(include: &Directive, variable: &str, ledger: &mut Ledger) {
    let reason = ledger.reason(include.id).unwrap_or_default();
    let what = format!("the cases of {variable} that it contains; {reason}");
    ledger.fill_in_for(include.id, &what);
}

/// Returns the name of a variable without `$` and braces.
fn plain(variable: &str) -> &str {
    match keys::pieces(variable).as_slice() {
        [TextPiece::Variable(_)] => variable.trim_start_matches('$').trim_matches(['{', '}']),
        _ => variable,
    }
}

/// Returns true if a text is the address of the client or empty: an expression over a chain of addresses names a part of it.
fn is_client_text(text: &str, expressions: &[(String, String)]) -> bool {
    match keys::pieces(text).as_slice() {
        [] => true,
        [TextPiece::Variable(name)] => {
            let names = |(expression, _): &(String, String)| {
                expression.contains(&format!("?<{name}>"))
                    || expression.contains(&format!("?P<{name}>"))
            };
            let is_number = name.bytes().all(|byte| byte.is_ascii_digit());
            keys::is_client(name) || is_number || expressions.iter().any(names)
        }
        _ => false,
    }
}

/// Returns the values by a property of the request that a variable of nginx names.
fn by_property(
    source: &str,
    values: &[(String, String)],
    default: &str,
) -> Result<ValueChoice<String>, String> {
    let property = property(source).ok_or_else(|| condition_instead(source))?;
    let mut cases = values.to_vec();
    if let RequestProperty::Joined(_) = &property {
        for (case, _) in &mut cases {
            *case = split_case(source, case)?;
        }
    }
    if property == RequestProperty::Client {
        // Every request has an address, though not every one has a field that names it.
        cases.retain(|(case, value)| !case.is_empty() || value != default);
        for (case, _) in &mut cases {
            let address: Result<IpAddr, _> = case.parse();
            let address = address.map_err(|_| format!("{case:?} is no address"))?;
            *case = IpNet::from(address).to_string();
        }
    }
    Ok(ValueChoice {
        property: Some(property),
        cases,
        default: default.to_owned(),
        differences: Vec::new(),
        looser: Vec::new(),
    })
}

/// Returns the reason for a choice that the import does not translate, with the condition that an operator may write.
fn condition_instead(source: &str) -> String {
    let keys = match source {
        "host" | "http_host" | "server_name" => "`host`",
        "uri" | "document_uri" | "request_uri" => "`path`",
        "scheme" | "https" | "server_addr" | "server_port" => "`listeners`",
        name if name.starts_with("geoip") => {
            "`countries`, `cities` and `asns`, with the database in [geo],"
        }
        _ => {
            return format!(
                "the import knows no condition of a route for a choice by {}",
                shown(source)
            );
        }
    };
    format!(
        "routes have {keys} for a choice by {}; write one for each case",
        shown(source)
    )
}

/// Takes the default for every request, which is stricter, where cases cannot be told apart. Without a default nothing would be limited.
fn undistinguished(reason: String, default: &str) -> Result<ValueChoice<String>, String> {
    if default.is_empty() {
        return Err(reason);
    }
    let mut choice = ValueChoice::constant(default.to_owned());
    let difference = format!("every request is counted by the default {default:?}: {reason}");
    choice.differences.push(difference);
    Ok(choice)
}

/// Returns what a variable of nginx says of a request that a route can have a condition on.
fn property(name: &str) -> Option<RequestProperty> {
    match name {
        name if keys::is_client(name) => Some(RequestProperty::Client),
        "request_method" => Some(RequestProperty::Method),
        name if name.contains('$') => joined_property(name),
        _ => keys::value(name).map(RequestProperty::Value),
    }
}

/// Returns the properties of a text with several variables and text between them.
fn joined_property(source: &str) -> Option<RequestProperty> {
    let mut properties = Vec::new();
    let mut is_behind_variable = false;
    for piece in keys::pieces(source) {
        let TextPiece::Variable(name) = piece else {
            is_behind_variable = false;
            continue;
        };
        let property = match property(&name)? {
            RequestProperty::Value(part) => {
                condition(&part, "")?;
                RequestProperty::Value(part)
            }
            RequestProperty::Method => RequestProperty::Method,
            RequestProperty::Client | RequestProperty::Joined(_) => return None,
        };
        if is_behind_variable || properties.contains(&property) {
            return None;
        }
        properties.push(property);
        is_behind_variable = true;
    }
    (properties.len() > 1).then_some(RequestProperty::Joined(properties))
}

/// Returns the values of joined variables in a case of a `map`, with [`JOINT`] between them.
///
/// # Errors
///
/// The reason for which a case says no values: it has the texts between them not at all, or more than once.
fn split_case(source: &str, case: &str) -> Result<String, String> {
    let wrong = || {
        format!(
            "the case {case:?} of {} does not tell each variable's value",
            shown(source)
        )
    };
    let mut rest = case;
    let mut values: Vec<&str> = Vec::new();
    let mut is_value_open = false;
    for piece in keys::pieces(source) {
        match piece {
            TextPiece::Variable(_) => is_value_open = true,
            TextPiece::Text(text) if !is_value_open => {
                rest = rest.strip_prefix(text.as_str()).ok_or_else(wrong)?;
            }
            TextPiece::Text(text) => {
                let (value, behind) = rest.split_once(text.as_str()).ok_or_else(wrong)?;
                if behind.contains(text.as_str()) {
                    return Err(wrong());
                }
                values.push(value);
                rest = behind;
                is_value_open = false;
            }
        }
    }
    match is_value_open {
        true => values.push(rest),
        false if rest.is_empty() => {}
        false => return Err(wrong()),
    }
    // A route has no condition on an absent field.
    match values
        .iter()
        .any(|value| value.is_empty() || value.contains(JOINT))
    {
        true => Err(wrong()),
        false => Ok(values.join(&JOINT.to_string())),
    }
}

/// Returns the source of a `map` as it is written.
fn shown(source: &str) -> String {
    match source.contains('$') {
        true => format!("{source:?}"),
        false => format!("${source}"),
    }
}

fn map(source: &str, entries: &[Directive]) -> VariableKind {
    let mut values: Vec<(String, String)> = Vec::new();
    let mut default = String::new();
    let mut expressions = Vec::new();
    for entry in entries.iter().filter(|entry| !is_unread(entry)) {
        let Some(value) = entry.word(0) else {
            // `hostnames` changes what patterns mean, `volatile` nothing.
            if entry.name == "hostnames" {
                return VariableKind::Unknown("a map of host names has no counterpart".to_owned());
            }
            continue;
        };
        match entry.name.as_str() {
            "default" => value.clone_into(&mut default),
            name if name.starts_with('~') => {
                expressions.push((name.to_owned(), value.to_owned()));
            }
            name => {
                let name = name.strip_prefix('\\').unwrap_or(name);
                values.push((name.to_owned(), value.to_owned()));
            }
        }
    }
    VariableKind::Map {
        source: source.to_owned(),
        values,
        default,
        expressions,
    }
}

fn geo(source: &str, entries: &[Directive]) -> VariableKind {
    // With the place of the last entry for each.
    let mut blocks: BTreeMap<IpNet, (usize, String)> = BTreeMap::new();
    let mut default = String::new();
    for (at, entry) in entries.iter().filter(|entry| !is_unread(entry)).enumerate() {
        let value = entry.word(0).unwrap_or_default();
        match entry.name.as_str() {
            "default" => value.clone_into(&mut default),
            "ranges" => {}
            "delete" => {
                if let Some([block]) = network(value).as_deref() {
                    blocks.remove(block);
                }
            }
            "proxy" | "proxy_recursive" => {
                return VariableKind::Unknown(
                    "proxies of one geo alone have no counterpart; they are [client] trusted_proxies"
                        .to_owned(),
                );
            }
            name => match network(name) {
                Some(found) => {
                    blocks.extend(
                        found
                            .into_iter()
                            .map(|block| (block, (at, value.to_owned()))),
                    );
                }
                None => return VariableKind::Unknown(format!("{name:?} is no block of addresses")),
            },
        }
    }
    let mut blocks: Vec<(IpNet, (usize, String))> = blocks.into_iter().collect();
    blocks.sort_by_key(|(_, (at, _))| *at);
    let blocks = blocks.into_iter().map(|(block, (_, value))| (block, value));
    VariableKind::Geo {
        source: source.to_owned(),
        blocks: blocks.collect(),
        default,
    }
}

/// Returns the blocks of an address, a block or a range.
pub(super) fn network(text: &str) -> Option<Vec<IpNet>> {
    if let Some(block) = addresses::network(text) {
        return Some(vec![block]);
    }
    let (first, last) = text.split_once('-')?;
    match (first.parse().ok()?, last.parse().ok()?) {
        (IpAddr::V4(first), IpAddr::V4(last)) if first <= last => {
            Some(Ipv4Subnets::new(first, last, 0).map(IpNet::V4).collect())
        }
        (IpAddr::V6(first), IpAddr::V6(last)) if first <= last => {
            Some(Ipv6Subnets::new(first, last, 0).map(IpNet::V6).collect())
        }
        _ => None,
    }
}

/// Returns the part of a key as a condition of a route names it: a field or a parameter with a value.
pub(super) fn condition(part: &KeyPart, value: &str) -> Option<RouteValue> {
    let (key, name) = match part {
        KeyPart::Header(name) => ("headers", name),
        KeyPart::Query(name) => ("query", name),
        _ => return None,
    };
    Some(RouteValue {
        key,
        name: name.clone(),
        value: value.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::tree;
    use super::*;
    use crate::source::NoFiles;

    /// Goal: of equal blocks the last one holds, at its place. Method: a block that stands twice, one within a range, one that is deleted.
    #[test]
    fn the_last_of_equal_blocks_holds() {
        let text =
            "10.0.0.0/8 a; 10.1.0.0-10.1.1.255 b; ::1 c; delete ::1; 10.0.0.1/8 d; 10.1.0.0/23 e;";
        let entries = tree::parse("n", text, &NoFiles, &mut Ledger::default()).unwrap();
        let VariableKind::Geo { blocks, .. } = geo("$remote_addr", &entries) else {
            panic!("blocks are read");
        };
        let shown = blocks
            .iter()
            .map(|(block, value)| format!("{block} {value}"));
        let shown: Vec<String> = shown.collect();
        assert_eq!(shown, ["10.0.0.0/8 d", "10.1.0.0/23 e"]);
    }
}
