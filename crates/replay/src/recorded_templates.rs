//! Finds the keys that a line has as hashes, under `[log] replay = true`.

use sluicegate_access_log::{FieldKind, LogFacts, LoggedRequest};
use sluicegate_decide::rejection::MissingReason;
use sluicegate_limiter::KeyHash;

use sluicegate_config::rules::{KeyTemplate, Rules};
use sluicegate_decide::admission::RecordedKey;

/// The templates of the configuration whose keys the log has as hashes.
#[derive(Debug)]
pub(super) struct RecordedTemplates(Vec<(String, KeyTemplate)>);

impl RecordedTemplates {
    /// Returns the templates of `rules` that are in the log.
    pub(super) fn new(rules: &Rules, facts: &LogFacts) -> Self {
        let mut templates: Vec<(String, KeyTemplate)> = Vec::new();
        for limit in rules.limits.values() {
            let text = limit.key.to_string();
            let is_new = templates.iter().all(|(other, _)| *other != text);
            if is_new && facts.key_templates.contains(&text) {
                templates.push((text, limit.key.clone()));
            }
        }
        Self(templates)
    }

    /// Returns the keys of a request.
    pub(super) fn keys(&self, request: &LoggedRequest<'_>) -> Vec<RecordedKey<'_>> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let hashes = request
            .fields
            .iter()
            .filter(|field| field.kind == FieldKind::KeyHash);
        let recorded = hashes.filter_map(|field| {
            let mut templates = self.0.iter();
            let (_, template) = templates.find(|(text, _)| text.as_bytes() == field.name)?;
            let key = key(field.value)?;
            Some(RecordedKey { template, key })
        });
        recorded.collect()
    }
}

/// Parses 16 hexadecimal digits, or the reason why there is no key.
fn key(text: &[u8]) -> Option<Result<KeyHash, MissingReason>> {
    let text = std::str::from_utf8(text).ok()?;
    let mut reasons = MissingReason::ALL.into_iter();
    if let Some(reason) = reasons.find(|reason| reason.as_str() == text) {
        return Some(Err(reason));
    }
    let bits = u64::from_str_radix(text, 16)
        .ok()
        .filter(|_| text.len() == 16)?;
    Some(Ok(KeyHash::from_bits(bits)))
}
