//! Acts on frames about settings, windows and the end of a stream, which mean the same on both sides.

use super::connection_core::ConnectionCore;
use super::stream::StreamState;
use super::stream_event::StreamResult;
use crate::frame::{LARGEST_WINDOW, SettingList, write_settings_ack};
use crate::stream_id::StreamId;
use crate::violation::RuleViolation;

impl ConnectionCore {
    /// Takes over settings and acknowledges them, RFC 9113 §6.5.3.
    pub(super) fn receive_settings(
        &mut self,
        settings: SettingList<'_>,
    ) -> Result<(), RuleViolation> {
        let before = self.peer.initial_window;
        for (id, value) in settings.iter() {
            self.peer.apply(id, value)?;
            self.encoder.set_max_size(self.peer.header_table_size);
        }
        self.peer.end_first();
        if self.peer.initial_window > before {
            // RFC 9113 §6.9.2: a window that the change makes too large is an error of the connection.
            let initial = i64::from(self.peer.initial_window);
            let largest = self.streams.iter().map(|state| state.send_window).max();
            if largest.is_some_and(|window| window + initial > i64::from(LARGEST_WINDOW)) {
                return Err(RuleViolation::WindowOverflow);
            }
        }
        write_settings_ack(self.output.writer());
        Ok(())
    }

    /// Opens a window in which the peer takes DATA, RFC 9113 §6.9.
    pub(super) fn receive_window_update(
        &mut self,
        stream: StreamId,
        increment: u32,
    ) -> StreamResult<'static> {
        if stream.is_connection() {
            if increment == 0 {
                return Err(RuleViolation::WindowIncrement);
            }
            self.send_window += i64::from(increment);
            return match self.send_window > i64::from(LARGEST_WINDOW) {
                true => Err(RuleViolation::WindowOverflow),
                false => Ok(None),
            };
        }
        if self.is_idle(stream) {
            return Err(RuleViolation::IdleStream);
        }
        let initial = i64::from(self.peer.initial_window);
        let Some(state) = self.streams.get_mut(stream) else {
            return Ok(None);
        };
        if increment == 0 {
            return self.break_stream(stream, RuleViolation::WindowIncrement);
        }
        state.send_window += i64::from(increment);
        match state.send_window + initial > i64::from(LARGEST_WINDOW) {
            true => self.break_stream(stream, RuleViolation::WindowOverflow),
            false => Ok(None),
        }
    }

    /// Removes a stream that the peer resets, RFC 9113 §6.4.
    pub(super) fn receive_reset(
        &mut self,
        stream: StreamId,
    ) -> Result<Option<StreamState>, RuleViolation> {
        if self.is_idle(stream) {
            return Err(RuleViolation::IdleStream);
        }
        let state = self.remove(stream);
        if state.is_some() {
            self.ended.add_ended(stream);
        }
        Ok(state)
    }
}
