//! Gets certificates from an ACME server (RFC 8555), stores them, and renews them ahead of time.
//!
//! `instant-acme` implements the protocol; the modules here decide when to order (`renewal`), how to prove a name (`challenge`),
//! where to store (`storage`), and what follows a failure. One service (`service`) does it all, one order after the other, on no
//! request's thread; requests read only [`ChallengeResponses`], handshakes only installed certificates. Decision 0015 has the
//! reasons.
#![forbid(unsafe_code)]
// A test that unwraps fails where it should.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

mod account;
mod challenge;
mod https;
mod issued;
mod order;
mod order_error;
mod renewal;
mod service;
mod storage;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use sluicegate_base::pki::Validity;
use sluicegate_limiter::Timestamp;

use sluicegate_config::rules::NameSet;

pub use challenge::ChallengeResponses;
pub use service::{CertificateOrders, RenewalService};

/// The state that the service shares with requests and with the admin pages.
#[derive(Debug, Default)]
pub struct AcmeState {
    /// The pending proofs.
    pub answers: ChallengeResponses,
    board: Mutex<Vec<RenewalStatus>>,
    tallies: [AtomicU64; OrderOutcome::ALL.len()],
}

/// The status of one certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenewalStatus {
    /// The names that it covers.
    pub names: NameSet,
    /// The validity of the certificate in use; `None` before the first.
    pub validity: Option<Validity>,
    /// The time of the next order, by the wall clock.
    pub next_order: Timestamp,
    /// Failed orders in a row.
    pub failures: u32,
    /// The error of the latest order.
    pub error: Option<String>,
}

/// The result of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderOutcome {
    /// A certificate.
    Issued,
    /// The server rejected the order.
    Refused,
    /// The server rejected it by a rate limit.
    RateLimited,
    /// There was no usable answer.
    Failed,
}

impl OrderOutcome {
    /// Every outcome.
    pub const ALL: [Self; 4] = [Self::Issued, Self::Refused, Self::RateLimited, Self::Failed];

    /// Returns the value of the metric's label.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Issued => "issued",
            Self::Refused => "refused",
            Self::RateLimited => "rate_limited",
            Self::Failed => "failed",
        }
    }
}

impl AcmeState {
    /// Returns the status of every certificate, by name.
    #[must_use]
    pub fn statuses(&self) -> Vec<RenewalStatus> {
        self.lock().clone()
    }

    /// Returns the number of orders with this outcome.
    #[must_use]
    pub fn orders(&self, outcome: OrderOutcome) -> u64 {
        // Relaxed: the number is only shown, and publishes nothing.
        self.tallies[outcome as usize].load(Ordering::Relaxed)
    }

    fn count(&self, outcome: OrderOutcome) {
        // Relaxed, like the load: the number is only shown.
        self.tallies[outcome as usize].fetch_add(1, Ordering::Relaxed);
    }

    fn publish(&self, statuses: Vec<RenewalStatus>) {
        *self.lock() = statuses;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<RenewalStatus>> {
        // The board is replaced as a whole.
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
