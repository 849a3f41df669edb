//! Inspects the frames that come from a client of HTTP/2: what it holds back is charged, and frames that only make work are counted.
//!
//! Held back are the bytes of a frame or of a block of fields whose end has not come.
//! The h2 crate keeps them until the end comes, and windows count whole frames of bodies only. A frame has at most 16 KiB, a block of
//! fields as much as a head may; a client with thousands of connections could make each of them hold that. Frames that come whole, as
//! nearly all do, are charged nowhere. [`ControlFrameBudget`] bounds those that carry neither a request nor data.

use std::io::{Error, Result};
use std::sync::Arc;

use sluicegate_base::bounds::UNCHARGED_BODY;
use sluicegate_base::clock;

use super::table_size::{SettingsReader, SizeChange, TableSize};
use crate::budgets::{BudgetCap, BytesPermit, ClientAccount, ClientBytes};
use crate::http2_frames::{ControlFrameBudget, IncomingFrame};

/// Frame types, RFC 9113 §6.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const CONTINUATION: u8 = 9;
/// The last frame of a block of fields.
const END_HEADERS: u8 = 4;
/// The flag of a frame whose payload begins with the length of its padding.
const PADDED: u8 = 8;
/// The flag of SETTINGS that acknowledge those of the gateway.
const ACK: u8 = 1;
/// Bytes of length, type, flags and stream.
const FRAME_HEAD: usize = 9;
/// Bytes of the client's preface, RFC 9113 §3.4.
const PREFACE: usize = 24;

/// The reactions to a client that holds too much back, or only makes work.
pub(super) trait ReceiveWatch: Send + Sync {
    /// Reports that the connection ends since this cap of the budget, whose maximum is `most`, is reached.
    fn exceeds(&self, cap: BudgetCap, most: u64);
    /// Reports that the client has sent too many frames that carry neither a request nor data.
    fn floods(&self);
}

/// The frames that come in on one connection.
pub(super) struct IncomingFrames {
    at: FrameProgress,
    control: ControlFrameBudget,
    /// Bytes that a block of fields may come to hold.
    block_bytes: u64,
    budget: Arc<ClientBytes>,
    account: ClientAccount,
    configured: Option<u64>,
    permit: Option<BytesPermit>,
    watch: Box<dyn ReceiveWatch>,
}

/// A position within the frames.
#[derive(Clone, Copy, Debug)]
struct FrameProgress {
    head: [u8; FRAME_HEAD],
    /// Bytes of the frame's head that came.
    came: usize,
    /// Bytes of its payload that have not come.
    left: usize,
    /// Bytes of the frame that came.
    kept: usize,
    /// The length of the payload of DATA that begins with the length of its padding, which has not come.
    padded: Option<usize>,
    settings: SettingsReader,
    block: FieldBlock,
}

/// The reactions to parts of frames.
trait FrameSink {
    /// Handles a frame as soon as the length of its payload is known.
    fn begin(&mut self, frame: IncomingFrame);
    /// Handles the sizes of HPACK's table in SETTINGS that have ended.
    fn settings(&mut self, change: Option<SizeChange>);
}

/// The parts of a connection that frames change.
struct ConnectionFrames<'a> {
    control: &'a mut ControlFrameBudget,
    table: &'a mut TableSize,
}

impl FrameSink for ConnectionFrames<'_> {
    fn begin(&mut self, frame: IncomingFrame) {
        self.control.receive(frame, clock::now);
    }

    fn settings(&mut self, change: Option<SizeChange>) {
        self.table.receive(change);
    }
}

/// The state of the block of fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FieldBlock {
    /// None is open.
    Ended,
    /// Its end has not come.
    Open,
}

impl IncomingFrames {
    /// Returns the state of a connection from which nothing came, of the client with this account. A block of fields may hold
    /// `block_bytes`.
    pub(super) fn new(
        (budget, configured): (Arc<ClientBytes>, Option<u64>),
        account: ClientAccount,
        block_bytes: usize,
        watch: Box<dyn ReceiveWatch>,
    ) -> Self {
        Self {
            at: FrameProgress::begin(),
            control: ControlFrameBudget::new(clock::now()),
            // As it came, and decoded.
            block_bytes: 2 * block_bytes as u64,
            budget,
            account,
            configured,
            permit: None,
            watch,
        }
    }

    /// Takes note of bytes that came; `sent` is the number of DATA frames that were sent since the last call, `table` that of answers.
    pub(super) fn receive(&mut self, bytes: &[u8], sent: u32, table: &mut TableSize) {
        let control = &mut self.control;
        control.sent(sent);
        self.at
            .receive(bytes, &mut ConnectionFrames { control, table });
        if self.control.is_exceeded() {
            self.watch.floods();
        }
    }

    /// Returns whether the connection ends for its floods, so that nothing more is read.
    pub(super) fn is_flooded(&self) -> bool {
        self.control.is_exceeded()
    }

    /// Charges what is held back while nothing comes.
    ///
    /// # Errors
    /// There is no room.
    pub(super) fn wait(&mut self) -> Result<()> {
        let held = self.at.held_back(self.block_bytes);
        if held <= UNCHARGED_BODY {
            self.permit = None;
            return Ok(());
        }
        if let Some(permit) = &mut self.permit {
            permit.shrink(held);
        }
        let charged = (self.budget).extend(&mut self.permit, &self.account, held, self.configured);
        charged.map_err(|cap| {
            self.watch.exceeds(cap, self.budget.most(self.configured));
            Error::other("the client holds back more than may be kept")
        })
    }
}

impl FrameProgress {
    fn begin() -> Self {
        Self {
            head: [0; FRAME_HEAD],
            came: FRAME_HEAD,
            left: PREFACE,
            kept: 0,
            padded: None,
            settings: SettingsReader::default(),
            block: FieldBlock::Ended,
        }
    }

    /// Advances by these bytes.
    fn receive(&mut self, mut bytes: &[u8], sink: &mut impl FrameSink) {
        while !bytes.is_empty() {
            if self.left == 0 && self.came == FRAME_HEAD {
                (self.came, self.kept) = (0, 0);
            }
            let missing = match self.came {
                FRAME_HEAD => self.left,
                came => FRAME_HEAD - came,
            };
            let (some, rest) = bytes.split_at(missing.min(bytes.len()));
            bytes = rest;
            self.kept += some.len();
            if self.came == FRAME_HEAD {
                if let (Some(whole), [padding, ..]) = (self.padded.take(), some) {
                    sink.begin(self.frame(whole.saturating_sub(1 + usize::from(*padding))));
                }
                if self.is_settings() {
                    self.settings.read(some);
                }
                self.left -= some.len();
            } else {
                self.head[self.came..self.came + some.len()].copy_from_slice(some);
                self.came += some.len();
                if self.came < FRAME_HEAD {
                    continue;
                }
                self.begin_payload();
                if self.padded.is_none() {
                    sink.begin(self.frame(self.left));
                }
            }
            if self.left == 0 && self.is_settings() {
                sink.settings(self.settings.end());
            }
        }
    }

    fn is_settings(&self) -> bool {
        let [_, _, _, kind, flags, ..] = self.head;
        kind == SETTINGS && flags & ACK == 0
    }

    /// Returns the frame, whose payload has so many bytes.
    fn frame(&self, payload: usize) -> IncomingFrame {
        let [_, _, _, kind, _, stream @ ..] = self.head;
        IncomingFrame {
            kind,
            // The first bit is reserved.
            stream: u32::from_be_bytes(stream) & (u32::MAX >> 1),
            payload,
        }
    }

    fn begin_payload(&mut self) {
        let [a, b, c, kind, flags, ..] = self.head;
        self.left = u32::from_be_bytes([0, a, b, c]) as usize;
        let is_padded = kind == DATA && flags & PADDED != 0 && self.left > 0;
        self.padded = is_padded.then_some(self.left);
        if kind == HEADERS || kind == CONTINUATION {
            self.block = match flags & END_HEADERS {
                0 => FieldBlock::Open,
                _ => FieldBlock::Ended,
            };
        }
    }

    /// Returns the bytes that are kept until more come; an open block may come to hold `block_bytes`.
    fn held_back(&self, block_bytes: u64) -> u64 {
        let is_whole = self.left == 0 && self.came == FRAME_HEAD;
        let of_frame = if is_whole { 0 } else { self.kept as u64 };
        match self.block {
            FieldBlock::Ended => of_frame,
            FieldBlock::Open => of_frame + block_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns a frame with such a payload.
    fn frame(kind: u8, flags: u8, payload: usize) -> Vec<u8> {
        let length = u32::try_from(payload).unwrap().to_be_bytes();
        let mut frame = vec![length[1], length[2], length[3], kind, flags, 0, 0, 0, 1];
        frame.resize(FRAME_HEAD + payload, 0);
        frame
    }

    const BLOCK: u64 = 1 << 20;

    /// The frames that were passed on, and the number of those with settings.
    #[derive(Default)]
    struct Found {
        frames: Vec<(u8, u32, usize)>,
        settings: usize,
    }

    impl FrameSink for Found {
        fn begin(&mut self, frame: IncomingFrame) {
            self.frames.push((frame.kind, frame.stream, frame.payload));
        }

        fn settings(&mut self, _: Option<SizeChange>) {
            self.settings += 1;
        }
    }

    proptest! {
        /// Goal: nothing is held back at the end of a frame, all of it before, and a block until its last frame; whatever the pieces.
        /// Method: frames of any kind and length, cut anywhere.
        #[test]
        fn whole_frames_hold_nothing_back(
            frames in proptest::collection::vec((0_u8..12, any::<u8>(), 0_usize..40), 1..6),
            piece in 1_usize..30,
        ) {
            let mut at = FrameProgress::begin();
            let found = &mut Found::default();
            at.receive(&[0; PREFACE - 1], found);
            prop_assert_eq!(at.held_back(BLOCK), PREFACE as u64 - 1);
            at.receive(&[0], found);
            prop_assert_eq!(at.held_back(BLOCK), 0);
            let mut is_open = false;
            for (kind, flags, payload) in frames {
                let bytes = frame(kind, flags, payload);
                let mut came = 0;
                for some in bytes.chunks(piece) {
                    at.receive(some, found);
                    came += some.len();
                    if came >= FRAME_HEAD && (kind == HEADERS || kind == CONTINUATION) {
                        is_open = flags & END_HEADERS == 0;
                    }
                    let kept = if came == bytes.len() { 0 } else { came as u64 };
                    let block = if is_open { BLOCK } else { 0 };
                    prop_assert_eq!(at.held_back(BLOCK), kept + block);
                }
            }
        }

        /// Goal: each frame is passed on once, with the length of what it carries, whatever the pieces. Method: frames of any kind and
        /// length, padded ones of DATA among them, cut anywhere.
        #[test]
        fn each_frame_is_passed_on_once(
            frames in proptest::collection::vec((0_u8..12, any::<u8>(), 0_usize..40), 1..6),
            piece in 1_usize..30,
        ) {
            let mut at = FrameProgress::begin();
            let mut found = Found::default();
            at.receive(&[0; PREFACE], &mut found);
            let (mut sent, mut expected, mut settings) = (Vec::new(), Vec::new(), 0);
            for (kind, flags, payload) in frames {
                let mut bytes = frame(kind, flags, payload);
                let mut carried = payload;
                if kind == DATA && flags & PADDED != 0 && payload > 0 {
                    let padding = payload / 2;
                    bytes[FRAME_HEAD] = padding as u8;
                    carried -= 1 + padding.min(payload - 1);
                }
                sent.extend(bytes);
                expected.push((kind, 1, carried));
                settings += usize::from(kind == SETTINGS && flags & ACK == 0);
            }
            for some in sent.chunks(piece) {
                at.receive(some, &mut found);
            }
            prop_assert_eq!(found.frames, expected);
            prop_assert_eq!(found.settings, settings);
        }
    }
}
