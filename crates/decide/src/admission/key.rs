//! Decides which counter of a limit a request uses: the key template filled in from the request, kept only as a keyed hash.

use std::borrow::Cow;
use std::net::IpAddr;

use crate::rejection::MissingReason;
use sluicegate_base::address::{PrefixBits, prefix};
use sluicegate_base::normal_form::{in_lower_case, in_upper_case};
use sluicegate_limiter::{KeyHash, KeyHasher, Seed};

use super::facts::RequestFacts;
use super::value;
use sluicegate_config::rules::{KeyPart, KeyTemplate, ValuePart, ValueSource};

/// The part of a key that a request lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MissingPart<'t> {
    pub(super) source: &'t ValueSource,
    pub(super) why: MissingReason,
}

/// The key of requests that lack a part, apart from the keys of all that have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeySubstitute {
    /// One key for each client's address.
    Address,
    /// One key for all.
    None,
}

/// Returns the value of a request for a part of a key, in its normal form.
///
/// # Errors
/// The reason why it has none.
pub fn normal_value<'a>(
    part: &ValuePart,
    facts: &RequestFacts<'a>,
) -> Result<Cow<'a, [u8]>, MissingReason> {
    let value = value::find(part, facts)?;
    part.counted(value).ok_or(MissingReason::Malformed)
}

/// The secret under which one process hashes keys: without it no client can compute which values share a bucket of a table.
#[derive(Clone, Debug)]
pub struct KeySeed(Seed);

impl KeySeed {
    /// Returns the secret with this seed, which came from the operating system's random source, now or when a state directory was made.
    #[must_use]
    pub fn from_seed(seed: Seed) -> Self {
        Self(seed)
    }

    /// Returns the seed.
    #[must_use]
    pub fn secret(&self) -> &Seed {
        &self.0
    }

    /// Returns a hash of these bytes that only the holder of the secret can trace to them.
    #[must_use]
    pub fn tag<'a>(&self, parts: impl IntoIterator<Item = &'a [u8]>) -> u64 {
        self.hash_parts(parts.into_iter()).bits()
    }

    /// Returns a hash of `facts` under `template` that is the same in every gateway, so without a secret; `None` where they lack a part.
    #[must_use]
    pub fn spread(template: &KeyTemplate, facts: &RequestFacts<'_>) -> Option<u64> {
        let seed = Self(Seed::from_bytes(*b"sluicegatespread"));
        seed.hash(template, facts).ok().map(KeyHash::bits)
    }

    /// Returns the key of `facts` under `template`, or the first part that they lack.
    pub(super) fn hash<'t>(
        &self,
        template: &'t KeyTemplate,
        facts: &RequestFacts<'_>,
    ) -> Result<KeyHash, MissingPart<'t>> {
        let mut hasher = self.0.hasher();
        fill_in(&mut hasher, template, facts)?;
        Ok(hasher.finish())
    }

    /// Returns the key for a store, where keys of several templates meet: keys of equal templates are equal, all others differ. A request
    /// that is counted by a substitute here is counted by the same one there.
    pub(super) fn hash_remote<'t>(
        &self,
        template: &'t KeyTemplate,
        facts: &RequestFacts<'_>,
        by: Option<KeySubstitute>,
    ) -> Result<KeyHash, MissingPart<'t>> {
        let mut hasher = self.0.hasher();
        hasher.part(template.to_string().as_bytes());
        match by {
            None => fill_in(&mut hasher, template, facts)?,
            Some(by) => substitute(&mut hasher, template, by, facts.client),
        }
        Ok(hasher.finish())
    }

    /// Returns the key of these parts, as a configuration names it.
    #[must_use]
    pub fn hash_parts<'a>(&self, parts: impl Iterator<Item = &'a [u8]>) -> KeyHash {
        let mut hasher = self.0.hasher();
        for part in parts {
            hasher.part(part);
        }
        hasher.finish()
    }

    /// Returns the key of requests that lack a part of `template`.
    #[cold]
    pub(super) fn substitute(
        &self,
        template: &KeyTemplate,
        by: KeySubstitute,
        client: IpAddr,
    ) -> KeyHash {
        let mut hasher = self.0.hasher();
        substitute(&mut hasher, template, by, client);
        hasher.finish()
    }
}

/// Hashes the value of `facts` for each part of `template`.
fn fill_in<'t>(
    hasher: &mut KeyHasher,
    template: &'t KeyTemplate,
    facts: &RequestFacts<'_>,
) -> Result<(), MissingPart<'t>> {
    for part in &template.0 {
        match part {
            KeyPart::ClientIp { v4, v6 } => {
                hasher.part(prefix(facts.client, PrefixBits { v4: *v4, v6: *v6 }).as_bytes())
            }
            KeyPart::Host => hasher.part(facts.host.as_bytes()),
            KeyPart::Path => hasher.part(in_lower_case(facts.path).as_bytes()),
            KeyPart::Method => hasher.part(in_upper_case(facts.method).as_bytes()),
            KeyPart::Place(field) => hasher.part(facts.place.get().text(*field).as_bytes()),
            KeyPart::Crawler => hasher.part(facts.crawler.get().value().as_bytes()),
            KeyPart::Global => &mut *hasher,
            KeyPart::Value(part) => {
                let found = normal_value(part, facts).map_err(|why| MissingPart {
                    source: &part.source,
                    why,
                })?;
                hasher.part(&found)
            }
        };
    }
    Ok(())
}

/// Hashes the substitute for the values that a request lacks. It has more parts than any key of the template, so no value can be chosen
/// that counts as a substitute.
fn substitute(hasher: &mut KeyHasher, template: &KeyTemplate, by: KeySubstitute, client: IpAddr) {
    match by {
        KeySubstitute::Address => {
            hasher.part(b"address");
            hasher.part(prefix(client, client_bits(template)).as_bytes());
        }
        KeySubstitute::None => {
            hasher.part(b"together");
        }
    }
    for _ in &template.0 {
        hasher.part(b"");
    }
}

/// Returns the bits of the client's address by which a template counts, or would.
pub(super) fn client_bits(template: &KeyTemplate) -> PrefixBits {
    let mut parts = template.0.iter();
    let bits = parts.find_map(|part| match part {
        KeyPart::ClientIp { v4, v6 } => Some(PrefixBits { v4: *v4, v6: *v6 }),
        _ => None,
    });
    bits.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use http::{HeaderName, HeaderValue, Method};
    use sluicegate_base::crawler::{ClientCrawler, CrawlerRegistry, CrawlerRequest};
    use sluicegate_base::geo::{ClientPlace, GeoDatabases, GeoField};
    use sluicegate_base::jwt::PresentedToken;
    use sluicegate_base::parameter_name::OtherNames;
    use sluicegate_base::received::ReceivedFields;
    use sluicegate_limiter::Timestamp;

    use super::*;
    use crate::admission::KnownBody;
    use crate::client::PeerTrust;
    use sluicegate_config::rules::ValuePart;

    const CLIENT: KeyPart = KeyPart::ClientIp { v4: 32, v6: 64 };

    /// A request, of which tests change what they are about.
    struct Example {
        client: &'static str,
        path: &'static str,
        method: Method,
        headers: ReceivedFields,
    }

    impl Default for Example {
        fn default() -> Self {
            Self {
                client: "192.0.2.1",
                path: "/",
                method: Method::GET,
                headers: ReceivedFields::new(),
            }
        }
    }

    impl Example {
        fn with(fields: &[(&'static str, &'static str)]) -> Self {
            let mut example = Self::default();
            for (name, value) in fields {
                let name = HeaderName::from_static(name);
                example
                    .headers
                    .append(name, HeaderValue::from_static(value));
            }
            example
        }

        fn facts<'a>(
            &'a self,
            token: &'a PresentedToken<'a>,
            place: &'a ClientPlace<'a>,
            crawler: &'a ClientCrawler<'a>,
        ) -> RequestFacts<'a> {
            RequestFacts {
                client: self.client.parse().expect("an address"),
                place,
                crawler,
                hop: PeerTrust::Stranger,
                host: "example.com",
                path: self.path,
                segments: self.path,
                method: &self.method,
                headers: &self.headers,
                query: "",
                pattern: None,
                token,
                secured: None,
                body: KnownBody::Unread,
                hits: NonZeroU32::MIN,
                now: Timestamp::from_secs(0),
                recorded: &[],
                reserves: &[],
            }
        }

        fn key(&self, parts: Vec<KeyPart>) -> Result<KeyHash, MissingReason> {
            let template = KeyTemplate(parts);
            let token = PresentedToken::new(None, &self.headers);
            let databases = GeoDatabases::default();
            let client = self.client.parse().expect("an address");
            let place = ClientPlace::new(&databases, client);
            let (crawlers, headers) = (CrawlerRegistry::default(), &self.headers);
            let crawler =
                ClientCrawler::new(&crawlers, CrawlerRequest::without_target(client, headers));
            seed()
                .hash(&template, &self.facts(&token, &place, &crawler))
                .map_err(|lack| lack.why)
        }
    }

    fn seed() -> KeySeed {
        KeySeed(Seed::from_bytes([7; 16]))
    }

    fn header(name: &'static str) -> KeyPart {
        KeyPart::Value(ValuePart {
            source: ValueSource::Header(HeaderName::from_static(name)),
            normalizers: Vec::new(),
            other_names: OtherNames::Canonical,
        })
    }

    /// Goal: an IPv6 customer is one client. Method: two addresses of one /64, one of its neighbour.
    #[test]
    fn addresses_of_one_prefix_share_a_key() {
        let hash = |client| {
            Example {
                client,
                ..Example::default()
            }
            .key(vec![CLIENT])
        };
        assert_eq!(hash("2001:db8::1"), hash("2001:db8::ffff:1"));
        assert_ne!(hash("2001:db8::1"), hash("2001:db8:0:1::1"));
        assert_ne!(hash("192.0.2.1"), hash("192.0.2.2"));
    }

    /// Goal: parts do not run into each other. Method: facts that agree on one part only.
    #[test]
    fn every_part_of_a_template_tells_keys_apart() {
        let hash = |path, method| {
            Example {
                path,
                method,
                ..Example::default()
            }
            .key(vec![CLIENT, KeyPart::Method, KeyPart::Path])
        };
        assert_ne!(hash("/a", Method::GET), hash("/a", Method::POST));
        assert_ne!(hash("/a", Method::GET), hash("/b", Method::GET));
        assert_eq!(hash("/a", Method::GET), hash("/a", Method::GET));
        let lower = Method::from_bytes(b"get").expect("a method");
        assert_eq!(hash("/a", Method::GET), hash("/a", lower));
    }

    /// Goal: `global` is one counter. Method: requests that differ in everything.
    #[test]
    fn global_ignores_the_request() {
        let other = Example {
            client: "2001:db8::1",
            path: "/b",
            method: Method::PUT,
            headers: ReceivedFields::new(),
        };
        let global = || vec![KeyPart::Global];
        assert_eq!(Example::default().key(global()), other.key(global()));
    }

    /// Goal: a client whose place is unknown has a counter, which it shares with all such clients, and none of its own choosing. Method: a
    /// key by country without databases, from two addresses.
    #[test]
    fn unknown_places_are_one_value() {
        let of = |client| {
            let example = Example {
                client,
                ..Example::default()
            };
            example.key(vec![KeyPart::Place(GeoField::Country)])
        };
        assert!(of("192.0.2.1").is_ok());
        assert_eq!(of("192.0.2.1"), of("2001:db8::1"));
    }

    /// Goal: an empty value is a value, an absent one is not, and copies must agree. Method: one field in every state.
    #[test]
    fn an_empty_value_and_an_absent_one_differ() {
        let key = |fields: &[_]| Example::with(fields).key(vec![header("x-key")]);
        assert!(key(&[("x-key", "")]).is_ok());
        assert_ne!(key(&[("x-key", "")]), key(&[("x-key", "a")]));
        assert_eq!(
            key(&[("x-key", "a"), ("x-key", "a")]),
            key(&[("x-key", "a")])
        );
        assert_eq!(
            key(&[("x-key", "a"), ("x-key", "b")]),
            Err(MissingReason::Repeated)
        );
        assert_eq!(key(&[("x-other", "a")]), Err(MissingReason::Absent));
    }

    /// Goal: no client chooses a value that counts with requests that have none. Method: the substitutes beside keys of values that look
    /// like them, and beside each other.
    #[test]
    fn a_substitute_is_no_key() {
        let template = KeyTemplate(vec![header("x-a"), header("x-b")]);
        let client: IpAddr = "192.0.2.1".parse().expect("an address");
        let by = |by, client| seed().substitute(&template, by, client);
        let together = by(KeySubstitute::None, client);
        let address = by(KeySubstitute::Address, client);
        assert_ne!(together, address);
        assert_ne!(
            address,
            by(
                KeySubstitute::Address,
                "192.0.2.2".parse().expect("an address")
            )
        );
        assert_eq!(
            together,
            by(
                KeySubstitute::None,
                "192.0.2.2".parse().expect("an address")
            )
        );
        let chosen = Example::with(&[("x-a", "together"), ("x-b", "")]);
        assert_ne!(chosen.key(template.0.clone()), Ok(together));
    }
}
