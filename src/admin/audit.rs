//! Writes a line to the process log for each act of an operator that changes something: what it is about, who did it, and what was done.

use std::fmt::Display;
use std::net::SocketAddr;

use tracing::{info, warn};

/// Notes an act.
pub(super) fn note(subject: &dyn Display, peer: Option<SocketAddr>, act: &dyn Display) {
    info!("audit: {subject}: {} {act}", who(peer));
}

/// Notes an act that came to nothing, in the infinitive, and why.
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
