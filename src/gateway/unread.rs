//! Takes room for an answer among those that wait for their clients ([`UnreadAnswers`]), as soon as it may need it.
//!
//! One whose length is announced takes it with its head, so that a client for whom there is none gets 503. Of another nobody knows whether
//! it will be large, or a stream of small events that never waits; it takes room while its pieces come faster than the client reads, and is
//! cut off where there is none.
//!
//! [`UnreadAnswers`]: crate::budgets::UnreadAnswers

use bytes::Bytes;
use http::StatusCode;
use pingora::http::ResponseHeader;
use pingora::proxy::Session;
use pingora::{Error, ErrorType, Result};

use super::cause::Cause;
use super::context::Context;
use super::error::UNREAD;
use super::{answer, cache};
use crate::bounds::WAITING_PIECE;
use crate::process::SharedState;

/// Takes room for an origin's answer with this head.
///
/// # Errors
/// There is none.
pub(super) fn announce(
    shared: &SharedState,
    session: &Session,
    response: &ResponseHeader,
    context: &mut Context,
) -> Result<()> {
    let is_content = response.status != StatusCode::SWITCHING_PROTOCOLS
        && !answer::has_no_body(session, response)
        && !cache::is_refresh(session);
    match context.origin_length {
        Some(bytes) if is_content => enter(shared, Some(bytes), context),
        _ => Ok(()),
    }
}

/// Takes room for a piece of an answer of unknown length, when much of it waits, and gives it back when little does.
///
/// # Errors
/// There is none.
pub(super) fn pass(
    shared: &SharedState,
    session: &Session,
    body: Option<&Bytes>,
    context: &mut Context,
) -> Result<()> {
    let Some(body) = body else { return Ok(()) };
    if context.origin_length.is_some() || context.on_its_way.is_none() || session.was_upgraded() {
        return Ok(());
    }
    context.passed = context.passed.saturating_add(body.len() as u64);
    let waiting = context
        .passed
        .saturating_sub(session.body_bytes_sent() as u64);
    if waiting < WAITING_PIECE {
        context.unread = None;
        return Ok(());
    }
    if context.unread.is_some() {
        return Ok(());
    }
    enter(shared, None, context)
}

fn enter(shared: &SharedState, body: Option<u64>, context: &mut Context) -> Result<()> {
    let (client, _) = context.client_or_unspecified();
    let rules = &context.snapshot.rules;
    match shared
        .unread_answers
        .enter(client, body, rules, &shared.seed)
    {
        Ok(permit) => {
            context.unread = permit;
            Ok(())
        }
        Err(cap) => {
            let most = shared.unread_answers.most(rules);
            context.cause = Some(Box::new(Cause::of_unread(cap, most)));
            Err(Error::new(ErrorType::Custom(UNREAD)))
        }
    }
}
