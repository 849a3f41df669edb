//! Ends a connection, RFC 9113 §6.8.
//!
//! A drain takes two steps, so that no request is lost that the client sends meanwhile: GOAWAY with the greatest stream and a PING; and
//! when the client has answered the PING, GOAWAY with the last stream that it has begun.

use super::ServerConnection;
use super::shutdown_phase::ShutdownPhase;
use crate::error_code::ErrorCode;
use crate::frame::{FrameFlags, write_goaway, write_ping};
use crate::stream_id::StreamId;

/// The bytes of the PING of a drain.
const DRAIN_PING: [u8; 8] = *b"draining";

impl ServerConnection {
    /// Asks the client to open no more streams. Those that it has sent before it knows are served.
    pub fn drain(&mut self) {
        if self.shutdown == ShutdownPhase::Open {
            self.shutdown = ShutdownPhase::Announced;
            let out = self.core.output.writer();
            write_goaway(out, StreamId::MAX, ErrorCode::NO_ERROR);
            write_ping(out, FrameFlags::NONE, DRAIN_PING);
        }
    }

    /// Ends the connection and all its streams with this code. Nothing more is read. GOAWAY waits for the socket.
    pub fn close(&mut self, code: ErrorCode) {
        if self.is_closed() {
            return;
        }
        let last = match self.shutdown {
            // RFC 9113 §6.8: the last stream of a later GOAWAY is no greater.
            ShutdownPhase::Draining(last) => last,
            _ => self.core.last_stream,
        };
        write_goaway(self.core.output.writer(), last, code);
        self.shutdown = ShutdownPhase::Closed;
        self.core.close();
    }

    /// Returns whether the drain is over: the client opens no stream any more, and none is open.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        match self.shutdown {
            ShutdownPhase::Open | ShutdownPhase::Announced => false,
            ShutdownPhase::Draining(_) => self.core.streams.is_empty(),
            ShutdownPhase::Closed => true,
        }
    }

    pub(super) fn receive_pong(&mut self, opaque: [u8; 8]) {
        if opaque == DRAIN_PING && self.shutdown == ShutdownPhase::Announced {
            // What the client has sent before it read GOAWAY has come.
            self.shutdown = ShutdownPhase::Draining(self.core.last_stream);
            let out = self.core.output.writer();
            write_goaway(out, self.core.last_stream, ErrorCode::NO_ERROR);
        }
    }
}
