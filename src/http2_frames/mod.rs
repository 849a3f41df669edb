//! Reads the frames of HTTP/2 that come on a connection, in front of the h2 crate, and bounds those that only make work.

mod control_frames;
mod frame_reader;

pub(crate) use control_frames::ControlFrameBudget;
pub(crate) use frame_reader::{FrameReader, FrameSink, IncomingFrame};
