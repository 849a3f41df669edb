//! Ends a connection, RFC 9114 §5.2.
//!
//! A drain takes two steps, so that no request is lost that the client sends meanwhile: GOAWAY with the greatest number; and when the
//! client has had the time to read it, which only the caller can tell, GOAWAY with the first request that has not begun.

use super::ServerConnection;
use super::shutdown_phase::ShutdownPhase;
use crate::frame::{FrameHead, FrameKind, write_head};
use crate::stream_id::StreamId;
use crate::varint;

impl ServerConnection {
    /// Asks the client to begin no more requests. Those that it has sent before it knows are served.
    pub fn drain(&mut self) {
        if self.shutdown == ShutdownPhase::Open {
            self.shutdown = ShutdownPhase::Announced;
            self.write_goaway(StreamId::LAST_REQUEST);
        }
    }

    /// Takes no further request. The caller calls it when the client has had the time to read what [`drain`](Self::drain) says.
    pub fn finish_drain(&mut self) {
        if let ShutdownPhase::Open | ShutdownPhase::Announced = self.shutdown {
            self.shutdown = ShutdownPhase::Draining(self.next_request);
            self.write_goaway(self.next_request);
        }
    }

    /// Returns whether the drain is over: the client begins no request any more, and none is open.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        match self.shutdown {
            ShutdownPhase::Open | ShutdownPhase::Announced => false,
            ShutdownPhase::Draining(_) => self.requests.is_empty(),
            ShutdownPhase::Closed => true,
        }
    }

    /// Ends the connection and all its requests. The caller closes QUIC's connection with a code.
    pub fn close(&mut self) {
        self.shutdown = ShutdownPhase::Closed;
        self.requests.clear();
        self.actions.clear();
        self.control_output = Vec::new();
    }

    /// Returns whether nothing more is read or sent.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.shutdown == ShutdownPhase::Closed
    }

    fn write_goaway(&mut self, stream: StreamId) {
        let mut payload = Vec::new();
        varint::write(stream.number(), &mut payload);
        let kind = FrameKind::GOAWAY;
        let length = payload.len() as u64;
        write_head(FrameHead { kind, length }, &mut self.control_output);
        self.control_output.extend_from_slice(&payload);
    }
}
