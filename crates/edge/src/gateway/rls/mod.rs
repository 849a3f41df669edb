//! Answers calls of Envoy's rate limit service: each descriptor of a call is decided like a request, and all are charged or none is.
//!
//! # Invariants
//!
//! 1. Only a trusted proxy is answered with a decision.
//! 2. The charges of all descriptors are held until the last one is decided. If one is over its limits, those of the others are refunded.
//! 3. A descriptor that cannot be decided because of what a client sent is over its limit: Envoy forwards the request of a call that fails.

mod answer;
mod messages;
mod question;

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use prost::Message;
use sluicegate_base::received::ReceivedHead;
use sluicegate_decide::client::{PeerTrust, hop};
use sluicegate_decide::response::{GatewayProblem, GrpcStatus};

use self::answer::CallAnswer;
use self::messages::{RateLimitDescriptor, RateLimitRequest};
use super::Gateway;
use super::answer::{FieldForm, OwnAnswer};
use super::body::BodyPrefix;
use super::context::Context;
use super::forward_auth::ForwardAuthAnswer;
use super::record::ClientResponse;
use super::serve::ConnectionFacts;
use super::step::{AnswerStep, DecidedStep, LimitStep, Step, answer_to};
use sluicegate_decide::admission::ChargeTiming;
use sluicegate_origin::request_failure::Result;
use sluicegate_process::snapshot::Snapshot;
use sluicegate_record::IgnoredField;

/// Descriptors of one call. Envoy sends one for each entry of `rate_limits`, mostly fewer than five; each costs a decision. A call with
/// more is over its limit.
const MAX_DESCRIPTORS: usize = 32;

/// The reason why a call gets a failure instead of an answer. All of them are mistakes of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallFault {
    /// The peer may not ask.
    Untrusted,
    /// The message is none of the service.
    Malformed,
    /// It names no domain or no descriptor.
    Empty,
}

impl CallFault {
    /// Returns the status of gRPC.
    #[must_use]
    pub fn status(self) -> GrpcStatus {
        match self {
            Self::Untrusted => GrpcStatus::PERMISSION_DENIED,
            Self::Malformed | Self::Empty => GrpcStatus::INVALID_ARGUMENT,
        }
    }

    /// Returns a sentence that says what to do.
    #[must_use]
    pub fn message(self) -> &'static str {
        match self {
            Self::Untrusted => {
                "only a proxy of [client] trusted_proxies may ask here; write the address of this one there"
            }
            Self::Malformed => {
                "the message is no RateLimitRequest of envoy.service.ratelimit.v3; write transport_api_version: V3"
            }
            Self::Empty => "the call names no domain or no descriptor",
        }
    }
}

/// A descriptor that is decided and not answered.
struct PendingDescriptor {
    head: ReceivedHead,
    context: Box<Context>,
    step: AnswerStep,
}

/// The result for a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DescriptorResult {
    /// Its limits admit it, or it has none.
    Within,
    /// A limit, a list or a route rejects it.
    Over,
}

impl Gateway {
    /// Decides over the descriptors of a call, and charges them, all or none. Returns the message of the answer.
    ///
    /// # Errors
    /// Why the call has none.
    pub async fn answer_call(
        &self,
        message: &[u8],
        facts: &ConnectionFacts,
    ) -> Result<Vec<u8>, CallFault> {
        let snapshot = self.0.snapshot();
        let trust = (facts.peer.as_ref())
            .map(|peer| hop(peer.socket().ip(), &snapshot.compiled.rules.client));
        if trust != Some(PeerTrust::Trusted) {
            return Err(CallFault::Untrusted);
        }
        let call = RateLimitRequest::decode(message).map_err(|_| CallFault::Malformed)?;
        if call.domain.is_empty() || call.descriptors.is_empty() {
            return Err(CallFault::Empty);
        }
        if call.descriptors.len() > MAX_DESCRIPTORS {
            return Ok(answer::over_without_decision(call.descriptors.len()));
        }
        let mut questions = Vec::with_capacity(call.descriptors.len());
        for descriptor in &call.descriptors {
            questions.push(
                self.decide_descriptor(&call, descriptor, &snapshot, facts)
                    .await,
            );
        }
        let is_over = |questions: &[PendingDescriptor]| {
            let mut results = questions.iter().map(PendingDescriptor::result);
            results.any(|result| result == DescriptorResult::Over)
        };
        if !is_over(&questions) {
            let waits = questions.iter_mut().map(|question| self.wait(question));
            futures_util::future::join_all(waits).await;
        }
        let result = match is_over(&questions) {
            true => DescriptorResult::Over,
            false => DescriptorResult::Within,
        };
        let mut answer = CallAnswer::default();
        for question in questions {
            self.end_question(question, result, &mut answer);
        }
        Ok(answer.encode())
    }

    /// Decides over one descriptor, with charges that are held.
    async fn decide_descriptor(
        &self,
        call: &RateLimitRequest,
        descriptor: &RateLimitDescriptor,
        snapshot: &Arc<Snapshot>,
        facts: &ConnectionFacts,
    ) -> PendingDescriptor {
        let hits = match descriptor.hits_addend {
            // Nothing is given back: a caller could free what it never charged. The descriptor only asks.
            _ if descriptor.is_negative_hits => 0,
            Some(own) => u32::try_from(own.value).unwrap_or(u32::MAX),
            // Proto3 does not tell an absent number from 0.
            None => call.hits_addend.max(1),
        };
        let in_flight = self.0.recorder.metrics.in_flight();
        let mut context = Box::new(Context::new(Arc::clone(snapshot), in_flight));
        context.peer.clone_from(&facts.peer);
        context.forward_auth = Some(ForwardAuthAnswer::OWN_STATUS);
        context.charging = ChargeTiming::Held;
        context.hits = hits;
        let head = question::head(&call.domain, descriptor, &snapshot.compiled.rules.client);
        let (head, step) = match head {
            Some(head) => {
                let step = self.decide(&head, &mut context);
                (head, step)
            }
            None => (
                ReceivedHead::default(),
                AnswerStep::Reject(GatewayProblem::UriTooLong).into(),
            ),
        };
        let step = match step {
            Step::ReadBody(pending) => {
                // A descriptor has none.
                let body = BodyPrefix::Whole(Bytes::new());
                self.decide_with_body(*pending, Ok(body), &head, &mut context)
            }
            Step::Limits(step) => step,
        };
        let step = match step {
            // Boxed: only a route with such limits waits for a store.
            LimitStep::AskStore(pending) => {
                Box::pin(self.decide_with_store(*pending, &head, &mut context)).await
            }
            LimitStep::Decided(step) => step,
        };
        let step = match step {
            DecidedStep::Answer(step) => step,
            // The caller forwards.
            DecidedStep::Forward(_) => AnswerStep::Allow,
        };
        self.count_ignored_fields(descriptor, &context);
        PendingDescriptor {
            head,
            context,
            step,
        }
    }

    /// Counts the fields of a descriptor that have no effect, and logs a limit that names no tier.
    fn count_ignored_fields(&self, descriptor: &RateLimitDescriptor, context: &Context) {
        let ignored = &self.0.recorder.metrics.descriptor_fields;
        if descriptor.is_negative_hits {
            ignored.count(IgnoredField::NegativeHits);
        }
        let details = context
            .report()
            .and_then(|report| report.details.as_deref());
        if let Some(limit) = descriptor.limit
            && details.is_none_or(|details| details.named.is_empty())
        {
            ignored.count(IgnoredField::Limit);
            let limit = question::limit_text(limit);
            self.0.recorder.notices.tell(
                context.peer.as_ref().map(|peer| peer.socket().ip()),
                &format_args!(
                    "its descriptor brings the limit {limit}, which no tier has for a name, so the configured rates hold; write tier = \
                     \"header.x-descriptor-limit\" and tiers with \"{limit}\" to the limit"
                ),
            );
        }
    }

    /// Waits as the limits of an admitted descriptor say.
    async fn wait(&self, question: &mut PendingDescriptor) {
        if question.context.hits == 0 || question.context.delay().is_zero() {
            return;
        }
        // A call that Envoy gives up by its timeout waits to the end, at most `max_wait`, and stays charged.
        let waited = self.wait_for_delay(std::future::pending(), &mut question.context);
        match waited.await {
            Ok(None) => {}
            Ok(Some(rejection)) => question.step = rejection,
            Err(_) => question.step = AnswerStep::Reject(GatewayProblem::Internal),
        }
    }

    /// Lets the charges of a descriptor stand or refunds them, by the result of its call; records it, and adds it to the answer.
    fn end_question(
        &self,
        question: PendingDescriptor,
        call: DescriptorResult,
        answer: &mut CallAnswer,
    ) {
        let result = question.result();
        let PendingDescriptor {
            head,
            mut context,
            step,
        } = question;
        if result == DescriptorResult::Within {
            if call == DescriptorResult::Over {
                // The log has this number, so that replay charges nothing either.
                context.hits = 0;
            }
            let decision = context.decision.as_mut();
            let admitted = decision.and_then(|decision| decision.admitted_mut());
            match admitted {
                Some((admitted, _)) if context.hits > 0 => admitted.start(),
                Some((admitted, report)) => {
                    if let Some(report) = report {
                        report.refund(|limit| admitted.charged_units(limit));
                    }
                    context.settle_unanswered();
                }
                None => {}
            }
        }
        answer.add_status(result, &context);
        let is_unlimited = matches!(step, AnswerStep::Reject(GatewayProblem::NoRoute));
        let own = answer_to(step, &head, &mut context, FieldForm::Map);
        if !is_unlimited {
            answer.add_fields(result, call, &own, &context);
        }
        let response = ClientResponse {
            status: Some(own.status),
            body_bytes: 0,
            cache: None,
            origin: None,
        };
        self.record(&head, &response, &context);
    }
}

impl PendingDescriptor {
    fn result(&self) -> DescriptorResult {
        let is_within = match &self.step {
            AnswerStep::Allow | AnswerStep::Reject(GatewayProblem::NoRoute) => true,
            AnswerStep::Respond(fixed) => is_leave(fixed.status),
            AnswerStep::RespondRedirect(rules) => is_leave(rules.status),
            _ => false,
        };
        match is_within {
            true => DescriptorResult::Within,
            false => DescriptorResult::Over,
        }
    }
}

/// Returns whether a route's own answer with this status is leave to forward, as for other proxies that ask.
fn is_leave(status: StatusCode) -> bool {
    status.as_u16() < 400
}
