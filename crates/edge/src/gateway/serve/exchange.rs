//! Owns the client's side of one request: its body, the answer so far, and whether the connection may carry another request.

use std::borrow::Cow;
use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::pin;
use std::task::Poll;

use bytes::BytesMut;
use http::{HeaderMap, Method, StatusCode, Version};
use pingora::server::ShutdownWatch;
use sluicegate_base::bounds;
use sluicegate_base::received::ReceivedHead;
use sluicegate_decide::response::GatewayProblem;
use sluicegate_http1::BodyFraming;
use tokio::io::AsyncWriteExt;
use tokio::time::timeout;

use super::client::RequestClient;
use super::connection_state::ConnectionState;
use super::field_sink::FieldSink;
use super::head_writer::{
    AnswerHead, ConnectionPersistence, NO_OTHERS, ResponseParts, WriteOthers,
};
use super::received::{RequestWire, awaits_empty_end};
use super::request_body::RequestBody;
use super::response_head::standard_reason;
use crate::gateway::answer::OwnAnswer;
use crate::gateway::body::BodyPrefix;
use crate::gateway::context::Context;
use crate::gateway::extended_connect::unopened_status;
use crate::gateway::http_versions::has_streams;
use crate::gateway::{key_body, unread};
use sluicegate_budgets::ClientAccount;
use sluicegate_cache::name_case::ReceivedNames;
use sluicegate_decide::admission::body_is_read;
use sluicegate_origin::request_failure::{ClientFailure, Result};
use sluicegate_process::SharedState;
use sluicegate_transport::body_end::BodyEnd;
use sluicegate_transport::thread_buffer::WriteBuffer;

/// The client's side of one request.
pub(super) struct ClientExchange<'a, C> {
    pub(super) client: &'a mut C,
    /// The head of the request, without the fields that were removed.
    pub(super) head: &'a ReceivedHead,
    /// The body of the request.
    pub(super) body: RequestBody,
    /// The status of the answer, once its head was written.
    pub(super) status: Option<StatusCode>,
    /// Bytes of the answer's body that were written.
    pub(super) body_bytes: u64,
    /// True if the client asks for an upgrade to WebSocket.
    pub(super) is_upgrade: bool,
    /// The names of the fields of the request, for an origin that distinguishes their case.
    pub(super) names: Option<ReceivedNames>,
    /// True if the body is announced as empty, and its end was not received.
    awaits_empty_end: bool,
    /// True while the client holds the body back until it gets `100 Continue`.
    holds_body: bool,
    /// The method that the request was sent with.
    method: &'a Method,
    persistence: ConnectionPersistence,
    shared: &'a SharedState,
    shutdown: &'a ShutdownWatch,
    /// The address of the request's client.
    address: IpAddr,
}

impl<'a, C: RequestClient> ClientExchange<'a, C> {
    /// Returns the exchange before its answer.
    pub(super) fn new(
        client: &'a mut C,
        head: &'a ReceivedHead,
        wire: &'a RequestWire,
        (shared, shutdown): (&'a SharedState, &'a ShutdownWatch),
        context: &Context,
    ) -> Self {
        let route = context.route();
        let is_repeatable = head.method.is_idempotent()
            || route.is_some_and(|route| route.action.may_leave_requests());
        let server = &context.snapshot.compiled.rules.server;
        let mut body = RequestBody::new(wire.framing, server);
        if is_repeatable {
            body = body.repeatable();
        }
        Self {
            client,
            head,
            awaits_empty_end: awaits_empty_end(wire, head),
            holds_body: wire.expects_continue && !body.is_over(),
            body,
            status: None,
            body_bytes: 0,
            is_upgrade: wire.is_upgrade,
            names: None,
            method: &wire.method,
            persistence: wire.persistence,
            shared,
            shutdown,
            address: context.client_or_unspecified().0,
        }
    }

    /// Returns the account of the request's client: that of the connection, or of the client that a trusted proxy names.
    pub(super) fn account(
        &self,
        shared: &SharedState,
        context: &Context,
    ) -> Cow<'_, ClientAccount> {
        let (client, _) = context.client_or_unspecified();
        let of_connection = self.client.account();
        if of_connection.is_of(client) {
            return Cow::Borrowed(of_connection);
        }
        let rules = &context.snapshot.compiled.rules.client;
        Cow::Owned(shared.accounts.find(client, rules))
    }

    /// Returns the signal that the process shuts down.
    pub(super) fn shutdown(&self) -> &ShutdownWatch {
        self.shutdown
    }

    /// Ends the connection with this request.
    pub(super) fn close(&mut self) {
        self.persistence = ConnectionPersistence::Close;
    }

    /// Returns the framing for the client of a body that comes with this framing: a body of unknown length is sent in chunks. HTTP/1.0 has
    /// none, so the end of the connection ends it, RFC 9112 §6.3.
    pub(super) fn client_framing(&mut self, framing: BodyFraming) -> BodyFraming {
        match framing {
            BodyFraming::None | BodyFraming::Length(_) => framing,
            BodyFraming::Chunked | BodyFraming::UntilClose if self.is_http10() => {
                self.close();
                BodyFraming::UntilClose
            }
            // The stream ends the body.
            BodyFraming::Chunked | BodyFraming::UntilClose if self.has_stream() => {
                BodyFraming::UntilClose
            }
            BodyFraming::Chunked | BodyFraming::UntilClose => BodyFraming::Chunked,
        }
    }

    /// Returns whether the request has a stream of its own, as over HTTP/2 and HTTP/3.
    pub(super) fn has_stream(&self) -> bool {
        has_streams(self.head.version)
    }

    fn is_http10(&self) -> bool {
        self.head.version == Version::HTTP_10
    }

    /// Begins the final answer: its head is sent, or appended to `into`. RFC 9112 §9.6: a body that has not ended by now may never end, so
    /// the connection ends with the answer, which says so.
    pub(super) fn begin_answer(
        &mut self,
        into: &mut Vec<u8>,
        mut head: ResponseParts<'_>,
        framing: BodyFraming,
        write_others: WriteOthers<'_>,
    ) -> Result<()> {
        if self.is_upgrade && self.has_stream() {
            head.status = unopened_status(head.status);
        }
        if head.status == StatusCode::SWITCHING_PROTOCOLS {
            self.persistence = ConnectionPersistence::Switch;
        } else if *self.shutdown.borrow() || !self.body.is_over() {
            self.close();
        }
        self.status = Some(head.status);
        // No attempt follows an answer.
        self.body.release_replay();
        self.begin(into, head, framing, write_others)
    }

    fn begin(
        &mut self,
        into: &mut Vec<u8>,
        parts: ResponseParts<'_>,
        framing: BodyFraming,
        write_others: WriteOthers<'_>,
    ) -> Result<()> {
        let head = AnswerHead {
            parts,
            framing,
            persistence: self.persistence,
            write_others,
        };
        let begun = self.client.begin_answer(into, head);
        Ok(begun.map_err(ClientFailure::Broken)?)
    }

    /// Asks for the body, if the client holds it back (RFC 9110 §15.2.1).
    pub(super) async fn ask_for_body(&mut self) -> Result<()> {
        if !std::mem::take(&mut self.holds_body) {
            return Ok(());
        }
        self.write_interim(ResponseParts {
            status: StatusCode::CONTINUE,
            reason: b"Continue",
            fields: HeaderMap::new(),
        })
        .await
    }

    /// Receives the end of a body that is announced as empty. From then on it has a length: an origin that reads one of 0 takes the
    /// request for whole.
    pub(super) async fn receive_empty_end(&mut self) -> Result<()> {
        if !std::mem::take(&mut self.awaits_empty_end) {
            return Ok(());
        }
        if !self.body.is_over() {
            let patience = self.body.patience();
            let read = self.client.read_more(Some(patience)).await?;
            if !self.body.end(read) {
                return Ok(check_client_read(read)?);
            }
        }
        self.body.framing = BodyFraming::Length(0);
        Ok(())
    }

    /// Reads the bytes of the body that keys need, of a body of at most `max_body_bytes`. `Ok(Err)` is the problem to answer with.
    ///
    /// # Errors
    /// The client has left, its body is malformed, or there is no room for it.
    pub(super) async fn read_key_body(
        &mut self,
        shared: &SharedState,
        max_body_bytes: u64,
        context: &mut Context,
    ) -> Result<Result<BodyPrefix, GatewayProblem>> {
        if !self.body.is_over() && !body_is_read(&self.head.method, &self.head.headers) {
            return Ok(Ok(BodyPrefix::OfOtherKind));
        }
        let server = &context.snapshot.compiled.rules.server;
        let most = server.max_key_body_bytes;
        let patience = server.client_read_timeout;
        if (self.body.framing.length()).is_some_and(|bytes| bytes > most as u64) {
            return Ok(Ok(BodyPrefix::TooLarge));
        }
        if !self.body.is_over() {
            let bytes = self.body.framing.length().unwrap_or(most as u64);
            let account = self.account(shared, context);
            key_body::reserve(shared, &account, bytes, context)?;
        }
        self.ask_for_body().await?;
        // One deadline for all, so that a byte every few seconds does not hold the memory forever.
        let read = self.read_body_up_to(most, max_body_bytes, context);
        let read = timeout(patience, read).await;
        key_body::shrink_to(context.received, context);
        read.unwrap_or(Ok(Err(GatewayProblem::BodyTimeout)))
    }

    async fn read_body_up_to(
        &mut self,
        most: usize,
        max_body_bytes: u64,
        context: &mut Context,
    ) -> Result<Result<BodyPrefix, GatewayProblem>> {
        // An announced body fits, so the copy for keys is as long as it.
        let announced = self.body.framing.length();
        let announced = announced.and_then(|bytes| usize::try_from(bytes).ok());
        let mut data = BytesMut::with_capacity(announced.map_or(0, |bytes| bytes.min(most)));
        loop {
            let received = self.client.received();
            self.body.take_early(received, &mut data)?;
            context.received = data.len() as u64;
            if context.received > max_body_bytes {
                return Ok(Err(GatewayProblem::BodyTooLarge));
            }
            if data.len() > most {
                return Ok(Ok(BodyPrefix::TooLarge));
            }
            if self.body.is_over() {
                return Ok(Ok(BodyPrefix::Whole(data.freeze())));
            }
            let read = self.client.read_more(None).await?;
            if !self.body.end(read) {
                check_client_read(read)?;
            }
        }
    }

    /// Writes an interim answer. HTTP/1.0 has none, RFC 9110 §15.2.
    pub(super) async fn write_interim(&mut self, head: ResponseParts<'_>) -> Result<()> {
        if self.is_http10() {
            return Ok(());
        }
        let mut bytes = Vec::with_capacity(256);
        self.begin(&mut bytes, head, BodyFraming::None, NO_OTHERS)?;
        self.write(&bytes, BodyEnd::NotYet).await
    }

    /// Writes bytes of an answer of the gateway's own. What the client does not take at once takes room among unread answers.
    ///
    /// # Errors
    /// The client has left, or reads too slowly, or there is no room.
    pub(super) async fn write(&mut self, bytes: &[u8], end: BodyEnd) -> Result<()> {
        self.write_pieces([bytes, b""], end).await
    }

    /// Writes the bytes of two pieces of the answer, as [`write`](Self::write) does.
    pub(super) async fn write_pieces(&mut self, pieces: [&[u8]; 2], end: BodyEnd) -> Result<()> {
        let shared = self.shared;
        let address = self.address;
        let [own, stored] = pieces.map(<[u8]>::len);
        // Over HTTP/2 what is written was copied.
        let bytes = 2 * own + stored;
        let mut permit = None;
        let reserve = || {
            permit = unread::reserve_pending(shared, address, bytes)?;
            Ok(())
        };
        self.write_or_wait((pieces, end), reserve).await
    }

    /// Gives the permits of the request back, once the bytes of its answer that were written have left: only the end of the answer is still
    /// to be sent, so a client that has the whole of it may ask again at once.
    pub(super) async fn release_permits(&mut self, context: &mut Context) -> Result<()> {
        self.client.sent().await?;
        context.finish_response();
        Ok(())
    }

    /// Ends the answer, with trailers if there are some.
    pub(super) async fn end_answer(&mut self, trailers: Option<HeaderMap>) -> Result<()> {
        Ok(self.client.end_answer(trailers).await?)
    }

    /// Writes bytes of the answer. Calls `reserve` if the client does not take them at once; its error ends the write.
    pub(super) async fn write_or_wait(
        &mut self,
        (pieces, end): ([&[u8]; 2], BodyEnd),
        reserve: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let mut write = pin!(self.client.write(pieces, end));
        let mut reserve = Some(reserve);
        poll_fn(|context| match write.as_mut().poll(context) {
            Poll::Ready(written) => Poll::Ready(Ok(written?)),
            Poll::Pending => match reserve.take().map(|reserve| reserve()) {
                Some(Err(failure)) => Poll::Ready(Err(failure)),
                Some(Ok(())) | None => Poll::Pending,
            },
        })
        .await
    }

    /// Writes an answer of the gateway's own, with which the request ends.
    pub(super) async fn answer(&mut self, answer: OwnAnswer, context: &mut Context) -> Result<()> {
        self.drain().await;
        let mut bytes = WriteBuffer::take();
        self.append_answer(&mut bytes, answer, context)?;
        let written = async {
            self.write(&bytes, BodyEnd::Here).await?;
            self.release_permits(context).await?;
            self.end_answer(None).await
        };
        let written = written.await;
        if written.is_err() {
            self.body_bytes = 0;
        }
        written
    }

    /// Appends an answer of the gateway's own to `into`.
    pub(super) fn append_answer(
        &mut self,
        into: &mut Vec<u8>,
        mut answer: OwnAnswer,
        context: &Context,
    ) -> Result<()> {
        let head = ResponseParts {
            status: answer.status,
            reason: standard_reason(answer.status),
            fields: std::mem::take(&mut answer.fields),
        };
        let write_others = |into: &mut dyn FieldSink| {
            answer.write_others(into, context);
            false
        };
        self.begin_answer(into, head, answer.framing(), &write_others)?;
        if let Some(body) = answer.body_for(self.method) {
            into.extend_from_slice(body);
            self.body_bytes = body.len() as u64;
        }
        Ok(())
    }

    /// Drops the bytes of the body that were received.
    ///
    /// # Errors
    /// Its chunks are malformed.
    pub(super) fn discard_received(&mut self) -> Result<()> {
        self.body.discard(self.client.received())?;
        Ok(())
    }

    /// Drops a small body that was sent already, so that the connection goes on, or no reset overtakes the answer; a large one is not read
    /// to its end.
    pub(super) async fn drain(&mut self) {
        // A client that holds its body back sends none after a final answer.
        if self.body.is_over() || self.holds_body {
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
                    Ok(1..) => {}
                    _ => return,
                }
            }
        };
        // A timeout is the expected end for a slow client or a long body.
        let _ = timeout(bounds::DRAIN_TIME, discard).await;
    }

    /// Ends the output of a connection that carries no other answer, so that its client does not wait for what follows the answer here.
    pub(super) async fn end_output(&mut self) {
        if self.persistence != ConnectionPersistence::Close {
            return;
        }
        if let Some(stream) = self.client.stream() {
            // A client that reads nothing any more needs no close_notify.
            let _ = timeout(bounds::LINGER_TIME, stream.shutdown()).await;
        }
    }

    /// Returns the state of the connection after the request.
    pub(super) fn end(&mut self) -> ConnectionState {
        // Bytes that the client sent, or may send, and that nobody reads.
        let has_unread = !self.body.is_over() || !self.client.received().is_empty();
        match self.persistence {
            ConnectionPersistence::Close if self.status.is_some() && has_unread => {
                ConnectionState::Lingering
            }
            ConnectionPersistence::Close | ConnectionPersistence::Switch => ConnectionState::Ended,
            ConnectionPersistence::Keep => ConnectionState::Reusable,
        }
    }
}

/// Checks that a read from the client, which waits for bytes of its body, has some.
pub(super) fn check_client_read(bytes: usize) -> Result<(), ClientFailure> {
    match bytes {
        0 => Err(ClientFailure::Closed),
        _ => Ok(()),
    }
}
