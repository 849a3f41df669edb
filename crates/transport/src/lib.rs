//! The parts that connections of clients and of origins share: ends of waits, buffers of threads, names of what a poll or a piece of a body
//! is.
#![forbid(unsafe_code)]
// A test that unwraps fails where it should.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

pub mod body_end;
pub mod http2_floods;
pub mod reusable_timeout;
pub mod socket_poll;
pub mod task_waker;
pub mod thread_buffer;
pub mod timer;
