//! Owns lines between the threads that write them and the thread that saves them.
//!
//! A caller appends to the buffer of its own thread's stripe, under a mutex that no other thread holds but the writer for the
//! length of a swap of two pointers. A buffer is allocated with its first line, for as many as wake the writer, and then reused for ever.
//!
//! [`LineBuffers::take_all`] takes every buffer at one moment, so that lines of different threads can be put in order. It waits for no
//! caller that is writing a line: it tries again, and after [`TRIES`] it takes the buffers one after the other.
//!
//! # Limits
//!
//! A buffer holds at most its cap; a line that does not fit is dropped and counted, so a dead disk costs memory once and
//! callers nothing.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use crate::per_thread;
use crate::rfc3339::TimeFormatter;

/// The bytes in a buffer at which the writer is woken before its next tick: large enough that hundreds of lines share a wake-up, small
/// enough that a buffer and the one it is swapped with stay in the second cache beside what requests work on.
pub(crate) const WATERMARK: usize = 64 * 1024;

/// The bytes for which a buffer has room from its first line: those up to the watermark, and what comes until the writer takes them.
const FIRST_CAPACITY: usize = WATERMARK + WATERMARK / 4;

/// The number of times that all buffers are tried at one moment: each is locked for a few hundred nanoseconds a line, so a dozen tries
/// find all of them free but while a thread that holds one does not run.
const TRIES: usize = 64;

/// The buffers, one a stripe.
pub(crate) struct LineBuffers {
    buffers: Box<[LineBuffer]>,
    cap: usize,
}

/// Keeps two buffers off one cache line.
#[repr(align(64))]
struct LineBuffer(Mutex<BufferContent>);

#[derive(Default)]
struct BufferContent {
    lines: StampedLines,
    time: TimeFormatter,
    taken: u64,
    dropped: u64,
}

/// Lines with their times, by which lines of several buffers are put in order.
#[derive(Debug, Default)]
pub(crate) struct StampedLines {
    pub(crate) bytes: Vec<u8>,
    /// One for each line that was appended with a time.
    pub(crate) stamps: Vec<LineStamp>,
}

impl StampedLines {
    /// Returns each line that begins at this byte or behind it, with its time.
    pub(crate) fn lines_from(&self, byte: usize) -> impl Iterator<Item = (u64, &[u8])> {
        let first = self.stamps.partition_point(|stamp| stamp.start < byte);
        let stamps = self.stamps.get(first..).unwrap_or_default();
        let ends = stamps.iter().skip(1).map(|next| next.start);
        stamps
            .iter()
            .zip(ends.chain([self.bytes.len()]))
            .map(|(stamp, end)| {
                (
                    stamp.at,
                    self.bytes.get(stamp.start..end).unwrap_or_default(),
                )
            })
    }

    /// Appends a line.
    pub(crate) fn push(&mut self, at: u64, line: &[u8]) {
        let start = self.bytes.len();
        self.stamps.push(LineStamp { at, start });
        self.bytes.extend_from_slice(line);
    }

    /// Forgets the lines and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.stamps.clear();
    }
}

/// The time of a line, and its place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LineStamp {
    /// A time by any clock that all lines share.
    pub(crate) at: u64,
    /// Where the line begins.
    pub(crate) start: usize,
}

/// The fill level of a buffer after a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FillLevel {
    /// Below the watermark, or past it before: the writer's next tick is early enough.
    Low,
    /// This line crossed the watermark, so the writer is to be woken.
    Watermark,
}

/// Counts of lines since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LineCounts {
    /// Lines taken.
    pub(crate) lines: u64,
    /// Lines dropped because a buffer was full.
    pub(crate) dropped: u64,
}

impl LineBuffers {
    /// Makes `count` empty buffers, at least 1, of at most `cap` bytes each.
    pub(crate) fn new(count: usize, cap: usize) -> Self {
        let buffers = (0..count.max(1))
            .map(|_| LineBuffer(Mutex::default()))
            .collect();
        Self { buffers, cap }
    }

    /// Appends the whole line that `write` writes to the calling thread's buffer, with its time where lines are put in order.
    #[inline]
    pub(crate) fn append(
        &self,
        at: Option<u64>,
        write: impl FnOnce(&mut Vec<u8>, &mut TimeFormatter),
    ) -> FillLevel {
        let mut content = self.lock(per_thread::stripe() % self.buffers.len());
        let content = &mut *content;
        let bytes = &mut content.lines.bytes;
        let before = bytes.len();
        if bytes.capacity() == 0 {
            bytes.reserve(FIRST_CAPACITY.min(self.cap));
        }
        if before < self.cap {
            write(bytes, &mut content.time);
        }
        let after = bytes.len();
        if before >= self.cap || after > self.cap {
            bytes.truncate(before);
            content.dropped += 1;
            return FillLevel::Low;
        }
        if let Some(at) = at {
            content.lines.stamps.push(LineStamp { at, start: before });
        }
        content.taken += 1;
        if before < WATERMARK && after >= WATERMARK {
            FillLevel::Watermark
        } else {
            FillLevel::Low
        }
    }

    /// Swaps the lines of buffer `index`, which have no times, for `into`, which must be empty; its capacity serves the next lines.
    #[cfg(feature = "otlp")]
    pub(crate) fn take(&self, index: usize, into: &mut Vec<u8>) {
        debug_assert!(
            into.is_empty(),
            "a buffer with unwritten lines would go back"
        );
        std::mem::swap(&mut self.lock(index).lines.bytes, into);
    }

    /// Swaps the lines of all buffers for `into`, whose parts must be empty; their capacity serves the next lines.
    pub(crate) fn take_all(&self, into: &mut [StampedLines]) {
        debug_assert!(into.iter().all(|lines| lines.bytes.is_empty()));
        for _ in 0..TRIES {
            let locked: Option<Vec<_>> = self.buffers.iter().map(LineBuffer::try_lock).collect();
            if let Some(mut locked) = locked {
                for (content, into) in locked.iter_mut().zip(into) {
                    std::mem::swap(&mut content.lines, into);
                }
                return;
            }
            std::hint::spin_loop();
        }
        for (index, into) in into.iter_mut().enumerate() {
            std::mem::swap(&mut self.lock(index).lines, into);
        }
    }

    /// Returns the number of buffers.
    #[must_use]
    pub(crate) fn count(&self) -> usize {
        self.buffers.len()
    }

    /// Returns the sum over all buffers.
    pub(crate) fn counts(&self) -> LineCounts {
        (0..self.count()).map(|index| self.lock(index)).fold(
            LineCounts::default(),
            |sum, content| LineCounts {
                lines: sum.lines + content.taken,
                dropped: sum.dropped + content.dropped,
            },
        )
    }

    /// Locks a buffer. Poison is ignored: a line is only appended, so a panicking thread leaves at worst one broken line behind.
    fn lock(&self, index: usize) -> MutexGuard<'_, BufferContent> {
        self.buffers[index]
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl LineBuffer {
    /// Locks the buffer where no caller is writing a line. Poison is ignored as in [`LineBuffers::lock`].
    fn try_lock(&self) -> Option<MutexGuard<'_, BufferContent>> {
        match self.0.try_lock() {
            Ok(content) => Some(content),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

impl fmt::Debug for LineBuffers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LineBuffers")
            .field("len", &self.count())
            .field("cap", &self.cap)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn append(buffers: &LineBuffers, line: &[u8]) -> FillLevel {
        buffers.append(None, |bytes, _| bytes.extend_from_slice(line))
    }

    /// Goal: the cap holds to the byte, and what does not fit is counted and leaves no trace. Method: a buffer of 10 bytes.
    #[test]
    fn a_line_beyond_the_cap_is_dropped_whole_and_counts() {
        let buffers = LineBuffers::new(1, 10);
        for line in [&b"1234\n"[..], b"too long\n", b"5678\n", b"\n"] {
            append(&buffers, line);
        }
        let mut taken = [StampedLines::default()];
        buffers.take_all(&mut taken);
        assert_eq!(taken[0].bytes, b"1234\n5678\n");
        assert_eq!(
            buffers.counts(),
            LineCounts {
                lines: 2,
                dropped: 2
            }
        );
        append(&buffers, b"again\n");
        assert_eq!(
            buffers.counts(),
            LineCounts {
                lines: 3,
                dropped: 2
            }
        );
    }

    /// Goal: a buffer does not grow while it fills up to the watermark, and has no more memory than it may hold. Method: the capacities
    /// that lines find in a buffer, and in one with a small cap.
    #[test]
    fn a_buffer_has_its_memory_from_the_first_line() {
        for cap in [4 * WATERMARK, 100] {
            let buffers = LineBuffers::new(1, cap);
            let mut capacities = Vec::new();
            for _ in 0..WATERMARK / 10 {
                buffers.append(None, |bytes, _| {
                    capacities.push(bytes.capacity());
                    bytes.extend_from_slice(b"123456789\n");
                });
            }
            assert!(capacities.iter().all(|bytes| *bytes == capacities[0]));
            assert_eq!(capacities[0], FIRST_CAPACITY.min(cap));
        }
    }

    /// Goal: one wake-up a watermark, not one a line. Method: count the levels while a buffer fills.
    #[test]
    fn crossing_the_watermark_is_reported_once() {
        let buffers = LineBuffers::new(1, 4 * WATERMARK);
        let line = [b'x'; 1024];
        let crossed = (0..2 * WATERMARK / line.len())
            .filter(|_| append(&buffers, &line) == FillLevel::Watermark)
            .count();
        assert_eq!(crossed, 1);
    }
}
