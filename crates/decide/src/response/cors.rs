//! Decides the CORS fields for browsers, by the Fetch standard, §3.2.
//!
//! The gateway answers a preflight of a browser, before the limits and without a charge: the request that follows is the one
//! that counts. A preflight never reaches an origin and its answer contains nothing but the rules, so many of them gain nothing.
//! Every other answer says which pages may read it, rejections and failures too: a page that cannot read a 429 cannot obey its
//! `Retry-After`. The rules decide alone: an origin's own fields of these names do not reach the client.

use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE,
    ACCESS_CONTROL_REQUEST_HEADERS, ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, VARY,
};
use http::{HeaderName, HeaderValue, Method};
use sluicegate_base::received::{FieldValue, ReceivedFields};
use sluicegate_config::rules::{AllowedFields, CorsRules, Credentials, PageOrigin, PageOrigins};

/// The fields that only the rules write.
pub const OWN: [HeaderName; 6] = [
    ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_ALLOW_CREDENTIALS,
    ACCESS_CONTROL_EXPOSE_HEADERS,
    ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_HEADERS,
    ACCESS_CONTROL_MAX_AGE,
];

/// Returns the method that a preflight asks about; `None` where the request is no preflight.
#[must_use]
pub fn preflight(method: &Method, headers: &ReceivedFields) -> Option<Method> {
    if method != Method::OPTIONS || !headers.contains_key(ORIGIN) {
        return None;
    }
    let asked = headers.get(ACCESS_CONTROL_REQUEST_METHOD)?;
    Method::from_bytes(asked.as_bytes()).ok()
}

/// Returns the fields of an answer to a request with these `headers`; to append, after all of [`OWN`] were removed.
#[must_use]
pub fn fields(rules: &CorsRules, headers: &ReceivedFields) -> Vec<(HeaderName, HeaderValue)> {
    let mut fields = Vec::new();
    if depends_on_origin(rules) {
        // Also where the page is not allowed: a cache must not serve this response to one that is.
        fields.push((VARY, HeaderValue::from_static("origin")));
    }
    if let Some(allowed) = allowed(rules, headers) {
        push_allowed(&mut fields, rules, allowed);
        fields.push((ACCESS_CONTROL_EXPOSE_HEADERS, rules.expose.clone()));
    }
    fields
}

/// Returns the fields of the response to a preflight for `method`. A page that is not allowed gets none, which a browser takes as a denial.
#[must_use]
pub fn preflight_fields(
    rules: &CorsRules,
    method: &Method,
    headers: &ReceivedFields,
) -> Vec<(HeaderName, HeaderValue)> {
    let depends = "origin, access-control-request-method, access-control-request-headers";
    let mut fields = vec![(VARY, HeaderValue::from_static(depends))];
    let Some(allowed) = allowed(rules, headers) else {
        return fields;
    };
    push_allowed(&mut fields, rules, allowed);
    let methods: Vec<&str> = match &*rules.methods {
        [] => vec![method.as_str()],
        named => named.iter().map(Method::as_str).collect(),
    };
    if let Ok(methods) = HeaderValue::from_str(&methods.join(", ")) {
        fields.push((ACCESS_CONTROL_ALLOW_METHODS, methods));
    }
    let names = match &rules.headers {
        AllowedFields::Any => {
            let asked = headers.get(ACCESS_CONTROL_REQUEST_HEADERS);
            asked.map(FieldValue::to_header_value)
        }
        AllowedFields::These(names) => {
            let names: Vec<&str> = names.iter().map(HeaderName::as_str).collect();
            HeaderValue::from_str(&names.join(", ")).ok()
        }
    };
    if let Some(names) = names.filter(|names| !names.is_empty()) {
        fields.push((ACCESS_CONTROL_ALLOW_HEADERS, names));
    }
    let age = HeaderValue::from(rules.max_age.as_secs());
    fields.push((ACCESS_CONTROL_MAX_AGE, age));
    fields
}

/// Returns whether responses differ by the origin of the page.
fn depends_on_origin(rules: &CorsRules) -> bool {
    rules.origins != PageOrigins::Any
}

/// Returns the value of `Access-Control-Allow-Origin`; `None` where the page is not allowed, or no page asks.
fn allowed(rules: &CorsRules, headers: &ReceivedFields) -> Option<HeaderValue> {
    let PageOrigins::These(origins) = &rules.origins else {
        return Some(HeaderValue::from_static("*"));
    };
    let mut asking = headers.get_all(ORIGIN);
    let (Some(asking), None) = (asking.next(), asking.next()) else {
        return None;
    };
    let text = asking.to_str().ok()?;
    origins
        .iter()
        .any(|origin| is_of(text, origin))
        .then(|| asking.to_header_value())
}

fn is_of(asking: &str, origin: &PageOrigin) -> bool {
    match origin {
        PageOrigin::Exact(origin) => asking == &**origin,
        PageOrigin::Under { scheme, ending } => {
            let name = asking
                .strip_prefix(&**scheme)
                .and_then(|rest| rest.strip_suffix(&**ending));
            let allowed = |byte: u8| {
                byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-._".contains(&byte)
            };
            name.is_some_and(|name| !name.is_empty() && name.bytes().all(allowed))
        }
    }
}

fn push_allowed(
    fields: &mut Vec<(HeaderName, HeaderValue)>,
    rules: &CorsRules,
    allowed: HeaderValue,
) {
    fields.push((ACCESS_CONTROL_ALLOW_ORIGIN, allowed));
    if rules.credentials == Credentials::Allowed {
        let allowed = HeaderValue::from_static("true");
        fields.push((ACCESS_CONTROL_ALLOW_CREDENTIALS, allowed));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn rules(origins: &[PageOrigin]) -> CorsRules {
        CorsRules {
            origins: match origins {
                [] => PageOrigins::Any,
                origins => PageOrigins::These(origins.to_vec()),
            },
            methods: Vec::new(),
            headers: AllowedFields::Any,
            expose: HeaderValue::from_static("retry-after"),
            credentials: Credentials::Withheld,
            max_age: Duration::from_secs(600),
        }
    }

    fn under() -> PageOrigin {
        PageOrigin::Under {
            scheme: "https://".into(),
            ending: ".example.com".into(),
        }
    }

    fn asking(origin: &'static str) -> ReceivedFields {
        ReceivedFields::from_iter([(ORIGIN, HeaderValue::from_static(origin))])
    }

    fn value(fields: &[(HeaderName, HeaderValue)], name: &HeaderName) -> Option<String> {
        let found = fields.iter().find(|(found, _)| found == name);
        found.map(|(_, value)| value.to_str().expect("text").to_owned())
    }

    /// Goal: exactly the configured pages are allowed. Method: names beside, above and below, other schemes and ports, and
    /// tricks.
    #[test]
    fn a_star_stands_for_names_under_the_host_and_nothing_else() {
        for (origin, is_allowed) in [
            ("https://app.example.com", true),
            ("https://a.b.example.com", true),
            ("https://example.com", false),
            ("https://.example.com", false),
            ("http://app.example.com", false),
            ("https://app.example.com:8443", false),
            ("https://evil.test/.example.com", false),
            ("https://evil.test?.example.com", false),
            ("https://evil.test@x.example.com", false),
            ("https://appexample.com", false),
            ("null", false),
        ] {
            let fields = fields(&rules(&[under()]), &asking(origin));
            let allowed = value(&fields, &ACCESS_CONTROL_ALLOW_ORIGIN);
            assert_eq!(allowed.as_deref(), is_allowed.then_some(origin), "{origin}");
            assert_eq!(value(&fields, &VARY).as_deref(), Some("origin"), "{origin}");
        }
        let mut two = asking("https://app.example.com");
        two.append(ORIGIN, HeaderValue::from_static("https://evil.test"));
        assert_eq!(
            value(
                &fields(&rules(&[under()]), &two),
                &ACCESS_CONTROL_ALLOW_ORIGIN
            ),
            None
        );
    }

    /// Goal: where every page may read, caches may store one answer for all. Method: any origin, without one too.
    #[test]
    fn an_answer_for_everybody_does_not_vary() {
        for headers in [asking("https://a.test"), ReceivedFields::new()] {
            let fields = fields(&rules(&[]), &headers);
            assert_eq!(
                value(&fields, &ACCESS_CONTROL_ALLOW_ORIGIN).as_deref(),
                Some("*")
            );
            assert_eq!(value(&fields, &VARY), None);
        }
    }

    /// Goal: a preflight gets the methods and fields that it asks about, and only preflights do. Method: one of each kind.
    #[test]
    fn a_preflight_gets_methods_and_fields() {
        let mut headers = asking("https://app.example.com");
        assert_eq!(preflight(&Method::OPTIONS, &headers), None);
        headers.insert(
            ACCESS_CONTROL_REQUEST_METHOD,
            HeaderValue::from_static("PUT"),
        );
        headers.insert(
            ACCESS_CONTROL_REQUEST_HEADERS,
            HeaderValue::from_static("x-a, x-b"),
        );
        assert_eq!(preflight(&Method::POST, &headers), None);
        assert_eq!(preflight(&Method::OPTIONS, &headers), Some(Method::PUT));
        let mut rules = rules(&[under()]);
        let told = preflight_fields(&rules, &Method::PUT, &headers);
        assert_eq!(
            value(&told, &ACCESS_CONTROL_ALLOW_METHODS).as_deref(),
            Some("PUT")
        );
        assert_eq!(
            value(&told, &ACCESS_CONTROL_ALLOW_HEADERS).as_deref(),
            Some("x-a, x-b")
        );
        assert_eq!(
            value(&told, &ACCESS_CONTROL_MAX_AGE).as_deref(),
            Some("600")
        );
        assert_eq!(value(&told, &ACCESS_CONTROL_ALLOW_CREDENTIALS), None);
        rules.methods = vec![Method::GET, Method::POST];
        rules.headers = AllowedFields::These(vec![HeaderName::from_static("x-a")]);
        rules.credentials = Credentials::Allowed;
        let told = preflight_fields(&rules, &Method::PUT, &headers);
        assert_eq!(
            value(&told, &ACCESS_CONTROL_ALLOW_METHODS).as_deref(),
            Some("GET, POST")
        );
        assert_eq!(
            value(&told, &ACCESS_CONTROL_ALLOW_HEADERS).as_deref(),
            Some("x-a")
        );
        assert_eq!(
            value(&told, &ACCESS_CONTROL_ALLOW_CREDENTIALS).as_deref(),
            Some("true")
        );
        let stranger = preflight_fields(&rules, &Method::PUT, &asking("https://evil.test"));
        assert_eq!(stranger.len(), 1, "nothing but Vary");
    }
}
