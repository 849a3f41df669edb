//! Writes a line to the process log for each change by an operator: the object, the peer, and the change.

use std::fmt::Display;
use std::net::SocketAddr;

use tracing::{info, warn};

/// Logs a change.
pub(super) fn note(subject: &dyn Display, peer: Option<SocketAddr>, act: &dyn Display) {
    info!("audit: {subject}: {} {act}", who(peer));
}

/// Logs a change that failed, in the infinitive, with the reason.
pub(super) fn note_failed(
    subject: &dyn Display,
    peer: Option<SocketAddr>,
    act: &dyn Display,
    why: &str,
) {
    warn!("audit: {subject}: {} could not {act}: {why}", who(peer));
}

fn who(peer: Option<SocketAddr>) -> String {
    peer.map_or_else(|| "somebody".to_owned(), |peer| peer.to_string())
}
