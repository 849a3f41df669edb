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

    /// Returns the number of its bytes in memory.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        let fields = self.headers.bytes().len();
        match self.version {
            // The target is not among the bytes of the fields.
            Version::HTTP_2 => fields + self.raw_path().len(),
            _ => fields,
        }
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
