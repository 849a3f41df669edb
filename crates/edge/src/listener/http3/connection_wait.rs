//! Decides what a connection waits for, by which its permit and its times go.
//!
//! A request is over for the gateway when QUIC has taken its answer. The client has not: so a connection without a request is one whose
//! client has acknowledged all answers, and none of whose streams is open.

use super::streams::QuicState;

/// The event that a connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionWait {
    /// The answer to a request, or its body: the request has times of its own.
    Answer,
    /// The client acknowledges the rest of answers.
    Acknowledgment,
    /// A head is whole.
    Head,
    /// A request begins.
    Request,
}

impl QuicState {
    /// Returns what the connection waits for. So many streams that QUIC sends on, the server's `own`, are not answers.
    pub(super) fn wait(&mut self, own: usize) -> ConnectionWait {
        if self.served() > 0 {
            return ConnectionWait::Answer;
        }
        let heads = self.http.awaited_heads();
        let sending = self.quic.streams().send_streams();
        match sending.saturating_sub(own + heads) {
            0 if heads > 0 => ConnectionWait::Head,
            0 => ConnectionWait::Request,
            _ => ConnectionWait::Acknowledgment,
        }
    }
}
