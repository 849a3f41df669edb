//! Compresses the bodies of answers with the libraries of their codings.
//!
//! [`encoding`](sluicegate_decide::response::encoding) decides which answers are compressed.

pub(crate) mod compressor;
pub(crate) mod encoder_size;
