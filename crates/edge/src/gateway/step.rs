//! Names the steps of a request until it is decided, and those that follow; executes the ones that answer it here.

use std::sync::Arc;

use http::{HeaderValue, StatusCode};
use sluicegate_base::received::ReceivedHead;
use sluicegate_decide::outcome::RequestDisposition;
use sluicegate_decide::response::GatewayProblem;

use super::answer::{self, FieldForm, OwnAnswer};
use super::cause::Cause;
use super::context::Context;
use super::forwarded::{OriginRoute, OriginTarget};
use sluicegate_config::rules::{FixedResponse, RedirectRules};
use sluicegate_decide::client::AddressSource;
use sluicegate_decide::compiled_rules::CompiledRoute;
use sluicegate_decide::locate::{LocatedRequest, NormalForms, RequestRoute};
use sluicegate_decide::rejection::LimitRejection;

/// The first step of a request.
pub(super) enum Step {
    /// Read the beginning of the body, and decide by it.
    ReadBody(Box<PendingDecision>),
    Limits(LimitStep),
}

/// The step of a request of which all is known that its limits need.
pub(super) enum LimitStep {
    /// Ask the store, and decide by its answer.
    AskStore(Box<PendingDecision>),
    Decided(DecidedStep),
}

/// A located request that waits before it is decided. It owns what was found, so nothing is searched for again.
pub(super) struct PendingDecision {
    /// The client and the route.
    pub(super) route: RequestRoute,
    /// Host and path.
    pub(super) forms: NormalForms<'static>,
    /// The choices of the route.
    pub(super) target: OriginTarget,
}

impl PendingDecision {
    /// Returns the request that waits.
    pub(super) fn new(located: &LocatedRequest<'_>, target: OriginTarget) -> Box<Self> {
        Box::new(Self {
            route: located.request_route(),
            forms: located.normal_forms(),
            target,
        })
    }
}

/// The step that follows a decision.
pub(super) enum DecidedStep {
    /// Forward the request to this origin.
    Forward(OriginRoute),
    Answer(AnswerStep),
}

/// A step that ends a request with an answer of the gateway's own.
pub(super) enum AnswerStep {
    /// Answer here, since `Max-Forwards` forbids to forward the request (RFC 9110 §7.6.2), or it is a CONNECT.
    EndHere,
    /// Tell a proxy that it may forward the request.
    Allow,
    /// Answer with the route's fixed response.
    Respond(Arc<FixedResponse>),
    /// Answer with the route's redirect.
    RespondRedirect(Arc<RedirectRules>),
    /// Redirect to another scheme, before there is a route.
    Redirect(HeaderValue),
    Preflight,
    /// Answer that a limit rejects the request.
    Refuse(RefusedRequest),
    Incomplete,
    Reject(GatewayProblem),
    /// Answer the challenge of an ACME server with this proof.
    Prove(Arc<str>),
}

/// A request that a limit of its route rejects.
pub(super) struct RefusedRequest {
    /// The route.
    pub(super) route: Arc<CompiledRoute>,
    /// The rejection.
    pub(super) by: LimitRejection,
}

impl From<AnswerStep> for Step {
    fn from(step: AnswerStep) -> Self {
        Self::Limits(step.into())
    }
}

impl From<AnswerStep> for LimitStep {
    fn from(step: AnswerStep) -> Self {
        Self::Decided(step.into())
    }
}

impl From<AnswerStep> for DecidedStep {
    fn from(step: AnswerStep) -> Self {
        Self::Answer(step)
    }
}

/// Settles a request that ends with `step`, and returns its answer, with fields of this form.
pub(super) fn answer_to(
    step: AnswerStep,
    request: &ReceivedHead,
    context: &mut Context,
    form: FieldForm,
) -> OwnAnswer {
    match step {
        AnswerStep::Prove(proof) => {
            context.client = Some((context.peer_address(), AddressSource::Connection));
            context.disposition = Some(RequestDisposition::Responded);
            answer::proof(request, context, &proof)
        }
        AnswerStep::Allow => {
            context.end_admitted(StatusCode::NO_CONTENT);
            answer::allowed(request, context)
        }
        AnswerStep::Respond(fixed) => {
            context.end_admitted(fixed.status);
            answer::fixed(request, context, &fixed)
        }
        AnswerStep::RespondRedirect(rules) => {
            context.end_admitted(rules.status);
            answer::redirect(request, context, &rules)
        }
        AnswerStep::EndHere => {
            context.disposition = Some(RequestDisposition::Responded);
            answer::end_here(request, context)
        }
        AnswerStep::Redirect(location) => {
            context.disposition = Some(RequestDisposition::Responded);
            answer::permanent_redirect(request, context, location)
        }
        AnswerStep::Preflight => {
            context.disposition = Some(RequestDisposition::Responded);
            answer::preflight(request, context)
        }
        // Admission has set the disposition of what it rejects.
        AnswerStep::Refuse(refused) => answer::refusal(&refused, request, context, form),
        AnswerStep::Incomplete => answer::missing_key(request, context),
        AnswerStep::Reject(problem) => {
            (context.disposition).get_or_insert_with(|| disposition_of(problem));
            context.cause = Some(Cause::of_problem(problem));
            answer::problem(request, context, problem)
        }
    }
}

/// Returns the disposition of a request that a stage other than admission rejects.
fn disposition_of(problem: GatewayProblem) -> RequestDisposition {
    match problem {
        GatewayProblem::NoRoute => RequestDisposition::NoRoute,
        GatewayProblem::Blocked => RequestDisposition::Blocked,
        _ => RequestDisposition::Rejected,
    }
}
