//! Reads one table: hands out its keys one by one, and in the end names those that nobody asked for.
//!
//! serde's derive stops at the first thing that is wrong. A section goes on: a reader returns `None` after it has reported, and
//! only the rules that need the value are lost. A section that is not written reads like an empty one, so that every key
//! is asked for, and thereby known, whatever the file contains.

use std::cell::RefCell;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::field::{KeyField, describe, quoted};
use super::problem::ParseError;
use super::report::{KeyPlace, ProblemReport};
use super::rules::Name;
use super::suggest;
use super::written_tables::{NOT_KNOWN, UnknownKey};

/// One table while it is read.
pub(super) struct TableSection<'d> {
    pub(super) report: &'d ProblemReport<'d>,
    /// `limit.otp`, and the table's header.
    pub(super) place: KeyPlace,
    /// `limit.NAME`
    generic: String,
    table: Option<&'d DeTable<'d>>,
    asked: RefCell<Vec<&'static str>>,
    /// Required keys that are not written, with an example.
    missing: RefCell<Vec<(&'static str, &'static str)>>,
}

impl<'d> TableSection<'d> {
    /// The whole file.
    pub(super) fn root(report: &'d ProblemReport<'d>, table: &'d DeTable<'d>) -> Self {
        Self::new(report, KeyPlace::file(), String::new(), Some(table))
    }

    pub(super) fn new(
        report: &'d ProblemReport<'d>,
        place: KeyPlace,
        generic: String,
        table: Option<&'d DeTable<'d>>,
    ) -> Self {
        if let Some(table) = table {
            report.note_table(&place, &generic, table);
        }
        Self {
            report,
            place,
            generic,
            table,
            asked: RefCell::default(),
            missing: RefCell::default(),
        }
    }

    /// A key that need not be written; `example` is a value to write for it, as TOML.
    pub(super) fn field(&self, key: &'static str, example: &'static str) -> Option<KeyField<'d>> {
        self.asked.borrow_mut().push(key);
        let generic = self.generic_inside(key);
        self.report.know(generic.clone());
        let value = self.table?.get(key)?;
        Some(KeyField {
            report: self.report,
            place: self.place.inside(&format!(".{key}"), Some(value.span())),
            generic,
            key,
            example,
            value: value.get_ref(),
        })
    }

    /// A key that must be written: its absence is reported when the section is finished.
    pub(super) fn required(
        &self,
        key: &'static str,
        example: &'static str,
    ) -> Option<KeyField<'d>> {
        let field = self.field(key, example);
        self.report.require(self.generic_inside(key));
        if field.is_none() {
            self.missing.borrow_mut().push((key, example));
        }
        field
    }

    /// The value of a key that need not be written, or its default; `None` when what is written is wrong.
    pub(super) fn or<T>(
        &self,
        key: &'static str,
        example: &'static str,
        default: T,
        read: impl FnOnce(&KeyField<'d>) -> Option<T>,
    ) -> Option<T> {
        self.field(key, example)
            .map_or(Some(default), |field| read(&field))
    }

    /// The value of a key that has no default: `None` inside when it is not written, outside when what is written is wrong.
    pub(super) fn optional<T>(
        &self,
        key: &'static str,
        example: &'static str,
        read: impl FnOnce(&KeyField<'d>) -> Option<T>,
    ) -> Option<Option<T>> {
        self.or(key, example, None, |field| read(field).map(Some))
    }

    /// A table inside this one: `[server]`. When it is not written, or is no table, it reads like an empty one.
    pub(super) fn section(&self, key: &'static str, example: &'static str) -> TableSection<'d> {
        let field = self.field(key, example);
        match field.as_ref().and_then(KeyField::section) {
            Some(section) => section,
            None => TableSection::new(
                self.report,
                self.place.inside(&format!(".{key}"), None),
                self.generic_inside(key),
                None,
            ),
        }
    }

    /// Returns a table like [`Self::section`], and its place if it is written.
    pub(super) fn table(
        &self,
        key: &'static str,
        example: &'static str,
    ) -> (Option<KeyPlace>, TableSection<'d>) {
        let written = self.has(key).then(|| {
            let value = self.table.and_then(|table| table.get(key));
            let span = value.map(Spanned::span);
            self.place.inside(&format!(".{key}"), span)
        });
        (written, self.section(key, example))
    }

    /// Tables of one kind by name: `[limit.otp]`, `[limit.login]`. A name that cannot be one is reported and left out.
    pub(super) fn named(
        &self,
        key: &'static str,
        example: &'static str,
    ) -> Vec<(Name, TableSection<'d>)> {
        let Some(field) = self.field(key, example) else {
            return Vec::new();
        };
        let DeValue::Table(tables) = field.value else {
            let got = describe(field.value);
            let message = format!("expected tables with names, got {got}");
            field.refuse::<()>(message, format!("write [{key}.NAME] {example}"));
            return Vec::new();
        };
        let mut sections = Vec::new();
        for (name, value) in tables {
            let place = field.place.inside(&step(name.get_ref()), Some(name.span()));
            let name_text = name.get_ref();
            if !is_name(name_text) {
                let message = format!("{} cannot be a name", quoted(name_text));
                self.report.error(
                    &place,
                    message,
                    format!(
                        "write 1 to 64 of the characters a-z A-Z 0-9 _ - . as in [{key}.app-1]"
                    ),
                );
                continue;
            }
            match value.get_ref() {
                DeValue::Table(table) => {
                    let place = KeyPlace {
                        span: Some(value.span()),
                        ..place
                    };
                    let generic = format!("{}.NAME", self.generic_inside(key));
                    let section = TableSection::new(self.report, place, generic, Some(table));
                    sections.push((Name::from(&**name_text), section));
                }
                DeValue::Array(_) => self.report.error(
                    &place,
                    "expected a table, got a list",
                    format!("write [{key}.{name_text}] once, with one bracket at both sides"),
                ),
                other => self.report.error(
                    &place,
                    format!("expected a table, got {}", describe(other)),
                    format!("give it a name of its own: [{key}.NAME] {example}"),
                ),
            }
        }
        sections
    }

    /// Tables of one kind without names: every `[[route]]`, in the order of the file.
    pub(super) fn repeated(
        &self,
        key: &'static str,
        example: &'static str,
    ) -> Vec<TableSection<'d>> {
        let Some(field) = self.field(key, example) else {
            return Vec::new();
        };
        let advice = format!("write [[{key}]] {example}");
        let DeValue::Array(elements) = field.value else {
            let got = describe(field.value);
            field.refuse::<()>(format!("expected a list of tables, got {got}"), advice);
            return Vec::new();
        };
        if elements.is_empty() {
            field.refuse::<()>("the list is empty", advice);
            return Vec::new();
        }
        let section = |(index, element): (usize, &'d Spanned<DeValue<'d>>)| {
            let place = field
                .place
                .inside(&format!("[{index}]"), Some(element.span()));
            match element.get_ref() {
                DeValue::Table(table) => {
                    let generic = format!("{}[]", self.generic_inside(key));
                    Some(TableSection::new(self.report, place, generic, Some(table)))
                }
                other => {
                    let message = format!("expected a table, got {}", describe(other));
                    self.report.error(&place, message, advice.clone());
                    None
                }
            }
        };
        elements.iter().enumerate().filter_map(section).collect()
    }

    /// All keys with their values, for a table whose keys are the operator's own. Nothing in it is unknown.
    pub(super) fn entries(&self) -> Vec<(&'d str, Range<usize>, &'d Spanned<DeValue<'d>>)> {
        let entries = self.table.into_iter().flat_map(|table| table.iter());
        entries
            .map(|(key, value)| (&**key.get_ref(), key.span(), value))
            .collect()
    }

    /// Reports every key that nobody asked for, and every required one that is missing and not merely misspelt.
    pub(super) fn finish(self) {
        let mut asked = self.asked.take();
        asked.sort_unstable();
        asked.dedup();
        let mut missing = self.missing.take();
        for (key, span, _) in self.entries() {
            if asked.contains(&key) {
                continue;
            }
            let place = self.place.inside(&step(key), Some(span));
            // In TOML what follows the head of a table is part of it.
            if key == "include" {
                let advice = "write `include` in the first lines, before the first [table]";
                self.report.error(&place, NOT_KNOWN, advice);
                continue;
            }
            if let Some(advice) = suggest::elsewhere(&self.generic, key) {
                missing.retain(|(key, _)| !advice.starts_with(&format!("write {key} =")));
                self.report.error(&place, NOT_KNOWN, advice);
                continue;
            }
            let unwritten = asked.iter().filter(|known| !self.has(known));
            let unwritten: Vec<&str> = unwritten.copied().collect();
            if let Some(meant) = suggest::nearest(key, unwritten.iter().copied()) {
                missing.retain(|(key, _)| *key != meant);
            }
            self.report.note_unknown(UnknownKey {
                place,
                key: key.to_owned(),
                table: self.place.path.clone(),
                generic: self.generic.clone(),
                known: asked.clone(),
                unwritten,
            });
        }
        for (key, example) in missing {
            let place = self
                .place
                .inside(&format!(".{key}"), self.place.span.clone());
            let message = format!("`{key}` is missing");
            self.report
                .absent(&place, message, format!("write {key} = {example}"));
        }
    }

    /// The place of a key's value, or of the table where the key is not written.
    pub(super) fn place_of(&self, key: &'static str) -> KeyPlace {
        match self.table.and_then(|table| table.get(key)) {
            Some(value) => self.place.inside(&format!(".{key}"), Some(value.span())),
            None => self.place.clone(),
        }
    }

    /// Reports that the value of a key does not go with those of others.
    pub(super) fn refuse<T>(
        &self,
        key: &'static str,
        message: impl Into<String>,
        advice: impl Into<String>,
    ) -> Option<T> {
        self.report.error(&self.place_of(key), message, advice);
        None
    }

    /// Reports a mistake in the value of a key that a pure function found beside those of others.
    pub(super) fn mistaken<T>(&self, key: &'static str, mistake: ParseError) -> Option<T> {
        self.refuse(key, mistake.message, mistake.advice.unwrap_or_default())
    }

    /// Returns whether the key is written.
    pub(super) fn has(&self, key: &str) -> bool {
        self.table.is_some_and(|table| table.contains_key(key))
    }

    fn generic_inside(&self, key: &str) -> String {
        if self.generic.is_empty() {
            key.to_owned()
        } else {
            format!("{}.{key}", self.generic)
        }
    }
}

/// Returns whether a text can name a limit, an origin or a route.
pub(super) fn is_name(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte))
}

/// A key as a step of a key path, in quotes where TOML needs them.
pub(super) fn step(key: &str) -> String {
    let bare = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    if !key.is_empty() && key.bytes().all(bare) {
        format!(".{key}")
    } else {
        format!(".{}", quoted(key))
    }
}
