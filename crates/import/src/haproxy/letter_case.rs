//! Finds the paths that conditions compare without regard to case.

use std::collections::BTreeSet;

use sluicegate_base::path::PathCase;

use super::samples::with_converters;
use super::sections::ConfigSection;
use crate::cells::PathTerm;

/// The values of `-i` and of `path,lower`, in lower case.
#[derive(Default)]
pub(super) struct FoldedPaths(BTreeSet<String>);

impl FoldedPaths {
    pub(super) fn read(sections: &[ConfigSection]) -> Self {
        let mut found = BTreeSet::new();
        for line in sections.iter().flat_map(|section| &section.lines) {
            let conditions = line.words.split(|word| matches!(word.as_str(), "{" | "}"));
            for words in conditions {
                let Some(at) = words.iter().position(|word| is_path(word)) else {
                    continue;
                };
                let is_lower = with_converters(&words[at]).1 == "lower";
                let values = &words[at + 1..];
                if is_lower || values.iter().any(|it| it == "-i") {
                    found.extend(values.iter().map(|it| it.to_ascii_lowercase()));
                }
            }
        }
        Self(found)
    }

    /// Returns the treatment of case by the conditions on a path.
    pub(super) fn case(&self, path: Option<&PathTerm>) -> PathCase {
        let texts = match path {
            None => return PathCase::Ignored,
            Some(PathTerm::Between(begin, end)) => [begin.as_str(), end.as_str()],
            Some(
                PathTerm::Exact(text)
                | PathTerm::Beginning(text)
                | PathTerm::Ending(text)
                | PathTerm::Containing(text)
                | PathTerm::Segments(text)
                | PathTerm::Expression(text),
            ) => [text.as_str(); 2],
        };
        let is_folded = |text: &str| self.0.contains(&text.to_ascii_lowercase());
        match texts.into_iter().all(is_folded) {
            true => PathCase::Ignored,
            false => PathCase::Kept,
        }
    }
}

fn is_path(word: &str) -> bool {
    let name = with_converters(word).0;
    name == "path" || name.starts_with("path_")
}
