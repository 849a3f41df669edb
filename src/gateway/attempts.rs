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
use pingora::http::RequestHeader;
use pingora::{Error, ErrorSource, ErrorType, Result, RetryType};
use sluicegate_base::bounds::MAX_TRIES;
use sluicegate_base::clock;
use sluicegate_limiter::Timestamp;

use super::cause::{Cause, Stage, explain};
use super::context::Context;
use super::decision::ForwardedRequest;
use super::error::{OVERFULL, OVERLOADED, error_for};
use crate::budgets::RequestPermit;
use crate::failure::FailureKind;
use crate::origin::{
    AttemptFailure, AttemptWait, ChannelSecurity, FieldEdit, NO_CONNECTION, PickRequest,
    PickResult, ServerPool, cookie_for, tag_in,
};
use crate::process::SharedState;
use crate::response::GatewayProblem;
use crate::url_scheme::UrlScheme;

/// The parts of a request that decide about its attempts.
#[derive(Clone, Copy)]
pub(super) struct AttemptRequest<'a> {
    /// The head, as it was received.
    pub(super) head: &'a RequestHeader,
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

/// The cause of the errors that turn an answer into another attempt; it is not shown to anybody.
const ANOTHER_TRY: &str = "the answer asks for another try";

/// Picks the server of the next attempt, and takes a permit there.
pub(super) async fn pick(
    shared: &SharedState,
    request: AttemptRequest<'_>,
    context: &mut Context,
) -> Result<()> {
    if context.forwarded()?.in_flight.is_none() {
        let permit = take_request_permit(shared, context)?;
        context.forwarded_mut()?.in_flight = Some(permit);
    }
    let forwarded = context.forwarded_mut()?;
    let pool = Arc::clone(&forwarded.pool);
    let choice = match forwarded.attempt.wait.take_if(|wait| wait.refused) {
        // Boxed, since few attempts are refused a connection.
        Some(wait) => Box::pin(wait_for_connection(request, context, &pool, wait)).await?,
        None => begin(request, context, &pool).await?,
    };
    match choice {
        PickResult::Server(permit) => {
            let forwarded = context.forwarded_mut()?;
            forwarded.server = Some(permit.server.address);
            forwarded.attempt.permit = Some(permit);
            Ok(())
        }
        PickResult::Full => {
            let queued_at = context.forwarded()?.attempt.queued_at;
            note_full(context, &pool, queued_at);
            Err(Error::new(ErrorType::Custom(OVERFULL)))
        }
        PickResult::None => {
            let (kind, reason) = pool.why_no_server(clock::now());
            note_unserved(context, &pool, kind, reason);
            Err(error_for(GatewayProblem::NoServer))
        }
    }
}

/// Records that every server is full, to a request that has waited since `queued_at`.
fn note_full(context: &mut Context, pool: &ServerPool, queued_at: Timestamp) {
    let Some(queue) = &pool.queue else {
        let reason = "every server has as many requests as there are ports for".to_owned();
        note_unserved(context, pool, FailureKind::CircuitFull, reason);
        return;
    };
    let rules = &queue.rules;
    let (kind, reason) = if clock::since(queued_at) < rules.pending_timeout {
        let reason = format!(
            "every server is full, and {} requests wait",
            queue.waiting()
        );
        (FailureKind::CircuitFull, reason)
    } else {
        let reason = format!("every server was full for {:?}", rules.pending_timeout);
        (FailureKind::PendingTimeout, reason)
    };
    note_unserved(context, pool, kind, reason);
}

/// Records a failure that is not a server's.
fn note_unserved(context: &mut Context, pool: &ServerPool, kind: FailureKind, reason: String) {
    pool.failures
        .note(&pool.name, None, kind, &reason, clock::now());
    context.cause = Some(Box::new(Cause::of_origin(kind, reason)));
}

/// Records the failure that ends a request which was forwarded.
pub(super) fn note_origin_failed(context: &mut Context, error: &Error) {
    if let Some(forwarded) = context.forwarded_if_any() {
        let cause = failure_at(forwarded, error, forwarded.attempt.stage());
        context.cause = Some(cause);
    }
}

/// Records a failure of the attempt's server. Returns the cause.
fn failure_at(forwarded: &ForwardedRequest, error: &Error, stage: Stage) -> Box<Cause> {
    let pool = &forwarded.pool;
    let (kind, reason) = explain(error, stage, &pool.rules.timeouts);
    if let Some(permit) = &forwarded.attempt.permit {
        let server = &permit.server;
        let log = &server.server_state.failure_log;
        log.note(
            &pool.name,
            Some(server.address),
            kind,
            &reason,
            clock::now(),
        );
    }
    Box::new(Cause::of_origin(kind, reason))
}

/// Acquires the permit of a request in flight to origins.
fn take_request_permit(shared: &SharedState, context: &mut Context) -> Result<RequestPermit> {
    let (client, _) = context.client_or_unspecified();
    let files = context.forwarded()?.pool.files_of_connection();
    let (requests, rules) = (&shared.origin_requests, &context.snapshot.rules);
    requests
        .enter(client, files, rules, &shared.seed)
        .map_err(|cap| {
            let caps = requests.caps(rules);
            context.cause = Some(Box::new(Cause::of_cap(cap, caps)));
            Error::new(ErrorType::Custom(OVERLOADED))
        })
}

/// Begins an attempt.
async fn begin(
    request: AttemptRequest<'_>,
    context: &mut Context,
    pool: &ServerPool,
) -> Result<PickResult> {
    context.cause = None;
    if request.is_buffered {
        // A retry sends the buffered body again, through the same filter.
        context.received = 0;
    }
    // The first attempt follows the decision at once; a clock is read for the others only.
    let now = match context.forwarded()?.tries {
        0 => context.decision_end(),
        _ => clock::now(),
    };
    // The server permit of the attempt before ends here.
    context.forwarded_mut()?.begin_attempt(now);
    let pick = pick_request(request, context)?;
    let choice = pool.choose(&context.forwarded()?.admitted, &pick);
    if !matches!(choice, PickResult::Full) || pool.queue.is_none() {
        return Ok(choice);
    }
    // Boxed: a request that gets a permit at once should not pay for the size of a wait.
    let mut wait = Box::<AttemptWait>::default();
    let choice = Box::pin(pool.wait(&mut wait, || at_present(&pick))).await;
    let attempt = &mut context.forwarded_mut()?.attempt;
    attempt.started = clock::now();
    attempt.wait = Some(wait);
    Ok(choice)
}

/// Continues an attempt that was refused a connection: at the same server once it may have one, or at any other with a free
/// permit. Nothing was sent, so it is the same attempt, and counts against neither the server nor the retry budget.
async fn wait_for_connection(
    request: AttemptRequest<'_>,
    context: &mut Context,
    pool: &ServerPool,
    mut wait: Box<AttemptWait>,
) -> Result<PickResult> {
    wait.refused = false;
    // An origin with a bound on connections has a queue.
    let Some(mut permit) = context.forwarded_mut()?.attempt.permit.take() else {
        return Ok(PickResult::Full);
    };
    let choice = if permit.another_look(&mut wait).await {
        PickResult::Server(permit)
    } else {
        permit.give_back();
        context.forwarded_mut()?.server = None;
        let pick = pick_request(request, context)?;
        match pool.find(&at_present(&pick)) {
            PickResult::Full => pool.wait(&mut wait, || at_present(&pick)).await,
            choice => choice,
        }
    };
    let attempt = &mut context.forwarded_mut()?.attempt;
    attempt.started = clock::now();
    attempt.wait = Some(wait);
    Ok(choice)
}

fn pick_request(request: AttemptRequest<'_>, context: &Context) -> Result<PickRequest> {
    let forwarded = context.forwarded()?;
    Ok(PickRequest {
        now: forwarded.attempt.started,
        tried: forwarded.tried.clone(),
        spread: context.located()?.spread,
        sticky: request.tag(&forwarded.pool),
    })
}

/// Returns the same pick request for another time.
fn at_present(pick: &PickRequest) -> PickRequest {
    PickRequest {
        now: clock::now(),
        ..pick.clone()
    }
}

/// Records that an attempt has its connection.
///
/// # Errors
/// The connection is being closed for another request. Nothing was sent, and the attempt looks for another one.
pub(super) fn connected(context: &mut Context, socket: RawFd) -> Result<()> {
    let attempt = &mut context.forwarded_mut()?.attempt;
    if let Some(permit) = &mut attempt.permit
        && permit.connected(socket).is_err()
    {
        attempt.wait.get_or_insert_default().refused = true;
        return Err(Error::new(ErrorType::Custom(NO_CONNECTION)));
    }
    attempt.wait = None;
    Ok(())
}

/// Decides what follows an attempt whose connection failed.
pub(super) fn unconnected(context: &mut Context, error: Box<Error>) -> Box<Error> {
    let again = follows_unconnected(context, &error);
    with_retry(error, again)
}

fn follows_unconnected(context: &mut Context, error: &Error) -> Result<bool> {
    let decided = context.decided_at;
    let forwarded = context.forwarded_mut()?;
    if matches!(error.etype(), ErrorType::Custom(NO_CONNECTION)) {
        forwarded.attempt.wait.get_or_insert_default().refused = true;
        return Ok(true);
    }
    forwarded.attempt.wait = None;
    if let Some(permit) = &mut forwarded.attempt.permit {
        permit.unconnected();
    }
    let cause = failure_at(forwarded, error, Stage::Connecting);
    // Nothing was sent, so any method may be sent again.
    let failure = AttemptFailure::Connect;
    let again = forwarded.fail(failure) && forwarded.grants_retry(failure, decided);
    context.cause = Some(cause);
    Ok(again)
}

/// Decides what follows an attempt that failed after it had a connection.
pub(super) fn interrupted(
    request: AttemptRequest<'_>,
    context: &mut Context,
    mut error: Box<Error>,
    reused: bool,
) -> Box<Error> {
    if matches!(
        error.etype(),
        ErrorType::Custom(ANOTHER_TRY | NO_CONNECTION)
    ) {
        return with_retry(error, Ok(true));
    }
    // Before the mark on the error is turned into a decision.
    let is_unprocessed = is_unprocessed(&error);
    // Marked are connections that the server closed while they were idle, protocols that it rejected, and streams that it
    // refused. None is a failed answer, and none counts against the server.
    error.retry.decide_reuse(reused);
    let again = follows_interrupted(request, context, &error, is_unprocessed);
    with_retry(error, again)
}

fn follows_interrupted(
    request: AttemptRequest<'_>,
    context: &mut Context,
    error: &Error,
    is_unprocessed: bool,
) -> Result<bool> {
    let decided = context.decided_at;
    let forwarded = context.forwarded_mut()?;
    let may_repeat = forwarded.tries < MAX_TRIES
        && (request.is_repeatable() || is_unprocessed && request.is_at_hand());
    if error.retry() {
        forwarded.note_tried();
        if !may_repeat {
            let cause = failure_at(forwarded, error, forwarded.attempt.stage());
            context.cause = Some(cause);
        }
        return Ok(may_repeat);
    }
    let Some(failure) = failure_of(error) else {
        return Ok(false);
    };
    let cause = failure_at(forwarded, error, forwarded.attempt.stage());
    let again = forwarded.fail(failure) && may_repeat && forwarded.grants_retry(failure, decided);
    context.cause = Some(cause);
    Ok(again)
}

/// Returns the error that tells whether another attempt follows; where the stage of the request is missing, the gateway's own.
fn with_retry(mut error: Box<Error>, again: Result<bool>) -> Box<Error> {
    match again {
        Ok(again) => {
            error.set_retry(again);
            error
        }
        Err(internal) => internal,
    }
}

/// Records the final status of an answer.
///
/// # Errors
/// The request is to be sent again instead of passing the answer on.
pub(super) fn judge(
    request: AttemptRequest<'_>,
    context: &mut Context,
    status: StatusCode,
) -> Result<()> {
    let decided = context.decided_at;
    let forwarded = context.forwarded_mut()?;
    if let Some(permit) = &mut forwarded.attempt.permit {
        forwarded.pool.answered(permit, status, clock::now);
    }
    let failure = AttemptFailure::Status(status.as_u16());
    if !status.is_server_error()
        || !request.is_repeatable()
        || !forwarded.grants_retry(failure, decided)
    {
        return Ok(());
    }
    forwarded.note_tried();
    Err(Error::new(ErrorType::Custom(ANOTHER_TRY)).into_up())
}

/// Sets the cookie that pins the client to its server, unless the client sent it.
pub(super) fn give_cookie(
    fields: &mut dyn FieldEdit,
    request: AttemptRequest<'_>,
    context: &Context,
) -> Result<()> {
    let cookie = cookie(request, context.forwarded()?, context.scheme());
    cookie.map_or(Ok(()), |cookie| fields.append(SET_COOKIE, cookie))
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

/// Returns whether the server reports the request as unprocessed: it refused the stream (RFC 9113 §8.7), or its GOAWAY left it
/// out (§6.8). Exactly these errors of this type are marked as retryable.
fn is_unprocessed(error: &Error) -> bool {
    matches!(
        (error.etype(), error.retry),
        (ErrorType::H2Error, RetryType::Decided(true))
    )
}

/// Returns the server's failure behind an error; `None` where the server did not fail.
fn failure_of(error: &Error) -> Option<AttemptFailure> {
    match (error.esource(), error.etype()) {
        (_, ErrorType::HTTPStatus(504)) => Some(AttemptFailure::Timeout),
        (ErrorSource::Upstream, ErrorType::ReadTimedout | ErrorType::WriteTimedout) => {
            Some(AttemptFailure::Timeout)
        }
        (ErrorSource::Upstream, ErrorType::HTTPStatus(_)) => None,
        (ErrorSource::Upstream, _) => Some(AttemptFailure::Reset),
        _ => None,
    }
}
