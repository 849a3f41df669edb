//! Decides how gRPC clients are answered: by a gRPC status in a head without a body, since their libraries read nothing else
//! ("Trailers-Only", gRPC over HTTP/2).
//!
//! A rejection is `RESOURCE_EXHAUSTED`. Other statuses follow gRPC's document "HTTP to gRPC Status Code Mapping", by which
//! clients interpret an answer without a gRPC status. A gateway has more information in three cases: a limit or a size that is
//! exceeded is `RESOURCE_EXHAUSTED`, a timeout is `DEADLINE_EXCEEDED`, and a ban or block list is `PERMISSION_DENIED` as in the
//! document.

use std::fmt::Write;

use http::header::CONTENT_TYPE;
use http::{HeaderName, HeaderValue, StatusCode};
use sluicegate_base::received::ReceivedFields;

/// `grpc-status`
pub(super) static GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
/// `grpc-message`
pub(super) static GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");

/// A dialect of gRPC, by the media type of its answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrpcDialect {
    /// `application/grpc`
    Http2,
    /// `application/grpc-web`
    Web,
    /// `application/grpc-web-text`
    WebText,
}

/// A status of gRPC, by the number in `grpc-status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrpcStatus(u8);

impl GrpcStatus {
    const UNKNOWN: Self = Self(2);
    /// The status of a message that does not come.
    pub const DEADLINE_EXCEEDED: Self = Self(4);
    /// The status of a method that there is not.
    pub const UNIMPLEMENTED: Self = Self(12);
    const INTERNAL: Self = Self(13);
    /// The status of a call that ends since the gateway shuts down.
    pub const UNAVAILABLE: Self = Self(14);
    const UNAUTHENTICATED: Self = Self(16);
    /// The status of a call that is done.
    pub const OK: Self = Self(0);
    /// The status of a service that there is not.
    pub const NOT_FOUND: Self = Self(5);
    /// The status of a message that the method cannot read.
    pub const INVALID_ARGUMENT: Self = Self(3);
    /// The status of a ban.
    pub const PERMISSION_DENIED: Self = Self(7);
    /// The status of a rejection by a rate.
    pub const RESOURCE_EXHAUSTED: Self = Self(8);

    /// Returns the gRPC status of a response with the status `http`.
    #[must_use]
    pub fn from_http(http: StatusCode) -> Self {
        match http.as_u16() {
            413 | 429 | 431 => Self::RESOURCE_EXHAUSTED,
            504 => Self::DEADLINE_EXCEEDED,
            // The statuses from here on follow the document.
            400 => Self::INTERNAL,
            401 => Self::UNAUTHENTICATED,
            403 => Self::PERMISSION_DENIED,
            404 => Self::UNIMPLEMENTED,
            502 | 503 => Self::UNAVAILABLE,
            _ => Self::UNKNOWN,
        }
    }
}

impl GrpcDialect {
    /// Returns the dialect of a request with these fields, if it is gRPC.
    #[must_use]
    pub fn from_headers(headers: &ReceivedFields) -> Option<Self> {
        Self::named(headers.get(CONTENT_TYPE)?.as_bytes())
    }

    /// Returns the dialect of a media type: `application/grpc+proto` is one of `application/grpc`.
    #[must_use]
    pub fn named(media_type: &[u8]) -> Option<Self> {
        const COMMON: &[u8] = b"application/grpc";
        let (common, rest) = media_type.split_at_checked(COMMON.len())?;
        if !common.eq_ignore_ascii_case(COMMON) {
            return None;
        }
        let end = rest
            .iter()
            .position(|byte| b"+; \t".contains(byte))
            .unwrap_or(rest.len());
        match &*rest[..end].to_ascii_lowercase() {
            b"" => Some(Self::Http2),
            b"-web" => Some(Self::Web),
            b"-web-text" => Some(Self::WebText),
            _ => None,
        }
    }

    /// Returns the fields of an answer without a body.
    #[must_use]
    pub fn fields(self, status: GrpcStatus, message: &str) -> [(HeaderName, HeaderValue); 3] {
        let content_type = HeaderValue::from_static(match self {
            Self::Http2 => "application/grpc",
            Self::Web => "application/grpc-web",
            Self::WebText => "application/grpc-web-text",
        });
        [
            (CONTENT_TYPE, content_type),
            (GRPC_STATUS.clone(), HeaderValue::from(u16::from(status.0))),
            (GRPC_MESSAGE.clone(), encoded(message)),
        ]
    }
}

/// Percent-encodes a message by gRPC over HTTP/2, "Responses": space to `~` but `%` unchanged, every other byte as `%` with two
/// hexadecimal digits.
fn encoded(message: &str) -> HeaderValue {
    let mut text = String::with_capacity(message.len());
    for byte in message.bytes() {
        if (b' '..=b'~').contains(&byte) && byte != b'%' {
            text.push(char::from(byte));
        } else {
            // A write into a string does not fail.
            let _ = write!(text, "%{byte:02X}");
        }
    }
    HeaderValue::try_from(text).expect("only visible ASCII and spaces are left")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: gRPC clients are detected, and no others. Method: the dialects with their formats, and types near them.
    #[test]
    fn dialects_are_detected_by_their_media_type() {
        for (text, expected) in [
            ("application/grpc", Some(GrpcDialect::Http2)),
            ("application/grpc+proto", Some(GrpcDialect::Http2)),
            ("Application/GRPC; x=1", Some(GrpcDialect::Http2)),
            ("application/grpc-web+proto", Some(GrpcDialect::Web)),
            ("application/grpc-web-text", Some(GrpcDialect::WebText)),
            ("application/grpcx", None),
            ("application/grpc-webx", None),
            ("application/json", None),
            ("", None),
        ] {
            assert_eq!(GrpcDialect::named(text.as_bytes()), expected, "{text}");
        }
    }

    /// Goal: messages survive the encoding. Method: text with a percent sign, a line feed and letters beyond ASCII.
    #[test]
    fn messages_are_percent_encoded() {
        assert_eq!(encoded("50% of ä\n"), "50%25 of %C3%A4%0A");
    }

    /// Goal: each status that the gateway sends has its meaning. Method: all of them.
    #[test]
    fn statuses_are_mapped() {
        let told = |http| GrpcStatus::from_http(StatusCode::from_u16(http).expect("a status")).0;
        let statuses = [400, 403, 404, 413, 429, 431, 500, 502, 503, 504];
        assert_eq!(statuses.map(told), [13, 7, 12, 8, 8, 8, 2, 14, 14, 4]);
    }
}
