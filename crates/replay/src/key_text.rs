//! Writes the key of a request for the readers of a report.

use std::sync::Arc;

use sluicegate_config::rules::{KeyPart, LoggedKeys};
use sluicegate_decide::admission::{ActiveLimit, RequestFacts, key_values};

/// Returns the values of the key of a request for `limit`; empty where the log has only the hash of them.
pub(super) fn key_text(limit: &Arc<ActiveLimit>, facts: &RequestFacts<'_>) -> String {
    if limit.key.0 == [KeyPart::Global] {
        // All requests have this key, which is made of no value.
        return KeyPart::Global.to_string();
    }
    key_values(Some(limit), || *facts, LoggedKeys::Plain).join(" ")
}
