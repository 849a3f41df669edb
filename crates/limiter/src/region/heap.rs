//! Memory on the heap, for builds that may not map any.

use crate::sync::AtomicU64;

use super::ALIGNMENT;

/// Words to the next address of the alignment, at most.
const SLACK: usize = ALIGNMENT / size_of::<u64>() - 1;

/// Words on the heap; the run begins where the alignment asks for it.
pub(super) struct HeapWords {
    heap: Box<[AtomicU64]>,
    first: usize,
    count: usize,
}

impl HeapWords {
    /// `count` zero words.
    pub(super) fn owned(count: usize) -> Self {
        let heap: Box<[AtomicU64]> = (0..count.saturating_add(SLACK))
            .map(|_| AtomicU64::new(0))
            .collect();
        // Beyond the slack where the distance is not known, as under an interpreter; then speed is not what counts.
        let first = match heap.as_ptr().align_offset(ALIGNMENT) {
            near if near <= SLACK => near,
            _ => 0,
        };
        Self { heap, first, count }
    }

    /// The words.
    #[inline]
    pub(super) fn words(&self) -> &[AtomicU64] {
        &self.heap[self.first..self.first + self.count]
    }

    /// The same as that of a mapping.
    pub(super) fn kind(&self) -> &'static str {
        "heap"
    }
}
