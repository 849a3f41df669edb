//! QPACK without a dynamic table, RFC 9204: field sections of static entries and literals.
//!
//! The server allows a table of capacity 0, so no section refers to another one, none waits, and encoder and decoder keep no state.

mod decoder;
mod encoder;
mod instructions;
mod static_table;

pub use decoder::{SectionSize, decode};
pub use encoder::{write_field, write_prefix, write_status};

pub(crate) use instructions::{DecoderInstructions, read_encoder_stream};
