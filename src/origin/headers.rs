//! Decides what the origin is told about the client, and which fields of either side stop here.
//!
//! Fields about the client come from the gateway, never from an untrusted peer: what such a peer sent under these names is replaced.
//! Hop-by-hop fields of the request are removed by Pingora's default request policy (RFC 9110 §7.6.1); those of the response here.

use std::fmt::Write as _;
use std::net::IpAddr;

use arrayvec::ArrayString;
use http::header::{CONNECTION, EXPECT, FORWARDED, HOST, HeaderName, HeaderValue};
use pingora::Result;
use pingora::http::{RequestHeader, ResponseHeader};

use crate::client::Source;
use crate::config::rules::{ClientRules, ForwardedSource, HostPolicy};
use crate::record::RequestId;

// Static text rather than `HeaderName`: Pingora keeps the case of names beside them, and copies that of a name it does not know.
const X_FORWARDED_FOR: &str = "X-Forwarded-For";
const X_FORWARDED_HOST: &str = "X-Forwarded-Host";
const X_FORWARDED_PROTO: &str = "X-Forwarded-Proto";
const X_REQUEST_ID: &str = "X-Request-Id";

/// What the gateway tells an origin about a request.
pub struct Introduction<'a> {
    /// The other end of the client's connection.
    pub peer: IpAddr,
    /// Whether the peer is a trusted hop, whose own account is kept and extended.
    pub source: Source,
    /// The request's identity.
    pub request_id: RequestId,
    /// Whom to believe, and in which header.
    pub client: &'a ClientRules,
    /// What to put in `Host`.
    pub host: &'a HostPolicy,
}

/// Writes the introduction into the request for the origin.
///
/// # Errors
/// Never for the values made here; Pingora's header functions are fallible.
pub fn introduce(request: &mut RequestHeader, told: &Introduction<'_>) -> Result<()> {
    // 45 bytes hold any address; "for=" with brackets and quotes makes 53.
    let mut peer = ArrayString::<64>::new();
    let _ = write!(peer, "{}", told.peer);
    match told.source {
        Source::Connection => replace_account(request, told, &peer)?,
        Source::Forwarded => extend_account(request, told, &peer)?,
    }
    // The gateway has told the client to go on; the origin must not be asked to do so again.
    request.remove_header(&EXPECT);
    request.insert_header(X_REQUEST_ID, told.request_id.as_header_value())?;
    if let HostPolicy::Fixed(host) = &told.host {
        request.insert_header(HOST, host.clone())?;
    }
    Ok(())
}

/// The peer is the client: its own claims are dropped.
fn replace_account(request: &mut RequestHeader, told: &Introduction<'_>, peer: &str) -> Result<()> {
    request.insert_header(X_FORWARDED_FOR, peer)?;
    request.insert_header(X_FORWARDED_PROTO, HeaderValue::from_static("http"))?;
    forward_host(request, told)?;
    request.remove_header(&FORWARDED);
    match &told.client.forwarded {
        ForwardedSource::XForwardedFor => {}
        ForwardedSource::Forwarded => {
            request.insert_header(FORWARDED, forwarded_element(told.peer).as_str())?;
        }
        ForwardedSource::SingleValue(name) => drop(request.remove_header(name)),
    }
    Ok(())
}

/// The peer is a trusted hop: its account is kept and it is added to the chain.
fn extend_account(request: &mut RequestHeader, told: &Introduction<'_>, peer: &str) -> Result<()> {
    request.append_header(X_FORWARDED_FOR, peer)?;
    if told.client.forwarded == ForwardedSource::Forwarded {
        request.append_header(FORWARDED, forwarded_element(told.peer).as_str())?;
    }
    if !request.headers.contains_key(X_FORWARDED_PROTO) {
        request.insert_header(X_FORWARDED_PROTO, HeaderValue::from_static("http"))?;
    }
    if !request.headers.contains_key(X_FORWARDED_HOST) {
        forward_host(request, told)?;
    }
    Ok(())
}

/// What the client asked for, where `Host` does not tell the origin any more.
fn forward_host(request: &mut RequestHeader, told: &Introduction<'_>) -> Result<()> {
    match (&told.host, request.headers.get(HOST).cloned()) {
        (HostPolicy::Fixed(_), Some(host)) => request.insert_header(X_FORWARDED_HOST, host)?,
        (HostPolicy::Fixed(_), None) | (HostPolicy::Preserve, _) => {
            drop(request.remove_header(X_FORWARDED_HOST));
        }
    }
    Ok(())
}

/// RFC 7239 §6: an IPv6 address is bracketed, and quoted because of its colons.
fn forwarded_element(peer: IpAddr) -> ArrayString<64> {
    let mut element = ArrayString::new();
    let _ = match peer {
        IpAddr::V4(address) => write!(element, "for={address}"),
        IpAddr::V6(address) => write!(element, "for=\"[{address}]\""),
    };
    element
}

/// Removes the hop-by-hop fields of an origin's response, RFC 9110 §7.6.1: those that `Connection` names and those that always are.
/// Pingora writes `Connection` itself.
pub fn strip_response(response: &mut ResponseHeader) {
    const HOP_BY_HOP: [HeaderName; 2] = [
        HeaderName::from_static("keep-alive"),
        HeaderName::from_static("proxy-connection"),
    ];
    for name in named_by_connection(response).iter().chain(&HOP_BY_HOP) {
        response.remove_header(name);
    }
}

/// The fields that `Connection` names, other than those that frame the message or switch protocols.
fn named_by_connection(response: &ResponseHeader) -> Vec<HeaderName> {
    const KEPT: [&str; 5] = [
        "close",
        "keep-alive",
        "upgrade",
        "content-length",
        "transfer-encoding",
    ];
    response
        .headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|names| names.split(','))
        .map(str::trim)
        .filter(|name| !KEPT.iter().any(|kept| name.eq_ignore_ascii_case(kept)))
        .filter_map(|name| HeaderName::from_bytes(name.as_bytes()).ok())
        .collect()
}
