//! Names places in the input, and says what is wrong there.

use std::fmt;
use std::sync::Arc;

/// A place in a file of the input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// The name of the file.
    pub file: Arc<str>,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
}

/// The first place at which a text is not of the format that it was read as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    /// The place.
    pub position: Position,
    /// Names what was found there, and what was expected.
    pub message: String,
}

impl Position {
    /// Returns the first place of a file.
    pub(crate) fn start(file: &Arc<str>) -> Self {
        Self {
            file: Arc::clone(file),
            line: 1,
            column: 1,
        }
    }

    /// Moves behind a character.
    pub(crate) fn advance(&mut self, c: char) {
        if c == '\n' {
            self.line += 1;
            self.column = 1;
        } else {
            self.column += 1;
        }
    }

    /// Returns an error at this place.
    pub(crate) fn error(&self, message: impl Into<String>) -> SyntaxError {
        SyntaxError {
            position: self.clone(),
            message: message.into(),
        }
    }
}

/// Writes file and line, which is what an editor needs to find a directive.
impl fmt::Display for Position {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(into, "{}:{}", self.file, self.line)
    }
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            into,
            "{}:{}: {}",
            self.position, self.position.column, self.message
        )
    }
}

impl std::error::Error for SyntaxError {}
