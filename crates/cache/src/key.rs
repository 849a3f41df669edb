//! Owns the key of a stored answer: all parts of a request on which its answer may depend, apart from the fields in `Vary`.
//!
//! | part | because |
//! |---|---|
//! | scheme, host, port | two sites behind one gateway are two sites (CVE-2026-2836 was a key without them) |
//! | path and query, byte by byte as sent | the origin gets them so: `/a;v=1` and `/%61` may be other pages to it than `/a` |
//! | the route's name | routes of one URL may lead to other origins, or change request and answer in other ways |
//! | fields of `vary_on`, and the fields of trusted hops about scheme and host | the origin sees them, and may use them without
//! `Vary` |
//!
//! Limits match paths in a normal form that is as wide as the widest reading of an origin; a key must be as narrow as the
//! narrowest. The price is that two spellings of one page are stored twice.
//!
//! The text begins with the URL, so that a purge by URL or prefix compares its beginning. Parts end in a zero byte, which none
//! of them can contain.

use http::HeaderName;
use sluicegate_base::received::ReceivedFields;
use sluicegate_decide::url_scheme::UrlScheme;

/// A URL in the form in which stored answers are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheUrl<'a> {
    /// The scheme that the client used.
    pub scheme: UrlScheme,
    /// Host and port as sent.
    pub authority: &'a str,
    /// Path and query as sent.
    pub target: &'a str,
}

impl CacheUrl<'_> {
    /// Returns its text: the host in lower case, without a default port.
    #[must_use]
    pub fn text(&self) -> Vec<u8> {
        let default = self.authority.rsplit_once(':');
        let host = match default {
            Some((host, port)) if port == default_port(self.scheme) => host,
            _ => self.authority,
        };
        let scheme = self.scheme.as_str();
        let target = self.target;
        let mut text = Vec::with_capacity(scheme.len() + 3 + host.len() + target.len());
        text.extend_from_slice(scheme.as_bytes());
        text.extend_from_slice(b"://");
        text.extend(host.bytes().map(|byte| byte.to_ascii_lowercase()));
        text.extend_from_slice(target.as_bytes());
        text
    }
}

/// Returns the default port, RFC 9110 §4.2.
fn default_port(scheme: UrlScheme) -> &'static str {
    match scheme {
        UrlScheme::Http => "80",
        UrlScheme::Https => "443",
    }
}

/// Returns the key of an answer of `route` to `url` for these request fields, of which `names` matter.
#[must_use]
pub fn key<'n>(
    url: &CacheUrl<'_>,
    route: &str,
    fields: &ReceivedFields,
    names: impl IntoIterator<Item = &'n HeaderName>,
) -> Vec<u8> {
    let mut text = url.text();
    text.push(0);
    text.extend_from_slice(route.as_bytes());
    text.push(0);
    for name in names {
        let mut lines = fields.get_all(name).peekable();
        if lines.peek().is_none() {
            continue;
        }
        text.extend_from_slice(name.as_str().as_bytes());
        text.push(b':');
        for line in lines {
            text.extend_from_slice(line.as_bytes());
            text.push(b',');
        }
        text.push(0);
    }
    text
}

/// Returns the URL of a key.
#[must_use]
pub fn url_of(key: &[u8]) -> &[u8] {
    key.split(|byte| *byte == 0).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn url(scheme: UrlScheme, authority: &str) -> String {
        let url = CacheUrl {
            scheme,
            authority,
            target: "/A?b=%61",
        };
        String::from_utf8(url.text()).expect("text")
    }

    /// Goal: one site has one spelling, and two sites never share one. Method: hosts in several cases, with default ports and
    /// others, under both schemes.
    #[test]
    fn hosts_differ_and_default_ports_do_not() {
        use UrlScheme::{Http, Https};
        assert_eq!(url(Http, "A.test:80"), "http://a.test/A?b=%61");
        assert_eq!(url(Https, "a.test:443"), "https://a.test/A?b=%61");
        assert_eq!(url(Https, "a.test:80"), "https://a.test:80/A?b=%61");
        assert_eq!(url(Http, "[::1]:8080"), "http://[::1]:8080/A?b=%61");
        assert_eq!(url(Http, "[::1]"), "http://[::1]/A?b=%61");
    }

    /// Goal: different answers have different keys, and the URL can be read back. Method: one URL under two routes and with a
    /// field present, empty and absent.
    /// empty and absent.
    #[test]
    fn routes_and_named_fields_make_other_keys() {
        let url = CacheUrl {
            scheme: UrlScheme::Http,
            authority: "a.test",
            target: "/",
        };
        let name = HeaderName::from_static("x-lang");
        let with = |value: Option<&'static str>| {
            let mut fields = ReceivedFields::new();
            if let Some(value) = value {
                fields.insert(&name, HeaderValue::from_static(value));
            }
            key(&url, "r", &fields, [&name])
        };
        let keys = [
            with(None),
            with(Some("")),
            with(Some("de")),
            key(&url, "s", &ReceivedFields::new(), []),
        ];
        for (at, one) in keys.iter().enumerate() {
            assert_eq!(url_of(one), b"http://a.test/");
            assert!(keys[..at].iter().all(|other| other != one), "{at}");
        }
    }
}
