//! Names the fields that the gateway writes to origins itself, which an import therefore does not set.

/// Fields about the client and the connection, and those that frame a message.
const OWN: [&str; 16] = [
    "host",
    "forwarded",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-request-id",
    "early-data",
    "upgrade",
    "connection",
    "proxy-connection",
    "keep-alive",
    "te",
    "content-length",
    "transfer-encoding",
    "trailer",
    "expect",
];

/// Returns true if the gateway writes a field itself; `name` is in lower case.
pub(crate) fn is_own_field(name: &str) -> bool {
    OWN.contains(&name)
}
