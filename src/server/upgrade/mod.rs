//! Owns the handover of a running gateway to a new process, by a Unix socket at `[server] upgrade_socket`.
//!
//! The *old process* serves; the *new process* was started with `run --upgrade`, by hand or by the old process itself at a
//! request of `sluicegate upgrade`. The protocol, line by line (versions must understand each other, so lines are only ever
//! added):
//!
//! ```text
//! new process    take 1
//! old process    listener 0.0.0.0:8080          with the socket; a line for each
//! old process    quic …                         only with HTTP/3: its keys, and the number of upgrades
//! old process    datagrams 0.0.0.0:8443         with the socket; a line for each thread
//! old process    relay 0.0.0.0:8443 0 1         with the way to a thread of it, or of a process before it
//! old process    seed …, clock …                only without a state directory, as is
//! old process    counters otp.5f0c….counters    with the memory; a line for each table
//! old process    gateways 3                     only with a store: the number of gateways that share it
//! old process    end
//!                … the new process reads its configuration, opens its counters, and accepts on the sockets …
//! new process    reads 0.0.0.0:8443             for each address at which it is about to read datagrams
//! new process    ready
//! old process    yours                          from here on the old process drains
//!
//! command        start 1 / PROGRAM / CONFIGURATION      three lines
//! old process    done PID   or   failed REASON
//! ```
//!
//! # Invariants
//! 1. Until `yours` the old process accepts, and reads datagrams; if a new process fails before it has received that, nothing is lost.
//! 2. A new process that does not receive `yours` ends.
//! 3. Sockets are passed, not bound again: connections in the kernel's queue belong to both, and none is reset when one closes. Datagrams
//!    that wait are read by one of them.
//!
//! Pingora's own handover guarantees neither of the first two: its old process ends even if the new one never came.

mod ask;
mod connection_cap;
mod datagrams;
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
/// The beginning of the line with an address at which the new process reads datagrams.
const READS: &str = "reads ";
/// The beginning of the line with the number of gateways.
const GATEWAYS: &str = "gateways ";
