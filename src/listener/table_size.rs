//! Follows the size of HPACK's dynamic table that a client allows, for answers that are inserted beside the h2 crate's encoder.
//!
//! RFC 7541 §4.2: after the gateway has acknowledged a smaller size, the next block of fields begins with updates: the smallest size
//! since the last block, then the final one. The h2 crate writes them at the beginning of its next block. An inserted block in front of
//! that has to write them too, or a strict decoder ends the connection. It writes what the h2 crate will write, which changes nothing
//! when it comes again, since nothing enters the table between them.

use std::collections::VecDeque;

/// SETTINGS_HEADER_TABLE_SIZE, RFC 9113 §6.5.2.
const HEADER_TABLE_SIZE: u16 = 1;
/// Bytes of one setting: its identifier and its value.
const SETTING: usize = 6;
/// The size before any settings, and the largest that the h2 crate's encoder uses.
const LARGEST: u32 = 4096;

/// The size of the table on one connection.
#[derive(Debug)]
pub(super) struct TableSize {
    /// The size that the client's decoder has since the last block of the h2 crate.
    signaled: u32,
    /// The sizes that were acknowledged since then.
    changed: Option<SizeChange>,
    /// Those of each SETTINGS frame that is not acknowledged. The h2 crate acknowledges all that came in one read before the next.
    received: VecDeque<Option<SizeChange>>,
}

/// One size after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SizeChange {
    least: u32,
    last: u32,
}

/// The settings of a frame, in pieces.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SettingsReader {
    setting: [u8; SETTING],
    came: usize,
    change: Option<SizeChange>,
}

impl Default for TableSize {
    fn default() -> Self {
        Self {
            signaled: LARGEST,
            changed: None,
            received: VecDeque::new(),
        }
    }
}

impl TableSize {
    /// Records a SETTINGS frame of the client.
    pub(super) fn receive(&mut self, change: Option<SizeChange>) {
        self.received.push_back(change);
    }

    /// Records that the oldest SETTINGS frame of the client was acknowledged.
    pub(super) fn acknowledge(&mut self) {
        let change = self.received.pop_front().flatten();
        if self.received.is_empty() {
            // An idle connection holds no memory for them.
            self.received = VecDeque::new();
        }
        self.changed = SizeChange::then(self.changed, change);
    }

    /// Records a block of the h2 crate, which begins with its updates.
    pub(super) fn pass_block(&mut self) {
        if let Some(change) = self.changed.take() {
            self.signaled = change.last;
        }
    }

    /// Appends the updates with which an inserted block has to begin.
    pub(super) fn write_updates(&self, into: &mut Vec<u8>) {
        let Some(SizeChange { least, last }) =
            self.changed.filter(|change| change.least < self.signaled)
        else {
            return;
        };
        if least < last {
            write_update(into, least);
        }
        write_update(into, last);
    }
}

impl SizeChange {
    fn to(size: u32) -> Self {
        let size = size.min(LARGEST);
        Self {
            least: size,
            last: size,
        }
    }

    fn then(first: Option<Self>, second: Option<Self>) -> Option<Self> {
        match (first, second) {
            (Some(first), Some(second)) => Some(Self {
                least: first.least.min(second.least),
                last: second.last,
            }),
            (first, second) => first.or(second),
        }
    }
}

impl SettingsReader {
    /// Reads a piece of the frame's payload.
    pub(super) fn read(&mut self, piece: &[u8]) {
        for byte in piece {
            self.setting[self.came] = *byte;
            self.came += 1;
            if self.came == SETTING {
                self.came = 0;
                let [a, b, value @ ..] = self.setting;
                if u16::from_be_bytes([a, b]) == HEADER_TABLE_SIZE {
                    let change = SizeChange::to(u32::from_be_bytes(value));
                    self.change = SizeChange::then(self.change, Some(change));
                }
            }
        }
    }

    /// Returns the sizes of the frame, which has ended, and begins the next one.
    pub(super) fn end(&mut self) -> Option<SizeChange> {
        std::mem::take(self).change
    }
}

/// Appends an update to this size, RFC 7541 §6.3: a prefix of three bits, and an integer from five.
fn write_update(into: &mut Vec<u8>, size: u32) {
    const PREFIX: u8 = 0x20;
    const FIVE_BITS: u8 = 31;
    let Some(mut rest) = size.checked_sub(FIVE_BITS.into()) else {
        // Less than 31.
        into.push(PREFIX | size as u8);
        return;
    };
    into.push(PREFIX | FIVE_BITS);
    while rest >= 128 {
        into.push(rest as u8 | 128);
        rest /= 128;
    }
    into.push(rest as u8);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn updates(table: &TableSize) -> Vec<u8> {
        let mut written = Vec::new();
        table.write_updates(&mut written);
        written
    }

    /// Goal: updates are those of RFC 7541 §4.2, from the acknowledgment to the next block of the h2 crate. Method: sizes by hand.
    #[test]
    fn updates_follow_what_was_acknowledged() {
        let mut table = TableSize::default();
        table.receive(Some(SizeChange::to(0)));
        table.receive(None);
        table.receive(Some(SizeChange::to(100)));
        assert!(updates(&table).is_empty());
        table.acknowledge();
        assert_eq!(updates(&table), [0x20]);
        table.acknowledge();
        assert_eq!(updates(&table), [0x20]);
        table.acknowledge();
        let both = [0x20, 0x3f, 100 - 31];
        assert_eq!(updates(&table), both);
        assert_eq!(updates(&table), both);
        table.pass_block();
        assert!(updates(&table).is_empty());
        // A larger size needs none, up to the encoder's own.
        table.receive(Some(SizeChange::to(65_536)));
        table.acknowledge();
        assert!(updates(&table).is_empty());
        table.pass_block();
        table.receive(Some(SizeChange::to(1_337)));
        table.acknowledge();
        // RFC 7541, appendix C.1.2.
        assert_eq!(updates(&table), [0x3f, 0b1001_1010, 0b0000_1010]);
    }

    proptest! {
        /// Goal: settings are read whatever the pieces. Method: settings of any kind, cut anywhere.
        #[test]
        fn settings_are_read_in_pieces(
            settings in proptest::collection::vec((0_u16..4, 0_u32..5_000), 0..6),
            piece in 1_usize..9,
        ) {
            let sent: Vec<u8> = settings.iter()
                .flat_map(|(id, value)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat())
                .collect();
            let mut reader = SettingsReader::default();
            for some in sent.chunks(piece) {
                reader.read(some);
            }
            let sizes = settings.iter().filter(|(id, _)| *id == HEADER_TABLE_SIZE);
            let sizes: Vec<u32> = sizes.map(|(_, value)| (*value).min(LARGEST)).collect();
            let expected = sizes.last().map(|last| SizeChange {
                least: *sizes.iter().min().unwrap_or(last),
                last: *last,
            });
            prop_assert_eq!(reader.end(), expected);
            prop_assert_eq!(reader.end(), None);
        }
    }
}
