//! Owns the rules of the fields that only proxies may write.

use http::HeaderName;
use sluicegate_base::proxy_fields::{OVERRIDES, X_FORWARDED_FOR, dashed, is_proxy_field};

use super::{ClientRules, ForwardedSource, OverrideFields};

/// `trusted_headers`: fields that trusted proxies write themselves, or replace, in every request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrustedHeader {
    /// `"x-forwarded-host"`
    Name(HeaderName),
    /// `"cf-*"`: all that begins so.
    Prefix(Box<str>),
}

impl ForwardedSource {
    /// Returns the field that the address of the client is read from.
    #[must_use]
    pub fn field_name(&self) -> HeaderName {
        match self {
            Self::XForwardedFor => X_FORWARDED_FOR,
            Self::Forwarded => http::header::FORWARDED,
            Self::SingleValue(name) => name.clone(),
        }
    }
}

impl ClientRules {
    /// Returns whether the field `name` is removed from every request: a proxy field that no peer may write. No key or match sees it.
    #[must_use]
    pub fn never_receives(&self, name: &HeaderName, overrides: OverrideFields) -> bool {
        let name = dashed(name.as_str());
        let passed = overrides == OverrideFields::Pass && OVERRIDES.contains(&&*name);
        let is_source = self.client_ip_header.field_name() == *name;
        let is_listed = self
            .trusted_headers
            .iter()
            .any(|listed| listed.holds(&name));
        is_proxy_field(&name) && !passed && !is_source && !is_listed
    }
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
