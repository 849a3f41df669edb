//! Splits a stream of bytes into lines of bounded length.
//!
//! A file that logrotate's `copytruncate` has emptied begins with NULs up to the place at which its server goes on to write; a crash leaves
//! NULs too. They belong to no line: a NUL ends the line before it, and any number of them is skipped.
//!
//! # Limits
//! A line of more than [`MAX_LINE`] bytes is skipped to its end, in memory of a fixed size.

use std::io::{self, Read};

/// Longest line, in bytes: the gateway's own lines have at most 16 KiB, and 3 KiB for each of eight fields.
pub const MAX_LINE: usize = 64 * 1024;

/// Bytes that are read at once, and from which a format is detected.
const BUFFER: usize = 4 * MAX_LINE;

/// The mark that some editors and servers put before a text in UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Reads lines.
pub(crate) struct LineSplitter {
    bytes: Box<dyn Read>,
    buffer: Vec<u8>,
    /// Bytes of the buffer that are not consumed.
    filled: std::ops::Range<usize>,
    /// The line that was found last, without its end.
    line: std::ops::Range<usize>,
    end: StreamEnd,
    /// NULs that were skipped.
    nul_bytes: u64,
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
            nul_bytes: 0,
        }
    }

    /// Returns the first bytes of the stream, without NULs and a mark of the byte order before them; for use before the first line.
    ///
    /// # Errors
    /// The error of the stream.
    pub(crate) fn sample(&mut self) -> io::Result<&[u8]> {
        self.fill()?;
        if self.unread().first() == Some(&0) {
            self.skip_nuls()?;
            self.fill()?;
        }
        if self.unread().starts_with(BYTE_ORDER_MARK) {
            self.filled.start += BYTE_ORDER_MARK.len();
        }
        Ok(self.unread())
    }

    /// Returns the number of NULs that were skipped.
    pub(crate) const fn nul_bytes(&self) -> u64 {
        self.nul_bytes
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
            let behind = unread.get(searched..).unwrap_or_default();
            if let Some(at) = memchr::memchr2(b'\n', 0, behind) {
                let length = searched + at;
                let is_nul = behind.get(at) == Some(&0);
                if is_nul && length == 0 && !is_skipping {
                    self.skip_nuls()?;
                    continue;
                }
                return Ok(self.take(length, usize::from(!is_nul), is_skipping));
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

    /// Skips the NULs that come next, up to another byte or the end of the stream.
    #[cold]
    fn skip_nuls(&mut self) -> io::Result<()> {
        loop {
            let unread = self.unread();
            let other = unread.iter().position(|byte| *byte != 0);
            let nuls = other.unwrap_or(unread.len());
            self.filled.start += nuls;
            self.nul_bytes += nuls as u64;
            if other.is_some() || self.end == StreamEnd::Reached {
                return Ok(());
            }
            self.fill()?;
        }
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

    /// Goal: NULs of any number cost no line. Method: runs of NULs shorter and longer than a line and than the buffer, before the first
    /// line, between two, inside of one, at the end, and alone.
    #[test]
    fn nuls_are_skipped() {
        let line = |text: &[u8]| Some(text.to_vec());
        for length in [1, 7, MAX_LINE + 1, 3 * BUFFER + 7] {
            let nuls = vec![0; length];
            for piece in [1_000, BUFFER] {
                let text = [&nuls[..], b"a\n", &nuls, b"b", &nuls, b"c\n", &nuls].concat();
                assert_eq!(split(&text, piece), [line(b"a"), line(b"b"), line(b"c")]);
                assert_eq!(split(&nuls, piece), []);
            }
            let text = [&nuls[..], BYTE_ORDER_MARK, b"a\n"].concat();
            let mut splitter = LineSplitter::new(Box::new(io::Cursor::new(text)));
            assert_eq!(splitter.sample().unwrap(), b"a\n");
            assert_eq!(splitter.nul_bytes(), length as u64);
        }
    }

    proptest! {
        /// Goal: lines are the same however the bytes arrive. Method: any text in pieces of any size.
        #[test]
        fn lines_do_not_depend_on_pieces(text in "[ab\n\u{0}]{0,60}", piece in 1_usize..9) {
            // A run of NULs is a line end, unless no line is before it.
            let ended = text.split('\n').map(|part| part.split('\0').filter(|line| !line.is_empty()).collect::<Vec<_>>());
            let mut expected = Vec::new();
            let mut parts = text.split('\n').zip(ended).peekable();
            while let Some((part, lines)) = parts.next() {
                expected.extend(lines.iter().map(|line| Some(line.as_bytes().to_vec())));
                // The end of the stream ends no empty line.
                if parts.peek().is_some() && (part.is_empty() || part.ends_with('\0')) {
                    expected.push(Some(Vec::new()));
                }
            }
            prop_assert_eq!(split(text.as_bytes(), piece), expected);
        }
    }
}
