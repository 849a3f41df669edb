//! Asks for a cache line before it is needed, so that two misses take the time of one.
//!
//! One key in seven lies in the other half of its first bucket or in its second one (`table::layout`). Asked for together
//! with the line where a search begins, those lines are there when the search comes to them: among a million keys a decision
//! takes 1.05 to 1.24 times the floor (docs/benchmarks.md). It is one of the two pieces of `unsafe` in this crate, and what of
//! that figure is its own was not measured in one build profile: if the plain load below does as well, it should go.
//!
//! # Limits
//! The hint needs feature `mmap`, since without it the crate forbids itself all `unsafe`, and x86-64, since elsewhere stable
//! Rust has none. Otherwise the line is loaded: that overlaps the misses as well, but a decision waits for all of them.

#![cfg_attr(
    feature = "mmap",
    allow(unsafe_code, reason = "stable Rust has no other word for a hint")
)]

use crate::sync::AtomicU64;

/// Will soon be read, perhaps.
#[inline(always)]
pub(crate) fn ahead(word: &AtomicU64) {
    #[cfg(all(feature = "mmap", target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: the instruction belongs to SSE, which every processor of this architecture has. It reads nothing that
        // the program sees, and ignores addresses that it may not read; this one is borrowed.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(word).cast()) }
    }
    #[cfg(not(any(loom, all(feature = "mmap", target_arch = "x86_64", not(miri)))))]
    {
        // Relaxed: nothing is concluded from the value.
        std::hint::black_box(word.load(crate::sync::Ordering::Relaxed));
    }
    // To loom a load is one more point to explore.
    #[cfg(loom)]
    let _ = word;
}
