//! Defines the failures for which the gateway is to blame: a budget is full, or a step failed.

use std::error::Error;
use std::fmt;

use sluicegate_decide::own_failure::OwnFailure;
use sluicegate_decide::response::GatewayProblem;

use sluicegate_budgets::{BudgetCap, RequestCap};

/// A failure of the gateway.
#[derive(Debug)]
pub enum GatewayFailure {
    /// A cap on requests in flight to origins, of this value, is reached.
    Requests(RequestCap, u64),
    /// A cap on the unread bytes of answers, of this value, is reached.
    UnreadAnswers(BudgetCap, u64),
    /// A cap on the bytes of bodies that are read for keys, of this value, is reached.
    KeyBodies(BudgetCap, u64),
    /// A cap on the bytes of large heads, of this value, is reached.
    LargeHeads(BudgetCap, u64),
    /// The process ended before the request: a drain has lasted `shutdown_timeout`, or nothing waits for a drain.
    CutOff,
    /// A step failed for this cause.
    Internal(Box<dyn Error + Send + Sync>),
}

impl GatewayFailure {
    /// Returns the problem to answer with.
    pub(super) fn problem(&self) -> GatewayProblem {
        match self {
            Self::Requests(..) => GatewayProblem::Own(OwnFailure::OriginRequestsFull),
            Self::UnreadAnswers(..) => GatewayProblem::Own(OwnFailure::UnreadFull),
            Self::KeyBodies(..) => GatewayProblem::Own(OwnFailure::KeyBodiesFull),
            Self::LargeHeads(..) => GatewayProblem::Own(OwnFailure::LargeHeadsFull),
            Self::CutOff | Self::Internal(_) => GatewayProblem::Internal,
        }
    }

    /// Returns the kind in the log: the full budget.
    #[must_use]
    pub fn kind(&self) -> Option<&'static str> {
        self.problem().failure()
    }
}

impl fmt::Display for GatewayFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Requests(cap, most) => write!(f, "{} = {most}", cap.key()),
            Self::UnreadAnswers(cap, most) => {
                let whose = cap.clients();
                write!(
                    f,
                    "answers wait for {whose} to read them; max_unread_bytes = {most}"
                )
            }
            Self::KeyBodies(cap, most) => {
                let whose = cap.clients();
                write!(
                    f,
                    "bodies of {whose} are read for keys; max_key_bodies_bytes = {most}"
                )
            }
            Self::LargeHeads(cap, most) => {
                let whose = cap.clients();
                write!(
                    f,
                    "requests of {whose} with large heads wait; max_received_bytes = {most}"
                )
            }
            Self::CutOff => f.write_str("the process ended before the request did"),
            Self::Internal(cause) => cause.fmt(f),
        }
    }
}
