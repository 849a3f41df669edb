//! Acquires a permit for the bytes of a body that are kept for another attempt ([`ClientBytes`]), before the first of them.
//!
//! A body comes as slowly as its client sends it, and what is kept stays until an answer begins. Without room nothing is kept, and the
//! request is sent once: a request that its first server answers does not need the copy.
//!
//! [`ClientBytes`]: sluicegate_budgets::ClientBytes

use super::body::with_read_buffer;
use super::context::Context;
use super::forwarded::ForwardedRequest;
use sluicegate_budgets::BytesPermit;
use sluicegate_process::SharedState;

/// Acquires a permit for so many bytes, and the buffer that they are read into; `None` where there is no room.
pub(super) fn reserve(
    shared: &SharedState,
    bytes: u64,
    forwarded: &ForwardedRequest,
    context: &Context,
) -> Option<BytesPermit> {
    let configured = context
        .snapshot
        .compiled
        .rules
        .server
        .defence
        .max_replay_bytes;
    // The budget counts what finds no room.
    let held = with_read_buffer(1, bytes);
    (shared.replays.enter(&forwarded.account, held, configured)).ok()
}
