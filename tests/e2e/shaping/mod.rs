//! What becomes of requests and answers on their way: fields, paths, redirects, pages of other origins, compression, failures, traces.

mod compression;
mod compression_ends;
mod compression_heads;
mod cors;
mod fields;
mod intercepting;
mod intercepting_http2;
mod intercepting_stored;
mod pages;
mod paths;
mod redirects;
mod traces;
