//! Handles the differences between the HTTP versions of client and origin.

use std::borrow::Cow;

use bytes::Bytes;
use http::header::{COOKIE, HOST, HeaderValue};
use http::uri::PathAndQuery;
use http::{Uri, Version};
use sluicegate_base::received::ReceivedHead;
use sluicegate_decide::challenge::{ChallengeCookies, SiteCookies};
use sluicegate_http1::{is_framing_lookalike, raw_query};

use sluicegate_origin::FieldEdit;
use sluicegate_origin::request_failure::{RequestFailure, Result};

/// Returns whether a request of this version has a stream of its own, whose end ends its body.
pub(super) fn has_streams(version: Version) -> bool {
    matches!(version, Version::HTTP_2 | Version::HTTP_3)
}

/// Copies `:authority` of an HTTP/2 or HTTP/3 request to `Host`, from which the fields about the requested host are made.
/// `:authority` for an origin of HTTP/2 is made of it too.
pub(super) fn name_host(received: &ReceivedHead, fields: &mut dyn FieldEdit) -> Result<()> {
    if has_streams(received.version)
        && fields.get(&HOST).is_none()
        && let Some(authority) = received.uri.authority()
    {
        let host = HeaderValue::from_str(authority.as_str());
        let host = host.map_err(RequestFailure::internal)?;
        fields.insert(HOST, host);
    }
    Ok(())
}

/// Percent-encodes the query of an HTTP/2 or HTTP/3 request as RFC 3986 has it; the listener does so for HTTP/1.
///
/// # Errors
/// The target cannot be written so.
pub(super) fn encode_query(request: &mut ReceivedHead) -> Result<(), http::Error> {
    if !has_streams(request.version) {
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

/// Returns whether an HTTP/2 or HTTP/3 request has such a field.
pub(super) fn has_framing_name(request: &ReceivedHead) -> bool {
    let mut names = request.headers.iter();
    has_streams(request.version) && names.any(|(name, _)| is_framing_lookalike(name.as_bytes()))
}

/// Takes the cookies of challenges out, and joins the cookie crumbs into which HTTP/2 and HTTP/3 split a cookie for compression.
/// RFC 9113 §8.2.3, RFC 9114 §4.2.1: they are one field again before HTTP/1.1.
pub(super) fn write_cookies(
    received: &ReceivedHead,
    challenges: &ChallengeCookies,
    fields: &mut dyn FieldEdit,
) -> Result<()> {
    let headers = &received.headers;
    let has_crumbs = has_streams(received.version);
    let site = match challenges.site_cookies(headers) {
        SiteCookies::Others(site) => site,
        SiteCookies::AsSent if has_crumbs && headers.get_all(COOKIE).nth(1).is_some() => {
            let crumbs = headers.get_all(COOKIE);
            crumbs.map(|crumb| crumb.as_bytes().to_vec()).collect()
        }
        SiteCookies::AsSent => return Ok(()),
    };
    let lines = match has_crumbs && !site.is_empty() {
        true => vec![site.join(&b"; "[..])],
        false => site,
    };
    fields.remove(&COOKIE);
    for line in lines {
        let line = HeaderValue::from_maybe_shared(Bytes::from(line));
        fields.append(COOKIE, line.map_err(RequestFailure::internal)?);
    }
    Ok(())
}
