//! Reads and writes frames, RFC 9113 §4 and §6.
//!
//! A frame is checked by itself here: its size, its flags, its padding, and whether its type belongs to a stream or to the connection.
//! What a frame means depends on the state of the connection, and is decided there.

mod head;
mod payload;
mod settings;
mod write;

pub use head::{FRAME_HEAD_BYTES, FrameFlags, FrameHead, FrameKind};
pub use payload::{FrameFault, ReceivedFrame, SettingList};
pub use settings::{PeerSettings, SettingId};
pub use write::{
    write_goaway, write_head, write_ping, write_priority_update, write_reset, write_settings,
    write_settings_ack, write_window_update,
};

/// The bytes with which a client begins, RFC 9113 §3.4.
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Bytes of the largest frame before any SETTINGS, RFC 9113 §6.5.2. The server allows no larger ones: they only delay other streams.
pub const DEFAULT_FRAME_SIZE: u32 = 16_384;
/// The largest value of SETTINGS_MAX_FRAME_SIZE, RFC 9113 §6.5.2.
pub const LARGEST_FRAME_SIZE: u32 = (1 << 24) - 1;
/// Bytes of each window before any SETTINGS, RFC 9113 §6.9.2.
pub const DEFAULT_WINDOW: u32 = 65_535;
/// The largest window, RFC 9113 §6.9.1.
pub const LARGEST_WINDOW: u32 = (1 << 31) - 1;
