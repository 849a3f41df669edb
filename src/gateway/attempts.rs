//! Sends a request to a server of its origin, and decides after a failure whether another attempt follows.
//!
//! Pingora calls this module once an attempt. The limits charged the request before the first attempt, so an attempt charges
//! nothing, and an answer that does not reach the client settles nothing.
//!
//! A request of which nothing was sent may always be sent again, and so may one that an HTTP/2 origin reports as unprocessed,
//! while the body is still buffered. A request that an origin may have acted on is sent again only if its method is idempotent
//! too (RFC 9110 §9.2.2), and no part of an answer has reached the client.

use std::os::fd::RawFd;
use std::sync::Arc;

use http::header::HeaderValue;
use http::{StatusCode, header::SET_COOKIE};
use pingora::proxy::Session;
use pingora::upstreams::peer::HttpPeer;
use pingora::{Error, ErrorSource, ErrorType, Result, RetryType};
use sluicegate_base::bounds::MAX_TRIES;
use sluicegate_base::clock;

use super::answered;
use super::cause::{Cause, Stage, explain};
use super::context::Context;
use super::error::{OVERFULL, OVERLOADED, error_for};
use crate::budgets::RequestPermit;
use crate::origin::{
    AttemptFailure, AttemptWait, ChannelSecurity, FailureKind, HeaderEdit, NO_CONNECTION,
    PickRequest, PickResult, ServerPool, TunnelSocket, cookie_for, for_upgrade, tag_in,
};
use crate::process::SharedState;
use crate::response::GatewayProblem;
use crate::snapshot::ActiveAction;
use crate::url_scheme::UrlScheme;

/// The cause of the errors that turn an answer into another attempt; it is not shown to anybody.
const ANOTHER_TRY: &str = "the answer asks for another try";

/// Returns the server of the next attempt.
pub(super) async fn next(
    shared: &SharedState,
    session: &Session,
    context: &mut Context,
) -> Result<Box<HttpPeer>> {
    let Some(pool) = pool_of(context) else {
        return Err(error_for(GatewayProblem::Internal));
    };
    if context.on_its_way.is_none() {
        context.on_its_way = Some(set_out(shared, context, &pool)?);
    }
    let choice = match context.try_wait.take_if(|wait| wait.refused) {
        // Boxed, since few attempts are refused a connection.
        Some(wait) => Box::pin(look_again(session, context, &pool, wait)).await,
        None => begin(session, context, &pool).await?,
    };
    match choice {
        PickResult::Server(held) => {
            let peer = held.server.peer();
            context.server = Some(held.server.address);
            context.place = Some(held);
            if !session.is_upgrade_req() {
                return Ok(peer);
            }
            let (peer, socket) = for_upgrade(peer);
            context.tunnel = socket;
            Ok(peer)
        }
        PickResult::Full => {
            note_full(context, &pool);
            Err(Error::new(ErrorType::Custom(OVERFULL)))
        }
        PickResult::None => {
            let (kind, reason) = pool.why_no_server(clock::now());
            note_unserved(context, &pool, kind, reason);
            Err(error_for(GatewayProblem::NoServer))
        }
    }
}

/// Records that every server is full.
fn note_full(context: &mut Context, pool: &ServerPool) {
    let Some(queue) = &pool.queue else {
        let reason = "every server has as many requests as there are ports for".to_owned();
        note_unserved(context, pool, FailureKind::CircuitFull, reason);
        return;
    };
    let rules = &queue.rules;
    let (kind, reason) = if clock::since(context.queued_at) < rules.pending_timeout {
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

/// Records a failure of the attempt's server.
pub(super) fn note_failed(context: &mut Context, error: &Error, stage: Stage) {
    let Some(pool) = context.pool() else {
        return;
    };
    let (kind, reason) = explain(error, stage, &pool.rules.timeouts);
    if let Some(held) = &context.place {
        let server = &held.server;
        let log = &server.server_state.failure_log;
        log.note(
            &pool.name,
            Some(server.address),
            kind,
            &reason,
            clock::now(),
        );
    }
    context.cause = Some(Box::new(Cause::of_origin(kind, reason)));
}

/// Acquires the permit of a request in flight to origins.
fn set_out(
    shared: &SharedState,
    context: &mut Context,
    pool: &ServerPool,
) -> Result<RequestPermit> {
    let (client, _) = context.client_or_unspecified();
    let (requests, rules) = (&shared.origin_requests, &context.snapshot.rules);
    requests
        .enter(client, pool.files_of_connection(), rules, &shared.seed)
        .map_err(|cap| {
            let caps = requests.caps(rules);
            context.cause = Some(Box::new(Cause::of_cap(cap, caps)));
            Error::new(ErrorType::Custom(OVERLOADED))
        })
}

/// Begins an attempt.
async fn begin(session: &Session, context: &mut Context, pool: &ServerPool) -> Result<PickResult> {
    // The server permit of the attempt before.
    context.place = None;
    context.try_wait = None;
    context.origin_status = None;
    context.origin_bytes = 0;
    context.cause = None;
    context.tries = context.tries.saturating_add(1);
    if !session.retry_buffer_truncated() {
        // A retry sends the buffered body again, through the same filter.
        context.received = 0;
    }
    // The first attempt follows the decision at once; a clock is read for the others only.
    context.tried_at = if context.tries == 1 {
        context
            .decided_at
            .saturating_add(context.decision)
            .saturating_add(context.delay)
    } else {
        clock::now()
    };
    context.queued_at = context.tried_at;
    let wish = wish(session, context, pool);
    let Some(admitted) = &context.admitted else {
        return Err(error_for(GatewayProblem::Internal));
    };
    let choice = pool.choose(admitted, &wish);
    if !matches!(choice, PickResult::Full) || pool.queue.is_none() {
        return Ok(choice);
    }
    // Boxed: a request that gets a permit at once should not pay for the size of a wait.
    let mut wait = Box::<AttemptWait>::default();
    let choice = Box::pin(pool.wait(&mut wait, || anew(&wish))).await;
    context.tried_at = clock::now();
    context.try_wait = Some(wait);
    Ok(choice)
}

/// Continues an attempt that was refused a connection: at the same server once it may have one, or at any other with a free
/// permit. Nothing was sent, so it is the same attempt, and counts against neither the server nor the retry budget.
async fn look_again(
    session: &Session,
    context: &mut Context,
    pool: &ServerPool,
    mut wait: Box<AttemptWait>,
) -> PickResult {
    wait.refused = false;
    // An origin with a bound on connections has a queue.
    let Some(mut held) = context.place.take() else {
        return PickResult::Full;
    };
    let choice = if held.another_look(&mut wait).await {
        PickResult::Server(held)
    } else {
        held.give_back();
        context.server = None;
        let wish = wish(session, context, pool);
        match pool.find(&anew(&wish)) {
            PickResult::Full => pool.wait(&mut wait, || anew(&wish)).await,
            choice => choice,
        }
    };
    context.tried_at = clock::now();
    context.try_wait = Some(wait);
    choice
}

fn wish(session: &Session, context: &Context, pool: &ServerPool) -> PickRequest {
    PickRequest {
        now: context.tried_at,
        tried: context.tried.clone(),
        spread: context.located.as_ref().and_then(|located| located.spread),
        sticky: tag(session, pool),
    }
}

/// Returns the same pick request for another time.
fn anew(wish: &PickRequest) -> PickRequest {
    PickRequest {
        now: clock::now(),
        ..wish.clone()
    }
}

/// Records that an attempt has its connection.
pub(super) fn connected(context: &mut Context, socket: RawFd) {
    context.try_wait = None;
    let socket = context.tunnel.as_ref().map_or(socket, TunnelSocket::number);
    if let Some(held) = &mut context.place {
        held.connected(socket);
    }
}

/// Decides what follows an attempt whose connection failed.
pub(super) fn unconnected(context: &mut Context, mut error: Box<Error>) -> Box<Error> {
    if matches!(error.etype(), ErrorType::Custom(NO_CONNECTION)) {
        context.try_wait.get_or_insert_default().refused = true;
        error.set_retry(true);
        return error;
    }
    context.try_wait = None;
    if let Some(held) = &mut context.place {
        held.unconnected();
    }
    note_failed(context, &error, Stage::Connecting);
    // Nothing was sent, so any method may be sent again.
    let again = fail(context, AttemptFailure::Connect) && grant(context, AttemptFailure::Connect);
    error.set_retry(again);
    error
}

/// Decides what follows an attempt that failed after it had a connection.
pub(super) fn interrupted(
    session: &Session,
    context: &mut Context,
    mut error: Box<Error>,
    reused: bool,
) -> Box<Error> {
    if matches!(error.etype(), ErrorType::Custom(ANOTHER_TRY)) {
        error.set_retry(true);
        return error;
    }
    // Pingora would repeat more often: it counts lookups of a connection too.
    let may_repeat = context.tries < MAX_TRIES
        // A head that is kept back is an answer, and its body is on the way into the cache.
        && context.withheld.is_none()
        && (is_repeatable(session) || is_unprocessed(&error) && is_at_hand(session));
    // Pingora marks connections that the server closed while they were idle, protocols that it rejected, and streams that it
    // refused. None is a failed answer, and none counts against the server.
    error.retry.decide_reuse(reused);
    let harmless = error.retry();
    let again = match failure_of(&error) {
        _ if harmless => {
            note_tried(context);
            if !may_repeat {
                note_failed(context, &error, context.stage());
            }
            may_repeat
        }
        Some(failure) => {
            note_failed(context, &error, context.stage());
            fail(context, failure) && may_repeat && grant(context, failure)
        }
        None => false,
    };
    error.set_retry(again);
    error
}

/// Records the final status of an answer.
///
/// # Errors
/// The request is to be sent again instead of passing the answer on.
pub(super) fn judge(session: &Session, context: &mut Context, status: StatusCode) -> Result<()> {
    if let (Some(located), Some(held)) = (&context.located, &mut context.place)
        && let ActiveAction::Forward(pool) = &located.route.action
    {
        pool.answered(held, status, clock::now);
    }
    let failure = AttemptFailure::Status(status.as_u16());
    if !status.is_server_error() || !is_repeatable(session) || !grant(context, failure) {
        return Ok(());
    }
    note_tried(context);
    Err(Error::new(ErrorType::Custom(ANOTHER_TRY)).into_up())
}

/// Sets the cookie that pins the client to its server, unless the client sent it.
pub(super) fn give_cookie(
    fields: &mut dyn HeaderEdit,
    session: &Session,
    context: &Context,
) -> Result<()> {
    let cookie = cookie(session, context);
    cookie.map_or(Ok(()), |cookie| fields.append(SET_COOKIE, cookie))
}

fn cookie(session: &Session, context: &Context) -> Option<HeaderValue> {
    let pool = context.pool()?;
    let rules = pool.rules.sticky.as_ref()?;
    let given = pool.tag_of(context.place.as_ref()?)?;
    if tag(session, pool) == Some(given) {
        return None;
    }
    let channel = match context.scheme() {
        UrlScheme::Https => ChannelSecurity::Secure,
        UrlScheme::Http => ChannelSecurity::Clear,
    };
    cookie_for(given, rules, channel)
}

fn tag(session: &Session, pool: &ServerPool) -> Option<u64> {
    tag_in(&session.req_header().headers, pool.rules.sticky.as_ref()?)
}

fn pool_of(context: &Context) -> Option<Arc<ServerPool>> {
    match &context.located.as_ref()?.route.action {
        ActiveAction::Forward(pool) => Some(Arc::clone(pool)),
        ActiveAction::Respond(_) | ActiveAction::Redirect(_) => None,
    }
}

/// Returns whether the request may be sent once more: it is idempotent, and complete in the buffer.
fn is_repeatable(session: &Session) -> bool {
    session.req_header().method.is_idempotent() && is_at_hand(session)
}

/// Returns whether the whole request can be sent once more, to a client that has got no part of an answer.
fn is_at_hand(session: &Session) -> bool {
    !session.retry_buffer_truncated() && answered(session).is_none()
}

/// Returns whether the server reports the request as unprocessed: it refused the stream (RFC 9113 §8.7), or its GOAWAY left it
/// out (§6.8). Pingora marks exactly these errors of this type as retryable.
fn is_unprocessed(error: &Error) -> bool {
    matches!(
        (error.etype(), error.retry),
        (ErrorType::H2Error, RetryType::Decided(true))
    )
}

/// Records a failure of the server. Returns whether there was one.
fn fail(context: &mut Context, failure: AttemptFailure) -> bool {
    let Some(pool) = pool_of(context) else {
        return false;
    };
    note_tried(context);
    let held = context.place.as_mut();
    held.is_some_and(|held| {
        pool.failed(held, failure, clock::now());
        true
    })
}

/// Excludes the server from the next attempt.
fn note_tried(context: &mut Context) {
    if let Some(server) = context.server
        && !context.tried.contains(&server)
    {
        // The capacity is the maximum number of attempts.
        let _ = context.tried.try_push(server);
    }
}

fn grant(context: &Context, failure: AttemptFailure) -> bool {
    let decided = context.decided_at;
    context
        .pool()
        .is_some_and(|pool| pool.grants_retry(failure, context.tries, || clock::since(decided)))
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
