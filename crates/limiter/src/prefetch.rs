//! Prefetches a cache line before it is needed, so that a miss takes no time of its own.
//!
//! One key in seven lies in the other half of its first bucket or in its second one (`table::layout`). Asked for together
//! with the line where a search begins, those lines are there when the search comes to them. And a caller that knows a key before its
//! decision can have its line fetched meanwhile ([`Limit::prefetch`](crate::Limit::prefetch)). Side by side, when they
//! came, to admit among a million keys under one rate took 1.11 to 1.20 times the floor with the hints and 1.37 without; as
//! used, clock and hash included, 1.04 to 1.17 and 1.42 (benches/decide/measured.md has the rows of now). To load the lines instead
//! gains nothing, since a decision waits for its loads. That is what one of the two pieces of `unsafe` in this crate is for.
//!
//! # Limits
//! Without feature `mmap` the crate forbids itself all `unsafe`, and for other processors than x86-64 stable Rust has no
//! hint: there, nothing is asked for.

#![cfg_attr(
    feature = "mmap",
    allow(unsafe_code, reason = "stable Rust has no other word for a hint")
)]

use crate::sync::AtomicU64;

/// Prefetches a word that may soon be read.
#[inline(always)]
pub(crate) fn ahead(word: &AtomicU64) {
    #[cfg(all(feature = "mmap", target_arch = "x86_64", not(any(loom, miri))))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: the instruction belongs to SSE, which every processor of this architecture has. It reads nothing that
        // the program sees, and ignores addresses that it may not read; this one is borrowed.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(word).cast()) }
    }
    #[cfg(not(all(feature = "mmap", target_arch = "x86_64", not(any(loom, miri)))))]
    let _ = word;
}
