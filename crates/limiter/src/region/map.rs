//! Maps memory. All the `unsafe` that this takes is one cast.
//!
//! A table of a million keys without huge pages pays a walk of the page table at most decisions (184 ns against 166,
//! one decision at a time), and counters in a file can be shared by two processes only through a mapping: those are the
//! numbers and the reason that justify the cast.
//!
//! # Limits
//! A file must not shrink while it is mapped: touching a page beyond its end kills the process with SIGBUS. This crate
//! never truncates a file that has its name; files belong to their user alone (0600, in a directory that nobody else
//! may write to), so only that user or root could. A file's blocks are reserved before it is mapped, so that a full
//! disk is an error at the start and not a SIGBUS later; file systems that copy on write may still run out.

#![allow(
    unsafe_code,
    reason = "memory from outside Rust has to enter somewhere: here"
)]

use std::alloc::{Layout, handle_alloc_error};
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use memmap2::{MmapOptions, MmapRaw};

use crate::sync::AtomicU64;

/// Words of a mapping, from a byte offset on.
pub(super) struct MappedWords {
    raw: MmapRaw,
    /// Bytes before the first word: whole pages.
    offset: usize,
    count: usize,
    kind: MemoryKind,
    _huge: Option<HugeShare>,
}

/// A huge page of x86-64, and of ARM with pages of 4 KB. A mapping that is not shorter gets them, smaller ones could not.
const HUGE_PAGE: usize = 2 << 20;

/// A mapping of this size and more is on huge pages, whatever the others take.
const ALWAYS_HUGE: usize = 32 << 20;
/// Bytes of smaller mappings that may be on huge pages together: a page of 2 MB is granted for the first key that touches it, so a
/// thousand tables of 8 MB would take 8 GB for a few keys each.
const HUGE_BUDGET: usize = 256 << 20;

/// Bytes of the mappings that count towards [`HUGE_BUDGET`]. The standard library's atomic in loom's models too: nothing but page sizes
/// depends on it.
static HUGE_BYTES: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);

/// A part of the budget of huge pages, returned when dropped.
struct HugeShare(usize);

impl HugeShare {
    /// Room for a mapping of so many bytes, if there is some.
    fn take(bytes: usize) -> Option<Self> {
        // Relaxed, both: a number that publishes nothing.
        HUGE_BYTES
            .fetch_update(Relaxed, Relaxed, |taken| {
                taken.checked_add(bytes).filter(|sum| *sum <= HUGE_BUDGET)
            })
            .ok()
            .map(|_| Self(bytes))
    }
}

impl Drop for HugeShare {
    fn drop(&mut self) {
        HUGE_BYTES.fetch_sub(self.0, Relaxed);
    }
}

enum MemoryKind {
    Anonymous,
    /// The open file is kept for the lock on it, which ends with it, and for those who know it weakly.
    File(
        #[expect(
            dead_code,
            reason = "dropping it says that it is not used here any more"
        )]
        Arc<File>,
    ),
}

impl MappedWords {
    /// Maps memory like [`anonymous`](Self::anonymous); a system without that much memory ends the process, as at any
    /// other allocation.
    pub(super) fn owned(count: usize) -> Self {
        Self::anonymous(count).unwrap_or_else(|_| match Layout::array::<AtomicU64>(count) {
            Ok(layout) => handle_alloc_error(layout),
            Err(_) => handle_alloc_error(Layout::new::<AtomicU64>()),
        })
    }

    /// `count` zero words of this process alone, on huge pages if the system has them.
    fn anonymous(count: usize) -> io::Result<Self> {
        let bytes = match bytes_of(count, 0)? {
            small if small < HUGE_PAGE => small,
            // Whole ones: Linux begins such a mapping at the edge of a huge page, and of any other one would lie in part on
            // small pages at either end.
            large => large
                .checked_next_multiple_of(HUGE_PAGE)
                .ok_or(io::ErrorKind::InvalidInput)?,
        };
        let raw = MmapRaw::from(MmapOptions::new().len(bytes).map_anon()?);
        Ok(Self::new(raw, 0, count, MemoryKind::Anonymous))
    }

    /// `count` words of `file`, from byte `offset` on, shared with every other process that maps it.
    ///
    /// # Errors
    /// The system's; and `InvalidInput` when the file ends before the last word, since touching that would be fatal.
    pub(super) fn file(file: Arc<File>, offset: usize, count: usize) -> io::Result<Self> {
        let bytes = bytes_of(count, offset)?;
        if file.metadata()?.len() < bytes as u64 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let raw = MmapOptions::new().len(bytes).map_raw(&*file)?;
        Ok(Self::new(raw, offset, count, MemoryKind::File(file)))
    }

    fn new(raw: MmapRaw, offset: usize, count: usize, kind: MemoryKind) -> Self {
        let share = match raw.len() {
            HUGE_PAGE..ALWAYS_HUGE => HugeShare::take(raw.len()),
            _ => None,
        };
        // Advice: a system without huge pages is slower, not wrong. It helps a file in `/dev/shm` where the system lets it.
        #[cfg(all(target_os = "linux", not(miri)))]
        if raw.len() >= HUGE_PAGE {
            let _ = raw.advise(if share.is_some() || raw.len() >= ALWAYS_HUGE {
                memmap2::Advice::HugePage
            } else {
                memmap2::Advice::NoHugePage
            });
        }
        Self {
            raw,
            offset,
            count,
            kind,
            _huge: share,
        }
    }

    /// The words.
    #[inline]
    pub(super) fn words(&self) -> &[AtomicU64] {
        let first = self.raw.as_mut_ptr().wrapping_add(self.offset);
        // SAFETY: each precondition of `from_raw_parts`, in its order:
        // - non-null, valid for reads of `count` words, one allocation: `bytes_of` counted `offset` and the words into
        //   the length of the one mapping, which `self.raw` owns and unmaps when it is dropped; the borrow of `self`
        //   keeps it. A file was as long when it was mapped, and nobody shortens it (see the module's limits).
        // - aligned: a mapping begins a page, `offset` is whole pages, and a page is a multiple of 8.
        // - initialised, and any bits are valid: pages come zeroed or from the file, and `AtomicU64` has the layout of
        //   `u64`, of which every pattern is a value.
        // - not mutated but inside an `UnsafeCell`: all access, in every process that maps the file, goes through the
        //   atomics of this very slice; nobody takes a `&mut` or a plain pointer from `self.raw`.
        // - at most `isize::MAX` bytes: `bytes_of` checks it.
        unsafe { std::slice::from_raw_parts(first.cast::<AtomicU64>().cast_const(), self.count) }
    }

    pub(super) fn kind(&self) -> &'static str {
        match &self.kind {
            MemoryKind::Anonymous => "anonymous",
            MemoryKind::File(_) => "file",
        }
    }
}

/// Bytes of `count` words behind `offset` bytes.
fn bytes_of(count: usize, offset: usize) -> io::Result<usize> {
    count
        .checked_mul(size_of::<u64>())
        .and_then(|bytes| bytes.checked_add(offset))
        .filter(|bytes| (1..=isize::MAX as usize).contains(bytes))
        .ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::Ordering;

    /// Goal: the cast is one that Miri accepts. Method: every word of an anonymous mapping, from two threads.
    #[test]
    fn every_word_of_a_mapping_can_be_used() {
        let mapping = MappedWords::anonymous(1000).expect("a mapping");
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for word in mapping.words() {
                        word.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        assert!(
            mapping
                .words()
                .iter()
                .all(|word| word.load(Ordering::Relaxed) == 2)
        );
    }

    /// Goal: many small tables do not all take huge pages. Method: shares until the budget is used up, and after one is returned.
    #[test]
    fn huge_pages_of_small_mappings_have_a_budget() {
        // Other tests take small shares meanwhile.
        let most = HUGE_BUDGET / (8 << 20);
        let mut shares: Vec<_> = std::iter::from_fn(|| HugeShare::take(8 << 20)).collect();
        assert!((most / 2..=most).contains(&shares.len()));
        shares.clear();
        assert!(HugeShare::take(8 << 20).is_some());
        assert!(HugeShare::take(usize::MAX).is_none());
    }

    /// Goal: a file is never mapped beyond its end. Method: lengths around the one that is asked for.
    #[test]
    #[cfg_attr(miri, ignore = "Miri maps no files")]
    fn a_file_that_is_too_short_is_not_mapped() {
        let file = Arc::new(tempfile::tempfile().expect("a file"));
        for (length, fits) in [
            (0, false),
            (4096 + 79, false),
            (4096 + 80, true),
            (9000, true),
        ] {
            file.set_len(length).expect("its length");
            assert_eq!(
                MappedWords::file(file.clone(), 4096, 10).is_ok(),
                fits,
                "{length}"
            );
        }
        assert!(MappedWords::file(file.clone(), 4096, usize::MAX / 8).is_err());
        assert!(MappedWords::anonymous(usize::MAX).is_err());
    }

    /// Goal: two mappings of a file are one memory. Method: what one adds, the other reads.
    #[test]
    #[cfg_attr(miri, ignore = "Miri maps no files")]
    fn mappings_of_one_file_share_their_words() {
        let file = Arc::new(tempfile::tempfile().expect("a file"));
        file.set_len(8192).expect("its length");
        let one = MappedWords::file(file.clone(), 4096, 512).expect("a mapping");
        let other = MappedWords::file(file.clone(), 4096, 512).expect("a mapping");
        one.words()[511].fetch_add(3, Ordering::Relaxed);
        assert_eq!(other.words()[511].fetch_add(4, Ordering::Relaxed), 3);
        assert_eq!(one.words()[511].load(Ordering::Relaxed), 7);
    }
}
