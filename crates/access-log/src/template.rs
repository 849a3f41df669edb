//! Owns formats that operators write: texts between values, as in nginx's `log_format` and Apache's `LogFormat`.
//!
//! A value ends where the text behind it begins; servers escape quotes in values. [`nginx`](crate::formats::nginx) and
//! [`apache`](crate::formats::apache) read the notations of both.

use crate::field_selection::FieldSpelling;
use crate::line::{FORWARDED_FOR, LineError, ParsedLine};
use crate::text::{EscapeSyntax, RawText};
use crate::values::{LineValues, ValueMeaning};

/// A compiled format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogTemplate {
    notation: TemplateNotation,
    /// The values, each with the text before it.
    parts: Vec<TemplatePart>,
    /// The text behind the last value.
    end: Box<[u8]>,
    escapes: EscapeSyntax,
}

/// The server in whose notation a format is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TemplateNotation {
    Nginx,
    Apache,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct TemplatePart {
    before: Box<[u8]>,
    /// The name of the value; of request fields that of the field.
    name: Box<[u8]>,
    meaning: ValueMeaning,
}

/// Compiles a format piece by piece.
#[derive(Debug)]
pub(crate) struct TemplateBuilder {
    parts: Vec<TemplatePart>,
    before: Vec<u8>,
}

const OTHER_TEXT: LineError = LineError::Malformed("the line does not have the text of the format");

impl TemplateNotation {
    /// Returns the name of its formats.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Nginx => "nginx log_format",
            Self::Apache => "Apache LogFormat",
        }
    }

    /// Returns the spelling of its names of request fields.
    const fn spelling(self) -> FieldSpelling {
        match self {
            Self::Nginx => FieldSpelling::Variable,
            Self::Apache => FieldSpelling::AsSent,
        }
    }

    /// Returns the values without which no line is a request, each with what lacks without it.
    const fn required(self) -> [(&'static str, &'static str); 3] {
        match self {
            Self::Nginx => [
                ("$remote_addr", "no client can be told from another"),
                (
                    "$time_local, $time_iso8601 or $msec",
                    "no request has a time",
                ),
                ("$request or $request_uri", "no request has a path"),
            ],
            Self::Apache => [
                ("%h or %a", "no client can be told from another"),
                ("%t", "no request has a time"),
                ("%r or %U", "no request has a path"),
            ],
        }
    }
}

impl TemplateBuilder {
    pub(crate) const fn new() -> Self {
        Self {
            parts: Vec::new(),
            before: Vec::new(),
        }
    }

    /// Adds a text that each line has.
    pub(crate) fn text(&mut self, text: &[u8]) {
        self.before.extend_from_slice(text);
    }

    /// Adds a value, which is written as `shown`.
    ///
    /// # Errors
    /// Nothing says where the value before it ends.
    pub(crate) fn value(
        &mut self,
        name: &[u8],
        meaning: ValueMeaning,
        shown: &str,
    ) -> Result<(), String> {
        if self.before.is_empty()
            && let Some(previous) = self.parts.last_mut()
        {
            if previous.meaning.is_target() && meaning == ValueMeaning::Query {
                // `$uri$is_args$args` and `%U%q` are one target.
                previous.meaning = ValueMeaning::Target;
                return Ok(());
            }
            // A path begins with a slash, which ends a host or a port before it.
            if previous.width().is_none() && !meaning.is_path() {
                return Err(format!(
                    "nothing separates {shown} from the value before it; write a space or a quote between them"
                ));
            }
        }
        self.parts.push(TemplatePart {
            before: std::mem::take(&mut self.before).into(),
            name: name.into(),
            meaning,
        });
        Ok(())
    }

    /// Returns the compiled format.
    ///
    /// # Errors
    /// The format lacks a value without which no line is a request.
    pub(crate) fn finish(
        self,
        notation: TemplateNotation,
        escapes: EscapeSyntax,
    ) -> Result<LogTemplate, String> {
        let has =
            |wanted: fn(ValueMeaning) -> bool| (self.parts.iter()).any(|part| wanted(part.meaning));
        let mut parts = self.parts.iter();
        let has_chain = parts.any(|part| part.is_forwarded_for(notation.spelling()));
        let found = [
            has_chain
                || has(|meaning| matches!(meaning, ValueMeaning::Client | ValueMeaning::Peer)),
            has(|meaning| matches!(meaning, ValueMeaning::Time(_) | ValueMeaning::Calendar(..))),
            has(ValueMeaning::is_target),
        ];
        let required = notation.required().into_iter().zip(found);
        for ((value, without), is_found) in required {
            if !is_found {
                return Err(format!("the format has no {value}, so {without}"));
            }
        }
        Ok(LogTemplate {
            notation,
            parts: self.parts,
            end: self.before.into(),
            escapes,
        })
    }
}

impl TemplatePart {
    /// Returns the number of bytes of a value that always has as many.
    const fn width(&self) -> Option<usize> {
        match self.meaning {
            ValueMeaning::Calendar(_, part) => Some(part.width()),
            _ => None,
        }
    }

    /// Returns the name of the request field that the value is of.
    fn request_field(&self) -> Option<&[u8]> {
        match self.meaning {
            ValueMeaning::FieldBehind(prefix) => self.name.get(prefix..),
            _ => None,
        }
    }

    fn is_forwarded_for(&self, spelling: FieldSpelling) -> bool {
        let field = self.request_field();
        field.is_some_and(|field| spelling.is(field, FORWARDED_FOR))
    }
}

impl LogTemplate {
    /// Returns the name of the kind of format.
    pub(crate) const fn name(&self) -> &'static str {
        self.notation.name()
    }

    /// Returns the request fields that lines have, as the format names them, with the spelling of these names.
    pub(crate) fn request_fields(&self) -> impl Iterator<Item = (&[u8], FieldSpelling)> {
        let spelling = self.notation.spelling();
        self.parts
            .iter()
            .filter_map(move |part| Some((part.request_field()?, spelling)))
    }

    /// Parses a line.
    pub(crate) fn line<'a>(
        &'a self,
        line: &'a [u8],
        into: &mut ParsedLine<'a>,
    ) -> Result<(), LineError> {
        into.spelling = self.notation.spelling();
        let mut values = LineValues::new(into);
        let first = self.parts.first().map_or(&*self.end, |part| &*part.before);
        let mut rest = line.strip_prefix(first).ok_or(OTHER_TEXT)?;
        for (index, part) in self.parts.iter().enumerate() {
            let next = self.parts.get(index + 1);
            let behind = next.map_or(&*self.end, |next| &*next.before);
            let end = match (next, behind) {
                // A path without a text before it ends the value.
                (Some(_), []) => b"/",
                _ => behind,
            };
            let length = match part.width() {
                Some(width) => width,
                None => self.value_length(rest, end).ok_or(OTHER_TEXT)?,
            };
            let (value, more) = rest.split_at_checked(length).ok_or(OTHER_TEXT)?;
            rest = more.strip_prefix(behind).ok_or(OTHER_TEXT)?;
            let escapes = match memchr::memchr(b'\\', value) {
                Some(_) => self.escapes,
                None => EscapeSyntax::None,
            };
            values.set(part.meaning, &part.name, RawText::new(value, escapes))?;
        }
        values.finish();
        Ok(())
    }

    /// Returns the length of a value that ends before `behind`, or with the line where that is empty.
    fn value_length(&self, rest: &[u8], behind: &[u8]) -> Option<usize> {
        let Some(first) = behind.first() else {
            return Some(rest.len());
        };
        let escape = match self.escapes {
            EscapeSyntax::None | EscapeSyntax::Plus => *first,
            EscapeSyntax::Json | EscapeSyntax::Backslash => b'\\',
        };
        let mut from = 0;
        loop {
            let at = from + memchr::memchr2(*first, escape, rest.get(from..)?)?;
            if rest.get(at..)?.starts_with(behind) {
                return Some(at);
            }
            from = at + if rest.get(at) == Some(&b'\\') { 2 } else { 1 };
        }
    }
}
