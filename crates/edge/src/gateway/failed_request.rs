//! Ends a request that failed: notes the cause, and makes the answer for a client that is still there.

use http::HeaderMap;
use sluicegate_base::received::ReceivedHead;
use sluicegate_decide::response::GatewayProblem;

use super::Gateway;
use super::answer::{self, OwnAnswer};
use super::cause::Cause;
use super::context::Context;
use sluicegate_decide::admission::ResponseSource;
use sluicegate_origin::request_failure::{GatewayFailure, RequestFailure};

impl Gateway {
    /// Notes the failure of a request, and its cause.
    pub(super) fn note_failure(&self, failure: &RequestFailure, context: &mut Context) {
        if let RequestFailure::Gateway(GatewayFailure::Internal(cause)) = failure {
            // Every other failure has its line in the access log alone.
            let id = context.request_id;
            let what = format_args!("request {id}: the gateway failed: {cause}");
            self.0.recorder.notices.fail(&what);
        }
        context.disposition = Some(failure.disposition());
        context.cause = match failure {
            RequestFailure::Client(_) => Some(Cause::new(None, failure)),
            RequestFailure::Gateway(failure) => Some(Cause::new(failure.kind(), failure)),
            // Its attempts noted it.
            RequestFailure::Origin(_) => context.cause.take(),
        };
    }
}

/// Settles a request that failed with `problem`, and returns its answer.
pub(super) fn answer_to_failure(
    problem: GatewayProblem,
    request: &ReceivedHead,
    context: &mut Context,
) -> OwnAnswer {
    let by = ResponseSource::Failure;
    context.settle_as(by, problem.status(), &HeaderMap::new());
    answer::problem(request, context, problem)
}
