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

use super::table_size::{SettingsReader, TableSize};
use crate::budgets::{BudgetCap, BytesPermit, ClientAccount, ClientBytes};
use crate::http2_frames::{ControlFrameBudget, FrameReader, FrameSink, IncomingFrame};

/// Frame types, RFC 9113 §6.
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const CONTINUATION: u8 = 9;
/// The last frame of a block of fields.
const END_HEADERS: u8 = 4;
/// The flag of SETTINGS that acknowledge those of the gateway.
const ACK: u8 = 1;

/// The reactions to a client that holds too much back, or only makes work.
pub(super) trait ReceiveWatch: Send + Sync {
    /// Reports that the connection ends since this cap of the budget, whose maximum is `most`, is reached.
    fn exceeds(&self, cap: BudgetCap, most: u64);
    /// Reports that the client has sent too many frames that carry neither a request nor data.
    fn floods(&self);
}

/// The frames that come in on one connection.
pub(super) struct IncomingFrames {
    reader: FrameReader,
    settings: SettingsReader,
    block: FieldBlock,
    /// The greatest stream that carried a request.
    newest: u32,
    control: ControlFrameBudget,
    /// Bytes that a block of fields may come to hold.
    block_bytes: u64,
    budget: Arc<ClientBytes>,
    account: ClientAccount,
    configured: Option<u64>,
    permit: Option<BytesPermit>,
    watch: Box<dyn ReceiveWatch>,
}

/// The parts of a connection that frames change.
struct ConnectionFrames<'a> {
    settings: &'a mut SettingsReader,
    block: &'a mut FieldBlock,
    newest: &'a mut u32,
    control: &'a mut ControlFrameBudget,
    table: &'a mut TableSize,
}

impl FrameSink for ConnectionFrames<'_> {
    fn begin(&mut self, frame: IncomingFrame) {
        if frame.kind == HEADERS || frame.kind == CONTINUATION {
            *self.block = match frame.flags & END_HEADERS {
                0 => FieldBlock::Open,
                _ => FieldBlock::Ended,
            };
        }
        // RFC 9113 §5.1.1: each new stream has a greater number. HEADERS of an older one are a trailer, or are ignored.
        if frame.kind == HEADERS && frame.stream > *self.newest {
            *self.newest = frame.stream;
            self.control.begin_requests(1);
        } else {
            self.control.receive(frame, clock::now);
        }
    }

    fn payload(&mut self, kind: u8, flags: u8, piece: &[u8]) {
        if is_settings(kind, flags) {
            self.settings.read(piece);
        }
    }

    fn end(&mut self, kind: u8, flags: u8) {
        if is_settings(kind, flags) {
            self.table.receive(self.settings.end());
        }
    }
}

/// Returns whether such a frame has settings of the client.
fn is_settings(kind: u8, flags: u8) -> bool {
    kind == SETTINGS && flags & ACK == 0
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
            reader: FrameReader::of_client(),
            settings: SettingsReader::default(),
            block: FieldBlock::Ended,
            newest: 0,
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
        self.control.sent(sent);
        let mut sink = ConnectionFrames {
            settings: &mut self.settings,
            block: &mut self.block,
            newest: &mut self.newest,
            control: &mut self.control,
            table,
        };
        self.reader.receive(bytes, &mut sink);
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
        let held = self.held_back();
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

    /// Returns the bytes that are kept until more come.
    fn held_back(&self) -> u64 {
        let of_frame = self.reader.held_back() as u64;
        match self.block {
            FieldBlock::Ended => of_frame,
            FieldBlock::Open => of_frame + self.block_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sluicegate_base::bounds::{CONTROL_FRAMES, CONTROL_FRAMES_PER_REQUEST};

    use super::*;

    /// Returns a frame with this payload.
    fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        let head = [length[1], length[2], length[3], kind, flags, 0, 0, 0, 1];
        [&head[..], payload].concat()
    }

    /// The parts of one connection.
    struct Parts {
        reader: FrameReader,
        settings: SettingsReader,
        block: FieldBlock,
        newest: u32,
        control: ControlFrameBudget,
        table: TableSize,
    }

    impl Parts {
        fn new() -> Self {
            Self {
                reader: FrameReader::of_server(),
                settings: SettingsReader::default(),
                block: FieldBlock::Ended,
                newest: 0,
                control: ControlFrameBudget::new(clock::now()),
                table: TableSize::default(),
            }
        }

        fn receive(&mut self, bytes: &[u8]) {
            let mut sink = ConnectionFrames {
                settings: &mut self.settings,
                block: &mut self.block,
                newest: &mut self.newest,
                control: &mut self.control,
                table: &mut self.table,
            };
            self.reader.receive(bytes, &mut sink);
        }
    }

    /// Goal: a request makes room for its frames, and a trailer or a head on an older stream takes some. Method: PING up to the bound,
    /// then heads on a new stream, the same again, and an older one.
    #[test]
    fn only_new_streams_are_requests() {
        let mut parts = Parts::new();
        let head = |stream: u8| {
            let mut head = frame(HEADERS, END_HEADERS, &[]);
            head[8] = stream;
            head
        };
        let ping = frame(6, 0, &[0; 8]);
        parts.receive(&ping.repeat(CONTROL_FRAMES as usize));
        parts.receive(&head(5));
        parts.receive(&ping.repeat(CONTROL_FRAMES_PER_REQUEST as usize - 2));
        parts.receive(&head(5));
        parts.receive(&head(3));
        assert!(!parts.control.is_exceeded());
        // Time may have made room for some.
        parts.receive(&head(3).repeat(1_000));
        assert!(parts.control.is_exceeded());
    }

    proptest! {
        /// Goal: a block of fields is open until its last frame, whatever the pieces. Method: frames of any kind and length, cut anywhere.
        #[test]
        fn a_block_is_open_until_its_last_frame(
            frames in proptest::collection::vec((0_u8..12, any::<u8>(), 0_usize..40), 1..6),
            piece in 1_usize..30,
        ) {
            let mut parts = Parts::new();
            let mut expected = FieldBlock::Ended;
            for (kind, flags, payload) in frames {
                let bytes = frame(kind, flags, &vec![0; payload]);
                bytes.chunks(piece).for_each(|some| parts.receive(some));
                if kind == HEADERS || kind == CONTINUATION {
                    let is_last = flags & END_HEADERS != 0;
                    expected = if is_last { FieldBlock::Ended } else { FieldBlock::Open };
                }
                prop_assert_eq!(parts.block, expected);
            }
        }

        /// Goal: the table follows the settings of the client, and not its acknowledgments, whatever the pieces. Method: a size of the
        /// table in a frame of either kind, cut anywhere.
        #[test]
        fn settings_reach_the_table(flags in 0..=ACK, piece in 1_usize..30) {
            let mut parts = Parts::new();
            let bytes = frame(SETTINGS, flags, &[0, 1, 0, 0, 0, 0]);
            bytes.chunks(piece).for_each(|some| parts.receive(some));
            parts.table.acknowledge();
            let mut updates = Vec::new();
            parts.table.write_updates(&mut updates);
            prop_assert_eq!(updates.is_empty(), flags == ACK);
        }
    }
}
