//! The head of a request, as the stages read it.

use http::request::Parts;
use http::{Method, Uri, Version};

use super::ReceivedFields;

/// The head of a request of HTTP/1 or HTTP/2.
#[derive(Clone, Debug, Default)]
pub struct ReceivedHead {
    /// The method.
    pub method: Method,
    /// The target, over HTTP/2 with scheme and authority.
    pub uri: Uri,
    /// The version in which the request was received.
    pub version: Version,
    /// The fields.
    pub headers: ReceivedFields,
}

impl ReceivedHead {
    /// Returns path and query; nothing where the target has none.
    #[must_use]
    pub fn raw_path(&self) -> &[u8] {
        let target = self.uri.path_and_query();
        target.map_or(b"", |target| target.as_str().as_bytes())
    }

    /// Returns the number of bytes that a received head holds in memory: its target is part of the bytes of its fields.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.headers.bytes().len()
    }
}

impl From<Parts> for ReceivedHead {
    fn from(parts: Parts) -> Self {
        Self {
            method: parts.method,
            uri: parts.uri,
            version: parts.version,
            headers: parts.headers.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use http::header::ACCEPT;
    use http::uri::PathAndQuery;
    use sluicegate_http1::FieldPlaces;

    use super::*;

    /// Goal: the bytes of a head count once. Method: a target and a field in the bytes in which they were received, by both versions.
    #[test]
    fn the_bytes_of_a_target_count_once() {
        let read = b"/found?by=target\r\naccept: */*\r\n";
        let line = FieldPlaces {
            name: 18..24,
            value: 26..29,
            is_usual: true,
        };
        let fields = ReceivedFields::in_bytes(BytesMut::from(&read[..]), [line].into_iter());
        let headers = fields.unwrap();
        assert_eq!(headers.get(ACCEPT).unwrap().as_bytes(), b"*/*");
        let target = PathAndQuery::from_maybe_shared(headers.bytes().slice(..16)).unwrap();
        for version in [Version::HTTP_11, Version::HTTP_2] {
            let head = ReceivedHead {
                method: Method::GET,
                uri: target.clone().into(),
                version,
                headers: headers.clone(),
            };
            assert_eq!(head.raw_path(), b"/found?by=target");
            assert_eq!(head.held_bytes(), read.len());
        }
    }
}
