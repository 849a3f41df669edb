//! Inspects the frames that go to a client of HTTP/2: why the connection ends, and which stream is reset without an answer.
//!
//! The h2 crate bounds a client, and reports a violation in frames alone: GOAWAY with `ENHANCE_YOUR_CALM` where it closes the
//! connection, RST_STREAM with `PROTOCOL_ERROR` where a request is malformed. The first is counted from here. Before the second
//! this module inserts an answer, 400, so that a client gets a status (RFC 9113 §8.1.1 allows it): its head names fields by the
//! static table of HPACK, or not at all, so the tables of both sides stay unchanged, and begins with the updates of the table's size that
//! the client waits for ([`TableSize`]); and it has no body, so no window changes.
//!
//! # Limits
//! The module remembers for the last [`AnsweredStreams::STREAMS`] streams whether they were answered; an older stream gets no answer of
//! this kind.

use std::io::{ErrorKind, IoSlice, Result};
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use tokio::io::AsyncWrite;

use super::sent_bytes::SentBytes;
use super::table_size::TableSize;

/// Frame types, RFC 9113 §6.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
/// Bytes of length, type, flags and stream.
const FRAME_HEAD: usize = 9;
/// The flag of SETTINGS that acknowledge those of the client.
const ACK: u8 = 1;
/// `END_STREAM` and `END_HEADERS`.
const WHOLE_ANSWER: u8 = 1 | 4;

/// Error codes, RFC 9113 §7.
pub(super) const NO_ERROR: u32 = 0;
pub(super) const PROTOCOL_ERROR: u32 = 1;
pub(super) const ENHANCE_YOUR_CALM: u32 = 11;

/// The reactions to frames.
pub(super) trait FrameWatch: Send + Sync {
    /// Reports that the connection ends, for this reason. May be called more than once.
    fn ends(&self, reason: u32);
    /// Reports that a malformed request is answered with 400. Returns the request id for its client.
    fn record_malformed(&self) -> String;
    /// Reports that everything that was written has left.
    fn flushed(&self);
    /// Reports that the client does not take what is written.
    fn blocked(&self);
}

/// The frames that go out on one connection.
pub(super) struct OutgoingFrames {
    watch: Box<dyn FrameWatch>,
    at: FramePosition,
    answered: AnsweredStreams,
    table: TableSize,
    /// DATA frames that were written.
    data_frames: u32,
    /// The stream of the DATA frame that is being written, if its bytes are counted.
    counted: Option<u32>,
    sent: Arc<SentBytes>,
    /// An answer that goes before the next frame.
    inserted: BytesMut,
}

/// A position within the frames.
#[derive(Clone, Copy, Debug, Default)]
struct FramePosition {
    /// Bytes of a frame's head that have passed.
    head: [u8; FRAME_HEAD],
    passed: usize,
    /// Bytes of its payload that have not passed.
    left: usize,
}

/// The beginning of a frame.
struct Frame {
    kind: u8,
    stream: u32,
}

impl OutgoingFrames {
    /// Returns the state of a connection on which nothing was sent.
    pub(super) fn new(watch: Box<dyn FrameWatch>, sent: Arc<SentBytes>) -> Self {
        Self {
            watch,
            at: FramePosition::default(),
            answered: AnsweredStreams::default(),
            table: TableSize::default(),
            data_frames: 0,
            counted: None,
            sent,
            inserted: BytesMut::new(),
        }
    }

    /// Writes to `stream`, with an answer before each stream that is reset without one.
    pub(super) fn poll_write(
        &mut self,
        stream: &mut (impl AsyncWrite + Unpin),
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        loop {
            while !self.inserted.is_empty() {
                let written = Pin::new(&mut *stream).poll_write(context, &self.inserted);
                match ready!(written)? {
                    0 => return Poll::Ready(Err(ErrorKind::WriteZero.into())),
                    bytes => self.inserted.advance(bytes),
                }
            }
            let written = match self.next_refused(pieces) {
                None => ready!(Pin::new(&mut *stream).poll_write_vectored(context, pieces))?,
                Some((0, refused)) => {
                    self.insert_answer(refused);
                    continue;
                }
                Some((before, _)) => {
                    let piece = pieces.iter().find(|piece| !piece.is_empty());
                    let piece = piece.map_or(&[][..], |piece| &piece[..before.min(piece.len())]);
                    ready!(Pin::new(&mut *stream).poll_write(context, piece))?
                }
            };
            self.pass(pieces, written);
            return Poll::Ready(Ok(written));
        }
    }

    /// Returns the number of DATA frames that were written since the last call.
    pub(super) fn take_data_frames(&mut self) -> u32 {
        mem::take(&mut self.data_frames)
    }

    /// Notes that everything that was written has left.
    pub(super) fn flush(&self) {
        self.sent.flush();
        self.watch.flushed();
    }

    /// Notes that the client does not take what is written.
    pub(super) fn block(&self) {
        self.watch.blocked();
    }

    /// Returns the size of HPACK's table, which SETTINGS of the client change.
    pub(super) fn table(&mut self) -> &mut TableSize {
        &mut self.table
    }

    /// Records the frames that begin in `pieces`, and finds the first that resets a stream without an answer. Returns how many
    /// bytes precede it.
    ///
    /// It may see the same bytes more than once, since a partial write is repeated.
    fn next_refused(&mut self, pieces: &[IoSlice<'_>]) -> Option<(usize, u32)> {
        let mut at = self.at;
        let mut before = 0;
        for piece in pieces {
            let mut rest = &**piece;
            while !rest.is_empty() {
                if let Some(Frame { kind, stream }) = at.frame_at(rest) {
                    // The h2 crate keeps each of these frames in one piece.
                    match kind {
                        HEADERS => self.answered.insert(stream),
                        RST_STREAM
                            if number(rest, FRAME_HEAD) == Some(PROTOCOL_ERROR)
                                && !self.answered.contains(stream) =>
                        {
                            return Some((before, stream));
                        }
                        GOAWAY => {
                            if let Some(reason) = number(rest, FRAME_HEAD + 4) {
                                self.watch.ends(reason);
                            }
                        }
                        _ => {}
                    }
                }
                let (passed, _) = at.advance(rest);
                before += passed;
                rest = &rest[passed..];
            }
        }
        None
    }

    /// Advances by so many bytes.
    fn pass(&mut self, pieces: &[IoSlice<'_>], mut bytes: usize) {
        for piece in pieces {
            let mut rest = &piece[..bytes.min(piece.len())];
            bytes -= rest.len();
            while !rest.is_empty() {
                let is_payload = self.at.left > 0;
                let (passed, begun) = self.at.advance(rest);
                rest = &rest[passed..];
                if let Some(stream) = self.counted.filter(|_| is_payload) {
                    self.sent.write(stream, passed);
                }
                if begun.is_some() {
                    self.counted = None;
                }
                match begun {
                    Some((DATA, _)) => {
                        self.data_frames = self.data_frames.saturating_add(1);
                        self.counted = self.sent.is_counting().then(|| self.at.stream());
                    }
                    Some((HEADERS, _)) => self.table.pass_block(),
                    Some((SETTINGS, flags)) if flags & ACK != 0 => self.table.acknowledge(),
                    Some(_) | None => {}
                }
            }
        }
    }

    fn insert_answer(&mut self, stream: u32) {
        let request_id = self.watch.record_malformed();
        let mut head = Vec::new();
        self.table.write_updates(&mut head);
        head.extend(answer_head(&request_id));
        // A head of less than 16 KiB is one frame.
        let length = u32::try_from(head.len()).unwrap_or_default().to_be_bytes();
        self.inserted.extend_from_slice(&length[1..]);
        self.inserted.extend_from_slice(&[HEADERS, WHOLE_ANSWER]);
        self.inserted.extend_from_slice(&stream.to_be_bytes());
        self.inserted.extend_from_slice(&head);
        self.answered.insert(stream);
    }
}

/// Returns `:status: 400`, `content-length: 0` and `x-request-id` in HPACK, RFC 7541 §6.1, §6.2.2.
fn answer_head(request_id: &str) -> Vec<u8> {
    const NAME: &[u8] = b"x-request-id";
    // The twelfth entry of the static table; the name of its 28th with another value.
    let mut head = vec![0x8c, 0x0f, 0x0d, 1, b'0'];
    head.extend([0, NAME.len() as u8]);
    head.extend_from_slice(NAME);
    // 126 bytes have a length of one byte.
    let value = request_id.as_bytes();
    let value = &value[..value.len().min(126)];
    head.push(value.len() as u8);
    head.extend_from_slice(value);
    head
}

/// Returns the big-endian number at `at`.
fn number(bytes: &[u8], at: usize) -> Option<u32> {
    bytes
        .get(at..)?
        .first_chunk()
        .map(|four| u32::from_be_bytes(*four))
}

impl FramePosition {
    /// Returns the frame that begins here, as far as `rest` contains it.
    fn frame_at(&self, rest: &[u8]) -> Option<Frame> {
        let begins = self.passed == 0 && self.left == 0;
        let kind = *rest.get(3).filter(|_| begins)?;
        let stream = number(rest, 5)?;
        Some(Frame { kind, stream })
    }

    /// Returns the stream of the frame whose head has passed.
    fn stream(&self) -> u32 {
        number(&self.head, 5).unwrap_or_default()
    }

    /// Advances through a head or a payload, as far as `rest` goes, which is not empty. Returns how many bytes that was, and the type and
    /// the flags of a frame whose head ends there.
    fn advance(&mut self, rest: &[u8]) -> (usize, Option<(u8, u8)>) {
        if self.left > 0 {
            let passed = self.left.min(rest.len());
            self.left -= passed;
            return (passed, None);
        }
        let passed = (FRAME_HEAD - self.passed).min(rest.len());
        self.head[self.passed..self.passed + passed].copy_from_slice(&rest[..passed]);
        self.passed += passed;
        if self.passed < FRAME_HEAD {
            return (passed, None);
        }
        let [high, middle, low, kind, flags, ..] = self.head;
        self.left = u32::from_be_bytes([0, high, middle, low]) as usize;
        self.passed = 0;
        (passed, Some((kind, flags)))
    }
}

/// The streams of a connection that were answered.
#[derive(Debug, Default)]
struct AnsweredStreams {
    /// The greatest, halved: clients' streams have odd numbers.
    newest: u32,
    /// One bit for each of the last streams: whether it was answered.
    bits: [u64; Self::STREAMS as usize / 64],
}

impl AnsweredStreams {
    const STREAMS: u32 = 1024;

    fn bit(number: u32) -> (usize, u64) {
        let number = number % Self::STREAMS;
        ((number / 64) as usize, 1 << (number % 64))
    }

    fn insert(&mut self, stream: u32) {
        let number = stream / 2;
        if number > self.newest {
            let skipped = (number - self.newest).min(Self::STREAMS);
            for later in (number - skipped + 1)..=number {
                let (word, bit) = Self::bit(later);
                self.bits[word] &= !bit;
            }
            self.newest = number;
        }
        if !self.is_forgotten(number) {
            let (word, bit) = Self::bit(number);
            self.bits[word] |= bit;
        }
    }

    /// Returns whether the stream was answered; true for a stream that is too old to be recorded.
    fn contains(&self, stream: u32) -> bool {
        let number = stream / 2;
        let (word, bit) = Self::bit(number);
        self.is_forgotten(number) || (number <= self.newest && self.bits[word] & bit != 0)
    }

    fn is_forgotten(&self, number: u32) -> bool {
        self.newest.saturating_sub(number) >= Self::STREAMS
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Default)]
    struct Notes(Arc<Mutex<(Vec<u32>, usize)>>);

    impl FrameWatch for Notes {
        fn ends(&self, reason: u32) {
            self.0.lock().unwrap().0.push(reason);
        }

        fn record_malformed(&self) -> String {
            self.0.lock().unwrap().1 += 1;
            "id".to_owned()
        }

        fn flushed(&self) {}

        fn blocked(&self) {}
    }

    fn frame(kind: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        let stream = stream.to_be_bytes();
        [&length[1..], &[kind, 0], &stream, payload].concat()
    }

    /// Returns the bytes that reach the other end when `sent` is written in pieces, of which the stream accepts `most` bytes at
    /// a time.
    fn written(frames: &mut OutgoingFrames, sent: &[u8], most: usize) -> Vec<u8> {
        let mut written = Vec::new();
        let mut rest = sent;
        while !rest.is_empty() {
            match frames.next_refused(&[IoSlice::new(rest)]) {
                Some((0, stream)) => {
                    frames.insert_answer(stream);
                    written.extend_from_slice(&frames.inserted.split());
                }
                found => {
                    let before = found.map_or(rest.len(), |(before, _)| before);
                    let taken = before.min(most);
                    written.extend_from_slice(&rest[..taken]);
                    frames.pass(&[IoSlice::new(rest)], taken);
                    rest = &rest[taken..];
                }
            }
        }
        written
    }

    proptest! {
        /// Goal: an answer precedes the reset of a stream that has none, once, and every other byte passes unchanged. Method: an
        /// answered and an unanswered stream, reset, and other frames between, accepted in pieces of any size.
        #[test]
        fn a_refused_stream_is_answered_once(most in 1_usize..200) {
            let notes = Notes::default();
            let mut frames = OutgoingFrames::new(Box::new(notes.clone()), Arc::default());
            let reset = |stream, code: u32| frame(RST_STREAM, stream, &code.to_be_bytes());
            let before = [
                frame(SETTINGS, 0, &[0; 36]),
                frame(HEADERS, 1, &[0x88]),
                frame(DATA, 1, &reset(5, PROTOCOL_ERROR)),
                reset(1, PROTOCOL_ERROR),
                reset(7, 8),
            ].concat();
            let refused = reset(3, PROTOCOL_ERROR);
            let after = [
                frame(HEADERS, 9, &[0x88]),
                frame(GOAWAY, 0, &[0, 0, 0, 9, 0, 0, 0, 11, b'x']),
            ].concat();
            let mut answer = frame(HEADERS, 3, &answer_head("id"));
            answer[4] = WHOLE_ANSWER;
            let sent = [&before[..], &refused, &after].concat();
            let expected = [&before[..], &answer, &refused, &after].concat();
            prop_assert_eq!(written(&mut frames, &sent, most), expected);
            prop_assert_eq!(frames.take_data_frames(), 1);
            let notes = notes.0.lock().unwrap();
            prop_assert_eq!(notes.1, 1);
            prop_assert!(notes.0.iter().all(|&reason| reason == ENHANCE_YOUR_CALM) && !notes.0.is_empty());
        }

        /// Goal: the record of streams is correct, or claims that they were answered. Method: streams in any order, beside a set
        /// of all.
        #[test]
        fn no_answered_stream_is_taken_for_another(streams in proptest::collection::vec(0_u32..5_000, 0..200)) {
            let mut answered = AnsweredStreams::default();
            let mut all = std::collections::HashSet::new();
            for stream in streams.into_iter().map(|number| number * 2 + 1) {
                answered.insert(stream);
                all.insert(stream);
            }
            let newest = all.iter().max().map_or(0, |stream| stream / 2);
            for asked in (1..10_001_u32).step_by(2) {
                let is_old = newest.saturating_sub(asked / 2) >= AnsweredStreams::STREAMS;
                let is_known = is_old || all.contains(&asked);
                prop_assert_eq!(answered.contains(asked), is_known, "{}", asked);
            }
        }
    }
}
