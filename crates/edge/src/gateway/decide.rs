//! Takes a request through stages 2 to 4: client, route, admission, and the waits between them.

use std::sync::Arc;
use std::time::Duration;

use sluicegate_base::address::{PrefixBits, prefix};
use sluicegate_base::clock;
use sluicegate_base::received::ReceivedHead;
use sluicegate_decide::outcome::RequestDisposition;
use sluicegate_decide::own_failure::OwnFailure;
use sluicegate_decide::response::GatewayProblem;

use super::Gateway;
use super::body::BodyPrefix;
use super::context::Context;
use super::decision::{DecisionResult, RequestDecision};
use super::forwarded::{OriginRoute, OriginTarget};
use super::max_forwards;
use super::redirect;
use super::step::{AnswerStep, DecidedStep, LimitStep, PendingDecision, RefusedRequest, Step};
use super::wait::{self, WaitEnd};
use sluicegate_decide::admission::{Admission, KnownBody, LimitProgress, RouteLimits, evaluate};
use sluicegate_decide::client::{AddressSource, TlsFacts, given_request_id};
use sluicegate_decide::locate::{
    EarlyEnd, LocatedRequest, NormalForms, RequestRoute, RequestServer, RequestView, locate,
};
use sluicegate_decide::rejection::Rejection;
use sluicegate_decide::request_head::RequestHead;
use sluicegate_decide::store::StoreFailure;
use sluicegate_origin::AdmittedPool;
use sluicegate_origin::request_failure::{ClientFailure, Result};
use sluicegate_process::snapshot::{ActiveAction, ActiveRoute, Snapshot};
use sluicegate_process::warn_of_overflow;
use sluicegate_record::TraceContext;

impl Gateway {
    /// Runs stages 2 to 4: finds the client and the route, and evaluates the limits.
    pub(super) fn decide(&self, head: &ReceivedHead, context: &mut Context) -> Step {
        let snapshot = Arc::clone(&context.snapshot);
        let secured = context.secured.clone();
        self.decide_by(&snapshot, secured.as_deref(), head, context)
    }

    /// Runs stages 2 to 4, as [`decide`](Self::decide) does, by the snapshot of the request and the facts of its handshake.
    pub(super) fn decide_by(
        &self,
        snapshot: &Snapshot,
        secured: Option<&TlsFacts>,
        head: &ReceivedHead,
        context: &mut Context,
    ) -> Step {
        let peer = context.peer_address();
        context.listener = Some(self.1);
        if let Some(given) = given_request_id(peer, &head.headers, &snapshot.compiled.rules.client)
        {
            context.request_id = given;
        }
        context.client = Some((peer, AddressSource::Connection));
        if let Some(redirect) = redirect::https_location(self.1, head, peer, snapshot) {
            return redirect
                .map_or_else(AnswerStep::Reject, AnswerStep::Redirect)
                .into();
        }
        if context.trace.is_none() {
            let rules = &snapshot.compiled.rules;
            let id = context.request_id;
            context.trace = TraceContext::begin(rules, peer, &head.headers, id);
        }
        let connection_peer = context.connection_peer(secured);
        // Passed on by reference: a large value, which each move would copy.
        match &mut locate(
            &snapshot.compiled,
            connection_peer,
            &RequestHead::from(head),
            context.decided_at,
        ) {
            Ok(located) => {
                let Some(route) = snapshot.routes.get(located.index) else {
                    return AnswerStep::Reject(GatewayProblem::Internal).into();
                };
                match self.enter_route(located, route, context) {
                    Ok(target) => self.first_limit_step(located, route, target, head, context),
                    Err(step) => step.into(),
                }
            }
            Err(problem) => AnswerStep::Reject(*problem).into(),
        }
    }

    /// Notes client and route of a request. Returns the choices of the route for its origin.
    ///
    /// # Errors
    /// The step that ends the request before its limits.
    fn enter_route(
        &self,
        located: &mut LocatedRequest<'_>,
        route: &ActiveRoute,
        context: &mut Context,
    ) -> Result<OriginTarget, AnswerStep> {
        located.hits = context.judged_hits();
        let client = located.client();
        context.client = Some((client.address, client.source));
        context.known = located.known_client();
        context.located = Some(located.request_route());
        if let Some(source) = located.list_match.source() {
            source.count_hit();
        }
        let server = match context.forward_auth {
            Some(_) => RequestServer::OtherProxy,
            None => RequestServer::Gateway,
        };
        match located.early_end(server) {
            Some(EarlyEnd::Blocked) => return Err(AnswerStep::Reject(GatewayProblem::Blocked)),
            Some(EarlyEnd::Preflight) => return Err(AnswerStep::Preflight),
            Some(EarlyEnd::NoCertificate) => {
                return Err(AnswerStep::Reject(GatewayProblem::NoClientCertificate));
            }
            None => {}
        }
        let mut target = OriginTarget {
            path: (located.target(context.request_id)).map_err(AnswerStep::Reject)?,
            spread: None,
        };
        if let ActiveAction::Forward(pool) = &route.action
            && context.forward_auth.is_none()
        {
            if self.0.hop.is_loop(located.headers()) {
                return Err(AnswerStep::Reject(GatewayProblem::Loop));
            }
            let facts = || located.facts(KnownBody::Unread, context.decided_at);
            target.spread = pool.spread(facts);
        }
        Ok(target)
    }

    /// Runs stage 4: evaluates the limits of a request whose body is not read.
    fn first_limit_step(
        &self,
        located: &LocatedRequest<'_>,
        route: &Arc<ActiveRoute>,
        target: OriginTarget,
        head: &ReceivedHead,
        context: &mut Context,
    ) -> Step {
        let needs_body = located.route.reads_body || located.route.compares_body;
        if needs_body && !located.limits().is_empty() && context.body.is_none() {
            return Step::ReadBody(PendingDecision::new(located, target));
        }
        Step::Limits(self.limit_step(located, route, target, head, context))
    }

    /// Evaluates the limits of a request whose route was found, and whose body is read where they need it.
    fn limit_step(
        &self,
        located: &LocatedRequest<'_>,
        route: &Arc<ActiveRoute>,
        target: OriginTarget,
        head: &ReceivedHead,
        context: &mut Context,
    ) -> LimitStep {
        if located.limits().ask_store() {
            return LimitStep::AskStore(PendingDecision::new(located, target));
        }
        // No limit is decided in a store.
        let progress = self.evaluate(located.limits(), located, context);
        let admission = progress.without_store(context.decided_at);
        LimitStep::Decided(self.conclude(admission, route, target, head, context))
    }

    /// Evaluates the limits of a request, as far as no store need be asked.
    fn evaluate<'l>(
        &self,
        limits: &'l RouteLimits,
        located: &LocatedRequest<'_>,
        context: &mut Context,
    ) -> LimitProgress<'l> {
        let body = BodyPrefix::known(context.body.as_ref());
        let facts = located.facts(body, context.decided_at);
        let seed = &self.0.seed;
        let missing = &mut context.missing_keys;
        let progress = evaluate(limits, &facts, seed, context.charging, missing);
        context.known = located.known_client();
        progress
    }

    /// Returns the step that follows from an admission.
    fn conclude(
        &self,
        admission: Admission,
        route: &Arc<ActiveRoute>,
        target: OriginTarget,
        head: &ReceivedHead,
        context: &mut Context,
    ) -> DecidedStep {
        let duration = clock::since(context.decided_at);
        let (client, _) = context.client_or_unspecified();
        let mut delay = Duration::ZERO;
        let (result, report, step) = match admission {
            Admission::Admitted(admitted, report) => {
                if let Some(report) = &report {
                    delay = report.verdict.delay();
                    warn_of_overflow(&route.compiled.limits, report, client);
                }
                let step = match &route.action {
                    ActiveAction::Forward(_) if context.forward_auth.is_some() => {
                        AnswerStep::Allow.into()
                    }
                    ActiveAction::Forward(_)
                        if max_forwards::ends_here(&head.method, &head.headers) =>
                    {
                        AnswerStep::EndHere.into()
                    }
                    ActiveAction::Forward(pool) => DecidedStep::Forward(OriginRoute {
                        route: Arc::clone(route),
                        pool: AdmittedPool::new(Arc::clone(pool), &admitted),
                        target,
                    }),
                    ActiveAction::Respond(fixed) => AnswerStep::Respond(Arc::clone(fixed)).into(),
                    ActiveAction::Redirect(rules) => {
                        AnswerStep::RespondRedirect(Arc::clone(rules)).into()
                    }
                };
                (DecisionResult::Admitted(admitted), report, step)
            }
            Admission::Rejected(mut rejection, report) => {
                if let Rejection::ByLimit(by) = &mut rejection
                    && let Some(limit) = route.compiled.limits.get(usize::from(by.limit))
                {
                    let jitter = limit.retry_jitter(by.key, context.decided_at);
                    by.wait = by.wait.saturating_add(jitter);
                }
                let step = match &rejection {
                    Rejection::KeyMissing => AnswerStep::Incomplete,
                    Rejection::KeyBlocked => AnswerStep::Reject(GatewayProblem::KeyBlocked),
                    Rejection::ByLimit(by) => {
                        if let Some(report) = &report {
                            warn_of_overflow(&route.compiled.limits, report, client);
                        }
                        AnswerStep::Refuse(RefusedRequest {
                            route: Arc::clone(&route.compiled),
                            by: *by,
                        })
                    }
                };
                context.disposition = Some(RequestDisposition::rejected(&rejection));
                (DecisionResult::Rejected(rejection), report, step.into())
            }
        };
        context.decision = Some(Box::new(RequestDecision {
            result,
            report,
            duration,
            delay,
        }));
        step
    }

    /// Decides a request of which the bytes that keys need were read.
    pub(super) fn decide_with_body(
        &self,
        pending: PendingDecision,
        read: Result<BodyPrefix, GatewayProblem>,
        head: &ReceivedHead,
        context: &mut Context,
    ) -> LimitStep {
        match read {
            Ok(prefix) => context.body = Some(prefix),
            Err(problem) => return AnswerStep::Reject(problem).into(),
        }
        context.decided_at = clock::now();
        let snapshot = Arc::clone(&context.snapshot);
        let secured = context.secured.clone();
        let PendingDecision {
            route,
            forms,
            target,
        } = pending;
        let secured = secured.as_deref();
        let located = located_again(&route, forms, &snapshot, secured, head.into(), context);
        match snapshot.routes.get(route.index) {
            Some(route) => self.limit_step(&located, route, target, head, context),
            None => AnswerStep::Reject(GatewayProblem::Internal).into(),
        }
    }

    /// Decides a request on a route with a limit that is decided in a store, which takes a round trip.
    pub(super) async fn decide_with_store(
        &self,
        pending: PendingDecision,
        head: &ReceivedHead,
        context: &mut Context,
    ) -> DecidedStep {
        let PendingDecision {
            route,
            forms,
            target,
        } = pending;
        let snapshot = Arc::clone(&context.snapshot);
        let mut progress = {
            let secured = context.secured.clone();
            let secured = secured.as_deref();
            let located = located_again(&route, forms, &snapshot, secured, head.into(), context);
            // A client that is exempt asks no store.
            self.evaluate(&route.route.limits, &located, context)
        };
        let now = context.decided_at;
        let admission = loop {
            progress = match progress {
                LimitProgress::Decided(admission) => break admission,
                LimitProgress::AskStore(question) => {
                    let answer = match &snapshot.store {
                        Some(store) => store.decide(question.call(), now).await,
                        None => Err(StoreFailure::NotSent),
                    };
                    question.answer(answer, now)
                }
            };
        };
        match snapshot.routes.get(route.index) {
            Some(route) => self.conclude(admission, route, target, head, context),
            None => AnswerStep::Reject(GatewayProblem::Internal).into(),
        }
    }

    /// Waits for the delay of the limits, or until `client_left` returns. A client that leaves, or finds the queue full, gets its charges
    /// refunded. Returns the step that ends the request, if the queue is full. A request that was not decided has no delay.
    pub(super) async fn wait_for_delay(
        &self,
        client_left: impl Future<Output = ()>,
        context: &mut Context,
    ) -> Result<Option<AnswerStep>> {
        let (address, _) = context.client_or_unspecified();
        let Some(decision) = &mut context.decision else {
            return Ok(None);
        };
        let details = (decision.report.as_mut()).and_then(|report| report.details.as_mut());
        let queues = details.map_or_else(Vec::new, |details| std::mem::take(&mut details.queues));
        let client = prefix(address, PrefixBits::default());
        let waited = wait::hold(&self.0.delayed, client, queues, client_left).await;
        match waited {
            WaitEnd::Over => {
                // The wait is shorter than planned if requests ahead have left.
                let waited = clock::since(context.decided_at);
                decision.delay = waited.saturating_sub(decision.duration);
                if let Some((admitted, _)) = decision.admitted_mut() {
                    admitted.start();
                }
                Ok(None)
            }
            WaitEnd::QueueFull => {
                context.settle_unanswered();
                if let Some(decision) = &mut context.decision {
                    decision.withdraw();
                }
                Ok(Some(AnswerStep::Reject(GatewayProblem::Own(
                    OwnFailure::DelayQueueFull,
                ))))
            }
            WaitEnd::ClientGone => Err(ClientFailure::LeftDelay.into()),
        }
    }
}

/// Returns a request that was located before; what its context knows of the client is not looked up again.
pub(super) fn located_again<'a>(
    route: &'a RequestRoute,
    forms: NormalForms<'a>,
    snapshot: &'a Snapshot,
    secured: Option<&'a TlsFacts>,
    head: RequestHead<'a>,
    context: &Context,
) -> LocatedRequest<'a> {
    let peer = context.connection_peer(secured);
    let known = context.known.clone();
    let view = RequestView::new(
        &snapshot.compiled,
        peer,
        &head,
        forms,
        known,
        context.decided_at,
    );
    let mut located = LocatedRequest::again(route, view, &snapshot.compiled);
    located.hits = context.judged_hits();
    located
}

/// Rejects a request by its connection alone, without a look at its head.
pub(super) fn reject_unread(problem: GatewayProblem, context: &mut Context) -> AnswerStep {
    context.client = Some((context.peer_address(), AddressSource::Connection));
    AnswerStep::Reject(problem)
}
