//! Parses an HAProxy configuration into sections of lines, each with its entry in the ledger.

use std::sync::Arc;

use super::lexer;
use crate::bounds;
use crate::ledger::{EntryId, Ledger};
use crate::position::{Position, SyntaxError};

/// The words that begin a section.
const SECTIONS: [&str; 17] = [
    "global",
    "defaults",
    "frontend",
    "backend",
    "listen",
    "peers",
    "resolvers",
    "userlist",
    "cache",
    "program",
    "mailers",
    "ring",
    "http-errors",
    "log-forward",
    "fcgi-app",
    "traces",
    "crt-store",
];

/// A section: its kind, its name, its lines.
#[derive(Clone, Debug)]
pub(super) struct ConfigSection {
    pub(super) id: EntryId,
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) lines: Vec<SectionLine>,
}

/// A line with its words.
#[derive(Clone, Debug)]
pub(super) struct SectionLine {
    pub(super) id: EntryId,
    pub(super) words: Vec<String>,
}

impl SectionLine {
    /// Returns a word; empty behind the last one.
    pub(super) fn word(&self, at: usize) -> &str {
        self.words.get(at).map_or("", String::as_str)
    }

    /// Returns true if the line begins with these words.
    pub(super) fn starts(&self, words: &[&str]) -> bool {
        words
            .iter()
            .enumerate()
            .all(|(at, word)| self.word(at) == *word)
    }

    /// Returns the word behind this one.
    pub(super) fn behind(&self, name: &str) -> Option<&str> {
        let at = self.words.iter().position(|word| word == name)?;
        self.words.get(at + 1).map(String::as_str)
    }
}

impl ConfigSection {
    /// Returns the lines that begin with this word.
    pub(super) fn named<'s>(&'s self, name: &'static str) -> impl Iterator<Item = &'s SectionLine> {
        self.lines.iter().filter(move |line| line.word(0) == name)
    }
}

/// Parses a text.
pub(super) fn parse(
    name: &str,
    text: &str,
    ledger: &mut Ledger,
) -> Result<Vec<ConfigSection>, SyntaxError> {
    let file: Arc<str> = name.into();
    let mut position = Position::start(&file);
    if text.len() > bounds::INPUT_BYTES {
        let most = bounds::INPUT_BYTES;
        return Err(position.error(format!("the input has more than {most} bytes")));
    }
    let mut sections: Vec<ConfigSection> = Vec::new();
    let mut count = 0;
    for (number, line) in text.lines().enumerate() {
        position.line = number + 1;
        let words = lexer::words(line, &position)?;
        let Some(first) = words.first() else { continue };
        count += 1;
        if count > bounds::DIRECTIVES {
            let most = bounds::DIRECTIVES;
            return Err(position.error(format!("the input has more than {most} lines")));
        }
        let mut at = position.clone();
        at.column = line.len() - line.trim_start().len() + 1;
        let id = ledger.enter(at, &words.join(" "));
        if SECTIONS.contains(&first.as_str()) {
            sections.push(ConfigSection {
                id,
                kind: first.clone(),
                name: words.get(1).cloned().unwrap_or_default(),
                lines: Vec::new(),
            });
        } else if let Some(section) = sections.last_mut() {
            section.lines.push(SectionLine { id, words });
        } else {
            return Err(position.error(format!(
                "{first:?} stands in no section; expected one of {}",
                SECTIONS.join(", ")
            )));
        }
    }
    Ok(sections)
}
