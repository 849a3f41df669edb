//! Splits the bytes of a head into lines.

use crate::fields::{self, FieldLine};
use crate::head::HeadProgress;
use crate::violation::RuleViolation;

/// The line ends that a head may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineEnds {
    /// CR LF alone, in requests: a server behind the gateway may not take a bare line feed for a line end.
    CrLf,
    /// CR LF or LF, in responses (RFC 9112 §2.2), whose lines are written anew for the client.
    CrLfOrLf,
}

/// An iterator over the lines of some bytes.
pub(crate) struct LineScanner<'a> {
    rest: &'a [u8],
    ends: LineEnds,
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
    pub(crate) fn new(read: &'a [u8], at: usize, ends: LineEnds) -> Self {
        Self {
            rest: read.get(at..).unwrap_or_default(),
            ends,
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
            [text @ .., b'\n'] if self.ends == LineEnds::CrLfOrLf => Ok(HeadLine::Whole(text)),
            _ => Err(RuleViolation::LineEnd),
        }
    }

    /// Passes each field line with its position to `add`, up to the empty line that ends a head. Afterwards [`at`](Self::at) is the
    /// position behind the lines that were whole.
    ///
    /// # Errors
    /// That of `add`, or a line is malformed as far as it is here.
    pub(crate) fn fields(
        &mut self,
        mut add: impl FnMut(FieldLine<'a>, usize) -> Result<(), RuleViolation>,
    ) -> Result<HeadProgress, RuleViolation> {
        loop {
            let start = self.at;
            if let Some(line) = FieldLine::find_usual(self.rest) {
                self.rest = &self.rest[line.bytes..];
                self.at += line.bytes;
                add(line, start)?;
                continue;
            }
            match self.next()? {
                HeadLine::Partial(line) => {
                    fields::check_beginning(line)?;
                    return Ok(HeadProgress::Partial);
                }
                HeadLine::Whole([]) => return Ok(HeadProgress::Whole(self.at)),
                HeadLine::Whole(line) => add(FieldLine::parse(line, self.at - start)?, start)?,
            }
        }
    }
}
