//! Holds the JSON Schema against the files that the parser reads, and against those that it refuses.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    missing_docs,
    reason = "in a test a panic is the report"
)]

use std::path::Path;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;
use sluicegate::config::{NoEnvironment, known_keys, schema};
use toml::de::{DeTable, DeValue};

/// Made once: the parser is asked some thousand times.
static SCHEMA: LazyLock<Value> = LazyLock::new(schema);

/// The reference with every key that is commented out in it.
fn specimen() -> String {
    let text = include_str!("../conf/reference.toml");
    let uncomment = |line: &str| {
        let written = line
            .strip_prefix('#')
            .filter(|rest| rest.starts_with(|c: char| c.is_ascii_lowercase() || c == '['));
        format!("{}\n", written.unwrap_or(line))
    };
    text.lines().map(uncomment).collect()
}

/// Whether a value fits: the part of JSON Schema that [`schema`] uses.
fn judge(schema: &Value, value: &DeValue<'_>, path: &str) -> Result<(), String> {
    let kind = match value {
        DeValue::String(_) => "string",
        DeValue::Integer(_) => "integer",
        DeValue::Float(_) => "number",
        DeValue::Boolean(_) => "boolean",
        DeValue::Array(_) => "array",
        DeValue::Table(_) => "object",
        DeValue::Datetime(_) => "date",
    };
    let types = &schema["type"];
    let fits = match types {
        Value::String(one) => one == kind,
        Value::Array(several) => several.iter().any(|one| one == kind),
        _ => true,
    };
    if !fits {
        return Err(format!("{path}: {kind} is not {types}"));
    }
    judge_form(schema, value, path)?;
    match value {
        DeValue::Table(table) => {
            for name in schema["required"].as_array().into_iter().flatten() {
                let name = name.as_str().unwrap();
                if !table.contains_key(name) {
                    return Err(format!("{path}: {name} is missing"));
                }
            }
            for (key, value) in table {
                let name = key.get_ref();
                let known = schema["properties"].get(&**name);
                let schema = match (known, &schema["additionalProperties"]) {
                    (Some(known), _) => known,
                    (None, Value::Bool(false)) => {
                        return Err(format!("{path}: {name} is not known"));
                    }
                    (None, others) => others,
                };
                judge(schema, value.get_ref(), &format!("{path}.{name}"))?;
            }
        }
        DeValue::Array(elements) => {
            for element in elements {
                judge(&schema["items"], element.get_ref(), &format!("{path}[]"))?;
            }
        }
        _ => {}
    }
    Ok(())
}

/// Whether a single value fits: `anyOf`, `enum`, `minimum`, `maximum` and `pattern`.
fn judge_form(schema: &Value, value: &DeValue<'_>, path: &str) -> Result<(), String> {
    if let Some(ways) = schema["anyOf"].as_array()
        && !ways.iter().any(|way| judge(way, value, path).is_ok())
    {
        return Err(format!("{path}: none of {ways:?}"));
    }
    if let Some(words) = schema["enum"].as_array()
        && !matches!(value, DeValue::String(text) if words.iter().any(|word| *word == **text))
    {
        return Err(format!("{path}: not among {words:?}"));
    }
    match value {
        DeValue::String(text) => match schema["pattern"].as_str() {
            Some(pattern) if !Regex::new(pattern).unwrap().is_match(text) => {
                Err(format!("{path}: {text:?} does not match {pattern}"))
            }
            _ => Ok(()),
        },
        DeValue::Integer(integer) => {
            // Of other bases and of more digits than these the files here have none.
            let Ok(number) = integer.as_str().replace('_', "").parse::<i64>() else {
                return Ok(());
            };
            let bound = |name: &str| schema[name].as_i64();
            let fits = bound("minimum").is_none_or(|least| least <= number)
                && bound("maximum").is_none_or(|most| number <= most);
            let range = [bound("minimum"), bound("maximum")];
            fits.then_some(())
                .ok_or_else(|| format!("{path}: {number} is not in {range:?}"))
        }
        _ => Ok(()),
    }
}

fn judge_text(schema: &Value, text: &str) -> Result<(), String> {
    let (table, errors) = DeTable::parse_recoverable(text);
    assert!(errors.is_empty(), "{errors:?}");
    judge(schema, &DeValue::Table(table.into_inner()), "")
}

fn files(directory: &str) -> Vec<(String, String)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join(directory);
    let mut files: Vec<_> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "toml"))
        .map(|path| {
            let text = std::fs::read_to_string(&path).unwrap();
            (path.display().to_string(), text)
        })
        .collect();
    files.sort();
    assert!(!files.is_empty());
    files
}

/// Goal: an editor marks nothing that is right. Method: every file that ships, and every file of the tests that must be read.
#[test]
fn every_good_file_fits_the_schema() {
    let schema = &*SCHEMA;
    for directory in [
        "conf",
        "conf/examples",
        "conf/examples/beside",
        "tests/config/good",
    ] {
        for (path, text) in files(directory) {
            if let Err(reason) = judge_text(schema, &text) {
                panic!("{path}: {reason}");
            }
        }
    }
    judge_text(schema, &specimen()).expect("the whole reference fits");
}

/// Files of `tests/config/bad` whose mistakes a schema can tell: keys, types, words, ranges, and the forms of durations, sizes, rates
/// and blocks of addresses.
const CAUGHT: &[&str] = &[
    "acme",
    "actions",
    "algorithm",
    "algorithms",
    "cache",
    "conditions",
    "cors",
    "costs",
    "count-if",
    "defence",
    "durations",
    "http2",
    "lists",
    "missing-keys",
    "on-missing",
    "origin-tls",
    "out-of-range",
    "overrides",
    "penalties",
    "pools",
    "proxy-protocol",
    "rates",
    "refusals",
    "servers",
    "shaping",
    "six-mistakes",
    "sizes",
    "tls",
    "trusted-proxies",
    "unknown-keys",
    "unknown-tables",
    "wrong-tables",
    "wrong-types",
];

/// Goal: an editor marks what the parser would. Method: the files of the tests that are wrong in ways that a schema knows, and values one
/// by one.
#[test]
fn what_a_schema_can_tell_does_not_fit() {
    let schema = &*SCHEMA;
    let files = files("tests/config/bad");
    let mut caught = Vec::new();
    for (path, text) in &files {
        let name = Path::new(path).file_stem().unwrap().to_str().unwrap();
        let (_, errors) = DeTable::parse_recoverable(text);
        if errors.is_empty() && judge_text(schema, text).is_err() {
            caught.push(name);
        }
    }
    for name in CAUGHT {
        assert!(caught.contains(name), "{name} fits");
    }
    for wrong in [
        "[server]\nthreads = \"4\"",
        "[server]\nthreads = true",
        "[server]\nthreads = 0",
        "[server]\nthreads = 1025",
        "[server]\nshutdown_timeout = 30",
        "[server]\nshutdown_timeout = \"30\"",
        "[server]\nmax_header_bytes = \"32 K\"",
        "[server]\nmax_header_bytes = 10",
        "[client]\ntrusted_proxies = [\"proxy.internal\"]",
        "[[listener]]\naddress = \"0.0.0.0:1\"\nproxy_protocol = \"on\"",
        "[[route]]\npath = [\"/\"]",
        "[limit.otp]\nkey = 4\nrates = [\"5 per 1m\"]",
        "[limit.otp]\nkey = [4]\nrates = [\"5 per 1m\"]",
        "[limit.otp]\nkey = \"host\"",
        "[limit.otp]\nkey = \"host\"\nrates = [\"5/m\"]",
        "[limit.otp]\nkey = \"host\"\nrates = [\"5 per 1m\"]\nalgorithm = \"sliding\"",
        "[limit.otp]\nkey = \"host\"\nrates = [\"5 per 1m\"]\nstore = \"redis\"",
        "[limit.otp]\nkey = \"host\"\nrates = [\"5 per 1m\"]\naction = \"drop\"",
        "[limit.otp]\nkey = \"host\"\nrates = [\"5 per 1m\"]\nheaders = \"draft\"",
        "[limit.otp]\nkey = \"host\"\nrates = [\"5 per 1m\"]\non_missing = \"pass\"",
        "[origin.app]\nservers = \"127.0.0.1:1\"",
        "[origin.app]\nservers = [\"127.0.0.1:1\"]\nbalance = \"random\"",
        "[origin.app]\nservers = [\"127.0.0.1:1\"]\nprotocol = \"http2\"",
    ] {
        assert!(judge_text(schema, wrong).is_err(), "{wrong} fits");
    }
    assert!(
        judge_text(
            schema,
            "[limit.otp]\nkey = \"host\"\nrates = [\" 5  per 1h30m \", \"9 per week\"]"
        )
        .is_ok()
    );
}

/// Goal: nothing is left to guess. Method: each key that the parser knows has a type and tells what it is for.
#[test]
fn every_key_has_a_type_and_most_have_words() {
    let specimen = specimen();
    let known = known_keys(&specimen, &NoEnvironment);
    let schema = &*SCHEMA;
    let mut without_words = 0;
    for key in &known {
        let mut at = schema;
        for step in key.split('.') {
            let (name, list) = match step.strip_suffix("[]") {
                Some(name) => (name, true),
                None => (step, false),
            };
            at = if name == "NAME" {
                &at["additionalProperties"]
            } else {
                &at["properties"][name]
            };
            if list {
                at = &at["items"];
            }
        }
        assert!(!at["type"].is_null(), "{key} has no type: {at}");
        without_words += usize::from(at["description"].is_null());
    }
    assert!(
        without_words * 4 < known.len(),
        "{without_words} of {}",
        known.len()
    );
}
