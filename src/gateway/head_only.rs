//! Answers a client with a head alone, where the origin's answer has a body that goes into the cache.
//!
//! Pingora fetches the whole of an answer that may be stored, whatever the client asked for: HEAD becomes GET, and conditions
//! are removed. To a client whose answer is a head (HEAD or 304) it then relays the body as well: over HTTP/2 as frames that end
//! the stream with an error (RFC 9113 §8.1.1); over HTTP/1.1 it ends the exchange after the head, and half an answer is not
//! stored.
//!
//! So the head is written here. Over HTTP/2 it goes at once, with the end of the stream, and the exchange with the origin goes
//! on. Over HTTP/1.1 it waits until the origin's answer is stored, since a client that has its answer ends the exchange. Pingora
//! then writes the head that it holds: that head is made an interim one that is not sent, and the body is dropped as it passes
//! (`super::intercept` does the same for pages).
//!
//! # Limits
//! The wait covers at most `max_object_bytes`, the largest body that may be stored, and `bounds::REPLACED_BYTES` more.

use http::{Method, StatusCode, Version};
use pingora::http::ResponseHeader;
use pingora::proxy::Session;
use pingora::{Error, Result};

use super::context::Context;
use super::error::ProxyFault;
use super::{answer, cache};
use crate::record::RequestDisposition;

/// Returns whether the client gets a head alone while the origin sends a body.
pub(super) fn applies(session: &Session, status: StatusCode) -> bool {
    let ends_here = session.req_header().method == Method::HEAD
        || matches!(
            status,
            StatusCode::NOT_MODIFIED | StatusCode::RANGE_NOT_SATISFIABLE
        );
    ends_here
        && answer::is_final(status)
        && session.upstream_headers_mutated_for_cache()
        && cache::relays_origin(session)
        && (session.is_http2() || cache::fills(session))
}

/// Writes the head `response`, or keeps it until the origin's answer is stored, and leaves an interim head in its place.
pub(super) async fn give(
    session: &mut Session,
    response: &mut ResponseHeader,
    context: &mut Context,
) -> Result<()> {
    // No interim answer reaches the client after this.
    session.set_ignore_info_resp(true);
    let interim = ResponseHeader::build(StatusCode::PROCESSING, Some(0))?;
    let mut header = std::mem::replace(response, interim);
    header.set_version(Version::HTTP_11);
    context.replaced = Some(0);
    context.compressor = None;
    if session.is_http2() {
        let written = answer::in_time(context, answer::write(session, header, None)).await;
        return written.map_err(|error| error.into_down());
    }
    context.withheld = Some(Box::new(header));
    Ok(())
}

/// Writes a head that waited for the cache.
pub(super) async fn release(session: &mut Session, context: &mut Context) {
    if let Some(header) = context.withheld.take()
        && answer::in_time(context, answer::write(session, *header, None))
            .await
            .is_err()
    {
        context.disposition = Some(RequestDisposition::ClientGone);
    }
}

/// Writes a head that waited, when the rest of the origin's answer fails: the head is complete, whatever became of the body.
pub(super) async fn release_after(error: &Error, session: &mut Session, context: &mut Context) {
    if ProxyFault::of(error) == ProxyFault::ClientGone {
        context.withheld = None;
        return;
    }
    session.set_keepalive(None);
    release(session, context).await;
}
