//! Opens a log, plain or compressed: a file, or the standard input.
//!
//! The first bytes say which compression it is, not the name: rotated files are often renamed.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// RFC 1952 §2.3.1.
const GZIP: &[u8] = &[0x1f, 0x8b];
/// RFC 8878 §3.1.1, as it lies in a file.
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

/// An open log.
pub(crate) struct LogSource {
    pub(crate) bytes: Box<dyn Read>,
    /// Bytes of the file; `None` of a pipe.
    pub(crate) size: Option<u64>,
    /// Bytes of the file that were read.
    pub(crate) consumed: Arc<AtomicU64>,
}

impl LogSource {
    /// Opens the file at `path`; `-` is the standard input.
    ///
    /// # Errors
    /// The system's error.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        if path.as_os_str() == "-" {
            return Self::new(Box::new(io::stdin()), None);
        }
        let file = File::open(path)?;
        let facts = file.metadata()?;
        if facts.is_dir() {
            return Err(io::Error::new(
                io::ErrorKind::IsADirectory,
                "this is a directory",
            ));
        }
        let size = facts.is_file().then_some(facts.len());
        Self::new(Box::new(file), size)
    }

    /// Reads from `bytes`, whatever compression they have.
    ///
    /// # Errors
    /// The error of the first read.
    pub(crate) fn new(bytes: Box<dyn Read>, size: Option<u64>) -> io::Result<Self> {
        let consumed = Arc::<AtomicU64>::default();
        let mut counted = CountingReader {
            bytes,
            consumed: Arc::clone(&consumed),
        };
        let mut first = Vec::new();
        counted
            .by_ref()
            .take(ZSTD.len() as u64)
            .read_to_end(&mut first)?;
        let is_gzip = first.starts_with(GZIP);
        let is_zstd = first.starts_with(ZSTD);
        let whole = io::Cursor::new(first).chain(counted);
        let bytes: Box<dyn Read> = if is_gzip {
            // A file to which several runs of gzip were appended is one log.
            Box::new(flate2::read::MultiGzDecoder::new(whole))
        } else if is_zstd {
            Box::new(zstd::stream::read::Decoder::new(whole)?)
        } else {
            Box::new(whole)
        };
        Ok(Self {
            bytes,
            size,
            consumed,
        })
    }
}

/// Counts the bytes that are read.
struct CountingReader {
    bytes: Box<dyn Read>,
    consumed: Arc<AtomicU64>,
}

impl Read for CountingReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.bytes.read(into)?;
        // Relaxed: the number is for a progress bar and publishes nothing.
        self.consumed.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn read(bytes: &[u8]) -> io::Result<Vec<u8>> {
        let source = LogSource::new(Box::new(io::Cursor::new(bytes.to_vec())), None);
        let mut plain = Vec::new();
        source?.bytes.read_to_end(&mut plain)?;
        Ok(plain)
    }

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        writer.write_all(text).unwrap();
        writer.finish().unwrap()
    }

    /// Goal: a log is the same text in every compression. Method: plain, gzip, two gzip files in one, zstd, nothing.
    #[test]
    fn compressed_logs_are_read() {
        assert_eq!(read(b"a\nb\n").unwrap(), b"a\nb\n");
        assert_eq!(read(&gzip(b"a\nb\n")).unwrap(), b"a\nb\n");
        assert_eq!(
            read(&[gzip(b"a\n"), gzip(b"b\n")].concat()).unwrap(),
            b"a\nb\n"
        );
        let zstd = zstd::encode_all(&b"a\nb\n"[..], 1).unwrap();
        assert_eq!(read(&zstd).unwrap(), b"a\nb\n");
        assert_eq!(
            read(&[zstd.clone(), zstd].concat()).unwrap(),
            b"a\nb\na\nb\n"
        );
        assert_eq!(read(b"").unwrap(), b"");
        assert_eq!(read(b"x").unwrap(), b"x");
    }

    /// Goal: a file that breaks off is an error, not a short log. Method: half of a gzip file.
    #[test]
    fn a_cut_file_is_an_error() {
        let whole = gzip(&b"line\n".repeat(1_000));
        assert!(read(&whole[..whole.len() / 2]).is_err());
    }
}
