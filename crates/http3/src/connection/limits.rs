//! Owns the bounds of a connection, which the caller sets. Those of streams are QUIC's.

use sluicegate_http2::{ExtendedConnect, FloodLimits};

/// The bounds of one connection of a client.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionLimits {
    /// Bytes of the fields of a head or trailers, each field 32 beside its text, RFC 9114 §4.2.2.
    pub max_field_list: usize,
    /// The rule for WebSocket and the like, RFC 9220.
    pub extended_connect: ExtendedConnect,
    /// The bounds on what makes work only, RFC 9114 §10.5. Beyond each the connection ends with `H3_EXCESSIVE_LOAD`. QUIC itself drops what
    /// comes for streams that are over, so `remembered_resets` means nothing here.
    pub floods: FloodLimits,
}
