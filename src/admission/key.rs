//! Decides which counter of a limit a request uses: the key template filled in from the request, kept only as a keyed hash.

use std::net::IpAddr;

use http::Method;
use sluicegate_limiter::{KeyHash, Seed};

use crate::client::{PrefixBits, prefix};
use crate::config::rules::{KeyPart, KeyTemplate};

/// What a key can be made of. Every field is in its normal form, so that two spellings share a counter.
#[derive(Clone, Copy, Debug)]
pub struct RequestFacts<'a> {
    /// Who asks.
    pub client: IpAddr,
    /// Host, lower case, without port; empty when absent.
    pub host: &'a str,
    /// The normalised path, as [`NormalPath::key`](crate::route::NormalPath::key) gives it.
    pub path: &'a str,
    /// The method.
    pub method: &'a Method,
}

/// The secret of one process: without it nobody can tell which values share a bucket of a table.
#[derive(Clone, Debug)]
pub struct KeySeed(Seed);

impl KeySeed {
    /// A seed from the operating system's random source.
    ///
    /// # Errors
    /// When the system has no random source.
    pub fn random() -> Result<Self, getrandom::Error> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes)?;
        Ok(Self(Seed::from_bytes(bytes)))
    }

    /// The key whose parts are counted by these bytes, as a configuration names it.
    pub(super) fn hash_parts<'a>(&self, parts: impl Iterator<Item = &'a [u8]>) -> KeyHash {
        let mut hasher = self.0.hasher();
        for part in parts {
            hasher.part(part);
        }
        hasher.finish()
    }

    /// The key of `facts` under `template`.
    #[must_use]
    pub fn hash(&self, template: &KeyTemplate, facts: &RequestFacts<'_>) -> KeyHash {
        let mut hasher = self.0.hasher();
        for part in &template.0 {
            match part {
                KeyPart::ClientIp { v4, v6 } => {
                    hasher.part(prefix(facts.client, PrefixBits { v4: *v4, v6: *v6 }).as_bytes())
                }
                KeyPart::Host => hasher.part(facts.host.as_bytes()),
                KeyPart::Path => hasher.part(facts.path.as_bytes()),
                KeyPart::Method => hasher.part(facts.method.as_str().as_bytes()),
                KeyPart::Global => &mut hasher,
            };
        }
        hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts<'a>(client: &str, path: &'a str, method: &'a Method) -> RequestFacts<'a> {
        RequestFacts {
            client: client.parse().expect("an address"),
            host: "example.com",
            path,
            method,
        }
    }

    fn seed() -> KeySeed {
        KeySeed(Seed::from_bytes([7; 16]))
    }

    const CLIENT: KeyPart = KeyPart::ClientIp { v4: 32, v6: 64 };

    /// Goal: an IPv6 customer is one client. Method: two addresses of one /64, one of its neighbour.
    #[test]
    fn addresses_of_one_prefix_share_a_key() {
        let template = KeyTemplate(vec![CLIENT]);
        let hash = |address| seed().hash(&template, &facts(address, "/", &Method::GET));
        assert_eq!(hash("2001:db8::1"), hash("2001:db8::ffff:1"));
        assert_ne!(hash("2001:db8::1"), hash("2001:db8:0:1::1"));
        assert_ne!(hash("192.0.2.1"), hash("192.0.2.2"));
    }

    /// Goal: parts do not run into each other. Method: facts that agree on one part only.
    #[test]
    fn every_part_of_a_template_tells_keys_apart() {
        let template = KeyTemplate(vec![CLIENT, KeyPart::Method, KeyPart::Path]);
        let hash = |path, method| seed().hash(&template, &facts("192.0.2.1", path, method));
        assert_ne!(hash("/a", &Method::GET), hash("/a", &Method::POST));
        assert_ne!(hash("/a", &Method::GET), hash("/b", &Method::GET));
        assert_eq!(hash("/a", &Method::GET), hash("/a", &Method::GET));
    }

    /// Goal: `global` is one counter. Method: requests that differ in everything.
    #[test]
    fn global_ignores_the_request() {
        let template = KeyTemplate(vec![KeyPart::Global]);
        assert_eq!(
            seed().hash(&template, &facts("192.0.2.1", "/a", &Method::GET)),
            seed().hash(&template, &facts("2001:db8::1", "/b", &Method::PUT)),
        );
    }
}
