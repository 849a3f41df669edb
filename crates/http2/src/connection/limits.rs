//! Owns the bounds of a connection, which the caller sets.

use crate::request_head::ExtendedConnect;

/// The bounds of one connection of a client, for the server's side.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionLimits {
    /// Requests that may be open at the same time; further ones are refused.
    pub max_streams: u32,
    /// Bytes of the fields of a head or a trailer, each field 32 beside its text, RFC 9113 §6.5.2.
    pub max_field_list: u32,
    /// Bytes of a body that a client may send before the caller releases some, on one stream.
    pub stream_window: u32,
    /// Bytes of all bodies together; at least 65,535, RFC 9113 §6.9.2.
    pub connection_window: u32,
    /// Bytes of output that wait for the socket while DATA is added. Heads are added beyond them.
    pub output_bytes: usize,
    /// The rule for WebSocket and the like.
    pub extended_connect: ExtendedConnect,
    /// The bounds on what makes work only.
    pub floods: FloodLimits,
}

/// The bounds on what makes work and asks for nothing, RFC 9113 §10.5. Beyond each the connection ends with `ENHANCE_YOUR_CALM`.
#[derive(Clone, Copy, Debug)]
pub struct FloodLimits {
    /// Frames that carry neither a head nor data, which may come at once.
    pub control_frames: u32,
    /// Such frames by which a second refills what was used of them.
    pub control_frames_per_second: u32,
    /// Such frames by which a request refills them.
    pub control_frames_per_request: u32,
    /// Such frames by which a DATA frame that is sent refills them.
    pub control_frames_per_data_frame: u32,
    /// Requests that a client may cancel before they are answered, if they are more than half of all (CVE-2023-44487).
    pub cancelled_streams: u32,
    /// Streams that the peer may make this side reset, by rules that it breaks (CVE-2025-8671).
    pub broken_streams: u32,
    /// Streams that this side has reset, and of which it ignores what is still under way, RFC 9113 §5.1. Each takes four bytes.
    pub remembered_resets: usize,
}
