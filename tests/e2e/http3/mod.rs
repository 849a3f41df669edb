//! HTTP/3, by clients that nobody here wrote: the same rules as over TCP, and an address that no datagram changes.

mod exchange;
mod idle;
mod moves;
mod violations;

use crate::harness::*;

/// Returns a listener for `a.test` that speaks HTTP/3, and clients that believe it; `None` where there are no clients.
fn with_http3() -> Option<(Setup, Authority, Http3Clients)> {
    let authority = Authority::new();
    let clients = Http3Clients::of(&authority)?;
    let pair = authority.server(&["a.test"]);
    let setup = Setup::new()
        .file("0.pem", &pair.certificate)
        .file("0.key", &pair.key)
        .listener_line("http3 = true")
        .listener_line("advertise_http3 = \"1h\"")
        .listener_line("[listener.tls]")
        .listener_line("certificates = [{ cert_file = \"../0.pem\", key_file = \"../0.key\" }]");
    Some((setup, authority, clients))
}

/// Allows five requests an hour to each address.
fn five_an_hour() -> String {
    limit("otp", &["client.ip"], "rates = [\"5 per 1h\"]")
        + &route("/auth/sendOTP", &["otp"], ANSWERED)
        + &route("/*", &[], ANSWERED)
}
