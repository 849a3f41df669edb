//! Names the protocols whose connections have streams.

/// The protocol of a connection with streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamProtocol {
    /// RFC 9113.
    Http2,
    /// RFC 9114.
    Http3,
}

impl StreamProtocol {
    /// Returns its name in the process log.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Http2 => "HTTP/2",
            Self::Http3 => "HTTP/3",
        }
    }
}
