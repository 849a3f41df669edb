//! Holds the words that counters live in: a run of atomics of fixed length, all zero when new.
//!
//! A table neither allocates nor maps; it is given a [`Region`] and reads it as a slice. So the same table counts in
//! memory of its own or in a file that outlives the process (feature `mmap`), and whoever makes the region decides.
//!
//! # Invariants
//! 1. *Fixed.* A region neither grows, nor moves, nor shrinks while it lives.
//! 2. *Aligned.* Its first word begins a pair of cache lines ([`ALIGNMENT`]); a file's data begins a page.
//! 3. *Taken when used.* A page takes memory from its first write on, so a table that few keys use takes little.
//!
//! # Concurrency
//! Words are only ever read and written as atomics, by any number of threads, and of processes where the region is a
//! file.

use std::fmt;
use std::ops::Deref;

use crate::sync::AtomicU64;

#[cfg(feature = "mmap")]
mod files;
#[cfg(not(feature = "mmap"))]
mod heap;
#[cfg(feature = "mmap")]
mod map;

#[cfg(feature = "mmap")]
pub(crate) use files::WordLengths;
#[cfg(feature = "mmap")]
pub use files::{
    AnonymousFiles, BootId, BootTime, Clock, ClockDrift, ClockMark, ClockReading, FileDraft,
    FileIdentity, LayoutId, OpenOutcome, RemovedFiles, StateDir, StateError, StateLocation,
    UNUSED_FILE_RETENTION, UntrustedFile, WallClock,
};
// One kind of memory in one build, so that no decision has to tell kinds apart.
#[cfg(not(feature = "mmap"))]
use heap::HeapWords as RegionWords;
#[cfg(feature = "mmap")]
use map::MappedWords as RegionWords;

/// Bytes that the first word of a region is aligned to: two cache lines, which the prefetcher of x86 fetches together.
pub const ALIGNMENT: usize = 128;

/// Words for counters, in memory of this process or in a file.
pub struct Region(RegionWords);

impl Region {
    /// `words` words of this process alone, at least one, all zero.
    ///
    /// With feature `mmap` they lie on huge pages where the system has them, since on small ones a decision among a million keys takes a
    /// quarter longer, among ten million twice as long; but of many tables of less than 32 MB only the first 256 MB do, since one key may
    /// take a huge page. Memory of 2 MB and more is whole huge pages then.
    #[must_use]
    pub fn owned(words: usize) -> Self {
        Self(RegionWords::owned(words.max(1)))
    }

    /// `words` words of `file` from byte `offset` on, shared with every other process that maps it.
    #[cfg(feature = "mmap")]
    fn mapped(
        file: impl Into<std::sync::Arc<std::fs::File>>,
        offset: usize,
        words: usize,
    ) -> std::io::Result<Self> {
        Ok(Self(RegionWords::file(file.into(), offset, words)?))
    }

    /// `count` words from `first` on. As the same part of the slice, with one check of bounds less: it stands on the way
    /// of every decision.
    #[inline(always)]
    pub(crate) fn run(&self, first: usize, count: usize) -> &[AtomicU64] {
        &self.0.words()[first..first + count]
    }

    /// Memory of the words.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.len() * size_of::<u64>()
    }
}

impl Deref for Region {
    type Target = [AtomicU64];

    #[inline]
    fn deref(&self) -> &[AtomicU64] {
        self.0.words()
    }
}

impl fmt::Debug for Region {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        into.debug_struct("Region")
            .field("kind", &self.0.kind())
            .field("bytes", &self.bytes())
            .finish()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::sync::Ordering;

    /// Goal: invariant 2, and that new memory counts nothing. Method: sizes around a cache line and a page.
    #[test]
    fn new_words_are_aligned_and_zero() {
        for words in [0, 1, 15, 16, 17, 511, 512, 513, 100_000] {
            let region = Region::owned(words);
            assert_eq!(region.len(), words.max(1));
            assert_eq!(region.as_ptr().align_offset(ALIGNMENT), 0);
            assert!(region.iter().all(|word| word.load(Ordering::Relaxed) == 0));
            region[words.saturating_sub(1)].store(7, Ordering::Relaxed);
        }
    }
}
