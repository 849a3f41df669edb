//! Ends a request that failed: notes the cause, and makes the answer for a client that is still there.

use http::HeaderMap;
use pingora::http::RequestHeader;
use pingora::{Error, Result};

use super::Gateway;
use super::answer::{self, OwnAnswer};
use super::attempts;
use super::cause::Cause;
use super::context::Context;
use super::error::ProxyFault;
use crate::response::GatewayProblem;

impl Gateway {
    /// Notes the failure of a request, and its cause.
    pub(super) fn note_fault(&self, fault: ProxyFault, error: &Error, context: &mut Context) {
        if fault == ProxyFault::Us {
            // Every other failure has its line in the access log alone.
            let id = context.request_id;
            let what = format_args!("request {id}: the gateway failed: {error}");
            self.0.recorder.notices.fail(&what);
        }
        context.disposition = Some(fault.disposition());
        match fault {
            ProxyFault::Origin(_) if context.cause.is_some() => {}
            fault if fault.is_full() && context.cause.is_some() => {}
            ProxyFault::Origin(_) => attempts::note_origin_failed(context, error),
            _ => context.cause = Cause::of_error(error).map(Box::new),
        }
        if fault == ProxyFault::ClientGone {
            crate::budgets::cancelled_streams::note_given_up();
        }
    }
}

/// Settles a request that failed with `problem`, and returns its answer.
pub(super) fn answer_to_fault(
    problem: GatewayProblem,
    request: &RequestHeader,
    context: &mut Context,
) -> Result<OwnAnswer> {
    (context.cause).get_or_insert_with(|| Box::new(Cause::of_problem(problem)));
    context.settle(problem.status(), &HeaderMap::new());
    context.finish_response();
    answer::problem(request, context, problem)
}
