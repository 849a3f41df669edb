//! Describes tables that are declared by their types: the text of each key in the reference and in the schema, and how its value is read.
//!
//! `#[derive(Table)]` makes the reader and the [`TableDeclaration`] of a type; [`declared_tables`] lists those types. The JSON Schema takes
//! what they say instead of asking the parser, and [`with_declarations`] writes them into conf/reference.toml, which a test compares.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::field::{Field, all};
use super::form::{Form, ValueKind};
use super::problem::Mistake;
use super::rules::{
    CircuitBreakerRules, HealthRules, OriginTimeouts, OutlierDetectionRules, RetryRules,
    StickyRules,
};

/// A table with its keys.
pub(super) struct TableDeclaration {
    /// `origin.NAME.retry`
    pub(super) path: &'static str,
    pub(super) comment: &'static str,
    pub(super) keys: Vec<KeyDeclaration>,
}

/// One key of a table.
pub(super) struct KeyDeclaration {
    pub(super) name: &'static str,
    pub(super) comment: &'static str,
    /// Its value in the reference, as TOML.
    pub(super) shown: &'static str,
    pub(super) form: ValueForm,
}

/// What a schema says of a value.
#[derive(Default)]
pub(super) struct ValueForm {
    pub(super) kinds: Vec<ValueKind>,
    pub(super) forms: Vec<Form>,
    /// The kinds of the elements, where it is a list.
    pub(super) items: Vec<ValueKind>,
    pub(super) item_forms: Vec<Form>,
}

/// Reads the value of a key, and says how it is written.
pub(super) trait KeyReader<T> {
    /// The value; `None` where it is wrong, which was reported then.
    fn read(&self, field: &Field<'_>) -> Option<T>;

    /// How it is written.
    fn form(&self) -> ValueForm;
}

/// A whole number in a range.
pub(super) struct IntegerIn(pub(super) RangeInclusive<u64>);

impl<T: TryFrom<u64>> KeyReader<T> for IntegerIn {
    fn read(&self, field: &Field<'_>) -> Option<T> {
        let number = field.integer(self.0.clone())?;
        T::try_from(number).ok()
    }

    fn form(&self) -> ValueForm {
        ValueForm {
            kinds: vec![ValueKind::Integer],
            forms: vec![Form::Whole(self.0.clone())],
            ..ValueForm::default()
        }
    }
}

/// A duration in a range.
pub(super) struct DurationIn(pub(super) RangeInclusive<Duration>);

impl KeyReader<Duration> for DurationIn {
    fn read(&self, field: &Field<'_>) -> Option<Duration> {
        field.duration(self.0.clone())
    }

    fn form(&self) -> ValueForm {
        ValueForm {
            kinds: vec![ValueKind::String],
            forms: vec![Form::Duration],
            ..ValueForm::default()
        }
    }
}

/// A string that a pure function parses.
pub(super) struct ParsedText<T>(pub(super) fn(&str) -> Result<T, Mistake>);

impl<T> KeyReader<T> for ParsedText<T> {
    fn read(&self, field: &Field<'_>) -> Option<T> {
        field.parsed(self.0)
    }

    fn form(&self) -> ValueForm {
        ValueForm {
            kinds: vec![ValueKind::String],
            ..ValueForm::default()
        }
    }
}

/// A list of at least one element, each of which a function reads: a string, or a whole number in a range.
pub(super) struct ListOf<T>(
    pub(super) fn(&Field<'_>) -> Option<T>,
    pub(super) RangeInclusive<u64>,
);

impl<T> KeyReader<Vec<T>> for ListOf<T> {
    fn read(&self, field: &Field<'_>) -> Option<Vec<T>> {
        all(field.list()?.iter().map(self.0))
    }

    fn form(&self) -> ValueForm {
        ValueForm {
            kinds: vec![ValueKind::Array],
            items: vec![ValueKind::String, ValueKind::Integer],
            item_forms: vec![Form::Whole(self.1.clone())],
            ..ValueForm::default()
        }
    }
}

/// Every table that its type declares.
pub(super) fn declared_tables() -> Vec<TableDeclaration> {
    vec![
        OriginTimeouts::declaration(),
        HealthRules::declaration(),
        OutlierDetectionRules::declaration(),
        RetryRules::declaration(),
        CircuitBreakerRules::declaration(),
        StickyRules::declaration(),
    ]
}

/// The reference, with the declared tables as their types declare them.
#[must_use]
pub fn with_declarations(reference: &str) -> String {
    let mut paragraphs: Vec<String> = reference.split("\n\n").map(str::to_owned).collect();
    for table in declared_tables() {
        let header = format!("[{}]", table.path.replace("NAME", "app"));
        let is_header = |line: &str| line.trim_start_matches('#') == header;
        for paragraph in &mut paragraphs {
            if let Some(line) = paragraph.lines().find(|line| is_header(line)) {
                let mark = if line.starts_with('#') { "#" } else { "" };
                *paragraph = table.text(&header, mark);
            }
        }
    }
    paragraphs.join("\n\n")
}

impl TableDeclaration {
    /// Its paragraph in the reference; `mark` stands before what is commented out there.
    fn text(&self, header: &str, mark: &str) -> String {
        let mut lines = commented(self.comment);
        lines.push(format!("{mark}{header}"));
        for key in &self.keys {
            lines.append(&mut commented(key.comment));
            lines.push(format!("{mark}{} = {}", key.name, key.shown));
        }
        lines.join("\n")
    }
}

fn commented(text: &str) -> Vec<String> {
    text.lines().map(|line| format!("# {line}")).collect()
}
