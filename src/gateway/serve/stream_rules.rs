//! Checks the rules for the head of a request of HTTP/2 that the h2 crate does not: a scheme, one host, values without white space around
//! them, and a target that HTTP/1.1 can carry.
//!
//! The request may go to an origin of HTTP/1.1, where the host is one field and the target a part of the first line, and where white space
//! around a value is not part of it: routes and keys would see another value than the origin.

use http::Method;
use http::header::HOST;
use sluicegate_base::received::{FieldValue, ReceivedHead};

/// Returns whether a head keeps these rules:
///
/// - RFC 9113 §8.3.1 and RFC 3986 §3.1: `:scheme` begins with a letter, so it is not empty. The h2 crate checks its other characters, and
///   drops it from a head without `:authority`.
/// - RFC 9113 §8.3.1: it has `:authority` or `Host`, the two agree, and neither has userinfo.
/// - RFC 9112 §3.2: there is one `Host` at most.
/// - RFC 9113 §8.2.1: no value begins or ends with white space.
/// - RFC 9113 §8.3.1: the target is a path, or `*` of OPTIONS. It has no byte that ends the first line of HTTP/1.1, or a word of it.
///
/// CONNECT has no target; it is answered without being read.
pub(super) fn is_well_formed(head: &ReceivedHead) -> bool {
    if (head.headers.iter()).any(|(_, value)| has_white_space_around(value)) {
        return false;
    }
    let mut hosts = head.headers.get_all(HOST);
    let host = hosts.next();
    let other = hosts.next();
    let authority = head.uri.authority();
    let named = host.map_or_else(
        || authority.map(|authority| authority.as_str().as_bytes()),
        |host| Some(host.as_bytes()),
    );
    let Some(named) = named.filter(|named| other.is_none() && !named.contains(&b'@')) else {
        return false;
    };
    if authority.is_some_and(|authority| authority.as_str().as_bytes() != named) {
        return false;
    }
    if head.method == Method::CONNECT {
        return true;
    }
    let scheme = head.uri.scheme_str();
    if scheme.is_some_and(|scheme| !scheme.starts_with(|first: char| first.is_ascii_alphabetic())) {
        return false;
    }
    let target = head.raw_path();
    let has_form = target.starts_with(b"/") || head.method == Method::OPTIONS && target == b"*";
    has_form && !(target.iter()).any(|byte| matches!(byte, b'\0' | b'\n' | b'\r' | b' '))
}

fn has_white_space_around(value: FieldValue<'_>) -> bool {
    matches!(value.as_bytes(), [b' ' | b'\t', ..] | [.., b' ' | b'\t'])
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    fn head(method: &str, uri: &str, hosts: &[&str]) -> ReceivedHead {
        let request = http::Request::builder().method(method).uri(uri);
        let mut head = ReceivedHead::from(request.body(()).unwrap().into_parts().0);
        for host in hosts {
            let host = HeaderValue::from_str(host).unwrap();
            head.headers.append(HOST, host);
        }
        head
    }

    /// Goal: the h2 crate passes schemes that are none on; they are rejected. Method: heads as it makes them.
    #[test]
    fn a_scheme_begins_with_a_letter() {
        for (scheme, is_well_formed) in [("http", true), ("h2+x", true), ("", false), ("1", false)]
        {
            let mut parts = http::uri::Parts::default();
            parts.scheme = Some(scheme.parse().unwrap());
            parts.authority = Some("a.test".parse().unwrap());
            parts.path_and_query = Some("/x".parse().unwrap());
            let request = http::Request::builder().uri(parts).body(()).unwrap();
            let head = ReceivedHead::from(request.into_parts().0);
            assert_eq!(super::is_well_formed(&head), is_well_formed, "{scheme:?}");
        }
    }

    /// Goal: white space is no part of a value's ends. Method: values with a space or a tab in front, behind, and within.
    #[test]
    fn values_have_no_white_space_around_them() {
        for (value, is_well_formed) in [
            ("free", true),
            ("", true),
            ("a b\tc", true),
            (" free", false),
            ("free\t", false),
            (" ", false),
        ] {
            let mut head = head("GET", "/x", &["a.test"]);
            let value = HeaderValue::from_str(value).unwrap();
            head.headers
                .append(HeaderName::from_static("x-plan"), value.clone());
            assert_eq!(super::is_well_formed(&head), is_well_formed, "{value:?}");
        }
    }

    /// Goal: each rule rejects, and requests that keep them pass. Method: heads on both sides of each.
    #[test]
    fn each_rule_has_two_sides() {
        for (method, uri, hosts, is_well_formed) in [
            ("GET", "http://a.test/x?y", &[][..], true),
            ("GET", "http://a.test/x", &["a.test"], true),
            ("GET", "/x", &["a.test"], true),
            ("OPTIONS", "*", &["a.test"], true),
            ("CONNECT", "a.test:443", &[], true),
            ("GET", "/x", &[], false),
            ("GET", "/x", &["a.test", "a.test"], false),
            ("GET", "http://a.test/x", &["b.test"], false),
            ("GET", "http://u@a.test/x", &[], false),
            ("GET", "/x", &["u@a.test"], false),
            ("GET", "*", &["a.test"], false),
        ] {
            let head = head(method, uri, hosts);
            assert_eq!(
                super::is_well_formed(&head),
                is_well_formed,
                "{method} {uri} {hosts:?}"
            );
        }
    }
}
