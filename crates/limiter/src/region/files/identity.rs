//! Says what the counters of a file mean, so that no limit goes on from the counts of another.
//!
//! An identity is the limit's name, the layout of its table, its length, and whatever the caller says its words depend
//! on: the key's template, the algorithm, the periods. It holds no count of a rate: those change without losing a
//! counter. Everything else that changes makes another identity and with it another file: the name of a file ends in
//! the digest of its identity. So an edit back and forth never mixes two meanings, an old file can be told from those
//! in use, and it can be removed when no configuration goes back to it.
//!
//! Where the length depends on a count, as that of logs does, it is no part of the identity: files of all [`WordLengths`] mean
//! the same, and opening one returns its length.

use std::fmt::Write;

use crate::key::Seed;
use crate::time::Timestamp;

use super::record::{FileRecord, UntrustedFile, digest};

/// Length of the header of a file of counters; data follows.
pub(super) const HEADER_BYTES: usize = 4096;
/// Ends the names of files of counters.
pub(super) const SUFFIX: &str = ".counters";
/// Longest part of a limit's name that a file's name shows.
const MAX_SHOWN: usize = 64;

const MAGIC: [u8; 8] = *b"sluiceCT";

/// The kind and the version of a table's layout: a number that changes with the layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LayoutId(pub u64);

/// The lengths in words that a table may have whatever its counts are: `least`, and so many steps more, up to `most`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WordLengths {
    pub(crate) least: usize,
    pub(crate) step: usize,
    pub(crate) most: usize,
}

impl WordLengths {
    const fn only(words: usize) -> Self {
        Self {
            least: words,
            step: 1,
            most: words,
        }
    }

    /// The length of so many words, if it is one of these.
    fn find(self, words: u64) -> Option<usize> {
        let words = usize::try_from(words).ok()?;
        let more = words.checked_sub(self.least)?;
        (words <= self.most && more.is_multiple_of(self.step)).then_some(words)
    }
}

/// The meaning of the counters of a region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileIdentity {
    layout: LayoutId,
    /// Length of a new file.
    words: usize,
    lengths: WordLengths,
    digest: [u64; 2],
    file: String,
}

impl FileIdentity {
    /// The identity of the limit `name`, whose table takes `words` words laid out as `layout`, and whose counts mean
    /// what `meaning` says: in order, everything that they depend on but the counts of the rates.
    #[must_use]
    pub fn new(name: &str, layout: LayoutId, words: usize, meaning: &[&[u8]]) -> Self {
        Self::of_lengths(name, layout, WordLengths::only(words), words, meaning)
    }

    /// Makes an identity like [`new`](Self::new), for a table that goes on in a file of any of these lengths; a new
    /// one gets `words`, which is one of them.
    pub(crate) fn of_lengths(
        name: &str,
        layout: LayoutId,
        lengths: WordLengths,
        words: usize,
        meaning: &[&[u8]],
    ) -> Self {
        // The others follow from it and the layout.
        let least = lengths.least as u64;
        let layout_bytes = layout.0.to_le_bytes();
        let words_bytes = least.to_le_bytes();
        let mut parts: Vec<&[u8]> = vec![name.as_bytes(), &layout_bytes, &words_bytes];
        parts.extend_from_slice(meaning);
        let digest = digest(&parts);
        Self {
            layout,
            words,
            lengths,
            digest,
            file: file_name(name, digest),
        }
    }

    /// The name of its file: what can be shown of the limit's name, a digest, and `.counters`.
    #[must_use]
    pub fn file_name(&self) -> &str {
        &self.file
    }

    /// The words of a new region of it.
    #[must_use]
    pub fn words(&self) -> usize {
        self.words
    }

    /// Bytes of a new file of it; `None` when no file is as long.
    pub(super) fn file_bytes(&self) -> Option<u64> {
        bytes_of(self.words)
    }

    /// The header of a file of this identity. The time of creation is for an operator who reads the file; nothing depends on it.
    pub(super) fn header(&self, seed: &Seed, created: Timestamp) -> FileRecord<HEADER_BYTES> {
        let [meaning, more] = self.digest;
        let [mark, rest] = seed_mark(seed);
        let words = self.words as u64;
        FileRecord::sealed(
            MAGIC,
            &[
                self.layout.0,
                words,
                meaning,
                more,
                mark,
                rest,
                created.as_nanos(),
            ],
        )
    }

    /// Number of words of a file of `bytes` bytes whose header, of this identity, is `header`.
    ///
    /// # Errors
    /// Why it is not of this identity.
    pub(super) fn recognise(
        &self,
        seed: &Seed,
        header: &[u8],
        bytes: u64,
    ) -> Result<usize, UntrustedFile> {
        let record = FileRecord::<HEADER_BYTES>::opened(header, MAGIC)?;
        let [layout, words, meaning, more, mark, rest] = record.fields();
        if layout != self.layout.0 {
            return Err(UntrustedFile::OtherLayout { got: layout });
        }
        if [mark, rest] != seed_mark(seed) {
            return Err(UntrustedFile::OtherSeed);
        }
        let words = match self.lengths.find(words) {
            Some(words) if [meaning, more] == self.digest => words,
            _ => return Err(UntrustedFile::OtherMeaning),
        };
        if Some(bytes) != bytes_of(words) {
            return Err(UntrustedFile::OtherLength { bytes });
        }
        Ok(words)
    }
}

/// Bytes of a file of so many words.
fn bytes_of(words: usize) -> Option<u64> {
    let bytes = (words as u64).checked_mul(size_of::<u64>() as u64)?;
    bytes.checked_add(HEADER_BYTES as u64)
}

/// Tells seeds apart without telling them: the secret itself lies in one file only.
fn seed_mark(seed: &Seed) -> [u64; 2] {
    digest(&[b"seed", seed.bytes()])
}

/// Letters, digits, `-` and `_` of the limit's name; the digest tells the rest apart.
fn file_name(name: &str, [digest, _]: [u64; 2]) -> String {
    let shown = |letter: char| match letter {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '_' => letter,
        _ => '_',
    };
    let mut file: String = name.chars().map(shown).take(MAX_SHOWN).collect();
    // Writing to a string does not fail.
    let _ = write!(file, ".{digest:016x}{SUFFIX}");
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEED: Seed = Seed::from_bytes([5; 16]);

    fn identity(name: &str) -> FileIdentity {
        FileIdentity::new(name, LayoutId(1), 16, &[b"client.ip", b"60"])
    }

    /// Goal: a file is only taken for what it is. Method: each part of an identity changed alone.
    #[test]
    fn a_header_is_recognised_by_its_own_identity_only() {
        let header = identity("otp").header(&SEED, Timestamp::from_secs(9));
        let recognise =
            |wanted: &FileIdentity, seed| wanted.recognise(seed, header.bytes(), 4096 + 16 * 8);
        assert_eq!(recognise(&identity("otp"), &SEED), Ok(16));
        assert_eq!(
            recognise(&identity("api"), &SEED),
            Err(UntrustedFile::OtherMeaning)
        );
        let shape = FileIdentity::new("otp", LayoutId(2), 16, &[b"client.ip", b"60"]);
        assert_eq!(
            recognise(&shape, &SEED),
            Err(UntrustedFile::OtherLayout { got: 1 })
        );
        let period = FileIdentity::new("otp", LayoutId(1), 16, &[b"client.ip", b"30"]);
        assert_eq!(recognise(&period, &SEED), Err(UntrustedFile::OtherMeaning));
        let size = FileIdentity::new("otp", LayoutId(1), 32, &[b"client.ip", b"60"]);
        assert_eq!(recognise(&size, &SEED), Err(UntrustedFile::OtherMeaning));
        let other = Seed::from_bytes([6; 16]);
        assert_eq!(
            recognise(&identity("otp"), &other),
            Err(UntrustedFile::OtherSeed)
        );
        let longer = identity("otp").recognise(&SEED, header.bytes(), 4096 + 17 * 8);
        assert_eq!(
            longer,
            Err(UntrustedFile::OtherLength {
                bytes: 4096 + 17 * 8
            })
        );
    }

    /// Goal: a table whose length follows its counts finds its file under other counts. Method: lengths that it may have
    /// and others, in the header and of the file.
    #[test]
    fn a_file_of_another_length_is_the_same_where_the_length_may_differ() {
        let lengths = WordLengths {
            least: 16,
            step: 8,
            most: 32,
        };
        let of =
            |words| FileIdentity::of_lengths("otp", LayoutId(1), lengths, words, &[b"client.ip"]);
        let found = |words: usize, bytes| {
            let header = of(words).header(&SEED, Timestamp::from_secs(9));
            of(16).recognise(&SEED, header.bytes(), bytes)
        };
        for words in [16, 24, 32] {
            assert_eq!(of(words).file_name(), of(16).file_name());
            assert_eq!(of(words).file_bytes(), Some(4096 + 8 * words as u64));
            assert_eq!(found(words, 4096 + 8 * words as u64), Ok(words));
            assert_eq!(
                found(words, 4096),
                Err(UntrustedFile::OtherLength { bytes: 4096 })
            );
        }
        for words in [0, 8, 17, 40] {
            let got = found(words, 4096 + 8 * words as u64);
            assert_eq!(got, Err(UntrustedFile::OtherMeaning));
        }
    }

    /// Goal: any name of a limit makes a file name that is short, flat and its own. Method: hostile names.
    #[test]
    fn file_names_are_plain_whatever_a_limit_is_called() {
        assert!(identity("otp").file_name().starts_with("otp."));
        let hostile = [
            "../../etc/passwd",
            "",
            ".",
            "a/b",
            "a_b",
            "a\0b",
            &"ß".repeat(300),
        ];
        let mut names: Vec<String> = hostile.map(|name| identity(name).file).to_vec();
        for name in &names {
            assert!(name.len() <= 64 + 1 + 16 + SUFFIX.len());
            assert!(name.ends_with(SUFFIX) && !name.contains(['/', '\0']));
            assert_eq!(name.matches('.').count(), 2);
        }
        names.sort();
        names.dedup();
        assert_eq!(names.len(), hostile.len());
    }
}
