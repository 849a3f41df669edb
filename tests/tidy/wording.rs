//! Counts names and comments that a stranger cannot read, and lets the counts only fall.

use std::collections::{BTreeMap, BTreeSet};

use super::{Complaints, Source, assert_none, camel_words, files, words};

/// What a crate may still have of each kind, in thousandths of all its types or doc comments; the last is a number.
struct Ceilings {
    folder: &'static str,
    /// Type names of one word; the aim is 250.
    one_word: usize,
    /// Doc comments that open with one of [`OPENINGS`]; the aim is 20.
    openings: usize,
    /// Type names that stand for two types of the crate; the aim is 0.
    twice: usize,
}

/// Only ever lower them.
const CEILINGS: &[Ceilings] = &[
    Ceilings {
        folder: "src",
        one_word: 58,
        openings: 0,
        twice: 0,
    },
    Ceilings {
        folder: "crates/access-log/src",
        one_word: 0,
        openings: 0,
        twice: 0,
    },
    Ceilings {
        folder: "crates/base/src",
        one_word: 36,
        openings: 0,
        twice: 0,
    },
    Ceilings {
        folder: "crates/config/src",
        one_word: 125,
        openings: 0,
        twice: 0,
    },
    Ceilings {
        folder: "crates/decide/src",
        one_word: 57,
        openings: 0,
        twice: 0,
    },
    Ceilings {
        folder: "crates/import/src",
        one_word: 52,
        openings: 0,
        twice: 0,
    },
    Ceilings {
        folder: "crates/limiter/src",
        one_word: 178,
        openings: 0,
        twice: 0,
    },
    Ceilings {
        folder: "crates/http1/src",
        one_word: 29,
        openings: 0,
        twice: 0,
    },
    Ceilings {
        folder: "crates/http2/src",
        one_word: 0,
        openings: 0,
        twice: 0,
    },
    Ceilings {
        folder: "crates/http3/src",
        one_word: 0,
        openings: 0,
        twice: 0,
    },
    Ceilings {
        folder: "crates/message-signatures/src",
        one_word: 0,
        openings: 0,
        twice: 0,
    },
    Ceilings {
        folder: "crates/redis-link/src",
        one_word: 177,
        openings: 0,
        twice: 0,
    },
    Ceilings {
        folder: "crates/telemetry/src",
        one_word: 17,
        openings: 0,
        twice: 0,
    },
];

/// Words with which a comment says a riddle instead of naming the thing or what it does.
const OPENINGS: &[&str] = &["What", "How", "Whether", "Of", "As", "Who"];
/// Names that say a role, which each part of a crate may have.
const ROLES: &[&str] = &["Config", "Error", "Metrics"];

/// The names of types that the shipped code of a file defines.
fn types(file: &Source) -> Vec<&str> {
    let mut found = Vec::new();
    for (_, line) in file.shipped_code() {
        let mut before: &[&str] = &[];
        let all: Vec<&str> = words(line).collect();
        for (index, word) in all.iter().enumerate() {
            let defines = matches!(*word, "struct" | "enum" | "trait")
                || (*word == "type" && !line.starts_with(' '));
            let visible = before
                .iter()
                .all(|word| matches!(*word, "pub" | "crate" | "super" | "in" | "self"));
            if defines && (visible || before.contains(&"in")) {
                found.extend(all.get(index + 1));
            }
            before = &all[..=index];
        }
    }
    found
}

/// The first words of the doc comments in the shipped code of a file.
fn openings(file: &Source) -> Vec<&str> {
    let mut found = Vec::new();
    let mut previous = "";
    let shipped = file.shipped_lines();
    for line in file.text.lines().take(shipped) {
        let line = line.trim_start();
        let kind = ["///", "//!"]
            .into_iter()
            .find(|kind| line.starts_with(kind))
            .unwrap_or_default();
        if !kind.is_empty() && kind != previous {
            found.push(words(line).next().unwrap_or_default());
        }
        previous = kind;
    }
    found
}

fn thousandths(part: usize, of: usize) -> usize {
    (part * 1000).div_ceil(of.max(1))
}

fn compare(what: &str, folder: &str, found: usize, ceiling: usize) -> Option<String> {
    if found > ceiling {
        return Some(format!(
            "{folder}: {what}: {found}, at most {ceiling}; name it by the word of the field, CONTRIBUTING.md says how"
        ));
    }
    // A little room, so that not each new name moves the ceiling.
    (found + 10 < ceiling).then(|| {
        format!("{folder}: {what}: {found}, well done; lower the ceiling of {ceiling} in CEILINGS")
    })
}

#[test]
fn names_and_comments_get_plainer() {
    // Goal: who adds a name or a comment writes as the field does. Method: three counts a crate, each with a ceiling that only falls.
    let mut complaints = Complaints::new();
    for ceilings in CEILINGS {
        let folder = ceilings.folder;
        let sources = files(&[folder], ".rs");
        let sources: Vec<&Source> = sources.iter().filter(|file| file.is_shipped()).collect();
        let mut names: BTreeMap<&str, usize> = BTreeMap::new();
        for name in sources.iter().flat_map(|file| types(file)) {
            *names.entry(name).or_default() += 1;
        }
        let all: usize = names.values().sum();
        let one_word = names
            .iter()
            .filter(|(name, _)| camel_words(name).count() == 1);
        let one_word = one_word.map(|(_, count)| count).sum();
        let twice: BTreeSet<&str> = names
            .iter()
            .filter(|(name, count)| **count > 1 && !ROLES.contains(name))
            .map(|(name, _)| *name)
            .collect();
        let docs: Vec<&str> = sources.iter().flat_map(|file| openings(file)).collect();
        let riddles = docs.iter().filter(|word| OPENINGS.contains(word)).count();
        let twice_named = Vec::from_iter(twice.iter().copied()).join(", ");
        let twice_named = format!("type names that stand for two types ({twice_named})");
        let counts = [
            (
                "thousandths of type names that are one word",
                thousandths(one_word, all),
                ceilings.one_word,
            ),
            (
                "thousandths of doc comments that open with a riddle",
                thousandths(riddles, docs.len()),
                ceilings.openings,
            ),
            (&twice_named, twice.len(), ceilings.twice),
        ];
        for (what, found, ceiling) in counts {
            complaints.extend(compare(what, folder, found, ceiling));
        }
    }
    assert_none(complaints);
}

#[test]
fn names_and_openings_are_found() {
    // Goal: counts of nothing are not counts. Method: a file with each kind of type and comment, and words that only look like them.
    let file = Source {
        path: "src/a.rs".to_owned(),
        text: "//! What it is.\n//! More.\npub struct One;\n/// Returns a type.\npub(super) enum TwoWords {}\n\
               impl A for B {\n    type Item = C;\n}\npub(in crate::a) trait Three {}\ntype Four = u8;\n// struct Five;\n\
               #[cfg(test)]\nmod tests {\n    /// How it is.\n    struct Six;\n}\n"
            .to_owned(),
    };
    assert_eq!(types(&file), ["One", "TwoWords", "Three", "Four"]);
    assert_eq!(openings(&file), ["What", "Returns"]);
}
