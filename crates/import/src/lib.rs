//! Translates configurations of other proxies into a configuration of Sluicegate.
//!
//! [`import`] reads the text of a configuration of nginx, HAProxy, ingress-nginx, Caddy or Traefik and returns an [`Imported`]: the TOML,
//! and a [`Ledger`] that has each directive of the input once, as translated, as translated with a difference, or as left out with the
//! reason. A directive that no translator handles is left out, so nothing is dropped silently. The crate has no I/O: [`IncludedFiles`]
//! reads the files that the input includes.
//!
//! The way of a configuration: a parser makes a tree of directives, each with its [`Position`] and its entry in the ledger; a translator
//! makes a [`model::GatewayModel`] of the tree; the module `toml` writes that with comments.
//!
//! # Limits
//! [`bounds`] has the caps on size, depth and number of what is read.
//!
//! # Example
//! ```
//! use sluicegate_import::{Format, NoFiles, import};
//!
//! let text = "limit_req_zone $binary_remote_addr zone=otp:10m rate=5r/m;
//! server {
//!     listen 8080;
//!     location / { limit_req zone=otp burst=4 nodelay; proxy_pass http://127.0.0.1:3000; }
//! }";
//! let imported = import(Format::Nginx, "nginx.conf", text, &NoFiles)?;
//! assert!(imported.toml.contains("[limit.otp]\n"));
//! assert!(imported.toml.contains("rates     = [\"5 per minute\"]\n"));
//! # Ok::<(), sluicegate_import::SyntaxError>(())
//! ```
#![forbid(unsafe_code)]
// A test that unwraps fails where it should.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

mod addresses;
pub mod bounds;
mod caddy;
mod cells;
mod certificate_keys;
mod client_fields;
mod client_lists;
mod closed_hosts;
mod decoded_paths;
mod final_slashes;
mod format;
mod haproxy;
mod imported;
mod ingress;
pub mod ledger;
mod letter_case;
pub mod model;
mod names;
mod nginx;
mod own_fields;
mod path_ends;
mod paths;
mod position;
mod route_actions;
mod route_conditions;
mod route_order;
mod shapes;
mod slots;
mod source;
mod tls_suites;
mod toml;
mod traefik;
mod trust;

pub use self::format::Format;
pub use self::imported::{Imported, import};
pub use self::ledger::Ledger;
pub use self::position::{Position, SyntaxError};
pub use self::source::{IncludedFile, IncludedFiles, NoFiles};
