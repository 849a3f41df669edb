//! Waits for the bytes of both sides of an attempt, and moves those of the request to the origin.

use futures_util::FutureExt;
use sluicegate_base::{bounds, clock};

use super::client::RequestClient;
use super::exchange::{ClientExchange, check_client_read};
use super::leaving;
use super::session::ProxySession;
use crate::gateway::attempts::{self, AttemptRequest};
use crate::gateway::forwarded::ForwardedRequest;
use crate::gateway::stalled_upload::UploadWait;
use sluicegate_origin::request_failure::{ClientFailure, OriginFailure, OriginTimeout, Result};
use sluicegate_origin::{OriginChannel, OriginEvent, OriginPatience, OriginWait, UploadPart};
use sluicegate_transport::body_end::BodyEnd;
use sluicegate_transport::thread_buffer::WriteBuffer;

/// An event of an attempt.
pub(super) enum AttemptEvent {
    /// The origin sent something, or took bytes that waited for it.
    Origin(OriginEvent),
    /// The client sent so many bytes, 0 at its end.
    Client(usize),
}

impl<C: RequestClient> ProxySession<'_, '_, C> {
    /// Waits for an event of the origin or of the client. While bytes wait for the origin, no more of the body are read.
    ///
    /// # Errors
    /// The connection to the origin failed, or the origin was silent for too long; or a read from the client failed.
    pub(super) async fn next_event(&mut self, origin: &mut OriginChannel) -> Result<AttemptEvent> {
        let mut patience = patience(self.forwarded)?;
        if self.forwarded.attempt.answer.is_none()
            && let Some(rest) = origin.rest_of_head_wait()
        {
            patience.read = patience.read.or_shorter(rest);
        }
        let waits_for = waits_for(self.exchange, origin);
        tokio::select! {
            biased;
            event = origin.next(patience) => event.map(AttemptEvent::Origin),
            read = from_client(self.exchange, waits_for) => read.map(AttemptEvent::Client),
        }
    }

    /// Sends bytes of the body that have come by now, without a wait, so that an answer that comes together with them ends no connection of
    /// HTTP/1 for a body that is here.
    pub(super) async fn take_received(&mut self, origin: &mut OriginChannel) -> Result<()> {
        let exchange = &mut *self.exchange;
        if exchange.body.is_over() || exchange.has_stream() || !origin.is_writable() {
            return Ok(());
        }
        match exchange.client.read_more(None).now_or_never() {
            Some(Ok(bytes @ 1..)) => self.take_from_client(bytes, origin).await,
            _ => Ok(()),
        }
    }

    /// Sends the bytes of the body that the client sent to the origin, which were so many.
    pub(super) async fn take_from_client(
        &mut self,
        read: usize,
        origin: &mut OriginChannel,
    ) -> Result<()> {
        let body = &mut self.exchange.body;
        let client = &mut self.exchange.client;
        let mut bytes = WriteBuffer::take();
        if body.end(read) {
            body.write_end(&mut bytes);
        } else {
            check_client_read(read)?;
            if body.is_over() {
                // The bytes of a later request.
                return Ok(());
            }
            body.take(client.received(), &mut bytes, self.forwarded, self.context)?;
        }
        let end = BodyEnd::here_if(body.is_over());
        if end.is_here() {
            body.note_end();
            attempts::uploads(self.forwarded, UploadPart::Last);
        }
        origin.send(&bytes, end).await;
        Ok(())
    }
}

/// Returns the side that the request's body waits for.
pub(super) fn waits_for<C: RequestClient>(
    exchange: &ClientExchange<'_, C>,
    origin: &OriginChannel,
) -> UploadWait {
    if exchange.body.is_over() || !origin.is_writable() {
        UploadWait::Server
    } else {
        UploadWait::Client
    }
}

/// Returns the facts that decide about attempts.
pub(super) fn facts<'a, C: RequestClient>(exchange: &ClientExchange<'a, C>) -> AttemptRequest<'a> {
    AttemptRequest {
        head: exchange.head,
        is_buffered: exchange.body.is_repeatable(),
        is_unanswered: exchange.status.is_none(),
    }
}

/// Returns the longest waits for the origin.
///
/// # Errors
/// The time for the whole response is over.
pub(super) fn patience(forwarded: &ForwardedRequest) -> Result<OriginPatience> {
    let timeouts = &forwarded.pool.rules.timeouts;
    let read = OriginWait {
        most: timeouts.read,
        timeout: match forwarded.attempt.answer {
            Some(_) => OriginTimeout::Read(timeouts.read),
            None => OriginTimeout::FirstByte(timeouts.read),
        },
    };
    let write = OriginWait {
        most: timeouts.write,
        timeout: OriginTimeout::Write(timeouts.write),
    };
    let Some(total) = timeouts.total else {
        return Ok(OriginPatience { read, write });
    };
    let rest = OriginWait {
        most: total.saturating_sub(clock::since(forwarded.attempt.started)),
        timeout: OriginTimeout::Total(total),
    };
    if rest.most.is_zero() {
        return Err(OriginFailure::Timeout(rest.timeout).into());
    }
    Ok(OriginPatience {
        read: read.or_shorter(rest),
        write: write.or_shorter(rest),
    })
}

/// Reads bytes of the body if the upload waits for them, or else waits for the end of the client. Bytes of later requests are no event:
/// each would prolong the origin's time.
///
/// # Errors
/// The client left while nothing was read from it, or a read failed.
async fn from_client<C: RequestClient>(
    exchange: &mut ClientExchange<'_, C>,
    waits_for: UploadWait,
) -> Result<usize> {
    if waits_for == UploadWait::Client {
        let patience = exchange.body.patience();
        return Ok(exchange.client.read_more(Some(patience)).await?);
    }
    if !exchange.body.is_over() {
        leaving::left(exchange.client).await;
        return Err(ClientFailure::Closed.into());
    }
    // A client that sends more ahead is read again when these bytes are served.
    while exchange.client.received().len() < bounds::HEAD_READ {
        match exchange.client.read_more(None).await? {
            1.. => {}
            // The end of a body of HTTP/2 whose length was known.
            0 if exchange.has_stream() => {}
            0 => return Ok(0),
        }
    }
    leaving::left(exchange.client).await;
    Err(ClientFailure::Closed.into())
}
