//! Cuts the text of a Caddyfile into words.
//!
//! The rules are those of Caddy's lexer: a word ends at white space; `"` and a backquote hold white space and line ends; `<<END` and a line
//! end hold the lines up to `END`; a backslash at the end of a line joins the next one; `#` at the beginning of a word begins a comment.

use std::sync::Arc;

use crate::position::{Position, SyntaxError};

/// A word with the place where it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CaddyToken {
    pub(super) text: String,
    pub(super) position: Position,
    /// True for the first word of a line.
    pub(super) starts_line: bool,
    pub(super) is_quoted: bool,
}

impl CaddyToken {
    /// Returns true for the brace that opens a block.
    pub(super) fn opens(&self) -> bool {
        self.text == "{" && !self.is_quoted
    }

    /// Returns true for the brace that ends a block.
    pub(super) fn closes(&self) -> bool {
        self.text == "}" && !self.is_quoted
    }
}

/// Returns the words of a text.
pub(super) fn tokens(file: &Arc<str>, text: &str) -> Result<Vec<CaddyToken>, SyntaxError> {
    let mut lexer = CaddyLexer {
        rest: text.strip_prefix('\u{feff}').unwrap_or(text),
        position: Position::start(file),
        starts_line: true,
    };
    let mut found = Vec::new();
    while let Some(token) = lexer.next_token()? {
        found.push(token);
    }
    Ok(found)
}

struct CaddyLexer<'t> {
    rest: &'t str,
    position: Position,
    starts_line: bool,
}

impl CaddyLexer<'_> {
    fn next_token(&mut self) -> Result<Option<CaddyToken>, SyntaxError> {
        self.skip_blanks();
        let position = self.position.clone();
        let Some(first) = self.rest.chars().next() else {
            return Ok(None);
        };
        let starts_line = std::mem::take(&mut self.starts_line);
        let (text, is_quoted) = match first {
            '"' | '`' => {
                self.advance();
                (self.quoted(first, &position)?, true)
            }
            _ => match self.heredoc(&position)? {
                Some(text) => (text, true),
                None => (self.bare(), false),
            },
        };
        Ok(Some(CaddyToken {
            text,
            position,
            starts_line,
            is_quoted,
        }))
    }

    fn skip_blanks(&mut self) {
        let mut is_comment = false;
        while let Some(c) = self.rest.chars().next() {
            match c {
                '\n' => {
                    is_comment = false;
                    self.starts_line = true;
                }
                _ if is_comment => {}
                '#' => is_comment = true,
                '\\' if self.joins_lines() => {
                    // The line end behind it is no end.
                    while self.advance() != Some('\n') {}
                    continue;
                }
                c if c.is_whitespace() => {}
                _ => return,
            }
            self.advance();
        }
    }

    /// Returns true if a backslash stands at the end of a line.
    fn joins_lines(&self) -> bool {
        self.rest.starts_with("\\\n") || self.rest.starts_with("\\\r\n")
    }

    /// Reads a text up to its quote. A backslash takes a double quote as it is, and nothing else.
    fn quoted(&mut self, quote: char, start: &Position) -> Result<String, SyntaxError> {
        let mut word = String::new();
        loop {
            match self.advance() {
                None => {
                    let message = format!("the text has no end; write {quote} behind it");
                    return Err(start.error(message));
                }
                Some(c) if c == quote => return Ok(word),
                Some('\\') if quote == '"' && self.rest.starts_with('"') => {
                    word.extend(self.advance());
                }
                Some(c) => word.push(c),
            }
        }
    }

    fn bare(&mut self) -> String {
        let mut word = String::new();
        while let Some(c) = self.rest.chars().next() {
            if c.is_whitespace() || (c == '\\' && self.joins_lines()) {
                break;
            }
            self.advance();
            // It only keeps the text from being that of several lines.
            if c != '\\' || !self.rest.starts_with('<') {
                word.push(c);
            }
        }
        word
    }

    /// Reads the lines of `<<END`; `None` where no such text begins.
    fn heredoc(&mut self, start: &Position) -> Result<Option<String>, SyntaxError> {
        let Some((head, _)) = self.rest.split_once('\n') else {
            return Ok(None);
        };
        let Some(marker) = head.trim_end_matches('\r').strip_prefix("<<") else {
            return Ok(None);
        };
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if marker.is_empty() || !marker.chars().all(is_name) {
            return Ok(None);
        }
        let marker = marker.to_owned();
        self.skip_line();
        let mut lines: Vec<String> = Vec::new();
        while !self.rest.is_empty() {
            let line = self.rest.split('\n').next().unwrap_or_default();
            if let Some((padding, _)) = line.split_once(&marker) {
                let length = padding.chars().count() + marker.chars().count();
                let padding = padding.to_owned();
                for _ in 0..length {
                    self.advance();
                }
                let lines = lines
                    .iter()
                    .map(|line| line.strip_prefix(&padding).unwrap_or(line.trim_start()));
                return Ok(Some(lines.collect::<Vec<_>>().join("\n")));
            }
            lines.push(line.trim_end_matches('\r').to_owned());
            self.skip_line();
        }
        Err(start.error(format!("the lines have no end; write {marker} behind them")))
    }

    fn skip_line(&mut self) {
        while !matches!(self.advance(), None | Some('\n')) {}
    }

    fn advance(&mut self) -> Option<char> {
        let c = self.rest.chars().next()?;
        self.rest = &self.rest[c.len_utf8()..];
        self.position.advance(c);
        Some(c)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        let found = tokens(&"c".into(), text).unwrap();
        let shown = |token: CaddyToken| match token.starts_line {
            true => format!("|{}", token.text),
            false => token.text,
        };
        found.into_iter().map(shown).collect()
    }

    /// Goal: words are those of Caddy. Method: quotes of both kinds, comments, joined lines, escapes, lines up to a marker.
    #[test]
    fn words_are_cut_as_caddy_cuts_them() {
        assert_eq!(words("a b#c # d\n\te \"f g\""), ["|a", "b#c", "|e", "f g"]);
        assert_eq!(
            words(r#""a \" \b" `c "d" \"`"#),
            [r#"|a " \b"#, r#"c "d" \""#]
        );
        assert_eq!(words("a \\\n b\nc"), ["|a", "b", "|c"]);
        assert_eq!(words("a\\\nb"), ["|a", "b"]);
        assert_eq!(words(r"a\.b \<<c"), [r"|a\.b", "<<c"]);
        assert_eq!(
            words("respond <<X\n\t\tone\n\t\t two\n\n\t\tX 200\nd"),
            ["|respond", "one\n two\n", "200", "|d"]
        );
        assert_eq!(words("{$A} {"), ["|{$A}", "{"]);
    }

    /// Goal: an open text is shown where it begins. Method: a quote, and lines without their marker.
    #[test]
    fn an_open_text_is_an_error_with_its_place() {
        let error = |text: &str| tokens(&"c".into(), text).unwrap_err().to_string();
        assert_eq!(
            error("x\n \"y"),
            "c:2:2: the text has no end; write \" behind it"
        );
        assert_eq!(
            error("x <<E\ny"),
            "c:1:3: the lines have no end; write E behind them"
        );
    }
}
