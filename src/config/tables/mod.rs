//! Reads the tables of a configuration, one file a table.

pub(super) mod admin;
mod balance;
pub(super) mod client;
mod conditions;
mod failing;
pub(super) mod jwt;
pub(super) mod limit;
pub(super) mod list;
pub(super) mod listener;
pub(super) mod log;
pub(super) mod origin;
pub(super) mod route;
pub(super) mod server;
mod servers;
pub(super) mod store;
