//! HPACK, RFC 7541: blocks of fields become names and values, and back.
//!
//! [`FieldDecoder`] writes the fields of a block as lines into one buffer, in the form in which the stages of a request share them.
//! [`FieldEncoder`] writes the fields of a message, and gives those an entry of the dynamic table that repeat. Both stand on [`integer`]
//! and [`huffman`], which QPACK shares, RFC 9204 §4.1.

mod decoder;
mod dynamic_table;
mod encoder;
pub mod huffman;
mod huffman_code;
pub mod integer;
mod static_table;

pub(crate) use dynamic_table::{BEHIND_NAME, LINE_END};

pub use decoder::{
    DecodedField, DecodedList, FieldDecoder, FieldPlaces, HpackError, end_line, write_name,
};
pub(crate) use encoder::write_status;
pub use encoder::{FieldEncoder, write_field};
