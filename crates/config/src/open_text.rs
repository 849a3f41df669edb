//! Finds what is open at a place of a text that is not TOML: the string, the array or the inline table in which the place lies, and where
//! it begins.
//!
//! The parser reports the place at which it could not go on, which for a string of many lines is the end of the file.

use std::ops::Range;

/// Something that begins before a place and does not end before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum OpenText {
    /// A string, whose quotes stand here.
    String(Range<usize>),
    /// An array or an inline table, whose bracket stands here.
    Bracket(Range<usize>),
}

/// Reads a text from its beginning, as far as strings, comments and brackets go.
struct TextScanner<'t> {
    text: &'t [u8],
    at: usize,
    /// The brackets that are open, the outermost first.
    brackets: Vec<Range<usize>>,
    /// Says whether a value may begin on this line, behind a `=`.
    is_in_value: bool,
}

/// Returns the innermost text that is open at `place`; `None` where there is none.
pub(super) fn open_at(text: &str, place: usize) -> Option<OpenText> {
    let mut scanner = TextScanner {
        text: text.as_bytes(),
        at: 0,
        brackets: Vec::new(),
        is_in_value: false,
    };
    while scanner.at < place {
        if let Some(open) = scanner.step(place) {
            return Some(open);
        }
    }
    scanner.brackets.pop().map(OpenText::Bracket)
}

impl TextScanner<'_> {
    /// Reads one string, comment or character; returns a string that does not end before `place`.
    fn step(&mut self, place: usize) -> Option<OpenText> {
        let start = self.at;
        self.at += 1;
        match self.text.get(start)? {
            b'#' => self.at = self.line_end(start),
            quote @ (b'"' | b'\'') => {
                let width = self.quotes(start, *quote);
                let end = match width {
                    2 => start + 2,
                    _ => self.string_end(start + width, *quote, width),
                };
                if end > place || end > self.text.len() {
                    return Some(OpenText::String(start..start + width));
                }
                self.at = end;
            }
            b'\n' if self.brackets.is_empty() => self.is_in_value = false,
            b'=' => self.is_in_value = true,
            b'[' | b'{' if self.is_in_value => self.brackets.push(start..start + 1),
            b']' | b'}' => {
                self.brackets.pop();
            }
            _ => {}
        }
        None
    }

    /// Returns the number of quotes that begin a string: 1, 3, or 2 for an empty one.
    fn quotes(&self, start: usize, quote: u8) -> usize {
        let run = self.text[start..].iter().take(3);
        run.take_while(|byte| **byte == quote).count()
    }

    /// Returns the byte behind a string whose text begins at `at`; beyond the text where it does not end.
    fn string_end(&self, mut at: usize, quote: u8, width: usize) -> usize {
        while let Some(&byte) = self.text.get(at) {
            match byte {
                b'\\' if quote == b'"' => at += 1,
                b'\n' if width == 1 => return self.text.len() + 1,
                _ if byte == quote && self.quotes(at, quote) >= width => return at + width,
                _ => {}
            }
            at += 1;
        }
        self.text.len() + 1
    }

    fn line_end(&self, start: usize) -> usize {
        let rest = &self.text[start..];
        rest.iter()
            .position(|byte| *byte == b'\n')
            .map_or(self.text.len(), |length| start + length)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Goal: the innermost text that is open is found, and nothing else. Method: texts whose end is the place.
    #[test]
    fn what_is_open_is_found() {
        use OpenText::{Bracket, String};
        for (text, open) in [
            ("a = 1\n", None),
            ("[t]\n[[u]]\na = [1]\n", None),
            ("a = [\"]\"]\n# [ \" '\nb = '['\n", None),
            ("a = \"\\\"[\"\nb = ''\n", None),
            ("a = \"x", Some(String(4..5))),
            ("a = \"x\nb = 1", Some(String(4..5))),
            ("a = 1\nb = '''x\n''\n", Some(String(10..13))),
            ("a = \"\"\"x\\\"\"\"", Some(String(4..7))),
            ("a = [1,\n[2],\n", Some(Bracket(4..5))),
            ("a = { b = [1, \"]\"", Some(Bracket(10..11))),
            ("[t\na = 1\n", None),
        ] {
            assert_eq!(open_at(text, text.len()), open, "{text:?}");
        }
    }

    proptest! {
        /// Goal: no text stops the check of a file. Method: texts of the characters that matter, and any place.
        #[test]
        fn every_text_is_read(text in "[\\[\\]{}='\"#\\\\\na é]{0,30}", place in 0usize..40) {
            if let Some(OpenText::String(at) | OpenText::Bracket(at)) = open_at(&text, place) {
                prop_assert!(at.end <= text.len() && text.get(at).is_some());
            }
        }
    }
}
