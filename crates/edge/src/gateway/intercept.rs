//! Sends the operator's page in place of an origin's error: `intercept` of `error_pages`.
//!
//! The page is written whole as soon as the origin's head is known, and the origin's body is dropped behind it: nothing waits for it, and
//! nothing of it is kept.
//!
//! The cache stores the origin's answer, so each client gets the page that its own `Accept` selects.

use bytes::Bytes;
use http::header::{
    ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY_REPORT_ONLY,
    CONTENT_TYPE, HeaderName, HeaderValue, TRAILER, TRANSFER_ENCODING,
};
use http::{HeaderMap, StatusCode};
use sluicegate_base::received::ReceivedHead;
use sluicegate_decide::response::pages::NegotiatedPage;
use sluicegate_decide::response::{GrpcDialect, PROBLEM_JSON, encoding, problem_of_origin};

use super::context::Context;
use super::shape;

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
    request: &ReceivedHead,
    status: StatusCode,
    context: &Context,
) -> Option<ReplacementPage> {
    if !shape::intercepts(status, context) {
        return None;
    }
    if GrpcDialect::from_headers(&request.headers).is_some() {
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
pub(super) fn relabel(fields: &mut HeaderMap, page: &ReplacementPage) {
    for name in shape::OF_CONTENT.iter().chain(&OF_BYTES) {
        fields.remove(name);
    }
    fields.insert(CONTENT_TYPE, page.content_type.clone());
    fields.insert(CONTENT_LENGTH, HeaderValue::from(page.body.len()));
    if let Some((name, value)) = encoding::vary(fields, "accept") {
        fields.append(name, value);
    }
}
