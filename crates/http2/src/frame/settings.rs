//! Owns the settings of the peer, RFC 9113 §6.5.

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

/// The settings of the peer that bound what is sent to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerSettings {
    /// Bytes that the table of the peer's decoder may have.
    pub header_table_size: u32,
    /// The window of each new stream.
    pub initial_window: u32,
    /// Bytes of the largest frame that the peer takes.
    pub max_frame_size: u32,
    /// The streams that a client may have open; `None` until the first SETTINGS have come.
    pub max_streams: Option<u32>,
    is_of_server: bool,
    no_old_priorities: Option<u32>,
}

impl Default for PeerSettings {
    fn default() -> Self {
        Self {
            header_table_size: 4096,
            initial_window: DEFAULT_WINDOW,
            max_frame_size: DEFAULT_FRAME_SIZE,
            max_streams: None,
            is_of_server: false,
            no_old_priorities: None,
        }
    }
}

impl PeerSettings {
    /// Returns the settings of a server before its first SETTINGS. The default is those of a client.
    #[must_use]
    pub fn from_server() -> Self {
        Self {
            is_of_server: true,
            ..Self::default()
        }
    }

    /// Takes over one setting. Unknown settings are ignored, RFC 9113 §6.5.2.
    ///
    /// # Errors
    /// The value is invalid.
    pub fn apply(&mut self, id: SettingId, value: u32) -> Result<(), RuleViolation> {
        match id {
            SettingId::HEADER_TABLE_SIZE => self.header_table_size = value,
            // RFC 9113 §6.5.2: 0 or 1, and 0 where a server sends it. Nothing is pushed to a client that allows it.
            SettingId::ENABLE_PUSH if value > u32::from(!self.is_of_server) => {
                return Err(RuleViolation::SettingValue);
            }
            SettingId::MAX_CONCURRENT_STREAMS => self.max_streams = Some(value),
            // RFC 8441 §3: 0 or 1. Extended CONNECT is sent to no server.
            SettingId::ENABLE_CONNECT_PROTOCOL if value > 1 => {
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

    /// Ends the first SETTINGS of the peer: what they leave out has its default from then on.
    pub fn end_first(&mut self) {
        // RFC 9113 §6.5.2: initially, there is no limit.
        self.max_streams.get_or_insert(u32::MAX);
        self.no_old_priorities.get_or_insert(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a client may allow what a server may not, and what is left out has its default. Method: settings of both.
    #[test]
    fn settings_depend_on_their_sender() {
        let push = SettingId::ENABLE_PUSH;
        assert_eq!(PeerSettings::default().apply(push, 1), Ok(()));
        let mut settings = PeerSettings::from_server();
        let refused = Err(RuleViolation::SettingValue);
        assert_eq!(settings.apply(push, 1), refused);
        assert_eq!(settings.apply(push, 0), Ok(()));
        assert_eq!(settings.max_streams, None);
        settings.end_first();
        assert_eq!(settings.max_streams, Some(u32::MAX));
        let streams = SettingId::MAX_CONCURRENT_STREAMS;
        assert_eq!(settings.apply(streams, 0), Ok(()));
        assert_eq!(settings.max_streams, Some(0));
        let connect = SettingId::ENABLE_CONNECT_PROTOCOL;
        assert_eq!(settings.apply(connect, 1), Ok(()));
        assert_eq!(settings.apply(connect, 0), Ok(()));
        assert_eq!(settings.apply(connect, 2), refused);
    }
}
