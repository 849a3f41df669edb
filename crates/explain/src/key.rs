//! Shows the key of a request in plain text: it is the operator's own input, so nothing needs to be hidden.

use sluicegate_base::address::{PrefixBits, prefix};
use sluicegate_base::normal_form::in_upper_case;

use sluicegate_config::rules::{KeyPart, KeyTemplate};
use sluicegate_decide::admission::{RequestFacts, normal_value};

/// Returns `client.ip = 192.0.2.1/32, path = /auth/sendOTP`: the same values that
/// [`KeySeed::hash`](sluicegate_decide::admission::KeySeed::hash) hashes.
pub(super) fn shown(template: &KeyTemplate, facts: &RequestFacts<'_>) -> String {
    let parts = template.0.iter().map(|part| match part {
        KeyPart::ClientIp { v4, v6 } => {
            let bits = PrefixBits { v4: *v4, v6: *v6 };
            format!("client.ip = {}", prefix(facts.client, bits))
        }
        KeyPart::Host => format!("host = {:?}", facts.host),
        KeyPart::Path => format!("path = {}", facts.path),
        KeyPart::Method => format!("method = {}", in_upper_case(facts.method)),
        KeyPart::Place(field) => format!("{field} = {}", facts.place.get().text(*field)),
        KeyPart::Crawler => format!("client.crawler = {}", facts.crawler.get().value()),
        KeyPart::Global => "one key for all".to_owned(),
        KeyPart::Value(value) if value.source.is_in_body() => {
            format!("{value} of its body, which is not part of the question")
        }
        KeyPart::Value(value) => match normal_value(value, facts) {
            Ok(found) => format!("{value} = {:?}", String::from_utf8_lossy(&found)),
            Err(why) => format!("{value} is missing ({})", why.as_str()),
        },
    });
    parts.collect::<Vec<_>>().join(", ")
}
