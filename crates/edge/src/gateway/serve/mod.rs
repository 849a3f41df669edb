//! Leads a request through the stages, in order: receive and identify ([`received`]), route and admit ([`Gateway::decide_request`]), look
//! up in the cache ([`cached`]), forward with attempts ([`forward`]) or answer here, record ([`Gateway::serve_request`]).
//!
//! Heads of HTTP/1 are parsed by [`sluicegate_http1`] alone; a framing field is never copied, but written by what the parser decided.

mod after_response;
mod attempt_io;
mod body_change;
mod cached;
mod chunk_limits;
mod client;
mod connection_state;
mod exchange;
mod field_sink;
mod forward;
mod head_check;
mod head_writer;
mod http2_fields;
mod leaving;
mod received;
mod relay;
mod request_body;
mod response_body;
mod response_head;
mod response_split;
mod response_start;
mod served;
mod session;
mod stream_request;
mod trailers;
mod tunnel;
mod unreadable;

use std::net::IpAddr;
use std::sync::Arc;

use bytes::BytesMut;
use http::Method;
use pingora::server::ShutdownWatch;
use sluicegate_base::received::ReceivedHead;

use sluicegate_decide::outcome::{CacheUse, RequestDisposition};
use sluicegate_decide::response::GatewayProblem;
use sluicegate_http1::BodyFraming;

use super::answer::{FieldForm, OwnAnswer};
use super::context::Context;
use super::failed_request::answer_to_failure;
use super::forward_auth::{self, ForwardAuthAnswer};
use super::forwarded::ForwardedRequest;
use super::record::ClientResponse;
use super::step::{AnswerStep, DecidedStep, LimitStep, Step, answer_to};
use super::strip;
use super::{Gateway, decide, large_head, proof};
use sluicegate_cache::name_case::ReceivedNames;
use sluicegate_config::rules::ServerRules;
use sluicegate_origin::request_failure::{RequestFailure, Result};
use sluicegate_process::snapshot::Snapshot;

pub(super) use cached::CacheTransaction;
pub use chunk_limits::CHUNK_LIMITS;
pub use client::{ConnectionFacts, RequestClient};
pub use connection_state::ConnectionState;
pub use field_sink::FieldSink;
pub use head_writer::AnswerHead;
pub use unreadable::UnreadableHead;

use exchange::ClientExchange;
use received::ReceivedRequest;
use served::ServedRequest;
use session::ProxySession;

/// A request whose limits were evaluated, or that ends before them.
pub struct DecidedRequest {
    received: Box<ReceivedRequest>,
    /// The names of its fields, for an origin that distinguishes their case.
    names: Option<ReceivedNames>,
    context: Box<Context>,
    step: Step,
}

impl DecidedRequest {
    /// Returns the rules of the server in the request's snapshot.
    #[must_use]
    pub fn server_rules(&self) -> &ServerRules {
        &self.context.snapshot.compiled.rules.server
    }

    /// Returns the length of its body, as far as its head states it.
    #[must_use]
    pub fn body_length(&self) -> Option<u64> {
        self.received.wire.framing.length()
    }

    /// Returns how it is served, of whose body these bytes were received.
    #[must_use]
    pub fn course(self, received: &[u8]) -> ServingCourse {
        let is_received = match self.received.wire.framing {
            BodyFraming::None => true,
            BodyFraming::Length(bytes) => {
                bytes <= received.len() as u64 && !self.received.wire.expects_continue
            }
            BodyFraming::Chunked | BodyFraming::UntilClose => false,
        };
        match self.step {
            Step::Limits(LimitStep::Decided(DecidedStep::Answer(step)))
                if is_received
                    && self.context.delay().is_zero()
                    && !self.context.holds_permits() =>
            {
                ServingCourse::AtOnce(AnsweredRequest {
                    received: self.received,
                    context: self.context,
                    step,
                })
            }
            _ => ServingCourse::Waits(self),
        }
    }
}

/// A request that is answered here, without a wait.
pub struct AnsweredRequest {
    received: Box<ReceivedRequest>,
    context: Box<Context>,
    step: AnswerStep,
}

/// The course of a decided request.
pub enum ServingCourse {
    /// The gateway answers it at once.
    AtOnce(AnsweredRequest),
    /// It may wait: for its body, a store, a delay or an origin.
    Waits(DecidedRequest),
}

impl Gateway {
    /// Finds the route of a request whose head is parsed, and evaluates its limits. Returns `None` where its method, its target or a
    /// name is longer than the http crate has them.
    #[must_use]
    pub fn decide_request(
        &self,
        parsed: &sluicegate_http1::RequestHead,
        read: BytesMut,
        facts: &ConnectionFacts,
    ) -> Option<DecidedRequest> {
        let snapshot = self.0.snapshot();
        let sent = snapshot.keeps_case.then(|| read.to_vec());
        let received = ReceivedRequest::new(parsed, read)?;
        let names = || ReceivedNames::new(parsed.fields(), &sent.unwrap_or_default());
        Some(self.decide_received(received, snapshot, facts, names))
    }

    /// Decides a request of HTTP/2, whose body is empty or follows on its stream, as [`decide_request`](Self::decide_request) does.
    #[must_use]
    pub fn decide_stream(
        &self,
        head: ReceivedHead,
        is_empty: bool,
        facts: &ConnectionFacts,
    ) -> DecidedRequest {
        let received = ReceivedRequest::of_stream(head, is_empty);
        // Over HTTP/2 all names are in lower case.
        self.decide_received(received, self.0.snapshot(), facts, ReceivedNames::default)
    }

    fn decide_received(
        &self,
        mut received: Box<ReceivedRequest>,
        snapshot: Arc<Snapshot>,
        facts: &ConnectionFacts,
        names: impl FnOnce() -> ReceivedNames,
    ) -> DecidedRequest {
        let in_flight = self.0.recorder.metrics.in_flight();
        let mut context = Box::new(Context::new(Arc::clone(&snapshot), in_flight));
        context.peer.clone_from(&facts.peer);
        context.secured = facts.client_secured().cloned();
        context.forward_auth = ForwardAuthAnswer::from_protocol(facts.protocol);
        let peer = context.peer_address();
        // Before fields are removed: a name may be wrong in both ways.
        let checked = check(&mut received, peer, &mut context);
        strip::untrusted_fields(&mut received.head, peer, &snapshot).count(peer, &self.0);
        let (step, keeps_case) = match checked {
            Err(problem) => {
                let step = decide::reject_unread(problem, &mut context);
                (step.into(), false)
            }
            Ok(()) => self.first_step(&received.head, &snapshot, facts, &mut context),
        };
        DecidedRequest {
            received,
            names: keeps_case.then(names),
            context,
            step,
        }
    }

    /// Returns the first step of a received request, and whether its origin distinguishes the case of names.
    fn first_step(
        &self,
        head: &ReceivedHead,
        snapshot: &Snapshot,
        facts: &ConnectionFacts,
        context: &mut Context,
    ) -> (Step, bool) {
        if head.method == Method::CONNECT {
            // The parser has rejected that of HTTP/1.
            return (AnswerStep::EndHere.into(), false);
        }
        if context.forward_auth.is_none()
            && let Some(proof) = proof::wanted(&self.0, head)
        {
            return (AnswerStep::Prove(proof).into(), false);
        }
        let secured = facts.client_secured().map(|secured| &**secured);
        let step = self.decide_by(snapshot, secured, head, context);
        let route = context.route();
        (step, route.is_some_and(|route| route.action.keeps_case()))
    }

    /// Answers a request that waits for nothing, and records it: appends the answer to `into`. A rejection costs no more than this
    /// (contract C7). Returns the state of the connection.
    pub fn answer_at_once<C: RequestClient>(
        &self,
        request: AnsweredRequest,
        client: &mut C,
        shutdown: &ShutdownWatch,
        into: &mut Vec<u8>,
    ) -> ConnectionState {
        let head = &request.received.head;
        let wire = &request.received.wire;
        let exchange =
            ClientExchange::new(client, head, wire, (&self.0, shutdown), &request.context);
        let mut served = ServedRequest::new(self, exchange, request.context);
        let exchange = &mut served.exchange;
        let context = &mut *served.context;
        let answered = exchange.discard_received().and_then(|()| {
            let answer = answer_to(request.step, head, context, FieldForm::Any);
            exchange.append_answer(into, answer, context)
        });
        if let Err(failure) = answered
            && let Some(answer) = self.answer_failed(failure, exchange, context)
            && exchange.append_answer(into, answer, context).is_err()
        {
            context.disposition = Some(RequestDisposition::ClientGone);
        }
        served.end()
    }

    /// Serves a decided request to its end, and records it. Returns the state of the connection.
    pub async fn serve_request<C: RequestClient>(
        &self,
        request: DecidedRequest,
        client: &mut C,
        shutdown: &ShutdownWatch,
    ) -> ConnectionState {
        let head = &request.received.head;
        let wire = &request.received.wire;
        let mut exchange =
            ClientExchange::new(client, head, wire, (&self.0, shutdown), &request.context);
        exchange.names = request.names;
        let mut served = ServedRequest::new(self, exchange, request.context);
        if let Err(failure) = self.serve_step(request.step, &mut served).await {
            let exchange = &mut served.exchange;
            let context = &mut *served.context;
            self.end_failed(failure, exchange, context).await;
        }
        served.end()
    }

    /// Settles what a served request left open, and records it. Returns the state of the connection.
    fn end_request<C: RequestClient>(
        &self,
        exchange: &mut ClientExchange<'_, C>,
        mut forwarded: Option<&mut ForwardedRequest>,
        context: &mut Context,
    ) -> ConnectionState {
        context.settle_at_end(exchange.body_bytes, forwarded.as_deref());
        let mut cached = None;
        if let Some(request) = &mut forwarded {
            request.release_server();
            cached = request.cached.take();
        }
        let cache = cached.as_ref().map(|transaction| transaction.cache_use());
        if cached.is_some_and(|transaction| transaction.has_waited()) {
            self.note_wait();
        }
        if context.disposition.is_none() && cache.is_some_and(CacheUse::is_without_origin) {
            context.disposition = Some(RequestDisposition::Cached);
        }
        // Every failure has set its disposition by now, so a request without one passed.
        (context.disposition).get_or_insert(RequestDisposition::Forwarded);
        let response = ClientResponse {
            status: exchange.status,
            body_bytes: exchange.body_bytes,
            cache,
            origin: forwarded.and_then(|request| request.origin_use()),
        };
        self.record(exchange.head, &response, context);
        exchange.end()
    }

    /// Waits as the limits say, then forwards or answers the request.
    async fn serve_step<C: RequestClient>(
        &self,
        step: Step,
        served: &mut ServedRequest<'_, C>,
    ) -> Result<()> {
        let exchange = &mut served.exchange;
        let context = &mut *served.context;
        let account = || exchange.account(&self.0, context);
        let _held = large_head::reserve(&self.0, exchange.head, account, context)?;
        let step = match step {
            Step::ReadBody(pending) => {
                let most = pending.route.route.max_body_bytes;
                // Boxed: only a route with keys in bodies pays for its size.
                let read = Box::pin(exchange.read_key_body(&self.0, most, context)).await?;
                self.decide_with_body(*pending, read, exchange.head, context)
            }
            Step::Limits(step) => step,
        };
        let mut decided = match step {
            // Boxed: only a route with such limits waits for a store.
            LimitStep::AskStore(pending) => {
                Box::pin(self.decide_with_store(*pending, exchange.head, context)).await
            }
            LimitStep::Decided(decided) => decided,
        };
        if context.holds_permits() {
            exchange.client.withhold_end();
        }
        if !context.delay().is_zero() {
            let left = exchange.client.left();
            if let Some(rejection) = Box::pin(self.wait_for_delay(left, context)).await? {
                decided = rejection.into();
            }
        }
        let route = match decided {
            DecidedStep::Forward(route) => route,
            DecidedStep::Answer(step) => {
                let answer = answer_to(step, exchange.head, context, FieldForm::Any);
                return Box::pin(exchange.answer(answer, context)).await;
            }
        };
        let account = exchange.account(&self.0, context).into_owned();
        let forwarded = ForwardedRequest::new(route, account, context.decided_at);
        let mut session = ProxySession {
            gateway: self,
            exchange,
            forwarded: served.forwarded.insert(forwarded),
            context,
        };
        session.exchange.ask_for_body().await?;
        session.exchange.receive_empty_end().await?;
        if session.forwarded.route.cache.is_some() {
            // Boxed: only a route with a cache pays for its size.
            return Box::pin(session.serve_cached()).await;
        }
        session.forward().await
    }

    /// Notes the failure of a request, and answers it if the client is there and has got no part of an answer.
    async fn end_failed<C: RequestClient>(
        &self,
        failure: Box<RequestFailure>,
        exchange: &mut ClientExchange<'_, C>,
        context: &mut Context,
    ) {
        let Some(answer) = self.answer_failed(failure, exchange, context) else {
            return;
        };
        if Box::pin(exchange.answer(answer, context)).await.is_err() {
            context.disposition = Some(RequestDisposition::ClientGone);
        }
    }

    /// Notes the failure of a request. Returns its answer; `None` where the client is gone or has got a part of another one.
    fn answer_failed<C: RequestClient>(
        &self,
        failure: Box<RequestFailure>,
        exchange: &mut ClientExchange<'_, C>,
        context: &mut Context,
    ) -> Option<OwnAnswer> {
        // The gateway has all of a request whose origin failed, or it closes the connection with the answer.
        if exchange.status.is_some() || !failure.leaves_client_usable() {
            exchange.close();
        }
        self.note_failure(&failure, context);
        let problem = failure.problem().filter(|_| exchange.status.is_none())?;
        Some(answer_to_failure(problem, exchange.head, context))
    }
}

/// Checks a received request. If it is the question of a proxy, it becomes the request in question.
///
/// # Errors
/// The problem to answer with.
fn check(
    received: &mut ReceivedRequest,
    peer: IpAddr,
    context: &mut Context,
) -> Result<(), GatewayProblem> {
    let client = &context.snapshot.compiled.rules.client;
    (received.check(client)).map_err(GatewayProblem::BadRequest)?;
    let Some(asked) = context.forward_auth else {
        return Ok(());
    };
    let restored =
        forward_auth::restore(&mut received.head, peer, &context.snapshot.compiled.rules);
    restored.inspect_err(|problem| context.forward_auth = Some(asked.about(*problem)))
}
