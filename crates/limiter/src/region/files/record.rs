//! Seals what is kept in a file, and says what is wrong with what is found there.
//!
//! Header, seed and clock are records of one form: words in the machine's own order, since the data behind a header is
//! too. Every byte of a record is covered by one of its first four words or by the last, so no byte can change unseen:
//!
//! ```text
//! | magic | order mark | version | field … | zero … | checksum of all before |
//! ```
//!
//! The checksum is SipHash-1-3 under a key that everybody knows: it finds torn and foreign files, not forgers. Against
//! those stand the permissions of the directory.

use std::fmt;
use std::hash::Hasher;

use siphasher::sip::SipHasher13;
use siphasher::sip128::{Hasher128, SipHasher13 as SipHasher13x128};

/// Names the form of all records here; another form gets another number.
const VERSION: u64 = 1;
/// Reads differently in another byte order.
const ORDER_MARK: u64 = 0x0123_4567_89AB_CDEF;
/// Key of checksums and digests: a constant, so that they mean the same tomorrow.
const KEY: [u8; 16] = *b"sluicegate state";
const WORD: usize = size_of::<u64>();
/// Words before the first field.
const PREFIX: usize = 3;

/// The reason why a file is not trusted. It is set aside then, and not read on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UntrustedFile {
    /// The file ends before its header does: torn, or of another program.
    Short {
        /// Its length, in bytes.
        bytes: u64,
    },
    /// The file begins with other bytes than the files of its kind.
    Foreign,
    /// The file was written on a machine with another byte order.
    OtherMachine,
    /// The file was written by a version with another layout.
    OtherVersion {
        /// The version found.
        got: u64,
    },
    /// Its checksum does not fit: bytes have changed or were never written.
    Damaged,
    /// Its table is laid out differently.
    OtherLayout {
        /// The layout found.
        got: u64,
    },
    /// Its keys were hashed under another seed, so none of them would be found.
    OtherSeed,
    /// The file counts something else: another limit, key, algorithm or shape.
    OtherMeaning,
    /// The file is longer or shorter than its counters.
    OtherLength {
        /// Its length, in bytes.
        bytes: u64,
    },
    /// Something else has its name: a link, a directory, a pipe.
    NotAFile,
    /// Another user owns the file or may write to it.
    Exposed {
        /// Its permission bits.
        mode: u32,
    },
}

impl fmt::Display for UntrustedFile {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short { bytes } => write!(into, "it ends after {bytes} bytes, within its header"),
            Self::Foreign => write!(into, "it is not a file of this kind"),
            Self::OtherMachine => write!(into, "it comes from a machine of another byte order"),
            Self::OtherVersion { got } => write!(into, "it has format {got}, this is {VERSION}"),
            Self::Damaged => write!(into, "its checksum does not fit"),
            Self::OtherLayout { got } => write!(into, "its table has the other layout {got:#x}"),
            Self::OtherSeed => write!(into, "its keys were hashed under another seed"),
            Self::OtherMeaning => write!(into, "it counts for another limit or another shape"),
            Self::OtherLength { bytes } => {
                write!(into, "its {bytes} bytes are not the length of its counters")
            }
            Self::NotAFile => write!(into, "it is not a regular file"),
            Self::Exposed { mode } => {
                write!(
                    into,
                    "others than its user own it or may use it (mode {mode:o})"
                )
            }
        }
    }
}

/// A record of `BYTES` bytes: at least 64, a multiple of 8.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct FileRecord<const BYTES: usize>([u8; BYTES]);

impl<const BYTES: usize> FileRecord<BYTES> {
    const LAST: usize = BYTES / WORD - 1;
    const WHOLE: () = assert!(BYTES.is_multiple_of(WORD) && BYTES >= 64);

    /// A sealed record of these fields; those that are not given are zero, those that do not fit are the caller's
    /// mistake and left out.
    pub(super) fn sealed(magic: [u8; WORD], fields: &[u64]) -> Self {
        const { Self::WHOLE };
        let mut record = Self([0; BYTES]);
        record.put(0, u64::from_ne_bytes(magic));
        record.put(1, ORDER_MARK);
        record.put(2, VERSION);
        for (index, field) in fields.iter().enumerate().take(Self::LAST - PREFIX) {
            record.put(PREFIX + index, *field);
        }
        record.put(Self::LAST, record.checksum());
        record
    }

    /// The record that these bytes hold, if they hold one of this kind, whole.
    ///
    /// # Errors
    /// The first thing that is wrong, from "not ours at all" on.
    pub(super) fn opened(bytes: &[u8], magic: [u8; WORD]) -> Result<Self, UntrustedFile> {
        let Ok(bytes) = <[u8; BYTES]>::try_from(bytes) else {
            return Err(UntrustedFile::Short {
                bytes: bytes.len() as u64,
            });
        };
        let record = Self(bytes);
        if record.word(0) != u64::from_ne_bytes(magic) {
            return Err(UntrustedFile::Foreign);
        }
        match (record.word(1), record.word(2)) {
            (ORDER_MARK, VERSION) => {}
            (mark, _) if mark == ORDER_MARK.swap_bytes() => {
                return Err(UntrustedFile::OtherMachine);
            }
            (ORDER_MARK, got) => return Err(UntrustedFile::OtherVersion { got }),
            _ => return Err(UntrustedFile::Damaged),
        }
        if record.word(Self::LAST) != record.checksum() {
            return Err(UntrustedFile::Damaged);
        }
        Ok(record)
    }

    /// The fields, and the zeroes after them.
    pub(super) fn fields<const N: usize>(&self) -> [u64; N] {
        std::array::from_fn(|index| match PREFIX + index {
            place if place < Self::LAST => self.word(place),
            _ => 0,
        })
    }

    pub(super) fn bytes(&self) -> &[u8; BYTES] {
        &self.0
    }

    fn word(&self, index: usize) -> u64 {
        let at = index * WORD;
        u64::from_ne_bytes(std::array::from_fn(|byte| self.0[at + byte]))
    }

    fn put(&mut self, index: usize, word: u64) {
        self.0[index * WORD..][..WORD].copy_from_slice(&word.to_ne_bytes());
    }

    fn checksum(&self) -> u64 {
        let mut hasher = SipHasher13::new_with_key(&KEY);
        hasher.write(&self.0[..Self::LAST * WORD]);
        hasher.finish()
    }
}

/// 128 bits that stand for `parts`, and for where they are cut.
pub(super) fn digest(parts: &[&[u8]]) -> [u64; 2] {
    let mut hasher = SipHasher13x128::new_with_key(&KEY);
    for part in parts {
        hasher.write(&(part.len() as u64).to_le_bytes());
        hasher.write(part);
    }
    let hash = hasher.finish128();
    [hash.h1, hash.h2]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MAGIC: [u8; 8] = *b"a record";

    fn record() -> FileRecord<256> {
        FileRecord::sealed(MAGIC, &[1, u64::MAX, 3])
    }

    /// Goal: what was sealed can be opened. Method: fields there and back, and one that was not given.
    #[test]
    fn a_record_says_what_was_put_into_it() {
        let opened = FileRecord::<256>::opened(record().bytes(), MAGIC).expect("it is whole");
        assert_eq!(opened.fields(), [1, u64::MAX, 3, 0]);
        let full = FileRecord::<64>::sealed(MAGIC, &[9; 20]);
        let opened = FileRecord::<64>::opened(full.bytes(), MAGIC).expect("it is whole");
        assert_eq!(opened.fields(), [9, 9, 9, 9, 0]);
    }

    /// Goal: a reader learns the most telling reason. Method: each kind of wrong record.
    #[test]
    fn each_kind_of_wrong_record_has_its_reason() {
        let changed = |index, word| {
            let mut record = record();
            record.put(index, word);
            FileRecord::<256>::opened(record.bytes(), MAGIC).err()
        };
        assert_eq!(changed(0, 5), Some(UntrustedFile::Foreign));
        assert_eq!(
            changed(1, ORDER_MARK.swap_bytes()),
            Some(UntrustedFile::OtherMachine)
        );
        assert_eq!(changed(1, 0), Some(UntrustedFile::Damaged));
        assert_eq!(changed(2, 2), Some(UntrustedFile::OtherVersion { got: 2 }));
        assert_eq!(changed(3, 2), Some(UntrustedFile::Damaged));
        let short = FileRecord::<256>::opened(&record().bytes()[..100], MAGIC).err();
        assert_eq!(short, Some(UntrustedFile::Short { bytes: 100 }));
    }

    /// Goal: digests stand for parts and cuts, for ever. Method: moved cuts, and one value that files rely on.
    #[test]
    fn a_digest_depends_on_every_part_and_never_changes() {
        assert_ne!(digest(&[b"ab", b"c"]), digest(&[b"a", b"bc"]));
        assert_ne!(digest(&[b"abc"]), digest(&[b"abc", b""]));
        assert_eq!(digest(&[b"otp"]), DIGEST_OF_OTP);
    }

    const DIGEST_OF_OTP: [u64; 2] = [12_747_820_043_732_314_903, 8_435_950_352_501_588_158];

    proptest! {
        /// Goal: no byte changes unseen. Method: any byte of a record, changed to anything else.
        #[test]
        fn a_change_of_any_byte_is_seen(at in 0..256_usize, by in 1..=u8::MAX) {
            let mut bytes = *record().bytes();
            bytes[at] ^= by;
            prop_assert!(FileRecord::<256>::opened(&bytes, MAGIC).is_err());
        }

        /// Goal: whatever lies there, opening it neither panics nor trusts it. Method: any bytes, some with our magic.
        #[test]
        fn bytes_that_nobody_sealed_are_not_opened(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..300), ours in any::<bool>(),
        ) {
            if ours && bytes.len() >= 8 {
                bytes[..8].copy_from_slice(&MAGIC);
            }
            prop_assert!(FileRecord::<256>::opened(&bytes, MAGIC).is_err());
        }
    }
}
