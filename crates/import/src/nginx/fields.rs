//! Translates `proxy_set_header`.

use super::keys::{TextPiece, pieces};
use super::scope::SettingScope;
use crate::ledger::Ledger;
use crate::own_fields::is_own_field;

/// Returns the fields that a route sets, and records the others.
pub(super) fn set_headers(scope: &SettingScope<'_>, ledger: &mut Ledger) -> Vec<(String, String)> {
    let mut fields: Vec<(String, String)> = Vec::new();
    for directive in &scope.set_headers {
        let [name, value] = directive.words.as_slice() else {
            ledger.left_out(directive.id, "a name and a value are expected");
            continue;
        };
        let name = name.to_ascii_lowercase();
        if is_own_field(&name) {
            ledger.translated(directive.id);
            continue;
        }
        match template(value) {
            Some(text) if !text.is_empty() && is_field_name(&name) => {
                ledger.translated(directive.id);
                if !fields.iter().any(|(known, _)| *known == name) {
                    fields.push((name, text));
                }
            }
            _ => ledger.left_out(
                directive.id,
                "no slot of request_headers is this; `[route.request_headers]` sets and removes fields",
            ),
        }
    }
    fields
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
