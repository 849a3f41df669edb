//! Owns what the operator is told: a problem with its place, its reason and what to write instead.
//!
//! A problem is complete in itself, with the line that it is about, so that it can be kept, sorted and shown without the file.
//! One line of it, its `Display`, suits a log; the drawing of all of them, that of [`Problems`], suits a terminal.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use super::source::Excerpt;

/// Says whether a configuration with this problem can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// It cannot.
    Error,
    /// It can, but it hardly means what was intended.
    Warning,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Says whether the file can be used all the same.
    pub severity: Severity,
    /// The file's name, as it was given.
    pub file: Arc<str>,
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
    /// `limit.otp.rates[0]`, elements counted from 0; empty where the text is not TOML or the file is meant as a whole.
    pub key_path: String,
    /// The sentence that says what is wrong.
    pub message: String,
    /// The sentence that says what to write instead.
    pub advice: String,
    /// Message and advice without secrets.
    pub(super) shown: String,
    /// The line it is about; `None` where nothing is written.
    pub(super) excerpt: Option<Excerpt>,
}

/// Everything that is wrong with a file, in the order of the places.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problems(Vec<Problem>);

/// The reason why a text is not the value that it should be, from a parser that knows no place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ParseError {
    /// The sentence that says what is wrong with the text.
    pub(super) message: String,
    /// The sentence that says what to write instead; where the parser knows nothing better, the example of the field is shown.
    pub(super) advice: Option<String>,
}

/// A place where the text is not TOML.
#[derive(Clone, Debug)]
pub(super) struct SyntaxFault {
    pub(super) span: Range<usize>,
    pub(super) mistake: ParseError,
    /// Says whether the tree is unreliable from here on; otherwise only this line of it is.
    pub(super) hides_the_rest: bool,
}

impl ParseError {
    /// An error that the field's example answers.
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            advice: None,
        }
    }

    /// Returns it in one sentence.
    pub(super) fn to_text(&self) -> String {
        match &self.advice {
            Some(advice) => format!("{}; {advice}", self.message),
            None => self.message.clone(),
        }
    }

    /// An error with what to write instead.
    pub(super) fn with_advice(message: impl Into<String>, advice: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            advice: Some(advice.into()),
        }
    }
}

impl Problems {
    /// The problems, brought into the order of their places.
    pub(super) fn new(mut problems: Vec<Problem>) -> Self {
        problems.sort_by_key(|problem| (problem.line, problem.column, problem.severity));
        Self(problems)
    }

    /// The problems, which stand in the order of their places.
    pub(super) fn in_order(problems: Vec<Problem>) -> Self {
        Self(problems)
    }

    /// The problems, in the order of their places.
    pub fn iter(&self) -> std::slice::Iter<'_, Problem> {
        self.0.iter()
    }

    /// Returns whether there is no problem.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the number of problems.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the number of problems of one severity.
    #[must_use]
    pub fn count(&self, severity: Severity) -> usize {
        self.iter()
            .filter(|problem| problem.severity == severity)
            .count()
    }

    /// Returns the problems for readers who may not see secrets, a line each: places and faults, without hidden values and without the
    /// lines of the file.
    #[must_use]
    pub fn for_readers(&self) -> String {
        let lines = self
            .iter()
            .map(|problem| problem.line_with(&problem.shown) + "\n");
        lines.collect::<String>() + &self.counted()
    }

    /// Returns how many there are: `2 errors, 1 warning`.
    fn counted(&self) -> String {
        let counts = [(Severity::Error, "error"), (Severity::Warning, "warning")];
        let counts = counts.map(|(severity, noun)| (self.count(severity), noun));
        let counts = counts.iter().filter(|(count, _)| *count > 0);
        let counts: Vec<String> = counts
            .map(|(count, noun)| format!("{count} {noun}{}", if *count == 1 { "" } else { "s" }))
            .collect();
        match counts.is_empty() {
            true => "no problems".to_owned(),
            false => counts.join(", "),
        }
    }
}

impl Problem {
    /// Returns the place, and the sentence behind it.
    fn line_with(&self, sentence: &str) -> String {
        let mut text = format!("{}:{}:{}: ", self.file, self.line, self.column);
        if self.severity == Severity::Warning {
            text.push_str("warning: ");
        }
        if !self.key_path.is_empty() {
            text.push_str(&self.key_path);
            text.push_str(": ");
        }
        text + sentence
    }
}

impl<'a> IntoIterator for &'a Problems {
    type Item = &'a Problem;
    type IntoIter = std::slice::Iter<'a, Problem>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sentence = format!("{}; {}", self.message, self.advice);
        into.write_str(&self.line_with(&sentence))
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        for problem in self {
            writeln!(into, "{problem}")?;
            if let Some(excerpt) = &problem.excerpt {
                excerpt.draw(problem.line, into)?;
            }
            writeln!(into)?;
        }
        into.write_str(&self.counted())
    }
}

impl std::error::Error for Problems {}
