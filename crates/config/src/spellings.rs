//! Warns of keys by a value that origins parse, where nothing is said about which spellings are one value.

use toml::de::DeValue;

use super::field::KeyField;
use super::key;
use super::normalizer;
use super::rules::KeyPart;

/// Warns of each part of a limit's key without a form that brings spellings together, and without `raw`.
pub(super) fn warn_of_spellings(field: &KeyField<'_>) {
    if let DeValue::Array(_) = field.value {
        for element in field.list().unwrap_or_default() {
            warn_of_spellings(&element);
        }
    }
    let DeValue::String(text) = field.value else {
        return;
    };
    let Ok(KeyPart::Value(value)) = key::part(text) else {
        return;
    };
    let forms = text.split_once('|').map(|(_, forms)| forms);
    if !value.source.is_parsed_by_origins() || forms.is_some_and(normalizer::settles_spellings) {
        return;
    }
    let source = value.source;
    field.warn(
        format!("each spelling of \"{source}\" has a counter of its own, and origins may read several as one value"),
        format!(
            "write \"{source} | integer\" or \"| uuid\" for an id, \"| email\", \"| e164 DE\" or \"| fold\" for what people type, \
             or \"| raw\" if the origin compares it byte by byte"
        ),
    );
}
