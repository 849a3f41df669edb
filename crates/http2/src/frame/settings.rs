//! Owns the settings of the client, RFC 9113 §6.5.

use super::{DEFAULT_FRAME_SIZE, DEFAULT_WINDOW, LARGEST_FRAME_SIZE, LARGEST_WINDOW};
use crate::violation::RuleViolation;

/// Bytes of one setting: its number and its value.
pub(super) const SETTING_BYTES: usize = 6;

/// The number of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SettingId(u16);

impl SettingId {
    /// Bytes of the dynamic table of the receiver's decoder.
    pub const HEADER_TABLE_SIZE: Self = Self(0x01);
    /// Allows a server to push.
    pub const ENABLE_PUSH: Self = Self(0x02);
    /// The streams that the other side may have open.
    pub const MAX_CONCURRENT_STREAMS: Self = Self(0x03);
    /// The window of a new stream.
    pub const INITIAL_WINDOW_SIZE: Self = Self(0x04);
    /// Bytes of the largest payload.
    pub const MAX_FRAME_SIZE: Self = Self(0x05);
    /// Bytes of the longest list of fields.
    pub const MAX_HEADER_LIST_SIZE: Self = Self(0x06);
    /// Allows extended CONNECT, RFC 8441 §3.
    pub const ENABLE_CONNECT_PROTOCOL: Self = Self(0x08);
    /// Says that priorities of RFC 7540 are ignored, RFC 9218 §2.1.
    pub const NO_RFC7540_PRIORITIES: Self = Self(0x09);

    /// Returns the setting with this number.
    #[must_use]
    pub const fn from_number(number: u16) -> Self {
        Self(number)
    }

    /// Returns the number of the setting.
    #[must_use]
    pub const fn number(self) -> u16 {
        self.0
    }
}

/// The settings of the client that bound what the server sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerSettings {
    /// Bytes that the table of the client's decoder may have.
    pub header_table_size: u32,
    /// The window of each new stream.
    pub initial_window: u32,
    /// Bytes of the largest frame that the client takes.
    pub max_frame_size: u32,
    no_old_priorities: Option<u32>,
}

impl Default for PeerSettings {
    fn default() -> Self {
        Self {
            header_table_size: 4096,
            initial_window: DEFAULT_WINDOW,
            max_frame_size: DEFAULT_FRAME_SIZE,
            no_old_priorities: None,
        }
    }
}

impl PeerSettings {
    /// Takes over one setting. Unknown settings are ignored, RFC 9113 §6.5.2.
    ///
    /// # Errors
    /// The value is invalid.
    pub fn apply(&mut self, id: SettingId, value: u32) -> Result<(), RuleViolation> {
        match id {
            SettingId::HEADER_TABLE_SIZE => self.header_table_size = value,
            // RFC 9113 §6.5.2, RFC 8441 §3: 0 or 1. The server neither pushes nor sends CONNECT.
            SettingId::ENABLE_PUSH | SettingId::ENABLE_CONNECT_PROTOCOL if value > 1 => {
                return Err(RuleViolation::SettingValue);
            }
            SettingId::INITIAL_WINDOW_SIZE => {
                if value > LARGEST_WINDOW {
                    return Err(RuleViolation::WindowSetting);
                }
                self.initial_window = value;
            }
            SettingId::MAX_FRAME_SIZE => {
                if !(DEFAULT_FRAME_SIZE..=LARGEST_FRAME_SIZE).contains(&value) {
                    return Err(RuleViolation::SettingValue);
                }
                self.max_frame_size = value;
            }
            // RFC 9218 §2.1: 0 or 1, and it does not change after the first SETTINGS.
            SettingId::NO_RFC7540_PRIORITIES => {
                let is_changed = self.no_old_priorities.is_some_and(|first| first != value);
                if value > 1 || is_changed {
                    return Err(RuleViolation::SettingValue);
                }
                self.no_old_priorities = Some(value);
            }
            _ => {}
        }
        Ok(())
    }

    /// Ends the first SETTINGS of the client: what they leave out has its default from then on.
    pub fn end_first(&mut self) {
        self.no_old_priorities.get_or_insert(0);
    }
}
