//! Reads what `header`, `request_header`, `header_up` and `header_down` do with fields.

use super::placeholders;
use super::tree::CaddyDirective;
use crate::model::FieldEdits;
use crate::own_fields::{self, EditKind, EditedMessage};

/// Adds the edit that a line says: `[+|-|>]FIELD [VALUE]`.
///
/// # Errors
///
/// The reason for which it has no counterpart.
pub(super) fn read_line(
    edits: &mut FieldEdits,
    words: &[String],
    message: EditedMessage,
) -> Result<(), String> {
    let (field, value) = match words {
        [field] => (field, ""),
        [field, value] => (field, value.as_str()),
        _ => return Err("an edit of a field has no expression".to_owned()),
    };
    let field = field.strip_suffix(':').unwrap_or(field);
    let name = field.trim_start_matches(['+', '-', '>', '?']);
    let name = name.to_ascii_lowercase();
    let kind = match field.chars().next() {
        Some('?') => return Err("no edit sets a field only where it is absent".to_owned()),
        Some('-') => EditKind::Remove,
        Some('+') => EditKind::Add,
        _ => EditKind::Set,
    };
    own_fields::check_edit(&name, message, kind)?;
    let value = placeholders::field_value(value)?;
    edits.apply(kind, &name, &value).map_err(str::to_owned)
}

/// Reads the edits of `header` or `request_header`, which stand behind its name or in its block.
///
/// # Errors
///
/// The reason for which an edit has no counterpart.
pub(super) fn read(
    directive: &CaddyDirective,
    words: &[String],
    message: EditedMessage,
) -> Result<FieldEdits, String> {
    let mut edits = FieldEdits::default();
    if !words.is_empty() {
        read_line(&mut edits, words, message)?;
    }
    for line in directive.children() {
        let mut words = vec![line.name.clone()];
        words.extend(line.words.iter().cloned());
        match line.name.as_str() {
            // Edits are made when the response is sent in any case.
            "defer" => {}
            "match" => return Err("edits of fields hold for all responses of a route".to_owned()),
            _ => read_line(&mut edits, &words, message)?,
        }
    }
    Ok(edits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::toml;

    fn edits(lines: &[&str]) -> Result<Option<String>, String> {
        let mut edits = FieldEdits::default();
        for line in lines {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            read_line(&mut edits, &words, EditedMessage::Response)?;
        }
        Ok(toml::field_edits(&edits))
    }

    /// Goal: edits are those of Caddy, the last of a field holds. Method: each kind, and two of one field.
    #[test]
    fn the_last_edit_of_a_field_holds() {
        let table = edits(&["X-A 1", "+X-B 2", "-Server", ">X-A {host}", "X-C: 3"]);
        let expected = "{ set = { x-a = \"{host}\", x-c = \"3\" }, add = { x-b = \"2\" }, remove = [\"server\"] }";
        assert_eq!(table, Ok(Some(expected.to_owned())));
    }

    /// Goal: an edit without a counterpart is never another one. Method: conditions, expressions, fields of the gateway's own.
    #[test]
    fn edits_without_a_counterpart_are_errors() {
        for line in [
            "?X-A 1",
            "X-A a b",
            "-X-*",
            "Content-Length 1",
            "RateLimit 1",
            "X-A {env.B}",
        ] {
            assert!(edits(&[line]).is_err(), "{line}");
        }
    }
}
