//! Decides which fields describe the client to the origin, and which fields of either side are not forwarded.
//!
//! Fields about the client come from the gateway, never from an untrusted peer. Such fields of an untrusted peer were removed before
//! ([`FieldPolicy`](sluicegate_decide::client::FieldPolicy)); the remaining ones come from trusted proxies.
//! Hop-by-hop fields (RFC 9110 §7.6.1) are removed here too.

use std::fmt::Write as _;
use std::net::IpAddr;

use arrayvec::ArrayString;
use http::StatusCode;
use http::header::{
    CONNECTION, CONTENT_LENGTH, EXPECT, FORWARDED, HOST, HeaderMap, HeaderName, HeaderValue,
    TRANSFER_ENCODING, UPGRADE,
};
use sluicegate_base::proxy_fields::{X_FORWARDED_FOR, X_FORWARDED_PROTO};
use sluicegate_base::received::{FieldValue, ReceivedFields};
use sluicegate_decide::client::{AddressSource, ClientAddress, PeerAddress, address_value};
use sluicegate_decide::request_id::RequestId;
use sluicegate_decide::url_scheme::UrlScheme;
use sluicegate_http1::{is_hop_by_hop, nominated_by};

use super::header_edit::FieldEdit;
use sluicegate_config::rules::{ClientRules, ForwardedSource, HostPolicy, OriginAddress};

const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The fields about the client that the gateway sends to an origin.
pub struct ClientHeaders<'a> {
    /// The other end of the client's connection.
    pub peer: &'a PeerAddress,
    /// The client's address and its source: the chain of a trusted hop is kept and extended.
    pub client: ClientAddress,
    /// The scheme that the client used.
    pub scheme: UrlScheme,
    /// The request id.
    pub request_id: RequestId,
    /// The rules on trusted hops and the field with the client's address.
    pub rules: &'a ClientRules,
    /// The rule for `Host`.
    pub host: &'a HostPolicy,
    /// The server of the attempt.
    pub server: Option<&'a OriginAddress>,
}

/// Writes these fields into the request for the origin.
pub fn set_client_headers(fields: &mut dyn FieldEdit, values: &ClientHeaders<'_>) {
    match values.client.source {
        AddressSource::Connection => begin_chain(fields, values),
        AddressSource::Forwarded => extend_chain(fields, values),
    }
    if fields.get(&X_FORWARDED_PROTO).is_none() {
        fields.insert(X_FORWARDED_PROTO, scheme_value(values));
    }
    if matches!(values.host, HostPolicy::Fixed(_))
        && fields.get(&X_FORWARDED_HOST).is_none()
        && let Some(asked) = fields.get(&HOST).map(FieldValue::to_header_value)
    {
        // `Host` no longer contains the host that the client asked for.
        fields.insert(X_FORWARDED_HOST, asked);
    }
    // The gateway has sent `100 Continue` to the client; the origin must not send it again.
    fields.remove(&EXPECT);
    shorten_length(fields);
    fields.insert(X_REQUEST_ID, values.request_id.as_header_value());
    match &values.host {
        HostPolicy::Fixed(host) => fields.insert(HOST, host.clone()),
        // Only HTTP/1.0 may omit it, and the request to the origin is HTTP/1.1: RFC 9112 §3.2 has the origin reject a request
        // without it.
        HostPolicy::Preserve => {
            if fields.get(&HOST).is_none()
                && let Some(server) = values.server
            {
                fields.insert(HOST, server_value(server));
            }
        }
    }
}

/// Removes leading zeros of the length: RFC 9110 §8.6 allows them, and some origins read `010` as eight, as C does.
fn shorten_length(fields: &mut dyn FieldEdit) {
    let length = fields.get(&CONTENT_LENGTH).map(FieldValue::as_bytes);
    let Some([b'0', digits @ .., last]) = length else {
        return;
    };
    let zeros = digits.iter().take_while(|&&digit| digit == b'0').count();
    let short = [&digits[zeros..], &[*last]].concat();
    // The end of a valid value is one.
    if let Ok(length) = HeaderValue::from_bytes(&short) {
        fields.insert(CONTENT_LENGTH, length);
    }
}

/// Starts a chain: the peer is the client.
fn begin_chain(fields: &mut dyn FieldEdit, values: &ClientHeaders<'_>) {
    fields.insert(X_FORWARDED_FOR, values.peer.text().clone());
    match &values.rules.client_ip_header {
        ForwardedSource::XForwardedFor => {}
        ForwardedSource::Forwarded => fields.insert(FORWARDED, forwarded_element(values)),
        // There is no such field, or none that is readable.
        ForwardedSource::SingleValue(name) => fields.remove(name),
    }
}

/// Extends the chain of a trusted hop by the hop itself.
fn extend_chain(fields: &mut dyn FieldEdit, values: &ClientHeaders<'_>) {
    if values.rules.client_ip_header == ForwardedSource::Forwarded {
        fields.append(FORWARDED, forwarded_element(values));
    }
    if fields.get(&X_FORWARDED_FOR).is_none() {
        // The hop sent the client's address in another field.
        fields.insert(X_FORWARDED_FOR, address_value(values.client.address));
    }
    fields.append(X_FORWARDED_FOR, values.peer.text().clone());
}

/// Returns the value of `Host` that names a server.
fn server_value(server: &OriginAddress) -> HeaderValue {
    match server {
        OriginAddress::Tcp(address) => HeaderValue::from_str(&address.to_string())
            .expect("digits, dots, colons and brackets are visible ASCII"),
        OriginAddress::Unix(_) => HeaderValue::from_static("localhost"),
    }
}

fn scheme_value(values: &ClientHeaders<'_>) -> HeaderValue {
    HeaderValue::from_static(values.scheme.as_str())
}

/// Returns one element of `Forwarded`. RFC 7239 §6: an IPv6 address is bracketed, and quoted because of its colons.
fn forwarded_element(values: &ClientHeaders<'_>) -> HeaderValue {
    let mut element = ArrayString::<80>::new();
    let _ = match values.peer.ip() {
        IpAddr::V4(address) => write!(element, "for={address}"),
        IpAddr::V6(address) => write!(element, "for=\"[{address}]\""),
    };
    // §5.4
    let _ = write!(element, ";proto={}", values.scheme.as_str());
    HeaderValue::from_str(&element).expect("an address, brackets and quotes are visible ASCII")
}

/// Removes those of the `received` fields of a request that always belong to one hop, RFC 9110 §7.6.1. Those that `Connection` names were
/// removed when the head was checked; `Connection` is written anew.
pub fn remove_hop_by_hop(fields: &mut dyn FieldEdit, received: &ReceivedFields) {
    // Without a look-up: most requests have none of them.
    for name in received.names() {
        match name.as_bytes() {
            // The writer of the head leaves it out.
            b"connection" => {}
            b"http2-settings" | b"proxy-authenticate" | b"proxy-authorization" => {
                fields.remove(&name.to_header_name());
            }
            name_bytes if is_hop_by_hop(name_bytes) => fields.remove(&name.to_header_name()),
            _ => {}
        }
    }
}

/// Removes the hop-by-hop fields of an origin's response with this status, RFC 9110 §7.6.1: those that `Connection` names and those that
/// always are. `Connection` is written anew.
pub fn strip_hop_by_hop(fields: &mut HeaderMap, status: StatusCode) {
    if fields.is_empty() {
        // Of most responses nothing is in the map.
        return;
    }
    // Most responses have none, so one pass looks for them before anything is hashed.
    let mut removed: Vec<HeaderName> = Vec::new();
    for (name, value) in &*fields {
        if !is_hop_by_hop(name.as_str().as_bytes()) {
            continue;
        }
        if *name == CONNECTION {
            removed.extend(named_by(value.as_bytes()));
        }
        if *name != UPGRADE || !passes_upgrade(status) {
            removed.push(name.clone());
        }
    }
    for name in &removed {
        fields.remove(name);
    }
}

/// Returns whether a response with this status passes `Upgrade` on: it names the protocol that follows, or those that the client must ask
/// for (RFC 9110 §15.2.2 and §15.5.22). Any other offers what the origin could speak with the gateway.
#[must_use]
pub fn passes_upgrade(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::SWITCHING_PROTOCOLS | StatusCode::UPGRADE_REQUIRED
    )
}

/// Returns the fields that `Connection` names, other than those that frame the message or switch protocols.
pub fn named_by_connection(fields: &ReceivedFields) -> impl Iterator<Item = HeaderName> {
    let values = fields.get_all(CONNECTION);
    values.flat_map(|value| named_by(value.as_bytes()))
}

fn named_by(value: &[u8]) -> impl Iterator<Item = HeaderName> {
    let names = nominated_by(value).filter_map(|name| HeaderName::from_bytes(name).ok());
    names.filter(|name| ![CONTENT_LENGTH, TRANSFER_ENCODING].contains(name))
}
