//! Holds what a reader of a call needs: no flag among its arguments, and a function that fits on a screen.

use super::{Complaints, Source, assert_none, rust_files};

/// The longest function, in lines: what a screen shows.
const MAX_FUNCTION: usize = 90;
/// Functions that are longer, each a table in the form of a `match`. Only ever shrink it.
const LONG_FUNCTIONS: &[(&str, &str)] = &[("crates/import/src/nginx/limits.rs", "make")];
/// Functions that take a flag: constructors by a condition, methods of foreign traits, and those that wait for a better form. Only ever
/// shrink it.
const FLAGS: &[(&str, &str)] = &[
    ("crates/access-log/src/lines.rs", "take"),
    ("crates/base/src/geo/record.rs", "visit_bool"),
    ("crates/base/src/path/spelling.rs", "end_segment"),
    ("crates/base/src/reported_cost/json.rs", "read_in_string"),
    ("crates/config/src/pattern.rs", "segment"),
    ("crates/config/src/tables/list.rs", "without_exceptions"),
    ("crates/import/src/haproxy/terms.rs", "with_terms"),
    ("crates/telemetry/src/exposition.rs", "from"),
    ("crates/telemetry/src/otlp/json_members.rs", "visit_bool"),
    ("crates/decide/src/admission/json.rs", "visit_bool"),
    ("crates/transport/src/body_end.rs", "here_if"),
    ("crates/edge/src/gateway/serve/mod.rs", "decide_stream"),
    ("crates/edge/src/gateway/serve/received.rs", "of_stream"),
    (
        "crates/edge/src/gateway/upgrade_header.rs",
        "is_to_websocket",
    ),
    ("crates/replay/src/coverage.rs", "missing_part"),
    ("crates/replay/src/coverage.rs", "new"),
    ("crates/replay/src/coverage.rs", "unmatched"),
    ("crates/replay/src/key_counts.rs", "add"),
    ("crates/replay/src/suggest/limit_suggestion.rs", "at_limit"),
    ("crates/replay/src/timeline.rs", "add"),
];

/// A function of shipped code.
#[derive(Debug, PartialEq, Eq)]
struct Function<'s> {
    name: &'s str,
    /// The number of its first line.
    line: usize,
    /// From its first line to its last.
    lines: usize,
    /// The text between its name and its body.
    signature: String,
}

impl Function<'_> {
    fn takes_flag(&self) -> bool {
        let arguments = self.signature.split(" -> ").next().unwrap_or_default();
        let types = arguments
            .match_indices(": bool")
            .map(|(at, _)| at + ": bool".len());
        let mut behind = types.filter_map(|end| arguments.get(end..));
        behind.any(|rest| rest.starts_with([',', ')']))
    }
}

/// Returns the functions that ship, in the form that rustfmt gives them: the last line of a body has the indentation of the first.
fn functions(file: &Source) -> Vec<Function<'_>> {
    let lines: Vec<(usize, &str)> = file.lines().take(file.shipped_lines()).collect();
    let mut found = Vec::new();
    for (index, (number, line)) in lines.iter().enumerate() {
        let code = line.trim_start();
        let indent = &line[..line.len() - code.len()];
        let Some((before, rest)) = code.split_once("fn ") else {
            continue;
        };
        let is_item = before.split_whitespace().all(|word| {
            ["async", "const", "extern", "unsafe"].contains(&word)
                || word.starts_with("pub")
                || word.ends_with(')')
        });
        let name = rest.split(['(', '<']).next().unwrap_or_default();
        if code.starts_with("//") || !is_item || name.is_empty() {
            continue;
        }
        let body = &lines[index..];
        let is_last = |line: &str| line.ends_with(['{', ';', '}']);
        let head = body.iter().position(|(_, line)| is_last(line)).unwrap_or(0);
        let signature = body.iter().take(head + 1).map(|(_, line)| line.trim());
        let end = match body.get(head) {
            Some((_, line)) if line.ends_with('{') => {
                let is_end = |line: &str| line.strip_prefix(indent) == Some("}");
                body.iter().position(|(_, line)| is_end(line))
            }
            _ => Some(head),
        };
        found.push(Function {
            name,
            line: *number,
            lines: end.unwrap_or(head) + 1,
            signature: signature.collect::<Vec<_>>().join(" "),
        });
    }
    found
}

/// Complains about functions that break a rule and are not listed, and about entries whose function keeps it.
fn hold(rule: impl Fn(&Function<'_>) -> bool, listed: &[(&str, &str)], advice: &str) -> Complaints {
    let files = rust_files();
    let mut complaints = Complaints::new();
    let mut broken = Vec::new();
    for file in files.iter().filter(|file| file.is_shipped()) {
        for function in functions(file).iter().filter(|function| rule(function)) {
            let place = (file.path.as_str(), function.name);
            broken.push((place.0.to_owned(), place.1.to_owned()));
            if !listed.contains(&place) {
                complaints.push(format!(
                    "{}:{}: {}: {advice}",
                    file.path, function.line, function.name
                ));
            }
        }
    }
    let is_broken = |(path, name): &&(&str, &str)| {
        broken
            .iter()
            .any(|(file, function)| file == path && function == name)
    };
    complaints.extend(
        listed
            .iter()
            .filter(|entry| !is_broken(entry))
            .map(|entry| {
                format!(
                    "{entry:?} keeps the rule now, well done; drop it from tests/tidy/signatures.rs"
                )
            }),
    );
    complaints
}

#[test]
fn no_function_takes_a_flag() {
    // Goal: a call is readable without the signature. Method: each argument of type bool in shipped code.
    assert_none(hold(
        |function| function.takes_flag(),
        FLAGS,
        "takes a bool; take an enum, or split the function",
    ));
}

#[test]
fn a_function_fits_on_a_screen() {
    // Goal: a function is read at once. Method: the lines of each in shipped code.
    assert_none(hold(
        |function| function.lines > MAX_FUNCTION,
        LONG_FUNCTIONS,
        "longer than a screen; move a part of it into a function with a name",
    ));
}

#[test]
fn functions_are_found_with_their_arguments_and_lengths() {
    // Goal: a rule that finds nothing is no rule. Method: a file with functions of each form.
    let file = Source {
        path: "src/a.rs".to_owned(),
        text: "impl A {\n    pub(super) async fn one(\n        &self,\n        last: bool,\n    ) -> u8 {\n        1\n    }\n}\n\n\
               fn two(a: u8) -> bool {\n    a > 1\n}\n\nfn three<T>(of: T, is: bool) {}\n// a fn four(is: bool) {\n"
            .to_owned(),
    };
    let found = functions(&file);
    let facts: Vec<(&str, usize, usize, bool)> = found
        .iter()
        .map(|function| {
            (
                function.name,
                function.line,
                function.lines,
                function.takes_flag(),
            )
        })
        .collect();
    assert_eq!(
        facts,
        [
            ("one", 2, 6, true),
            ("two", 10, 3, false),
            ("three", 14, 1, true)
        ]
    );
}
