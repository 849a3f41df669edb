//! Owns the head of a stored response, its freshness, and its place among the variants of its URL.

use std::time::{Duration, SystemTime};

use http::{HeaderMap, StatusCode};
use pingora::cache::key::HashBinary;
use pingora::http::ResponseHeader;

use super::freshness::FreshnessLifetime;
use crate::name_case::ReceivedNames;

/// Memory that a field takes beside its texts.
const FIELD: usize = 96;

/// Memory that the received form of a name takes beside its bytes.
const NAME: usize = 32;

/// The head of a stored response.
#[derive(Clone, Debug)]
pub struct StoredHead {
    /// The end of its freshness.
    fresh_until: SystemTime,
    /// The time at which its URL got the `Vary` by which it is found; variants that are older than the first one of their URL are not used.
    provenance: SystemTime,
    /// The time at which it had age 0.
    born: SystemTime,
    stale_while_revalidate: u32,
    stale_if_error: u32,
    /// The hash of the request fields that its `Vary` names.
    variance: Option<HashBinary>,
    pub(super) header: ResponseHeader,
    /// The names of its fields, where the origin's case is kept.
    names: ReceivedNames,
}

impl StoredHead {
    /// Returns the head of a response that came at `now`.
    #[must_use]
    pub fn new(header: ResponseHeader, lifetime: &FreshnessLifetime, now: SystemTime) -> Self {
        Self {
            fresh_until: lifetime.fresh_until,
            provenance: now,
            born: lifetime.born,
            stale_while_revalidate: lifetime.stale_while_revalidate,
            stale_if_error: lifetime.stale_if_error,
            variance: None,
            header,
            names: ReceivedNames::default(),
        }
    }

    /// Returns its status.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.header.status
    }

    /// Returns its status line and fields.
    #[must_use]
    pub fn header(&self) -> &ResponseHeader {
        &self.header
    }

    /// Returns its fields.
    #[must_use]
    pub fn fields(&self) -> &HeaderMap {
        &self.header.headers
    }

    /// Returns the names of its fields as they were received; none where their case is not kept.
    pub fn names(&self) -> &ReceivedNames {
        &self.names
    }

    /// Sets these names.
    pub fn set_names(&mut self, names: ReceivedNames) {
        self.names = names;
    }

    /// Returns the end of its freshness.
    #[must_use]
    pub fn fresh_until(&self) -> SystemTime {
        self.fresh_until
    }

    /// Returns the time at which it had age 0.
    #[must_use]
    pub fn born(&self) -> SystemTime {
        self.born
    }

    /// Returns whether it may be served at `now` while it is fetched again.
    #[must_use]
    pub fn serves_while_revalidated(&self, now: SystemTime) -> bool {
        self.serves_for(self.stale_while_revalidate, now)
    }

    /// Returns whether it may be served at `now` in place of a failure of the origin.
    #[must_use]
    pub fn serves_on_error(&self, now: SystemTime) -> bool {
        self.serves_for(self.stale_if_error, now)
    }

    fn serves_for(&self, seconds: u32, now: SystemTime) -> bool {
        let grace = Duration::from_secs(seconds.into());
        seconds > 0 && (self.fresh_until.checked_add(grace)).is_none_or(|until| until >= now)
    }

    /// Returns the hash of the request fields that its `Vary` names; `None` where the key suffices.
    #[must_use]
    pub fn variance(&self) -> Option<HashBinary> {
        self.variance
    }

    /// Sets that hash.
    pub fn set_variance(&mut self, variance: Option<HashBinary>) {
        self.variance = variance;
    }

    /// Returns whether it is older than `first`, the first variant of its URL: then it belongs to a `Vary` that the URL had before.
    #[must_use]
    pub fn is_before(&self, first: &Self) -> bool {
        self.provenance < first.provenance
    }

    /// Takes over the variant and its place among the variants of its URL from the stored head that it updates.
    pub fn succeed(&mut self, stored: &Self) {
        self.provenance = stored.provenance;
        self.variance = stored.variance;
    }

    /// Takes over the place among the variants of its URL from the stored head that it replaces.
    pub fn replace(&mut self, stored: &Self) {
        self.provenance = stored.provenance;
    }

    /// Returns the same head with another status line and other fields.
    #[must_use]
    pub fn with_header(&self, header: ResponseHeader) -> Self {
        Self {
            header,
            ..self.clone()
        }
    }

    pub(super) fn weight(&self) -> usize {
        let fields = self.header.headers.iter();
        let fields = fields.map(|(name, value)| name.as_str().len() + value.len() + FIELD);
        let (names, bytes) = self.names.size();
        fields.sum::<usize>() + names * NAME + bytes
    }
}
