//! Writes the values of a key for the access log, as far as the operator allows.
//!
//! An operator recognizes masked values when a caller reads them out, and readers of the log cannot use them:
//!
//! * of an address the network: /24 of IPv4, /48 of IPv6, or the network of the key where that is larger;
//! * of an e-mail address the first two characters and the domain;
//! * of any other value at most the first six and the last two characters, and never more than half of it;
//! * country, city, ASN and crawler as they are: they name no person, and are fields of the line too;
//! * host, path and method as they are: `host`, `target` and `method` of the line have them too.

use std::net::IpAddr;

use sluicegate_base::address::{PrefixBits, prefix};
use sluicegate_base::normal_form::in_lower_case;

use super::facts::RequestFacts;
use super::key::{KeySubstitute, client_bits, normal_value};
use super::limit::ActiveLimit;
use sluicegate_config::rules::{KeyPart, KeyTemplate, LoggedKeys, ValueSource};

/// Characters of a masked value that are shown at its beginning, and at its end.
const SHOWN: (usize, usize) = (6, 2);
/// Maximum number of stars that stand for the hidden part.
const STARS: usize = 16;

/// Returns the values that `limit` counts a request by, one for each part that it has; none where the log shows hashes alone.
#[must_use]
pub fn key_values<'a>(
    limit: Option<&std::sync::Arc<ActiveLimit>>,
    facts: impl FnOnce() -> RequestFacts<'a>,
    shown: LoggedKeys,
) -> Vec<String> {
    let Some(limit) = limit.filter(|_| shown != LoggedKeys::Hash) else {
        return Vec::new();
    };
    values_of_request(&limit.key, &facts(), shown)
}

/// Returns the values of a request for each part of a key that it has.
pub(super) fn values_of_request(
    template: &KeyTemplate,
    facts: &RequestFacts<'_>,
    shown: LoggedKeys,
) -> Vec<String> {
    let value = |part: &KeyPart| value(part, facts, shown);
    template.0.iter().filter_map(value).collect()
}

/// The part of a key that a request lacks, and the key by which it is counted instead.
#[derive(Clone, Copy)]
pub(super) struct SubstitutedPart<'t> {
    pub(super) source: &'t ValueSource,
    pub(super) by: KeySubstitute,
}

/// Returns the values that stand for those that a request of `client` lacks.
pub(super) fn substitute_values(
    template: &KeyTemplate,
    lacking: SubstitutedPart<'_>,
    client: IpAddr,
    shown: LoggedKeys,
) -> Vec<String> {
    let source = lacking.source;
    vec![match lacking.by {
        KeySubstitute::None => format!("requests without {source}"),
        KeySubstitute::Address => {
            let network = network(client, client_bits(template), shown);
            format!("{network}, without {source}")
        }
    }]
}

/// Returns the values by which an operator names a key, one for each part. `counted` are the bytes by which each is counted.
pub(super) fn values_of_operator<'a>(
    template: &KeyTemplate,
    counted: impl Iterator<Item = &'a [u8]>,
    written: &[String],
    shown: LoggedKeys,
) -> Vec<String> {
    let parts = template.0.iter().filter(|part| **part != KeyPart::Global);
    let values = parts.zip(counted).zip(written);
    let values = values.map(|((part, counted), written)| match part {
        KeyPart::ClientIp { v4, v6 } => {
            // An address, or the network of that length.
            let address = written.split('/').next().and_then(|text| text.parse().ok());
            let bits = PrefixBits { v4: *v4, v6: *v6 };
            address.map_or_else(String::new, |address| network(address, bits, shown))
        }
        KeyPart::Value(_) => text_of_value(counted, shown),
        _ => String::from_utf8_lossy(counted).into_owned(),
    });
    values.collect()
}

fn value(part: &KeyPart, facts: &RequestFacts<'_>, shown: LoggedKeys) -> Option<String> {
    Some(match part {
        KeyPart::ClientIp { v4, v6 } => {
            network(facts.client, PrefixBits { v4: *v4, v6: *v6 }, shown)
        }
        KeyPart::Host => facts.host.to_owned(),
        KeyPart::Path => in_lower_case(facts.path).into_owned(),
        KeyPart::Method => facts.method.as_str().to_owned(),
        KeyPart::Place(field) => facts.place.get().text(*field).into_owned(),
        KeyPart::Crawler => facts.crawler.get().value().to_owned(),
        KeyPart::Global => return None,
        KeyPart::Value(part) => text_of_value(&normal_value(part, facts).ok()?, shown),
    })
}

/// Returns the network of so many bits with this address, an address where it has no other.
fn network(address: IpAddr, bits: PrefixBits, shown: LoggedKeys) -> String {
    if shown == LoggedKeys::Masked {
        let bits = PrefixBits {
            v4: bits.v4.min(24),
            v6: bits.v6.min(48),
        };
        return prefix(address, bits).to_string();
    }
    let counted = prefix(address, bits);
    match (counted.network().is_ipv4(), counted.length()) {
        (true, 32) | (false, 128) => counted.network().to_string(),
        _ => counted.to_string(),
    }
}

/// Returns the text of a value that a client has chosen.
fn text_of_value(value: &[u8], shown: LoggedKeys) -> String {
    let text = String::from_utf8_lossy(value);
    match shown {
        LoggedKeys::Masked => masked(&text),
        LoggedKeys::Hash | LoggedKeys::Plain => text.into_owned(),
    }
}

/// Hides most of a value.
fn masked(text: &str) -> String {
    if let Some((local, domain)) = text.rsplit_once('@') {
        return format!("{}@{domain}", hidden(local, (2, 0)));
    }
    hidden(text, SHOWN)
}

/// Shows at most so many characters at the beginning and at the end, together at most half of all.
fn hidden(text: &str, (first, last): (usize, usize)) -> String {
    let length = text.chars().count();
    let last = if length >= 8 { last } else { 0 };
    let first = first.min((length / 2).saturating_sub(last));
    let shown: String = text.chars().take(first).collect();
    let end: String = text.chars().skip(length - last).collect();
    let stars = "*".repeat((length - first - last).min(STARS));
    format!("{shown}{stars}{end}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Goal: an operator recognizes a value, and no reader of the log can use it. Method: a number, a mail address, short values, a long
    /// token.
    #[test]
    fn most_of_a_value_is_hidden() {
        for (text, shown) in [
            ("+4915123456778", "+4915*******78"),
            ("victim@example.com", "vi****@example.com"),
            ("a@b.c", "*@b.c"),
            ("1234", "12**"),
            ("a", "*"),
            ("", ""),
            (
                "0123456789abcdef0123456789abcdef",
                "012345****************ef",
            ),
        ] {
            assert_eq!(masked(text), shown, "{text}");
        }
    }

    proptest! {
        /// Goal: never more than half of a value is shown, in any script. Method: any text without a mail address's sign.
        #[test]
        fn at_most_half_is_shown(text in "[^@*]{0,60}") {
            let length = text.chars().count();
            let shown = masked(&text).chars().filter(|character| *character != '*').count();
            prop_assert!(shown * 2 <= length);
        }
    }
}
