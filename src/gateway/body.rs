//! Reads the beginning of a body before the decision, for routes with a limit that takes its key from the body. The origin still
//! gets every byte.
//!
//! Pingora keeps the bytes in the buffer from which it also retries, and sends them to the origin first. The buffer has 64 KiB
//! and one read may bring as much, so a body in chunks can overflow it; the context then holds the bytes, and puts them in front
//! of the next piece on its way to the origin.
//!
//! # Limits
//! At most `max_key_body_bytes` and one read are held, for at most `client_read_timeout` in all. A body that announces a greater
//! length is not read.

use bytes::{Bytes, BytesMut};
use pingora::Result;
use pingora::proxy::Session;
use sluicegate_base::clock;
use tokio::time::timeout;

use super::answer;
use super::context::Context;
use super::error::error_for;
use super::min_body_rate::MinBodyRate;
use crate::admission::{KnownBody, body_is_read};
use crate::config::rules::ServerRules;
use crate::response::GatewayProblem;

/// The part of a body that was read before the decision.
pub(super) enum Prefix {
    /// The whole body.
    Whole(Bytes),
    /// The body is longer than the limit.
    TooLarge,
    /// The body has a media type from which no key is read.
    OfOtherKind,
}

impl Prefix {
    /// Returns the body in the form that admission reads.
    pub(super) fn known(&self) -> KnownBody<'_> {
        match self {
            Self::Whole(bytes) => KnownBody::Whole(bytes),
            Self::TooLarge => KnownBody::TooLarge,
            Self::OfOtherKind => KnownBody::OfOtherKind,
        }
    }
}

/// Reads the bytes that keys need. `Ok(Err)` is the problem to answer with; `Err` is an error after which no client is left to
/// answer.
pub(super) async fn read(
    session: &mut Session,
    context: &mut Context,
    max_body_bytes: u64,
) -> Result<Result<Prefix, GatewayProblem>> {
    if session.is_body_empty() {
        return Ok(Ok(Prefix::Whole(Bytes::new())));
    }
    let head = session.req_header();
    if !body_is_read(&head.method, &head.headers) {
        return Ok(Ok(Prefix::OfOtherKind));
    }
    let server = &context.snapshot.rules.server;
    let (most, patience) = (server.max_key_body_bytes, server.client_read_timeout);
    if announced(session).is_some_and(|bytes| bytes > most as u64) {
        return Ok(Ok(Prefix::TooLarge));
    }
    if answer::waits_for_100_continue(session) {
        answer::send_100_continue(session).await?;
        context.sent_100_continue = true;
    }
    session.as_downstream_mut().enable_retry_buffering();
    // One deadline for the whole read, so that a byte every few seconds does not hold the memory forever.
    match timeout(patience, read_up_to(session, most, context, max_body_bytes)).await {
        Ok(prefix) => prefix,
        Err(_) => Ok(Err(GatewayProblem::BodyTimeout)),
    }
}

async fn read_up_to(
    session: &mut Session,
    most: usize,
    context: &mut Context,
    max_body_bytes: u64,
) -> Result<Result<Prefix, GatewayProblem>> {
    let mut read = BytesMut::new();
    while let Some(bytes) = session.as_downstream_mut().read_request_body().await? {
        read.extend_from_slice(&bytes);
        context.received = read.len() as u64;
        if context.received > max_body_bytes {
            return Ok(Err(GatewayProblem::BodyTooLarge));
        }
        if read.len() > most {
            if session.retry_buffer_truncated() {
                if session.is_body_done() {
                    // No further piece would carry the held bytes along. A read ends before the last chunk, so this does not
                    // happen.
                    return Ok(Err(GatewayProblem::BodyTooLarge));
                }
                context.held = Some(read.freeze());
            }
            return Ok(Ok(Prefix::TooLarge));
        }
    }
    Ok(Ok(Prefix::Whole(read.freeze())))
}

fn announced(session: &Session) -> Option<u64> {
    let length = session
        .req_header()
        .headers
        .get(http::header::CONTENT_LENGTH)?;
    length.to_str().ok()?.parse().ok()
}

/// Sets the timeouts of a client: for silence, and for not reading an answer.
pub(super) fn set_patience(session: &mut Session, server: &ServerRules) {
    if session.get_keepalive().is_some() {
        session.set_keepalive(Some(server.keepalive_timeout.as_secs().max(1)));
    }
    session.set_read_timeout(Some(server.client_read_timeout));
    // Pingora's timeout is for a whole piece of an answer, which is up to 256 KiB over HTTP/1: a slow client that reads all the
    // time would exceed it. There the connection itself bounds the wait. Over HTTP/2 a piece has 64 KiB, and only this timeout
    // bounds the wait of a stream.
    let patience = session.as_http2().map(|_| server.client_write_timeout);
    session.set_write_timeout(patience);
}

/// Records a received piece of the body, and sets the timeout of the next read to what the minimum body rate leaves.
///
/// # Errors
/// The client is too slow.
pub(super) fn keep_pace(
    session: &mut Session,
    piece: Option<&Bytes>,
    context: &mut Context,
) -> Result<()> {
    let Some(piece) = piece else { return Ok(()) };
    if session.was_upgraded() {
        // The bytes after an upgrade are no body, and may pause for any time.
        return Ok(());
    }
    let server = &context.snapshot.rules.server;
    let asked = MinBodyRate {
        read: server.client_read_timeout,
        rate: server.defence.client_min_rate,
    };
    match context.pace.went_on(piece.len(), clock::now(), asked) {
        Some(patience) => {
            session.set_read_timeout(Some(patience));
            Ok(())
        }
        None => Err(error_for(GatewayProblem::BodyTimeout)),
    }
}

/// Prepends the held bytes to the first piece that goes to the origin.
pub(super) fn put_held_first(body: &mut Option<Bytes>, context: &mut Context) {
    if let Some(held) = context.held.take() {
        let mut joined = BytesMut::from(&held[..]);
        joined.extend_from_slice(body.as_deref().unwrap_or_default());
        *body = Some(joined.freeze());
    }
}

/// Removes an empty last piece, such as an HTTP/2 client sends whose END_STREAM comes in a frame of its own.
///
/// Pingora writes every piece as a chunk, and an empty chunk is the last one (RFC 9112 §7.1). It then ends the body, so an
/// HTTP/1.1 origin would read a second last chunk as the beginning of the next request on that connection, which may be another
/// client's.
pub(super) fn omit_empty_end(body: &mut Option<Bytes>) {
    body.take_if(|piece| piece.is_empty());
}
