//! Counts forms that no other project has and a reader stops at, and lets the counts only fall to 0.

use super::{Complaints, Source, assert_none, rust_files};

/// Functions called `of`, which say nothing of what they do: write `new`, `from_…`, `parse`, `read`. Only ever lower it.
const FUNCTIONS_OF: usize = 0;
/// `let (a, b) = (x, y);` in place of two statements. Patterns that may not match are none of them.
const TUPLE_LETS: usize = 0;
/// Parameters without a name, `(a, b): (A, B)`: write two parameters, or a struct. Only ever lower it.
const TUPLE_PARAMETERS: usize = 91;

/// What a file has of each kind.
#[derive(Debug, Default, PartialEq, Eq)]
struct DialectCounts {
    functions_of: usize,
    tuple_lets: usize,
    tuple_parameters: usize,
}

impl DialectCounts {
    fn add(&mut self, file: &Source) {
        let lines: Vec<&str> = file.shipped_code().map(|(_, line)| line.trim()).collect();
        let code = lines.join(" ");
        self.functions_of += code.matches("fn of(").count() + code.matches("fn of<").count();
        for (at, _) in code.match_indices("let (") {
            let rest = &code[at + "let (".len()..];
            let names = rest.split(')').next().unwrap_or_default();
            let value = &rest[names.len()..];
            let is_plain = names
                .chars()
                .all(|c| c.is_alphanumeric() || "_&, ".contains(c));
            self.tuple_lets += usize::from(is_plain && value.starts_with(") = ("));
        }
        for (at, _) in code.match_indices("fn ") {
            let head = code[at..].split('{').next().unwrap_or_default();
            self.tuple_parameters += head.matches("): (").count() + head.matches("): &(").count();
        }
    }
}

#[test]
fn the_dialect_goes() {
    // Goal: code reads as in other projects. Method: three counts over the shipped code, each with a ceiling that only falls.
    let mut counts = DialectCounts::default();
    for file in rust_files().iter().filter(|file| file.is_shipped()) {
        counts.add(file);
    }
    let mut complaints = Complaints::new();
    for (name, found, most) in [
        ("FUNCTIONS_OF", counts.functions_of, FUNCTIONS_OF),
        ("TUPLE_LETS", counts.tuple_lets, TUPLE_LETS),
        (
            "TUPLE_PARAMETERS",
            counts.tuple_parameters,
            TUPLE_PARAMETERS,
        ),
    ] {
        if found > most {
            complaints.push(format!(
                "{name}: {found}, at most {most}; tests/tidy/dialect.rs says what to write"
            ));
        } else if found < most {
            complaints.push(format!(
                "{name}: {found}, well done; lower {most} in tests/tidy/dialect.rs"
            ));
        }
    }
    assert_none(complaints);
}

#[test]
fn the_forms_are_found() {
    // Goal: counts of nothing are not counts. Method: a file with each form, over several lines too, and forms that only look like them.
    let file = Source {
        path: "src/a.rs".to_owned(),
        text: "impl A {\n    fn of(a: u8) -> Self {\n        let (b, c) = (a, 1);\n        let (d, e) = pair();\n\
               let (f,\n            g) =\n            (a, b);\n    }\n}\n\
               fn offer(\n    (a, b): (u8, u8),\n    c: (u8, u8),\n) {}\n"
            .to_owned(),
    };
    let mut counts = DialectCounts::default();
    counts.add(&file);
    let expected = DialectCounts {
        functions_of: 1,
        tuple_lets: 2,
        tuple_parameters: 1,
    };
    assert_eq!(counts, expected);
}
