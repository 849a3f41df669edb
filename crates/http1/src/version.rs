//! Names the two versions of HTTP/1, RFC 9112 §2.3.

/// A version of HTTP/1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum HttpVersion {
    /// HTTP/1.0, which has no chunks and keeps a connection only where both sides say so.
    Http10,
    /// HTTP/1.1.
    #[default]
    Http11,
}

impl HttpVersion {
    /// Returns the version that these bytes name. RFC 9112 §2.3: the name is case-sensitive.
    pub(crate) fn named(text: &[u8]) -> Option<Self> {
        match text {
            b"HTTP/1.1" => Some(Self::Http11),
            b"HTTP/1.0" => Some(Self::Http10),
            _ => None,
        }
    }

    /// Returns its name in a start line.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Http11 => "HTTP/1.1",
            Self::Http10 => "HTTP/1.0",
        }
    }
}
