//! Reads the tables of a configuration, one file a table.
#![allow(
    rustdoc::bare_urls,
    rustdoc::broken_intra_doc_links,
    rustdoc::private_intra_doc_links,
    reason = "comments of declared keys are the text of conf/reference.toml, where [cache] is a table and not a link"
)]

pub(super) mod acme;
pub(super) mod adaptive_concurrency;
pub(super) mod admin;
pub(super) mod balance;
pub(super) mod cache;
pub(super) mod challenge;
pub(super) mod client;
pub(super) mod compress;
mod conditions;
pub(super) mod cors;
pub(super) mod crawler;
mod crawler_domains;
pub(super) mod defence;
pub(super) mod error_pages;
pub(super) mod geo;
pub(super) mod jwt;
pub(super) mod limit;
pub(super) mod list;
pub(super) mod listener;
pub(super) mod listener_tls;
pub(super) mod log;
pub(super) mod origin;
pub(super) mod origin_steps;
pub(super) mod origin_tls;
pub(super) mod otlp;
pub(super) mod parsed_route;
pub(super) mod require;
pub(super) mod resilience;
pub(super) mod respond;
pub(super) mod route;
pub(super) mod server;
pub(super) mod servers;
pub(super) mod store;
mod store_login;
pub(super) mod syslog;
pub(super) mod tracing;
pub(super) mod transform;
