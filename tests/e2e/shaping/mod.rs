//! What becomes of requests and answers on their way: fields, paths, redirects, pages of other origins, compression.

mod compression;
mod cors;
mod fields;
mod paths;
mod redirects;
