//! Cuts a line into words that spaces separate and quotes hold together.

use crate::scan;
use crate::text::{EscapeSyntax, RawText};

/// The rest of a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct WordCursor<'a>(pub(super) &'a [u8]);

impl<'a> WordCursor<'a> {
    /// Returns the next word, without the quotes around it; `None` at the end, or where a quote does not end.
    #[inline]
    pub(super) fn next(&mut self) -> Option<RawText<'a>> {
        while let [b' ', rest @ ..] = self.0 {
            self.0 = rest;
        }
        match self.0 {
            [] => None,
            [b'"', ..] => self.quoted(),
            _ => Some(RawText::plain(self.until(b' ')?)),
        }
    }

    /// Returns the next word if it is in quotes, without them.
    #[inline]
    pub(super) fn next_quoted(&mut self) -> Option<RawText<'a>> {
        while let [b' ', rest @ ..] = self.0 {
            self.0 = rest;
        }
        self.quoted()
    }

    /// Skips so many words.
    pub(super) fn skip(&mut self, words: usize) -> Option<()> {
        (0..words).try_for_each(|_| self.next().map(drop))
    }

    /// Returns the bytes before the next `end`, or all that are left, and goes behind it.
    #[inline]
    pub(super) fn until(&mut self, end: u8) -> Option<&'a [u8]> {
        let at = memchr::memchr(end, self.0).unwrap_or(self.0.len());
        let (word, rest) = self.0.split_at(at);
        self.0 = rest.get(1..).unwrap_or_default();
        (!word.is_empty()).then_some(word)
    }

    #[inline(always)]
    fn quoted(&mut self) -> Option<RawText<'a>> {
        let inside = self.0.strip_prefix(b"\"")?;
        let mut escapes = EscapeSyntax::None;
        let mut from = 0;
        loop {
            let at = from + scan::quote_or_backslash(inside.get(from..)?)?;
            if inside.get(at) == Some(&b'"') {
                let (text, rest) = inside.split_at(at);
                self.0 = rest.get(1..).unwrap_or_default();
                return Some(RawText::new(text, escapes));
            }
            escapes = EscapeSyntax::Backslash;
            from = at + 2;
        }
    }
}
