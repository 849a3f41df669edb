//! Checks what newcomers read first: the page of questions names files and functions that exist, and the glossary metrics and fields.

use std::fs;

use super::{Complaints, assert_none, root};

const PAGE: &str = "docs/finding-your-way.md";
const MAP: &str = "ARCHITECTURE.md";
/// The section of the map whose table has a function for each step of a request.
const STEPS: &str = "## One request, step by step\n\n";
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

/// Complains about files that a page names and that do not exist, and about names after a file that it does not define.
fn lost_places(page: &str, places: &[(&str, Vec<&str>)]) -> Complaints {
    let mut complaints = Complaints::new();
    for (path, names) in places {
        let file = root().join(path);
        if !file.exists() {
            complaints.push(format!(
                "{page}: {path} does not exist; name what took its place"
            ));
            continue;
        }
        let text = fs::read_to_string(file).unwrap_or_default();
        let missing = names.iter().filter(|name| !defines(&text, name));
        complaints.extend(missing.map(|name| {
            format!("{page}: {path} does not define {name}; name what took its place")
        }));
    }
    complaints
}

#[test]
fn the_way_for_newcomers_leads_somewhere() {
    // Goal: a newcomer finds the line by names alone. Method: every path and name in backticks on the page.
    let page = fs::read_to_string(root().join(PAGE)).unwrap();
    let places = places(&page);
    assert_none(lost_places(PAGE, &places));
    assert!(places.len() > 20, "{PAGE} names {} files", places.len());
}

#[test]
fn the_way_for_newcomers_quotes_the_architecture() {
    // Goal: the second column leads to a sentence that is there. Method: each text in quotation marks, and the heading before it.
    let read = |path: &str| fs::read_to_string(root().join(path)).unwrap();
    let (page, map) = (read(PAGE), read(MAP));
    let one_line = map.split_whitespace().collect::<Vec<_>>().join(" ");
    let cells = page
        .lines()
        .filter_map(|row| row.strip_prefix("| ")?.split(" | ").nth(1));
    let mut complaints = Complaints::new();
    let mut quotes = 0;
    for cell in cells {
        let Some((heading, quote)) = cell.split_once(": \"") else {
            continue;
        };
        quotes += 1;
        let is_section = map
            .lines()
            .any(|line| line.starts_with('#') && line.contains(heading));
        if !is_section || !one_line.contains(quote.trim_end_matches('"')) {
            complaints.push(format!("{PAGE}: {MAP} does not say: {cell}"));
        }
    }
    assert_none(complaints);
    assert!(quotes > 8, "{PAGE} quotes {quotes} sentences");
}

#[test]
fn the_steps_of_a_request_are_functions() {
    // Goal: the first table of the map leads from step to step. Method: every path and name in backticks in its section.
    let map = fs::read_to_string(root().join(MAP)).unwrap();
    let (_, steps) = map.split_once(STEPS).unwrap();
    let rows = steps
        .split("\n\n")
        .find(|part| part.starts_with("| "))
        .unwrap();
    let places = places(rows);
    assert_none(lost_places(MAP, &places));
    assert!(places.len() > 15, "{MAP} names {} files", places.len());
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
