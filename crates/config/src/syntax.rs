//! Turns what the TOML parser complains about into problems an operator can act on.
//!
//! The parser recovers and goes on, which finds several slips at once but also echoes of one: after a bracket that is not
//! closed every line is wrong. Echoes are dropped here, and a [`SyntaxFault`] says whether the tree behind it can be believed.

use std::ops::Range;

use toml::de::Error;

use super::field::quoted;
use super::problem::ParseError;
use super::source::SourceText;

/// A place where the text is not TOML.
#[derive(Clone, Debug)]
pub(super) struct SyntaxFault {
    pub(super) span: Range<usize>,
    pub(super) mistake: ParseError,
    /// Says whether the tree is unreliable from here on; otherwise only this line of it is.
    pub(super) hides_the_rest: bool,
}

/// The faults behind the parser's errors, at most one a line.
pub(super) fn faults(source: &SourceText<'_>, mut errors: Vec<Error>) -> Vec<SyntaxFault> {
    errors.sort_by_key(|error| error.span().map_or(0, |span| span.start));
    let unclosed = errors.iter().any(|error| {
        let message = error.message();
        message.starts_with("unclosed array,") || message.starts_with("unclosed inline table")
    });
    if unclosed {
        let first = errors.first().and_then(Error::span).unwrap_or_default();
        return vec![SyntaxFault {
            span: first,
            mistake: ParseError::with_advice(
                "an array or inline table is still open here",
                "close it with `]` or `}`, or separate its elements with `,`",
            ),
            hides_the_rest: true,
        }];
    }
    let unclosed = errors.iter().find(|error| is_unclosed_header(error));
    if let Some(start) = unclosed.and_then(Error::span).map(|span| span.start) {
        // Keys behind it seem to be those of another table.
        let is_echo = |error: &Error| error.span().is_some_and(|span| span.start > start);
        errors.retain(|error| error.message() != "duplicate key" || !is_echo(error));
    }
    let mut faults: Vec<SyntaxFault> = errors.iter().map(|error| fault(source, error)).collect();
    faults.dedup_by_key(|fault| source.line(fault.span.start));
    faults
}

/// Returns whether a line is to begin a table, and its brackets are not closed.
fn is_unclosed_header(error: &Error) -> bool {
    let message = error.message();
    message.starts_with("unclosed table") || message.starts_with("unclosed array table")
}

fn fault(source: &SourceText<'_>, error: &Error) -> SyntaxFault {
    // What lacks its end is wrong on the last line, not behind the line feed there, which may have been added.
    let end = source.text.trim_end_matches('\n').len();
    let span = error.span().unwrap_or_default();
    let span = span.start.min(end)..span.end.min(end);
    let text = source.slice(&span);
    let message = error.message();
    let (message, expected) = message.split_once(", expected ").unwrap_or((message, ""));
    let local = |mistake| SyntaxFault {
        span: span.clone(),
        mistake,
        hides_the_rest: false,
    };
    match message {
        "duplicate key" => local(ParseError::with_advice(
            format!("{} stands here a second time", quoted(text)),
            "keep one of the two: TOML knows each key and each [table] once",
        )),
        "string values must be quoted" | "invalid boolean" if text.is_empty() => local(
            ParseError::with_advice("the value is missing", "write one behind the `=`"),
        ),
        "string values must be quoted" | "invalid boolean" => local(ParseError::with_advice(
            format!("{} is not a value", quoted(text)),
            format!("write {text:?} in quotes if a string is meant"),
        )),
        "invalid basic string" | "invalid literal string" if expected.len() == 3 => {
            local(ParseError::with_advice(
                "the string does not end on its line",
                format!("end it with {expected}"),
            ))
        }
        _ => SyntaxFault {
            mistake: ParseError::with_advice(
                format!("this is not TOML: {message}"),
                if expected.is_empty() {
                    "write it as https://toml.io/en/v1.1.0 has it".to_owned()
                } else {
                    format!("expected {expected}")
                },
            ),
            hides_the_rest: true,
            span,
        },
    }
}
