//! Splits the bytes of a head into lines.

use crate::violation::RuleViolation;

/// An iterator over the lines of some bytes.
pub(crate) struct LineScanner<'a> {
    rest: &'a [u8],
    /// Bytes passed.
    pub(crate) at: usize,
}

/// One line, without its end.
pub(crate) enum HeadLine<'a> {
    /// A line whose end is not here yet.
    Partial(&'a [u8]),
    Whole(&'a [u8]),
}

impl<'a> LineScanner<'a> {
    /// Returns the lines of `read` from `at` on.
    pub(crate) fn new(read: &'a [u8], at: usize) -> Self {
        Self {
            rest: read.get(at..).unwrap_or_default(),
            at,
        }
    }

    pub(crate) fn next(&mut self) -> Result<HeadLine<'a>, RuleViolation> {
        let Some(feed) = memchr::memchr(b'\n', self.rest) else {
            return Ok(HeadLine::Partial(self.rest));
        };
        let (line, rest) = self.rest.split_at(feed + 1);
        self.rest = rest;
        self.at += line.len();
        match line {
            // A bare carriage return is valid in no method, target, version, name or value.
            [text @ .., b'\r', b'\n'] => Ok(HeadLine::Whole(text)),
            _ => Err(RuleViolation::LineEnd),
        }
    }
}
