//! Owns the rules of the fields that only proxies may write.

use http::HeaderName;

/// `trusted_headers`: fields that trusted proxies write themselves, or replace, in every request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrustedHeader {
    /// `"x-forwarded-host"`
    Name(HeaderName),
    /// `"cf-*"`: all that begins so.
    Prefix(Box<str>),
}

impl TrustedHeader {
    /// Returns whether the field `name`, in lower case, matches.
    #[must_use]
    pub fn holds(&self, name: &str) -> bool {
        match self {
            Self::Name(meant) => meant == name,
            Self::Prefix(prefix) => name.starts_with(&**prefix),
        }
    }

    /// Returns the beginning of the names that match.
    #[must_use]
    pub fn beginning(&self) -> &str {
        match self {
            Self::Name(name) => name.as_str(),
            Self::Prefix(prefix) => prefix,
        }
    }
}
