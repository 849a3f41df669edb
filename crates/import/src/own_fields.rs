//! Names the fields that the gateway writes to origins itself, which an import therefore does not set, and the values that other proxies
//! usually give them.

/// The reason for which another value is left out.
pub(crate) const OTHER_VALUE: &str =
    "the gateway writes this field itself, with a value of its own; no key writes another one";

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

/// A value that the other proxy writes into a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldValue<'v> {
    /// The address of the client, alone or behind those that the client sends.
    ClientAddress,
    Host,
    Scheme,
    RequestId,
    /// The field as the client sends it.
    FieldOfClient,
    /// A text; an empty one removes the field.
    Text(&'v str),
    Other,
}

/// Returns true if the gateway writes a field itself; `name` is in lower case.
pub(crate) fn is_own_field(name: &str) -> bool {
    OWN.contains(&name)
}

/// Returns true if no key edits a field of responses; `name` is in lower case.
pub(crate) fn is_own_of_response(name: &str) -> bool {
    let is_limit = name.starts_with("ratelimit") || name.starts_with("x-ratelimit");
    is_limit || (name != "host" && is_own_field(name))
}

/// Returns true if the gateway writes this value, or one that is no other one to an origin.
pub(crate) fn is_usual(name: &str, value: FieldValue<'_>) -> bool {
    let is_upgrade = |word: &str| {
        let known = ["", "close", "keep-alive", "upgrade"];
        known.iter().any(|it| word.trim().eq_ignore_ascii_case(it))
    };
    match (name, value) {
        (_, FieldValue::FieldOfClient) => true,
        ("x-forwarded-for", value) => value == FieldValue::ClientAddress,
        ("x-forwarded-host", value) => value == FieldValue::Host,
        ("x-forwarded-proto", value) => value == FieldValue::Scheme,
        ("x-request-id", value) => value == FieldValue::RequestId,
        ("upgrade", FieldValue::Text(text)) => text.eq_ignore_ascii_case("websocket"),
        ("connection", FieldValue::Text(text)) => text.split(',').all(is_upgrade),
        // A variable by which connections are upgraded, or one about early data.
        ("connection" | "early-data", FieldValue::Other) => true,
        ("upgrade" | "connection", _) => false,
        // The gateway frames the message and its connection anew.
        (_, value) => value == FieldValue::Text(""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: only a value that the gateway writes too is one that it need not write. Method: usual values of each field, and others.
    #[test]
    fn usual_values_are_those_of_the_gateway() {
        for (name, value) in [
            ("x-forwarded-for", FieldValue::ClientAddress),
            ("x-forwarded-for", FieldValue::FieldOfClient),
            ("x-forwarded-host", FieldValue::Host),
            ("x-forwarded-proto", FieldValue::Scheme),
            ("connection", FieldValue::Text("Upgrade")),
            ("connection", FieldValue::Text("keep-alive, upgrade")),
            ("connection", FieldValue::Other),
            ("te", FieldValue::Text("")),
        ] {
            assert!(is_usual(name, value), "{name}: {value:?}");
        }
        for (name, value) in [
            ("x-forwarded-for", FieldValue::Text("1.2.3.4")),
            ("x-forwarded-for", FieldValue::Text("")),
            ("x-forwarded-for", FieldValue::Host),
            ("x-forwarded-host", FieldValue::Text("public.example")),
            ("x-forwarded-proto", FieldValue::Text("https")),
            ("x-request-id", FieldValue::Other),
            ("upgrade", FieldValue::Text("")),
            ("upgrade", FieldValue::Other),
            ("connection", FieldValue::Text("x-secret")),
            ("content-length", FieldValue::Text("1")),
            ("forwarded", FieldValue::Other),
        ] {
            assert!(!is_usual(name, value), "{name}: {value:?}");
        }
    }
}
