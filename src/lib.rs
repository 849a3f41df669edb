//! Sluicegate: an L7 reverse proxy and edge gateway that decides, per route and per client, how much may pass.
//!
//! This is the library of the program `sluicegate`, not an interface for other programs: [`cli`] parses the command line, and [`server`]
//! starts and stops the process, with its tasks in the background. Everything else is a crate below `crates/`.
//!
//! # The life of a request
//!
//! A [`listener`](sluicegate_edge::listener) reads the request and hands it to the [`gateway`](sluicegate_edge::gateway), which calls one
//! stage after the other: those of [`sluicegate_decide`] find the client and the route and evaluate the limits, [`sluicegate_origin`]
//! chooses a server, [`response`](sluicegate_decide::response) makes the answer, and [`sluicegate_record`] writes log and metrics. Each
//! request uses one [`snapshot`](sluicegate_process::snapshot) of the configuration from its start to its end.
//! `ARCHITECTURE.md` follows a request through the files.
#![forbid(unsafe_code)]
// A test that unwraps fails where it should.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

pub mod cli;
pub mod server;

mod load;
pub mod reverse_dns;
mod usage_sampler;

pub use sluicegate_config as config;
pub use sluicegate_store as store;
