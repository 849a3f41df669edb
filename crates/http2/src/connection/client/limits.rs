//! Owns the bounds of a client's connection, which the caller sets.

use crate::connection::limits::{ConnectionLimits, FloodLimits};
use crate::request_head::ExtendedConnect;

/// The bounds of one connection to a server.
#[derive(Clone, Copy, Debug)]
pub struct ClientLimits {
    /// Requests that may be open at the same time, or fewer where the server takes fewer.
    pub max_streams: u32,
    /// The same until the settings of the server have come: it refuses what they do not allow.
    pub first_streams: u32,
    /// Bytes of the fields of a head or a trailer, each field 32 beside its text, RFC 9113 §6.5.2.
    pub max_field_list: u32,
    /// Bytes of a body that the server may send before the caller releases some, on one stream.
    pub stream_window: u32,
    /// Bytes of all bodies together; at least 65,535, RFC 9113 §6.9.2.
    pub connection_window: u32,
    /// Bytes of output that wait for the socket while DATA is added. Heads are added beyond them.
    pub output_bytes: usize,
    /// The bounds on what makes work only. A server cancels no requests, so [`FloodLimits::cancelled_streams`] bounds nothing.
    pub floods: FloodLimits,
}

impl ClientLimits {
    /// Returns the bounds that both sides have.
    pub(super) fn shared(self) -> ConnectionLimits {
        ConnectionLimits {
            max_streams: self.max_streams,
            max_field_list: self.max_field_list,
            stream_window: self.stream_window,
            connection_window: self.connection_window,
            output_bytes: self.output_bytes,
            extended_connect: ExtendedConnect::Refused,
            floods: self.floods,
        }
    }
}
