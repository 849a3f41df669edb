//! Bounds the frames of HTTP/2 that only make work for the side that receives them.

mod control_frames;

pub(crate) use control_frames::{ControlFrameBudget, IncomingFrame};
