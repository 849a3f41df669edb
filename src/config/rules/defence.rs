//! What a client may press against before anything is decided about its requests, typed.

use std::time::Duration;

use sluicegate_limiter::Concurrency;

/// The keys of `[server]` that stand before the limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefenceRules {
    /// Connections of clients at the same time, in all; default half of the files that may be open.
    pub max_connections: Option<Concurrency>,
    /// Those of one client; default a quarter of all.
    pub max_connections_per_client: Option<Concurrency>,
    /// How long the head of a request may take from its first byte to its last; default 10 s.
    pub client_header_timeout: Duration,
    /// Bytes a second below which a client that sends a body is not waited for; 0 asks for none; default 240.
    pub client_min_rate: u64,
    /// Longest target of a request, in bytes; default 8 KiB.
    pub max_uri_bytes: usize,
    /// What becomes of fields that put another path or method in the place of the request's own; default they are removed.
    pub override_fields: OverrideFields,
}

/// What becomes of fields such as `X-Original-URL` and `X-HTTP-Method-Override` on their way to an origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverrideFields {
    /// They are removed, unless a trusted proxy sends them.
    Strip,
    /// They are forwarded: the origin ignores them, or they are what it is asked by.
    Pass,
}
