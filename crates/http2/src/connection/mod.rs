//! Owns connections without I/O, each side of them.
//!
//! The caller passes bytes of the peer to `receive` and gets events; it sends by methods, and writes `output` to the socket. No method
//! waits, and none keeps a byte of a body: DATA is lent to the caller, and bodies that are sent are copied once, into the output, when
//! there is room for them.
//!
//! [`connection_core`] is the state that both sides have; further files act on it:
//! - `receive` finds frames in any split of the input, `frames` acts on them, `blocks` on blocks of fields, `data` on bodies.
//! - `send` writes messages, `schedule` decides whose DATA goes first.
//! - `grants` opens windows as the caller takes bodies, `flood` bounds what makes work and asks for nothing.
//!
//! [`server`] and [`client`] are what only one side does.

mod blocks;
mod body_frame;
mod client;
mod connection_core;
mod data;
mod ended_streams;
mod field_blocks;
mod field_writer;
mod flood;
mod frame_input;
mod frames;
mod grants;
mod limits;
mod methods;
mod output;
mod receive;
mod receive_window;
mod schedule;
mod send;
mod server;
mod stream;
mod stream_end;
mod stream_event;
mod stream_gone;

pub use client::{
    ClientConnection, ClientEvent, ClientLimits, RequestPseudoFields, RequestRefused,
};
pub use field_writer::FieldWriter;
pub use flood::FloodCounters;
pub use limits::{ConnectionLimits, FloodLimits};
pub use server::{ConnectionEvent, ServerConnection};
pub use stream_end::StreamEnd;
pub use stream_gone::StreamGone;
