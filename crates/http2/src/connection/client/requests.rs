//! Opens streams for requests, as many as the server takes.

use super::ClientConnection;
use super::request_refused::RequestRefused;
use crate::connection::stream::{ReceiveState, SendState};
use crate::connection::stream_end::StreamEnd;
use crate::response_head::RequestedContent;
use crate::stream_id::StreamId;

/// The values of the pseudo-fields of a request, RFC 9113 §8.3.1, which are right: CONNECT has an authority alone, RFC 9113 §8.5.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestPseudoFields<'a> {
    /// `:method`.
    pub method: &'a [u8],
    /// `:scheme`.
    pub scheme: Option<&'a [u8]>,
    /// `:authority`.
    pub authority: Option<&'a [u8]>,
    /// `:path`.
    pub path: Option<&'a [u8]>,
}

impl ClientConnection {
    /// Returns how many requests may be sent now.
    #[must_use]
    pub fn free_streams(&self) -> usize {
        if self.is_going_away() {
            return 0;
        }
        let taken = self.max_streams().unwrap_or(self.first_streams);
        let most = self.core.limits.max_streams.min(taken);
        (most as usize).saturating_sub(self.core.streams.len())
    }

    /// Returns how many streams the server takes at the same time; `None` until its settings have come.
    #[must_use]
    pub fn max_streams(&self) -> Option<u32> {
        self.core.peer.max_streams
    }

    /// Returns whether no request can be sent any more. Those that were go on.
    #[must_use]
    pub fn is_going_away(&self) -> bool {
        self.is_closed() || self.last_processed.is_some() || self.next_stream().is_none()
    }

    /// Sends the head of a request. Names are in lower case, and no field is about the connection.
    ///
    /// # Errors
    /// No stream is [free](Self::free_streams).
    pub fn send_request<'f>(
        &mut self,
        pseudo: RequestPseudoFields<'f>,
        fields: impl IntoIterator<Item = (&'f [u8], &'f [u8])>,
        end: StreamEnd,
    ) -> Result<StreamId, RequestRefused> {
        // RFC 9113 §5.1.2.
        let stream = self.next_stream().filter(|_| self.free_streams() > 0);
        let stream = stream.ok_or(RequestRefused)?;
        let core = &mut self.core;
        core.last_stream = stream;
        core.floods.begin_request();
        let mut state = core.new_stream(stream);
        state.receiving = ReceiveState::Head(RequestedContent::from_method(pseudo.method));
        state.sending = SendState::Body;
        core.streams.insert(state);
        let start = core.begin_block();
        for (name, value) in [
            (&b":method"[..], Some(pseudo.method)),
            (b":scheme", pseudo.scheme),
            (b":authority", pseudo.authority),
            (b":path", pseudo.path),
        ] {
            if let Some(value) = value {
                core.encoder.write_pseudo(name, value, core.output.writer());
            }
        }
        core.field_writer().write_all(fields);
        core.end_block(stream, start, end);
        Ok(stream)
    }

    /// Returns the stream of the next request; `None` where all numbers are used, RFC 9113 §5.1.1.
    fn next_stream(&self) -> Option<StreamId> {
        let last = self.core.last_stream;
        match last.is_connection() {
            true => Some(StreamId::new(1)),
            false => (last < StreamId::MAX).then(|| StreamId::new(last.number() + 2)),
        }
    }
}
