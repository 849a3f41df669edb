//! Translates directives that edit fields: `proxy_set_header`, `add_header`, `proxy_hide_header`, and those of headers-more.

use super::keys::{TextPiece, pieces};
use super::scope::SettingScope;
use super::tree::Directive;
use crate::ledger::Ledger;
use crate::model::{FieldEdits, RouteAction};
use crate::own_fields::{self, EditKind, EditedMessage, FieldValue, is_own_field};
use crate::slots;

/// The edits of fields on the way to the origin, and to the client.
pub(super) struct RouteEdits {
    pub(super) request: FieldEdits,
    pub(super) response: FieldEdits,
}

/// Returns the edits of a route. One that the gateway answers sends no request. `scheme` is that of the listeners, where all have one.
pub(super) fn route_edits(
    scope: &SettingScope<'_>,
    action: &RouteAction,
    scheme: Option<&'static str>,
    ledger: &mut Ledger,
) -> RouteEdits {
    let is_forwarded = matches!(action, RouteAction::Forward { .. });
    let mut request = match is_forwarded {
        true => header_edits(scope, scheme, ledger),
        false => FieldEdits::default(),
    };
    let mut response = response_edits(scope, action, ledger);
    apply_more_headers(scope, &mut request, &mut response, ledger);
    if !is_forwarded {
        request = FieldEdits::default();
    }
    RouteEdits { request, response }
}

/// Returns the edits of a route. One that no edit says is to be filled in: the field of the client goes to the origin in its place, and may
/// be one that the origin believes.
fn header_edits(
    scope: &SettingScope<'_>,
    scheme: Option<&'static str>,
    ledger: &mut Ledger,
) -> FieldEdits {
    let mut edits = FieldEdits::default();
    for directive in &scope.set_headers {
        let [name, value] = directive.words.as_slice() else {
            ledger.left_out(directive.id, "a name and a value are expected");
            continue;
        };
        let name = name.to_ascii_lowercase();
        // The origin has its Host.
        if name == "host" {
            ledger.translated(directive.id);
            continue;
        }
        let written = written_value(&name, value, scheme);
        if is_own_field(&name) || written == FieldValue::FieldOfClient {
            match own_fields::is_usual(&name, written) {
                true => ledger.translated(directive.id),
                false => ledger.lose(directive.id, own_fields::OTHER_VALUE),
            }
            continue;
        }
        let Some(text) = template(value) else {
            let reason = "no slot of request_headers is this; `[route.request_headers]` sets and removes fields";
            ledger.lose(directive.id, reason);
            continue;
        };
        let kind = EditKind::from_text(&text);
        let known = edits.set.iter().find(|(known, _)| *known == name);
        if let Err(reason) = own_fields::check_edit(&name, EditedMessage::Request, kind) {
            ledger.lose(directive.id, reason);
        } else if kind == EditKind::Remove {
            ledger.translated(directive.id);
            if known.is_none() {
                edits.remove_field(&name);
            }
        } else if known.is_some_and(|(_, known)| *known != text) {
            ledger.lose(directive.id, "a field has one value; nginx sends both");
        } else {
            ledger.translated(directive.id);
            edits.set_value(&name, &text);
        }
    }
    edits
}

/// Returns what a value says of the request. Variables of maps are told by their names: `$connection_upgrade`, `$proxy_x_forwarded_proto`.
fn written_value<'v>(name: &str, value: &'v str, scheme: Option<&str>) -> FieldValue<'v> {
    if is_of_client(name, value) {
        return FieldValue::FieldOfClient;
    }
    match value.replace(['{', '}'], "").as_str() {
        "$remote_addr" | "$proxy_add_x_forwarded_for" | "$proxy_protocol_addr" => {
            FieldValue::ClientAddress
        }
        "$http_x_forwarded_for, $remote_addr" => FieldValue::ClientAddress,
        "$host"
        | "$http_host"
        | "$server_name"
        | "$host:$server_port"
        | "$http_host:$server_port" => FieldValue::Host,
        "$scheme" => FieldValue::Scheme,
        "$request_id" => FieldValue::RequestId,
        text if Some(text) == scheme && name == "x-forwarded-proto" => FieldValue::Scheme,
        text if text.starts_with("$http_") => FieldValue::Other,
        text if text.starts_with('$') && text.ends_with("forwarded_proto") => FieldValue::Scheme,
        text if text.contains('$') => FieldValue::Other,
        _ => FieldValue::Text(value),
    }
}

/// Fields of answers by which browsers restrict pages. They do no harm in answers of any status.
const SECURITY_FIELDS: [&str; 10] = [
    "content-security-policy",
    "cross-origin-embedder-policy",
    "cross-origin-opener-policy",
    "cross-origin-resource-policy",
    "permissions-policy",
    "referrer-policy",
    "strict-transport-security",
    "x-content-type-options",
    "x-frame-options",
    "x-robots-tag",
];

/// Returns true for a field that the gateway takes from no response of an origin: it is about the connection or frames the message.
fn ends_with_connection(name: &str) -> bool {
    let is_unset = own_fields::is_usual(name, FieldValue::Text(""));
    name == "upgrade" || (is_own_field(name) && is_unset)
}

/// The statuses with which nginx adds fields without `always`.
const SUCCESSFUL: [u16; 10] = [200, 201, 204, 206, 301, 302, 303, 304, 307, 308];

/// Returns the edits of answers of a route.
fn response_edits(
    scope: &SettingScope<'_>,
    action: &RouteAction,
    ledger: &mut Ledger,
) -> FieldEdits {
    let mut edits = FieldEdits::default();
    for directive in &scope.hidden {
        let name = directive.word(0).unwrap_or_default().to_ascii_lowercase();
        match own_fields::check_edit(&name, EditedMessage::Response, EditKind::Remove) {
            Ok(()) => {
                ledger.translated(directive.id);
                edits.remove_field(&name);
            }
            Err(_) if ends_with_connection(&name) => ledger.translated(directive.id),
            Err(reason) => ledger.lose(directive.id, reason),
        }
    }
    for directive in &scope.add_headers {
        add_field(directive, action, &mut edits, ledger);
    }
    edits
}

/// Adds the field of an `add_header`. Without `always` it stands in successful answers alone.
fn add_field(
    directive: &Directive,
    action: &RouteAction,
    edits: &mut FieldEdits,
    ledger: &mut Ledger,
) {
    let (Some(name), Some(value)) = (directive.word(0), directive.word(1)) else {
        return;
    };
    let name = name.to_ascii_lowercase();
    let is_always = directive.word(2) == Some("always") || is_successful(action);
    // The gateway writes this type itself.
    if is_plain_text(action) && name == "content-type" && value.starts_with("text/plain") {
        return ledger.translated(directive.id);
    }
    if !is_always && !SECURITY_FIELDS.contains(&name.as_str()) {
        let reason = "without `always` nginx adds it to successful answers alone; [route.response_headers] edits all";
        return ledger.lose(directive.id, reason);
    }
    let Some(text) = template(value) else {
        return ledger.lose(directive.id, "no slot of response_headers is this");
    };
    if let Err(reason) = own_fields::check_edit(&name, EditedMessage::Response, EditKind::Add) {
        return ledger.lose(directive.id, reason);
    }
    // nginx adds no field without a value.
    if !text.is_empty()
        && let Err(reason) = edits.add_value(&name, &text)
    {
        return ledger.lose(directive.id, reason);
    }
    ledger.translated(directive.id);
    if !is_always {
        ledger.differs(
            directive.id,
            "answers of any status have it; in nginx successful ones alone",
        );
    }
}

/// Returns true if all answers of a route are those that the gateway gives itself, with a status of success.
fn is_successful(action: &RouteAction) -> bool {
    match action {
        RouteAction::Forward { .. } => false,
        RouteAction::Respond { status, .. } | RouteAction::Redirect { status, .. } => {
            SUCCESSFUL.contains(status)
        }
    }
}

fn is_plain_text(action: &RouteAction) -> bool {
    matches!(action, RouteAction::Respond { body, .. } if !body.is_empty())
}

/// Applies the directives of headers-more to the edits of requests and of answers.
fn apply_more_headers(
    scope: &SettingScope<'_>,
    request: &mut FieldEdits,
    response: &mut FieldEdits,
    ledger: &mut Ledger,
) {
    for directive in &scope.more_headers {
        let message = match directive.name.contains("input") {
            true => EditedMessage::Request,
            false => EditedMessage::Response,
        };
        let edits: &mut FieldEdits = match message {
            EditedMessage::Request => &mut *request,
            EditedMessage::Response => &mut *response,
        };
        let mut changed = edits.clone();
        let mut words = directive.arguments();
        match words.try_for_each(|word| edit_by_word(word, directive, message, &mut changed)) {
            Ok(()) => {
                ledger.translated(directive.id);
                *edits = changed;
            }
            Err(reason) => ledger.lose(directive.id, reason),
        }
    }
}

/// Applies a word such as `X-A: b`.
///
/// # Errors
///
/// No edit says it: it is an option, a pattern or a variable, or the field is the gateway's own.
fn edit_by_word(
    word: &str,
    directive: &Directive,
    message: EditedMessage,
    edits: &mut FieldEdits,
) -> Result<(), &'static str> {
    if word.starts_with('-') {
        return Err("an edit of fields holds for all answers of a route");
    }
    let (name, value) = word.split_once(':').unwrap_or((word, ""));
    let name = name.trim().to_ascii_lowercase();
    let value = template(value.trim()).ok_or("no slot of a field is this")?;
    let kind = match directive.name.contains("clear") {
        true => EditKind::Remove,
        false => EditKind::from_text(&value),
    };
    own_fields::check_edit(&name, message, kind)?;
    edits.apply(kind, &name, &value)
}

/// Returns true for the field as the client sends it, such as `$http_x_key` for X-Key.
fn is_of_client(name: &str, value: &str) -> bool {
    let variable = value.strip_prefix("$http_");
    variable.is_some_and(|it| it.eq_ignore_ascii_case(&name.replace('-', "_")))
}

/// Returns a text with the slots of the gateway in place of variables.
fn template(text: &str) -> Option<String> {
    let mut out = String::new();
    for piece in pieces(text) {
        match piece {
            TextPiece::Text(text) => out.push_str(&slots::escaped(&text)),
            TextPiece::Variable(name) => out.push_str(match name.as_str() {
                "remote_addr" => "{client_ip}",
                "host" | "http_host" => "{host}",
                "request_id" => "{request_id}",
                _ => return None,
            }),
        }
    }
    out.chars().all(|c| (' '..='~').contains(&c)).then_some(out)
}
