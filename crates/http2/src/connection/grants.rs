//! Grants the peer as many bytes of bodies as the caller takes, RFC 9113 §6.9.
//!
//! A window grows by large steps, so that WINDOW_UPDATE frames are few. A stream whose announced body fits into its window
//! gets none.

use super::connection_core::ConnectionCore;
use super::stream::ReceiveState;
use crate::frame::write_window_update;
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
        let left = state.receive_window;
        let is_enough = |announced: u64| i64::try_from(announced).is_ok_and(|bytes| bytes <= left);
        let is_whole =
            state.receiving != ReceiveState::Body || state.announced.is_some_and(is_enough);
        if state.released >= (self.limits.stream_window / 2).max(1) && !is_whole {
            let grown = std::mem::take(&mut state.released);
            state.receive_window += i64::from(grown);
            write_window_update(self.output.writer(), stream, grown);
        }
        self.release_of_connection(bytes);
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
