//! Sends the operator's page in place of an origin's error: `intercept` of `error_pages`.
//!
//! An answer that ends with its head calls no body filter, and with HTTP/2 this is not known beforehand. So the page is written
//! here, whole, as soon as the origin's head is known, and the origin's body is dropped as it passes: nothing waits for it, and
//! nothing of it is kept. Pingora then writes the head that it holds, which is made an interim one that is not sent.
//!
//! The cache stores the origin's answer, so each client gets the page that its own `Accept` selects.

use bytes::Bytes;
use http::header::{
    ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY_REPORT_ONLY,
    CONTENT_TYPE, HeaderName, HeaderValue, TRAILER, TRANSFER_ENCODING,
};
use http::{Method, StatusCode, Version};
use pingora::http::{RequestHeader, ResponseHeader};
use pingora::proxy::Session;
use pingora::{Error, ErrorType, Result};
use sluicegate_base::bounds;

use super::context::Context;
use super::error::ProxyFault;
use super::{answer, cache, shape};
use crate::origin::HeaderEdit;
use crate::record::CacheUse;
use crate::response::pages::NegotiatedPage;
use crate::response::{GrpcDialect, PROBLEM_JSON, encoding, problem_of_origin};

/// The cause of the error that ends an exchange with an origin that keeps sending; the client has its answer by then.
const ENOUGH: &str = "the client has a page, or a head, instead of the rest";

/// Fields that describe the replaced bytes, or what they may do, beside [`shape::OF_CONTENT`]. Fields about the failure stay:
/// `Retry-After`, `WWW-Authenticate`, `Allow`, `Set-Cookie`, and those about caching.
const OF_BYTES: [HeaderName; 9] = [
    ACCEPT_RANGES,
    CONTENT_SECURITY_POLICY,
    CONTENT_SECURITY_POLICY_REPORT_ONLY,
    TRAILER,
    TRANSFER_ENCODING,
    HeaderName::from_static("content-digest"),
    HeaderName::from_static("content-md5"),
    HeaderName::from_static("digest"),
    HeaderName::from_static("repr-digest"),
];

/// The page that replaces the origin's body.
pub(super) struct ReplacementPage {
    content_type: HeaderValue,
    /// Its bytes.
    pub(super) body: Bytes,
}

/// Returns the page for this answer of the origin; `None` where the answer passes unchanged.
pub(super) fn page(
    request: &RequestHeader,
    status: StatusCode,
    context: &Context,
) -> Option<ReplacementPage> {
    if !shape::intercepts(status, context) {
        return None;
    }
    if GrpcDialect::of(&request.headers).is_some() {
        return None;
    }
    let (content_type, body) = match shape::page(status, request, context) {
        NegotiatedPage::Page(content_type, body) => (content_type, body),
        NegotiatedPage::Problem => (PROBLEM_JSON, problem_of_origin(status)),
        NegotiatedPage::NoPage => return None,
    };
    Some(ReplacementPage { content_type, body })
}

/// Replaces the content fields of an origin's answer by those of the page.
pub(super) fn relabel(fields: &mut dyn HeaderEdit, page: &ReplacementPage) -> Result<()> {
    for name in shape::OF_CONTENT.iter().chain(&OF_BYTES) {
        fields.remove(name);
    }
    fields.insert(CONTENT_TYPE, page.content_type.clone())?;
    fields.insert(CONTENT_LENGTH, HeaderValue::from(page.body.len()))?;
    match encoding::vary(fields.all(), "accept") {
        Some((name, value)) => fields.append(name, value),
        None => Ok(()),
    }
}

/// Writes the page under the head `response`, and takes the head so that Pingora does not write it.
pub(super) async fn give(
    session: &mut Session,
    response: &mut ResponseHeader,
    page: ReplacementPage,
    context: &mut Context,
) -> Result<()> {
    context.finish_response();
    // No interim answer reaches the client after this: HTTP/2 writes none, and HTTP/1 ignores those from here on.
    session.set_ignore_info_resp(true);
    let interim = ResponseHeader::build(StatusCode::PROCESSING, Some(0))?;
    let mut header = std::mem::replace(response, interim);
    header.set_version(Version::HTTP_11);
    let silent = session.req_header().method == Method::HEAD;
    let stored = cache::cache_use(session, context).is_some_and(CacheUse::is_without_origin);
    let written = if stored && session.is_http2() && !silent {
        answer::in_time(context, begin(session, header, page.body)).await
    } else {
        let body = (!silent).then_some(page.body);
        answer::in_time(context, answer::write(session, header, body)).await
    };
    written.map_err(Error::into_down)?;
    context.replaced = Some(0);
    Ok(())
}

/// Writes all but the end. Pingora writes the end itself after the body is stored, and would report an error if it were written
/// before.
async fn begin(session: &mut Session, header: ResponseHeader, body: Bytes) -> Result<()> {
    session
        .write_response_header(Box::new(header), false)
        .await?;
    session.write_response_body(Some(body), false).await
}

/// Drops a piece of a body that a page or a head alone replaces.
///
/// # Errors
/// The origin sends so much more that closing its connection is cheaper. A client of HTTP/1 has its whole answer by then, unless
/// it waits for that end, and a stored copy needs the rest.
pub(super) fn drop_piece(
    session: &Session,
    body: &mut Option<Bytes>,
    context: &mut Context,
) -> Result<()> {
    let waits = context.withheld.is_some();
    let Some(dropped) = &mut context.replaced else {
        return Ok(());
    };
    *dropped += body.take().map_or(0, |piece| piece.len());
    let is_too_much = *dropped > bounds::REPLACED_BYTES;
    if is_too_much && (session.is_http2() || waits) && !session.cache.enabled() {
        return Err(Error::new(ErrorType::Custom(ENOUGH)));
    }
    Ok(())
}

/// Returns whether the only error is that the exchange with the origin ended early, by the gateway or by a client that has its
/// page.
pub(super) fn had_enough(error: &Error, context: &Context) -> bool {
    context.replaced.is_some()
        && (matches!(error.etype(), ErrorType::Custom(ENOUGH))
            || ProxyFault::of(error) == ProxyFault::ClientGone)
}
