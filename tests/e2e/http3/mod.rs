//! HTTP/3, by clients that nobody here wrote: the same rules as over TCP, and an address that no datagram changes.

mod exchange;
mod features;
mod floods;
mod idle;
mod moves;
mod reload;
mod violations;

use crate::harness::*;

/// The lines of a listener that speaks HTTP/3, and says so.
const SPOKEN: [&str; 2] = ["http3 = true", "advertise_http3 = \"1h\""];

/// Returns a listener for `a.test` with TLS and these lines.
fn with_tls(authority: &Authority, lines: &[&str]) -> Setup {
    let pair = authority.server(&["a.test"]);
    let setup = Setup::new()
        .file("0.pem", &pair.certificate)
        .file("0.key", &pair.key);
    let setup = lines
        .iter()
        .fold(setup, |setup, line| setup.listener_line(line));
    setup
        .listener_line("[listener.tls]")
        .listener_line("certificates = [{ cert_file = \"../0.pem\", key_file = \"../0.key\" }]")
}

/// Returns a listener for `a.test` that speaks HTTP/3, and clients that believe it; `None` where there are no clients.
pub(crate) fn with_http3() -> Option<(Setup, Authority, Http3Clients)> {
    let authority = Authority::new();
    let clients = Http3Clients::of(&authority)?;
    let setup = with_tls(&authority, &SPOKEN);
    Some((setup, authority, clients))
}

/// Allows five requests an hour to each address.
fn five_an_hour() -> String {
    limit("otp", &["client.ip"], "rates = [\"5 per 1h\"]")
        + &route("/auth/sendOTP", &["otp"], ANSWERED)
        + &route("/*", &[], ANSWERED)
}
