//! Passes the response of an origin on: judges its head, settles the charges by it, and writes head and body to the client.

use bytes::Buf;
use http::{HeaderMap, StatusCode};
use pingora::Result;
use sluicegate_base::{bounds, clock};
use sluicegate_http1::{AnsweredMethod, BodyFraming};

use super::attempt_io::{AttemptEvent, facts, next_event, take_from_client};
use super::client::RequestClient;
use super::exchange::ClientExchange;
use super::head_writer::{ResponseParts, passes_length};
use super::response_body::{JOINED_PIECE, ResponseBody, TakenPiece};
use super::response_head::FinalHead;
use super::response_split::MappedFields;
use super::tunnel;
use crate::config::rules::HeaderCase;
use crate::gateway::context::Context;
use crate::gateway::decision::OriginHead;
use crate::gateway::intercept::{self, ReplacementPage};
use crate::gateway::shape::{self, BodyEnd, Kind};
use crate::gateway::{Gateway, answer, attempts, unread};
use crate::origin::{OriginChannel, OriginEvent, OriginPatience, strip_hop_by_hop};
use crate::response::compressor::BodyCompressor;
use crate::thread_buffer::WriteBuffer;

/// The decision over a connection to an origin after an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AfterAttempt {
    /// The message ended exactly, and nothing followed.
    Keep,
    /// It carries no further request.
    Close,
}

/// The changes of a response's body on its way to the client.
struct BodyChange {
    compressor: Option<BodyCompressor>,
    page: Option<ReplacementPage>,
}

impl Gateway {
    /// Judges the head, whose bytes were read, and passes the response on.
    pub(super) async fn relay<C: RequestClient>(
        &self,
        origin: &mut OriginChannel,
        mut head: FinalHead,
        exchange: &mut ClientExchange<'_, C>,
        context: &mut Context,
    ) -> Result<AfterAttempt> {
        let read = &origin.read[..head.bytes()];
        let options = head.options(read);
        let mapped = MappedFields::needed(options, exchange.is_http2(), context)?;
        let status = head.status()?;
        let method = if exchange.head.method == http::Method::HEAD {
            AnsweredMethod::Head
        } else {
            AnsweredMethod::Other
        };
        let received = head.framing(method);
        let mut fields = head.mapped_fields(read, mapped);
        let answered = (status, received);
        let change = self.judge_response(answered, &mut fields, exchange, context)?;
        let framing = match (&change.page, received) {
            (Some(_), _) if method == AnsweredMethod::Head => BodyFraming::None,
            (Some(page), _) => BodyFraming::Length(page.body.len() as u64),
            (None, BodyFraming::Length(_)) if change.compressor.is_some() => {
                exchange.client_framing(BodyFraming::Chunked)
            }
            (None, received) => exchange.client_framing(received),
        };
        let mut out = WriteBuffer::take();
        let parts = ResponseParts {
            status,
            reason: head.reason(read),
            fields: &fields,
        };
        let with_length = passes_length(status, framing);
        let write_others = |into: &mut Vec<u8>| head.write_others(into, read, mapped, with_length);
        exchange.begin_answer(&mut out, parts, framing, &write_others)?;
        if context.forwarded()?.pool.rules.header_case == HeaderCase::AsSent {
            head.names(read).restore(&mut out);
        }
        origin.read.advance(head.bytes());
        if status == StatusCode::SWITCHING_PROTOCOLS {
            exchange.write(&out, BodyEnd::NotYet).await?;
            // Boxed: few requests become tunnels.
            Box::pin(tunnel::run(origin, exchange, context)).await?;
            return Ok(AfterAttempt::Close);
        }
        let received = head.received_framing(received);
        let mut body = ResponseBody::new(received, framing, change.compressor);
        match change.page {
            Some(page) => {
                let replaced = replace_body(origin, &mut body, (out, page), exchange, context);
                Box::pin(replaced).await?;
            }
            None => {
                self.pass_body(origin, &mut body, out, exchange, context)
                    .await?;
            }
        }
        if !exchange.body.is_over() {
            // The origin answered before it got the whole request.
            exchange.drain().await;
            if !exchange.body.is_over() {
                exchange.close();
            }
            return Ok(AfterAttempt::Close);
        }
        let is_exact = received != BodyFraming::UntilClose
            && body.is_over()
            && origin.read.is_empty()
            && !origin.has_unsent();
        Ok(if head.keeps_connection(options) && is_exact {
            AfterAttempt::Keep
        } else {
            AfterAttempt::Close
        })
    }

    /// Judges the final head of an origin, settles the charges by it, and makes of its fields those for the client.
    fn judge_response<C: RequestClient>(
        &self,
        (status, framing): (StatusCode, BodyFraming),
        fields: &mut HeaderMap,
        exchange: &ClientExchange<'_, C>,
        context: &mut Context,
    ) -> Result<BodyChange> {
        let request = exchange.head;
        let is_empty = matches!(framing, BodyFraming::None | BodyFraming::Length(0));
        context.forwarded_mut()?.attempt.answer = Some(OriginHead {
            status,
            length: framing.length(),
        });
        attempts::judge(facts(exchange), context, status)?;
        if !is_empty {
            unread::announce(&self.0, context)?;
        }
        let forwarded = context.forwarded_mut()?;
        if forwarded.wait.is_none() {
            forwarded.wait = Some(clock::since(forwarded.attempt.started));
        }
        strip_hop_by_hop(fields);
        self.invalidate(request, status, context);
        context.settle(status, fields);
        for name in context.located()?.route.limits.confidential() {
            fields.remove(name);
        }
        let is_over = is_empty && status != StatusCode::SWITCHING_PROTOCOLS;
        if is_over && context.holds_permits() {
            context.finish_response();
        }
        let page = intercept::page(request, status, context);
        let mut kind = Kind::Content;
        if let Some(page) = &page {
            context.finish_response();
            intercept::relabel(fields, page)?;
            kind = Kind::Intercepted;
        }
        shape::edit_answer(fields, kind, request, context)?;
        let compressor = match page {
            Some(_) => None,
            None => shape::begin_compression(fields, status, request, context)?,
        };
        attempts::give_cookie(fields, facts(exchange), context)?;
        answer::add_own_fields(fields, context)?;
        Ok(BodyChange { compressor, page })
    }

    /// Passes the body on; `out` has the head, which is written with the first bytes.
    async fn pass_body<C: RequestClient>(
        &self,
        origin: &mut OriginChannel,
        body: &mut ResponseBody,
        mut out: WriteBuffer,
        exchange: &mut ClientExchange<'_, C>,
        context: &mut Context,
    ) -> Result<()> {
        loop {
            let TakenPiece { data, as_read } = body.take(&mut origin.read, &mut out)?;
            count_received(data, context)?;
            if origin.is_ended() && !body.is_over() {
                body.end_of_stream(&mut out)?;
            }
            let (mut end, mut trailers) = (BodyEnd::NotYet, None);
            if body.is_over() {
                context.finish_response();
                trailers = origin.take_trailers().filter(|_| exchange.is_http2());
                if trailers.is_none() {
                    end = BodyEnd::Here;
                }
            }
            if as_read > 0 {
                if !out.is_empty() {
                    let piece = (&out[..], BodyEnd::NotYet);
                    self.pass_piece(piece, exchange, context).await?;
                }
                let piece = (&origin.read[..as_read], end);
                self.pass_piece(piece, exchange, context).await?;
                origin.read.advance(as_read);
            } else {
                self.pass_piece((&out, end), exchange, context).await?;
            }
            out.clear();
            out.shrink_to(JOINED_PIECE);
            exchange.body_bytes = body.content();
            if let Some(trailers) = trailers {
                exchange.write_trailers(trailers)?;
            }
            if body.is_over() {
                return Ok(());
            }
            match next_event(origin, exchange, context).await? {
                AttemptEvent::Origin(OriginEvent::Bytes(0)) => body.end_of_stream(&mut out)?,
                // A final head of HTTP/2 is followed by no other.
                AttemptEvent::Origin(_) => {}
                AttemptEvent::Client(read) => {
                    take_from_client(read, origin, exchange, context).await?;
                }
            }
        }
    }

    /// Writes a piece of the answer; one that the client does not take at once takes room among unread answers.
    async fn pass_piece<C: RequestClient>(
        &self,
        piece: (&[u8], BodyEnd),
        exchange: &mut ClientExchange<'_, C>,
        context: &mut Context,
    ) -> Result<()> {
        let reserve = || unread::wait(&self.0, piece.0.len(), context);
        exchange.write_or_wait(piece, reserve).await?;
        unread::went_on(context);
        Ok(())
    }
}

/// Writes the head and the page in place of the body, and drops the body, so that the connection to the origin goes on if it is small.
async fn replace_body<C: RequestClient>(
    origin: &mut OriginChannel,
    body: &mut ResponseBody,
    (mut out, page): (WriteBuffer, ReplacementPage),
    exchange: &mut ClientExchange<'_, C>,
    context: &mut Context,
) -> Result<()> {
    if exchange.head.method != http::Method::HEAD {
        out.extend_from_slice(&page.body);
        exchange.body_bytes = page.body.len() as u64;
    }
    exchange.write(&out, BodyEnd::Here).await?;
    let patience = OriginPatience {
        read: bounds::DRAIN_TIME,
        write: bounds::DRAIN_TIME,
    };
    let mut dropped = 0;
    loop {
        // The client has its answer, so a body that breaks costs the connection to the origin alone.
        let Ok(data) = body.discard(&mut origin.read) else {
            return Ok(());
        };
        count_received(data, context)?;
        dropped += data;
        if body.is_over() || origin.is_ended() || dropped > bounds::REPLACED_BYTES {
            return Ok(());
        }
        match origin.next(patience).await {
            Ok(Ok(OriginEvent::Bytes(1..) | OriginEvent::Sent)) => {}
            _ => return Ok(()),
        }
    }
}

/// Counts bytes of the body that the origin sent.
fn count_received(data: usize, context: &mut Context) -> Result<()> {
    let attempt = &mut context.forwarded_mut()?.attempt;
    attempt.received = attempt.received.saturating_add(data as u64);
    Ok(())
}
