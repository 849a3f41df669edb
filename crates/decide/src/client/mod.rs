//! Identifies the client of a request: the one address that limits count by.
//!
//! Only the connection's peer counts, unless the operator trusts that peer by CIDR. Then the chain that it sent is read from the
//! right, because every hop appends: the peer itself saw the rightmost address, the hop before it the next. The walk continues
//! as long as the hops are trusted and ends at the first that is not. Elements to the left of that come from an untrusted
//! sender, and are never read.
//!
//! [`FieldPolicy`] decides which other fields such hops may write, and which fields never pass.
//!
//! # Invariants
//!
//! 1. From a peer that is not trusted, no header changes the answer.
//! 2. Nothing to the left of the first untrusted or malformed element changes the answer.
//! 3. One field with many elements and many fields with one each are the same chain.
//! 4. IPv4-mapped IPv6 addresses are folded to IPv4 before they are compared or returned, so that a client has one counter
//!    whichever family the listener's socket has.
//!
//! # Limits
//!
//! The walk looks at [`FORWARDED_ELEMENTS`](sluicegate_base::bounds::FORWARDED_ELEMENTS) elements and
//! [`FORWARDED_BYTES`](sluicegate_base::bounds::FORWARDED_BYTES) bytes at most, and never allocates.

mod certificate;
mod chain;
mod field_policy;
mod ja4;
mod lists;
mod node;
mod peer_address;
mod request_id;
#[cfg(test)]
mod tests;
mod tls_facts;
mod usual_names;

use std::net::IpAddr;

use http::header::{FORWARDED, HeaderName, HeaderValue};
use ipnet::IpNet;
use sluicegate_base::proxy_fields::X_FORWARDED_FOR;
use sluicegate_base::received::ReceivedFields;
use sluicegate_config::rules::{ClientRules, ForwardedSource};

pub use self::certificate::ClientCertificate;
pub use self::field_policy::{FieldPolicy, FieldReview, fields_about_url};
pub use self::ja4::ja4;
pub use self::lists::{ClientLists, ListEffect, ListMatch, ListSource, TemporaryLists};
pub use self::peer_address::{PeerAddress, address_value};
pub use self::request_id::given_request_id;
pub use self::tls_facts::{ClientCertPolicy, ConnectionPeer, TlsFacts};

/// The client of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClientAddress {
    /// The address to count under, never an IPv4-mapped one.
    pub address: IpAddr,
    /// Where it was read.
    pub source: AddressSource,
}

/// Where a client's address was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AddressSource {
    /// It is the other end of the connection.
    Connection,
    /// A trusted hop sent it.
    Forwarded,
}

/// The trust in the other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PeerTrust {
    /// It is one of the operator's own proxies, whose fields are trusted.
    Trusted,
    /// Any other peer.
    Stranger,
}

/// Returns the trust in `peer`.
#[must_use]
pub fn hop(peer: IpAddr, rules: &ClientRules) -> PeerTrust {
    if is_trusted(peer.to_canonical(), &rules.trusted_proxies) {
        PeerTrust::Trusted
    } else {
        PeerTrust::Stranger
    }
}

/// Finds the client of a request that `peer` sent with these headers.
///
/// A chain whose rightmost element is malformed, obfuscated (`unknown`, `_hidden`) or empty is ignored: the answer is the peer. In the
/// middle of a chain such an element ends the walk, and the answer is the last hop before it. When every hop is trusted the leftmost is the
/// client. A single-value header counts only when it occurs once and holds one address.
#[must_use]
pub fn identify(peer: IpAddr, headers: &ReceivedFields, rules: &ClientRules) -> ClientAddress {
    let peer = peer.to_canonical();
    let trusted = rules.trusted_proxies.as_slice();
    if !is_trusted(peer, trusted) {
        return ClientAddress {
            address: peer,
            source: AddressSource::Connection,
        };
    }
    let told = match &rules.client_ip_header {
        ForwardedSource::XForwardedFor => {
            let elements = chain::elements(headers, &X_FORWARDED_FOR, chain::QuoteSyntax::Plain);
            last_hop(elements.map(node::parse), trusted)
        }
        ForwardedSource::Forwarded => {
            let elements = chain::elements(headers, &FORWARDED, chain::QuoteSyntax::Delimit);
            last_hop(elements.map(chain::forwarded_for), trusted)
        }
        ForwardedSource::SingleValue(name) => only_address(headers, name),
    };
    match told {
        Some(address) => ClientAddress {
            address,
            source: AddressSource::Forwarded,
        },
        None => ClientAddress {
            address: peer,
            source: AddressSource::Connection,
        },
    }
}

/// Returns the field in which [`identify`] finds this client, where a trusted hop sends it.
#[must_use]
pub fn client_field(client: IpAddr, rules: &ClientRules) -> Option<(HeaderName, HeaderValue)> {
    let (name, text) = match &rules.client_ip_header {
        ForwardedSource::XForwardedFor => (X_FORWARDED_FOR.clone(), client.to_string()),
        ForwardedSource::Forwarded => (FORWARDED, format!("for=\"{}\"", bracketed(client))),
        ForwardedSource::SingleValue(name) => (name.clone(), client.to_string()),
    };
    Some((name, HeaderValue::try_from(text).ok()?))
}

/// Returns an address as a node of `Forwarded`, RFC 7239 §6.
fn bracketed(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    }
}

/// Returns the last hop of a walk from the nearest to the farthest; `None` stands for an unreadable one.
fn last_hop(hops: impl Iterator<Item = Option<IpAddr>>, trusted: &[IpNet]) -> Option<IpAddr> {
    let mut reached = None;
    for hop in hops {
        let Some(address) = hop else { break };
        reached = Some(address);
        if !is_trusted(address, trusted) {
            break;
        }
    }
    reached
}

fn only_address(headers: &ReceivedFields, name: &HeaderName) -> Option<IpAddr> {
    let mut values = headers.get_all(name);
    let value = values.next()?;
    if values.next().is_some() {
        return None;
    }
    node::parse(value.as_bytes())
}

/// Returns whether a folded address is in one of the operator's networks, which may themselves be written as IPv4-mapped.
fn is_trusted(address: IpAddr, trusted: &[IpNet]) -> bool {
    trusted.iter().any(|network| match (address, network) {
        (IpAddr::V4(address), IpNet::V4(network)) => network.contains(&address),
        (IpAddr::V6(address), IpNet::V6(network)) => network.contains(&address),
        // `::ffff:10.0.0.0/104` means 10.0.0.0/8; a shorter prefix such as `::/0` covers IPv6 only.
        (IpAddr::V4(address), IpNet::V6(network)) => {
            network.prefix_len() >= 96 && network.contains(&address.to_ipv6_mapped())
        }
        (IpAddr::V6(_), IpNet::V4(_)) => false,
    })
}
