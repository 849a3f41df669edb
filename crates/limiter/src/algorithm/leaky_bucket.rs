//! The leaky bucket as a queue: admitted requests leave one by one at the drain rate, in order of admission.
//!
//! The state is the moment at which the next request may leave. A request that finds it in the past leaves at once, any
//! other waits until then; either way the next one leaves cost · T later, T = period / count. The caller holds
//! it back for the delay that the decision tells.
//!
//! # Guarantee
//! *Released evenly:* two requests of a key leave at least T apart (to a millisecond), so a window of length W sees at
//! most 1 + count · (W + 1 ms) / period leave. *First in, first out:* each admission moves the moment further by one
//! compare-and-swap, so the order of delays is the order of admissions. *Bounded:* a request that waits d has at most
//! ⌈d / T⌉ requests waiting, itself included; it is admitted only if d + cost · T ≤ (queue + 1) · T, so for cost 1 at most
//! `queue` wait, and only if d ≤ max_wait.
//!
//! A reservation that is released lets the requests after the next one leave earlier; those that were told a delay keep
//! it, so two may leave together in place of the one that did not.

use super::drain::DrainBounds;

/// A queue of so many, in which no request waits longer than `most_wait` milliseconds.
pub(crate) const fn shape(queue: u32, most_wait: u32) -> DrainBounds {
    DrainBounds {
        burst: queue.saturating_add(1),
        most_wait: Some(most_wait),
    }
}
