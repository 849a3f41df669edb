//! Sends a request to a server of its origin, and decides after a failure whether another attempt follows.
//!
//! The limits charged the request before the first attempt, so an attempt charges
//! nothing, and an answer that does not reach the client settles nothing.
//!
//! A request of which nothing was sent may always be sent again, and so may one that an HTTP/2 origin reports as unprocessed,
//! while the body is still buffered. A request that an origin may have acted on is sent again only if its method is idempotent
//! too (RFC 9110 §9.2.2), and no part of an answer has reached the client.

use std::os::fd::RawFd;
use std::sync::Arc;

use http::header::HeaderValue;
use http::{StatusCode, header::SET_COOKIE};
use sluicegate_base::address::{AddressPrefix, PrefixBits, prefix};
use sluicegate_base::bounds::MAX_ATTEMPTS;
use sluicegate_base::clock;
use sluicegate_base::received::ReceivedHead;
use sluicegate_decide::url_scheme::UrlScheme;
use sluicegate_limiter::Timestamp;

use super::cause::Cause;
use super::context::Context;
use super::forwarded::ForwardedRequest;
use sluicegate_budgets::RequestPermit;
use sluicegate_origin::request_failure::{
    FailureKind, GatewayFailure, OriginFailure, RequestFailure, ResponseStage, Result,
    StreamFailure,
};
use sluicegate_origin::{
    AttemptExcuse, AttemptFailure, AttemptWait, ChannelSecurity, ConnectError, FieldEdit,
    LatestFailure, LimitRefusal, OriginServer, PickRequest, PickResult, ServerPermit, ServerPool,
    UploadPart, cookie_for, tag_in,
};
use sluicegate_process::SharedState;

/// The parts of a request that decide about its attempts.
#[derive(Clone, Copy)]
pub(super) struct AttemptRequest<'a> {
    /// The head, as it was received.
    pub(super) head: &'a ReceivedHead,
    /// True if the whole body can be sent once more.
    pub(super) is_buffered: bool,
    /// True if the client has got no part of an answer.
    pub(super) is_unanswered: bool,
}

impl<'a> AttemptRequest<'a> {
    /// Returns whether the whole request can be sent once more, to a client that has got no part of an answer.
    fn is_at_hand(&self) -> bool {
        self.is_buffered && self.is_unanswered
    }

    /// Returns whether the request may be sent once more: it is idempotent, and complete in the buffer.
    fn is_repeatable(&self) -> bool {
        self.head.method.is_idempotent() && self.is_at_hand()
    }

    fn tag(&self, pool: &ServerPool) -> Option<u64> {
        tag_in(&self.head.headers, pool.rules.sticky.as_ref()?)
    }
}

/// The use of an answer of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnswerUse {
    /// The client gets it.
    Pass,
    /// The request is sent again instead.
    Repeat,
}

/// Picks the server of the next attempt, and takes a permit there. Returns the server.
pub(super) async fn pick(
    request: AttemptRequest<'_>,
    forwarded: &mut ForwardedRequest,
    context: &mut Context,
) -> Result<Arc<OriginServer>> {
    let choice = match forwarded.attempt.wait.take_if(|wait| wait.refused) {
        // Boxed, since few attempts are refused a connection.
        Some(wait) => Box::pin(wait_for_connection(request, forwarded, context, wait)).await,
        None => begin(request, forwarded, context).await,
    };
    let pool = &forwarded.pool;
    match choice {
        PickResult::Server(permit) => {
            let server = Arc::clone(&permit.server);
            forwarded.server = Some(server.address.clone());
            forwarded.attempt.permit = Some(permit);
            Ok(server)
        }
        PickResult::Full => {
            let (address, _) = context.client_or_unspecified();
            let refusal = pool.limit_refusal(pool.client_tag(address), clock::now());
            let (kind, reason) = why_full(pool, forwarded.attempt.queued_at, refusal);
            Err(unserved(OriginFailure::Full(kind, reason), pool, context))
        }
        PickResult::None => {
            let (kind, reason) = pool.why_no_server(clock::now());
            let failure = OriginFailure::NoServer(kind, reason);
            Err(unserved(failure, pool, context))
        }
    }
}

/// Returns why every server is full to a request that has waited since `queued_at`; `refusal` is that of their adaptive limits.
fn why_full(
    pool: &ServerPool,
    queued_at: Timestamp,
    refusal: Option<LimitRefusal>,
) -> (FailureKind, String) {
    let adaptive = pool.rules.adaptive_concurrency;
    if let Some(queue) = &pool.queue
        && clock::since(queued_at) >= queue.rules.pending_timeout
    {
        let reason = format!(
            "every server was full for {:?}",
            queue.rules.pending_timeout
        );
        return (FailureKind::PendingTimeout, reason);
    }
    match (refusal, &pool.queue) {
        (Some(LimitRefusal::Heavy(own)), _) => {
            let reason = format!("the servers are busy, and {own} requests of this client wait");
            (FailureKind::HeavyClient, reason)
        }
        (Some(LimitRefusal::Reached(most)), _) => {
            let reason = format!("the servers are busy: at most {most} requests wait for each");
            (FailureKind::AdaptiveLimit, reason)
        }
        (None, Some(queue)) => {
            let waiting = queue.waiting();
            let reason = format!("every server is full, and {waiting} requests wait");
            (FailureKind::CircuitFull, reason)
        }
        // The place that was missing is free by now.
        (None, None) if adaptive.is_some() => {
            let reason = "every server was at its limit".to_owned();
            (FailureKind::AdaptiveLimit, reason)
        }
        (None, None) => {
            let reason = "every server has as many requests as there are ports for";
            (FailureKind::CircuitFull, reason.to_owned())
        }
    }
}

/// Records a failure that is not a server's.
fn unserved(
    failure: OriginFailure,
    pool: &ServerPool,
    context: &mut Context,
) -> Box<RequestFailure> {
    let kind = failure.kind(ResponseStage::Awaited);
    let cause = Cause::new(Some(kind.as_str()), &failure);
    pool.failures
        .note(&pool.name, None, latest_failure(kind, &cause));
    context.cause = Some(cause);
    failure.into()
}

/// Records a failure of the attempt's server. Returns the cause.
fn failure_at(forwarded: &ForwardedRequest, failure: &OriginFailure) -> Box<Cause> {
    let pool = &forwarded.pool;
    let stage = forwarded.attempt.stage();
    let kind = failure.kind(stage);
    let cause = Cause::new(Some(kind.as_str()), &format_args!("{failure}{stage}"));
    if let Some(permit) = &forwarded.attempt.permit {
        let server = &permit.server;
        let log = &server.server_state.failure_log;
        log.note(
            &pool.name,
            Some(&server.address),
            latest_failure(kind, &cause),
        );
    }
    cause
}

fn latest_failure(kind: FailureKind, cause: &Cause) -> LatestFailure {
    LatestFailure {
        at: clock::now(),
        kind,
        reason: cause.reason.to_string(),
    }
}

/// Acquires the permit of a request in flight to origins, from its client's account.
///
/// # Errors
/// No permit is free.
pub(super) fn enter(
    shared: &SharedState,
    forwarded: &ForwardedRequest,
    context: &Context,
) -> Result<RequestPermit> {
    let pool = &forwarded.pool;
    let needed = (&pool.share, pool.files_of_connection());
    let requests = &shared.origin_requests;
    let rules = &context.snapshot.compiled.rules;
    let entered = requests.enter(&forwarded.account, needed, rules);
    Ok(entered.map_err(|cap| GatewayFailure::Requests(cap, requests.caps(rules).value(cap)))?)
}

/// Begins an attempt.
async fn begin(
    request: AttemptRequest<'_>,
    forwarded: &mut ForwardedRequest,
    context: &mut Context,
) -> PickResult<ServerPermit> {
    context.cause = None;
    // The first attempt follows the decision at once; a clock is read for the others only.
    let now = match forwarded.attempt_count {
        0 => context.decision_end(),
        _ => clock::now(),
    };
    // The server permit of the attempt before ends here.
    let again = (forwarded.stale.as_mut()).and_then(|stale| stale.again.take());
    forwarded.begin_attempt(now);
    let pick = pick_request(request, forwarded, context);
    if let Some(permit) = again.and_then(|server| server.hold_again(&pick)) {
        return PickResult::Server(permit);
    }
    let pool = &forwarded.pool;
    let choice = pool.choose(&pick);
    if !matches!(choice, PickResult::Full) || pool.queue.is_none() {
        return choice;
    }
    // Boxed: a request that gets a permit at once should not pay for the size of a wait.
    let mut wait = Box::<AttemptWait>::default();
    let client = client_of(context);
    let choice = Box::pin(pool.wait(&mut wait, client, || at_present(&pick))).await;
    forwarded.attempt.started = clock::now();
    forwarded.attempt.wait = Some(wait);
    choice
}

/// Continues an attempt that was refused a connection: at the same server once it may have one, or at any other with a free
/// permit. Nothing was sent, so it is the same attempt, and counts against neither the server nor the retry budget.
async fn wait_for_connection(
    request: AttemptRequest<'_>,
    forwarded: &mut ForwardedRequest,
    context: &Context,
    mut wait: Box<AttemptWait>,
) -> PickResult<ServerPermit> {
    wait.refused = false;
    // An origin with a bound on connections has a queue.
    let Some(mut permit) = forwarded.attempt.permit.take() else {
        return PickResult::Full;
    };
    let choice = if permit.search_again(&mut wait).await {
        PickResult::Server(permit)
    } else {
        permit.give_back();
        forwarded.server = None;
        let pick = pick_request(request, forwarded, context);
        let pool = &forwarded.pool;
        match pool.find(&at_present(&pick)) {
            PickResult::Full => {
                let client = client_of(context);
                pool.wait(&mut wait, client, || at_present(&pick)).await
            }
            choice => choice,
        }
    };
    forwarded.attempt.started = clock::now();
    forwarded.attempt.wait = Some(wait);
    choice
}

/// Returns the client for which a request waits.
fn client_of(context: &Context) -> AddressPrefix {
    let (address, _) = context.client_or_unspecified();
    prefix(address, PrefixBits::default())
}

fn pick_request(
    request: AttemptRequest<'_>,
    forwarded: &ForwardedRequest,
    context: &Context,
) -> PickRequest {
    let (address, _) = context.client_or_unspecified();
    PickRequest {
        now: forwarded.attempt.started,
        failed: forwarded.failed_servers.clone(),
        client: forwarded.pool.client_tag(address),
        spread: forwarded.target.spread,
        sticky: request.tag(&forwarded.pool),
    }
}

/// Returns the same pick request for another time.
fn at_present(pick: &PickRequest) -> PickRequest {
    PickRequest {
        now: clock::now(),
        ..pick.clone()
    }
}

/// Records that an attempt has its connection. Returns false where the connection is being closed for another request: nothing was sent,
/// and the attempt looks for another one.
#[must_use]
pub(super) fn connected(forwarded: &mut ForwardedRequest, socket: RawFd) -> bool {
    let attempt = &mut forwarded.attempt;
    if let Some(permit) = &mut attempt.permit
        && permit.connected(socket).is_err()
    {
        attempt.wait.get_or_insert_default().refused = true;
        return false;
    }
    attempt.wait = None;
    forwarded.is_sent = true;
    true
}

/// Records that the server of an attempt waits for a part of the request's body, or has the last one.
pub(super) fn uploads(forwarded: &mut ForwardedRequest, part: UploadPart) {
    if let Some(permit) = &mut forwarded.attempt.permit {
        permit.uploads(part);
    }
}

/// Records that an attempt has no connection.
///
/// # Errors
/// No other attempt follows.
pub(super) fn unconnected(
    error: ConnectError,
    forwarded: &mut ForwardedRequest,
    context: &mut Context,
) -> Result<()> {
    let decided = context.decided_at;
    let failure = match error {
        ConnectError::AtBound => {
            forwarded.attempt.wait.get_or_insert_default().refused = true;
            return Ok(());
        }
        ConnectError::Failed(failure) => OriginFailure::Connect(failure),
    };
    forwarded.attempt.wait = None;
    if let Some(permit) = &mut forwarded.attempt.permit {
        permit.unconnected();
    }
    let cause = failure_at(forwarded, &failure);
    // Nothing was sent, so any method may be sent again.
    let outcome = AttemptFailure::Connect;
    let again = forwarded.fail(outcome) && forwarded.grants_retry(outcome, decided);
    context.cause = Some(cause);
    if again { Ok(()) } else { Err(failure.into()) }
}

/// Records that an attempt failed after it had a connection.
///
/// # Errors
/// No other attempt follows.
pub(super) fn interrupted(
    request: AttemptRequest<'_>,
    (failure, excuse): (OriginFailure, Option<AttemptExcuse>),
    forwarded: &mut ForwardedRequest,
    context: &mut Context,
) -> Result<()> {
    let decided = context.decided_at;
    let is_unprocessed = matches!(
        failure,
        OriginFailure::Stream(StreamFailure::Unprocessed(_))
    );
    let may_repeat = forwarded.attempt_count < MAX_ATTEMPTS
        && (request.is_repeatable() || is_unprocessed && request.is_at_hand());
    // Only what is repeated is excused: a request that its client loses is a failure.
    match excuse.filter(|_| may_repeat) {
        Some(AttemptExcuse::StaleConnection) if forwarded.repeat_stale() => return Ok(()),
        Some(AttemptExcuse::Unprocessed) => {
            forwarded.exclude_server();
            return Ok(());
        }
        Some(AttemptExcuse::StaleConnection) | None => {}
    }
    let cause = failure_at(forwarded, &failure);
    let outcome = outcome_of(&failure);
    let again = forwarded.fail(outcome) && may_repeat && forwarded.grants_retry(outcome, decided);
    context.cause = Some(cause);
    if again { Ok(()) } else { Err(failure.into()) }
}

/// Records the final status of an answer, and decides whether the client gets it.
pub(super) fn judge(
    request: AttemptRequest<'_>,
    status: StatusCode,
    forwarded: &mut ForwardedRequest,
    context: &Context,
) -> AnswerUse {
    let decided = context.decided_at;
    if let Some(permit) = &mut forwarded.attempt.permit {
        forwarded.pool.answered(permit, status, clock::now);
    }
    let failure = AttemptFailure::Status(status.as_u16());
    if !status.is_server_error()
        || !request.is_repeatable()
        || !forwarded.grants_retry(failure, decided)
    {
        return AnswerUse::Pass;
    }
    forwarded.exclude_server();
    AnswerUse::Repeat
}

/// Sets the cookie that pins the client to its server, unless the client sent it.
pub(super) fn give_cookie(
    fields: &mut dyn FieldEdit,
    request: AttemptRequest<'_>,
    forwarded: &ForwardedRequest,
    context: &Context,
) {
    if let Some(cookie) = cookie(request, forwarded, context.scheme()) {
        fields.append(SET_COOKIE, cookie);
    }
}

fn cookie(
    request: AttemptRequest<'_>,
    forwarded: &ForwardedRequest,
    scheme: UrlScheme,
) -> Option<HeaderValue> {
    let pool = &forwarded.pool;
    let rules = pool.rules.sticky.as_ref()?;
    let given = pool.tag_of(forwarded.attempt.permit.as_ref()?)?;
    if request.tag(pool) == Some(given) {
        return None;
    }
    let channel = match scheme {
        UrlScheme::Https => ChannelSecurity::Secure,
        UrlScheme::Http => ChannelSecurity::Clear,
    };
    cookie_for(given, rules, channel)
}

/// Returns the outcome of an attempt that failed so after it had a connection.
fn outcome_of(failure: &OriginFailure) -> AttemptFailure {
    match failure {
        OriginFailure::Timeout(_) => AttemptFailure::Timeout,
        _ => AttemptFailure::Reset,
    }
}
