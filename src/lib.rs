//! Sluicegate: an L7 reverse proxy and edge gateway that decides, per route and per client, how much may pass.
//!
//! # The life of a request
//!
//! Bytes arrive at a [`listener`], which hands the request to the [`gateway`]: the table of contents, one phase, one call into a
//! stage. Who asks is the [`client`], what for the [`route`]; [`admission`] decides whether it may pass, the [`origin`] is where it
//! goes, the [`response`] is what is answered, and the [`record`] what is remembered. Each request sees one [`snapshot`].
#![forbid(unsafe_code)]
// A test that unwraps fails where it should.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

pub mod budgets;
pub mod cli;
pub mod server;

pub mod policy_items;
pub mod url_scheme;

pub mod admission;
pub mod client;
pub mod gateway;
pub mod listener;
pub mod origin;
pub mod record;
pub mod rejection;
pub mod response;
pub mod route;

pub mod cache;

pub use sluicegate_config as config;
pub mod explain;
mod in_force;
pub mod process;
pub mod request_id;
mod retry_after;
mod reusable_timeout;
mod rfc3339;
pub mod snapshot;
pub mod state;
pub mod store;
mod supervisor;
pub mod tls;

pub mod acme;
pub mod admin;

#[cfg(any(fuzzing, test))]
pub mod fuzzing;
