//! Cuts a small language inside a string into tokens, and reports a slip at its place in the file: the common part of conditions and of
//! the access log's filter.

use std::ops::{Range, RangeInclusive};

use super::field::{KeyField, quoted};
use super::report::KeyPlace;

/// An error in an expression, and its place.
#[derive(Debug)]
pub(super) struct ExpressionError {
    pub(super) at: Range<usize>,
    pub(super) message: String,
    pub(super) advice: String,
}

impl ExpressionError {
    /// Reports the slip in the `text` of `field`.
    pub(super) fn refuse<T>(self, field: &KeyField<'_>, text: &str) -> Option<T> {
        let place = inside(field, text, &self.at);
        field.report.error(&place, self.message, self.advice);
        None
    }
}

/// The operator of a comparison with a set of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ComparisonOperator {
    /// `==` and `in`: the value is in the set.
    Equal,
    /// `!=` and `not in`: the value is not in the set.
    NotEqual,
}

/// The word that joins all comparisons of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LogicalOperator {
    /// All hold.
    And,
    /// At least one holds.
    Or,
}

/// The form of joined comparisons.
pub(super) struct JointForm {
    /// Most comparisons.
    pub(super) most: usize,
    /// The advice to somebody who writes something else: an example.
    pub(super) example: &'static str,
    /// The advice to somebody who writes more than `most`.
    pub(super) shorter: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'t> {
    Word(&'t str),
    Number(&'t str),
    Text(&'t str),
    Sign(&'static str),
    /// A character that no token begins with.
    Stray(&'t str),
    End,
}

impl Token<'_> {
    /// Returns the slip of a token that cannot stand where something else is expected.
    pub(super) fn unexpected(
        self,
        at: Range<usize>,
        expected: &str,
        advice: &str,
    ) -> ExpressionError {
        let got = match self {
            Self::Word(text) | Self::Number(text) | Self::Stray(text) => quoted(text),
            Self::Text(text) => format!("the value {}", quoted(text)),
            Self::Sign(sign) => quoted(sign),
            Self::End => "the end".to_owned(),
        };
        ExpressionError {
            at,
            message: format!("expected {expected}, got {got}"),
            advice: advice.to_owned(),
        }
    }
}

/// Those that begin like others come first.
const SIGNS: [&str; 10] = ["..=", "==", "!=", "<=", ">=", "<", ">", "[", "]", ","];

/// Reads a text from left to right.
pub(super) struct TokenReader<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> TokenReader<'t> {
    /// A reader at the beginning of `text`.
    pub(super) fn from_text(text: &'t str) -> Self {
        Self { text, at: 0 }
    }

    /// Where the next token is looked for.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// The next token, and where it stands; stays before it.
    pub(super) fn peek(&self) -> (Token<'t>, Range<usize>) {
        let rest = &self.text[self.at..];
        let start = self.at + (rest.len() - rest.trim_start().len());
        let rest = &self.text[start..];
        let run = |of: fn(char) -> bool| rest.find(|c| !of(c)).unwrap_or(rest.len());
        let Some(first) = rest.chars().next() else {
            return (Token::End, start..start);
        };
        let (token, length) = match first {
            '0'..='9' => {
                let end = run(|c| c.is_ascii_digit());
                (Token::Number(&rest[..end]), end)
            }
            'a'..='z' | 'A'..='Z' => {
                let end = run(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
                (Token::Word(&rest[..end]), end)
            }
            '"' | '\'' => match rest[1..].find(first) {
                Some(end) => (Token::Text(&rest[1..=end]), end + 2),
                None => (Token::Stray(rest), rest.len()),
            },
            _ => match SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
                Some(sign) => (Token::Sign(sign), sign.len()),
                None => (Token::Stray(&rest[..first.len_utf8()]), first.len_utf8()),
            },
        };
        (token, start..start + length)
    }

    pub(super) fn next(&mut self) -> (Token<'t>, Range<usize>) {
        let (token, at) = self.peek();
        self.at = at.end;
        (token, at)
    }

    /// The characters up to the next space, and where they stand; goes on behind them.
    pub(super) fn run(&mut self) -> (&'t str, Range<usize>) {
        let start = self.peek().1.start;
        let rest = &self.text[start..];
        let length = rest.find(char::is_whitespace).unwrap_or(rest.len());
        self.at = start + length;
        (&rest[..length], start..self.at)
    }

    /// Goes on behind the token if it is next.
    pub(super) fn skip(&mut self, token: Token<'_>) -> bool {
        let (next, at) = self.peek();
        let found = next == token;
        if found {
            self.at = at.end;
        }
        found
    }

    /// Reads the whole text as comparisons, each by `comparison`, that one word joins; `and` where there is one comparison.
    pub(super) fn joined<T>(
        &mut self,
        form: &JointForm,
        comparison: impl Fn(&mut Self) -> Result<T, ExpressionError>,
    ) -> Result<(LogicalOperator, Vec<T>), ExpressionError> {
        let mut comparisons = vec![comparison(self)?];
        let mut joint = None;
        loop {
            let (token, at) = self.next();
            let this = match token {
                Token::End => return Ok((joint.unwrap_or(LogicalOperator::And), comparisons)),
                Token::Word("and") => LogicalOperator::And,
                Token::Word("or") => LogicalOperator::Or,
                other => return Err(other.unexpected(at, "`and`, `or` or the end", form.example)),
            };
            if *joint.get_or_insert(this) != this {
                return Err(ExpressionError {
                    at,
                    message: "`and` and `or` cannot stand in one condition".to_owned(),
                    advice: "use one of them throughout, or write two limits".to_owned(),
                });
            }
            if comparisons.len() == form.most {
                return Err(ExpressionError {
                    at,
                    message: format!("there are more than {} comparisons", form.most),
                    advice: form.shorter.to_owned(),
                });
            }
            comparisons.push(comparison(self)?);
        }
    }

    /// Reads one status, or a range of them, each by `code`.
    pub(super) fn statuses(
        &mut self,
        code: impl Fn(&mut Self) -> Result<u16, ExpressionError>,
    ) -> Result<RangeInclusive<u16>, ExpressionError> {
        let begin = self.peek().1.start;
        let first = code(self)?;
        if !self.skip(Token::Sign("..=")) {
            return Ok(first..=first);
        }
        let last = code(self)?;
        if last < first {
            return Err(ExpressionError {
                at: begin..self.at(),
                message: format!("no status is in {first}..={last}"),
                advice: format!("write {last}..={first}"),
            });
        }
        Ok(first..=last)
    }
}

/// The place of a part of a string. Where escapes make the file longer than the text it is that of the whole.
fn inside(field: &KeyField<'_>, text: &str, part: &Range<usize>) -> KeyPlace {
    let span = field.place.span.clone().map(|span| {
        let written = field.report.source.slice(&span);
        match written.find(text) {
            Some(1) if written.len() == text.len() + 2 => {
                let begin = span.start + 1;
                begin + part.start..begin + part.end
            }
            _ => span,
        }
    });
    KeyPlace {
        path: field.place.path.clone(),
        span,
    }
}
