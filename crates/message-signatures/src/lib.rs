//! Verifies which crawler has signed a request: HTTP message signatures (RFC 9421) in the profile of Web Bot Auth
//! (draft-meunier-webbotauth-httpsig-protocol), with Ed25519.
//!
//! [`BotSignature::read`] finds the signatures of a request, [`BotSignature::verify`] verifies one with a key of a [`KeySet`]. Nothing
//! here opens a connection or reads a clock: keys come from the caller, and so does the time.
//!
//! # What is verified
//! A signature counts if all of this holds:
//!
//! 1. Its `tag` is `web-bot-auth`, and `keyid` is the thumbprint (RFC 7638) of the key.
//! 2. It covers the authority of the request, by `@authority` or `@target-uri`, and the field `Signature-Agent` where that is there.
//! 3. `created` and `expires` are there, at most [`LONGEST_LIFE`] seconds apart, and the present lies between them.
//! 4. `alg` is `ed25519` or absent. The key decides the algorithm, never the request.
//! 5. Every covered component has a value here. One that is not understood makes the signature invalid: what it covers is unknown.
//!
//! # Limits
//! [`MOST_BYTES`] of both fields together, [`MOST_SIGNATURES`] with the tag, [`MOST_COMPONENTS`] in each. What exceeds them is no
//! signature.
#![forbid(unsafe_code)]
// A test that unwraps fails where it should.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

mod components;
mod fault;
mod keys;
mod signature;

pub use self::components::SignedRequest;
pub use self::fault::SignatureFault;
pub use self::keys::{KeySet, KeySetError, VerifyingKey};
pub use self::signature::{BotSignature, BotSignatures, SIGNATURE, SIGNATURE_INPUT};

/// Seconds between `created` and `expires`. The draft recommends at most a day; a longer one could be replayed for as long.
pub const LONGEST_LIFE: u64 = 24 * 60 * 60;

/// Seconds by which the signer's clock may be ahead.
pub const CLOCK_SKEW: u64 = 60;

/// Bytes of `Signature-Input` and `Signature` together. One signature has about 400; the structured fields are parsed whole.
pub const MOST_BYTES: usize = 4 * 1024;

/// Signatures with the tag of one request that are read: each may cost a verification. Further ones do not
/// count.
pub const MOST_SIGNATURES: usize = 2;

/// Components that one signature covers. Real ones have two to five.
pub const MOST_COMPONENTS: usize = 16;

/// Keys of one set. Operators publish two while they rotate.
pub const MOST_KEYS: usize = 64;
