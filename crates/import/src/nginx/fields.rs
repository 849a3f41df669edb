//! Translates `proxy_set_header`.

use super::keys::{TextPiece, pieces};
use super::scope::SettingScope;
use crate::ledger::Ledger;
use crate::model::FieldEdits;
use crate::own_fields::is_own_field;

/// Returns the edits of a route. One that no edit says is to be filled in: the field of the client goes to the origin in its place, and may
/// be one that the origin believes.
pub(super) fn header_edits(scope: &SettingScope<'_>, ledger: &mut Ledger) -> FieldEdits {
    let mut edits = FieldEdits::default();
    for directive in &scope.set_headers {
        let [name, value] = directive.words.as_slice() else {
            ledger.left_out(directive.id, "a name and a value are expected");
            continue;
        };
        let name = name.to_ascii_lowercase();
        let is_known =
            edits.remove.contains(&name) || edits.set.iter().any(|(known, _)| *known == name);
        if is_own_field(&name) || is_of_client(&name, value) || is_known {
            ledger.translated(directive.id);
            continue;
        }
        match template(value) {
            Some(text) if is_field_name(&name) => {
                ledger.translated(directive.id);
                match text.is_empty() {
                    // nginx sends no field without a value.
                    true => edits.remove_field(&name),
                    false => edits.set_value(&name, &text),
                }
            }
            _ => {
                let reason = "no slot of request_headers is this; `[route.request_headers]` sets and removes fields";
                ledger.left_out(directive.id, reason);
                ledger.fill_in_for(directive.id, reason);
            }
        }
    }
    edits
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
            TextPiece::Text(text) => out.push_str(&text.replace('{', "{{").replace('}', "}}")),
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

fn is_field_name(name: &str) -> bool {
    !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}
