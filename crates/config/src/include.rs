//! Reads the files that `include` names, and makes one tree of them and the file that names them.
//!
//! The texts are put one behind the other, so that a place is one number for all of them and [`SourceText`] finds its file. Limits, origins
//! and lists of all files are known together by their names, routes and listeners stand behind each other; every other table belongs to
//! one file. Included files include nothing.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use sluicegate_base::bounds::INCLUDED_FILES;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::environment::Environment;
use super::field::quoted;
use super::problem::SyntaxFault;
use super::report::{KeyPlace, ProblemReport};
use super::source::{SourceFile, SourceText};
use super::syntax;

/// Tables whose elements have names, which all files share.
const NAMED: [&str; 3] = ["limit", "origin", "list"];
/// Tables that may be written several times.
const REPEATED: [&str; 2] = ["route", "listener"];

/// The texts of a configuration, and where each begins.
#[derive(Debug)]
pub(super) struct IncludedTexts {
    text: String,
    parts: Vec<SourceFile>,
    /// The patterns of `include`, from the working directory on.
    pub(super) patterns: Vec<PathBuf>,
    mistakes: Vec<(KeyPlace, String, &'static str)>,
    /// Patterns that no file fits.
    unmet: Vec<(KeyPlace, String)>,
}

impl IncludedTexts {
    /// The text of `file`, and those that it includes.
    pub(super) fn gather(file: &str, text: &str, environment: &dyn Environment) -> Self {
        let mut texts = Self {
            text: String::new(),
            parts: Vec::new(),
            patterns: Vec::new(),
            mistakes: Vec::new(),
            unmet: Vec::new(),
        };
        texts.add(file, text);
        let (table, _) = DeTable::parse_recoverable(text);
        let named = table.get_ref().get("include");
        let patterns = named.and_then(|value| value.get_ref().as_array());
        let base = Path::new(file).parent().unwrap_or(Path::new(""));
        for (at, element) in patterns.into_iter().flatten().enumerate() {
            let Some(pattern) = element.get_ref().as_str() else {
                continue;
            };
            let place = KeyPlace {
                path: format!("include[{at}]"),
                span: Some(element.span()),
            };
            texts.include(&base.join(pattern), place, environment);
        }
        texts
    }

    fn add(&mut self, file: &str, text: &str) {
        self.parts.push(SourceFile {
            file: Arc::from(file),
            start: self.text.len(),
        });
        self.text.push_str(text);
        // The next file begins a line.
        if !text.ends_with('\n') {
            self.text.push('\n');
        }
    }

    fn include(&mut self, pattern: &Path, place: KeyPlace, environment: &dyn Environment) {
        let is_wild = |path: &Path| path.to_string_lossy().contains(['*', '?', '[']);
        if pattern.parent().is_some_and(is_wild) {
            let message = "a directory has no pattern".to_owned();
            let advice = "name each directory: include = [\"limits/*.toml\"]";
            return self.mistakes.push((place, message, advice));
        }
        let found = if is_wild(pattern) {
            environment.matching(pattern)
        } else {
            Ok(vec![pattern.to_owned()])
        };
        self.patterns.push(pattern.to_owned());
        let files = match found {
            Ok(files) => files,
            Err(error) => {
                let advice = "write a pattern such as \"limits/*.toml\"";
                return self.mistakes.push((place, error.to_string(), advice));
            }
        };
        if files.is_empty() {
            let shown = pattern.display().to_string();
            let message = format!("no file fits {}, so nothing is included", quoted(&shown));
            self.unmet.push((place.clone(), message));
        }
        for file in files {
            let shown = file.display().to_string();
            if self.parts.iter().any(|part| *part.file == *shown) {
                continue;
            }
            if self.parts.len() > INCLUDED_FILES {
                let message = format!("these are more than {INCLUDED_FILES} files");
                let advice = "write fewer, larger ones";
                return self.mistakes.push((place, message, advice));
            }
            match environment.read(&file) {
                Ok(text) => self.add(&shown, &text),
                Err(error) => self.mistakes.push((
                    place.clone(),
                    format!("{} cannot be read: {error}", quoted(&shown)),
                    "name a TOML file that the user who runs the gateway may read",
                )),
            }
        }
    }

    /// The files that are included.
    pub(super) fn included(&self) -> Vec<PathBuf> {
        let behind = self.parts.iter().skip(1);
        behind.map(|part| PathBuf::from(&*part.file)).collect()
    }

    /// All of them, to be asked about places.
    pub(super) fn source(&self) -> SourceText<'_> {
        SourceText::of_parts(self.parts.clone(), &self.text)
    }

    /// The tree of all of them, and what is no TOML; what contradicts itself is reported.
    pub(super) fn tree<'t>(
        &'t self,
        report: &ProblemReport<'_>,
    ) -> (DeTable<'t>, Vec<SyntaxFault>) {
        for (place, message, advice) in &self.mistakes {
            report.error(place, message.clone(), *advice);
        }
        for (place, message) in &self.unmet {
            let advice = "correct the pattern, which begins at the directory of this file, or put a file there";
            report.warning(place, message.clone(), advice);
        }
        let mut whole = DeTable::new();
        let mut faults = Vec::new();
        let ends = self.parts.iter().skip(1).map(|part| part.start);
        let ends = ends.chain([self.text.len()]);
        for (part, end) in self.parts.iter().zip(ends) {
            let text = &self.text[part.start..end];
            let (table, errors) = DeTable::parse_recoverable(text);
            let own = SourceText::new(&part.file, text);
            faults.extend(
                syntax::faults(&own, errors)
                    .into_iter()
                    .map(|fault| SyntaxFault {
                        span: fault.span.start + part.start..fault.span.end + part.start,
                        ..fault
                    }),
            );
            let table = moved_table(table.into_inner(), part.start);
            if part.start == 0 {
                whole = table;
            } else {
                merge(&mut whole, table, report);
            }
        }
        (whole, faults)
    }
}

/// Adds the tables of an included file.
fn merge<'t>(whole: &mut DeTable<'t>, file: DeTable<'t>, report: &ProblemReport<'_>) {
    for (key, value) in file {
        let name = key.get_ref().to_string();
        if name == "include" {
            report.error(
                &place(&name, &key),
                "an included file includes no others",
                "name the file in `include` of the file that the gateway is started with",
            );
            continue;
        }
        let earlier = line_of(whole, &name, report);
        let Some(known) = whole.get_mut(&*name) else {
            whole.insert(key, value);
            continue;
        };
        match (known.get_mut(), value.into_inner()) {
            (DeValue::Array(all), DeValue::Array(more)) if REPEATED.contains(&&*name) => {
                more.into_iter().for_each(|element| all.push(element));
            }
            (DeValue::Table(all), DeValue::Table(more)) if NAMED.contains(&&*name) => {
                for (key, value) in more {
                    let path = format!("{name}.{}", key.get_ref());
                    match line_of(all, key.get_ref(), report) {
                        None => drop(all.insert(key, value)),
                        Some(earlier) => twice(&place(&path, &key), &earlier, report),
                    }
                }
            }
            _ => twice(&place(&name, &key), &earlier.unwrap_or_default(), report),
        }
    }
}

fn twice(place: &KeyPlace, earlier: &str, report: &ProblemReport<'_>) {
    let message = format!("it stands in {earlier} already");
    report.error(place, message, "keep one of the two");
}

fn place(path: &str, key: &Spanned<toml::de::DeString<'_>>) -> KeyPlace {
    KeyPlace {
        path: path.to_owned(),
        span: Some(key.span()),
    }
}

/// Where a key of a table stands: `limits/otp.toml, line 3`.
fn line_of(table: &DeTable<'_>, key: &str, report: &ProblemReport<'_>) -> Option<String> {
    let (key, _) = table.get_key_value(key)?;
    let start = key.span().start;
    let source = &report.source;
    Some(format!(
        "{}, line {}",
        source.file(start),
        source.line(start)
    ))
}

/// The same table, whose text begins `by` bytes later.
fn moved_table(table: DeTable<'_>, by: usize) -> DeTable<'_> {
    if by == 0 {
        return table;
    }
    let entries = table.into_iter().map(|(key, value)| {
        let span = key.span().start + by..key.span().end + by;
        (Spanned::new(span, key.into_inner()), moved(value, by))
    });
    entries.collect()
}

fn moved(value: Spanned<DeValue<'_>>, by: usize) -> Spanned<DeValue<'_>> {
    let span = value.span().start + by..value.span().end + by;
    let value = match value.into_inner() {
        DeValue::Table(table) => DeValue::Table(moved_table(table, by)),
        DeValue::Array(elements) => DeValue::Array(
            elements
                .into_iter()
                .map(|element| moved(element, by))
                .collect(),
        ),
        plain => plain,
    };
    Spanned::new(span, value)
}
