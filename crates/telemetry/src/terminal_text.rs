//! Makes texts that a client or another operator chose safe for a terminal: no character of them acts on it, hides others or changes their
//! order.

use std::borrow::Cow;
use std::fmt::Write;

use crate::escape::is_hidden;

/// Returns a text on one line, with each character that would act on a terminal or hide as `\u202e`.
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    escaped(text, is_hidden)
}

/// Returns a text of several lines, with each character that would act on a terminal or hide as `\u202e`. A JSON text stays the same JSON
/// text.
#[must_use]
pub fn printable_lines(text: &str) -> Cow<'_, str> {
    escaped(text, |character| {
        !matches!(character, '\n' | '\t') && is_hidden(character)
    })
}

fn escaped(text: &str, is_escaped: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut printable = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        if is_escaped(character) {
            // Writing to a string cannot fail.
            let _ = write!(printable, "\\u{:04x}", u32::from(character));
        } else {
            printable.push(character);
        }
    }
    Cow::Owned(printable)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: no text moves a cursor, sets a color or turns others around, and JSON stays JSON. Method: characters of each kind, alone and
    /// inside a string of JSON.
    #[test]
    fn nothing_acts_on_a_terminal() {
        let text = "a\u{1b}[2J\u{202e}b\u{200b}\u{9b}\u{feff}\r\n\tä";
        let one_line = "a\\u001b[2J\\u202eb\\u200b\\u009b\\ufeff\\u000d\\u000a\\u0009ä";
        assert_eq!(printable(text), one_line);
        let lines = "a\\u001b[2J\\u202eb\\u200b\\u009b\\ufeff\\u000d\n\tä";
        assert_eq!(printable_lines(text), lines);
        assert!(matches!(printable("äöü 漢字"), Cow::Borrowed(_)));
        let json = serde_json::to_string_pretty(&[text]).expect("a text");
        let read: Vec<String> = serde_json::from_str(&printable_lines(&json)).expect("JSON");
        assert_eq!(read, [text]);
    }
}
