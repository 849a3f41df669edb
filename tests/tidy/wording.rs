//! Counts names and comments that a stranger cannot read, and lets the counts only fall.

use std::collections::BTreeMap;

use super::{Complaints, Source, assert_none, camel_words, files, folders_of_crates, words};

/// Type names of one word in all crates. Only ever lower it.
const ONE_WORD_TYPES: usize = 174;

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

#[test]
fn names_and_comments_get_plainer() {
    // Goal: who adds a name or a comment writes as the field does. Method: the type names of one word in all crates, whose number only
    // falls; in each crate the names of two types, and the comments that open with a riddle.
    let mut complaints = Complaints::new();
    let mut one_word = 0;
    for folder in folders_of_crates() {
        let sources = files(&[&folder], ".rs");
        let sources: Vec<&Source> = sources.iter().filter(|file| file.is_shipped()).collect();
        let mut names: BTreeMap<&str, usize> = BTreeMap::new();
        for name in sources.iter().flat_map(|file| types(file)) {
            *names.entry(name).or_default() += 1;
        }
        one_word += (names.iter())
            .filter(|(name, _)| camel_words(name).count() == 1)
            .map(|(_, count)| count)
            .sum::<usize>();
        for (name, count) in &names {
            if *count > 1 && !ROLES.contains(name) {
                complaints.push(format!(
                    "{folder}: {count} types are called {name}; name each by what it is"
                ));
            }
        }
        for file in sources {
            for word in openings(file) {
                if OPENINGS.contains(&word) {
                    complaints.push(format!(
                        "{}: a doc comment opens with {word:?}; name the thing, or say what it does",
                        file.path
                    ));
                }
            }
        }
    }
    if one_word > ONE_WORD_TYPES {
        complaints.push(format!(
            "{one_word} type names are one word, at most {ONE_WORD_TYPES}; name it by the word of the field, CONTRIBUTING.md says how"
        ));
    }
    // A little room, so that not each new name moves the ceiling.
    if one_word + 5 < ONE_WORD_TYPES {
        complaints.push(format!(
            "{one_word} type names are one word, well done; lower ONE_WORD_TYPES"
        ));
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
