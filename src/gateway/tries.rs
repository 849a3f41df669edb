//! Takes a request to a server of its origin, and decides whether it may be taken to another when that fails.
//!
//! Pingora calls in here once a try. What a request was charged for was decided before the first one, so a try charges nothing.

use pingora::proxy::Session;
use pingora::upstreams::peer::HttpPeer;
use pingora::{Error, Result};

use super::context::Context;
use super::error::error_for;
use crate::clock;
use crate::response::Problem;
use crate::snapshot::ActiveAction;

/// The server of the next try.
pub(super) fn next(session: &Session, context: &mut Context) -> Result<Box<HttpPeer>> {
    let (Some(route), Some(admitted)) = (&context.route, &context.admitted) else {
        return Err(error_for(Problem::Internal));
    };
    let ActiveAction::Forward(pool) = &route.action else {
        return Err(error_for(Problem::Internal));
    };
    let server = pool
        .choose(admitted, context.server)
        .ok_or_else(|| error_for(Problem::NoServer))?;
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
    context.server = Some(server.address);
    Ok(server.peer())
}

/// What becomes of a try whose connection could not be made.
pub(super) fn unconnected(context: &mut Context, mut error: Box<Error>) -> Box<Error> {
    // Nothing was sent, so any method may be tried again.
    error.set_retry(context.tries <= context.retries());
    error
}
