//! What a client may press against before anything is decided about its requests, typed.

use std::time::Duration;

use http::HeaderName;
use sluicegate_limiter::Concurrency;

use super::{ClientRules, ForwardedSource};
use crate::proxy_fields::{OVERRIDES, X_FORWARDED_FOR, dashed, is_proxy_field};

/// The keys of `[server]` that stand before the limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefenceRules {
    /// Connections of clients at the same time, in all; default half of the files that may be open.
    pub max_connections: Option<Concurrency>,
    /// Those of one client; default a quarter of all.
    pub max_connections_per_client: Option<Concurrency>,
    /// Requests on their way to origins at the same time, in all; default three quarters of the files that are left for them.
    pub max_origin_requests: Option<Concurrency>,
    /// Those of one client; default a quarter of all, at most 1024.
    pub max_origin_requests_per_client: Option<Concurrency>,
    /// Bytes of answers that may wait for clients to read them, in all; default a quarter of the memory that the process may use.
    pub max_unread_bytes: Option<u64>,
    /// How long the head of a request may take from its first byte to its last; default 10 s.
    pub client_header_timeout: Duration,
    /// Bytes a second below which a client that sends a body is not waited for; 0 asks for none; default 240.
    pub client_min_rate: u64,
    /// Bytes a second below which a client that reads an answer is not waited for; 0 asks for none; default 240.
    pub client_min_read_rate: u64,
    /// Longest target of a request, in bytes; default 8 KiB.
    pub max_uri_bytes: usize,
    /// What becomes of fields that put another path or method in the place of the request's own; default they are removed.
    pub override_fields: OverrideFields,
    /// What becomes of names with underscores and the like that matter to nobody here; default they are removed.
    pub underscores: Underscores,
}

/// What becomes of fields such as `X-Original-URL` and `X-HTTP-Method-Override` on their way to an origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverrideFields {
    /// They are removed, unless a trusted proxy sends those that it may write.
    Strip,
    /// They are forwarded: the origin ignores them, or they are what it is asked by.
    Pass,
}

/// What becomes of fields whose names have other characters than letters, digits and dashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Underscores {
    /// They are removed, but for those that the configuration names.
    Strip,
    /// They are forwarded, unless CGI takes the name for one that matters.
    Pass,
}

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
        let is_source = self.forwarded.field_name() == *name;
        let is_listed = self
            .trusted_headers
            .iter()
            .any(|listed| listed.holds(&name));
        is_proxy_field(&name) && !passed && !is_source && !is_listed
    }
}

impl TrustedHeader {
    /// Whether the field `name`, in lower case, is meant.
    #[must_use]
    pub fn holds(&self, name: &str) -> bool {
        match self {
            Self::Name(meant) => meant == name,
            Self::Prefix(prefix) => name.starts_with(&**prefix),
        }
    }

    /// What the names that are meant begin with.
    #[must_use]
    pub fn beginning(&self) -> &str {
        match self {
            Self::Name(name) => name.as_str(),
            Self::Prefix(prefix) => prefix,
        }
    }
}
