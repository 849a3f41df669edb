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
                    // An expression may be another comparison with a text.
                    let terms: Vec<PathTerm> =
                        values.iter().map(|it| PathTerm::searched(it)).collect();
                    let texts = terms.iter().flat_map(|it| texts(Some(it)));
                    found.extend(texts.map(str::to_ascii_lowercase));
                }
            }
        }
        Self(found)
    }

    /// Returns the treatment of case by the conditions on a path.
    ///
    /// # Errors
    ///
    /// The conditions treat it differently.
    pub(super) fn case(&self, path: Option<&PathTerm>) -> Result<PathCase, String> {
        let is_folded = |text: &str| self.0.contains(&text.to_ascii_lowercase());
        let mut cases = texts(path).into_iter().map(is_folded);
        let first = cases.next().unwrap_or(true);
        if let Some(path) = path
            && cases.any(|it| it != first)
        {
            let text = path.text();
            return Err(format!(
                "one part of `{text}` regards letter case, one does not"
            ));
        }
        Ok(match first {
            true => PathCase::Ignored,
            false => PathCase::Kept,
        })
    }
}

/// Returns the texts that a path is compared with.
fn texts(path: Option<&PathTerm>) -> Vec<&str> {
    match path {
        None => Vec::new(),
        Some(PathTerm::Every(parts)) => parts.iter().flat_map(|it| texts(Some(it))).collect(),
        Some(PathTerm::Between(begin, end)) => vec![begin, end],
        Some(
            PathTerm::Exact(text)
            | PathTerm::Beginning(text)
            | PathTerm::Ending(text)
            | PathTerm::Containing(text)
            | PathTerm::Segments(text)
            | PathTerm::Expression(text),
        ) => vec![text],
    }
}

fn is_path(word: &str) -> bool {
    let name = with_converters(word).0;
    name == "path" || name.starts_with("path_")
}
