//! Holds the decision about a request: whether admission let it pass, and what its limits report.

use std::time::Duration;

use sluicegate_decide::rejection::Rejection;

use sluicegate_decide::admission::{AdmissionReport, Admitted};

/// The decision about a request whose route was found.
pub(super) struct RequestDecision {
    /// The result for the request.
    pub(super) result: DecisionResult,
    /// The decisions of the limits; `None` where no limit decided.
    pub(super) report: Option<AdmissionReport>,
    /// Duration of the decision.
    pub(super) duration: Duration,
    /// The delay that the limits impose.
    pub(super) delay: Duration,
}

/// The result of a decision.
pub(super) enum DecisionResult {
    /// The request is admitted; the evidence settles the open charges when it is dropped.
    Admitted(Admitted),
    /// The request is rejected by admission.
    Rejected(Rejection),
    /// The request was admitted, and its charges were refunded, since the queue in which it had to wait was full.
    Withdrawn,
}

impl RequestDecision {
    /// Drops the evidence of admission. Nothing is charged then, so there is no decision to report.
    pub(super) fn withdraw(&mut self) {
        self.result = DecisionResult::Withdrawn;
        self.report = None;
        self.delay = Duration::ZERO;
    }

    /// Returns the evidence of admission; `None` for a request that was not admitted.
    pub(super) fn admitted(&self) -> Option<&Admitted> {
        match &self.result {
            DecisionResult::Admitted(admitted) => Some(admitted),
            DecisionResult::Rejected(_) | DecisionResult::Withdrawn => None,
        }
    }

    /// Returns the evidence of admission with the report of the limits; `None` for a request that was not admitted.
    pub(super) fn admitted_mut(&mut self) -> Option<(&mut Admitted, Option<&mut AdmissionReport>)> {
        match &mut self.result {
            DecisionResult::Admitted(admitted) => Some((admitted, self.report.as_mut())),
            DecisionResult::Rejected(_) | DecisionResult::Withdrawn => None,
        }
    }
}
