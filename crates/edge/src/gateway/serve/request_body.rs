//! Takes the body of a request from the bytes of its connection, and frames it for the origin.
//!
//! Chunks are written anew: their extensions and the trailer stay here, since an origin could take fields of a trailer for those of
//! the head, which were judged.
//!
//! # Limits
//! The content of a request that may be sent again is kept, up to [`REPLAY_BYTES`](bounds::REPLAY_BYTES): of one with an idempotent method,
//! and of any for an origin of HTTP/2, which may report it as unprocessed. Longer content is sent once, and so is content for which the
//! budget of all clients has no room ([`crate::gateway::replay_bytes`]).
//! Bytes that a key needs are read before the decision, up to `max_key_body_bytes` and one read more.

use std::num::NonZeroUsize;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use sluicegate_base::{bounds, clock};
use sluicegate_http1::{BodyFraming, BodyPiece, BodyReader, LAST_CHUNK, LINE_END, chunk_line};
use sluicegate_limiter::Timestamp;

use super::chunk_limits::CHUNK_LIMITS;
use crate::gateway::body::with_read_buffer;
use crate::gateway::context::Context;
use crate::gateway::forwarded::ForwardedRequest;
use crate::gateway::min_body_rate::MinBodyRate;
use sluicegate_budgets::BytesPermit;
use sluicegate_config::rules::ServerRules;
use sluicegate_origin::OriginChannel;
use sluicegate_origin::request_failure::{ClientFailure, Result};

/// The body of one request.
pub(super) struct RequestBody {
    /// Its framing as received; a body of unknown length of HTTP/2 ends with its stream.
    pub(super) framing: BodyFraming,
    reader: BodyReader,
    /// The content that every attempt begins with; `None` once it was too long, or where no second attempt can follow.
    replay: Option<ReplayBuffer>,
    /// The content that was read before the decision, where there is no second attempt.
    unsent: Vec<u8>,
    /// Its framing in the current attempt.
    sent: BodyFraming,
    /// The time that its client has for the next bytes.
    patience: Duration,
    /// The time at which its last bytes came, where they came after the head was sent to an origin.
    ended_at: Option<Timestamp>,
}

impl RequestBody {
    /// Returns a body of which nothing was read, and of which nothing is kept for a second attempt.
    pub(super) fn new(framing: BodyFraming, rules: &ServerRules) -> Self {
        Self {
            framing,
            reader: BodyReader::new(framing, CHUNK_LIMITS),
            replay: None,
            unsent: Vec::new(),
            sent: framing,
            patience: rules.client_read_timeout,
            ended_at: None,
        }
    }

    /// Returns the body with a buffer for what every attempt begins with, since a second one may send it (RFC 9110 §9.2.2).
    pub(super) fn repeatable(self) -> Self {
        Self {
            replay: Some(ReplayBuffer::from_framing(self.framing)),
            ..self
        }
    }

    /// Records that its last bytes came now.
    pub(super) fn note_end(&mut self) {
        self.ended_at = Some(clock::now());
    }

    /// Returns the time for which the server of an attempt that began at `started` has had the whole request.
    pub(super) fn server_time(&self, started: Timestamp) -> Duration {
        clock::since(self.ended_at.map_or(started, |ended| ended.max(started)))
    }

    /// Returns whether it was read to its end.
    pub(super) fn is_over(&self) -> bool {
        self.reader.is_over()
    }

    /// Returns the time that the client has for the next bytes.
    pub(super) fn patience(&self) -> Duration {
        self.patience
    }

    /// Returns its framing for an origin: over HTTP/1.1 a body of unknown length is sent in chunks, over HTTP/2 its stream ends it.
    pub(super) fn origin_framing(&self, origin: &OriginChannel) -> BodyFraming {
        match self.framing {
            BodyFraming::Chunked | BodyFraming::UntilClose if origin.is_http2() => {
                BodyFraming::UntilClose
            }
            BodyFraming::UntilClose => BodyFraming::Chunked,
            framing => framing,
        }
    }

    /// Returns whether an attempt can send it from its beginning.
    pub(super) fn is_repeatable(&self) -> bool {
        self.replay.is_some()
    }

    /// Reserves what is kept for another attempt, before the first one, by `reserve`, which returns `None` where there is no room: then
    /// nothing more is kept. A body that is here already has its room.
    pub(super) fn reserve_replay(&mut self, reserve: impl FnOnce(u64) -> Option<BytesPermit>) {
        if self.is_over() || self.replay.is_none() {
            return;
        }
        let room = replay_room(self.framing);
        let permit = reserve(room as u64);
        self.replay = match (permit, self.replay.take()) {
            (None, Some(replay)) => {
                self.unsent = replay.content;
                None
            }
            (permit, replay) => replay.map(|replay| ReplayBuffer {
                room,
                permit,
                ..replay
            }),
        };
    }

    /// Drops what is kept for another attempt, since none follows.
    pub(super) fn release_replay(&mut self) {
        self.replay = None;
    }

    /// Begins an attempt with this framing: appends what was received already to `into`.
    pub(super) fn begin_attempt(&mut self, framing: BodyFraming, into: &mut Vec<u8>) {
        self.sent = framing;
        match &self.replay {
            Some(replay) => write_piece(into, framing, &replay.content),
            None => write_piece(into, framing, &std::mem::take(&mut self.unsent)),
        }
        if self.is_over() {
            self.write_end(into);
        }
    }

    /// Moves the bytes of the body that were received to `into`, framed for the origin.
    ///
    /// # Errors
    /// Its chunks are malformed, the body is too large, or its client too slow.
    pub(super) fn take(
        &mut self,
        received: &mut BytesMut,
        into: &mut Vec<u8>,
        forwarded: &ForwardedRequest,
        context: &mut Context,
    ) -> Result<()> {
        if self.is_over() || received.is_empty() {
            return Ok(());
        }
        let mut data = 0;
        self.read(received, |body, bytes| {
            data += bytes.len();
            write_piece(into, body.sent, bytes);
            body.keep(bytes);
        })?;
        if self.is_over() {
            self.write_end(into);
            self.replay.iter_mut().for_each(ReplayBuffer::settle);
        }
        self.count(data, forwarded, context)
    }

    /// Moves the bytes of the body that were received to `data`, and keeps them for the first attempt.
    ///
    /// # Errors
    /// Its chunks are malformed.
    pub(super) fn take_early(
        &mut self,
        received: &mut BytesMut,
        data: &mut BytesMut,
    ) -> Result<(), ClientFailure> {
        if self.is_over() || received.is_empty() {
            return Ok(());
        }
        self.read(received, |body, bytes| {
            data.extend_from_slice(bytes);
            body.keep_early(bytes);
        })
    }

    /// Ends it where a read of so many bytes ended its stream. Returns whether it did.
    pub(super) fn end(&mut self, read: usize) -> bool {
        self.framing == BodyFraming::UntilClose && read == 0 && self.reader.end_of_stream().is_ok()
    }

    /// Appends what follows the last piece at the origin.
    pub(super) fn write_end(&self, into: &mut Vec<u8>) {
        if self.sent == BodyFraming::Chunked {
            write_last_chunk(into);
        }
    }

    /// Takes the bytes of the body that were received, and shows their content to `each`.
    fn read(
        &mut self,
        received: &mut BytesMut,
        mut each: impl FnMut(&mut BodyStore<'_>, &[u8]),
    ) -> Result<(), ClientFailure> {
        let mut behind = 0;
        let mut store = BodyStore {
            replay: &mut self.replay,
            unsent: &mut self.unsent,
            sent: self.sent,
        };
        for piece in self.reader.pieces(received) {
            match piece.map_err(ClientFailure::MalformedBody)? {
                BodyPiece::Data(bytes) => each(&mut store, bytes),
                BodyPiece::Trailer(_) => {}
                BodyPiece::End { behind: rest } => behind = rest.len(),
            }
        }
        received.advance(received.len() - behind);
        Ok(())
    }

    /// Counts so many bytes of data.
    fn count(
        &mut self,
        data: usize,
        forwarded: &ForwardedRequest,
        context: &mut Context,
    ) -> Result<()> {
        context.received = context.received.saturating_add(data as u64);
        if context.received > forwarded.route.compiled.max_body_bytes {
            return Err(ClientFailure::BodyTooLarge.into());
        }
        if self.is_over() {
            return Ok(());
        }
        let server = &context.snapshot.compiled.rules.server;
        let rate = MinBodyRate {
            read: server.client_read_timeout,
            rate: server.defence.client_min_rate,
        };
        match context.pace.refill(data, clock::now(), rate) {
            Some(patience) => self.patience = patience,
            None => return Err(ClientFailure::Stalled.into()),
        }
        Ok(())
    }

    /// Drops the bytes of the body that were received. Returns their number.
    ///
    /// # Errors
    /// Its chunks are malformed.
    pub(super) fn discard(&mut self, received: &mut BytesMut) -> Result<usize, ClientFailure> {
        if self.is_over() {
            return Ok(0);
        }
        let checked = self.reader.check(received);
        let bytes = checked.map_err(ClientFailure::MalformedBody)?;
        received.advance(bytes);
        Ok(bytes)
    }
}

/// The content that every attempt begins with.
struct ReplayBuffer {
    content: Vec<u8>,
    /// The most bytes that it may take.
    room: usize,
    /// The permit for its bytes; `None` where they are those of a body that is read for keys, which has one.
    permit: Option<BytesPermit>,
}

impl ReplayBuffer {
    /// Returns an empty buffer for a body with this framing.
    fn from_framing(framing: BodyFraming) -> Self {
        Self {
            content: Vec::new(),
            room: replay_room(framing),
            permit: None,
        }
    }

    /// Appends bytes, if there is room for them. Returns whether there is.
    fn append(&mut self, bytes: &[u8]) -> bool {
        let length = self.content.len() + bytes.len();
        if length > self.room {
            return false;
        }
        if length > self.content.capacity() {
            // What is kept is charged by its length: an announced body takes its room at once, so that no smaller buffers are left behind.
            let grown = match self.room {
                bounds::REPLAY_BYTES => length.next_power_of_two().min(self.room),
                announced => announced,
            };
            self.content.reserve_exact(grown - self.content.len());
        }
        self.content.extend_from_slice(bytes);
        true
    }

    /// Returns the permit for bytes that a body that is over does not have.
    fn settle(&mut self) {
        if let Some(permit) = &mut self.permit {
            permit.shrink(with_read_buffer(1, self.content.capacity() as u64));
        }
    }
}

/// Returns the most bytes of a body with this framing that are kept.
fn replay_room(framing: BodyFraming) -> usize {
    let most = bounds::REPLAY_BYTES;
    let length = framing.length().map(usize::try_from);
    length.map_or(most, |length| length.unwrap_or(most).min(most))
}

/// The content of a body that is kept.
struct BodyStore<'b> {
    replay: &'b mut Option<ReplayBuffer>,
    unsent: &'b mut Vec<u8>,
    sent: BodyFraming,
}

impl BodyStore<'_> {
    /// Keeps content for another attempt. Returns what was kept before, where all of it is too much.
    fn keep(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        if self.replay.as_mut()?.append(bytes) {
            return None;
        }
        self.replay.take().map(|replay| replay.content)
    }

    /// Keeps content that was read before the decision.
    fn keep_early(&mut self, bytes: &[u8]) {
        let kept = self.keep(bytes);
        self.unsent.extend(kept.unwrap_or_default());
        if self.replay.is_none() {
            self.unsent.extend_from_slice(bytes);
        }
    }
}

/// Appends a piece of a body: in chunks as a chunk, otherwise as it is. An empty chunk would end the body, RFC 9112 §7.1.
pub(super) fn write_piece(into: &mut Vec<u8>, framing: BodyFraming, data: &[u8]) {
    match (framing, NonZeroUsize::new(data.len())) {
        (BodyFraming::Chunked, Some(size)) => {
            let line = chunk_line(size);
            // At once: the line end behind a large piece would double the memory.
            into.reserve(line.as_ref().len() + data.len() + LINE_END.len());
            into.extend_from_slice(line.as_ref());
            into.extend_from_slice(data);
            into.extend_from_slice(LINE_END);
        }
        _ => into.extend_from_slice(data),
    }
}

/// Appends the end of a body in chunks, without a trailer.
pub(super) fn write_last_chunk(into: &mut Vec<u8>) {
    into.extend_from_slice(LAST_CHUNK);
    into.extend_from_slice(LINE_END);
}
