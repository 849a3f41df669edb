//! Makes names that a configuration can have: 1 to 64 of `a-z A-Z 0-9 _ - .`, each once.

use std::collections::{BTreeMap, BTreeSet};

/// Longest name.
const LONGEST: usize = 64;

/// The names that are taken.
#[derive(Debug, Default)]
pub(crate) struct NamePool {
    taken: BTreeSet<String>,
    /// The last number behind each name that was wanted more than once.
    numbers: BTreeMap<String, u32>,
}

impl NamePool {
    /// Returns a name that no earlier call returned, as close to `wanted` as possible.
    pub(crate) fn unique(&mut self, wanted: &str) -> String {
        let base = plain(wanted);
        let mut name = base.clone();
        let number = self.numbers.entry(base.clone()).or_insert(1);
        while !self.taken.insert(name.clone()) {
            *number += 1;
            let ending = format!("-{number}");
            let kept = base.len().min(LONGEST - ending.len());
            name = format!("{}{ending}", &base[..kept]);
        }
        name
    }
}

/// Returns a text with only the characters of names.
pub(crate) fn plain(wanted: &str) -> String {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let name: String = wanted
        .chars()
        .map(|c| if allowed(c) { c } else { '-' })
        .take(LONGEST)
        .collect();
    let name = name.trim_matches('-');
    if name.is_empty() {
        "unnamed".to_owned()
    } else {
        name.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: names are valid and differ. Method: equal, empty, long and foreign texts.
    #[test]
    fn names_are_valid_and_differ() {
        let mut names = NamePool::default();
        assert_eq!(names.unique("one"), "one");
        assert_eq!(names.unique("one"), "one-2");
        assert_eq!(names.unique("a b/ü"), "a-b");
        assert_eq!(names.unique(""), "unnamed");
        let long = "x".repeat(100);
        assert_eq!(names.unique(&long).len(), 64);
        assert_eq!(names.unique(&long).len(), 64);
    }
}
