//! Reads the tables of a configuration, one file a table.

pub(super) mod acme;
pub(super) mod admin;
pub(super) mod client;
mod conditions;
pub(super) mod jwt;
pub(super) mod limit;
pub(super) mod list;
pub(super) mod listener;
pub(super) mod listener_tls;
pub(super) mod log;
pub(super) mod origin;
pub(super) mod route;
pub(super) mod server;
pub(super) mod store;
