//! Holds the JSON Schema against the files that the parser reads, and against those that it refuses.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    missing_docs,
    reason = "in a test a panic is the report"
)]

use std::io;
use std::net::SocketAddr;
use std::path::Path;

use serde_json::Value;
use sluicegate::config::{Surroundings, known_keys, schema};
use toml::de::{DeTable, DeValue};

/// A machine without names, files and variables.
struct Nowhere;

impl Surroundings for Nowhere {
    fn resolve(&self, _: &str) -> io::Result<Vec<SocketAddr>> {
        Err(io::ErrorKind::NotFound.into())
    }

    fn read(&self, _: &Path) -> io::Result<String> {
        Err(io::ErrorKind::NotFound.into())
    }

    fn is_open_to_all(&self, _: &std::path::Path) -> bool {
        false
    }

    fn variable(&self, _: &str) -> Option<String> {
        None
    }

    fn cores(&self) -> usize {
        1
    }
}

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
    let schema = schema();
    for directory in ["conf", "conf/examples", "tests/config/good"] {
        for (path, text) in files(directory) {
            if let Err(reason) = judge_text(&schema, &text) {
                panic!("{path}: {reason}");
            }
        }
    }
    judge_text(&schema, &specimen()).expect("the whole reference fits");
}

/// Goal: an editor marks what the parser would. Method: the files of the tests with keys that are not known, tables that are not, and
/// values of wrong types.
#[test]
fn unknown_keys_and_wrong_types_do_not_fit() {
    let schema = schema();
    for (path, text) in files("tests/config/bad") {
        let name = Path::new(&path).file_stem().unwrap().to_str().unwrap();
        if [
            "unknown-keys",
            "unknown-tables",
            "wrong-types",
            "missing-keys",
        ]
        .contains(&name)
        {
            assert!(judge_text(&schema, &text).is_err(), "{path} fits");
        }
    }
    for wrong in [
        "[server]\nthreads = \"4\"",
        "[server]\nthreads = true",
        "[server]\nshutdown_timeout = 30",
        "[[route]]\npath = [\"/\"]",
        "[limit.otp]\nkey = 4\nrates = [\"5 per 1m\"]",
        "[limit.otp]\nkey = [4]\nrates = [\"5 per 1m\"]",
        "[limit.otp]\nkey = \"host\"",
        "[origin.app]\nservers = \"127.0.0.1:1\"",
    ] {
        assert!(judge_text(&schema, wrong).is_err(), "{wrong} fits");
    }
}

/// Goal: nothing is left to guess. Method: each key that the parser knows has a type and tells what it is for.
#[test]
fn every_key_has_a_type_and_most_have_words() {
    let specimen = specimen();
    let known = known_keys(&specimen, &Nowhere);
    let schema = schema();
    let mut without_words = 0;
    for key in &known {
        let mut at = &schema;
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
