//! Reads the decision of each limit of a route out of the answer of admission.

use arrayvec::ArrayVec;
use sluicegate_decide::rejection::{LimitRejection, MissingKeys, Rejection, RejectionReason};

use super::limit_counts::LimitDecision;
use sluicegate_decide::admission::{
    AdmissionReport, LimitEvent, LimitNote, MAX_LIMIT_KEYS, RouteLimits,
};

/// The decisions of all limits of a route over one request, by their index on the route.
pub(super) type RouteDecisions = ArrayVec<LimitDecision, MAX_LIMIT_KEYS>;

/// Returns the decisions of `limits` before any is known.
pub(super) fn undecided(limits: &RouteLimits) -> RouteDecisions {
    let undecided = limits.iter().map(|_| LimitDecision::NotEvaluated);
    undecided.take(MAX_LIMIT_KEYS).collect()
}

/// Enters the decisions of a report. A limit with a condition is exempt from what it decides while it is not active.
pub(super) fn read_report(
    report: &AdmissionReport,
    limits: &RouteLimits,
    decisions: &mut RouteDecisions,
) {
    let mut enter = |limit: usize, decision| {
        if let Some(place) = decisions.get_mut(limit) {
            *place = decision;
        }
    };
    let details = report.details.as_deref();
    for (ask, decision) in report.verdict.decisions().iter().enumerate() {
        let limit = details.map_or(Some(ask), |details| details.limit_of(ask));
        if let Some(limit) = limit {
            enter(
                limit,
                match decision.is_refused() {
                    true => LimitDecision::Rejects,
                    false => LimitDecision::Admits,
                },
            );
        }
    }
    let notes = details.map_or(&[][..], |details| &details.notes);
    let is_idle = |limit: u8| {
        let active = limits.get(usize::from(limit));
        let is_conditional = active.is_some_and(|active| active.activation.is_some());
        let of_limit = |note: &LimitNote| note.limit == limit && note.event == LimitEvent::Active;
        is_conditional && !notes.iter().any(of_limit)
    };
    for note in notes {
        let decision = match note.event {
            LimitEvent::ShadowAdmitted | LimitEvent::ShadowRefused if is_idle(note.limit) => {
                LimitDecision::Exempt
            }
            LimitEvent::Marked | LimitEvent::ShadowRefused => LimitDecision::Rejects,
            LimitEvent::ShadowAdmitted => LimitDecision::Admits,
            LimitEvent::Unlimited => LimitDecision::Exempt,
            LimitEvent::Blocked => LimitDecision::Blocks,
            _ => continue,
        };
        enter(usize::from(note.limit), decision);
    }
}

/// Enters the limit that rejects, where the report does not have it. Returns its index on the route.
pub(super) fn read_rejection(
    rejection: &Rejection,
    missing: &MissingKeys,
    decisions: &mut RouteDecisions,
) -> Option<usize> {
    let (limit, decision) = match rejection {
        Rejection::ByLimit(LimitRejection { limit, reason, .. }) => {
            let decision = match reason {
                RejectionReason::RateLimited(_)
                | RejectionReason::BanStarted(_)
                | RejectionReason::Challenged(_) => LimitDecision::Rejects,
                RejectionReason::Banned(_) => LimitDecision::Bans,
                RejectionReason::Concurrency(_) => LimitDecision::RejectsConcurrency,
                RejectionReason::StoreUnavailable => LimitDecision::NotEvaluated,
            };
            (usize::from(*limit), decision)
        }
        Rejection::KeyBlocked => {
            let mut blocking = decisions.iter();
            return blocking.position(|decision| *decision == LimitDecision::Blocks);
        }
        Rejection::KeyMissing => (missing.refusing()?.limit, LimitDecision::Blocks),
    };
    if let Some(place) = decisions.get_mut(limit) {
        *place = decision;
    }
    Some(limit)
}
