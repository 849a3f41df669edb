//! Names the fields that the gateway writes itself, which an import therefore does not edit, and the values that other proxies usually give
//! those of requests.

/// The reason for which another value is left out.
pub(crate) const OTHER_VALUE: &str =
    "the gateway writes this field itself, with a value of its own; no key writes another one";

/// The reason for which Vary is neither set nor removed.
const VARY: &str = "`add` of [route.response_headers] is the one edit of Vary";

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

/// The message that has a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EditedMessage {
    Request,
    Response,
}

/// The kind of an edit of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EditKind {
    Set,
    Add,
    Remove,
}

impl EditKind {
    /// Returns the edit of a proxy that sends no field without a value.
    pub(crate) const fn from_text(text: &str) -> Self {
        match text.is_empty() {
            true => Self::Remove,
            false => Self::Set,
        }
    }
}

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

/// Returns true for a text that can be the name of a field. A name with `*` is a pattern in the files of other proxies.
pub(crate) fn is_field_name(name: &str) -> bool {
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'+-.^_`|~".contains(c);
    !name.is_empty() && name.chars().all(is_token)
}

/// Checks that a route can edit a field, as the configuration does; `name` is in lower case.
///
/// # Errors
///
/// The reason for which it cannot.
pub(crate) fn check_edit(
    name: &str,
    message: EditedMessage,
    edit: EditKind,
) -> Result<(), &'static str> {
    if !is_field_name(name) {
        return Err("no field has this name");
    }
    let is_limit = name.starts_with("ratelimit") || name.starts_with("x-ratelimit");
    let is_own = match message {
        EditedMessage::Request => is_own_field(name),
        EditedMessage::Response => {
            let is_retry = name == "retry-after" && edit != EditKind::Remove;
            is_retry || (is_own_field(name) && name != "host")
        }
    };
    if is_limit || is_own {
        return Err(OTHER_VALUE);
    }
    match (name, message) {
        ("vary", EditedMessage::Response) if edit != EditKind::Add => Err(VARY),
        _ => Ok(()),
    }
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

    /// Goal: an edit that the configuration refuses is none. Method: fields of limits, of connections, of responses alone, and no names.
    #[test]
    fn edits_are_those_of_the_configuration() {
        let is_editable = |name: &str, message| {
            let edits = [EditKind::Set, EditKind::Add, EditKind::Remove];
            edits.map(|edit| check_edit(name, message, edit).is_ok())
        };
        for (name, request, response) in [
            ("x-a", [true; 3], [true; 3]),
            ("x.a~b", [true; 3], [true; 3]),
            ("ratelimit-policy", [false; 3], [false; 3]),
            ("x-ratelimit-plan", [false; 3], [false; 3]),
            ("x-forwarded-for", [false; 3], [false; 3]),
            ("connection", [false; 3], [false; 3]),
            ("host", [false; 3], [true; 3]),
            ("retry-after", [true; 3], [false, false, true]),
            ("vary", [true; 3], [false, true, false]),
            ("x-*", [false; 3], [false; 3]),
            ("", [false; 3], [false; 3]),
        ] {
            assert_eq!(is_editable(name, EditedMessage::Request), request, "{name}");
            assert_eq!(
                is_editable(name, EditedMessage::Response),
                response,
                "{name}"
            );
        }
    }

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
