//! Metrics, logs and spans of a server that answers many requests at the same time.
//!
//! A thread that serves a request adds to counters of its own ([`per_thread`], [`histogram`]). Sums and names are made when a scrape
//! asks for them ([`exposition`]). A line of a log goes into a buffer of its thread, and another thread writes it ([`line_log`]) or sends
//! it ([`syslog`]). The crate knows nothing of what is counted and logged.
//!
//! # Example
//!
//! ```
//! use std::sync::atomic::{AtomicU64, Ordering};
//!
//! use sluicegate_telemetry::exposition::{self, SampledFamily};
//! use sluicegate_telemetry::per_thread::PerThread;
//!
//! let requests = PerThread::<AtomicU64>::default();
//! requests.mine().fetch_add(1, Ordering::Relaxed);
//!
//! let sum: u64 = requests.cells().map(|cell| cell.load(Ordering::Relaxed)).sum();
//! let family = SampledFamily::counter("requests_total", "Requests.").series(&[], sum);
//! let text = exposition::text([family]);
//! assert!(text.ends_with(b"requests_total 1\n"));
//! ```
#![forbid(unsafe_code)]
// A test that unwraps fails where it should.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

pub mod decimal;
pub mod escape;
pub mod exposition;
pub mod histogram;
mod line_buffers;
pub mod line_log;
mod line_sink;
mod line_writer;
#[cfg(feature = "otlp")]
pub mod otlp;
pub mod per_thread;
pub mod process;
pub mod rfc3339;
pub mod syslog;
pub mod terminal_text;

/// The example of the README, which compiles and runs as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExample;
