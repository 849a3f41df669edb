//! Owns what a configuration says as it is written, without its secrets: what `/config` shows, and what a reload compares.
//!
//! [`secrets`](super::secrets) decides what is hidden. Two configurations are compared by what is written, and shown by what readers
//! may see. A variable of the environment stays its name. `written_files` has the text of the files.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Number, Value};
use toml::de::{DeInteger, DeTable, DeValue};

use super::secrets::replacement;
use super::source::SourceText;
use super::written_files::{WrittenFile, written_files};

/// Changes of one reload that are told.
const TOLD: usize = 100;

/// A configuration as it is written: tables, lists and values, and the text of its files. Two are equal if their tables are: comments and
/// layout change nothing.
#[derive(Clone, Default)]
pub struct WrittenConfig {
    /// With secrets, so that a change of one is a change.
    tables: Value,
    files: Vec<WrittenFile>,
}

/// The place of a value: its keys, and how a change names it.
struct ChangePlace<'k> {
    steps: Vec<&'k str>,
    shown: String,
}

impl PartialEq for WrittenConfig {
    fn eq(&self, other: &Self) -> bool {
        self.tables == other.tables
    }
}

impl fmt::Debug for WrittenConfig {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.for_readers().fmt(into)
    }
}

impl WrittenConfig {
    /// The tables of these files.
    pub(super) fn new(source: &SourceText<'_>, table: &DeTable<'_>) -> Self {
        Self {
            tables: written_table(table),
            files: written_files(source, table),
        }
    }

    /// Returns the text of each file, without what [`for_readers`](Self::for_readers) leaves out.
    #[must_use]
    pub fn files(&self) -> &[WrittenFile] {
        &self.files
    }

    /// Returns the configuration as JSON, without secrets.
    #[must_use]
    pub fn for_readers(&self) -> Value {
        shown(&[], &self.tables)
    }

    /// The configuration that [`for_readers`](Self::for_readers) shows, without the text of its files.
    #[must_use]
    pub fn from_readers(tables: Value) -> Self {
        Self {
            tables,
            files: Vec::new(),
        }
    }

    /// Returns the differences from `before`, a sentence each, without secrets; no more than a hundred, and then how many more.
    #[must_use]
    pub fn changes_since(&self, before: &Self) -> Vec<String> {
        let mut changes = Vec::new();
        let root = ChangePlace {
            steps: Vec::new(),
            shown: String::new(),
        };
        compare(&root, &before.tables, &self.tables, &mut changes);
        if changes.len() > TOLD {
            let more = changes.len() - TOLD;
            changes.truncate(TOLD);
            changes.push(format!("and {more} more"));
        }
        changes
    }
}

fn written_table(table: &DeTable<'_>) -> Value {
    let entries = table.iter();
    let entries = entries.map(|(key, value)| (key.get_ref().to_string(), written(value.get_ref())));
    Value::Object(entries.collect::<Map<_, _>>())
}

fn written(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => Value::from(&**text),
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
        DeValue::Array(elements) => {
            let elements = elements.iter();
            elements.map(|element| written(element.get_ref())).collect()
        }
        DeValue::Table(table) => written_table(table),
    }
}

fn number(integer: &DeInteger<'_>) -> Value {
    let digits = integer.as_str().replace('_', "");
    i64::from_str_radix(&digits, integer.radix())
        .map_or_else(|_| Value::from(integer.to_string()), Value::from)
}

/// Returns the value at these keys as readers may see it.
fn shown(steps: &[&str], value: &Value) -> Value {
    match value {
        Value::Object(table) => {
            let entries = table.iter().map(|(key, value)| {
                let steps = [steps, &[key.as_str()]].concat();
                (key.clone(), shown(&steps, value))
            });
            Value::Object(entries.collect::<Map<_, _>>())
        }
        Value::Array(elements) => {
            let elements = elements.iter();
            elements.map(|element| shown(steps, element)).collect()
        }
        Value::String(text) => replacement(steps, text).map_or_else(|| value.clone(), Value::from),
        Value::Number(_) => replacement(steps, "").map_or_else(|| value.clone(), Value::from),
        Value::Bool(_) | Value::Null => value.clone(),
    }
}

impl<'k> ChangePlace<'k> {
    /// The place of a key.
    fn below(&self, key: &'k str) -> Self {
        let shown = match &*self.shown {
            "" => key.to_owned(),
            shown => format!("{shown}.{key}"),
        };
        let mut steps = self.steps.clone();
        steps.push(key);
        Self { steps, shown }
    }

    /// The place of a table in a list, by its name there.
    fn named(&self, name: &str) -> Self {
        Self {
            steps: self.steps.clone(),
            shown: format!("{} {name}", self.shown),
        }
    }

    /// Returns the subject of a change: `limit otp` for the rates of a limit, else the path.
    fn subject(&self) -> String {
        match *self.steps {
            ["limit", name, "rates"] => format!("limit {name}"),
            _ => self.shown.clone(),
        }
    }

    /// Returns a value as a reader wants it in a sentence: texts without quotes, lists with commas.
    fn brief(&self, value: &Value) -> String {
        brief(&shown(&self.steps, value))
    }
}

/// Adds what is different at `place` and below.
fn compare<'k>(
    place: &ChangePlace<'k>,
    before: &'k Value,
    now: &'k Value,
    changes: &mut Vec<String>,
) {
    match (before, now) {
        _ if before == now => {}
        (Value::Object(before), Value::Object(now)) => {
            for (key, value) in before {
                match now.get(key) {
                    Some(now) => compare(&place.below(key), value, now, changes),
                    None => each(&place.below(key), value, "removed", changes),
                }
            }
            let new = now.iter().filter(|(key, _)| !before.contains_key(*key));
            for (key, value) in new {
                each(&place.below(key), value, "added", changes);
            }
        }
        (Value::Array(elements), Value::Array(elements_now)) => {
            match (named(elements), named(elements_now)) {
                (Some(before), Some(now)) => compare_named(place, &before, &now, changes),
                _ => changes.push(difference(place, before, now)),
            }
        }
        _ => changes.push(difference(place, before, now)),
    }
}

/// Returns the sentence for a value that is another one.
fn difference(place: &ChangePlace<'_>, before: &Value, now: &Value) -> String {
    let subject = place.subject();
    let before = place.brief(before);
    let now = place.brief(now);
    match before == now {
        true => format!("{subject}: changed, value hidden"),
        false => format!("{subject}: {before} → {now}"),
    }
}

/// Compares like [`compare`] tables that stand in a list and have names.
fn compare_named<'k>(
    place: &ChangePlace<'k>,
    before: &BTreeMap<String, &'k Value>,
    now: &BTreeMap<String, &'k Value>,
    changes: &mut Vec<String>,
) {
    for (name, value) in before {
        match now.get(name) {
            Some(now) => compare(&place.named(name), value, now, changes),
            None => changes.push(format!("{} {name} removed", place.shown)),
        }
    }
    let new = now.keys().filter(|name| !before.contains_key(*name));
    changes.extend(new.map(|name| format!("{} {name} added", place.shown)));
}

/// Tables by what tells them apart for a reader, and those that are alike by their order besides; `None` where these are no tables that
/// have a name.
fn named(elements: &[Value]) -> Option<BTreeMap<String, &Value>> {
    let mut all = BTreeMap::new();
    for element in elements {
        let name = name(element.as_object()?)?;
        let mut own = name.clone();
        let mut order = 1;
        while all.contains_key(&own) {
            order += 1;
            own = format!("{name} ({order})");
        }
        all.insert(own, element);
    }
    Some(all)
}

/// Returns what tells a table apart for a reader; `None` where nothing does. Of fields and parameters these are the names.
fn name(table: &Map<String, Value>) -> Option<String> {
    let mut keys = ["name", "address", "path"].iter();
    let mut name = keys.find_map(|key| table.get(*key)?.as_str())?.to_owned();
    if !table.contains_key("name") {
        for key in ["host", "methods", "headers", "query", "client"] {
            match table.get(key) {
                Some(Value::Object(fields)) => {
                    let fields: Vec<&str> = fields.keys().map(String::as_str).collect();
                    name.push_str(&format!(" {}", fields.join(", ")));
                }
                Some(value) if !["headers", "query"].contains(&key) => {
                    name.push_str(&format!(" {}", brief(value)));
                }
                _ => {}
            }
        }
    }
    Some(shortened(&name))
}

/// Adds a change for each element: those that have a name by it, others by their value.
fn each<'k>(place: &ChangePlace<'k>, value: &'k Value, what: &str, changes: &mut Vec<String>) {
    let is_named = |kind: &&str| ["limit", "origin", "list"].contains(kind);
    let shown = &place.shown;
    match (value, &*place.steps) {
        (Value::Object(table), [kind]) if is_named(kind) => {
            changes.extend(table.keys().map(|name| format!("{kind} {name} {what}")));
        }
        (Value::Object(_), [kind, name]) if is_named(kind) => {
            changes.push(format!("{kind} {name} {what}"));
        }
        (Value::Object(table), _) if table.is_empty() => changes.push(format!("[{shown}] {what}")),
        (Value::Object(table), _) => {
            for (key, value) in table {
                each(&place.below(key), value, what, changes);
            }
        }
        (Value::Array(elements), _) if !elements.is_empty() && named(elements).is_some() => {
            let names = named(elements).unwrap_or_default();
            changes.extend(names.keys().map(|name| format!("{shown} {name} {what}")));
        }
        _ => changes.push(format!("{shown} = {} {what}", place.brief(value))),
    }
}

/// Returns a value that readers may see as it stands in a sentence.
fn brief(value: &Value) -> String {
    match value {
        Value::String(text) => shortened(text),
        Value::Array(elements) if elements.is_empty() => "none".to_owned(),
        Value::Array(elements) => {
            let elements: Vec<String> = elements.iter().map(brief).collect();
            shortened(&elements.join(", "))
        }
        other => shortened(&other.to_string()),
    }
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

    fn config(text: &str) -> WrittenConfig {
        let source = SourceText::new("gateway.toml", text);
        WrittenConfig::new(&source, DeTable::parse(text).unwrap().get_ref())
    }

    /// Goal: a reader of a log sees what a reload did. Method: two files that differ in each way.
    #[test]
    fn changes_are_told_in_the_words_of_the_file() {
        let before = config(
            "[server]\nthreads = 4\n[limit.otp]\nrates = ['5 per 10s']\ncapacity = 1_000\n[limit.old]\nrates = ['1 per 1s']\n\
             [origin.a]\nservers = ['127.0.0.1:1']\n[[route]]\npath = '/x'\norigin = 'a'\n[[route]]\npath = '/y'\nmethods = ['GET']\n",
        );
        let now = config(
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

    /// Goal: a change of a secret is said, and neither the old nor the new value. Method: another value at each place that can have one.
    #[test]
    fn changes_of_secrets_are_told_without_them() {
        let config = |secret: &str| {
            config(&format!(
                "[store]\nurl = 'redis://u:{secret}@h:1/0'\npassword = '{secret}'\nnodes = ['redis://u:{secret}@h']\n\
                 [request_headers]\nset = {{ authorization = 'Bearer {secret}' }}\nadd = {{ x-origin-verify = '{secret}' }}\n\
                 [tracing.otlp]\nheaders = {{ x-team = '{secret}' }}\n\
                 [[route]]\npath = '/x'\nheaders.x-proof = '{secret}'\nquery.key = '{secret}'\nredirect.to = '/y?token={secret}'\n\
                 [[route]]\npath = '/x'\nheaders.x-proof = 'hunter2-other'\nquery.key = 'hunter2'\n"
            ))
        };
        let before = config("hunter2-a");
        let mut changes = config("hunter2-b").changes_since(&before);
        changes.sort();
        assert_eq!(
            changes,
            [
                "request_headers.add.x-origin-verify",
                "request_headers.set.authorization",
                "route /x x-proof key.headers.x-proof",
                "route /x x-proof key.query.key",
                "route /x x-proof key.redirect.to",
                "store.nodes",
                "store.password",
                "store.url",
                "tracing.otlp.headers.x-team",
            ]
            .map(|place| format!("{place}: changed, value hidden"))
        );
        let empty = super::tests::config("");
        for changes in [empty.changes_since(&before), before.changes_since(&empty)] {
            let changes = changes.join("\n");
            assert!(!changes.contains("hunter2"), "{changes}");
            assert!(changes.contains("store.password = (secret) "), "{changes}");
            assert!(changes.contains("route /x x-proof key (2) "), "{changes}");
        }
        assert!(!format!("{before:?}").contains("hunter2"));
    }

    /// Goal: what an operator may read holds no secret. Method: one in each place that can have one.
    #[test]
    fn secrets_are_left_out() {
        let all = config(
            "[store]\nurl = 'redis://u:hunter2@h:1/0'\npassword = 'hunter2'\npassword_file = 'p'\n\
             [request_headers]\nset = { X-Api-Key = 'hunter2', X-Plain = 'hunter2' }\n\
             [tracing.otlp]\nheaders = { x-team = 'hunter2' }\n[admin]\ntoken_file = 't'\n\
             [origin.a.sticky]\ncookie = 'name'\n",
        );
        let text = all.for_readers().to_string();
        assert!(!text.contains("hunter2"), "{text}");
        for shown in ["\"p\"", "\"t\"", "\"name\"", "redis://(secret)@h:1/0"] {
            assert!(text.contains(shown), "{shown}: {text}");
        }
    }
}
