//! Owns the hand-over of a running gateway to its successor, by a Unix socket at `[server] upgrade_socket`.
//!
//! The *incumbent* serves; the *successor* was started with `run --upgrade`, by hand or by the incumbent itself when `sluicegate upgrade`
//! asked for it. What is said, line by line (an upgrade of a version to another speaks across it, so lines are only ever added):
//!
//! ```text
//! successor    take 1
//! incumbent    listener 0.0.0.0:8080          with the socket; a line for each
//! incumbent    seed …, clock …                where counters lie in no directory; and then
//! incumbent    counters otp.5f0c….counters    with the memory; a line for each table
//! incumbent    end
//!              … the successor reads its configuration, opens its counters, and accepts on the sockets …
//! successor    ready
//! incumbent    yours                          from here on the incumbent drains
//!
//! command      start 1 / PROGRAM / CONFIGURATION      three lines
//! incumbent    done PID   or   failed REASON
//! ```
//!
//! # Invariants
//! 1. Until `yours` the incumbent accepts; whatever becomes of a successor that has not heard it, nothing is lost.
//! 2. A successor that does not hear `yours` ends.
//! 3. Sockets are passed, not bound again: connections in the kernel's queue belong to both, and none is reset when one closes.
//!
//! Pingora's own hand-over keeps neither of the first two: its old process ends even if the new one never came.

mod ask;
mod connection_cap;
mod handover;
mod line;
mod new_process;
mod old_process;

pub use ask::{AskError, ask};
pub(super) use new_process::{InheritedState, PendingTakeover};
pub(super) use old_process::{SocketClaim, UpgradeServer, serve};

/// The first lines of both conversations.
const TAKE: &str = "take 1";
const START: &str = "start 1";
