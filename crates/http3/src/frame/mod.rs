//! Frames, RFC 9114 §7: their types, the heads of those that come, and those that the server sends.

mod frame_head;
mod settings;

pub use frame_head::{FrameHead, FrameKind, write_head};
pub use settings::{PeerSettings, SettingId, write_settings};

pub(crate) use frame_head::{FrameHeadInput, take_payload};
