//! Owns the access log's lines between the request that wrote them and the thread that saves them.
//!
//! A request appends to the buffer of its own thread's stripe, under a mutex that nobody else holds but the writer for the
//! length of a swap of two pointers. The buffers grow to what the traffic needs and are then reused for ever.
//!
//! # Limits
//!
//! A shard holds at most its cap; a line that does not fit is left out and counted, so a dead disk costs memory once and
//! requests nothing.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use sluicegate_telemetry::per_thread;
use sluicegate_telemetry::rfc3339::TimeFormatter;

/// Bytes of a shard at which it asks for the writer before its next tick: large enough that a wake-up is paid for by
/// hundreds of lines, small enough that both buffers of a shard stay in the second cache beside what requests work on.
pub(super) const WATERMARK: usize = 64 * 1024;

/// Bytes that a shard holds at most: 100,000 lines a second on one thread for 100 ms.
pub(super) const CAP: usize = 4 * 1024 * 1024;

/// The buffers, one a stripe.
pub(super) struct LineBuffers {
    shards: Box<[LineBuffer]>,
    cap: usize,
}

/// Keeps two shards off one cache line.
#[repr(align(64))]
struct LineBuffer(Mutex<BufferContent>);

#[derive(Default)]
struct BufferContent {
    bytes: Vec<u8>,
    stamp: TimeFormatter,
    lines: u64,
    dropped: u64,
}

/// The fill level of a buffer after a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FillLevel {
    /// The next tick is early enough.
    Calm,
    /// This line crossed the watermark: wake the writer.
    Watermark,
}

/// Lines taken and lines left out, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LineCounts {
    pub(super) lines: u64,
    pub(super) dropped: u64,
}

impl LineBuffers {
    /// `count` empty shards of at most `cap` bytes each; `count` is at least 1.
    pub(super) fn new(count: usize, cap: usize) -> Self {
        let shards = (0..count.max(1))
            .map(|_| LineBuffer(Mutex::default()))
            .collect();
        Self { shards, cap }
    }

    /// Appends what `write` writes, which is one whole line, to the calling thread's shard.
    pub(super) fn append(&self, write: impl FnOnce(&mut Vec<u8>, &mut TimeFormatter)) -> FillLevel {
        let mut filling = self.lock(per_thread::stripe() % self.shards.len());
        let filling = &mut *filling;
        let before = filling.bytes.len();
        if before < self.cap {
            write(&mut filling.bytes, &mut filling.stamp);
        }
        let after = filling.bytes.len();
        if before >= self.cap || after > self.cap {
            filling.bytes.truncate(before);
            filling.dropped += 1;
            return FillLevel::Calm;
        }
        filling.lines += 1;
        if before < WATERMARK && after >= WATERMARK {
            FillLevel::Watermark
        } else {
            FillLevel::Calm
        }
    }

    /// Swaps the lines of shard `index` against `into`, which must be empty; its capacity serves the next lines.
    pub(super) fn take(&self, index: usize, into: &mut Vec<u8>) {
        debug_assert!(
            into.is_empty(),
            "a buffer with unsent lines would go back into the shard"
        );
        std::mem::swap(&mut self.lock(index).bytes, into);
    }

    /// Returns the number of buffers.
    pub(super) fn len(&self) -> usize {
        self.shards.len()
    }

    /// The sum over all shards.
    pub(super) fn counted(&self) -> LineCounts {
        (0..self.len())
            .map(|index| self.lock(index))
            .fold(LineCounts::default(), |sum, filling| LineCounts {
                lines: sum.lines + filling.lines,
                dropped: sum.dropped + filling.dropped,
            })
    }

    /// Poison is ignored: a line is only appended, so what a panicking thread left behind is at worst one broken line.
    fn lock(&self, index: usize) -> MutexGuard<'_, BufferContent> {
        self.shards[index]
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for LineBuffers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shards")
            .field("len", &self.len())
            .field("cap", &self.cap)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn append(shards: &LineBuffers, line: &[u8]) -> FillLevel {
        shards.append(|bytes, _| bytes.extend_from_slice(line))
    }

    /// Goal: the cap holds to the byte, and what does not fit is counted and leaves no trace. Method: a shard of 10 bytes.
    #[test]
    fn a_line_beyond_the_cap_is_dropped_whole_and_counted() {
        let shards = LineBuffers::new(1, 10);
        for line in [&b"1234\n"[..], b"too long\n", b"5678\n", b"\n"] {
            append(&shards, line);
        }
        let mut taken = Vec::new();
        shards.take(0, &mut taken);
        assert_eq!(taken, b"1234\n5678\n");
        assert_eq!(
            shards.counted(),
            LineCounts {
                lines: 2,
                dropped: 2
            }
        );
        append(&shards, b"again\n");
        assert_eq!(
            shards.counted(),
            LineCounts {
                lines: 3,
                dropped: 2
            }
        );
    }

    /// Goal: one wake-up a watermark, not one a line. Method: count the levels while a shard fills.
    #[test]
    fn crossing_the_watermark_is_told_once() {
        let shards = LineBuffers::new(1, CAP);
        let line = [b'x'; 1024];
        let told = (0..2 * WATERMARK / line.len())
            .filter(|_| append(&shards, &line) == FillLevel::Watermark)
            .count();
        assert_eq!(told, 1);
    }
}
