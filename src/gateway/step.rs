//! Names the steps that can follow a decision, and executes those that end a request.

use std::sync::Arc;

use http::{HeaderValue, StatusCode};
use sluicegate_base::received::ReceivedHead;

use super::answer::{self, FieldForm, OwnAnswer};
use super::cause::Cause;
use super::context::Context;
use super::decision::{OriginRoute, OriginTarget};
use crate::client::AddressSource;
use crate::config::rules::{FixedResponse, RedirectRules};
use crate::failure::{RequestFailure, Result};
use crate::record::RequestDisposition;
use crate::response::GatewayProblem;

/// The next step of a request after the decision.
pub(super) enum Step {
    /// Read the beginning of a body of at most so many bytes.
    ReadBody {
        max_body_bytes: u64,
    },
    /// Ask the store, then go on with these choices of the route.
    AskStore(OriginTarget),
    /// Forward the request to this origin.
    Forward(OriginRoute),
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
    Refuse,
    Incomplete,
    Reject(GatewayProblem),
    /// Answer the challenge of an ACME server with this proof.
    Prove(Arc<str>),
}

/// Settles a request that ends with `step`, and returns its answer, with fields of this form.
pub(super) fn answer_to(
    step: Step,
    request: &ReceivedHead,
    context: &mut Context,
    form: FieldForm,
) -> Result<OwnAnswer> {
    Ok(match step {
        Step::Prove(proof) => {
            context.client = Some((context.peer_address(), AddressSource::Connection));
            context.disposition = Some(RequestDisposition::Responded);
            answer::proof(request, context, &proof)
        }
        // The callers execute these steps.
        Step::ReadBody { .. } | Step::AskStore(_) | Step::Forward(_) => {
            return Err(RequestFailure::internal(
                "the step does not end the request",
            ));
        }
        Step::Allow => {
            context.end_admitted(StatusCode::NO_CONTENT);
            answer::allowed(request, context)
        }
        Step::Respond(fixed) => {
            context.end_admitted(fixed.status);
            answer::fixed(request, context, &fixed)
        }
        Step::RespondRedirect(rules) => {
            context.end_admitted(rules.status);
            answer::redirect(request, context, &rules)
        }
        Step::EndHere => {
            context.disposition = Some(RequestDisposition::Responded);
            answer::end_here(request, context)
        }
        Step::Redirect(location) => {
            context.disposition = Some(RequestDisposition::Responded);
            answer::permanent_redirect(request, context, location)
        }
        Step::Preflight => {
            context.disposition = Some(RequestDisposition::Responded);
            answer::preflight(request, context)
        }
        // Admission has set the disposition of what it rejects.
        Step::Refuse => answer::refusal(request, context, form)?,
        Step::Incomplete => answer::missing_key(request, context),
        Step::Reject(problem) => {
            (context.disposition).get_or_insert_with(|| disposition_of(problem));
            context.cause = Some(Cause::of_problem(problem));
            answer::problem(request, context, problem)
        }
    })
}

/// Returns the disposition of a request that a stage other than admission rejects.
fn disposition_of(problem: GatewayProblem) -> RequestDisposition {
    match problem {
        GatewayProblem::NoRoute => RequestDisposition::NoRoute,
        GatewayProblem::Blocked => RequestDisposition::Blocked,
        _ => RequestDisposition::Rejected,
    }
}
