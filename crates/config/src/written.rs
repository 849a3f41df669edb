//! Owns what a configuration says as it is written, without its secrets: what `/config` shows, and what a reload compares.
//!
//! A secret is a value whose key is named like one, a field of a collector's requests, and the login in a URL. Files of secrets are named,
//! not shown. A variable of the environment stays its name. `written_files` has the text of the files.

use std::collections::BTreeMap;

use serde_json::{Map, Number, Value};
use toml::de::{DeInteger, DeTable, DeValue};

use super::source::SourceText;
use super::written_files::{WrittenFile, written_files};

/// The text that replaces a secret.
pub const SECRET: &str = "(secret)";

/// Words in the names of keys and header fields whose values are secrets.
const SECRET_WORDS: [&str; 9] = [
    "password",
    "passwd",
    "secret",
    "token",
    "authorization",
    "cookie",
    "credential",
    "api-key",
    "api_key",
];

/// The tables whose keys are names that an operator chose, for fields of messages.
const FIELD_TABLES: [&str; 3] = ["set", "add", "headers"];

/// Changes of one reload that are told.
const TOLD: usize = 100;

/// A configuration as it is written: tables, lists and values, and the text of its files, secrets left out. Two are equal if their tables
/// are: comments and layout change nothing.
#[derive(Clone, Debug, Default)]
pub struct WrittenConfig {
    tables: Value,
    files: Vec<WrittenFile>,
}

impl PartialEq for WrittenConfig {
    fn eq(&self, other: &Self) -> bool {
        self.tables == other.tables
    }
}

impl WrittenConfig {
    /// The tables of these files.
    pub(super) fn of(source: &SourceText<'_>, table: &DeTable<'_>) -> Self {
        Self {
            tables: shown_table("", table),
            files: written_files(source, table),
        }
    }

    /// Returns the configuration as JSON.
    #[must_use]
    pub fn as_json(&self) -> &Value {
        &self.tables
    }

    /// Returns the text of each file, without what [`for_readers`](Self::for_readers) leaves out.
    #[must_use]
    pub fn files(&self) -> &[WrittenFile] {
        &self.files
    }

    /// Returns the configuration as JSON, without the values of headers that routes ask for either: a proxy may add such a field to prove
    /// its identity.
    #[must_use]
    pub fn for_readers(&self) -> Value {
        let mut shown = self.tables.clone();
        let routes = shown.get_mut("route").and_then(Value::as_array_mut);
        for route in routes.into_iter().flatten() {
            if let Some(headers) = route.get_mut("headers").and_then(Value::as_object_mut) {
                headers
                    .values_mut()
                    .for_each(|value| *value = Value::from(SECRET));
            }
        }
        shown
    }

    /// Returns the differences from `before`, a sentence each; no more than a hundred, and then how many more.
    #[must_use]
    pub fn changes_since(&self, before: &Self) -> Vec<String> {
        let mut changes = Vec::new();
        compare("", &before.tables, &self.tables, &mut changes);
        if changes.len() > TOLD {
            let more = changes.len() - TOLD;
            changes.truncate(TOLD);
            changes.push(format!("and {more} more"));
        }
        changes
    }
}

fn shown_table(within: &str, table: &DeTable<'_>) -> Value {
    let entries = table.iter().map(|(key, value)| {
        let key = key.get_ref().to_string();
        let shown = match value.get_ref() {
            DeValue::Table(_) if has_secret_values(within, &key) => Value::from(SECRET),
            DeValue::Table(table) => shown_table(&key, table),
            _ if is_secret(within, &key) => Value::from(SECRET),
            value => shown(&key, value),
        };
        (key, shown)
    });
    Value::Object(entries.collect::<Map<_, _>>())
}

fn shown(key: &str, value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => Value::from(without_login(text)),
        DeValue::Integer(integer) => number(integer),
        DeValue::Float(float) => float
            .as_str()
            .replace('_', "")
            .parse()
            .ok()
            .and_then(Number::from_f64)
            .map_or_else(|| Value::from(float.as_str()), Value::Number),
        DeValue::Boolean(value) => Value::from(*value),
        DeValue::Datetime(time) => Value::from(time.to_string()),
        DeValue::Array(elements) => elements
            .iter()
            .map(|element| shown(key, element.get_ref()))
            .collect(),
        DeValue::Table(table) => shown_table(key, table),
    }
}

fn number(integer: &DeInteger<'_>) -> Value {
    let digits = integer.as_str().replace('_', "");
    i64::from_str_radix(&digits, integer.radix())
        .map_or_else(|_| Value::from(integer.to_string()), Value::from)
}

/// Returns whether all values of the table `key` in a table named `within` are secrets: what a collector asks for beside an address is its
/// password, whatever the field.
pub(super) fn has_secret_values(within: &str, key: &str) -> bool {
    (within, key) == ("otlp", "headers")
}

/// Returns whether the value of `key` in a table named `within` is kept to the gateway.
pub(super) fn is_secret(within: &str, key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    let is_named_so = SECRET_WORDS.iter().any(|word| key.contains(word));
    if FIELD_TABLES.contains(&within) {
        return is_named_so || key.contains("key") || key.contains("auth");
    }
    let names_a_place = key.ends_with("_file") || key.ends_with("_env");
    // What these two tables say about cookies are names.
    let is_cookie = key.contains("cookie");
    is_named_so && !names_a_place && !is_cookie
}

/// A URL without the user and the password before its host; any other text as it is.
pub(super) fn without_login(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else {
        return text.to_owned();
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    match rest[..end].rfind('@') {
        Some(at) => format!("{scheme}://{SECRET}{}", &rest[at..]),
        None => text.to_owned(),
    }
}

/// Adds what is different at `path` and below.
fn compare(path: &str, before: &Value, now: &Value, changes: &mut Vec<String>) {
    match (before, now) {
        _ if before == now => {}
        (Value::Object(before), Value::Object(now)) => {
            for (key, value) in before {
                match now.get(key) {
                    Some(now) => compare(&below(path, key), value, now, changes),
                    None => gone(&below(path, key), value, changes),
                }
            }
            let new = now.iter().filter(|(key, _)| !before.contains_key(*key));
            for (key, value) in new {
                came(&below(path, key), value, changes);
            }
        }
        (Value::Array(before), Value::Array(now)) => match (named(before), named(now)) {
            (Some(before), Some(now)) => compare_named(path, &before, &now, changes),
            _ => changes.push(format!(
                "{}: {} → {}",
                subject(path),
                text(before),
                text(now)
            )),
        },
        _ => changes.push(format!(
            "{}: {} → {}",
            subject(path),
            brief(before),
            brief(now)
        )),
    }
}

/// Compares like [`compare`] tables that stand in a list and have names.
fn compare_named(
    path: &str,
    before: &BTreeMap<String, &Value>,
    now: &BTreeMap<String, &Value>,
    changes: &mut Vec<String>,
) {
    for (name, value) in before {
        match now.get(name) {
            Some(now) => compare(&format!("{path} {name}"), value, now, changes),
            None => changes.push(format!("{path} {name} removed")),
        }
    }
    let new = now.keys().filter(|name| !before.contains_key(*name));
    changes.extend(new.map(|name| format!("{path} {name} added")));
}

/// Tables by what tells them apart for a reader; `None` where these are no tables, or two are alike.
fn named(elements: &[Value]) -> Option<BTreeMap<String, &Value>> {
    let mut all = BTreeMap::new();
    for element in elements {
        let table = element.as_object()?;
        let name = ["name", "address", "path"]
            .iter()
            .find_map(|key| table.get(*key)?.as_str())?;
        let mut name = name.to_owned();
        if !table.contains_key("name") {
            for key in ["host", "methods", "headers", "query", "client"] {
                if let Some(value) = table.get(key) {
                    name.push_str(&format!(" {}", brief(value)));
                }
            }
        }
        if all.insert(name, element).is_some() {
            return None;
        }
    }
    Some(all)
}

fn below(path: &str, key: &str) -> String {
    match path {
        "" => key.to_owned(),
        _ => format!("{path}.{key}"),
    }
}

/// Returns the subject of a change: `limit otp` for the rates of a limit, else the path.
fn subject(path: &str) -> String {
    match path
        .strip_prefix("limit.")
        .and_then(|rest| rest.strip_suffix(".rates"))
    {
        Some(name) => format!("limit {name}"),
        None => path.to_owned(),
    }
}

fn came(path: &str, value: &Value, changes: &mut Vec<String>) {
    each(path, value, "added", changes);
}

fn gone(path: &str, value: &Value, changes: &mut Vec<String>) {
    each(path, value, "removed", changes);
}

/// Adds a change for each element: those that have a name by it, others by their value.
fn each(path: &str, value: &Value, what: &str, changes: &mut Vec<String>) {
    let (kind, name) = path.split_once('.').unwrap_or((path, ""));
    let is_named = ["limit", "origin", "list"].contains(&kind);
    match value {
        Value::Object(table) if is_named && name.is_empty() => {
            changes.extend(table.keys().map(|name| format!("{kind} {name} {what}")));
        }
        Value::Object(_) if is_named && !name.contains('.') => {
            changes.push(format!("{kind} {name} {what}"));
        }
        Value::Array(elements) if !elements.is_empty() && named(elements).is_some() => {
            let names = named(elements).unwrap_or_default();
            changes.extend(names.keys().map(|name| format!("{path} {name} {what}")));
        }
        Value::Object(table) if !table.is_empty() => {
            for (key, value) in table {
                each(&below(path, key), value, what, changes);
            }
        }
        Value::Object(_) => changes.push(format!("[{path}] {what}")),
        value => changes.push(format!("{path} = {} {what}", brief(value))),
    }
}

/// A value as a reader wants it in a sentence: texts without quotes, lists with commas.
fn brief(value: &Value) -> String {
    match value {
        Value::String(text) => shortened(text),
        Value::Array(elements) => text(elements),
        other => shortened(&other.to_string()),
    }
}

fn text(elements: &[Value]) -> String {
    let all: Vec<String> = elements.iter().map(brief).collect();
    if all.is_empty() {
        return "none".to_owned();
    }
    shortened(&all.join(", "))
}

fn shortened(text: &str) -> String {
    const MOST: usize = 120;
    let plain = text.replace(char::is_control, "\u{fffd}");
    match plain.char_indices().nth(MOST) {
        Some((at, _)) => format!("{}…", &plain[..at]),
        None => plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str) -> WrittenConfig {
        let source = SourceText::new("gateway.toml", text);
        WrittenConfig::of(&source, DeTable::parse(text).unwrap().get_ref())
    }

    /// Goal: a reader of a log sees what a reload did. Method: two files that differ in each way.
    #[test]
    fn changes_are_told_in_the_words_of_the_file() {
        let before = written(
            "[server]\nthreads = 4\n[limit.otp]\nrates = ['5 per 10s']\ncapacity = 1_000\n[limit.old]\nrates = ['1 per 1s']\n\
             [origin.a]\nservers = ['127.0.0.1:1']\n[[route]]\npath = '/x'\norigin = 'a'\n[[route]]\npath = '/y'\nmethods = ['GET']\n",
        );
        let now = written(
            "[server]\nthreads = 8\nstate_dir = '/s'\n[limit.otp]\nrates = ['8 per 10s', '9 per 1m']\ncapacity = 1000\n\
             [origin.a]\nservers = ['127.0.0.1:2']\n[origin.b]\nservers = ['127.0.0.1:3']\n\
             [[route]]\npath = '/x'\norigin = 'b'\n[[route]]\npath = '/z'\n",
        );
        assert_eq!(
            now.changes_since(&before),
            [
                "limit old removed",
                "limit otp: 5 per 10s → 8 per 10s, 9 per 1m",
                "origin.a.servers: 127.0.0.1:1 → 127.0.0.1:2",
                "origin b added",
                "route /x.origin: a → b",
                "route /y GET removed",
                "route /z added",
                "server.threads: 4 → 8",
                "server.state_dir = /s added",
            ]
        );
        assert_eq!(now.changes_since(&now), [""; 0]);
    }

    /// Goal: what an operator may read holds no secret. Method: one in each place that can have one.
    #[test]
    fn secrets_are_left_out() {
        let all = written(
            "[store]\nurl = 'redis://u:hunter2@h:1/0'\npassword = 'hunter2'\npassword_file = 'p'\n\
             [request_headers]\nset = { X-Api-Key = 'hunter2', X-Plain = 'shown' }\n\
             [tracing.otlp]\nheaders = { x-team = 'hunter2' }\n[admin]\ntoken_file = 't'\n\
             [origin.a.sticky]\ncookie = 'name'\n",
        );
        let text = all.as_json().to_string();
        assert!(!text.contains("hunter2"), "{text}");
        for shown in [
            "shown",
            "\"p\"",
            "\"t\"",
            "\"name\"",
            "redis://(secret)@h:1/0",
        ] {
            assert!(text.contains(shown), "{shown}: {text}");
        }
    }
}
