//! The values that the configuration and the stages of the gateway share.
//!
//! What a request says is compared in one normal form, by the text of a rule and by a request: a [`path`], a [`host`], an
//! [`address`], a value of a key ([`normal_form`], [`telephony`]). Rules hold what is checked when they are read: certificates
//! and trust anchors ([`pki`]), the keys that verify tokens ([`jwt`]), texts that no log may show ([`secret`]). [`bounds`] has every cap
//! that a client could press against, [`clock`] the only readings of clocks.
//!
//! Nothing here opens a connection, and nothing here knows a limit or a route.
#![forbid(unsafe_code)]
// A test that unwraps fails where it should.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

pub mod address;
pub mod bounds;
pub mod clock;
pub mod host;
pub mod jwt;
pub mod normal_form;
pub mod path;
pub mod pki;
pub mod proxy_fields;
pub mod secret;
pub mod telephony;
