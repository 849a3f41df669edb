//! Checks what newcomers read first: the page of questions names files and functions that exist, and the glossary metrics and fields.

use std::fs;

use super::{Complaints, assert_none, root};

const PAGE: &str = "docs/finding-your-way.md";
/// The words before a name where it is defined.
const DEFINITIONS: &[&str] = &["fn ", "struct ", "enum ", "trait ", "macro_rules! "];

/// The words of a text that stand in backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The files of a page, each with the names that follow it up to the next file or the end of the line.
fn places(page: &str) -> Vec<(&str, Vec<&str>)> {
    let mut found: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in page.lines() {
        let mut file = None;
        for word in quoted(line) {
            if word.contains('/') {
                found.push((word, Vec::new()));
                file = Some(found.len() - 1);
            } else if let Some((_, names)) = file.and_then(|at| found.get_mut(at)) {
                names.push(word);
            }
        }
    }
    found
}

/// Returns true if a text defines a function, type or macro of this name.
pub(super) fn defines(text: &str, name: &str) -> bool {
    let is_end = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
    DEFINITIONS.iter().any(|word| {
        let definition = format!("{word}{name}");
        text.match_indices(&definition)
            .any(|(at, _)| is_end(&text[at + definition.len()..]))
    })
}

#[test]
fn the_way_for_newcomers_leads_somewhere() {
    // Goal: a newcomer finds the line by names alone. Method: every path and name in backticks on the page.
    let page = fs::read_to_string(root().join(PAGE)).unwrap();
    let mut complaints = Complaints::new();
    let places = places(&page);
    for (path, names) in &places {
        let file = root().join(path);
        if !file.exists() {
            complaints.push(format!(
                "{PAGE}: {path} does not exist; name what took its place"
            ));
            continue;
        }
        let text = fs::read_to_string(file).unwrap_or_default();
        let missing = names.iter().filter(|name| !defines(&text, name));
        complaints.extend(missing.map(|name| {
            format!("{PAGE}: {path} does not define {name}; name what took its place")
        }));
    }
    assert_none(complaints);
    assert!(places.len() > 20, "{PAGE} names {} files", places.len());
}

#[test]
fn the_glossary_names_metrics_and_fields_that_exist() {
    // Goal: one word for one thing, in code, metrics and log. Method: the names in the table, and the pages on operation.
    let read = |path: &str| fs::read_to_string(root().join(path)).unwrap();
    let (contributing, metrics, logs) = (
        read("CONTRIBUTING.md"),
        read("docs/operations/metrics.md"),
        read("docs/operations/logs.md"),
    );
    let glossary = contributing
        .split("\n## ")
        .find(|section| section.starts_with("Words"));
    let rows = glossary
        .unwrap()
        .lines()
        .filter(|line| line.starts_with("| "));
    let columns = rows
        .skip(1)
        .filter_map(|row| row.trim_end_matches(" |").rsplit(" | ").next());
    let names: Vec<&str> = columns.flat_map(quoted).collect();
    let exists = |name: &str| {
        metrics.contains(&format!("`sluicegate_{name}`")) || logs.contains(&format!("| `{name}`"))
    };
    let complaints = names.iter().filter(|name| !exists(name));
    assert_none(
        complaints
            .map(|name| {
                format!("CONTRIBUTING.md: neither a metric nor a field of the log is called {name}")
            })
            .collect(),
    );
    assert!(
        names.len() > 20,
        "the glossary names {} of them",
        names.len()
    );
}

#[test]
fn a_name_is_found_where_it_is_defined() {
    // Goal: a check of nothing is no check. Method: a page with two files, and texts that define a name or only look like it.
    let page = "| q: `word` | `src/` | `src/a.rs`: `one`, `Two`; then `src/b.rs`: `three` |\n";
    assert_eq!(
        places(page),
        [
            ("src/", vec![]),
            ("src/a.rs", vec!["one", "Two"]),
            ("src/b.rs", vec!["three"])
        ]
    );
    assert!(defines("pub fn one(", "one") && defines("struct Two;", "Two"));
    assert!(!defines("fn one_more() { one() }", "one"));
}
