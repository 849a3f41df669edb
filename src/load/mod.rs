//! Measures the figures that conditions of limits compare, and switches limits and tiers on and off by them.
//!
//! [`LoadMonitor`] keeps readings of counters for the last [`LOAD_WINDOW`](sluicegate_base::bounds::LOAD_WINDOW) and judges the
//! conditions at a time that is its argument: the gateway's task ([`LoadWatch`]) calls it by the clock, replay by the times of a log.
//!
//! # Limits
//! Only what conditions compare is read: of each origin eleven readings of 3 KB, of each limit eleven numbers. What no condition compares
//! any more is forgotten at the next look.

mod monitor;
mod watch;

pub use monitor::{ActivationEvent, LoadMonitor, LoadSources};
pub use watch::LoadWatch;
