//! Grants the peer as many bytes of bodies as the caller takes, RFC 9113 §6.9.
//!
//! A window grows by large steps, so that WINDOW_UPDATE frames are few. A stream whose announced body fits into its window
//! gets none.

use std::mem;

use super::connection_core::ConnectionCore;
use super::stream::{ReceiveState, StreamState};
use crate::frame::{DEFAULT_WINDOW, write_window_update};
use crate::stream_id::StreamId;

impl ConnectionCore {
    pub(super) fn release(&mut self, stream: StreamId, bytes: usize) {
        // Those of a stream that is over were released when it ended.
        let Some(state) = self.streams.get_mut(stream) else {
            return;
        };
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let bytes = bytes.min(state.unreleased);
        state.unreleased -= bytes;
        state.released += bytes;
        if let Some(grown) = state.grow_window(self.limits.stream_window) {
            write_window_update(self.output.writer(), stream, grown);
        }
        self.release_of_connection(bytes);
    }

    /// Counts by the own settings from now on, since the peer has acknowledged them.
    pub(super) fn begin_own_settings(&mut self) {
        if mem::replace(&mut self.are_settings_acknowledged, true) {
            return;
        }
        let window = self.limits.stream_window;
        let shrunk = DEFAULT_WINDOW.saturating_sub(window);
        if shrunk == 0 {
            return;
        }
        for state in self.streams.iter_mut() {
            // RFC 9113 §6.9.2: the peer takes the difference from its windows, which may become negative.
            state.receive_window -= i64::from(shrunk);
            if let Some(grown) = state.grow_window(window) {
                write_window_update(self.output.writer(), state.id, grown);
            }
        }
    }

    /// Releases bytes of the connection's window that no caller has to take.
    pub(super) fn release_of_connection(&mut self, bytes: u32) {
        self.window.release(bytes);
        self.grow_window();
    }

    /// Lets the window of the connection grow, as it may when bytes are released, or when the peer has used some of it.
    pub(super) fn grow_window(&mut self) {
        if !self.is_closed()
            && let Some(grown) = self.window.grow()
        {
            write_window_update(self.output.writer(), StreamId::CONNECTION, grown);
        }
    }
}

impl StreamState {
    /// Lets a window of this size grow by what was released, if that is much of it and the body needs it. Returns the increment.
    fn grow_window(&mut self, window: u32) -> Option<u32> {
        let left = self.receive_window;
        let is_enough = |announced: u64| i64::try_from(announced).is_ok_and(|bytes| bytes <= left);
        let is_whole =
            self.receiving != ReceiveState::Body || self.announced.is_some_and(is_enough);
        if self.released < (window / 2).max(1) || is_whole {
            return None;
        }
        let grown = mem::take(&mut self.released);
        self.receive_window += i64::from(grown);
        Some(grown)
    }
}
