//! The values that the configuration and the stages of the gateway share.
//!
//! Rules and requests are compared in one normal form: a [`path`], a [`host`], an [`address`], the value of a key ([`normal_form`],
//! [`telephony`]), the name of a parameter ([`parameter_name`], [`form_encoding`]), the keys of an `Authorization` field ([`credentials`]).
//! Rules hold values that were checked when the configuration was read: certificates and trust anchors ([`pki`]), the
//! keys that verify tokens ([`jwt`]), texts that no log may show ([`secret`]), databases of countries and networks ([`geo`]), the
//! proofs of crawlers ([`crawler`]). [`reported_cost`] finds a number in a body that passes. [`proxy_fields`] names the fields that
//! only a proxy may write. [`space_saving`] counts the most frequent items of a stream, [`hex`] writes numbers, and [`wakeup`] ends the
//! wait of a task. [`bounds`] has every cap on the growth that a client can cause, [`usage_share`] divides the one of them that all limits
//! share, and [`clock`] is the only reader of clocks but for tokio's timers.
//!
//! The crate opens no connection, and knows neither limits nor routes.
#![forbid(unsafe_code)]
// A test that unwraps fails where it should.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

pub mod address;
pub mod bounds;
pub mod clock;
pub mod crawler;
pub mod credentials;
pub mod form_encoding;
pub mod geo;
pub mod hex;
pub mod host;
pub mod jwt;
pub mod normal_form;
pub mod parameter_name;
pub mod path;
pub mod pki;
pub mod proxy_fields;
pub mod received;
pub mod reported_cost;
pub mod secret;
pub mod space_saving;
pub mod telephony;
pub mod usage_share;
pub mod wakeup;
