//! Makes the answer to a refused request: 429 with the moment to come back, the standing of every rate and a problem body.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, StatusCode};
use sluicegate_limiter::{Outcome, Verdict};

use super::fields::{PolicyItems, rate_limit, whole_seconds};

/// RFC 6585 §4.
pub const TOO_MANY_REQUESTS: StatusCode = StatusCode::TOO_MANY_REQUESTS;

/// What a refusal says; the caller writes it as HTTP.
#[derive(Debug)]
pub struct Refusal {
    /// `Retry-After` in whole seconds, rounded up, at least 1 (RFC 9110 §10.2.3).
    pub retry_after: u64,
    /// `RateLimit`.
    pub rate_limit: HeaderValue,
    /// The problem body.
    pub body: Bytes,
}

impl Refusal {
    /// The refusal that `verdict` over `limits` calls for.
    #[must_use]
    pub fn new<'a>(
        limits: impl IntoIterator<Item = &'a PolicyItems> + Clone,
        verdict: &Verdict,
    ) -> Self {
        let rate_limit = rate_limit(limits.clone(), verdict);
        let body = match verdict.outcome() {
            Outcome::Refused { ask, rate } => limits
                .into_iter()
                .nth(ask)
                .map(|limit| limit.refusal_body(rate))
                .unwrap_or_default(),
            Outcome::Admitted => Bytes::new(),
        };
        Self {
            retry_after: whole_seconds(verdict.retry_after().unwrap_or(Duration::ZERO)).max(1),
            rate_limit,
            body,
        }
    }
}
