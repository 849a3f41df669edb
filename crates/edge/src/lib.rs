//! The path of requests: a [`listener`] reads them, and the [`gateway`] leads each through the stages to its answer.
#![forbid(unsafe_code)]
// A test that unwraps fails where it should.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

mod compression;
#[cfg(any(fuzzing, test))]
pub mod fuzzing;
pub mod gateway;
mod http_date;
pub mod listener;
