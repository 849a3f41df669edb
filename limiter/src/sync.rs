//! Chooses the atomics: the standard library's, or loom's when the crate is built with `--cfg loom` to explore
//! interleavings.

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

/// Spins before a waiting thread gives up its core.
#[cfg(not(loom))]
const SPINS: u32 = 64;

/// Waits a moment for another thread to leave a critical section; `turn` counts the moments waited so far.
///
/// Spins first, since a critical section is shorter than a context switch, then yields, since its owner may be off its
/// core.
#[cfg(not(loom))]
pub(crate) fn pause(turn: &mut u32) {
    *turn = turn.saturating_add(1);
    if *turn < SPINS {
        std::hint::spin_loop();
    } else {
        std::thread::yield_now();
    }
}

/// Lets loom run another thread.
#[cfg(loom)]
pub(crate) fn pause(turn: &mut u32) {
    *turn = turn.saturating_add(1);
    loom::thread::yield_now();
}
