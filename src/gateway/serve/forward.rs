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
use super::attempt_io::{AttemptEvent, facts, next_event, take_from_client, waits_for};
use super::body_change::end_at_head;
use super::cached;
use super::client::RequestClient;
use super::exchange::ClientExchange;
use super::head_check::{check_chunks, check_switch};
use super::head_writer::{RequestParts, ResponseParts, write_request};
use super::leaving::unless_left;
use super::response_head::{FinalHead, LentHead, status_of};
use super::response_split::{MappedFields, mapped_fields};
use super::stream_request::stream_request;
use crate::body_end::BodyEnd;
use crate::failure::{ClientFailure, HeadFailure, OriginFailure, RequestFailure, Result};
use crate::gateway::context::Context;
use crate::gateway::forwarded::ForwardedRequest;
use crate::gateway::{Gateway, attempts, http_versions, replay_bytes, stalled_upload};
use crate::origin::{
    FieldChanges, FieldEdit, InterimHeads, OriginChannel, OriginEvent, ProtocolNeed, UploadPart,
    remove_hop_by_hop, strip_hop_by_hop,
};
use crate::thread_buffer::WriteBuffer;

/// The status of a response after which the connection carries another protocol.
const SWITCHING_PROTOCOLS: u16 = StatusCode::SWITCHING_PROTOCOLS.as_u16();

/// Characters of the first line of a malformed head that are shown.
const FIRST_LINE: usize = 60;

impl Gateway {
    /// Sends the request to servers of its origin until one answers, and passes the answer on.
    pub(super) async fn forward<C: RequestClient>(
        &self,
        exchange: &mut ClientExchange<'_, C>,
        forwarded: &mut ForwardedRequest,
        context: &mut Context,
    ) -> Result<()> {
        // To the end of the last attempt.
        let _in_flight = attempts::enter(&self.0, forwarded, context)?;
        let reserve = |bytes| replay_bytes::reserve(&self.0, bytes, forwarded, context);
        exchange.body.reserve_replay(reserve);
        loop {
            let server = {
                let picked = pin!(attempts::pick(facts(exchange), forwarded, context));
                unless_left(exchange.client, picked).await??
            };
            let need = if exchange.is_upgrade {
                ProtocolNeed::Upgrade
            } else {
                ProtocolNeed::Any
            };
            let stale = forwarded.stale.as_ref();
            let opened_since = stale.map(|stale| stale.noticed);
            let connected = pin!(self.0.origins.connect(&server, need, opened_since));
            let mut origin = match unless_left(exchange.client, connected).await? {
                Ok(origin) => origin,
                Err(error) => {
                    attempts::unconnected(error, forwarded, context)?;
                    continue;
                }
            };
            if !attempts::connected(forwarded, origin.socket()) {
                continue;
            }
            let attempted = self.attempt(&mut origin, exchange, forwarded, context);
            let failure = match attempted.await {
                Ok(AfterAttempt::Keep) => {
                    let timeout = server.idle_timeout();
                    self.0.origins.keep(origin, timeout);
                    return Ok(());
                }
                Ok(AfterAttempt::Close) => return Ok(()),
                Ok(AfterAttempt::Repeat) => continue,
                Err(failure) => failure,
            };
            let RequestFailure::Origin(failure) = *failure else {
                return Err(failure);
            };
            let waits_for = waits_for(exchange, &origin);
            if stalled_upload::is_to_blame(&failure, waits_for, forwarded, context) {
                return Err(ClientFailure::Stalled.into());
            }
            if matches!(failure, OriginFailure::Timeout(_)) {
                origin.retire_if_silent();
            }
            if matches!(failure, OriginFailure::Timeout(_)) && exchange.body.is_over() {
                let (pool, attempt) = (&forwarded.pool, &forwarded.attempt);
                if attempt.answer.is_none() {
                    pool.latency
                        .record(|| exchange.body.server_time(attempt.started));
                }
            }
            let excuse = self.0.origins.excuse(&failure, &origin, &server);
            attempts::interrupted(facts(exchange), (failure, excuse), forwarded, context)?;
        }
    }

    /// Makes one attempt over a connection.
    async fn attempt<C: RequestClient>(
        &self,
        origin: &mut OriginChannel,
        exchange: &mut ClientExchange<'_, C>,
        forwarded: &mut ForwardedRequest,
        context: &mut Context,
    ) -> Result<AfterAttempt> {
        self.send_request(origin, exchange, forwarded, context)
            .await?;
        let head = self
            .await_head(origin, exchange, forwarded, context)
            .await?;
        self.relay(origin, head, exchange, forwarded, context).await
    }

    /// Writes the head and the bytes of the body that are here.
    async fn send_request<C: RequestClient>(
        &self,
        origin: &mut OriginChannel,
        exchange: &mut ClientExchange<'_, C>,
        forwarded: &mut ForwardedRequest,
        context: &mut Context,
    ) -> Result<()> {
        let received = &exchange.head.headers;
        let mut fields = FieldChanges::of(received);
        remove_hop_by_hop(&mut fields, received);
        cached::ask_for_whole(&mut fields, forwarded);
        http_versions::name_host(exchange.head, &mut fields)?;
        http_versions::join_cookies(exchange.head, &mut fields)?;
        self.edit_fields_for_origin(exchange.head, &mut fields, forwarded, context);
        if forwarded.route.limits.read_response_body() {
            // The cost is read out of the body as it passes.
            fields.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        }
        let rewritten = forwarded.target.path.as_deref();
        let parts = RequestParts {
            method: cached::sent_method(exchange.head, forwarded),
            target: rewritten.map_or_else(|| exchange.head.raw_path(), str::as_bytes),
            fields: &fields,
            is_upgrade: exchange.is_upgrade,
        };
        let framing = exchange.body.origin_framing(origin);
        let mut bytes = WriteBuffer::take();
        if origin.is_http2() {
            let scheme = forwarded.pool.scheme();
            let request = stream_request(parts, received, framing, scheme)?;
            origin.send_head(request, end_at_head(framing))?;
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
    async fn await_head<C: RequestClient>(
        &self,
        origin: &mut OriginChannel,
        exchange: &mut ClientExchange<'_, C>,
        forwarded: &mut ForwardedRequest,
        context: &mut Context,
    ) -> Result<FinalHead> {
        let limits = head_limits(forwarded);
        let mut head = LentHead::take();
        let mut counted = InterimHeads::default();
        loop {
            match head.parse(&origin.read, &limits) {
                Ok(HeadProgress::Whole(bytes)) if is_final(&head, exchange) => {
                    if head.status() == SWITCHING_PROTOCOLS {
                        check_switch(&head, &origin.read).map_err(OriginFailure::from)?;
                    }
                    let method = cached::sent_method(exchange.head, forwarded);
                    check_chunks(&head, &origin.read[bytes..], method)
                        .map_err(OriginFailure::MalformedBody)?;
                    return Ok(FinalHead::Http1(head, bytes));
                }
                Ok(HeadProgress::Whole(bytes)) => {
                    let read = &origin.read[..bytes];
                    let fields = mapped_fields(&head, read, MappedFields::All);
                    counted.count(&fields).map_err(OriginFailure::from)?;
                    let (status, reason) = (status_of(&head)?, head.reason(read).to_vec());
                    origin.read.advance(bytes);
                    head.clear();
                    let interim = (status, &reason[..], fields);
                    self.pass_interim(interim, origin, exchange, forwarded)
                        .await?;
                    continue;
                }
                Ok(HeadProgress::Partial) => {}
                Err(error) => {
                    let failure = head_failure(error, &origin.read, &limits);
                    return Err(OriginFailure::Head(failure).into());
                }
            }
            match next_event(origin, exchange, forwarded).await? {
                AttemptEvent::Origin(OriginEvent::Bytes(0)) => {
                    return Err(OriginFailure::Closed(origin.read.len()).into());
                }
                AttemptEvent::Origin(OriginEvent::Head(head)) => {
                    if head.headers.len() > limits.fields {
                        let failure = HeadFailure::TooManyFields(limits.fields);
                        return Err(OriginFailure::Head(failure).into());
                    }
                    if !head.status.is_informational() {
                        return Ok(FinalHead::Http2(head, origin.is_ended()));
                    }
                    let interim = (head.status, &b""[..], head.headers);
                    self.pass_interim(interim, origin, exchange, forwarded)
                        .await?;
                }
                AttemptEvent::Origin(OriginEvent::Bytes(_) | OriginEvent::Sent) => {}
                AttemptEvent::Client(read) => {
                    take_from_client(read, origin, exchange, forwarded, context).await?;
                }
            }
        }
    }

    /// Passes an interim response on; the client asked for none, so a `100 Continue` is dropped.
    async fn pass_interim<C: RequestClient>(
        &self,
        (status, reason, mut fields): (StatusCode, &[u8], HeaderMap),
        origin: &mut OriginChannel,
        exchange: &mut ClientExchange<'_, C>,
        forwarded: &ForwardedRequest,
    ) -> Result<()> {
        if status == StatusCode::SWITCHING_PROTOCOLS {
            return Err(OriginFailure::Head(HeadFailure::UnaskedSwitch).into());
        }
        if status == StatusCode::CONTINUE {
            return Ok(());
        }
        strip_hop_by_hop(&mut fields, status);
        for name in forwarded.route.limits.confidential() {
            fields.remove(name);
        }
        let head = ResponseParts {
            status,
            reason,
            fields,
        };
        // Boxed: few responses have one.
        Box::pin(origin.counting_interim(exchange.write_interim(head))).await
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
