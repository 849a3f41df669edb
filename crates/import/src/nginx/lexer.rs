//! Cuts the text of an nginx configuration into words, semicolons and braces.
//!
//! The rules are those of nginx's `ngx_conf_read_token`: a word ends at white space, `;` or `{`; a quote at its beginning makes it end at
//! the same quote; a backslash takes the next character as it is; `${` belongs to the word, with its `}`.

use std::sync::Arc;

use crate::position::{Position, SyntaxError};

/// A token with the place where it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LexerToken {
    pub(super) kind: TokenKind,
    pub(super) position: Position,
}

/// The kind of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TokenKind {
    Word(String),
    /// `;`
    End,
    /// `{`
    Open,
    /// `}`
    Close,
}

/// Reads tokens one after the other.
pub(super) struct NginxLexer<'t> {
    rest: std::iter::Peekable<std::str::Chars<'t>>,
    position: Position,
}

impl<'t> NginxLexer<'t> {
    pub(super) fn new(file: &Arc<str>, text: &'t str) -> Self {
        Self {
            rest: text
                .strip_prefix('\u{feff}')
                .unwrap_or(text)
                .chars()
                .peekable(),
            position: Position::start(file),
        }
    }

    /// Returns the place of the next character.
    pub(super) fn position(&self) -> &Position {
        &self.position
    }

    /// Returns the next token; `None` at the end of the text.
    pub(super) fn next_token(&mut self) -> Result<Option<LexerToken>, SyntaxError> {
        self.skip_blanks();
        let position = self.position.clone();
        let Some(&first) = self.rest.peek() else {
            return Ok(None);
        };
        let kind = match first {
            ';' => TokenKind::End,
            '{' => TokenKind::Open,
            '}' => TokenKind::Close,
            '"' | '\'' => {
                self.advance();
                TokenKind::Word(self.quoted(first, &position)?)
            }
            _ => TokenKind::Word(self.bare()),
        };
        if !matches!(kind, TokenKind::Word(_)) {
            self.advance();
        }
        Ok(Some(LexerToken { kind, position }))
    }

    /// Skips the text up to the brace that ends a block which holds no directives, such as Lua; `comment` begins a comment in it. The brace
    /// that opens it was read.
    pub(super) fn skip_block(&mut self, comment: &str) -> Result<(), SyntaxError> {
        let start = self.position.clone();
        let mut depth = 1_usize;
        let mut line = String::new();
        while let Some(c) = self.advance() {
            line.push(c);
            if c == '\n' {
                line.clear();
            }
            if line.ends_with(comment) {
                while self.rest.peek().is_some_and(|c| *c != '\n') {
                    self.advance();
                }
                continue;
            }
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                '"' | '\'' => drop(self.quoted(c, &start)?),
                _ => {}
            }
            if depth == 0 {
                return Ok(());
            }
        }
        Err(start.error("the block has no end; write } behind it"))
    }

    fn skip_blanks(&mut self) {
        let mut is_comment = false;
        while let Some(&c) = self.rest.peek() {
            match c {
                '\n' => is_comment = false,
                _ if is_comment => {}
                '#' => is_comment = true,
                c if c.is_ascii_whitespace() => {}
                _ => return,
            }
            self.advance();
        }
    }

    fn quoted(&mut self, quote: char, start: &Position) -> Result<String, SyntaxError> {
        let mut word = String::new();
        loop {
            match self.advance() {
                None => {
                    return Err(
                        start.error(format!("the text has no end; write {quote} behind it"))
                    );
                }
                Some(c) if c == quote => return Ok(word),
                Some('\\') => self.escaped(&mut word),
                Some(c) => word.push(c),
            }
        }
    }

    fn bare(&mut self) -> String {
        let mut word = String::new();
        while let Some(&c) = self.rest.peek() {
            match c {
                '{' if word.ends_with('$') => {}
                ';' | '{' => break,
                c if c.is_ascii_whitespace() => break,
                _ => {}
            }
            self.advance();
            if c == '\\' {
                self.escaped(&mut word);
            } else {
                word.push(c);
            }
        }
        word
    }

    /// Takes the character behind a backslash. nginx drops the backslash before quotes and backslashes only; expressions keep theirs.
    fn escaped(&mut self, word: &mut String) {
        match self.advance() {
            Some(c @ ('"' | '\'' | '\\')) => word.push(c),
            Some('t') => word.push('\t'),
            Some('r') => word.push('\r'),
            Some('n') => word.push('\n'),
            Some(c) => {
                word.push('\\');
                word.push(c);
            }
            None => word.push('\\'),
        }
    }

    fn advance(&mut self) -> Option<char> {
        let c = self.rest.next()?;
        self.position.advance(c);
        Some(c)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        let mut lexer = NginxLexer::new(&"a".into(), text);
        let mut found = Vec::new();
        while let Some(token) = lexer.next_token().unwrap() {
            found.push(match token.kind {
                TokenKind::Word(word) => word,
                TokenKind::End => ";".to_owned(),
                TokenKind::Open => "{".to_owned(),
                TokenKind::Close => "}".to_owned(),
            });
        }
        found
    }

    /// Goal: words are those of nginx. Method: quotes, escapes, comments, variables in braces, tokens without blanks between them.
    #[test]
    fn words_are_cut_as_nginx_cuts_them() {
        assert_eq!(
            words("a b;c{d;}# e\nf"),
            ["a", "b", ";", "c", "{", "d", ";", "}", "f"]
        );
        assert_eq!(words("\"a;b\" 'c d' e\"f"), ["a;b", "c d", "e\"f"]);
        assert_eq!(words("a${b}c;"), ["a${b}c", ";"]);
        assert_eq!(words(r"~ \.php$ a\ b"), ["~", r"\.php$", r"a\ b"]);
        assert_eq!(words("a#b"), ["a#b"]);
    }

    /// Goal: an open quote is shown where it begins. Method: one on the second line.
    #[test]
    fn an_open_quote_is_an_error_with_its_place() {
        let mut lexer = NginxLexer::new(&"a".into(), "x\n 'y;");
        lexer.next_token().unwrap();
        let error = lexer.next_token().unwrap_err();
        assert_eq!(
            error.to_string(),
            "a:2:2: the text has no end; write ' behind it"
        );
    }
}
