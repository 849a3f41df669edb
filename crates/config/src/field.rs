//! Reads one value: says what it should be, what was got, and what to write instead.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeInteger, DeValue};

use super::form::ValueConstraint;
use super::problem::ParseError;
use super::report::{KeyPlace, PlacedValue, ProblemReport};
use super::section::{TableSection, step};
use super::suggest;
use super::units::{self, ShownDuration, ShownSize};

/// Characters of a value that a message repeats.
const SHOWN: usize = 60;

/// One value while it is read.
pub(super) struct KeyField<'d> {
    pub(super) report: &'d ProblemReport<'d>,
    /// `limit.otp.rates`
    pub(super) place: KeyPlace,
    /// `limit.NAME.rates`
    pub(super) generic: String,
    pub(super) key: &'static str,
    /// A right value, as TOML.
    pub(super) example: &'static str,
    pub(super) value: &'d DeValue<'d>,
}

impl<'d> KeyField<'d> {
    /// Reports that this value cannot be used.
    pub(super) fn refuse<T>(
        &self,
        message: impl Into<String>,
        advice: impl Into<String>,
    ) -> Option<T> {
        self.report.error(&self.place, message, advice);
        None
    }

    /// Reports what the configuration works with, but is hardly intended.
    pub(super) fn warn(&self, message: impl Into<String>, advice: impl Into<String>) {
        self.report.warning(&self.place, message, advice);
    }

    /// Reports a mistake that a pure parser found.
    pub(super) fn mistaken<T>(&self, mistake: ParseError) -> Option<T> {
        let advice = mistake.advice.unwrap_or_else(|| self.advice());
        self.refuse(mistake.message, advice)
    }

    /// Returns the advice where nothing better is known.
    pub(super) fn advice(&self) -> String {
        format!("write {} = {}", self.key, self.example)
    }

    /// The value of an entry `name` of this table, whose names the operator chooses.
    pub(super) fn entry(&self, name: &str, value: &'d Spanned<DeValue<'d>>) -> Self {
        Self {
            report: self.report,
            place: self.place.inside(&step(name), Some(value.span())),
            generic: format!("{}.NAME", self.generic),
            key: self.key,
            example: self.example,
            value: value.get_ref(),
        }
    }

    /// The value with its place.
    pub(super) fn placed<T>(&self, value: T) -> PlacedValue<T> {
        PlacedValue {
            value,
            place: self.place.clone(),
        }
    }

    /// A string.
    pub(super) fn text(&self) -> Option<&'d str> {
        match self.value {
            DeValue::String(text) => Some(text),
            _ => self.unexpected("a string"),
        }
    }

    /// A string, if it is one; for a second look at what was reported at the first.
    pub(super) fn written_text(&self) -> Option<&'d str> {
        match self.value {
            DeValue::String(text) => Some(text),
            _ => None,
        }
    }

    /// The path that a string means: relative ones begin at the directory of the configuration.
    pub(super) fn path(&self) -> Option<PathBuf> {
        Some(self.report.path(self.text()?))
    }

    /// Reads a string by `parse`.
    pub(super) fn parsed<T>(
        &self,
        parse: impl FnOnce(&'d str) -> Result<T, ParseError>,
    ) -> Option<T> {
        match parse(self.text()?) {
            Ok(value) => Some(value),
            Err(mistake) => self.mistaken(mistake),
        }
    }

    /// `true` or `false`.
    pub(super) fn boolean(&self) -> Option<bool> {
        match self.value {
            DeValue::Boolean(value) => Some(*value),
            _ => self.unexpected("true or false"),
        }
    }

    /// Notes how this value is written, for who describes the configuration.
    pub(super) fn note(&self, form: impl FnOnce() -> ValueConstraint) {
        self.report.note(&self.generic, form);
    }

    /// One of a few words; `wrong` says what is wrong with another.
    pub(super) fn choice<T: Clone>(
        &self,
        words: &[(&'static str, T)],
        wrong: impl FnOnce(&'d str) -> ParseError,
    ) -> Option<T> {
        self.note(|| ValueConstraint::Words(words.iter().map(|(word, _)| *word).collect()));
        self.parsed(|text| {
            let known = words.iter().find(|(word, _)| *word == text);
            known
                .map(|(_, value)| value.clone())
                .ok_or_else(|| wrong(text))
        })
    }

    /// Reads one of several words like [`Self::choice`], with advice made of the words; `wrong` gets the other one in quotes.
    pub(super) fn word<T: Clone>(
        &self,
        words: &[(&'static str, T)],
        wrong: impl FnOnce(&str) -> String,
    ) -> Option<T> {
        self.choice(words, |text| {
            let known = || words.iter().map(|(word, _)| *word);
            let advice = match suggest::nearest(text, known()) {
                Some(meant) => format!("did you mean \"{meant}\"?"),
                None => format!("write one of {}", known().collect::<Vec<_>>().join(", ")),
            };
            ParseError::with_advice(wrong(&quoted(text)), advice)
        })
    }

    /// A whole number.
    pub(super) fn integer(&self, range: RangeInclusive<u64>) -> Option<u64> {
        self.note(|| ValueConstraint::Whole(range.clone()));
        match self.value {
            DeValue::Integer(integer) => self.integer_in_range(integer, range, |n| n),
            _ => self.unexpected("a whole number"),
        }
    }

    /// A duration: `"1h30m"`.
    pub(super) fn duration(&self, range: RangeInclusive<Duration>) -> Option<Duration> {
        self.note(|| ValueConstraint::Duration);
        match self.value {
            DeValue::Integer(integer) => {
                let got = describe(self.value);
                let seconds = bare(&integer.to_string());
                let instead = format!("give its unit: {} = \"{seconds}s\"", self.key);
                self.refuse(format!("expected a duration, got {got}"), instead)
            }
            DeValue::String(text) => {
                let duration = self.parsed(units::duration)?;
                self.in_range(duration, range, quoted(text), |d| ShownDuration(*d))
            }
            _ => self.unexpected("a duration"),
        }
    }

    /// A number of bytes: `"100MiB"`, or an integer.
    pub(super) fn size(&self, range: RangeInclusive<u64>) -> Option<u64> {
        self.note(|| ValueConstraint::Whole(range.clone()));
        self.note(|| ValueConstraint::Size);
        match self.value {
            DeValue::Integer(integer) => self.integer_in_range(integer, range, ShownSize),
            DeValue::String(text) => {
                let size = self.parsed(units::size)?;
                self.in_range(size, range, quoted(text), |n| ShownSize(*n))
            }
            _ => self.unexpected("a size"),
        }
    }

    /// The elements of a list, at least one.
    pub(super) fn list(&self) -> Option<Vec<KeyField<'d>>> {
        match self.value {
            DeValue::Array(elements) if elements.is_empty() => {
                self.refuse("the list is empty", self.advice())
            }
            _ => self.elements(),
        }
    }

    /// The elements of a list, or none.
    pub(super) fn elements(&self) -> Option<Vec<KeyField<'d>>> {
        let elements = match self.value {
            DeValue::Array(elements) => elements,
            DeValue::String(text) => {
                let message = format!("expected a list, got {}", describe(self.value));
                return self.refuse(message, format!("write {} = [{}]", self.key, quoted(text)));
            }
            _ => return self.unexpected("a list"),
        };
        let element = |(index, element): (usize, &'d toml::Spanned<DeValue<'d>>)| KeyField {
            report: self.report,
            place: self
                .place
                .inside(&format!("[{index}]"), Some(element.span())),
            generic: format!("{}[]", self.generic),
            key: self.key,
            example: self.example,
            value: element.get_ref(),
        };
        Some(elements.iter().enumerate().map(element).collect())
    }

    /// A table.
    pub(super) fn section(&self) -> Option<TableSection<'d>> {
        match self.value {
            DeValue::Table(table) => Some(TableSection::new(
                self.report,
                self.place.clone(),
                self.generic.clone(),
                Some(table),
            )),
            _ => self.unexpected("a table"),
        }
    }

    /// Reports a value of another type.
    pub(super) fn unexpected<T>(&self, expected: &str) -> Option<T> {
        let got = describe(self.value);
        self.refuse(format!("expected {expected}, got {got}"), self.advice())
    }

    fn in_range<T: PartialOrd, S: Display>(
        &self,
        value: T,
        range: RangeInclusive<T>,
        got: impl Display,
        show: impl Fn(&T) -> S,
    ) -> Option<T> {
        let advice = if value < *range.start() {
            format!("the least is {}", show(range.start()))
        } else if value > *range.end() {
            format!("the most is {}", show(range.end()))
        } else {
            return Some(value);
        };
        self.refuse(format!("{got} is out of range"), advice)
    }

    /// An integer of TOML, which may be negative or longer than 64 bits.
    fn integer_in_range<S: Display>(
        &self,
        integer: &DeInteger<'_>,
        range: RangeInclusive<u64>,
        show: impl Fn(u64) -> S,
    ) -> Option<u64> {
        let text = integer.as_str();
        let radix = integer.radix();
        let got = bare(&integer.to_string());
        let digits = text.trim_start_matches(['+', '-']);
        if !digits.chars().all(|digit| digit.is_digit(radix)) {
            // The parser of TOML leaves the digits to who reads them.
            return self.refuse(format!("{got} is not a whole number"), self.advice());
        }
        let beyond = if text.starts_with('-') {
            i128::MIN
        } else {
            i128::MAX
        };
        let value = i128::from_str_radix(text, radix).unwrap_or(beyond);
        let range = i128::from(*range.start())..=i128::from(*range.end());
        let narrow = |value: i128| u64::try_from(value).ok();
        let value = self.in_range(value, range, got, |bound| {
            show(narrow(*bound).unwrap_or_default())
        })?;
        narrow(value)
    }
}

/// Every element of a list read; `None` if one was wrong, after all of them were looked at.
pub(super) fn all<T>(values: impl IntoIterator<Item = Option<T>>) -> Option<Vec<T>> {
    let values: Vec<Option<T>> = values.into_iter().collect();
    values.into_iter().collect()
}

/// The path of the file that a field names, and the text there; `advice` says what to put there. Offline it is not read.
pub(super) fn text_of(field: &KeyField<'_>, advice: &str) -> Option<(PathBuf, String)> {
    let path = field.path()?;
    if field.report.environment.is_offline() {
        return None;
    }
    match field.report.read_file(&path) {
        Ok(text) => Some((path, text)),
        Err(error) => {
            let shown = quoted(&path.display().to_string());
            field.refuse(format!("{shown} cannot be read: {error}"), advice)
        }
    }
}

/// The advice for a broken file that the rest of the configuration works without.
pub(super) const BROKEN_FILE: &str = "correct the file; until then its content in force stays";

/// Reads a file like [`text_of`] that the rest of the configuration works without: why it cannot be read is a warning.
pub(super) fn text_or_warning(field: &KeyField<'_>) -> Option<(PathBuf, Option<String>)> {
    let path = field.path()?;
    let text = match field.report.read_file(&path) {
        Ok(text) => Some(text),
        Err(error) => {
            let shown = quoted(&path.display().to_string());
            field.warn(format!("{shown} cannot be read: {error}"), BROKEN_FILE);
            None
        }
    };
    Some((path, text))
}

/// A value as a message names it.
pub(super) fn describe(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("the string {}", quoted(text)),
        DeValue::Integer(integer) => format!("the integer {}", bare(&integer.to_string())),
        DeValue::Float(float) => format!("the float {}", bare(float.as_str())),
        DeValue::Boolean(value) => value.to_string(),
        DeValue::Datetime(_) => "a date or time".to_owned(),
        DeValue::Array(_) => "a list".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    }
}

/// A text in quotes, without control characters, and shortened.
pub(super) fn quoted(text: &str) -> String {
    format!("{:?}", shortened(text))
}

/// A text without quotes, else as in [`quoted`].
fn bare(text: &str) -> String {
    shortened(text).escape_debug().to_string()
}

/// A text of which a message repeats the first characters.
pub(super) fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}
