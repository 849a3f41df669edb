//! Imports a case of a hostile configuration, and holds what every import promises.
//!
//! The fuzz target `import` and the property test beside it run the same check.

use sluicegate_import::{Format, IncludedFile, IncludedFiles, import};

/// A line between the input of a case and each file that it may include.
pub(crate) const SEPARATOR: &str = "\n----\n";

/// The files that an input may include: `2` is the second, and `*` is all of them.
struct Included<'a>(Vec<&'a str>);

impl IncludedFiles for Included<'_> {
    fn read(&self, pattern: &str) -> Result<Vec<IncludedFile>, String> {
        let is_meant = |at: usize| pattern == "*" || pattern.parse() == Ok(at + 1);
        let files = self.0.iter().enumerate();
        let files: Vec<IncludedFile> = files
            .filter(|(at, _)| is_meant(*at))
            .map(|(at, text)| IncludedFile {
                name: (at + 1).to_string(),
                text: (*text).to_owned(),
            })
            .collect();
        if files.is_empty() {
            return Err(format!("{pattern} does not exist"));
        }
        Ok(files)
    }
}

/// Checks a case: a letter for the format, the input, and the files that it may include.
pub(crate) fn check(case: &str) {
    let mut letters = case.chars();
    let format = match letters.next() {
        Some('n') => Format::Nginx,
        Some('h') => Format::Haproxy,
        Some('i') => Format::Ingress,
        Some('c') => Format::Caddy,
        Some('t') => Format::Traefik,
        _ => return,
    };
    let mut texts = letters.as_str().split(SEPARATOR);
    let input = texts.next().unwrap_or_default();
    let files = Included(texts.collect());
    let imported = match import(format, "case", input, &files) {
        Ok(imported) => imported,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    // A text that ended a comment or a string would be a rule of somebody else's.
    let parsed = toml::from_str::<toml::Table>(&imported.toml);
    assert!(parsed.is_ok(), "{}\n{}", parsed.unwrap_err(), imported.toml);
    let ledger = &imported.ledger;
    for (entry, reason) in ledger.omissions() {
        assert!(!reason.is_empty(), "{entry:?}");
        let place = format!("# {}:", entry.position);
        assert!(imported.toml.contains(&place), "{place}\n{}", imported.toml);
    }
    let again = import(format, "case", input, &files);
    assert_eq!(again.ok().map(|again| again.toml), Some(imported.toml));
}
