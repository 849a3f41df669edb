//! Removes the fields of an origin's trailers that no trailer may have.
//!
//! Trailers pass from origins of HTTP/2 to clients of HTTP/2 alone: those of HTTP/1.1 end at the gateway, and so do those of requests.

use http::header::{HeaderMap, HeaderName};
use sluicegate_http1::{HeaderField, KnownField};

use super::response_split::is_written;

/// Removes the fields that a recipient reads before the body (RFC 9110 §6.5.1), that the gateway writes, or that are `confidential`.
/// `None` if no field is left.
pub(super) fn for_client(
    mut trailers: HeaderMap,
    confidential: &[HeaderName],
) -> Option<HeaderMap> {
    let removed = trailers
        .keys()
        .filter(|name| !may_follow(name) || confidential.contains(name));
    for name in removed.cloned().collect::<Vec<_>>() {
        trailers.remove(name);
    }
    (!trailers.is_empty()).then_some(trailers)
}

/// Returns whether a field of this name may follow a body.
fn may_follow(name: &HeaderName) -> bool {
    let field = HeaderField::new(name.as_str().as_bytes(), b"");
    // The fields that the parser knows frame a message, route it, or belong to a connection.
    if field.known() != KnownField::Other || is_written(&field) {
        return false;
    }
    // RFC 9110 §6.5.1: routing, request modifiers, authentication, response control data, and the format of the content.
    !matches!(
        name.as_str(),
        "age"
            | "allow"
            | "alt-svc"
            | "authorization"
            | "cache-control"
            | "clear-site-data"
            | "content-disposition"
            | "content-encoding"
            | "content-language"
            | "content-location"
            | "content-range"
            | "content-security-policy"
            | "content-type"
            | "cookie"
            | "expires"
            | "last-modified"
            | "location"
            | "max-forwards"
            | "pragma"
            | "proxy-authenticate"
            | "proxy-authorization"
            | "range"
            | "retry-after"
            | "set-cookie"
            | "vary"
            | "warning"
            | "www-authenticate"
    )
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn left(names: &[&'static str]) -> Vec<String> {
        let confidential = [HeaderName::from_static("x-cost")];
        let fields = names.iter().map(|name| {
            let name = HeaderName::from_static(name);
            (name, HeaderValue::from_static("1"))
        });
        let left = for_client(fields.collect(), &confidential).unwrap_or_default();
        left.keys().map(ToString::to_string).collect()
    }

    /// Goal: what decides about a message, its connection, or a limit does not come behind the body. Method: a field of each kind, alone
    /// and beside those of gRPC.
    #[test]
    fn fields_that_belong_into_a_head_are_removed() {
        const NAMES: [&str; 12] = [
            "connection",
            "content-length",
            "content-type",
            "host",
            "ratelimit",
            "ratelimit-policy",
            "set-cookie",
            "te",
            "transfer-encoding",
            "x-cost",
            "x-ratelimit-reset",
            "x-request-id",
        ];
        const KEPT: [&str; 4] = ["grpc-status", "grpc-message", "etag", "server-timing"];
        for name in NAMES {
            assert_eq!(left(&[name]), [""; 0], "{name}");
            assert_eq!(left(&["grpc-status", name]), ["grpc-status"], "{name}");
        }
        assert_eq!(left(&KEPT), KEPT);
    }
}
