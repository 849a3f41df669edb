//! Writes a descriptor as the request in question: the domain is its path, each entry a parameter of its query, `remote_address` its
//! client, and `limit` a field that tiers are named by.
//!
//! So every rule for requests holds for descriptors: routes match them, keys read their entries, lists and databases of places know their
//! client, and the log has them in a form that `explain` and `replay` read.

use std::net::IpAddr;
use std::str::FromStr;

use http::Method;
use http::header::{HeaderName, HeaderValue};
use http::uri::PathAndQuery;
use sluicegate_base::received::{ReceivedFields, ReceivedHead};
use sluicegate_decide::client;

use super::messages::{DescriptorEntry, LimitOverride, RateLimitDescriptor, RateUnit};
use sluicegate_config::rules::ClientRules;

/// The field with the limit that a descriptor brings along. Only a trusted hop may ask, so tiers can be named by it.
const LIMIT_FIELD: HeaderName = HeaderName::from_static("x-descriptor-limit");

/// The key of the entry that holds the client's address.
const REMOTE_ADDRESS: &[u8] = b"remote_address";

/// Bytes of a value that count. More would not fit into the target of a request with several entries; only the beginning of a longer value
/// counts, so that bytes after it do not give a client a fresh counter.
const VALUE_BYTES: usize = 512;

/// Returns the head of the request in question; `None` where no target can hold it.
pub(super) fn head(
    domain: &[u8],
    descriptor: &RateLimitDescriptor,
    rules: &ClientRules,
) -> Option<ReceivedHead> {
    let mut target = String::from("/");
    encode(&mut target, domain, b"-._~/");
    let mut separator = '?';
    for (at, entry) in descriptor.entries.iter().enumerate() {
        target.push(separator);
        separator = '&';
        encode(&mut target, &entry.key, UNRESERVED);
        let before = descriptor.entries[..at].iter();
        let same = before.filter(|other| other.key == entry.key).count();
        if same > 0 {
            // A parameter that is there twice with two values has none.
            target.push_str(&format!("_{}", same + 1));
        }
        target.push('=');
        let value = entry.value.get(..VALUE_BYTES).unwrap_or(&entry.value);
        encode(&mut target, value, UNRESERVED);
    }
    let target = PathAndQuery::try_from(target).ok()?;
    let mut head = ReceivedHead {
        method: Method::GET,
        uri: target.into(),
        version: http::Version::HTTP_2,
        headers: ReceivedFields::new(),
    };
    if let Some((name, value)) =
        client_of(descriptor).and_then(|client| client::client_field(client, rules))
    {
        head.headers.insert(name, value);
    }
    if let Some(limit) = descriptor.limit {
        let value = HeaderValue::try_from(limit_text(limit)).ok()?;
        head.headers.insert(LIMIT_FIELD, value);
    }
    Some(head)
}

/// Returns a limit as tiers are named after it: `500/minute`.
pub(super) fn limit_text(limit: LimitOverride) -> String {
    let unit = RateUnit::try_from(limit.unit).unwrap_or(RateUnit::Unknown);
    format!("{}/{}", limit.requests_per_unit, unit.name())
}

/// Returns the client's address, if an entry holds one.
fn client_of(descriptor: &RateLimitDescriptor) -> Option<IpAddr> {
    let is_client = |entry: &&DescriptorEntry| entry.key == REMOTE_ADDRESS;
    let entry = descriptor.entries.iter().find(is_client)?;
    IpAddr::from_str(std::str::from_utf8(&entry.value).ok()?).ok()
}

/// Marks that RFC 3986 §2.3 reserves for nothing.
const UNRESERVED: &[u8] = b"-._~";

/// Appends text as RFC 3986 §2.1 has it, with these marks as they are.
fn encode(into: &mut String, text: &[u8], marks: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in text {
        if byte.is_ascii_alphanumeric() || marks.contains(&byte) {
            into.push(char::from(byte));
        } else {
            let [high, low] = [byte >> 4, byte & 15].map(usize::from);
            into.extend(['%', char::from(DIGITS[high]), char::from(DIGITS[low])]);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use sluicegate_config::rules::{ForwardedSource, ListUse};

    /// The rules of a gateway that finds its clients in X-Forwarded-For.
    fn rules() -> ClientRules {
        ClientRules {
            signed_hosts: sluicegate_base::crawler::SignedHosts::default(),
            dns_servers: Vec::new(),
            request_id: None,
            lists: ListUse::default(),
            trusted_proxies: Vec::new(),
            client_ip_header: ForwardedSource::XForwardedFor,
            trusted_headers: Vec::new(),
        }
    }

    fn target(domain: &str, entries: &[(&[u8], &[u8])]) -> String {
        let entries = entries.iter().map(|(key, value)| DescriptorEntry {
            key: key.to_vec(),
            value: value.to_vec(),
        });
        let descriptor = RateLimitDescriptor {
            entries: entries.collect(),
            ..RateLimitDescriptor::default()
        };
        let head = head(domain.as_bytes(), &descriptor, &rules()).unwrap();
        String::from_utf8(head.raw_path().to_vec()).unwrap()
    }

    /// Goal: an entry cannot be taken for another one. Method: values with the marks of a query, and two entries with one key.
    #[test]
    fn a_value_stays_in_its_parameter() {
        for (domain, entries, expected) in [
            ("edge", &[(&b"a"[..], &b"b"[..])][..], "/edge?a=b"),
            ("team/edge 1", &[], "/team/edge%201"),
            (
                "edge",
                &[(b"path", b"/a?b=c&d=e+f;#%"), (b"g", b"\xff")],
                "/edge?path=%2Fa%3Fb%3Dc%26d%3De%2Bf%3B%23%25&g=%FF",
            ),
            (
                "edge",
                &[(b"generic_key", b"a"), (b"generic_key", b"b")],
                "/edge?generic_key=a&generic_key_2=b",
            ),
        ] {
            assert_eq!(target(domain, entries), expected);
        }
    }

    proptest! {
        /// Goal: whatever a client sends, its descriptor has a target that is short. Method: any bytes as value.
        #[test]
        fn every_value_has_a_target(value in proptest::collection::vec(any::<u8>(), 0..2000)) {
            prop_assert!(target("edge", &[(b"a", &value)]).len() <= 3 * VALUE_BYTES + 8);
        }
    }
}
