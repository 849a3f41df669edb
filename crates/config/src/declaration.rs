//! Describes tables that are declared by their types: the text of each key in the reference and in the schema, and how its value is read.
//!
//! `#[derive(Table)]` makes the reader and the [`TableDeclaration`] of a type; [`super::declared_tables`] lists those types.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;

use super::field::{KeyField, all, quoted, text_of};
use super::form::{ValueConstraint, ValueKind};
use super::problem::ParseError;
use super::section::TableSection;

/// A table with its keys.
pub(super) struct TableDeclaration {
    /// `origin.NAME.retry`
    pub(super) path: &'static str,
    /// Its text in the reference; empty where the reference has none.
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

/// A schema's knowledge of a value. Forms that are not declared are those that the readers of values note.
#[derive(Default)]
pub(super) struct ValueForm {
    pub(super) kinds: Vec<ValueKind>,
    pub(super) forms: Vec<ValueConstraint>,
    /// The kinds of the elements, where it is a list.
    pub(super) items: Vec<ValueKind>,
    pub(super) item_forms: Vec<ValueConstraint>,
}

impl ValueForm {
    /// A value of one of these types.
    pub(super) fn new(kinds: &[ValueKind]) -> Self {
        Self {
            kinds: kinds.to_vec(),
            ..Self::default()
        }
    }

    /// A table.
    pub(super) fn table() -> Self {
        Self::new(&[ValueKind::Object])
    }

    /// Adds a form.
    fn with(mut self, form: ValueConstraint) -> Self {
        self.forms.push(form);
        self
    }
}

/// The type of strings, for readers.
pub(super) const TEXT: &[ValueKind] = &[ValueKind::String];
/// The type of whole numbers, for readers.
pub(super) const NUMBER: &[ValueKind] = &[ValueKind::Integer];

/// The types of numbers that may be written with letters before them, for readers.
pub(super) const NUMBER_OR_TEXT: &[ValueKind] = &[ValueKind::Integer, ValueKind::String];

/// The type of tables with keys of the operator's own, for readers.
pub(super) const TABLE: &[ValueKind] = &[ValueKind::Object];

/// Reads the value of a key, and describes how it is written.
pub(super) trait KeyReader<T> {
    /// The value; `None` where it is wrong, which was reported then.
    fn read(&self, field: &KeyField<'_>) -> Option<T>;

    /// The form of the value.
    fn form(&self) -> ValueForm;
}

/// A whole number in a range.
pub(super) struct IntegerIn(pub(super) RangeInclusive<u64>);

impl<T: TryFrom<u64>> KeyReader<T> for IntegerIn {
    fn read(&self, field: &KeyField<'_>) -> Option<T> {
        let number = field.integer(self.0.clone())?;
        T::try_from(number).ok()
    }

    fn form(&self) -> ValueForm {
        ValueForm::new(&[ValueKind::Integer]).with(ValueConstraint::Whole(self.0.clone()))
    }
}

/// A number of bytes in a range, as an integer or with a unit.
pub(super) struct SizeIn(pub(super) RangeInclusive<u64>);

impl<T: TryFrom<u64>> KeyReader<T> for SizeIn {
    fn read(&self, field: &KeyField<'_>) -> Option<T> {
        let size = field.size(self.0.clone())?;
        T::try_from(size).ok()
    }

    fn form(&self) -> ValueForm {
        ValueForm::new(&[ValueKind::String, ValueKind::Integer])
            .with(ValueConstraint::Whole(self.0.clone()))
            .with(ValueConstraint::Size)
    }
}

/// A status of HTTP in a range.
pub(super) struct StatusIn(pub(super) RangeInclusive<u64>);

/// The status at which nginx closes the connection; HTTP does not have it.
const NGINX_CLOSES: u64 = 444;

impl KeyReader<StatusCode> for StatusIn {
    fn read(&self, field: &KeyField<'_>) -> Option<StatusCode> {
        let status = field.integer(self.0.clone())?;
        if status == NGINX_CLOSES {
            field.warn(
                "clients get 444 as it is: only nginx takes it for an order to close the connection without an answer",
                "write 403, or 429 where a rate is exceeded",
            );
        }
        StatusCode::from_u16(u16::try_from(status).ok()?).ok()
    }

    fn form(&self) -> ValueForm {
        ValueForm::new(NUMBER).with(ValueConstraint::Whole(self.0.clone()))
    }
}

/// A duration in a range.
pub(super) struct DurationIn(pub(super) RangeInclusive<Duration>);

impl KeyReader<Duration> for DurationIn {
    fn read(&self, field: &KeyField<'_>) -> Option<Duration> {
        field.duration(self.0.clone())
    }

    fn form(&self) -> ValueForm {
        ValueForm::new(&[ValueKind::String]).with(ValueConstraint::Duration)
    }
}

/// `false` or `true`, and the value that each means.
pub(super) struct Flag<T>(pub(super) T, pub(super) T);

impl<T: Clone> KeyReader<T> for Flag<T> {
    fn read(&self, field: &KeyField<'_>) -> Option<T> {
        let is_set = field.boolean()?;
        Some(if is_set { &self.1 } else { &self.0 }.clone())
    }

    fn form(&self) -> ValueForm {
        ValueForm::new(&[ValueKind::Boolean])
    }
}

/// One of a few words; the text says what is wrong with another one, which stands in it for `{}`.
pub(super) struct WordOf<T: 'static>(
    pub(super) &'static [(&'static str, T)],
    pub(super) &'static str,
);

impl<T: Clone> KeyReader<T> for WordOf<T> {
    fn read(&self, field: &KeyField<'_>) -> Option<T> {
        field.word(self.0, |got| self.1.replace("{}", got))
    }

    fn form(&self) -> ValueForm {
        words(self.0)
    }
}

/// One of a few words, as [`WordOf`], with advice of its own.
pub(super) struct ChoiceOf<T: 'static>(
    pub(super) &'static [(&'static str, T)],
    pub(super) &'static str,
    pub(super) &'static str,
);

impl<T: Clone> KeyReader<T> for ChoiceOf<T> {
    fn read(&self, field: &KeyField<'_>) -> Option<T> {
        let wrong = |got: &str| self.1.replace("{}", &quoted(got));
        field.choice(self.0, |got| ParseError::with_advice(wrong(got), self.2))
    }

    fn form(&self) -> ValueForm {
        words(self.0)
    }
}

fn words<T>(words: &[(&'static str, T)]) -> ValueForm {
    let words = words.iter().map(|(word, _)| *word);
    ValueForm::new(&[ValueKind::String]).with(ValueConstraint::Words(words.collect()))
}

/// A string that a pure function parses.
pub(super) struct ParsedText<T>(pub(super) fn(&str) -> Result<T, ParseError>);

impl<T> KeyReader<T> for ParsedText<T> {
    fn read(&self, field: &KeyField<'_>) -> Option<T> {
        field.parsed(self.0)
    }

    fn form(&self) -> ValueForm {
        ValueForm::new(&[ValueKind::String])
    }
}

/// A list of at least one element, each of which a function reads: a string, or a whole number in a range.
pub(super) struct ListOf<T>(
    pub(super) fn(&KeyField<'_>) -> Option<T>,
    pub(super) RangeInclusive<u64>,
);

impl<T> KeyReader<Vec<T>> for ListOf<T> {
    fn read(&self, field: &KeyField<'_>) -> Option<Vec<T>> {
        all(field.list()?.iter().map(self.0))
    }

    fn form(&self) -> ValueForm {
        ValueForm {
            kinds: vec![ValueKind::Array],
            items: vec![ValueKind::String, ValueKind::Integer],
            item_forms: vec![ValueConstraint::Whole(self.1.clone())],
            ..ValueForm::default()
        }
    }
}

/// The text of a file; the advice says what to put there. Offline it is not read.
pub(super) struct TextFile(pub(super) &'static str);

/// A file of certificates or keys.
pub(super) const PEM_FILE: TextFile =
    TextFile("put it there as PEM, readable for the user that runs the gateway");

impl KeyReader<Arc<str>> for TextFile {
    fn read(&self, field: &KeyField<'_>) -> Option<Arc<str>> {
        text_of(field, self.0).map(|(_, text)| text.into())
    }

    fn form(&self) -> ValueForm {
        ValueForm::new(&[ValueKind::String])
    }
}

/// A list that a function reads, with elements of certain types.
pub(super) struct ListBy<T>(
    pub(super) fn(&KeyField<'_>) -> Option<T>,
    pub(super) &'static [ValueKind],
);

impl<T> KeyReader<T> for ListBy<T> {
    fn read(&self, field: &KeyField<'_>) -> Option<T> {
        (self.0)(field)
    }

    fn form(&self) -> ValueForm {
        ValueForm {
            items: self.1.to_vec(),
            ..ValueForm::new(&[ValueKind::Array])
        }
    }
}

/// A value of certain types that a function reads.
pub(super) struct ReadBy<T>(
    pub(super) fn(&KeyField<'_>) -> Option<T>,
    pub(super) &'static [ValueKind],
);

impl<T> KeyReader<T> for ReadBy<T> {
    fn read(&self, field: &KeyField<'_>) -> Option<T> {
        (self.0)(field)
    }

    fn form(&self) -> ValueForm {
        ValueForm::new(self.1)
    }
}

/// A table, by the function that reads it.
pub(super) struct TableOf<T>(pub(super) fn(TableSection<'_>) -> Option<T>);

impl<T> KeyReader<T> for TableOf<T> {
    fn read(&self, field: &KeyField<'_>) -> Option<T> {
        (self.0)(field.section()?)
    }

    fn form(&self) -> ValueForm {
        ValueForm::table()
    }
}

impl<T> KeyReader<Arc<T>> for TableOf<T> {
    fn read(&self, field: &KeyField<'_>) -> Option<Arc<T>> {
        (self.0)(field.section()?).map(Arc::new)
    }

    fn form(&self) -> ValueForm {
        ValueForm::table()
    }
}
