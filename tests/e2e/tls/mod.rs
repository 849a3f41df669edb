//! TLS: who is shown what, who may come, and what goes on while certificates change.

mod clear;
mod clients;
mod handshakes;
mod key_exchanges;
mod listeners;
mod renewal;

use crate::harness::*;

/// Says hello to everybody.
const HELLO: &str = "[[route]]\npath = \"/*\"\nrespond = { status = 200, body = \"hello\" }\n";

/// A listener under TLS with these certificates, whose files are `0.pem`, `0.key` and so on in the test's directory.
fn with(pairs: &[&Pair], lines: &str) -> Setup {
    under_tls(Setup::new(), pairs, lines)
}

/// Puts the listener of a setup under TLS likewise.
fn under_tls(mut setup: Setup, pairs: &[&Pair], lines: &str) -> Setup {
    let mut written = Vec::new();
    for (at, pair) in pairs.iter().enumerate() {
        setup = setup
            .file(&format!("{at}.pem"), &pair.certificate)
            .file(&format!("{at}.key"), &pair.key);
        written.push(format!(
            "{{ cert_file = \"../{at}.pem\", key_file = \"../{at}.key\" }}"
        ));
    }
    setup
        .listener_line("[listener.tls]")
        .listener_line(&format!("certificates = [{}]", written.join(", ")))
        .listener_line(lines)
}
