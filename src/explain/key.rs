//! Shows the key of a request in plain text: it is the operator's own input, so nothing needs to be hidden.

use crate::admission::RequestFacts;
use crate::client::{PrefixBits, prefix};
use crate::config::rules::{KeyPart, KeyTemplate};

/// `client.ip = 192.0.2.1/32, path = /auth/sendOTP`: the same values that [`KeySeed::hash`](crate::admission::KeySeed::hash) hashes.
pub(super) fn shown(template: &KeyTemplate, facts: &RequestFacts<'_>) -> String {
    let parts = template.0.iter().map(|part| match part {
        KeyPart::ClientIp { v4, v6 } => {
            let bits = PrefixBits { v4: *v4, v6: *v6 };
            format!("client.ip = {}", prefix(facts.client, bits))
        }
        KeyPart::Host => format!("host = {:?}", facts.host),
        KeyPart::Path => format!("path = {}", facts.path),
        KeyPart::Method => format!("method = {}", facts.method),
        KeyPart::Global => "one key for all".to_owned(),
    });
    parts.collect::<Vec<_>>().join(", ")
}
