//! Owns the client's side of one request: its body, the answer so far, and whether the connection may carry another request.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::task::Poll;

use http::StatusCode;
use pingora::http::RequestHeader;
use pingora::server::ShutdownWatch;
use pingora::{Error, ErrorType, Result};
use sluicegate_base::bounds;
use sluicegate_http1::BodyFraming;
use tokio::time::timeout;

use super::ConnectionState;
use super::client::ClientConnection;
use super::head_writer::{ConnectionPersistence, ResponseParts, write_interim, write_response};
use super::request_body::RequestBody;
use crate::gateway::answer::OwnAnswer;
use crate::gateway::context::Context;
use crate::record::RequestDisposition;

/// The client's side of one request.
pub(super) struct ClientExchange<'a, C> {
    pub(super) client: &'a mut C,
    /// The head of the request, without the fields that were removed.
    pub(super) head: &'a RequestHeader,
    /// The body of the request.
    pub(super) body: RequestBody,
    /// The status of the answer, once its head was written.
    pub(super) status: Option<StatusCode>,
    /// Bytes of the answer's body that were written.
    pub(super) body_bytes: u64,
    persistence: ConnectionPersistence,
    shutdown: &'a ShutdownWatch,
}

impl<'a, C: ClientConnection> ClientExchange<'a, C> {
    /// Returns the exchange before its answer.
    pub(super) fn new(
        client: &'a mut C,
        head: &'a RequestHeader,
        (framing, persistence): (BodyFraming, ConnectionPersistence),
        shutdown: &'a ShutdownWatch,
        context: &Context,
    ) -> Self {
        Self {
            client,
            head,
            body: RequestBody::new(framing, &context.snapshot.rules.server),
            status: None,
            body_bytes: 0,
            persistence,
            shutdown,
        }
    }

    /// Ends the connection with this request.
    pub(super) fn close(&mut self) {
        self.persistence = ConnectionPersistence::Close;
    }

    /// Appends the head of the final answer to `into`; `write_others` appends the fields that are not in the map.
    pub(super) fn begin_answer(
        &mut self,
        into: &mut Vec<u8>,
        head: ResponseParts<'_>,
        framing: BodyFraming,
        write_others: impl FnOnce(&mut Vec<u8>),
    ) {
        if *self.shutdown.borrow() {
            self.close();
        }
        write_response(into, head, framing, self.persistence, write_others);
        self.status = Some(head.status);
    }

    /// Writes an interim answer.
    pub(super) async fn write_interim(&mut self, head: ResponseParts<'_>) -> Result<()> {
        let mut bytes = Vec::with_capacity(256);
        write_interim(&mut bytes, head);
        self.write(&bytes).await
    }

    /// Writes bytes of the answer.
    ///
    /// # Errors
    /// The client has left, or reads too slowly.
    pub(super) async fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let written = self.client.write(bytes).await;
        written.map_err(|error| client_error(ErrorType::WriteError, error))
    }

    /// Writes bytes of the answer. Calls `reserve` if the client does not take them at once; its error ends the write.
    pub(super) async fn write_or_wait(
        &mut self,
        bytes: &[u8],
        reserve: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let mut write = pin!(self.client.write(bytes));
        let mut reserve = Some(reserve);
        let written = poll_fn(|context| match write.as_mut().poll(context) {
            Poll::Ready(written) => Poll::Ready(Ok(written)),
            Poll::Pending => match reserve.take().map(|reserve| reserve()) {
                Some(Err(error)) => Poll::Ready(Err(error)),
                Some(Ok(())) | None => Poll::Pending,
            },
        })
        .await?;
        written.map_err(|error| client_error(ErrorType::WriteError, error))
    }

    /// Writes an answer of the gateway's own.
    pub(super) async fn answer(&mut self, answer: OwnAnswer) -> Result<()> {
        self.drain().await;
        if !self.body.is_over() {
            self.close();
        }
        let framing = match answer.head.headers.get(http::header::CONTENT_LENGTH) {
            Some(_) => BodyFraming::Length(answer.body.len() as u64),
            None => BodyFraming::None,
        };
        let mut bytes = Vec::with_capacity(512 + answer.body.len());
        self.begin_answer(&mut bytes, (&answer.head).into(), framing, |_| {});
        let body = answer.body_for(&self.head.method);
        bytes.extend_from_slice(body.map_or(&[][..], |body| body));
        self.write(&bytes).await?;
        self.body_bytes = body.map_or(0, |body| body.len() as u64);
        Ok(())
    }

    /// Drops a small body that was sent already, so that the connection can go on; a large one is not read to its end.
    pub(super) async fn drain(&mut self) {
        if self.body.is_over() {
            return;
        }
        let discard = async {
            let mut dropped = 0;
            loop {
                match self.body.discard(self.client.received()) {
                    Ok(bytes) => dropped += bytes,
                    Err(_) => return,
                }
                if self.body.is_over() || dropped >= bounds::DRAIN_BYTES {
                    return;
                }
                match self.client.read_more(None).await {
                    Some(Ok(1..)) => {}
                    _ => return,
                }
            }
        };
        // A timeout is the expected end for a slow client or a long body.
        let _ = timeout(bounds::DRAIN_TIME, discard).await;
    }

    /// Returns the state of the connection after a request with this disposition.
    pub(super) fn end(self, disposition: RequestDisposition) -> ConnectionState {
        // Bytes that the client sent, or may send, and that nobody reads.
        let has_unread = !self.body.is_over() || !self.client.received().is_empty();
        match self.persistence {
            ConnectionPersistence::Close if self.status.is_some() && has_unread => {
                ConnectionState::Lingering
            }
            ConnectionPersistence::Close => ConnectionState::Ended,
            ConnectionPersistence::Keep if disposition.is_refusal() => {
                ConnectionState::ReusableAfterRejection
            }
            ConnectionPersistence::Keep => ConnectionState::Reusable,
        }
    }
}

/// Returns the error of a client's connection.
pub(super) fn client_error(error_type: ErrorType, error: io::Error) -> Box<Error> {
    Error::because(error_type, "on the connection of the client", error).into_down()
}
