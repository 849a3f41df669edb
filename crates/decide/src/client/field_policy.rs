//! Decides which fields are removed from a request before any other stage: limits, routes and the origin then see the same
//! request.
//!
//! Two kinds of fields assert more than a client may assert:
//!
//! * Fields that origins trust as set by the proxy in front of them ([`proxy_fields`](sluicegate_base::proxy_fields)). A trusted proxy may
//!   set those that the operator lists (`[client] trusted_headers`) and the one with the address; it merely passes on all
//!   others, so a client wrote them. From other peers none passes.
//! * Other spellings of a protected name. CGI and its successors (PHP, WSGI, Rack) write `HTTP_X_API_KEY` for `X-Api-Key` and
//!   for `X_Api_Key`, some of them for `X.Api.Key` too. The gateway would count by one of them and the origin read the other.
//!
//! # Invariants
//!
//! 1. Of a name that the configuration or the gateway itself writes or reads, only the spelling that is written there passes.
//! 2. A field of a proxy passes only from a trusted peer, and only where the operator named it.
//! 3. An ordinary request costs one look at each name, and no allocation. Names that pass in any request are found by one comparison
//!    ([`usual_names`](super::usual_names)), with the same result as a review.

use std::net::IpAddr;

use http::header::{HOST, HeaderName, HeaderValue};
use sluicegate_base::proxy_fields::{
    self, NameFilter, OVERRIDES, X_FORWARDED_FOR, X_FORWARDED_PROTO, dashed, is_proxy_field,
};
use sluicegate_base::received::{FieldName, ReceivedFields};
use sluicegate_config::rules::{ClientRules, OverrideFields, TrustedHeader, UnderscoreFields};

use super::usual_names::UsualNames;
use super::{PeerTrust, hop};

/// Names that the gateway reads or writes, whatever the configuration: their other spellings never pass.
const OURS: [&str; 14] = [
    "accept-encoding",
    "access-control-request-headers",
    "access-control-request-method",
    "cache-control",
    "content-encoding",
    "content-length",
    "content-type",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "transfer-encoding",
    "x-request-id",
];

/// The fields that pass, compiled from one configuration.
#[derive(Clone, Debug)]
pub struct FieldPolicy {
    /// Protected names, as written, sorted.
    written: Vec<HeaderName>,
    /// The same names in the form with dashes, sorted.
    canonical: Vec<Box<str>>,
    /// True if one of the protected names has another character than letters, digits and dashes.
    odd_is_written: bool,
    filter: NameFilter,
    usual: UsualNames,
    underscores: UnderscoreFields,
    override_fields: OverrideFields,
}

/// The changes that a request needs.
#[derive(Debug, Default)]
pub struct FieldReview {
    /// The fields to remove.
    pub remove: Vec<HeaderName>,
    /// The normalized `X-Forwarded-Proto` of a trusted proxy, where it is not one plain scheme.
    pub scheme: Option<HeaderValue>,
    /// True if a peer that is not trusted claims to forward for another client.
    pub is_untrusted_forwarding: bool,
}

impl FieldReview {
    /// Returns whether the request stays unchanged.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.remove.is_empty() && self.scheme.is_none() && !self.is_untrusted_forwarding
    }
}

impl FieldPolicy {
    /// Compiles the policy; `names` are those that the rest of the configuration reads from requests or writes into them.
    #[must_use]
    pub fn compile(
        client: &ClientRules,
        override_fields: OverrideFields,
        underscores: UnderscoreFields,
        names: impl IntoIterator<Item = HeaderName>,
    ) -> Self {
        let mut written: Vec<HeaderName> = names.into_iter().collect();
        written.extend(OURS.map(HeaderName::from_static));
        let source = client.client_ip_header.field_name();
        let listed = client
            .trusted_headers
            .iter()
            .filter_map(|listed| match listed {
                TrustedHeader::Name(name) => Some(name.clone()),
                TrustedHeader::Prefix(_) => None,
            });
        written.extend(listed.chain([source.clone()]));
        let beginnings = client.trusted_headers.iter().map(TrustedHeader::beginning);
        let filter = NameFilter::with(beginnings.chain([source.as_str()]));
        written.sort_by(|a, b| a.as_str().cmp(b.as_str()));
        written.dedup();
        let mut canonical: Vec<Box<str>> =
            written.iter().map(|name| dashed(name.as_str())).collect();
        canonical.sort();
        canonical.dedup();
        let mut policy = Self {
            odd_is_written: written.iter().any(|name| is_odd(name.as_str().as_bytes())),
            filter,
            usual: UsualNames::new(|_| false),
            written,
            canonical,
            underscores,
            override_fields,
        };
        policy.usual = UsualNames::new(|name| policy.always_passes(name, client));
        policy
    }

    /// Reviews the fields of a request that came from `peer`.
    #[must_use]
    pub fn review(
        &self,
        fields: &ReceivedFields,
        peer: IpAddr,
        client: &ClientRules,
    ) -> FieldReview {
        let mut review = FieldReview::default();
        let mut known_hop = None;
        for name in fields.names() {
            let bytes = name.as_bytes();
            // Nearly all names end here. `Host` passes whatever is configured, and the filter cannot rule its letters out.
            if self.usual.contains(bytes) || name == HOST {
                continue;
            }
            if !is_odd(bytes) && !self.odd_is_written && !self.filter.may_hold(bytes) {
                continue;
            }
            let text = name.as_str();
            let hop = *known_hop.get_or_insert_with(|| hop(peer, client));
            if !self.passes(text, hop, client) {
                review.remove.push(name.to_header_name());
            } else if name == X_FORWARDED_PROTO {
                scheme(fields, &mut review);
            }
            if hop == PeerTrust::Stranger && claims_to_forward(name, client) {
                review.is_untrusted_forwarding = true;
            }
        }
        review
    }

    /// Returns whether a field of this name passes from any peer, and has no part in forwarding.
    fn always_passes(&self, text: &'static str, client: &ClientRules) -> bool {
        let name = HeaderName::from_static(text);
        let name = FieldName::from(&name);
        [PeerTrust::Trusted, PeerTrust::Stranger]
            .into_iter()
            .all(|hop| self.passes(text, hop, client))
            && name != X_FORWARDED_PROTO
            && !claims_to_forward(name, client)
    }

    fn passes(&self, text: &str, hop: PeerTrust, client: &ClientRules) -> bool {
        let is_written = || {
            let found = |written: &HeaderName| written.as_str().cmp(text);
            self.written.binary_search_by(found).is_ok()
        };
        if !is_odd(text.as_bytes()) {
            return self.may_say(text, hop, client)
                && (!self.odd_is_written || !self.matters(text) || is_written());
        }
        let canonical = dashed(text);
        if is_written() {
            return self.may_say(&canonical, hop, client);
        }
        self.underscores == UnderscoreFields::Pass
            && !self.matters(&canonical)
            && (self.is_passed_override(&canonical) || !is_proxy_field(&canonical))
    }

    /// Returns whether a name has the CGI form of a protected name.
    fn matters(&self, canonical: &str) -> bool {
        let found = self
            .canonical
            .binary_search_by(|name| (**name).cmp(canonical));
        found.is_ok()
    }

    /// Returns whether the peer may write the field `name`.
    fn may_say(&self, name: &str, hop: PeerTrust, client: &ClientRules) -> bool {
        if self.is_passed_override(name) {
            return true;
        }
        let is_listed = || {
            client.client_ip_header.field_name() == name
                || client
                    .trusted_headers
                    .iter()
                    .any(|listed| listed.holds(name))
        };
        match hop {
            PeerTrust::Trusted => !is_proxy_field(name) || is_listed(),
            PeerTrust::Stranger => !is_proxy_field(name) && !is_listed(),
        }
    }

    fn is_passed_override(&self, name: &str) -> bool {
        self.override_fields == OverrideFields::Pass && OVERRIDES.contains(&name)
    }
}

/// Returns the names of the fields by which trusted proxies describe the URL, among these fields, which were reviewed; sorted.
#[must_use]
pub fn fields_about_url(fields: &ReceivedFields) -> Vec<HeaderName> {
    let names = fields.names();
    let told = names.filter(|name| proxy_fields::tells_url(name.as_str()));
    let mut names: Vec<HeaderName> = told.map(FieldName::to_header_name).collect();
    names.sort_by(|a, b| a.as_str().cmp(b.as_str()));
    names
}

fn claims_to_forward(name: FieldName<'_>, client: &ClientRules) -> bool {
    name == X_FORWARDED_FOR
        || name == http::header::FORWARDED
        || name == client.client_ip_header.field_name()
}

/// Reduces the field to one plain scheme. The trusted proxy wrote the last element of a list: those before it may be the
/// client's.
fn scheme(fields: &ReceivedFields, review: &mut FieldReview) {
    const SCHEMES: [&str; 4] = ["http", "https", "ws", "wss"];
    let mut values = fields.get_all(X_FORWARDED_PROTO);
    let Some(last) = values.next_back() else {
        return;
    };
    let is_alone = values.next().is_none();
    let text = last.as_bytes();
    if is_alone && SCHEMES.iter().any(|scheme| scheme.as_bytes() == text) {
        return;
    }
    let said = text.rsplit(|byte| *byte == b',').next().unwrap_or_default();
    let known = SCHEMES
        .iter()
        .find(|scheme| said.trim_ascii().eq_ignore_ascii_case(scheme.as_bytes()));
    match known {
        Some(scheme) => review.scheme = Some(HeaderValue::from_static(scheme)),
        None => review.remove.push(X_FORWARDED_PROTO),
    }
}

/// The lower-case letters, the digits and the dash.
const PLAIN: [bool; 256] = {
    let mut plain = [false; 256];
    let mut byte = 0;
    while byte < plain.len() {
        plain[byte] = matches!(byte as u8, b'a'..=b'z' | b'0'..=b'9' | b'-');
        byte += 1;
    }
    plain
};

/// Returns whether a name has other characters than lower-case letters, digits and dashes, which some origins read as dashes.
fn is_odd(name: &[u8]) -> bool {
    // Without a branch for each byte: nearly all names are plain.
    (name.iter()).fold(false, |odd, &byte| odd | !PLAIN[usize::from(byte)])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sluicegate_config::{no_review, parse};

    use super::*;
    use crate::client::usual_names::NAMES;

    const EDGE: &str =
        "[client]\ntrusted_proxies = [\"10.0.0.0/8\"]\nclient_ip_header = \"x-edge-client\"\n";
    const LISTING: &str = "[client]\ntrusted_proxies = [\"10.0.0.0/8\"]\ntrusted_headers = [\"x-forwarded-host\", \"cf-*\", \
         \"x-user-id\", \"x-original-url\"]\n";

    /// Returns the policy of `config`, where `written` are protected names.
    fn compiled(config: &str, written: &[&'static str]) -> (FieldPolicy, ClientRules) {
        let rest = "[[listener]]\naddress = \"127.0.0.1:1\"\n[[route]]\npath = \"/*\"\n\
                    respond = { status = 200, body = \"\" }\n";
        let rules = parse("test.toml", &format!("{config}{rest}"), no_review);
        let rules = rules.expect("a configuration").rules;
        let defence = &rules.server.defence;
        let policy = FieldPolicy::compile(
            &rules.client,
            defence.path_override_headers,
            defence.underscores,
            written.iter().copied().map(HeaderName::from_static),
        );
        (policy, rules.client)
    }

    /// Returns the address of a peer.
    fn peer(hop: PeerTrust) -> IpAddr {
        let address = match hop {
            PeerTrust::Trusted => "10.0.0.1",
            PeerTrust::Stranger => "192.0.2.1",
        };
        address.parse().expect("an address")
    }

    /// Returns the fields that remain of these names under `config`, where `written` are protected names.
    fn left(hop: PeerTrust, config: &str, written: &[&'static str], sent: &str) -> String {
        let (policy, client) = compiled(config, written);
        let mut fields = ReceivedFields::new();
        for name in sent.split_whitespace() {
            let name = HeaderName::from_bytes(name.as_bytes()).expect("a name");
            fields.append(name, HeaderValue::from_static("https"));
        }
        let review = policy.review(&fields, peer(hop), &client);
        fields.remove_all(review.remove);
        let mut left: Vec<&str> = fields.names().map(FieldName::as_str).collect();
        left.sort_unstable();
        left.join(" ")
    }

    /// Goal: a name that is found among the usual ones would pass a review. Method: each of them from both peers, under configurations that
    /// list, protect or respell some; a policy without the table reviews the same field.
    #[test]
    fn usual_names_pass_where_a_review_lets_them() {
        for (config, written) in [
            ("", &[][..]),
            (EDGE, &["user_agent"][..]),
            (LISTING, &["x.requested.with", "origin"][..]),
        ] {
            let (policy, client) = compiled(config, written);
            let reviewing = FieldPolicy {
                usual: UsualNames::new(|_| false),
                ..policy.clone()
            };
            for name in NAMES.map(HeaderName::from_static) {
                let fields = ReceivedFields::from_iter([(name, HeaderValue::from_static("a"))]);
                for hop in [PeerTrust::Trusted, PeerTrust::Stranger] {
                    let [found, expected] = [&policy, &reviewing]
                        .map(|policy| format!("{:?}", policy.review(&fields, peer(hop), &client)));
                    assert_eq!(found, expected, "{fields:?}");
                }
            }
        }
        let (policy, _) = compiled(EDGE, &["user_agent"]);
        assert!(policy.usual.contains(b"accept") && !policy.usual.contains(b"user-agent"));
    }

    /// Goal: an untrusted peer cannot set a proxy's field, in no spelling. Method: fields of each kind beside fields that only
    /// look similar.
    #[test]
    fn an_untrusted_peer_cannot_set_fields_of_a_proxy() {
        let sent = "X-Original-URL X_Rewrite_Url X-HTTP-Method-Override X-Forwarded-For X-Forwarded_For X-Forwarded-Prefix X-Edge-Client \
             X_Edge_Client Transfer_Encoding Forwarded CF-Visitor Proxy X-Edge-Clients X-Tenant Accept";
        let kept = "accept x-edge-clients x-tenant";
        assert_eq!(left(PeerTrust::Stranger, EDGE, &[], sent), kept);
        let sent = "CF-Ray X-User-Id X_User_Id X-Forwarded-Host X-User";
        assert_eq!(left(PeerTrust::Stranger, LISTING, &[], sent), "x-user");
    }

    /// Goal: a trusted proxy sets the address, the scheme and listed fields, and none that it merely passes on. Method: the
    /// fields of a client and of its proxy, with the defaults and with a list.
    #[test]
    fn a_trusted_proxy_writes_what_is_listed() {
        let sent = "X-Original-URL X-Real-IP Forwarded X-Forwarded-For X-Forwarded-Host X-Forwarded-Proto X_Forwarded_Proto X-Edge-Client \
             CF-Ray X-User-Id";
        let kept = "x-edge-client x-forwarded-proto x-user-id";
        assert_eq!(left(PeerTrust::Trusted, EDGE, &[], sent), kept);
        let kept = "cf-ray x-edge-client x-forwarded-for x-forwarded-host x-original-url x-user-id";
        assert_eq!(left(PeerTrust::Trusted, LISTING, &[], sent), kept);
    }

    /// Goal: a protected name has one spelling, whatever the operator's setting for underscores. Method: every character that
    /// CGI folds.
    #[test]
    fn a_name_that_matters_has_one_spelling() {
        let sent = "X-Api-Key X_Api_Key X-Api_Key X.Api.Key X!Api~Key X_Other X-Other Content_Type";
        let names = ["x-api-key"];
        assert_eq!(
            left(PeerTrust::Stranger, "", &names, sent),
            "x-api-key x-other"
        );
        let passing = "[server]\nunderscores = \"pass\"\n";
        let kept = "x-api-key x-other x_other";
        assert_eq!(left(PeerTrust::Stranger, passing, &names, sent), kept);
        // Where the operator writes underscores, that spelling is the one that passes.
        let kept = "x-other x_api_key";
        assert_eq!(left(PeerTrust::Stranger, "", &["x_api_key"], sent), kept);
        // An odd spelling of a proxy's field never passes.
        let sent = "X_Forwarded_Prefix Remote_User $WSRA X_Tenant";
        assert_eq!(left(PeerTrust::Stranger, passing, &[], sent), "x_tenant");
    }

    /// Goal: an operator who needs the overrides gets them, and no more. Method: `pass`.
    #[test]
    fn overrides_pass_where_the_operator_says_so() {
        let sent = "X-HTTP-Method-Override X_Original_URL X-Original-Host X_Real_IP";
        let config = "[server]\npath_override_headers = \"pass\"\nunderscores = \"pass\"\n";
        let kept = left(PeerTrust::Stranger, config, &[], sent);
        assert_eq!(kept, "x-http-method-override x_original_url");
    }

    proptest! {
        /// Goal: no spelling passes that a server could fold to a protected name, or to a proxy's. Method: such names with
        /// arbitrary characters for their dashes, under both settings.
        #[test]
        fn no_folded_spelling_passes(
            at in 0..4_usize,
            marks in "[-_.!#$%&'*+^`|~]{8}",
            upper: bool,
            underscores in prop::sample::select(vec!["strip", "pass"]),
        ) {
            let name = ["x-api-key", "x-forwarded-prefix", "remote-user", "content-type"][at];
            let mut marks = marks.chars();
            let spelled: String = name
                .chars()
                .map(|letter| if letter == '-' { marks.next().unwrap_or('-') } else { letter })
                .collect();
            let sent = if upper { spelled.to_uppercase() } else { spelled.clone() };
            let config = format!("[server]\nunderscores = \"{underscores}\"\n");
            let passes = spelled == name && matches!(name, "x-api-key" | "content-type");
            let kept = left(PeerTrust::Stranger, &config, &["x-api-key"], &sent);
            prop_assert_eq!(kept, if passes { name } else { "" });
        }
    }

    /// Goal: the scheme of a trusted proxy is one of four words, the last that was sent. Method: values of each kind.
    #[test]
    fn a_trusted_scheme_is_one_plain_word() {
        for (values, said) in [
            (&["https"][..], Some("https")),
            (&["wss"], Some("wss")),
            (&["HTTPS"], Some("https")),
            (&["https, http"], Some("http")),
            (&["https", "http"], Some("http")),
            (&["https\", \"x"], None),
            (&["http", ""], None),
        ] {
            let mut fields = ReceivedFields::new();
            for value in values {
                fields.append(X_FORWARDED_PROTO, HeaderValue::from_static(value));
            }
            let mut review = FieldReview::default();
            scheme(&fields, &mut review);
            if !review.remove.is_empty() {
                fields.remove(&X_FORWARDED_PROTO);
            }
            if let Some(scheme) = review.scheme {
                fields.insert(X_FORWARDED_PROTO, scheme);
            }
            let left: Vec<_> = fields.get_all(X_FORWARDED_PROTO).collect();
            assert_eq!(left, Vec::from_iter(said), "{values:?}");
        }
    }
}
