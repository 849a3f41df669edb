//! Names the scheme by which a request reached the gateway.

/// The scheme by which a request reached the gateway, RFC 9110 §4.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UrlScheme {
    /// In clear text.
    Http,
    /// Under TLS.
    Https,
}

impl UrlScheme {
    /// Returns its spelling in a URL.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }
}
