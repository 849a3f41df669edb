//! Checks the page of past advisories: each row names an advisory and tests that exist.

use std::fs;

use super::way::defines;
use super::{Complaints, assert_none, root};

const PAGE: &str = "docs/security/advisories.md";
/// Beginnings of the numbers of advisories; attacks without a number have a year.
const NUMBERS: &[&str] = &["CVE-", "RUSTSEC-", "GHSA-", "VU#", "(20"];

/// A row of a table: its first column, and the tests in its last one.
#[derive(Debug, PartialEq, Eq)]
struct Row<'a> {
    advisory: &'a str,
    /// Path and name of each test.
    tests: Vec<(&'a str, &'a str)>,
}

/// Returns the rows of all tables of a page, without their heads.
fn rows(page: &str) -> Vec<Row<'_>> {
    let lines = page.lines().filter(|line| line.starts_with("| "));
    let columns = lines.map(|line| line.trim_matches(['|', ' ']).split(" | "));
    let rows = columns.filter_map(|mut columns| {
        let advisory = columns.next()?;
        let quoted = columns.last()?.split('`').skip(1).step_by(2);
        let tests = quoted.filter_map(|test| test.split_once(" :: ")).collect();
        Some(Row { advisory, tests })
    });
    rows.filter(|row| row.advisory != "advisory").collect()
}

#[test]
fn each_advisory_has_a_test_that_exists() {
    // Goal: the page is true after a test is renamed or removed. Method: every row of its tables, every test that a row names.
    let page = fs::read_to_string(root().join(PAGE)).unwrap();
    let rows = rows(&page);
    let mut complaints = Complaints::new();
    for Row { advisory, tests } in &rows {
        if !NUMBERS.iter().any(|begin| advisory.contains(begin)) {
            complaints.push(format!(
                "{PAGE}: {advisory} has neither a number nor a year"
            ));
        }
        if tests.is_empty() {
            complaints.push(format!(
                "{PAGE}: {advisory} has no test; write one in tests/e2e/wire/advisories.rs"
            ));
        }
        for (path, name) in tests {
            let text = fs::read_to_string(root().join(path)).unwrap_or_default();
            if !defines(&text, name) {
                complaints.push(format!(
                    "{PAGE}: {advisory}: {path} has no test {name}; name what took its place"
                ));
            }
        }
    }
    assert_none(complaints);
    assert!(rows.len() > 60, "{PAGE} has {} rows", rows.len());
}

#[test]
fn rows_are_found_with_their_tests() {
    // Goal: a check of nothing is no check. Method: a table with a head, a row of two tests, and a row without one.
    let page = "# A\n\n| advisory | here | test |\n|---|---|---|\n| CVE-1, VU#2 | `x` | `tests/a.rs :: one`<br>`b.rs :: two` |\n\
                | CVE-3 | y | none |\n";
    let expected = [
        Row {
            advisory: "CVE-1, VU#2",
            tests: vec![("tests/a.rs", "one"), ("b.rs", "two")],
        },
        Row {
            advisory: "CVE-3",
            tests: Vec::new(),
        },
    ];
    assert_eq!(rows(page), expected);
}
