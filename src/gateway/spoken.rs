//! Minds what differs by the version of HTTP that is spoken with each side.

use std::net::SocketAddr;

use bytes::BytesMut;
use http::header::{COOKIE, HOST, HeaderValue};
use pingora::http::RequestHeader;
use pingora::proxy::Session;
use pingora::{Error, ErrorType, OrErr, Result};

use super::context::Context;
use super::error::Fault;
use crate::clock;
use crate::origin::Pool;
use crate::response::Problem;

/// Whether the server speaks what the operator said. Pingora falls back to HTTP/1.1 where a server with TLS does not choose, and a
/// request of gRPC would get lost there without a word.
pub(super) fn check(
    pool: &Pool,
    request: &RequestHeader,
    server: Option<SocketAddr>,
) -> Result<()> {
    if !pool.rules.protocol.is_http2_alone() || request.version == http::Version::HTTP_2 {
        return Ok(());
    }
    let why = "it takes no HTTP/2; write protocol = \"auto\" to speak HTTP/1.1 with it";
    pool.complaints.tell(&pool.name, server, why);
    Err(Error::explain(ErrorType::HandshakeError, why).into_up())
}

/// A request of HTTP/2 names its host in `:authority`, which is told to origins where they look for it: what is said about the host a
/// client asked for is read from `Host`. From HTTP/2 to HTTP/2 Pingora leaves that to us, and writes `:authority` from it again.
pub(super) fn name_host(request: &mut RequestHeader) -> Result<()> {
    if request.version == http::Version::HTTP_2
        && !request.headers.contains_key(HOST)
        && let Some(authority) = request.uri.authority()
    {
        let host = HeaderValue::from_str(authority.as_str());
        request.insert_header(
            HOST,
            host.or_err(ErrorType::InvalidHTTPHeader, "the authority of a request")?,
        )?;
    }
    Ok(())
}

/// HTTP/2 splits a cookie into crumbs, since equal ones compress to nothing. RFC 9113 §8.2.3: they are one field again before HTTP/1.1.
pub(super) fn join_cookies(request: &mut RequestHeader) -> Result<()> {
    let mut crumbs = request.headers.get_all(COOKIE).iter();
    let (Some(first), Some(second)) = (crumbs.next(), crumbs.next()) else {
        return Ok(());
    };
    let mut whole = BytesMut::from(first.as_bytes());
    for crumb in std::iter::once(second).chain(crumbs) {
        whole.extend_from_slice(b"; ");
        whole.extend_from_slice(crumb.as_bytes());
    }
    let whole = HeaderValue::from_maybe_shared(whole.freeze());
    request.insert_header(
        COOKIE,
        whole.or_err(ErrorType::InvalidHTTPHeader, "a cookie")?,
    )
}

/// Who is to blame, when an origin was silent only because the client was, for most of the time that the origin has. HTTP/1 bodies have a
/// time of their own for each read; those of HTTP/2 meet that of the origin.
pub(super) fn blame(fault: Fault, session: &mut Session, context: &Context) -> Fault {
    let waits_for_client =
        session.as_http2().is_some() && !session.is_body_empty() && !session.is_body_done();
    // What was read before the try began is nothing that the origin waited for.
    let heard = (context.pace.heard_at()).map_or(context.tried_at, |at| at.max(context.tried_at));
    let silent = clock::since(heard);
    let patience = context.pool().map(|pool| pool.rules.timeouts.read / 2);
    if waits_for_client
        && fault == Fault::Origin(Problem::OriginTimeout)
        && patience.is_some_and(|patience| silent > patience)
    {
        return Fault::Client(Problem::BodyTimeout);
    }
    fault
}
