//! What becomes of requests and answers on their way: fields, paths, redirects, pages of other origins, compression, failures, traces.

mod compression;
mod cors;
mod fields;
mod pages;
mod paths;
mod redirects;
mod traces;
