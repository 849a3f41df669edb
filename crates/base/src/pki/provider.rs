//! Owns the choice of the cryptography of TLS, for all connections of clients and all that the gateway opens.
//!
//! It is that of aws-lc-rs, which rustls recommends: it prefers X25519MLKEM768, so that who records a connection today cannot read it with
//! the quantum computers of later. Decision 0076 has the reasons and the figures.

use std::sync::{Arc, LazyLock};

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::server::ProducesTickets;

static PROVIDER: LazyLock<Arc<CryptoProvider>> =
    LazyLock::new(|| Arc::new(aws_lc_rs::default_provider()));

/// Returns the cryptography of TLS.
#[must_use]
pub fn crypto_provider() -> Arc<CryptoProvider> {
    Arc::clone(&PROVIDER)
}

/// Makes it the one of libraries that ask the process for theirs, such as Pingora's connections to origins. It is called once, before any
/// of them.
pub fn install_crypto_provider() {
    // It fails where one is installed, which is this one.
    let _ = (*crypto_provider()).clone().install_default();
}

/// Returns what encrypts the sessions that clients keep; `None` where the machine has no random bytes for keys.
#[must_use]
pub fn session_tickets() -> Option<Arc<dyn ProducesTickets>> {
    aws_lc_rs::Ticketer::new().ok()
}
