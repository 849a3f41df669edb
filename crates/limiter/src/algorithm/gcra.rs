//! GCRA, the generic cell rate algorithm: requests at most one emission interval apart on average, with a tolerance.
//!
//! A request of cost c conforms if the theoretical arrival time, the moment at which an evenly spaced sender with the
//! same charges would be due next, is at most (burst − c) · T ahead, T = period / count being the emission interval.
//!
//! # Guarantee
//! Any window of length W admits at most burst + count · (W + 1 ms) / period; `drain` derives it.
//!
//! # Equivalence
//! The greedy token bucket is the same algorithm seen from the other side: its tokens are burst − debt / T. So both admit
//! the same requests, wait for wait, and share the code in `drain`. Only the interval refill is another algorithm.

use super::drain::DrainBounds;

/// GCRA with this burst.
pub(crate) const fn shape(burst: u32) -> DrainBounds {
    DrainBounds::of_burst(burst)
}
