//! Sets the bounds of what a chunked body has beside its data, of requests and of responses.

use sluicegate_base::bounds;
use sluicegate_http1::ChunkLimits;

/// The bounds of what a chunked body has beside its data.
pub const CHUNK_LIMITS: ChunkLimits = ChunkLimits {
    overhead: bounds::CHUNK_OVERHEAD,
    trailer: bounds::TRAILER_BYTES,
    // Their bytes bound them.
    trailer_fields: bounds::TRAILER_BYTES,
};
