//! Owns the typed rules of traces.

use crate::config::Share;

/// `[tracing]`: requests carry a trace to their origin, W3C Trace Context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracingRules {
    /// The share of traces that are recorded, where that is the gateway's to say; default all.
    pub sample: Share,
}
