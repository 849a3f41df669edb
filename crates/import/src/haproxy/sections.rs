//! Parses an HAProxy configuration into sections of lines, each with its entry in the ledger.

use std::sync::Arc;

use super::lexer::{self, LineWords};
use crate::bounds;
use crate::ledger::{EntryId, Ledger};
use crate::position::{Position, SyntaxError};

/// The words that begin a section.
pub(crate) const SECTIONS: [&str; 19] = [
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
    "log-profile",
    "acme",
];

/// The words of lines that decide which lines are read, or print a message.
pub(crate) const PREPROCESSOR: [&str; 8] = [
    ".if", ".elif", ".else", ".endif", ".diag", ".notice", ".warning", ".alert",
];

/// The reason for which a condition on lines stands under "To fill in".
const BOTH_READ: &str = "its lines are imported whether it holds or not";

/// A section: its kind, its name, its lines.
#[derive(Clone, Debug)]
pub(super) struct ConfigSection {
    pub(super) id: EntryId,
    pub(super) kind: String,
    pub(super) name: String,
    /// The `defaults` section that it names.
    from: Option<String>,
    pub(super) lines: Vec<SectionLine>,
    /// Lines with values that stand in HAProxy's environment.
    pub(super) unread: Vec<SectionLine>,
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
    let mut condition = None;
    for (number, line) in text.lines().enumerate() {
        position.line = number + 1;
        let LineWords {
            words,
            has_variable,
        } = lexer::cut(line, &position)?;
        let Some(first) = words.first() else { continue };
        count += 1;
        if count > bounds::DIRECTIVES {
            let most = bounds::DIRECTIVES;
            return Err(position.error(format!("the input has more than {most} lines")));
        }
        let mut at = position.clone();
        at.column = line.len() - line.trim_start().len() + 1;
        let id = ledger.enter(at, &words.join(" "));
        if PREPROCESSOR.contains(&first.as_str()) {
            condition = preprocess(first, id, ledger);
            continue;
        }
        if let Some(condition) = condition.take() {
            ledger.left_out(condition, BOTH_READ);
            ledger.fill_in(format!("{}: {BOTH_READ}", ledger.comment(condition)));
        }
        if SECTIONS.contains(&first.as_str()) {
            sections.push(ConfigSection {
                id,
                kind: first.clone(),
                name: words.get(1).cloned().unwrap_or_default(),
                from: (words.iter().position(|word| word == "from"))
                    .and_then(|at| words.get(at + 1).cloned()),
                lines: Vec::new(),
                unread: Vec::new(),
            });
        } else if let Some(section) = sections.last_mut() {
            let lines = match has_variable {
                true => &mut section.unread,
                false => &mut section.lines,
            };
            lines.push(SectionLine { id, words });
        } else {
            return Err(position.error(format!(
                "{first:?} stands in no section; expected one of {}",
                SECTIONS.join(", ")
            )));
        }
    }
    Ok(sections)
}

/// Returns the entry of a line that decides whether the next lines are read; the other lines of the preprocessor change nothing.
fn preprocess(word: &str, id: EntryId, ledger: &mut Ledger) -> Option<EntryId> {
    ledger.left_out(id, "it changes nothing");
    matches!(word, ".if" | ".elif" | ".else").then_some(id)
}

/// Returns the lines that a section inherits, the latest first: those of the `defaults` section that it names, or of the last one before
/// it, and those that this one inherits.
pub(super) fn inherited<'s>(
    sections: &'s [ConfigSection],
    section: &ConfigSection,
) -> Vec<&'s SectionLine> {
    let mut lines = Vec::new();
    let mut defaults = defaults_of(sections, section);
    for _ in 0..bounds::DEPTH {
        let Some(found) = defaults else { break };
        lines.extend(found.lines.iter().rev());
        // Without a name, `defaults` begin anew.
        defaults = (found.from.is_some())
            .then(|| defaults_of(sections, found))
            .flatten();
    }
    lines
}

fn defaults_of<'s>(
    sections: &'s [ConfigSection],
    section: &ConfigSection,
) -> Option<&'s ConfigSection> {
    let mut before = sections
        .iter()
        .take_while(|it| it.id != section.id)
        .filter(|it| it.kind == "defaults");
    match &section.from {
        Some(name) => before.find(|it| it.name == *name),
        None => before.last(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a section inherits as in HAProxy: the last `defaults` before it, or the named one with what that inherits.
    /// Method: three sections of defaults, and frontends that name one or none.
    #[test]
    fn the_nearest_or_the_named_defaults_are_inherited() {
        let text = "defaults a\n mode tcp\ndefaults b from a\n retries 1\nfrontend x from a\nfrontend y from b\n\
             frontend z\ndefaults\n mode http\nbackend w\n";
        let sections = parse("h", text, &mut Ledger::default()).unwrap();
        let words = |name: &str| {
            let section = sections.iter().find(|it| it.name == name).unwrap();
            let lines = inherited(&sections, section).into_iter();
            lines.map(|line| line.words.join(" ")).collect::<Vec<_>>()
        };
        assert_eq!(words("x"), ["mode tcp"]);
        assert_eq!(words("y"), ["retries 1", "mode tcp"]);
        assert_eq!(words("z"), ["retries 1", "mode tcp"]);
        assert_eq!(words("w"), ["mode http"]);
    }
}
