//! The configuration of the gateway: text becomes typed rules, or a list of everything that is wrong with it.
//!
//! [`parse`] reads TOML into a tree that has the place of every value; `tables` walks it, one file a table; `field` and `section` turn
//! texts into values and record every problem; `references` and a [`RouteReview`] check the tables together. The result,
//! [`rules::Rules`], needs no further check. [`load`] does the same with a file and those that it includes, [`schema()`] describes every
//! key, and [`MemoryPlan`] adds up the memory that the rules may take.
//!
//! # Example
//!
//! ```
//! use sluicegate_config::{no_review, parse};
//!
//! let text = "
//!     listener = [{ address = '127.0.0.1:8080' }]
//!     route = [{ path = '/*', limits = ['otp'], respond = { status = 200 } }]
//!     limit.otp = { key = 'client.ip', rates = ['5 per 3s', '20 per 1m'] }
//! ";
//! let rules = parse("gateway.toml", text, no_review)?.rules;
//! assert_eq!(rules.limits["otp"].policy.rates().iter().count(), 2);
//! # Ok::<(), sluicegate_config::Problems>(())
//! ```
//!
//! # Errors
//!
//! All problems of a file are reported at once, each with its place, its reason and what to write instead; see [`Problems`].
//! A bad value never becomes a default.
#![forbid(unsafe_code)]
// A test that unwraps fails where it should.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

mod acme_references;
mod action;
mod activation;
mod activation_references;
mod admin_tokens;
mod algorithm;
mod ban;
mod braces;
mod cidr;
mod comments;
mod condition;
mod cost;
mod crawler_references;
mod cycle;
mod declaration;
mod declared_tables;
mod defined_names;
mod env_variables;
mod environment;
mod fallback_limit;
mod field;
mod file;
mod form;
mod forward_auth;
mod guarded_hosts;
mod hex;
mod host;
mod include;
mod key;
mod key_homes;
mod key_notation;
mod lexer;
mod limit_levels;
mod line_filter;
mod load_condition;
mod memory;
mod normalizer;
mod notation;
mod open_text;
mod opened_paths;
mod override_rows;
mod overrides;
mod parsed_tables;
mod part;
mod pattern;
mod prefixes;
mod problem;
mod rates;
mod redaction;
mod references;
mod refusal;
mod report;
mod route_review;
pub mod rules;
mod schema;
mod schema_constraints;
mod secrets;
mod section;
mod shared;
mod source;
mod specimen;
mod spellings;
mod store_url;
mod suggest;
mod syntax;
mod tables;
mod template;
mod tier;
mod units;
mod unknown_keys;
mod written;
mod written_files;
mod written_tables;
mod zone;

pub use self::action::{Action, Share};
pub use self::algorithm::algorithm_name;
pub use self::cidr::read_block;
pub use self::condition::Condition;
pub use self::environment::{
    BindProbe, Environment, NoEnvironment, PathKind, SystemEnvironment, matching,
};
pub use self::file::{
    Loaded, known_keys, load, load_again, load_offline, load_part, load_to_check, load_unopened,
    parse, parse_in, parse_offline, parse_to_check,
};
pub use self::key::key_part_can_be_absent;
pub use self::line_filter::{LineFacts, LineFilter, OUTCOMES};
pub use self::load_condition::{
    HysteresisMargin, LimitFigure, LoadCondition, LoadFigure, OriginFigure,
};
pub use self::memory::{AvailableMemory, MemoryPlan, bytes_text};
pub use self::opened_paths::MADE_BY_UNIT;
pub use self::override_rows::counted_value;
pub use self::problem::{Problem, Problems, Severity};
pub use self::route_review::{RouteReport, RouteReview, no_review};
pub use self::schema::schema;
pub use self::secrets::{SECRET, shown_parameter, without_url_secrets};
pub use self::units::read_duration;
pub use self::written::WrittenConfig;
pub use self::written_files::WrittenFile;
