//! Serializes the insertion of new keys in a bucket, and breaks the lock of a thread that is gone.
//!
//! A process that shares the table may be killed anywhere, so whatever one thread waits for may never come: a lock that
//! is held, a slot that is changing hands. So every wait has a [`BoundedBackoff`]; when it is out, the waiting thread takes
//! the lock away, or gives the slot back to the key that had it. That must be right even if the other was only slow:
//!
//! * A lock word counts its holders, so a holder never takes a later hold for its own. Before the work of a holder counts,
//!   the holder checks that it [still has the lock](BucketLock::is_mine), and starts over if not. The question is a
//!   read-modify-write, as the taking is: if the answer is yes, a thread that breaks the lock later reads from it,
//!   and so sees all that was done before it.
//! * A slot that is changing hands names the key it comes from, so it can be given back; what the claim wrote till then
//!   stays and counts for that key. That is too much for a key that owed nothing, as long as a charge counts, and never
//!   too little. The claim finds that its busy word is gone and writes nothing more.
//!
//! # Limits
//! A busy word names the old owner of a slot, not the new one. A claim that slept so long in its few instructions that the slot
//! was given back, owed nothing again (its window ended, an operator reset the key, a reservation was released) and is
//! just being claimed anew, takes the other claim's busy word for its own. Then one of the two new keys may go on with the
//! first word of the other, or have two slots till both have run out. It takes two threads in the same few instructions,
//! half a millisecond and more apart, and costs a wrong count of one key.
//!
//! # The lock word
//! ```text
//! 63                     1       0
//! |   holders so far 63  | held 1 |
//! ```

use crate::sync::{AtomicU64, BoundedBackoff, Ordering};

use super::tag::{BUSY, SlotOwner};

/// Set in a lock word while it is held.
pub(super) const HELD: u64 = 1;
const ONE_HOLDER: u64 = 2;

/// A bucket's lock, held unless another thread gave up waiting.
pub(super) struct BucketLock<'t> {
    word: &'t AtomicU64,
    ticket: u64,
}

impl<'t> BucketLock<'t> {
    pub(super) fn take(word: &'t AtomicU64) -> Self {
        let mut backoff = BoundedBackoff::default();
        // Relaxed: a guess, which the exchange checks.
        let mut seen = word.load(Ordering::Relaxed);
        loop {
            if seen & HELD != 0 && !backoff.is_exhausted(seen) {
                seen = word.load(Ordering::Relaxed);
                continue;
            }
            let ticket = (seen | HELD).wrapping_add(ONE_HOLDER);
            // Acquire: pairs with the Release of the drop and of `is_mine`; what earlier holders did is seen. Release:
            // an earlier holder that checks and finds this ticket sees nothing of it, but the chain goes on.
            match word.compare_exchange(seen, ticket, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return Self { word, ticket },
                Err(now) => seen = now,
            }
        }
    }

    /// Returns whether the lock was not taken away so far. Everything done before a `true` is visible to the thread
    /// that takes it later.
    pub(super) fn is_mine(&self) -> bool {
        let mine = self.ticket;
        let both = Ordering::AcqRel;
        self.word
            .compare_exchange(mine, mine, both, Ordering::Relaxed)
            .is_ok()
    }
}

impl Drop for BucketLock<'_> {
    fn drop(&mut self) {
        // Release: pairs with the Acquire of the next taking. A failure means that it belongs to another thread by now.
        let _ = self.word.compare_exchange(
            self.ticket,
            self.ticket & !HELD,
            Ordering::Release,
            Ordering::Relaxed,
        );
    }
}

/// Reads the owner of a slot, once the slot is not changing hands.
pub(super) fn settled_owner(tag: &AtomicU64) -> SlotOwner {
    let mut backoff = BoundedBackoff::default();
    loop {
        // SeqCst: Acquire for the words, and the copy to a successor needs more (`limit::edit`).
        let bits = tag.load(Ordering::SeqCst);
        match SlotOwner::from_bits(bits) {
            // Invariant 6.
            SlotOwner::Changing if backoff.is_exhausted(bits) => give_back(tag, bits),
            SlotOwner::Changing => {}
            owner => return owner,
        }
    }
}

/// Gives a slot that is changing hands back to the key that had it.
pub(super) fn give_back(tag: &AtomicU64, busy: u64) {
    // Release: passes on what was read of the claim, and of charges before it. A failure means that it is settled.
    let _ = tag.compare_exchange(busy, busy & !BUSY, Ordering::AcqRel, Ordering::Relaxed);
}
