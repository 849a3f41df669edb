//! Decides how much a peer of HTTP/2 may do that only makes work: clients and servers may do the same, but for cancelled requests.

use sluicegate_base::bounds;
use sluicegate_http2::FloodLimits;

/// Returns the bounds of a connection whose peer may cancel so many requests.
pub fn flood_limits(cancelled_streams: u32) -> FloodLimits {
    FloodLimits {
        control_frames: bounds::CONTROL_FRAMES,
        control_frames_per_second: bounds::CONTROL_FRAMES_PER_SECOND,
        control_frames_per_request: bounds::CONTROL_FRAMES_PER_REQUEST,
        control_frames_per_data_frame: bounds::CONTROL_FRAMES_PER_DATA_FRAME,
        cancelled_streams,
        broken_streams: bounds::CLIENT_BROKEN_STREAMS,
        remembered_resets: bounds::ENDED_STREAMS,
    }
}
