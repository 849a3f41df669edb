//! Reads the tables of a configuration, one file a table.

pub(super) mod acme;
pub(super) mod admin;
mod balance;
pub(super) mod cache;
pub(super) mod client;
pub(super) mod compress;
mod conditions;
pub(super) mod cors;
mod defence;
pub(super) mod error_pages;
pub(super) mod jwt;
pub(super) mod limit;
pub(super) mod list;
pub(super) mod listener;
pub(super) mod listener_tls;
pub(super) mod log;
pub(super) mod origin;
mod origin_tls;
mod otlp;
mod resilience;
pub(super) mod route;
pub(super) mod server;
mod servers;
pub(super) mod store;
mod store_login;
pub(super) mod tracing;
pub(super) mod transform;
