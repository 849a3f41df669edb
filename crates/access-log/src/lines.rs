//! Splits a stream of bytes into lines of bounded length.
//!
//! # Limits
//! A line of more than [`MAX_LINE`] bytes is skipped to its end, in memory of a fixed size.

use std::io::{self, Read};

/// Longest line, in bytes: the gateway's own lines have at most 16 KiB, and 3 KiB for each of eight fields.
pub const MAX_LINE: usize = 64 * 1024;

/// Bytes that are read at once, and from which a format is detected.
const BUFFER: usize = 4 * MAX_LINE;

/// Reads lines.
pub(crate) struct LineSplitter {
    bytes: Box<dyn Read>,
    buffer: Vec<u8>,
    /// Bytes of the buffer that are not consumed.
    filled: std::ops::Range<usize>,
    /// The line that was found last, without its end.
    line: std::ops::Range<usize>,
    end: StreamEnd,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StreamEnd {
    Open,
    Reached,
}

/// The result of a search for the next line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextLine {
    /// [`LineSplitter::line`] returns it.
    Found,
    /// It was longer than [`MAX_LINE`], and skipped.
    TooLong,
    /// There is none.
    End,
}

impl LineSplitter {
    pub(crate) fn new(bytes: Box<dyn Read>) -> Self {
        Self {
            bytes,
            buffer: vec![0; BUFFER],
            filled: 0..0,
            line: 0..0,
            end: StreamEnd::Open,
        }
    }

    /// Returns the first bytes of the stream; for use before the first line.
    ///
    /// # Errors
    /// The error of the stream.
    pub(crate) fn sample(&mut self) -> io::Result<&[u8]> {
        self.fill()?;
        Ok(self.unread())
    }

    /// Finds the next line.
    ///
    /// # Errors
    /// The error of the stream.
    pub(crate) fn advance(&mut self) -> io::Result<NextLine> {
        let mut searched = 0;
        let mut is_skipping = false;
        loop {
            let unread = self.unread();
            if let Some(at) = memchr::memchr(b'\n', unread.get(searched..).unwrap_or_default()) {
                return Ok(self.take(searched + at, 1, is_skipping));
            }
            searched = unread.len();
            if self.end == StreamEnd::Reached {
                return Ok(match searched {
                    0 if !is_skipping => NextLine::End,
                    0 => NextLine::TooLong,
                    _ => self.take(searched, 0, is_skipping),
                });
            }
            if searched >= MAX_LINE {
                is_skipping = true;
                self.filled.start = self.filled.end;
                searched = 0;
            }
            self.fill()?;
        }
    }

    /// Returns the line that was found last.
    pub(crate) fn line(&self) -> &[u8] {
        self.buffer.get(self.line.clone()).unwrap_or_default()
    }

    fn unread(&self) -> &[u8] {
        self.buffer.get(self.filled.clone()).unwrap_or_default()
    }

    /// Consumes a line of `length` bytes and its end of `end` bytes.
    fn take(&mut self, length: usize, end: usize, is_skipping: bool) -> NextLine {
        let start = self.filled.start;
        self.line = start..start + length;
        self.filled.start = start + length + end;
        match is_skipping || length > MAX_LINE {
            true => NextLine::TooLong,
            false => NextLine::Found,
        }
    }

    /// Moves the unread bytes to the start of the buffer and fills it, or reaches the end of the stream.
    fn fill(&mut self) -> io::Result<()> {
        self.buffer.copy_within(self.filled.clone(), 0);
        self.filled = 0..self.filled.len();
        while self.end == StreamEnd::Open && self.filled.end < self.buffer.len() {
            let free = self.buffer.get_mut(self.filled.end..).unwrap_or_default();
            match self.bytes.read(free) {
                Ok(0) => self.end = StreamEnd::Reached,
                Ok(read) => self.filled.end += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    // Lines before the error are read first.
                    self.end = StreamEnd::Reached;
                    return Err(error);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns so many bytes at once.
    struct Pieces(io::Cursor<Vec<u8>>, usize);

    impl Read for Pieces {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let most = into.len().min(self.1);
            self.0.read(&mut into[..most])
        }
    }

    fn split(text: &[u8], piece: usize) -> Vec<Option<Vec<u8>>> {
        let mut splitter =
            LineSplitter::new(Box::new(Pieces(io::Cursor::new(text.to_vec()), piece)));
        let mut found = Vec::new();
        loop {
            match splitter.advance().unwrap() {
                NextLine::Found => found.push(Some(splitter.line().to_vec())),
                NextLine::TooLong => found.push(None),
                NextLine::End => return found,
            }
        }
    }

    /// Goal: a line that never ends takes no memory and costs one line. Method: lines around the longest one, with and without an end.
    #[test]
    fn long_lines_are_skipped() {
        let long = vec![b'x'; MAX_LINE];
        let longer = vec![b'x'; MAX_LINE + 1];
        let huge = vec![b'x'; 3 * BUFFER + 7];
        for piece in [1_000, BUFFER] {
            let text = [&b"a\n"[..], &long, b"\n", &longer, b"\nb\n", &huge, b"\nc"].concat();
            let line = |text: &[u8]| Some(text.to_vec());
            assert_eq!(
                split(&text, piece),
                [line(b"a"), line(&long), None, line(b"b"), None, line(b"c")]
            );
            assert_eq!(split(&huge, piece), [None]);
        }
    }

    proptest! {
        /// Goal: lines are the same however the bytes arrive. Method: any text in pieces of any size.
        #[test]
        fn lines_do_not_depend_on_pieces(text in "[ab\n]{0,60}", piece in 1_usize..9) {
            let expected: Vec<_> = text.lines().map(|line| Some(line.as_bytes().to_vec())).collect();
            prop_assert_eq!(split(text.as_bytes(), piece), expected);
        }
    }
}
