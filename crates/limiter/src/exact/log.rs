//! Reads and writes one log: a ring of moments behind one control word.
//!
//! A writer judges what it read, takes the log by a compare-and-swap from the very control word that it judged, writes
//! entries, and lets go by a second compare-and-swap that makes them count. Readers take nothing: they read the control
//! word, entries, and the control word again.
//!
//! # Invariants
//! 1. *Dominance.* At every moment, whatever was interrupted wherever, the charges that count can be matched with
//!    entries that are at least as late. A writer touches entries of two kinds: those that do not count, and those that
//!    it replaces by a later moment, place by place. So a reader of a half-written log may refuse more than it
//!    should, never less, and a refusal that was read in a held log is a refusal.
//! 2. *A hold can be broken without harm.* A log that is held for too long, by a thread that was stopped or a process
//!    that died, is taken over ([`mend`](Log::mend)). The old holder cannot complete its charge: that compares the
//!    control word. Each of its writes compares the word that it replaces with what was there while the holder still
//!    had the control word. A late one fails, or makes an entry later than it was, or lands where nothing counts yet and is
//!    written over.
//!
//! # Limits
//! One late write can do harm: a thread is stopped between two adjacent instructions for as long as others wait, and
//! the next charge enters a moment whose 32 bits are, by chance, those of the expired entry that stood in its place.
//! Then that entry counts from when the stopped thread came. It takes a coincidence of 1 in 2^32 on top of each such
//! stop.
//!
//! # Concurrency
//! Ring and tag words are written with Release and read with Acquire: a reader that sees a write then sees the control word
//! held, or changed, when it compares it. The control word is taken with Acquire, which pairs with the Release of the
//! previous holder; the release is SeqCst, as a charge must be seen by the copy to a successor, or see that there is one
//! (`limit::edit`).

use std::ops::{Range, RangeInclusive};

use crate::sync::{AtomicU64, Ordering};
use crate::table::tag::Tag;

use super::control::{ControlWord, LogEra, LogExtent, SpillState};
use super::inherited_entries::InheritedEntries;

/// A unit of the generation in a tag word. It changes when a claim is broken off, so that a late write of the claimer
/// finds another word.
const GENERATION: u64 = 1;

/// Another thread changed the log; the caller holds it no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LostRace;

/// The place of a log.
#[derive(Clone, Copy)]
pub(super) struct Log<'t> {
    /// Those of its bucket.
    pub(super) words: &'t [AtomicU64],
    /// Entries that fit.
    pub(super) entries: u32,
    /// The word with the tag of a slot's log; the overflow logs have none.
    pub(super) tag: Option<usize>,
    /// The control word.
    pub(super) control: usize,
    /// The first word of the ring.
    pub(super) ring: usize,
}

/// A log as one control word tells it.
#[derive(Clone, Copy)]
pub(super) struct LogView<'t> {
    log: Log<'t>,
    extent: LogExtent,
}

/// The right to write a log, held by this thread.
#[derive(Clone, Copy)]
pub(super) struct LogWriteGuard<'t> {
    log: Log<'t>,
    control: ControlWord,
    extent: LogExtent,
}

impl<'t> Log<'t> {
    fn control_word(&self) -> &'t AtomicU64 {
        &self.words[self.control]
    }

    /// The control word as it is now.
    #[inline]
    pub(super) fn control(&self) -> ControlWord {
        // SeqCst: Acquire for the entries, and a copy to a successor needs more. A plain load on x86.
        ControlWord::from_bits(self.control_word().load(Ordering::SeqCst))
    }

    /// Returns whether nothing changed since `seen`, if everything read since then was read with Acquire.
    #[inline]
    pub(super) fn is(&self, seen: ControlWord) -> bool {
        self.control() == seen
    }

    /// Returns whether it is the log of `tag`. Read after the control word, the result holds for that word: a tag
    /// changes only while its log is held.
    #[inline]
    pub(super) fn belongs_to(&self, tag: Option<Tag>) -> bool {
        self.owner() == tag
    }

    /// The key that the log belongs to.
    pub(super) fn owner(&self) -> Option<Tag> {
        // Acquire: pairs with the Release of the claim.
        owner_of(self.words[self.tag?].load(Ordering::Acquire))
    }

    #[inline]
    pub(super) fn view(&self, seen: ControlWord) -> LogView<'t> {
        LogView {
            log: *self,
            extent: seen.extent(self.entries),
        }
    }

    /// Takes the log, as it was `seen` and free, for entries up to the moment `latest`; of its entries it keeps the
    /// `keep` latest, the others being expired.
    pub(super) fn take(
        &self,
        seen: ControlWord,
        latest: u64,
        keep: u32,
    ) -> Result<LogWriteGuard<'t>, LostRace> {
        let view = self.view(seen);
        let mut extent = view.extent;
        extent.len = extent.len.min(keep);
        let era = LogEra::from_millis(latest);
        if era > extent.era {
            // Entries that the new era cannot tell are 37 days older than the latest: expired. At most once in 12 days.
            while extent.len > 0 && view.entry(extent.len - 1) < era.first_told() {
                extent.len -= 1;
            }
        }
        // An era goes back only with a log that has nothing to tell.
        if era > extent.era || extent.len == 0 {
            extent.era = era;
        }
        let held = seen.held(extent);
        self.swap(seen, held)?;
        Ok(LogWriteGuard {
            log: *self,
            control: held,
            extent,
        })
    }

    fn swap(&self, seen: ControlWord, next: ControlWord) -> Result<(), LostRace> {
        // See above; on failure nothing was learnt.
        self.control_word()
            .compare_exchange(
                seen.bits(),
                next.bits(),
                Ordering::SeqCst,
                Ordering::Relaxed,
            )
            .map(drop)
            .map_err(|_| LostRace)
    }

    /// Breaks a hold, if the log is still held as it was `seen`: the log counts what it counted, or a little
    /// more; a claim that was under way leaves the slot nobody's.
    pub(super) fn mend(&self, seen: ControlWord) {
        // Whatever fails here fails because another thread breaks this hold in turn.
        let _ = self.try_mend(seen);
    }

    fn try_mend(&self, seen: ControlWord) -> Result<(), LostRace> {
        let extent = seen.extent(self.entries);
        let held = seen.held(extent);
        self.swap(seen, held)?;
        let guard = LogWriteGuard {
            log: *self,
            control: held,
            extent,
        };
        let view = self.view(held);
        // Later writes expect the entries in order. Each is only made later.
        let mut least = 0;
        for age in (0..extent.len).rev() {
            least = view.entry(age).max(least);
            guard.put(view.place(age), least)?;
        }
        if let (Some(tag), 0) = (self.tag, extent.len) {
            // A claim empties the log before it writes its tag. Who had the slot before owes nothing.
            guard.write(tag, |bits| (bits & GENERATION) ^ GENERATION)?;
        }
        guard.let_go(extent)
    }
}

/// Whom a tag word names.
#[inline]
pub(super) fn owner_of(bits: u64) -> Option<Tag> {
    match bits & !GENERATION {
        0 => None,
        bits => Some(Tag::new(crate::key::KeyHash::from_bits(bits))),
    }
}

impl LogView<'_> {
    /// The same log with nothing in it.
    pub(super) fn emptied(mut self) -> Self {
        self.extent.len = 0;
        self.extent.spill = SpillState::None;
        self
    }

    /// Entries that count, expired ones included.
    pub(super) fn len(&self) -> u32 {
        self.extent.len
    }

    /// Entries that fit.
    pub(super) fn size(&self) -> u32 {
        self.log.entries
    }

    pub(super) fn spill(&self) -> SpillState {
        self.extent.spill
    }

    /// The moment of the entry that has `age` later ones, in milliseconds since the epoch.
    #[inline]
    pub(super) fn entry(&self, age: u32) -> u64 {
        let place = self.place(age);
        let index = self.log.ring + place as usize / 2;
        // Acquire: see above.
        let word = self.log.words[index].load(Ordering::Acquire);
        self.extent.era.moment((word >> shift_of(place)) as u32)
    }

    /// Index of the entry of this age, up to the size minus one.
    fn place(&self, age: u32) -> u32 {
        let size = self.size();
        match self.extent.head.checked_sub(age + 1) {
            Some(place) => place,
            None => self.extent.head + size - (age + 1),
        }
    }

    /// The moment of the latest entry.
    pub(super) fn latest(&self) -> Option<u64> {
        (self.extent.len > 0).then(|| self.entry(0))
    }

    /// Number of entries later than `moment`: by halving, since they are in order.
    pub(super) fn later_than(&self, moment: u64) -> u32 {
        self.later_within(moment, 0..=self.extent.len)
    }

    /// The same, where it is known to be in a range.
    pub(super) fn later_within(&self, moment: u64, range: RangeInclusive<u32>) -> u32 {
        let mut high = self.extent.len.min(*range.end());
        let mut low = high.min(*range.start());
        // Most often nothing has expired since somebody looked.
        if high > low && self.entry(high - 1) > moment {
            return high;
        }
        while low < high {
            let middle = low + (high - low) / 2;
            if self.entry(middle) > moment {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }
}

/// The bits of an entry's half of its word.
fn shift_of(place: u32) -> u32 {
    32 * (place % 2)
}

impl LogWriteGuard<'_> {
    /// Writes the moment at a place of the ring.
    fn put(&self, place: u32, moment: u64) -> Result<(), LostRace> {
        let shift = shift_of(place);
        let entry = u64::from(moment as u32) << shift;
        self.write(self.log.ring + place as usize / 2, |word| {
            word & !(0xFFFF_FFFF << shift) | entry
        })
    }

    /// Replaces a word of the log. Invariant 2: what is compared was read during this hold.
    fn write(&self, index: usize, next: impl Fn(u64) -> u64) -> Result<(), LostRace> {
        #[cfg(all(test, not(loom)))]
        if death::strikes() {
            return Err(LostRace);
        }
        let word = &self.log.words[index];
        // Another round means that somebody who was thrown out made his last write.
        loop {
            let seen = word.load(Ordering::Acquire);
            if !self.log.is(self.control) {
                return Err(LostRace);
            }
            let wrote =
                word.compare_exchange(seen, next(seen), Ordering::AcqRel, Ordering::Relaxed);
            if wrote.is_ok() {
                return Ok(());
            }
        }
    }

    /// Names the owner of a slot's log.
    pub(super) fn name(&self, tag: Tag) -> Result<(), LostRace> {
        match self.log.tag {
            Some(index) => self.write(index, |bits| tag.bits() | bits & GENERATION),
            None => Ok(()),
        }
    }

    /// Makes a slot nobody's and lets go of it.
    pub(super) fn abandon(self) -> Result<(), LostRace> {
        if let Some(index) = self.log.tag {
            self.write(index, |bits| bits & GENERATION)?;
        }
        self.let_go(self.extent)
    }

    /// Adds `cost` entries of `moment`, not earlier than the latest, for which there is room; lets go.
    pub(super) fn append(self, moment: u64, cost: u32) -> Result<(), LostRace> {
        let size = self.log.entries;
        let mut extent = self.extent;
        for _ in 0..cost {
            self.put(extent.head, moment)?;
            extent.head = if extent.head + 1 == size {
                0
            } else {
                extent.head + 1
            };
        }
        extent.len += cost;
        // What a spill left out is older than what was in the log then, and there was room now.
        extent.spill = SpillState::None;
        self.let_go(extent)
    }

    /// Replaces the entries by others, of which each is at least as late as the entry of the same age; lets go.
    pub(super) fn rewrite(self, by: &InheritedEntries) -> Result<(), LostRace> {
        let view = self.view();
        // Any order would do: each place gets a later moment, or does not count yet.
        for (age, moment) in by.moments.iter().enumerate() {
            self.put(view.place(age as u32), *moment)?;
        }
        self.let_go(LogExtent {
            len: by.moments.len() as u32,
            spill: by.spill,
            ..self.extent
        })
    }

    /// Fills a log that was taken empty; lets go.
    pub(super) fn fill(mut self, with: &InheritedEntries) -> Result<(), LostRace> {
        // Nothing counts yet that another era would tell otherwise.
        self.extent.era = LogEra::from_millis(with.latest());
        self.rewrite(with)
    }

    /// Removes the entries of these ages; lets go.
    pub(super) fn remove(self, ages: Range<u32>) -> Result<(), LostRace> {
        let view = self.view();
        let size = self.log.entries;
        let count = ages.end - ages.start;
        // From the oldest: each later one moves into a place of an earlier.
        for age in (0..ages.start).rev() {
            self.put(view.place(age + count), view.entry(age))?;
        }
        let mut extent = self.extent;
        extent.len -= count;
        extent.head = match extent.head.checked_sub(count) {
            Some(head) => head,
            None => extent.head + size - count,
        };
        self.let_go(extent)
    }

    /// Removes all entries and lets go.
    pub(super) fn clear(self) -> Result<(), LostRace> {
        self.let_go(LogExtent {
            len: 0,
            spill: SpillState::None,
            ..self.extent
        })
    }

    /// Lets go of the log as it is.
    fn let_go(self, extent: LogExtent) -> Result<(), LostRace> {
        #[cfg(all(test, not(loom)))]
        if death::strikes() {
            return Err(LostRace);
        }
        self.log.swap(self.control, self.control.free(extent))
    }

    fn view(&self) -> LogView<'_> {
        LogView {
            log: self.log,
            extent: self.extent,
        }
    }
}

/// Lets a test stop a holder in the middle of its writes, as if it had died there.
#[cfg(all(test, not(loom)))]
pub(super) mod death {
    use std::cell::Cell;

    thread_local! {
        static WRITES_LEFT: Cell<Option<u32>> = const { Cell::new(None) };
    }

    /// Lets this thread's holder die after so many writes, once.
    pub(crate) fn after(writes: u32) {
        WRITES_LEFT.set(Some(writes));
    }

    /// Cancels the death; returns whether it was still to come.
    pub(crate) fn averted() -> bool {
        WRITES_LEFT.take().is_some()
    }

    pub(super) fn strikes() -> bool {
        let left = WRITES_LEFT.get();
        WRITES_LEFT.set(left.and_then(|left| left.checked_sub(1)));
        left == Some(0)
    }
}
