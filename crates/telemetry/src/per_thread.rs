//! Splits hot counters over threads: a thread always writes to the same one of [`STRIPES`] cells.
//!
//! A counter shared by all cores costs a cache miss a request; sixteen cells make the write local and leave the adding up to
//! the scrape. A cell is allocated by the first thread that writes to it, so ten thousand idle routes cost nothing.

use std::cell::Cell;
use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of cells of a striped counter, a power of two. Where there are more threads, several share a cell, which stays correct.
pub const STRIPES: usize = 16;

/// Returns the index of the calling thread's cell, below [`STRIPES`].
#[inline]
pub fn stripe() -> usize {
    static ASSIGNED: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static STRIPE: Cell<usize> = const { Cell::new(usize::MAX) };
    }
    STRIPE.with(|stripe| {
        let known = stripe.get();
        if known < STRIPES {
            return known;
        }
        // Relaxed: the number only spreads threads, it publishes nothing.
        let drawn = ASSIGNED.fetch_add(1, Ordering::Relaxed) % STRIPES;
        stripe.set(drawn);
        drawn
    })
}

/// One `T` a stripe, made by the first thread that uses it.
pub struct PerThread<T> {
    cells: [OnceLock<Box<CachePadded<T>>>; STRIPES],
}

/// Keeps two cells off one cache line.
#[derive(Default)]
#[repr(align(64))]
struct CachePadded<T>(T);

impl<T: Default> PerThread<T> {
    /// Returns the cell of the calling thread.
    pub fn mine(&self) -> &T {
        &self.cells[stripe()].get_or_init(Box::default).0
    }

    /// Returns every cell that a thread has used.
    pub fn cells(&self) -> impl Iterator<Item = &T> {
        self.cells
            .iter()
            .filter_map(|cell| cell.get().map(|padded| &padded.0))
    }
}

impl<T> Default for PerThread<T> {
    fn default() -> Self {
        Self {
            cells: [const { OnceLock::new() }; STRIPES],
        }
    }
}

impl<T> fmt::Debug for PerThread<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PerThread").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    /// Goal: nothing is lost between the cells. Method: add from more threads than there are cells, then sum.
    #[test]
    fn the_cells_add_up_to_the_sum_over_all_threads() {
        let counter = PerThread::<AtomicU64>::default();
        std::thread::scope(|scope| {
            for _ in 0..STRIPES + 3 {
                scope.spawn(|| {
                    for _ in 0..1_000 {
                        counter.mine().fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        let sum: u64 = counter
            .cells()
            .map(|cell| cell.load(Ordering::Relaxed))
            .sum();
        assert_eq!(sum, 1_000 * (STRIPES as u64 + 3));
    }

    /// Goal: a thread keeps its cell. Method: ask twice.
    #[test]
    fn a_thread_always_writes_to_the_same_cell() {
        assert_eq!(stripe(), stripe());
        assert!(stripe() < STRIPES);
    }
}
