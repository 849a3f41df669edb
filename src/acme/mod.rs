//! Gets certificates from an ACME server (RFC 8555), keeps them, and renews them ahead.
//!
//! `instant-acme` speaks the protocol; decided here is when something is ordered (`renewal`), how it is proved (`challenge`), where it is
//! kept (`storage`), and what happens when it fails. One service (`service`) does it all, one order after the other, on no request's
//! thread; requests meet only [`ChallengeResponses`], handshakes only the certificates that were installed. Decision 0015 says why it is
//! shaped so.

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

use sluicegate_limiter::Timestamp;

use crate::config::rules::NameSet;
use crate::pki::Validity;

pub use challenge::ChallengeResponses;
pub use service::{CertificateOrders, RenewalService};

/// The state that the service shares with requests and with the admin pages.
#[derive(Debug, Default)]
pub struct AcmeState {
    /// The proofs that are pending.
    pub answers: ChallengeResponses,
    board: Mutex<Vec<RenewalStatus>>,
    tallies: [AtomicU64; OrderOutcome::ALL.len()],
}

/// The status of one certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenewalStatus {
    /// The names that it covers.
    pub names: NameSet,
    /// The one that is served; `None` before the first.
    pub validity: Option<Validity>,
    /// When the next is ordered, by the wall clock.
    pub next_order: Timestamp,
    /// Orders that failed in a row.
    pub failures: u32,
    /// Why the latest failed.
    pub error: Option<String>,
}

/// The result of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderOutcome {
    /// A certificate.
    Issued,
    /// The server said no.
    Refused,
    /// The server said that it was too much.
    RateLimited,
    /// No answer, or none that could be used.
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
    pub fn standings(&self) -> Vec<RenewalStatus> {
        self.lock().clone()
    }

    /// Orders so far that ended so.
    #[must_use]
    pub fn orders(&self, outcome: OrderOutcome) -> u64 {
        // Relaxed: a number to show, publishes nothing.
        self.tallies[outcome as usize].load(Ordering::Relaxed)
    }

    fn count(&self, outcome: OrderOutcome) {
        // Relaxed: as above.
        self.tallies[outcome as usize].fetch_add(1, Ordering::Relaxed);
    }

    fn publish(&self, standings: Vec<RenewalStatus>) {
        *self.lock() = standings;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<RenewalStatus>> {
        // The board is replaced whole.
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
