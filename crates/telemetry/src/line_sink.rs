//! Owns the open file that lines are written to, or the way to a syslog server, and the lines that are not written yet.
//!
//! # Invariants
//!
//! 1. [`UnwrittenLines`] begins at the start of a line and ends at the end of one.
//! 2. A write that the system cut short goes on in the same file at the byte where it stopped; towards another file it goes
//!    back to the start of that line. So no file ever holds the end of a line without its start.
//! 3. A file whose last line was left unfinished, by a full disk and then a kill, is given a line feed when it is opened.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::line_buffers::StampedLines;
use crate::syslog::{SyslogSink, SyslogTarget};

/// The target of a log's lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LineTarget {
    /// The standard output.
    Stdout,
    /// The standard error.
    Stderr,
    /// A file, which is appended to.
    File(PathBuf),
    /// A syslog server.
    Syslog(SyslogTarget),
    /// Nowhere.
    Off,
}

/// An open file, or a way to a server.
enum OpenTarget {
    File(File),
    Syslog(SyslogSink),
    Off,
}

/// An open target.
pub(crate) struct LineSink {
    target: LineTarget,
    open: OpenTarget,
}

impl LineSink {
    /// Opens `target`. A server is called with the first line.
    ///
    /// # Errors
    ///
    /// The system's error for the file.
    pub(crate) fn open(target: &LineTarget) -> io::Result<Self> {
        let open = match target {
            LineTarget::Off => OpenTarget::Off,
            // A descriptor of its own: `io::Stdout` would hold lines back in a buffer and hide how much was written.
            LineTarget::Stdout => {
                OpenTarget::File(File::from(io::stdout().as_fd().try_clone_to_owned()?))
            }
            LineTarget::Stderr => {
                OpenTarget::File(File::from(io::stderr().as_fd().try_clone_to_owned()?))
            }
            LineTarget::File(path) => OpenTarget::File(open_file(path).map_err(|error| {
                io::Error::new(error.kind(), format!("{}: {error}", path.display()))
            })?),
            LineTarget::Syslog(target) => OpenTarget::Syslog(SyslogSink::new(target.clone())),
        };
        Ok(Self {
            target: target.clone(),
            open,
        })
    }

    /// Opens the same target again, after its file was renamed. On an error the old file stays in use.
    ///
    /// # Errors
    ///
    /// The system's error for the file.
    pub(crate) fn reopen(&mut self) -> io::Result<()> {
        *self = Self::open(&self.target)?;
        Ok(())
    }

    /// Returns whether lines are discarded.
    pub(crate) fn is_off(&self) -> bool {
        matches!(self.open, OpenTarget::Off)
    }

    /// Returns its name for the process log.
    pub(crate) fn name(&self) -> String {
        match &self.target {
            LineTarget::Off => "nowhere".to_owned(),
            LineTarget::Stdout => "the standard output".to_owned(),
            LineTarget::Stderr => "the standard error".to_owned(),
            LineTarget::File(path) => path.display().to_string(),
            LineTarget::Syslog(target) => target.name(),
        }
    }
}

impl fmt::Debug for LineSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LineSink").field(&self.target).finish()
    }
}

fn open_file(path: &Path) -> io::Result<File> {
    // Client addresses are personal data: others may not read the file unless the operator lets them.
    let options = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o640)
        .clone();
    // Read access is for invariant 3 alone, and keeps a FIFO without a reader from blocking the open.
    let mut file = options
        .clone()
        .read(true)
        .open(path)
        .or_else(|_| options.open(path))?;
    let meta = file.metadata()?;
    let mut last = [b'\n'];
    if meta.is_file()
        && meta.len() > 0
        && file.read_at(&mut last, meta.len() - 1).is_ok()
        && last != *b"\n"
    {
        file.write_all(b"\n")?;
    }
    Ok(file)
}

/// Whole lines on their way into a sink.
#[derive(Debug, Default)]
pub(crate) struct UnwrittenLines {
    lines: StampedLines,
    /// The number of bytes that the current sink has.
    sent: usize,
}

impl UnwrittenLines {
    /// Takes the lines of all buffers, those of several in the order of their times, and leaves the buffers' parts empty. Only after
    /// [`UnwrittenLines::send`] has succeeded.
    pub(crate) fn refill_from(&mut self, parts: &mut [StampedLines]) {
        let mut filled = parts.iter_mut().filter(|part| !part.bytes.is_empty());
        let (Some(first), second) = (filled.next(), filled.next()) else {
            return;
        };
        if second.is_none() {
            // One thread wrote them in their order.
            std::mem::swap(&mut self.lines, first);
            return;
        }
        let mut lines: Vec<(u64, &[u8])> =
            parts.iter().flat_map(|part| part.lines_from(0)).collect();
        // Stable, so that lines of one thread and one time keep their order.
        lines.sort_by_key(|line| line.0);
        for line in lines {
            self.lines.push(line.0, line.1);
        }
        for part in parts {
            part.clear();
        }
    }

    /// Writes the rest.
    ///
    /// # Errors
    ///
    /// The system's error for the write that failed; the rest is kept for the next call.
    pub(crate) fn send(&mut self, sink: &mut LineSink) -> io::Result<()> {
        match &mut sink.open {
            OpenTarget::Off => {}
            OpenTarget::File(file) => self.write_to(file)?,
            OpenTarget::Syslog(server) => server.send(&self.lines, &mut self.sent)?,
        }
        self.lines.clear();
        self.sent = 0;
        Ok(())
    }

    fn write_to(&mut self, file: &mut File) -> io::Result<()> {
        // Every turn but an interrupted one writes at least a byte or returns.
        while let Some(rest) = self.rest().filter(|rest| !rest.is_empty()) {
            match file.write(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => self.sent += written,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn rest(&self) -> Option<&[u8]> {
        self.lines.bytes.get(self.sent..)
    }

    /// Goes back to the start of the line that was cut short, since the rest is for another file (invariant 2).
    pub(crate) fn rewind_to_line(&mut self) {
        let sent = self.lines.bytes.get(..self.sent).unwrap_or_default();
        self.sent = sent
            .iter()
            .rposition(|&byte| byte == b'\n')
            .map_or(0, |at| at + 1);
    }

    /// Returns the number of lines that are not wholly written.
    pub(crate) fn lines(&self) -> usize {
        self.rest()
            .unwrap_or_default()
            .iter()
            .filter(|&&byte| byte == b'\n')
            .count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unwritten(bytes: &[u8], sent: usize) -> UnwrittenLines {
        let mut lines = StampedLines::default();
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            lines.push(0, line);
        }
        UnwrittenLines { lines, sent }
    }

    /// Goal: invariant 2. Method: lines of which a part was written, then a new file.
    #[test]
    fn a_line_cut_short_is_written_whole_to_the_next_file() {
        let dir = tempfile::tempdir().expect("a directory");
        for (sent, expected) in [
            (0, "one\ntwo\n"),
            (3, "one\ntwo\n"),
            (4, "two\n"),
            (6, "two\n"),
            (8, ""),
        ] {
            let path = dir.path().join(sent.to_string());
            let mut sink =
                LineSink::open(&LineTarget::File(path.clone())).expect("a new file opens");
            let mut lines = unwritten(b"one\ntwo\n", sent);
            lines.rewind_to_line();
            lines.send(&mut sink).expect("the disk has room");
            assert_eq!(
                std::fs::read_to_string(path).expect("the file exists"),
                expected
            );
            assert!(lines.lines.bytes.is_empty());
        }
    }

    /// Goal: lines of several threads are in the order of their times, and those of one thread and one time in theirs. Method: three
    /// buffers with times that interleave, then one alone.
    #[test]
    fn lines_of_several_buffers_are_in_the_order_of_their_times() {
        let part = |lines: &[(u64, &str)]| {
            let mut part = StampedLines::default();
            for (at, line) in lines {
                part.push(*at, line.as_bytes());
            }
            part
        };
        let mut parts = [
            part(&[(1, "a\n"), (4, "d\n"), (4, "e\n")]),
            part(&[]),
            part(&[(2, "b\n"), (9, "f\n"), (3, "c\n")]),
        ];
        let mut lines = UnwrittenLines::default();
        lines.refill_from(&mut parts);
        assert_eq!(lines.lines.bytes, b"a\nb\nc\nd\ne\nf\n");
        assert!(
            parts
                .iter()
                .all(|part| part.bytes.is_empty() && part.stamps.is_empty())
        );
        lines.lines.clear();
        lines.refill_from(&mut [part(&[]), part(&[(5, "x\n"), (4, "y\n")])]);
        assert_eq!(lines.lines.bytes, b"x\ny\n");
    }

    /// Goal: a failed write keeps its lines. Method: `/dev/full` refuses every byte, then a file takes them.
    #[test]
    fn a_full_disk_keeps_the_lines_for_later() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut lines = unwritten(b"one\ntwo\n", 0);
        let mut full =
            LineSink::open(&LineTarget::File("/dev/full".into())).expect("the device opens");
        assert_eq!(
            lines.send(&mut full).expect_err("it is full").kind(),
            io::ErrorKind::StorageFull
        );
        assert_eq!(lines.lines(), 2);
        let path = dir.path().join("log");
        lines
            .send(&mut LineSink::open(&LineTarget::File(path.clone())).expect("a new file opens"))
            .expect("room");
        assert_eq!(std::fs::read(path).expect("the file exists"), b"one\ntwo\n");
    }

    /// Goal: invariant 3. Method: open files that end in a line, within a line, and empty ones.
    #[test]
    fn a_file_that_ends_within_a_line_is_given_a_line_feed() {
        let dir = tempfile::tempdir().expect("a directory");
        for (name, before, after) in [
            ("torn", "a\nb", "a\nb\nnew\n"),
            ("whole", "a\n", "a\nnew\n"),
            ("empty", "", "new\n"),
        ] {
            let path = dir.path().join(name);
            std::fs::write(&path, before).expect("the disk has room");
            let mut sink = LineSink::open(&LineTarget::File(path.clone())).expect("the file opens");
            unwritten(b"new\n", 0)
                .send(&mut sink)
                .expect("the disk has room");
            assert_eq!(
                std::fs::read_to_string(path).expect("the file exists"),
                after
            );
        }
    }
}
