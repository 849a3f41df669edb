//! Takes a request to a server of its origin, and decides whether it may be taken to another when that fails.
//!
//! Pingora calls in here once a try. What a request was charged for was decided before the first one, so a try charges nothing, and an
//! answer that is not given to the client settles nothing.
//!
//! A request of which nothing was sent may always be sent again, as may one that an origin of HTTP/2 says it has not looked at, while the
//! body is still at hand. One that an origin may have acted on is sent again only where the method is idempotent besides (RFC 9110 §9.2.2),
//! and the client has seen nothing of an answer.

use std::os::fd::RawFd;
use std::sync::Arc;

use http::header::HeaderValue;
use http::{StatusCode, header::SET_COOKIE};
use pingora::proxy::Session;
use pingora::upstreams::peer::HttpPeer;
use pingora::{Error, ErrorSource, ErrorType, Result, RetryType};

use super::answered;
use super::context::Context;
use super::error::{OVERFULL, error_for};
use crate::bounds::MAX_TRIES;
use crate::client::Scheme;
use crate::clock;
use crate::origin::{
    Channel, Choice, Failure, Fields, NO_CONNECTION, Pool, Refusal, Wish, cookie_for, for_upgrade,
    tag_in,
};
use crate::response::Problem;
use crate::snapshot::ActiveAction;

/// The cause of the errors by which an answer becomes another try; nobody gets to see it.
const ANOTHER_TRY: &str = "the answer asks for another try";

/// The server of the next try.
pub(super) async fn next(session: &Session, context: &mut Context) -> Result<Box<HttpPeer>> {
    let Some(pool) = pool_of(context) else {
        return Err(error_for(Problem::Internal));
    };
    let choice = match context.refusal.take() {
        // Boxed, as below: few are refused a connection.
        Some(refusal) => Box::pin(look_again(session, context, &pool, refusal)).await,
        None => begin(session, context, &pool).await?,
    };
    match choice {
        Choice::Server(held) => {
            let peer = held.server.peer();
            context.server = Some(held.server.address);
            context.place = Some(held);
            Ok(if session.is_upgrade_req() {
                for_upgrade(peer)
            } else {
                peer
            })
        }
        Choice::Full => Err(Error::new(ErrorType::Custom(OVERFULL))),
        Choice::None => Err(error_for(Problem::NoServer)),
    }
}

/// Begins a try.
async fn begin(session: &Session, context: &mut Context, pool: &Pool) -> Result<Choice> {
    // The place at the server of the try before.
    context.place = None;
    context.origin_status = None;
    context.tries = context.tries.saturating_add(1);
    if !session.retry_buffer_truncated() {
        // A retry sends the buffered body again, through the same filter.
        context.received = 0;
    }
    // The first try follows the decision at once; a clock is read for the others only.
    context.tried_at = if context.tries == 1 {
        context
            .decided_at
            .saturating_add(context.decision)
            .saturating_add(context.delay)
    } else {
        clock::now()
    };
    let wish = wish(session, context, pool);
    let Some(admitted) = &context.admitted else {
        return Err(error_for(Problem::Internal));
    };
    let mut choice = pool.choose(admitted, &wish);
    if let (Choice::Full, Some(queue)) = (&choice, &pool.queue) {
        // Boxed: whoever finds a place at once should not carry the room that a wait needs.
        choice = Box::pin(queue.wait(queue.deadline(), || find(pool, &wish))).await;
        context.tried_at = clock::now();
    }
    Ok(choice)
}

/// Goes on with a try that was refused a connection: at the same server once there may be one, or wherever else there is a place. Nothing
/// was sent, so it is the same try, and costs neither the server nor the budget anything.
async fn look_again(
    session: &Session,
    context: &mut Context,
    pool: &Pool,
    mut refusal: Box<Refusal>,
) -> Choice {
    // Where connections have a bound there is a queue.
    let (Some(queue), Some(held)) = (&pool.queue, context.place.take()) else {
        return Choice::Full;
    };
    if !refusal.may_look() {
        held.give_back();
        queue.refuse();
        return Choice::Full;
    }
    let end = refusal.end(queue);
    let choice = if held.another_look(&mut refusal, end).await {
        Choice::Server(held)
    } else {
        held.give_back();
        context.server = None;
        refusal.begin_anew();
        let wish = wish(session, context, pool);
        match find(pool, &wish) {
            Choice::Full => queue.wait(end, || find(pool, &wish)).await,
            choice => choice,
        }
    };
    context.tried_at = clock::now();
    context.refusal = Some(refusal);
    choice
}

fn wish(session: &Session, context: &Context, pool: &Pool) -> Wish {
    Wish {
        now: context.tried_at,
        tried: context.tried.clone(),
        spread: context.spread,
        sticky: tag(session, pool),
    }
}

/// What comes of a wish after a wait.
fn find(pool: &Pool, wish: &Wish) -> Choice {
    pool.find(&Wish {
        now: clock::now(),
        ..wish.clone()
    })
}

/// A try has its connection.
pub(super) fn connected(context: &mut Context, socket: RawFd) {
    context.refusal = None;
    if let Some(held) = &mut context.place {
        held.connected(socket);
    }
}

/// What becomes of a try whose connection could not be made.
pub(super) fn unconnected(context: &mut Context, mut error: Box<Error>) -> Box<Error> {
    if matches!(error.etype(), ErrorType::Custom(NO_CONNECTION)) {
        context.refusal.get_or_insert_default();
        error.set_retry(true);
        return error;
    }
    context.refusal = None;
    if let Some(pool) = context.pool() {
        pool.complaints
            .connection(&pool.name, context.server, &error);
    }
    // Nothing was sent, so any method may be tried again.
    let again = fail(context, Failure::Connect) && grant(context, Failure::Connect);
    error.set_retry(again);
    error
}

/// What becomes of a try that broke off after the connection was made.
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
    // Pingora would repeat more often: it counts looks for a connection too.
    let may_repeat = context.tries < MAX_TRIES
        && (is_repeatable(session) || is_unprocessed(&error) && is_at_hand(session));
    // Pingora knows of connections that the server closed while they were idle, of protocols that it turned down, and of streams that it
    // refused. None is a failure to answer, and none costs the server anything.
    error.retry.decide_reuse(reused);
    let harmless = error.retry();
    let again = match failure_of(&error) {
        _ if harmless => {
            note_tried(context);
            may_repeat
        }
        Some(failure) => fail(context, failure) && may_repeat && grant(context, failure),
        None => false,
    };
    error.set_retry(again);
    error
}

/// Notes the final status of an answer.
///
/// # Errors
/// When the request is to be tried again instead of passing the answer on.
pub(super) fn judge(session: &Session, context: &mut Context, status: StatusCode) -> Result<()> {
    if let (Some(route), Some(held)) = (&context.route, &mut context.place)
        && let ActiveAction::Forward(pool) = &route.action
    {
        pool.answered(held, status, clock::now);
    }
    let failure = Failure::Status(status.as_u16());
    if !status.is_server_error() || !is_repeatable(session) || !grant(context, failure) {
        return Ok(());
    }
    note_tried(context);
    Err(Error::new(ErrorType::Custom(ANOTHER_TRY)).into_up())
}

/// Gives the client the cookie by which it stays with its server, unless it has it.
pub(super) fn give_cookie(
    fields: &mut dyn Fields,
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
        Scheme::Https => Channel::Secure,
        Scheme::Http => Channel::Clear,
    };
    cookie_for(given, rules, channel)
}

fn tag(session: &Session, pool: &Pool) -> Option<u64> {
    tag_in(&session.req_header().headers, pool.rules.sticky.as_ref()?)
}

fn pool_of(context: &Context) -> Option<Arc<Pool>> {
    match &context.route.as_ref()?.action {
        ActiveAction::Forward(pool) => Some(Arc::clone(pool)),
        ActiveAction::Respond(_) | ActiveAction::Redirect(_) => None,
    }
}

/// Whether sending the request once more does no harm and is possible.
fn is_repeatable(session: &Session) -> bool {
    session.req_header().method.is_idempotent() && is_at_hand(session)
}

/// Whether the whole request can be sent once more, to a client that has seen nothing of an answer.
fn is_at_hand(session: &Session) -> bool {
    !session.retry_buffer_truncated() && answered(session).is_none()
}

/// Whether the server says that it has not looked at the request: it refused the stream (RFC 9113 §8.7), or its GOAWAY left it out (§6.8).
/// Of all errors of this type Pingora lets these be tried again, and no others.
fn is_unprocessed(error: &Error) -> bool {
    matches!(
        (error.etype(), error.retry),
        (ErrorType::H2Error, RetryType::Decided(true))
    )
}

/// Notes a failure of the server; whether there was one to fail.
fn fail(context: &mut Context, failure: Failure) -> bool {
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

/// The next try looks for another server.
fn note_tried(context: &mut Context) {
    if let Some(server) = context.server
        && !context.tried.contains(&server)
    {
        // As many fit as there may be tries.
        let _ = context.tried.try_push(server);
    }
}

fn grant(context: &Context, failure: Failure) -> bool {
    let decided = context.decided_at;
    context
        .pool()
        .is_some_and(|pool| pool.grants_retry(failure, context.tries, || clock::since(decided)))
}

/// The server's failure behind an error; `None` where it is another's.
fn failure_of(error: &Error) -> Option<Failure> {
    match (error.esource(), error.etype()) {
        (_, ErrorType::HTTPStatus(504)) => Some(Failure::Timeout),
        (ErrorSource::Upstream, ErrorType::ReadTimedout | ErrorType::WriteTimedout) => {
            Some(Failure::Timeout)
        }
        (ErrorSource::Upstream, ErrorType::HTTPStatus(_)) => None,
        (ErrorSource::Upstream, _) => Some(Failure::Reset),
        _ => None,
    }
}
