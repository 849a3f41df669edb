//! Parses the formats of lines: one file a format.

pub(crate) mod alb;
pub(crate) mod apache;
pub(crate) mod caddy;
pub(crate) mod combined;
pub(crate) mod csv;
pub(crate) mod envoy;
pub(crate) mod haproxy;
pub(crate) mod json_members;
pub(crate) mod nginx;
mod nginx_directive;
pub(crate) mod sluicegate;
pub(crate) mod w3c;
mod words;
