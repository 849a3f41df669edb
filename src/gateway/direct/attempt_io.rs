//! Waits for the bytes of both sides of an attempt, and moves those of the request to the origin.

use std::io;
use std::time::Duration;

use http::StatusCode;
use pingora::{Error, ErrorType, Result};
use sluicegate_base::{bounds, clock};
use sluicegate_http1::ResponseHead;

use super::client::RequestClient;
use super::exchange::{ClientExchange, check_client_read};
use crate::gateway::attempts::AttemptRequest;
use crate::gateway::context::Context;
use crate::gateway::error::error_for;
use crate::origin::OriginConnection;
use crate::response::GatewayProblem;

/// An event of an attempt.
pub(super) enum AttemptEvent {
    /// The origin sent so many bytes, 0 at its end; `None` at its timeout.
    Origin(Option<io::Result<usize>>),
    /// The client sent so many bytes, 0 at its end; `None` at its timeout.
    Client(Option<io::Result<usize>>),
}

/// Returns the facts that decide about attempts.
pub(super) fn facts<'a, C: RequestClient>(exchange: &ClientExchange<'a, C>) -> AttemptRequest<'a> {
    AttemptRequest {
        head: exchange.head,
        is_upgrade: exchange.is_upgrade,
        is_buffered: exchange.body.is_repeatable(),
        is_unanswered: exchange.status.is_none(),
    }
}

/// Returns the longest wait for the next bytes of the origin.
pub(super) fn patience(context: &Context) -> Result<Duration> {
    let forwarded = context.forwarded()?;
    let timeouts = &forwarded.pool.rules.timeouts;
    let Some(total) = timeouts.total else {
        return Ok(timeouts.read);
    };
    let left = total.saturating_sub(clock::since(forwarded.attempt.started));
    if left.is_zero() {
        return Err(error_for(GatewayProblem::OriginTimeout));
    }
    Ok(timeouts.read.min(left))
}

/// Waits for bytes of the origin or of the client.
pub(super) async fn next_event<C: RequestClient>(
    origin: &mut OriginConnection,
    exchange: &mut ClientExchange<'_, C>,
    patience: Duration,
) -> AttemptEvent {
    tokio::select! {
        biased;
        read = origin.read_within(patience) => AttemptEvent::Origin(read),
        read = from_client(exchange) => AttemptEvent::Client(read),
    }
}

/// Reads bytes of the body, or waits for the end of the client. Bytes of later requests are no event: each would prolong the origin's time.
async fn from_client<C: RequestClient>(
    exchange: &mut ClientExchange<'_, C>,
) -> Option<io::Result<usize>> {
    if !exchange.body.is_over() {
        let patience = exchange.body.patience();
        return exchange.client.read_more(Some(patience)).await;
    }
    // A client that sends more ahead is read again when these bytes are served.
    while exchange.client.received().len() < bounds::HEAD_READ {
        match exchange.client.read_more(None).await {
            Some(Ok(1..)) => {}
            // The end of a body of HTTP/2 whose length was known.
            Some(Ok(0)) if exchange.is_http2() => {}
            end => return end,
        }
    }
    std::future::pending().await
}

/// Checks the result of a read from the origin.
pub(super) fn origin_bytes(read: Option<io::Result<usize>>, context: &Context) -> Result<()> {
    match read {
        Some(Ok(_)) => Ok(()),
        Some(Err(error)) => {
            Err(Error::because(ErrorType::ReadError, "while reading the response", error).into_up())
        }
        None => {
            // The wait was shortened to the total timeout.
            patience(context)?;
            Err(Error::new(ErrorType::ReadTimedout).into_up())
        }
    }
}

/// Sends the bytes of the body that the client sent to the origin.
pub(super) async fn take_from_client<C: RequestClient>(
    read: Option<io::Result<usize>>,
    origin: &mut OriginConnection,
    exchange: &mut ClientExchange<'_, C>,
    context: &mut Context,
) -> Result<()> {
    if let Some(end) = exchange.body.end(read.as_ref()) {
        exchange.body.keep(&end);
        return write_to(origin, &end, context).await;
    }
    check_client_read(read)?;
    if exchange.body.is_over() {
        // The bytes of a later request.
        return Ok(());
    }
    let mut bytes = Vec::new();
    let body = &mut exchange.body;
    body.take(exchange.client.received(), &mut bytes, context)?;
    write_to(origin, &bytes, context).await
}

/// Writes bytes to the origin.
pub(super) async fn write_to(
    origin: &mut OriginConnection,
    bytes: &[u8],
    context: &Context,
) -> Result<()> {
    let patience = context.forwarded()?.pool.rules.timeouts.write;
    match origin.write_within(bytes, patience).await {
        Some(Ok(())) => Ok(()),
        Some(Err(error)) => {
            Err(Error::because(ErrorType::WriteError, "while writing the request", error).into_up())
        }
        None => Err(Error::new(ErrorType::WriteTimedout).into_up()),
    }
}

/// Returns the status of a parsed head.
pub(super) fn status_of(head: &ResponseHead) -> Result<StatusCode> {
    // A parsed head has three digits.
    StatusCode::from_u16(head.status()).map_err(|_| error_for(GatewayProblem::BadGateway))
}
