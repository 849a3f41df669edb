//! Knows where in a file a byte stands, and draws the line around it.
//!
//! Lines and columns are counted as editors do: from 1, in characters. The drawing shows a tab as four spaces, other control
//! characters as `�` (a configuration must not be able to drive a terminal), and of a long line the part that matters.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Spaces that a tab is drawn as.
const TAB: usize = 4;
/// Characters of a line that are drawn, so that one stays a line on a wide terminal.
const DRAWN: usize = 140;
/// Characters kept before the place, where the line is too long.
const BEFORE: usize = 60;

/// A file among those of a configuration.
#[derive(Clone, Debug)]
pub(super) struct SourceFile {
    pub(super) file: Arc<str>,
    /// The byte of the text at which it begins, which begins a line.
    pub(super) start: usize,
}

/// Files, and their texts behind each other.
#[derive(Debug)]
pub(super) struct SourceText<'t> {
    /// At least one; the first begins at 0.
    parts: Vec<SourceFile>,
    pub(super) text: &'t str,
    /// The offset of each line's first byte; the first is 0.
    starts: Vec<usize>,
}

/// A line with a part of it underlined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Excerpt {
    /// The part of the line that is drawn, with tabs as spaces and control characters replaced.
    text: String,
    /// Columns of the drawing before the marked part.
    indent: usize,
    /// Columns of the marked part, at least 1.
    width: usize,
}

impl<'t> SourceText<'t> {
    pub(super) fn new(file: &str, text: &'t str) -> Self {
        let part = SourceFile {
            file: file.into(),
            start: 0,
        };
        Self::of_parts(vec![part], text)
    }

    /// Several files whose texts stand behind each other.
    pub(super) fn of_parts(parts: Vec<SourceFile>, text: &'t str) -> Self {
        let after_breaks = text.match_indices('\n').map(|(at, _)| at + 1);
        Self {
            parts,
            text,
            starts: std::iter::once(0).chain(after_breaks).collect(),
        }
    }

    /// The name of each file, and the bytes that it has.
    pub(super) fn files(&self) -> impl Iterator<Item = (&str, Range<usize>)> {
        let ends = self.parts.iter().skip(1).map(|part| part.start);
        let ends = ends.chain([self.text.len()]);
        let spans = self.parts.iter().zip(ends);
        spans.map(|(part, end)| (&*part.file, part.start..end))
    }

    /// The text of a span; what lies outside the file is left out.
    pub(super) fn slice(&self, span: &Range<usize>) -> &'t str {
        let start = self.text.floor_char_boundary(span.start);
        let end = self.text.floor_char_boundary(span.end.max(start));
        &self.text[start..end]
    }

    /// The name of the file that has a byte.
    pub(super) fn file(&self, offset: usize) -> Arc<str> {
        let part = self.part(offset).map(|part| Arc::clone(&part.file));
        part.unwrap_or_default()
    }

    /// The line of a byte in its file, from 1.
    pub(super) fn line(&self, offset: usize) -> usize {
        let before = self.part(offset).map_or(0, |part| part.start);
        self.line_of_all(offset) + 1 - self.line_of_all(before)
    }

    /// The line of a byte in all texts, from 1.
    pub(super) fn line_of_all(&self, offset: usize) -> usize {
        self.starts.partition_point(|start| *start <= offset)
    }

    fn part(&self, offset: usize) -> Option<&SourceFile> {
        let behind = self.parts.partition_point(|part| part.start <= offset);
        self.parts.get(behind.saturating_sub(1))
    }

    /// The column of a byte in its line, from 1, in characters.
    pub(super) fn column(&self, offset: usize) -> usize {
        let start = self.line_span(offset).start;
        self.slice(&(start..offset)).chars().count() + 1
    }

    /// The line around a span, with the part of the span that lies in it marked.
    pub(super) fn excerpt(&self, span: &Range<usize>) -> Excerpt {
        let line = self.line_span(span.start);
        let from = self.column(span.start) - 1;
        let marked = self
            .slice(&(span.start..span.end.min(line.end)))
            .chars()
            .count();
        let characters: Vec<char> = self.slice(&line).chars().collect();
        let first = if characters.len() > DRAWN {
            from.saturating_sub(BEFORE)
        } else {
            0
        };
        let last = characters.len().min(first + DRAWN);
        let drawn = |range: Range<usize>| -> String {
            characters
                .get(range)
                .unwrap_or_default()
                .iter()
                .map(|character| match character {
                    '\t' => " ".repeat(TAB),
                    control if control.is_control() => '\u{fffd}'.to_string(),
                    plain => plain.to_string(),
                })
                .collect()
        };
        let cut = |is_cut| if is_cut { "…" } else { "" };
        let before = cut(first > 0);
        let after = cut(last < characters.len());
        let width = |text: &str| text.chars().count();
        Excerpt {
            text: format!("{before}{}{after}", drawn(first..last)),
            indent: width(before) + width(&drawn(first..from)),
            width: width(&drawn(from..last.min(from + marked))).max(1),
        }
    }

    /// The line of a byte without its end.
    pub(super) fn line_span(&self, offset: usize) -> Range<usize> {
        let line = self.line_of_all(offset);
        let start = self.starts.get(line - 1).copied().unwrap_or_default();
        let end = self.starts.get(line).copied().unwrap_or(self.text.len());
        let text = self.slice(&(start..end));
        start..start + text.trim_end_matches(['\n', '\r']).len()
    }
}

impl Excerpt {
    /// Draws the line with its number and a run of carets, as rustc does.
    pub(super) fn draw(&self, line: usize, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = line.to_string();
        let margin = " ".repeat(number.len());
        let indent = " ".repeat(self.indent);
        let carets = "^".repeat(self.width);
        writeln!(into, " {margin} |")?;
        writeln!(into, " {number} | {}", self.text.trim_end())?;
        writeln!(into, " {margin} | {indent}{carets}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Drawn(Excerpt);

    impl fmt::Display for Drawn {
        fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
            self.0.draw(2, into)
        }
    }

    /// Goal: an editor that is sent to line and column stops at the right character. Method: characters of several bytes.
    #[test]
    fn lines_and_columns_count_characters_from_one() {
        let source = SourceText::new("f", "a\nβγ = 1\r\n");
        assert_eq!((source.line(0), source.column(0)), (1, 1));
        assert_eq!((source.line(2), source.column(2)), (2, 1));
        assert_eq!((source.line(7), source.column(7)), (2, 4));
        assert_eq!((source.line(99), source.column(99)), (3, 1));
    }

    /// Goal: carets stand under what is meant. Method: a tab before it, an escape sequence in it, and a carriage return.
    #[test]
    fn tabs_and_control_characters_keep_the_carets_in_place() {
        let text = "x\n\tkey = \u{1b}[0m\r\n";
        let start = text.find("key").unwrap();
        let excerpt = SourceText::new("f", text).excerpt(&(start..start + 3));
        assert_eq!(
            Drawn(excerpt).to_string(),
            "   |\n 2 |     key = \u{fffd}[0m\n   |     ^^^\n"
        );
    }

    /// Goal: a minified file does not flood the terminal. Method: a place far inside a line of 10,000 characters.
    #[test]
    fn of_a_long_line_the_part_around_the_place_is_drawn() {
        let text = "y".repeat(10_000);
        let excerpt = SourceText::new("f", &text).excerpt(&(5_000..5_003));
        assert_eq!(excerpt.text.chars().count(), DRAWN + 2);
        assert_eq!((excerpt.indent, excerpt.width), (BEFORE + 1, 3));
    }
}
