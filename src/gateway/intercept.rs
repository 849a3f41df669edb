//! Gives clients the operator's page in place of an error of the origin's own: `intercept` of `error_pages`.
//!
//! An answer that ends with its head calls no filter of bodies, and of HTTP/2 nobody knows that beforehand. So the page is written here,
//! whole, as soon as the origin's head is known, and what the origin says after it is dropped as it passes: nobody waits for it, and
//! nothing of it is kept. Pingora then writes the head that it holds. It is made an interim one that goes to nobody.
//!
//! What is stored is the origin's answer, so that each client gets the page that its own `Accept` chooses.

use bytes::Bytes;
use http::header::{
    ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY_REPORT_ONLY,
    CONTENT_TYPE, HeaderName, HeaderValue, TRAILER, TRANSFER_ENCODING,
};
use http::{Method, StatusCode, Version};
use pingora::http::ResponseHeader;
use pingora::proxy::Session;
use pingora::{Error, ErrorType, Result};

use super::context::Context;
use super::error::ProxyFault;
use super::{answer, cache, shape};
use crate::bounds;
use crate::origin::HeaderEdit;
use crate::record::CacheUse;
use crate::response::pages::NegotiatedPage;
use crate::response::{GrpcDialect, PROBLEM_JSON, encoding, problem_of_origin};

/// The cause of the error by which an origin that goes on talking is left; the client has its answer by then.
const ENOUGH: &str = "the client has a page, or a head, instead of the rest";

/// Fields that speak of the bytes that are replaced, or of what they may do, beside [`shape::OF_CONTENT`]. What speaks of the failure
/// stays: `Retry-After`, `WWW-Authenticate`, `Allow`, `Set-Cookie`, how long it may be kept.
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

/// What a client gets in place of the origin's body.
pub(super) struct ReplacementPage {
    content_type: HeaderValue,
    body: Bytes,
}

/// The page for this answer of the origin; `None` where it passes as it is.
pub(super) fn page(
    session: &Session,
    status: StatusCode,
    context: &Context,
) -> Option<ReplacementPage> {
    if !shape::intercepts(status, context) || cache::is_refresh(session) {
        return None;
    }
    let request = session.req_header();
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

/// Makes the fields of an origin's answer those of the page.
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

/// Writes the page under the head `response`, of which nothing is left to be written.
pub(super) async fn give(
    session: &mut Session,
    response: &mut ResponseHeader,
    page: ReplacementPage,
    context: &mut Context,
) -> Result<()> {
    context.land();
    // Nobody sees an interim answer after this: those of HTTP/2 are not written, and those of HTTP/1 are not from here on.
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

/// Writes all but the end, which Pingora writes itself behind what is stored, and would complain about where it was written before.
async fn begin(session: &mut Session, header: ResponseHeader, body: Bytes) -> Result<()> {
    session
        .write_response_header(Box::new(header), false)
        .await?;
    session.write_response_body(Some(body), false).await
}

/// Drops a piece of a body where a page went in its place, or a head alone.
///
/// # Errors
/// When the origin says so much more that its connection is better closed. One of HTTP/1 to the client is at the end of the answer
/// already, unless the client waits for that, and a copy that is stored needs the rest.
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

/// Whether nothing is wrong but that the origin was left while it went on, by us or by a client that has its page.
pub(super) fn had_enough(error: &Error, context: &Context) -> bool {
    context.replaced.is_some()
        && (matches!(error.etype(), ErrorType::Custom(ENOUGH))
            || ProxyFault::of(error) == ProxyFault::ClientGone)
}
