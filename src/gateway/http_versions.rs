//! Handles the differences between the HTTP versions of client and origin.

use std::borrow::Cow;

use bytes::{Bytes, BytesMut};
use http::Uri;
use http::header::{COOKIE, HOST, HeaderValue};
use http::uri::PathAndQuery;
use sluicegate_base::received::ReceivedHead;
use sluicegate_http1::{is_framing_lookalike, raw_query};

use crate::failure::{RequestFailure, Result};
use crate::origin::FieldEdit;

/// Copies `:authority` of an HTTP/2 request to `Host`, from which the fields about the requested host are made.
/// `:authority` for an origin of HTTP/2 is made of it too.
pub(super) fn name_host(received: &ReceivedHead, fields: &mut dyn FieldEdit) -> Result<()> {
    if received.version == http::Version::HTTP_2
        && fields.get(&HOST).is_none()
        && let Some(authority) = received.uri.authority()
    {
        let host = HeaderValue::from_str(authority.as_str());
        let host = host.map_err(RequestFailure::internal)?;
        fields.insert(HOST, host);
    }
    Ok(())
}

/// Percent-encodes the query of an HTTP/2 request as RFC 3986 has it; the listener does so for HTTP/1.
///
/// # Errors
/// The target cannot be written so.
pub(super) fn encode_query(request: &mut ReceivedHead) -> Result<(), http::Error> {
    if request.version != http::Version::HTTP_2 {
        return Ok(());
    }
    let Cow::Owned(target) = raw_query::encoded(request.raw_path()) else {
        return Ok(());
    };
    let target = PathAndQuery::from_maybe_shared(Bytes::from(target));
    let mut parts = request.uri.clone().into_parts();
    parts.path_and_query = Some(target?);
    request.uri = Uri::from_parts(parts)?;
    Ok(())
}

/// Returns whether an HTTP/2 request has such a field.
pub(super) fn has_framing_name(request: &ReceivedHead) -> bool {
    let mut names = request.headers.iter();
    request.version == http::Version::HTTP_2
        && names.any(|(name, _)| is_framing_lookalike(name.as_bytes()))
}

/// Joins the cookie crumbs into which HTTP/2 splits a cookie for compression. RFC 9113 §8.2.3: they are one field again before
/// HTTP/1.1.
pub(super) fn join_cookies(received: &ReceivedHead, fields: &mut dyn FieldEdit) -> Result<()> {
    if received.version != http::Version::HTTP_2 {
        return Ok(());
    }
    let mut crumbs = received.headers.get_all(COOKIE);
    let (Some(first), Some(second)) = (crumbs.next(), crumbs.next()) else {
        return Ok(());
    };
    let mut whole = BytesMut::from(first.as_bytes());
    for crumb in std::iter::once(second).chain(crumbs) {
        whole.extend_from_slice(b"; ");
        whole.extend_from_slice(crumb.as_bytes());
    }
    let whole = HeaderValue::from_maybe_shared(whole.freeze());
    fields.insert(COOKIE, whole.map_err(RequestFailure::internal)?);
    Ok(())
}
