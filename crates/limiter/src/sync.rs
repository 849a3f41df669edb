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

/// Between two SeqCst accesses, which loom takes for weaker ones: says to it that they are in one order with those of other threads.
#[inline(always)]
pub(crate) fn in_one_order() {
    #[cfg(loom)]
    fence(Ordering::SeqCst);
}

/// Lets loom run another thread.
#[cfg(loom)]
pub(crate) fn pause(turn: &mut u32) {
    *turn = turn.saturating_add(1);
    loom::thread::yield_now();
}

/// Pauses that a thread waits for one and the same state of another: about half a millisecond, thousands of times what a
/// critical section takes, or as many turns of other threads on a busy core. A thread that is slower than that was killed,
/// stopped, or starved; a wrong guess costs little.
#[cfg(not(loom))]
const BACKOFF_LIMIT: u32 = 1_000;

/// Unlimited, so that loom explores the ordinary course, unless a test sets another limit.
#[cfg(loom)]
const BACKOFF_LIMIT: u32 = u32::MAX;

#[cfg(any(loom, test))]
thread_local! {
    /// The limit of a test. Loom runs all threads of a model on one thread of the system.
    static OF_TEST: std::cell::Cell<u32> = const { std::cell::Cell::new(BACKOFF_LIMIT) };
}

/// Sets the limit of this test's threads to zero: loom explores what follows, and other tests do not wait for it.
#[cfg(any(loom, test))]
#[doc(hidden)]
pub fn exhaust_backoff() {
    OF_TEST.set(0);
}

#[cfg(not(any(loom, test)))]
const fn backoff() -> u32 {
    BACKOFF_LIMIT
}

#[cfg(any(loom, test))]
fn backoff() -> u32 {
    OF_TEST.get()
}

/// Waits for a word to change, for a bounded number of turns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BoundedBackoff {
    seen: u64,
    turns: u32,
    /// Turns that one and the same word is waited for.
    most: u32,
}

impl Default for BoundedBackoff {
    /// The backoff for waits on a thread that may have been killed.
    fn default() -> Self {
        Self::with_limit(backoff())
    }
}

impl BoundedBackoff {
    /// A backoff of so many turns.
    pub(crate) fn with_limit(most: u32) -> Self {
        Self {
            seen: 0,
            turns: 0,
            most,
        }
    }

    /// Returns whether the word has been `seen` for too long; waits a moment if not.
    pub(crate) fn is_exhausted(&mut self, seen: u64) -> bool {
        if seen != self.seen {
            *self = Self {
                seen,
                ..Self::with_limit(self.most)
            };
        }
        let out = self.turns >= self.most;
        if !out {
            pause(&mut self.turns);
        }
        out
    }
}
