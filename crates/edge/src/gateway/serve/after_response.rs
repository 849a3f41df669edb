//! Decides over the connection to an origin after a response, and drops what its client does not get.

use std::time::Duration;

use sluicegate_base::{bounds, clock};
use sluicegate_http1::BodyFraming;

use super::attempt_io::patience;
use super::response_body::{ContentWriter, ResponseBody};
use crate::gateway::forwarded::ForwardedRequest;
use sluicegate_origin::request_failure::Result;
use sluicegate_origin::{OriginChannel, OriginEvent, OriginPatience};

/// The decision over a connection to an origin after an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AfterAttempt {
    /// The message ended exactly, behind the request, and nothing followed.
    Keep,
    /// It carries no further request.
    Close,
    /// It carries no further request, and the request is sent again instead of passing the response on.
    Repeat,
}

/// Decides over the connection after a response, whose head decides as `by_head` says.
pub(super) fn after_response(
    origin: &OriginChannel,
    body: &ResponseBody,
    by_head: AfterAttempt,
) -> AfterAttempt {
    let is_read = body.is_over() && !body.has_large_trailer() && origin.read.is_empty();
    if is_read && origin.is_answer_to_whole() {
        by_head
    } else {
        AfterAttempt::Close
    }
}

/// Drops what is here of a body with this framing; the connection of a longer one is closed.
pub(super) fn drop_read(
    origin: &mut OriginChannel,
    received: BodyFraming,
    by_head: AfterAttempt,
) -> Result<AfterAttempt> {
    let unsent = ContentWriter::new(BodyFraming::None, None);
    let mut body = ResponseBody::begin(received, unsent, None, &mut Vec::new())?;
    Ok(match body.discard(&mut origin.read) {
        Ok(_) => after_response(origin, &body, by_head),
        Err(_) => AfterAttempt::Close,
    })
}

/// Drops the rest of a body, so that the connection to the origin goes on if it is small. A body that is being stored, or that has a cost,
/// is read to its end, unless that takes longer than other requests wait for it.
pub(super) async fn drop_rest(
    origin: &mut OriginChannel,
    body: &mut ResponseBody,
    forwarded: &mut ForwardedRequest,
) -> Result<()> {
    // The client has its answer, so a body that breaks costs the connection to the origin alone.
    forwarded.unread = None;
    let is_refresh =
        (forwarded.cached.as_ref()).is_some_and(|transaction| transaction.is_refresh());
    let began = clock::now();
    let mut dropped = 0;
    loop {
        let Ok(data) = body.discard(&mut origin.read) else {
            return Ok(());
        };
        forwarded.attempt.count_received(data);
        dropped += data;
        if origin.is_ended() && !body.is_over() {
            // Nothing follows the client's answer.
            let _ = body.end_of_stream(&mut Vec::new());
            return Ok(());
        }
        if body.is_over() || dropped > bounds::REPLACED_BYTES && !body.needs_rest() {
            return Ok(());
        }
        let (most, patience) = match (body.needs_rest(), patience(forwarded)) {
            (false, Ok(patience)) => (bounds::DRAIN_TIME, patience),
            (_, Err(_)) => return Ok(()),
            (true, Ok(patience)) if is_refresh => (Duration::MAX, patience),
            (true, Ok(patience)) => {
                let left = bounds::FILL_PATIENCE.saturating_sub(clock::since(began));
                (left, patience)
            }
        };
        let patience = OriginPatience {
            read: patience.read.within(most),
            write: patience.write.within(most),
        };
        match origin.next(patience).await {
            Ok(OriginEvent::Bytes(1..) | OriginEvent::Sent) => {}
            Ok(OriginEvent::Bytes(0)) if origin.is_ended() => {}
            _ => return Ok(()),
        }
    }
}
