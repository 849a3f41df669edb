//! Forwards an admitted request: attempts at servers, each of which writes the request, reads the response and passes it on.
//!
//! One function owns both sides of an attempt. While the origin is awaited, the client is read too: its body goes to the origin, bytes of
//! a later request wait for their turn, and its end ends the attempt.

use std::sync::Arc;

use bytes::Buf;
use http::{HeaderMap, StatusCode};
use pingora::{Error, ErrorType, Result, RetryType};
use sluicegate_base::bounds;
use sluicegate_http1::{
    BodyFraming, HeadError, HeadLimits, HeadProgress, ResponseHead, RuleViolation,
};

use super::attempt_io::{AttemptEvent, facts, next_event, take_from_client};
use super::cached;
use super::client::RequestClient;
use super::exchange::ClientExchange;
use super::head_writer::{RequestParts, ResponseParts, write_request};
use super::relay::AfterAttempt;
use super::response_head::{FinalHead, status_of};
use super::response_split::{MappedFields, mapped_fields};
use super::stream_request::stream_request;
use crate::gateway::cause::TooManyFields;
use crate::gateway::context::Context;
use crate::gateway::error::error_for;
use crate::gateway::{Gateway, attempts, http_versions};
use crate::origin::{
    FieldChanges, FieldEdit, OriginChannel, OriginEvent, OriginServer, ProtocolNeed, hop_by_hop,
    strip_hop_by_hop,
};
use crate::response::GatewayProblem;
use crate::thread_buffer::WriteBuffer;

/// The status of a response after which the connection carries another protocol.
const SWITCHING_PROTOCOLS: u16 = StatusCode::SWITCHING_PROTOCOLS.as_u16();

/// The response of an attempt, as far as it came.
struct ResponseProgress {
    head: ResponseHead,
    /// Bytes of heads, final and interim, that were read.
    has_begun: bool,
}

impl Gateway {
    /// Sends the request to servers of its origin until one answers, and passes the answer on.
    pub(super) async fn forward<C: RequestClient>(
        &self,
        exchange: &mut ClientExchange<'_, C>,
        context: &mut Context,
    ) -> Result<()> {
        loop {
            let received = context.received;
            attempts::pick(&self.0, facts(exchange), context).await?;
            // Bytes that are sent again are not counted again.
            context.received = received;
            let server = server(context)?;
            let need = if exchange.is_upgrade {
                ProtocolNeed::Upgrade
            } else {
                ProtocolNeed::Any
            };
            let connected = self.0.origins.connect(&server, need).await;
            let connected = connected.and_then(|origin| {
                attempts::connected(context, origin.socket())?;
                Ok(origin)
            });
            let mut origin = match connected {
                Ok(origin) => origin,
                Err(error) => {
                    let error = attempts::unconnected(context, error.into_up());
                    if error.retry() {
                        continue;
                    }
                    return Err(error);
                }
            };
            match self.attempt(&mut origin, exchange, context).await {
                Ok(AfterAttempt::Keep) => {
                    let timeout = server.idle_timeout();
                    self.0.origins.keep(origin, timeout);
                    return Ok(());
                }
                Ok(AfterAttempt::Close) => return Ok(()),
                Err(error) => {
                    let reused = origin.is_reused();
                    let error = self.0.origins.fall_back(&server, error);
                    let error = attempts::interrupted(facts(exchange), context, error, reused);
                    if !error.retry() {
                        return Err(error);
                    }
                }
            }
        }
    }

    /// Makes one attempt over a connection.
    async fn attempt<C: RequestClient>(
        &self,
        origin: &mut OriginChannel,
        exchange: &mut ClientExchange<'_, C>,
        context: &mut Context,
    ) -> Result<AfterAttempt> {
        self.send_request(origin, exchange, context).await?;
        let mut response = ResponseProgress {
            head: ResponseHead::new(),
            has_begun: false,
        };
        let awaited = self
            .await_head(origin, &mut response, exchange, context)
            .await;
        // The error of a stream says itself whether the request was processed.
        let has_begun = response.has_begun || !origin.read.is_empty() || origin.is_http2();
        let head = awaited.map_err(|error| {
            if has_begun {
                error
            } else {
                only_if_reused(error)
            }
        })?;
        self.relay(origin, head, exchange, context).await
    }

    /// Writes the head and the bytes of the body that are here.
    async fn send_request<C: RequestClient>(
        &self,
        origin: &mut OriginChannel,
        exchange: &mut ClientExchange<'_, C>,
        context: &mut Context,
    ) -> Result<()> {
        let received = &exchange.head.headers;
        let mut fields = FieldChanges::of(received);
        for name in hop_by_hop(received) {
            fields.remove(&name);
        }
        cached::ask_for_whole(&mut fields, context)?;
        http_versions::name_host(exchange.head, &mut fields)?;
        http_versions::join_cookies(exchange.head, &mut fields)?;
        self.edit_fields_for_origin(exchange.head, &mut fields, context)?;
        let rewritten = context.located()?.target.as_deref();
        let parts = RequestParts {
            method: cached::sent_method(exchange.head, context),
            target: rewritten.map_or_else(|| exchange.head.raw_path(), str::as_bytes),
            fields: &fields,
            is_upgrade: exchange.is_upgrade,
        };
        let framing = exchange.body.origin_framing(origin.is_http2());
        let mut bytes = WriteBuffer::take();
        if origin.is_http2() {
            let scheme = context.forwarded()?.pool.scheme();
            let request = stream_request(parts, received, framing, scheme)?;
            let is_whole = matches!(framing, BodyFraming::None | BodyFraming::Length(0));
            origin.send_head(request, is_whole)?;
        } else {
            write_request(&mut bytes, parts, framing);
            if let Some(names) = &exchange.names {
                names.restore(&mut bytes);
            }
        }
        let body = &mut exchange.body;
        body.begin_attempt(framing, &mut bytes);
        body.take(exchange.client.received(), &mut bytes, context)?;
        origin.send(&bytes, body.is_over()).await;
        Ok(())
    }

    /// Reads up to the end of the final head. Interim responses are passed on.
    async fn await_head<C: RequestClient>(
        &self,
        origin: &mut OriginChannel,
        response: &mut ResponseProgress,
        exchange: &mut ClientExchange<'_, C>,
        context: &mut Context,
    ) -> Result<FinalHead> {
        let limits = head_limits(context)?;
        loop {
            match response.head.parse(&origin.read, &limits) {
                Ok(HeadProgress::Whole(bytes)) if is_final(&response.head, exchange) => {
                    return Ok(FinalHead::Http1(std::mem::take(&mut response.head), bytes));
                }
                Ok(HeadProgress::Whole(bytes)) => {
                    response.has_begun = true;
                    let read = &origin.read[..bytes];
                    let head = &response.head;
                    let fields = mapped_fields(head, read, MappedFields::All);
                    let (status, reason) = (status_of(head)?, head.reason(read).to_vec());
                    origin.read.advance(bytes);
                    response.head.clear();
                    let interim = (status, &reason[..], fields);
                    self.pass_interim(interim, exchange, context).await?;
                    continue;
                }
                Ok(HeadProgress::Partial) => {}
                Err(error) => return Err(head_error(error, &origin.read, &limits)),
            }
            match next_event(origin, exchange, context).await? {
                AttemptEvent::Origin(OriginEvent::Bytes(0)) => {
                    let read = origin.read.len();
                    let text =
                        format!("while reading response headers, bytes already read: {read}");
                    return Err(Error::explain(ErrorType::ConnectionClosed, text).into_up());
                }
                AttemptEvent::Origin(OriginEvent::Head(head)) => {
                    if head.headers.len() > limits.fields {
                        return Err(too_many_fields(&limits));
                    }
                    if !head.status.is_informational() {
                        return Ok(FinalHead::Http2(head, origin.is_ended()));
                    }
                    let interim = (head.status, &b""[..], head.headers);
                    self.pass_interim(interim, exchange, context).await?;
                }
                AttemptEvent::Origin(OriginEvent::Bytes(_) | OriginEvent::Sent) => {}
                AttemptEvent::Client(read) => {
                    take_from_client(read, origin, exchange, context).await?;
                }
            }
        }
    }

    /// Passes an interim response on; the client asked for none, so a `100 Continue` is dropped.
    async fn pass_interim<C: RequestClient>(
        &self,
        (status, reason, mut fields): (StatusCode, &[u8], HeaderMap),
        exchange: &mut ClientExchange<'_, C>,
        context: &Context,
    ) -> Result<()> {
        if status == StatusCode::SWITCHING_PROTOCOLS {
            let text = "101 to a request without an upgrade";
            return Err(Error::explain(ErrorType::InvalidHTTPHeader, text).into_up());
        }
        if status == StatusCode::CONTINUE {
            return Ok(());
        }
        strip_hop_by_hop(&mut fields);
        for name in context.located()?.route.limits.confidential() {
            fields.remove(name);
        }
        let head = ResponseParts {
            status,
            reason,
            fields: &fields,
        };
        exchange.write_interim(head).await
    }
}

/// Returns whether no other head follows this one.
fn is_final<C>(head: &ResponseHead, exchange: &ClientExchange<'_, C>) -> bool {
    head.status() >= 200 || (exchange.is_upgrade && head.status() == SWITCHING_PROTOCOLS)
}

/// Returns the server of the attempt.
fn server(context: &Context) -> Result<Arc<OriginServer>> {
    let permit = context.forwarded()?.attempt.permit.as_ref();
    let permit = permit.ok_or_else(|| error_for(GatewayProblem::Internal))?;
    Ok(Arc::clone(&permit.server))
}

/// Returns the bounds of the heads of responses.
fn head_limits(context: &Context) -> Result<HeadLimits> {
    Ok(HeadLimits {
        bytes: bounds::RESPONSE_HEAD,
        fields: context.forwarded()?.pool.rules.max_response_fields,
        target: usize::MAX,
    })
}

/// Returns the error of a head with more fields than `limits` allow.
fn too_many_fields(limits: &HeadLimits) -> Box<Error> {
    let cause = TooManyFields {
        most: limits.fields,
    };
    Error::because(ErrorType::InvalidHTTPHeader, "", cause).into_up()
}

/// Returns the error of a head that cannot be passed on.
fn head_error(error: HeadError, read: &[u8], limits: &HeadLimits) -> Box<Error> {
    let begin = format!("buf: {}", read[..read.len().min(64)].escape_ascii());
    let kind = ErrorType::InvalidHTTPHeader;
    let error = match error {
        HeadError::Rule(RuleViolation::Version | RuleViolation::NotHttp) => {
            Error::because(kind, begin, httparse::Error::Version)
        }
        HeadError::Rule(RuleViolation::StatusLine) => {
            Error::because(kind, begin, httparse::Error::Status)
        }
        // Of a head with fewer bytes, the fields are too many.
        HeadError::TooLarge if read.len() <= limits.bytes => return too_many_fields(limits),
        HeadError::TooLarge => Error::explain(kind, "response header larger than the limit"),
        HeadError::Rule(_) | HeadError::TargetTooLong => Error::because(kind, begin, error),
    };
    error.into_up()
}

/// Marks an error before the first byte of a response: on a connection that was kept, the server may have closed it meanwhile.
fn only_if_reused(mut error: Box<Error>) -> Box<Error> {
    if *error.esource() == pingora::ErrorSource::Upstream {
        error.retry = RetryType::ReusedOnly;
    }
    error
}
