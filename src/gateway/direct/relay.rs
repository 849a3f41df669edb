//! Passes the response of an origin on: judges its head, settles the charges by it, and writes head and body to the client.

use bytes::Buf;
use http::{HeaderMap, StatusCode};
use pingora::{Error, ErrorType, Result};
use sluicegate_base::{bounds, clock};
use sluicegate_http1::{
    AnsweredMethod, BodyFraming, BodyPiece, BodyReader, ChunkLimits, ConnectionOptions,
    ResponseHead, RuleViolation,
};

use super::attempt_io::{
    AttemptEvent, facts, next_event, origin_bytes, patience, status_of, take_from_client,
};
use super::client::ClientConnection;
use super::exchange::ClientExchange;
use super::head_writer::ResponseParts;
use super::request_body::{write_last_chunk, write_piece};
use super::response_split::{MappedFields, mapped_fields, write_others};
use crate::gateway::context::Context;
use crate::gateway::decision::OriginHead;
use crate::gateway::{Gateway, answer, attempts, cause, unread};
use crate::origin::{OriginConnection, strip_hop_by_hop};

/// The bounds of what a chunked response body has beside its data.
const CHUNK_LIMITS: ChunkLimits = ChunkLimits {
    overhead: bounds::CHUNK_OVERHEAD,
    trailer: bounds::TRAILER_BYTES,
    // Their bytes bound them.
    trailer_fields: bounds::TRAILER_BYTES,
};

/// Bytes of a piece of a body that are written together with the head or the lines around them; a larger piece is written from where it was
/// read.
const JOINED_PIECE: usize = 8 * 1024;

/// The decision over a connection to an origin after an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AfterAttempt {
    /// The message ended exactly, and nothing followed.
    Keep,
    /// It carries no further request.
    Close,
}

impl Gateway {
    /// Judges the head, whose bytes were read, and passes the response on.
    pub(super) async fn relay<C: ClientConnection>(
        &self,
        origin: &mut OriginConnection,
        head: &ResponseHead,
        head_bytes: usize,
        exchange: &mut ClientExchange<'_, C>,
        context: &mut Context,
    ) -> Result<AfterAttempt> {
        let read = &origin.read[..head_bytes];
        let options = ConnectionOptions::of(head.fields(), read);
        let mapped = MappedFields::needed(options, context)?;
        let status = status_of(head)?;
        let mut fields = mapped_fields(head, read, mapped);
        let method = if exchange.head.method == http::Method::HEAD {
            AnsweredMethod::Head
        } else {
            AnsweredMethod::Other
        };
        let framing = head.framing(method);
        self.judge_response(status, &mut fields, exchange, context)?;
        let mut out = Vec::with_capacity(1024);
        let read = &origin.read[..head_bytes];
        let parts = ResponseParts {
            status,
            reason: head.reason(read),
            fields: &fields,
        };
        exchange.begin_answer(&mut out, parts, framing, |into| {
            write_others(into, head, read, mapped);
        });
        origin.read.advance(head_bytes);
        let mut reader = BodyReader::new(framing, CHUNK_LIMITS);
        self.pass_body(origin, &mut reader, framing, out, exchange, context)
            .await?;
        if !exchange.body.is_over() {
            // The origin answered before it got the whole request.
            exchange.drain().await;
            if !exchange.body.is_over() {
                exchange.close();
            }
            return Ok(AfterAttempt::Close);
        }
        let keeps = options.keeps_connection(head.version());
        let is_exact = framing != BodyFraming::UntilClose && origin.read.is_empty();
        Ok(if keeps && is_exact {
            AfterAttempt::Keep
        } else {
            AfterAttempt::Close
        })
    }

    /// Judges the final head of an origin, settles the charges by it, and makes of its fields those for the client.
    fn judge_response<C: ClientConnection>(
        &self,
        status: StatusCode,
        fields: &mut HeaderMap,
        exchange: &ClientExchange<'_, C>,
        context: &mut Context,
    ) -> Result<()> {
        let (request, method) = (exchange.head, &exchange.head.method);
        context.forwarded_mut()?.attempt.answer = Some(OriginHead {
            status,
            length: cause::announced(fields),
        });
        attempts::judge(facts(exchange), context, status)?;
        unread::announce(&self.0, method, status, fields, context)?;
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
        if context.holds_permits() && answer::has_no_body(method, status, fields) {
            context.finish_response();
        }
        attempts::give_cookie(fields, facts(exchange), context)?;
        answer::add_own_fields(fields, context)
    }

    /// Passes the body on; `out` has the head, which is written with the first bytes.
    async fn pass_body<C: ClientConnection>(
        &self,
        origin: &mut OriginConnection,
        reader: &mut BodyReader,
        framing: BodyFraming,
        mut out: Vec<u8>,
        exchange: &mut ClientExchange<'_, C>,
        context: &mut Context,
    ) -> Result<()> {
        loop {
            let TakenPiece { data, as_read } = take_body(origin, reader, framing, &mut out)?;
            let attempt = &mut context.forwarded_mut()?.attempt;
            attempt.received = attempt.received.saturating_add(data as u64);
            if reader.is_over() {
                context.finish_response();
            }
            if !out.is_empty() {
                self.pass_piece(&out, exchange, context).await?;
                out.clear();
                out.shrink_to(JOINED_PIECE);
            }
            if as_read > 0 {
                let piece = &origin.read[..as_read];
                self.pass_piece(piece, exchange, context).await?;
                origin.read.advance(as_read);
            }
            exchange.body_bytes += data as u64;
            if reader.is_over() {
                return Ok(());
            }
            let patience = patience(context)?;
            match next_event(origin, exchange, patience).await {
                AttemptEvent::Origin(Some(Ok(0))) => {
                    if reader.end_of_stream().is_err() {
                        let text = "Peer prematurely closed connection";
                        return Err(Error::explain(ErrorType::ConnectionClosed, text).into_up());
                    }
                    if framing == BodyFraming::UntilClose {
                        write_last_chunk(&mut out);
                    }
                }
                AttemptEvent::Origin(read) => origin_bytes(read, context)?,
                AttemptEvent::Client(read) => {
                    take_from_client(read, origin, exchange, context).await?;
                }
            }
        }
    }

    /// Writes a piece of the answer; one that the client does not take at once takes room among unread answers.
    async fn pass_piece<C: ClientConnection>(
        &self,
        piece: &[u8],
        exchange: &mut ClientExchange<'_, C>,
        context: &mut Context,
    ) -> Result<()> {
        let reserve = || unread::wait(&self.0, piece.len(), context);
        exchange.write_or_wait(piece, reserve).await?;
        unread::went_on(context);
        Ok(())
    }
}

/// The bytes of a body that were read.
struct TakenPiece {
    /// Bytes of its data.
    data: usize,
    /// Bytes that are to be written from where they were read; 0 where they were moved.
    as_read: usize,
}

/// Takes the bytes of the body that were read: a large piece of a body of known length stays, all others move to `out`, framed for the
/// client.
fn take_body(
    origin: &mut OriginConnection,
    reader: &mut BodyReader,
    framing: BodyFraming,
    out: &mut Vec<u8>,
) -> Result<TakenPiece> {
    if let BodyFraming::Length(_) = framing {
        let data = reader.check(&origin.read).map_err(malformed_body)?;
        if data > JOINED_PIECE {
            return Ok(TakenPiece {
                data,
                as_read: data,
            });
        }
        out.extend_from_slice(&origin.read[..data]);
        origin.read.advance(data);
        return Ok(TakenPiece { data, as_read: 0 });
    }
    let data = frame_body(origin, reader, framing, out)?;
    Ok(TakenPiece { data, as_read: 0 })
}

/// Moves the bytes of a body without a length to `out`, in chunks. Returns the number of bytes of its data.
fn frame_body(
    origin: &mut OriginConnection,
    reader: &mut BodyReader,
    framing: BodyFraming,
    out: &mut Vec<u8>,
) -> Result<usize> {
    if reader.is_over() || origin.read.is_empty() {
        return Ok(0);
    }
    let (mut data, mut behind) = (0, 0);
    for piece in reader.pieces(&origin.read) {
        match piece.map_err(malformed_body)? {
            BodyPiece::Data(bytes) => {
                data += bytes.len();
                write_piece(out, framing, bytes);
            }
            BodyPiece::Trailer(_) => {}
            BodyPiece::End { behind: rest } => behind = rest.len(),
        }
    }
    origin.read.advance(origin.read.len() - behind);
    if framing == BodyFraming::Chunked && reader.is_over() {
        write_last_chunk(out);
    }
    Ok(data)
}

/// Returns the error of a body whose chunks are malformed.
fn malformed_body(_: RuleViolation) -> Box<Error> {
    Error::new(ErrorType::Custom("InvalidChunk")).into_up()
}
