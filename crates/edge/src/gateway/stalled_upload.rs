//! Decides whether the client of an upload is to blame for a timeout of its origin, before the failure counts against a server.
//!
//! A server that waits for the rest of a request says nothing, so a client that stalls looks like a silent server. The client is to blame
//! only if the gateway was ready to read from it: one whose server takes no more of the request cannot send more either.

use std::time::Duration;

use sluicegate_base::clock;

use super::context::Context;
use super::forwarded::ForwardedRequest;
use sluicegate_origin::request_failure::{OriginFailure, OriginTimeout};

/// The side whose next step an upload waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UploadWait {
    /// The client: its body is not at its end, and all that came of it was sent.
    Client,
    /// The server: it has the whole request, or does not take what came of it.
    Server,
}

/// Returns whether an attempt failed because the client of its upload was silent for most of the time that the server had.
pub(super) fn is_to_blame(
    failure: &OriginFailure,
    waits_for: UploadWait,
    forwarded: &ForwardedRequest,
    context: &Context,
) -> bool {
    let OriginFailure::Timeout(timeout) = failure else {
        return false;
    };
    let Some(patience) = server_time(*timeout).filter(|_| waits_for == UploadWait::Client) else {
        return false;
    };
    // Body bytes that were read before the attempt did not delay the server.
    let started = forwarded.attempt.started;
    let heard = (context.pace.heard_at()).map_or(started, |at| at.max(started));
    clock::since(heard) > patience / 2
}

/// Returns the time that a server had; `None` for one that did not take the request.
fn server_time(timeout: OriginTimeout) -> Option<Duration> {
    match timeout {
        OriginTimeout::FirstByte(time) | OriginTimeout::Read(time) | OriginTimeout::Total(time) => {
            Some(time)
        }
        OriginTimeout::Write(_) => None,
    }
}
