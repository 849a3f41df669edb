//! Decides which fields of a stranger would pass for something else at an origin, and removes them.
//!
//! * `X-Original-URL` and `X-Rewrite-URL` are read by frameworks in place of the path (IIS and its rewriting proxies write them), and
//!   `X-HTTP-Method-Override` and its kin in place of the method. The route was found, and its limits were asked, by the request's own
//!   path and method; so these would walk around them.
//! * Servers that speak CGI's language (PHP, WSGI, Rack) read `X_Forwarded_For` as `X-Forwarded-For`. What only the gateway may say must
//!   not be said with another dash.
//!
//! A trusted proxy may send all of them: it stands where the operator put it.

use http::header::HeaderName;

use super::case::Fields;
use super::headers::Introduction;
use crate::config::rules::{ForwardedSource, OverrideFields};

/// Read in place of the path or the method.
pub const OVERRIDES: [&str; 7] = [
    "x-original-url",
    "x-original-uri",
    "x-rewrite-url",
    "x-forwarded-uri",
    "x-http-method-override",
    "x-http-method",
    "x-method-override",
];

/// What the gateway says of a request, and what frames it.
const OURS: [&str; 7] = [
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-real-ip",
    "x-request-id",
    "content-length",
    "transfer-encoding",
];

/// Removes them.
pub(super) fn unmask(fields: &mut dyn Fields, told: &Introduction<'_>) {
    // Most requests have none, so they are looked for in one pass before anything is hashed.
    let doomed: Vec<HeaderName> = fields
        .all()
        .keys()
        .filter(|name| is_mask(name.as_str(), told))
        .cloned()
        .collect();
    for name in &doomed {
        fields.remove(name);
    }
}

fn is_mask(name: &str, told: &Introduction<'_>) -> bool {
    let overrides = told.override_fields == OverrideFields::Strip
        && name.starts_with("x-")
        && OVERRIDES.contains(&name);
    overrides || (name.contains('_') && is_dashed_otherwise(name, told))
}

/// Whether a name with underscores is one of those above with dashes.
#[cold]
fn is_dashed_otherwise(name: &str, told: &Introduction<'_>) -> bool {
    let dashed = name.replace('_', "-");
    let dashed = dashed.as_str();
    let is_source = match &told.client.forwarded {
        ForwardedSource::SingleValue(source) => source == dashed,
        ForwardedSource::XForwardedFor | ForwardedSource::Forwarded => false,
    };
    is_source
        || OURS.contains(&dashed)
        || (told.override_fields == OverrideFields::Strip && OVERRIDES.contains(&dashed))
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;
    use crate::client::{Scheme, Source};
    use crate::config::parse;
    use crate::config::rules::{ClientRules, HostPolicy};
    use crate::record::RequestId;

    fn left(names: &[&str], override_fields: OverrideFields) -> Vec<String> {
        let client: ClientRules = parse(
            "test.toml",
            "[client]\ntrusted_proxies = [\"10.0.0.0/8\"]\nforwarded = \"x-edge-client\"\n[[listener]]\naddress = \"127.0.0.1:1\"\n\
             [[route]]\npath = \"/*\"\nrespond = { status = 200, body = \"\" }\n",
        )
        .unwrap()
        .rules
        .client;
        let told = Introduction {
            peer: "192.0.2.1".parse().unwrap(),
            source: Source::Connection,
            scheme: Scheme::Http,
            request_id: RequestId::next(),
            client: &client,
            host: &HostPolicy::Preserve,
            server: None,
            override_fields,
        };
        let mut fields = HeaderMap::new();
        for name in names {
            let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
            fields.append(name, "x".parse().unwrap());
        }
        unmask(&mut fields, &told);
        let mut left: Vec<String> = fields.keys().map(|name| name.as_str().to_owned()).collect();
        left.sort();
        left
    }

    /// Goal: what would pass for a path, a method or the gateway's word goes, and nothing else. Method: each kind in both dashes, beside
    /// fields that only look alike.
    #[test]
    fn what_would_pass_for_something_else_is_removed() {
        let sent = [
            "X-Original-URL",
            "X_Rewrite_Url",
            "X-HTTP-Method-Override",
            "X_Forwarded_For",
            "X-Forwarded_For",
            "X_Edge_Client",
            "Transfer_Encoding",
            "X-Original-Urls",
            "X_Tenant",
            "Accept",
        ];
        let kept = left(&sent, OverrideFields::Strip);
        assert_eq!(kept, ["accept", "x-original-urls", "x_tenant"]);
    }

    /// Goal: an operator who needs them has them, and no more. Method: `pass`.
    #[test]
    fn overrides_pass_where_the_operator_says_so() {
        let sent = ["X-HTTP-Method-Override", "X_Original_URL", "X_Real_IP"];
        let kept = left(&sent, OverrideFields::Pass);
        assert_eq!(kept, ["x-http-method-override", "x_original_url"]);
    }
}
