//! Turns what the TOML parser complains about into problems an operator can act on.
//!
//! The parser recovers and goes on, which finds several slips at once but also echoes of one: after a bracket that is not
//! closed every line is wrong. Echoes are dropped here, and a [`SyntaxFault`] says whether the tree behind it can be believed.

use std::ops::Range;

use toml::de::Error;

use super::field::quoted;
use super::notation;
use super::open_text::{OpenText, open_at};
use super::problem::{ParseError, SyntaxFault};
use super::source::SourceText;

/// The tables of which a file has many.
const LISTS_OF_TABLES: [&str; 2] = ["listener", "route"];

/// The faults behind the parser's errors, at most one a line.
pub(super) fn faults(source: &SourceText<'_>, mut errors: Vec<Error>) -> Vec<SyntaxFault> {
    if let Some(fault) = notation::fault(source, &errors) {
        return vec![fault];
    }
    errors.sort_by_key(|error| error.span().map_or(0, |span| span.start));
    let unclosed = errors.iter().any(|error| {
        let message = error.message();
        message.starts_with("unclosed array,") || message.starts_with("unclosed inline table")
    });
    if let Some(string) = string_in_bracket(source, &errors) {
        let line = source.line(string.span.start);
        let before = errors.iter().map(|error| fault(source, error));
        let mut faults: Vec<SyntaxFault> = before
            .take_while(|fault| source.line(fault.span.start) < line)
            .collect();
        faults.push(string);
        return faults;
    }
    if unclosed {
        let first = errors.first().and_then(Error::span).unwrap_or_default();
        return vec![still_open(source, first)];
    }
    let unclosed = errors.iter().find(|error| is_unclosed_header(error));
    if let Some(start) = unclosed.and_then(Error::span).map(|span| span.start) {
        // Keys behind it seem to be those of another table.
        let is_echo = |error: &Error| error.span().is_some_and(|span| span.start > start);
        errors.retain(|error| error.message() != "duplicate key" || !is_echo(error));
    }
    drop_echoes_of_tables(source, &mut errors);
    let mut faults: Vec<SyntaxFault> = errors.iter().map(|error| fault(source, error)).collect();
    faults.dedup_by_key(|fault| source.line(fault.span.start));
    faults
}

/// The fault of a string that has no end on the line of the first error, where it stands in an array or inline table: it takes the bracket
/// behind it along, so what follows is wrong too. `None` where the first error has another cause.
fn string_in_bracket(source: &SourceText<'_>, errors: &[Error]) -> Option<SyntaxFault> {
    let start = errors.first()?.span()?.start;
    let line_start = source.slice(&(0..start)).rfind('\n').map_or(0, |at| at + 1);
    let behind = source.slice(&(line_start..source.text.len()));
    let end = behind
        .find('\n')
        .map_or(source.text.len(), |length| line_start + length);
    let Some(OpenText::String(quotes)) = open_at(source.text, end) else {
        return None;
    };
    let is_here = quotes.len() == 1 && quotes.start >= line_start;
    let is_inside = matches!(
        open_at(source.text, quotes.start),
        Some(OpenText::Bracket(_))
    );
    if !is_here || !is_inside {
        return None;
    }
    let quote = source.slice(&quotes);
    let (span, message, advice) = if start < quotes.start {
        (
            start..end,
            "a quote is missing on this line, before here or behind",
            format!("write each string between two quotes: [{quote}a{quote}, {quote}b{quote}]"),
        )
    } else {
        (
            quotes.start..end,
            "the string does not end on its line",
            format!("end it with `{quote}`"),
        )
    };
    Some(SyntaxFault {
        span,
        mistake: ParseError::with_advice(message, advice),
        hides_the_rest: true,
    })
}

/// Removes the keys of a table that stands a second time, which stand a second time too.
fn drop_echoes_of_tables(source: &SourceText<'_>, errors: &mut Vec<Error>) {
    let mut echo_end = 0;
    errors.retain(|error| {
        let start = error.span().unwrap_or_default().start;
        if error.message() != "duplicate key" {
            return true;
        }
        if is_in_header(source, start) {
            let rest = &source.text[start..];
            echo_end = rest
                .find("\n[")
                .map_or(source.text.len(), |end| start + end);
            return true;
        }
        start >= echo_end
    });
}

/// Returns whether the byte at `at` stands in the header of a table.
fn is_in_header(source: &SourceText<'_>, at: usize) -> bool {
    let before = source.slice(&(0..at));
    let line = before.rsplit('\n').next().unwrap_or_default();
    line.trim_start().starts_with('[')
}

/// Returns whether a line is to begin a table, and its brackets are not closed.
fn is_unclosed_header(error: &Error) -> bool {
    let message = error.message();
    message.starts_with("unclosed table") || message.starts_with("unclosed array table")
}

/// The fault of an array or inline table that is open where the parser could not go on.
fn still_open(source: &SourceText<'_>, span: Range<usize>) -> SyntaxFault {
    let (what, close) = match open_at(source.text, span.start) {
        Some(OpenText::Bracket(at)) => {
            let (what, close) = match source.slice(&at) {
                "{" => ("inline table", "`}`"),
                _ => ("array", "`]`"),
            };
            let line = source.line(at.start);
            let column = source.column(at.start);
            (
                format!("the {what} that begins on line {line}, column {column}"),
                close,
            )
        }
        _ => ("an array or inline table".to_owned(), "`]` or `}`"),
    };
    SyntaxFault {
        span,
        mistake: ParseError::with_advice(
            format!("{what} is still open here"),
            format!("close it with {close}, or separate its elements with `,`"),
        ),
        hides_the_rest: true,
    }
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
        "duplicate key" if LISTS_OF_TABLES.contains(&text) && is_in_header(source, span.start) => {
            local(ParseError::with_advice(
                format!("[{text}] stands here a second time"),
                format!("write [[{text}]] for each of them, with two brackets at both sides"),
            ))
        }
        "duplicate key" => local(ParseError::with_advice(
            format!("{} stands here a second time", quoted(text)),
            "keep one of the two: TOML knows each key and each [table] once",
        )),
        "string values must be quoted" | "invalid boolean" if text.is_empty() => local(
            ParseError::with_advice("the value is missing", "write one behind the `=`"),
        ),
        "string values must be quoted" | "invalid boolean" => local(unquoted(text)),
        "invalid basic string" | "invalid literal string" if expected.len() == 3 => {
            open_string(source, &span, expected).map_or_else(
                || {
                    local(ParseError::with_advice(
                        "the string does not end on its line",
                        format!("end it with {expected}"),
                    ))
                },
                |fault| SyntaxFault {
                    hides_the_rest: false,
                    ..fault
                },
            )
        }
        "invalid multi-line basic string" | "invalid multi-line literal string"
            if expected.len() == 3
                && let Some(fault) = open_string(source, &span, expected) =>
        {
            fault
        }
        _ if let Some(mistake) = slip(source, &span, message) => SyntaxFault {
            span: slip_span(source, &span, message),
            mistake,
            hides_the_rest: true,
        },
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

/// The mistake of a word that stands where a value is expected.
fn unquoted(text: &str) -> ParseError {
    let is_typographic = |letter| {
        "\u{201c}\u{201d}\u{201e}\u{201f}\u{2018}\u{2019}\u{201a}\u{ab}\u{bb}".contains(letter)
    };
    let plain = text.trim_matches(is_typographic);
    let boolean = text.to_ascii_lowercase();
    let boolean = match boolean.as_str() {
        "true" | "yes" | "on" => Some("true"),
        "false" | "no" | "off" => Some("false"),
        _ => None,
    };
    let advice = if let Some(boolean) = boolean {
        format!("write {boolean}, or {text:?} in quotes if a string is meant")
    } else if plain.len() < text.len() {
        format!("write {plain:?}, with the straight quotes of a keyboard")
    } else {
        format!("write {text:?} in quotes if a string is meant")
    };
    ParseError::with_advice(format!("{} is not a value", quoted(text)), advice)
}

/// The fault of a string that has no end, from its beginning on; `quote` is what the parser expects.
fn open_string(source: &SourceText<'_>, span: &Range<usize>, quote: &str) -> Option<SyntaxFault> {
    let Some(OpenText::String(quotes)) = open_at(source.text, span.start) else {
        return None;
    };
    let is_one_line = quotes.len() == 1;
    let end = quote.trim_matches('`').repeat(quotes.len());
    let (message, marked) = match is_one_line {
        true => (
            "the string does not end on its line",
            quotes.start..span.end.max(quotes.end),
        ),
        false => ("the string that begins here does not end", quotes),
    };
    Some(SyntaxFault {
        span: marked,
        mistake: ParseError::with_advice(message, format!("end it with `{end}`")),
        hides_the_rest: true,
    })
}

/// The mistake of somebody who writes another notation than TOML; `None` where it is not known.
fn slip(source: &SourceText<'_>, span: &Range<usize>, message: &str) -> Option<ParseError> {
    let text = source.slice(span);
    let first = source
        .slice(&(span.start..source.text.len()))
        .chars()
        .next();
    match message {
        "invalid unquoted key" if text == ":" => Some(ParseError::with_advice(
            "a colon follows the key",
            "write `=` between key and value",
        )),
        "invalid unquoted key"
            if let Some(blank) = first.filter(|&c| !c.is_ascii() && c.is_whitespace()) =>
        {
            Some(ParseError::with_advice(
                format!(
                    "U+{:04X} stands here, which looks like a space and is none",
                    u32::from(blank)
                ),
                "write a space",
            ))
        }
        "invalid unquoted key" | "invalid key-value pair"
            if source
                .slice(&(span.start..source.text.len()))
                .starts_with("//")
                || source
                    .slice(&(span.start..source.text.len()))
                    .starts_with("/*") =>
        {
            Some(ParseError::with_advice(
                "no comment begins so",
                "write # in its place, on each line of the comment",
            ))
        }
        "unclosed table" | "unclosed array table"
            if first.is_some_and(char::is_whitespace)
                && let Some(name) = source
                    .slice(&(span.start..source.text.len()))
                    .lines()
                    .next()
                && name.contains(']') =>
        {
            Some(ParseError::with_advice(
                "a space stands in the name of a table",
                "write a name of the characters a-z A-Z 0-9 _ -",
            ))
        }
        "unexpected key or value" if first == Some(';') => Some(ParseError::with_advice(
            "a semicolon ends the line",
            "leave it out",
        )),
        "missing escaped value" => Some(ParseError::with_advice(
            "a backslash in double quotes begins an escape, and this is none",
            "write `\\\\` for a backslash, or the text in single quotes, '…', which know no escapes",
        )),
        "carriage return must be followed by newline" => Some(ParseError::with_advice(
            "a carriage return stands here without a line feed",
            "save the file with line ends of LF or CR LF",
        )),
        "invalid basic string" | "invalid literal string"
            if let Some(control) = first.filter(|c| c.is_control()) =>
        {
            let code = u32::from(control);
            Some(ParseError::with_advice(
                format!("the control character U+{code:04X} stands in the string"),
                format!("leave it out, or write \"\\u{code:04X}\" in double quotes"),
            ))
        }
        _ if is_about_number(message) => {
            let word = source.slice(&word(source, span.start));
            let is_text = word.bytes().filter(|byte| b":./".contains(byte)).count() > 1
                || word.bytes().any(|byte| byte.is_ascii_alphabetic());
            is_text.then(|| unquoted(word))
        }
        _ => None,
    }
}

/// The part of the text that a [`slip`] is about.
fn slip_span(source: &SourceText<'_>, span: &Range<usize>, message: &str) -> Range<usize> {
    if is_about_number(message) {
        word(source, span.start)
    } else {
        span.clone()
    }
}

/// Returns whether the parser took a value for a number or a date.
fn is_about_number(message: &str) -> bool {
    let about = [
        "invalid float",
        "invalid integer",
        "invalid date-time",
        "unexpected leading zero",
    ];
    about.contains(&message)
}

/// The unquoted word around `at`.
fn word(source: &SourceText<'_>, at: usize) -> Range<usize> {
    let is_end = |letter: char| letter.is_whitespace() || "=[],{}#\"'".contains(letter);
    let before = source.slice(&(0..at));
    let start = before.rfind(is_end).map_or(0, |end| end + 1);
    let behind = source.slice(&(at..source.text.len()));
    start..at + behind.find(is_end).unwrap_or(behind.len())
}
