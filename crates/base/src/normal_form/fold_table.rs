//! Owns the folds of all characters: a table that `tests/collation/fold.py` generates from the data of the Unicode collation algorithm.

use std::ops::RangeInclusive;
use std::sync::LazyLock;

use super::code_points::CodePointMap;
use super::fold_buffer::{EARLIER, FoldBuffer, JOINING, LATER};

/// Lines of the text that characters fold to, a tab, and the characters.
const LINES: &str = include_str!("fold.tsv");

static TABLE: LazyLock<FoldTable> = LazyLock::new(|| FoldTable::parse(LINES));

/// The number of a character's fold: one of the constants, a character of ASCII, or the place of a text in the table.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct FoldEntry(u16);

impl FoldEntry {
    /// The character itself, which joins nothing.
    pub(super) const SAME: Self = Self(0);
    /// Nothing: a mark on another character.
    const MARK: Self = Self(1);
    /// Nothing: a character that nobody sees.
    pub(super) const INVISIBLE: Self = Self(2);
    /// The character itself, in front of the vowels that go behind it.
    const EARLIER: Self = Self(3);
    /// The character itself, behind the consonants around it.
    const LATER: Self = Self(4);
    /// The character itself, or one with the character in front of it.
    const JOINING: Self = Self(5);

    const FIRST_TEXT: u16 = 0x80;
}

/// The folds of all characters.
pub(super) struct FoldTable {
    entries: CodePointMap,
    texts: Vec<FoldedText>,
}

enum FoldedText {
    /// One character with the entry [`FoldEntry::SAME`].
    Letter(char),
    /// Several of them.
    Plain(Box<str>),
    /// Characters of which some have other entries.
    Joining(Box<str>),
}

impl FoldTable {
    /// Returns the table, which is made at the first call.
    pub(super) fn get() -> &'static Self {
        &TABLE
    }

    #[inline]
    pub(super) fn entry(&self, letter: char) -> FoldEntry {
        FoldEntry(self.entries.get(letter))
    }

    /// Appends what `letter`, which has this entry, folds to.
    #[inline]
    pub(super) fn push(&self, letter: char, entry: FoldEntry, buffer: &mut FoldBuffer) {
        match entry {
            FoldEntry::MARK | FoldEntry::INVISIBLE => {}
            FoldEntry::EARLIER => buffer.push_earlier(letter),
            FoldEntry::LATER => buffer.push_later(letter),
            FoldEntry::JOINING => buffer.push_joining(letter),
            FoldEntry::SAME => buffer.push(letter),
            FoldEntry(ascii @ ..FoldEntry::FIRST_TEXT) => {
                buffer.push(char::from((ascii & 0x7f) as u8))
            }
            FoldEntry(text) => match self.texts.get(usize::from(text - FoldEntry::FIRST_TEXT)) {
                Some(FoldedText::Letter(letter)) => buffer.push(*letter),
                Some(FoldedText::Plain(text)) => buffer.push_str(text),
                Some(FoldedText::Joining(text)) => self.push_all(text, buffer),
                None => {}
            },
        }
    }

    fn push_all(&self, text: &str, buffer: &mut FoldBuffer) {
        for letter in text.chars() {
            self.push(letter, self.entry(letter), buffer);
        }
    }

    /// Parses the generated lines. A test checks that each of them can be read.
    fn parse(lines: &str) -> Self {
        let mut table = Self {
            entries: CodePointMap::new(),
            texts: Vec::new(),
        };
        for (letters, entry) in [
            (&EARLIER[..], FoldEntry::EARLIER),
            (&LATER[..], FoldEntry::LATER),
            (&JOINING[..], FoldEntry::JOINING),
        ] {
            for letter in letters.iter().cloned().flatten() {
                table.entries.insert(letter, entry.0);
            }
        }
        for line in lines.lines().filter(|line| !line.starts_with('#')) {
            let (name, letters) = line.split_once('\t').unwrap_or_default();
            let entry = match name {
                "mark" => FoldEntry::MARK,
                "invisible" => FoldEntry::INVISIBLE,
                codes => table.add_text(codes),
            };
            for letter in letters.split(' ').filter_map(range).flatten() {
                table.entries.insert(letter, entry.0);
            }
        }
        table
    }

    /// Adds the text of these code points, all of which fold to themselves, and returns its entry.
    fn add_text(&mut self, codes: &str) -> FoldEntry {
        let letters: Vec<char> = codes.split(' ').filter_map(character).collect();
        let mut buffer = FoldBuffer::with_capacity(0);
        for letter in &letters {
            self.push(*letter, self.entry(*letter), &mut buffer);
        }
        let text = buffer.finish();
        let is_plain = |letter| self.entry(letter) == FoldEntry::SAME;
        let text = match text.as_bytes() {
            [ascii] => return FoldEntry(u16::from(*ascii)),
            _ if !text.chars().all(is_plain) => FoldedText::Joining(text.into_boxed_str()),
            _ => match letters[..] {
                [letter] => FoldedText::Letter(letter),
                _ => FoldedText::Plain(text.into_boxed_str()),
            },
        };
        let entry = u16::try_from(self.texts.len()).unwrap_or(0) + FoldEntry::FIRST_TEXT;
        self.texts.push(text);
        FoldEntry(entry)
    }
}

/// Parses `0041` or `0041-005A`.
fn range(text: &str) -> Option<RangeInclusive<char>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    Some(character(first)?..=character(last)?)
}

fn character(code: &str) -> Option<char> {
    char::from_u32(u32::from_str_radix(code, 16).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the table is complete. Method: every line has a text of characters that fold to themselves and its characters, none of which
    /// has two.
    #[test]
    fn every_line_is_read() {
        let table = FoldTable::get();
        let mut seen = std::collections::HashSet::new();
        for line in LINES.lines().skip(1) {
            let (name, letters) = line.split_once('\t').expect(line);
            for code in name
                .split(' ')
                .filter(|_| name != "mark" && name != "invisible")
            {
                let entry = table.entry(character(code).expect(line));
                assert!(
                    entry == FoldEntry::SAME || (3..6).contains(&entry.0),
                    "{line}"
                );
            }
            for letters in letters.split(' ') {
                let letters = range(letters).expect(line);
                letters.for_each(|letter| assert!(seen.insert(letter), "{letter:?}"));
            }
        }
        assert!(seen.len() > 10_000);
    }
}
