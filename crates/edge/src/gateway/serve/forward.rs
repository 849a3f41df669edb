//! Forwards an admitted request: attempts at servers, each of which writes the request, reads the response and passes it on.
//!
//! One function owns both sides of an attempt. While the origin is awaited, the client is read too: its body goes to the origin, bytes of
//! a later request wait for their turn, and its end ends the attempt.

use std::pin::pin;

use bytes::Buf;
use http::header::{ACCEPT_ENCODING, HeaderValue};
use http::{HeaderMap, StatusCode};
use sluicegate_base::bounds;
use sluicegate_http1::{HeadError, HeadLimits, HeadProgress, ResponseHead};

use super::after_response::AfterAttempt;
use super::attempt_io::{AttemptEvent, facts, waits_for};
use super::body_change::end_at_head;
use super::cached;
use super::client::RequestClient;
use super::exchange::ClientExchange;
use super::head_check::{check_chunks, check_switch};
use super::head_writer::{RequestParts, ResponseParts, write_request};
use super::leaving::unless_left;
use super::response_head::{FinalHead, LentHead, standard_reason, status_of, stream_fields};
use super::response_split::{MappedFields, mapped_fields};
use super::session::ProxySession;
use super::stream_request::StreamRequest;
use crate::gateway::extended_connect::check_accept;
use crate::gateway::forwarded::ForwardedRequest;
use crate::gateway::{attempts, http_versions, replay_bytes, stalled_upload};
use sluicegate_origin::request_failure::{
    ClientFailure, HeadFailure, OriginFailure, RequestFailure, Result,
};
use sluicegate_origin::{
    FieldChanges, FieldEdit, InterimHeads, OriginChannel, OriginEvent, ProtocolNeed, UploadPart,
    remove_hop_by_hop, strip_hop_by_hop,
};
use sluicegate_transport::body_end::BodyEnd;
use sluicegate_transport::thread_buffer::WriteBuffer;

/// The status of a response after which the connection carries another protocol.
const SWITCHING_PROTOCOLS: u16 = StatusCode::SWITCHING_PROTOCOLS.as_u16();

/// Characters of the first line of a malformed head that are shown.
const FIRST_LINE: usize = 60;

impl<C: RequestClient> ProxySession<'_, '_, C> {
    /// Sends the request to servers of its origin until one answers, and passes the answer on.
    pub(super) async fn forward(&mut self) -> Result<()> {
        let shared = &self.gateway.0;
        // To the end of the last attempt.
        let _in_flight = attempts::enter(shared, self.forwarded, self.context)?;
        let reserve = |bytes| replay_bytes::reserve(shared, bytes, self.forwarded, self.context);
        self.exchange.body.reserve_replay(reserve);
        loop {
            let server = {
                let request = facts(self.exchange);
                let picked = pin!(attempts::pick(request, self.forwarded, self.context));
                unless_left(self.exchange.client, picked).await??
            };
            let need = if self.exchange.is_upgrade {
                ProtocolNeed::Upgrade
            } else {
                ProtocolNeed::Any
            };
            let stale = self.forwarded.stale.as_ref();
            let opened_since = stale.map(|stale| stale.noticed);
            let connected = pin!(shared.origins.connect(&server, need, opened_since));
            let mut origin = match unless_left(self.exchange.client, connected).await? {
                Ok(origin) => origin,
                Err(error) => {
                    attempts::unconnected(error, self.forwarded, self.context)?;
                    continue;
                }
            };
            if !attempts::connected(self.forwarded, origin.socket()) {
                continue;
            }
            let failure = match self.attempt(&mut origin).await {
                Ok(AfterAttempt::Keep) => {
                    let timeout = server.idle_timeout();
                    shared.origins.keep(origin, timeout);
                    return Ok(());
                }
                Ok(AfterAttempt::Close) => return Ok(()),
                Ok(AfterAttempt::Repeat) => continue,
                Err(failure) => failure,
            };
            let RequestFailure::Origin(failure) = *failure else {
                return Err(failure);
            };
            let waits_for = waits_for(self.exchange, &origin);
            if stalled_upload::is_to_blame(&failure, waits_for, self.forwarded, self.context) {
                return Err(ClientFailure::Stalled.into());
            }
            if matches!(failure, OriginFailure::Timeout(_)) {
                origin.retire_if_silent();
                self.note_timeout();
            }
            let excuse = shared.origins.excuse(&failure, &origin, &server);
            let request = facts(self.exchange);
            let failure = (failure, excuse);
            attempts::interrupted(request, failure, self.forwarded, self.context)?;
        }
    }

    /// Records the time of a server that had the whole request, and whose head did not come in time.
    fn note_timeout(&self) {
        let pool = &self.forwarded.pool;
        let attempt = &self.forwarded.attempt;
        let body = &self.exchange.body;
        if body.is_over() && attempt.answer.is_none() {
            pool.latency.record(|| body.server_time(attempt.started));
        }
    }

    /// Makes one attempt over a connection.
    async fn attempt(&mut self, origin: &mut OriginChannel) -> Result<AfterAttempt> {
        self.send_request(origin).await?;
        let head = self.await_head(origin).await?;
        self.relay(origin, head).await
    }

    /// Writes the head and the bytes of the body that are here.
    async fn send_request(&mut self, origin: &mut OriginChannel) -> Result<()> {
        let exchange = &mut *self.exchange;
        let forwarded = &mut *self.forwarded;
        let context = &mut *self.context;
        let head = exchange.head;
        let received = &head.headers;
        let mut fields = FieldChanges::new(received);
        remove_hop_by_hop(&mut fields, received);
        cached::ask_for_whole(&mut fields, forwarded);
        http_versions::name_host(head, &mut fields)?;
        http_versions::write_cookies(
            head,
            &context.snapshot.compiled.challenge_cookies,
            &mut fields,
        )?;
        self.gateway
            .edit_fields_for_origin(head, &mut fields, forwarded, context);
        if forwarded.route.compiled.limits.read_response_body() {
            // The cost is read out of the body as it passes.
            fields.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        }
        let rewritten = forwarded.target.path.as_deref();
        let parts = RequestParts {
            method: cached::sent_method(head, forwarded),
            target: rewritten.map_or_else(|| head.raw_path(), str::as_bytes),
            fields: &fields,
            is_upgrade: exchange.is_upgrade,
        };
        let framing = exchange.body.origin_framing(origin);
        let mut bytes = WriteBuffer::take();
        if origin.is_http2() {
            let scheme = forwarded.pool.scheme();
            let request = StreamRequest::new(parts, received, framing, scheme)?;
            let end = end_at_head(framing);
            origin.send_head(request.pseudo_fields(), request.fields(), end)?;
        } else {
            write_request(&mut bytes, parts, framing);
            if let Some(names) = &exchange.names {
                names.restore(&mut bytes);
            }
        }
        let body = &mut exchange.body;
        body.begin_attempt(framing, &mut bytes);
        body.take(exchange.client.received(), &mut bytes, forwarded, context)?;
        let end = BodyEnd::here_if(body.is_over());
        if end == BodyEnd::NotYet {
            attempts::uploads(forwarded, UploadPart::Begun);
        }
        origin.send(&bytes, end).await;
        Ok(())
    }

    /// Reads up to the end of the final head. Interim responses are passed on.
    async fn await_head(&mut self, origin: &mut OriginChannel) -> Result<FinalHead> {
        let limits = head_limits(self.forwarded);
        let mut head = LentHead::take();
        let mut counted = InterimHeads::default();
        loop {
            match head.parse(&origin.read, &limits) {
                Ok(HeadProgress::Whole(bytes)) if is_final(&head, self.exchange) => {
                    if head.status() == SWITCHING_PROTOCOLS {
                        check_switch(&head, &origin.read).map_err(OriginFailure::from)?;
                        if self.exchange.has_stream() {
                            let request = self.exchange.head;
                            check_accept(request, &head, &origin.read)
                                .map_err(OriginFailure::from)?;
                        }
                    }
                    let method = cached::sent_method(self.exchange.head, self.forwarded);
                    check_chunks(&head, &origin.read[bytes..], method)
                        .map_err(OriginFailure::MalformedBody)?;
                    return Ok(FinalHead::Http1(head, bytes));
                }
                Ok(HeadProgress::Whole(bytes)) => {
                    let read = &origin.read[..bytes];
                    let received = head.fields().iter(read);
                    let lines = received.map(|field| (field.name, field.value));
                    counted.count(lines).map_err(OriginFailure::from)?;
                    let fields = mapped_fields(head.fields().iter(read), MappedFields::All);
                    let status = status_of(head.status())?;
                    let reason = head.reason(read).to_vec();
                    origin.read.advance(bytes);
                    head.clear();
                    let interim = (status, &reason[..], fields);
                    self.pass_interim(interim).await?;
                    continue;
                }
                Ok(HeadProgress::Partial) => {}
                Err(error) => {
                    let failure = head_failure(error, &origin.read, &limits);
                    return Err(OriginFailure::Head(failure).into());
                }
            }
            match self.next_event(origin).await? {
                AttemptEvent::Origin(OriginEvent::Bytes(0)) => {
                    return Err(OriginFailure::Closed(origin.read.len()).into());
                }
                AttemptEvent::Origin(OriginEvent::Head(head)) => {
                    if head.fields().len() > limits.fields {
                        let failure = HeadFailure::TooManyFields(limits.fields);
                        return Err(OriginFailure::Head(failure).into());
                    }
                    if !head.is_interim() {
                        return Ok(FinalHead::Http2(head, origin.is_ended()));
                    }
                    let status = status_of(head.status())?;
                    let fields = mapped_fields(stream_fields(&head), MappedFields::All);
                    let interim = (status, standard_reason(status), fields);
                    self.pass_interim(interim).await?;
                }
                AttemptEvent::Origin(OriginEvent::Bytes(_) | OriginEvent::Sent) => {}
                AttemptEvent::Client(read) => self.take_from_client(read, origin).await?,
            }
        }
    }

    /// Passes an interim response on; the client asked for none, so a `100 Continue` is dropped.
    async fn pass_interim(
        &mut self,
        (status, reason, mut fields): (StatusCode, &[u8], HeaderMap),
    ) -> Result<()> {
        if status == StatusCode::SWITCHING_PROTOCOLS {
            return Err(OriginFailure::Head(HeadFailure::UnaskedSwitch).into());
        }
        if status == StatusCode::CONTINUE {
            return Ok(());
        }
        strip_hop_by_hop(&mut fields, status);
        for name in self.forwarded.route.compiled.limits.confidential() {
            fields.remove(name);
        }
        let head = ResponseParts {
            status,
            reason,
            fields,
        };
        // Boxed: few responses have one.
        Box::pin(self.exchange.write_interim(head)).await
    }
}

/// Returns whether no other head follows this one.
fn is_final<C>(head: &ResponseHead, exchange: &ClientExchange<'_, C>) -> bool {
    head.status() >= 200 || (exchange.is_upgrade && head.status() == SWITCHING_PROTOCOLS)
}

/// Returns the bounds of the heads of responses.
fn head_limits(forwarded: &ForwardedRequest) -> HeadLimits {
    HeadLimits {
        bytes: bounds::RESPONSE_HEAD,
        fields: forwarded.pool.rules.max_response_fields,
        target: usize::MAX,
    }
}

/// Returns the failure of a head that the parser rejects.
fn head_failure(error: HeadError, read: &[u8], limits: &HeadLimits) -> HeadFailure {
    match error {
        HeadError::Rule(rule) => {
            let line = read.split(|byte| b"\r\n".contains(byte)).next();
            let line = line.unwrap_or_default().escape_ascii().map(char::from);
            HeadFailure::Malformed(rule, line.take(FIRST_LINE).collect())
        }
        // Of a head with fewer bytes, the fields are too many.
        HeadError::TooLarge if read.len() <= limits.bytes => {
            HeadFailure::TooManyFields(limits.fields)
        }
        HeadError::TooLarge | HeadError::TargetTooLong => HeadFailure::TooLarge,
    }
}
