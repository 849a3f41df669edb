//! Decides whether a request keeps the id that a hop gave it.
//!
//! With an id of its own choice a client could hide among the log lines of another, or write arbitrary text into logs. So an id
//! is accepted from trusted hops only, whole or not at all: a truncated id could not be found.

use std::net::IpAddr;

use sluicegate_base::received::ReceivedFields;
use sluicegate_config::rules::ClientRules;

use super::{PeerTrust, hop};
use crate::request_id::RequestId;

/// Returns the id that `peer` gave a request with these fields; `None` without one, with an invalid one, or from an untrusted
/// peer.
#[must_use]
pub fn given_request_id(
    peer: IpAddr,
    headers: &ReceivedFields,
    rules: &ClientRules,
) -> Option<RequestId> {
    let mut given = headers.get_all(rules.request_id.as_ref()?);
    // Several are ambiguous.
    let (Some(one), None) = (given.next(), given.next()) else {
        return None;
    };
    match hop(peer, rules) {
        PeerTrust::Trusted => RequestId::given(one.as_bytes()),
        PeerTrust::Stranger => None,
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};
    use sluicegate_config::rules::{ForwardedSource, ListUse};

    use super::*;

    /// Goal: only a trusted hop sets a request's id, once and plainly. Method: both kinds of hops; none, one, two and a
    /// malformed id.
    #[test]
    fn only_a_trusted_hop_names_a_request() {
        let name = HeaderName::from_static("x-request-id");
        let rules = ClientRules {
            signed_hosts: sluicegate_base::crawler::SignedHosts::default(),
            dns_servers: Vec::new(),
            trusted_proxies: vec!["10.0.0.0/8".parse().expect("a block")],
            client_ip_header: ForwardedSource::XForwardedFor,
            trusted_headers: Vec::new(),
            request_id: Some(name.clone()),
            lists: ListUse::default(),
        };
        let given = |peer: &str, values: &[&'static str]| {
            let mut headers = ReceivedFields::new();
            for value in values {
                headers.append(&name, HeaderValue::from_static(value));
            }
            let peer = peer.parse().expect("an address");
            given_request_id(peer, &headers, &rules).map(|id| id.to_string())
        };
        assert_eq!(given("10.0.0.1", &["req-1"]).as_deref(), Some("req-1"));
        assert_eq!(
            given("::ffff:10.0.0.1", &["req-1"]).as_deref(),
            Some("req-1")
        );
        assert_eq!(given("192.0.2.1", &["req-1"]), None);
        for wrong in [&[][..], &["a", "b"], &["a b"], &[""]] {
            assert_eq!(given("10.0.0.1", wrong), None, "{wrong:?}");
        }
    }
}
