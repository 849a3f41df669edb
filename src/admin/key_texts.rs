//! Decides whether operators are shown the values of keys, or why not.

use crate::config::rules::LoggedKeys;
use crate::process::GatewayProcess;

/// Returns the reason for which no values of keys are shown; `None` where they are.
pub(super) fn hidden(process: &GatewayProcess) -> Option<&'static str> {
    let snapshot = process.shared.snapshot();
    let rules = &snapshot.rules;
    if rules.admin.token_file.is_none() {
        Some("values of keys are shown only to who has a token; set [admin] token_file")
    } else if rules.log.keys == LoggedKeys::Hash {
        Some("[log] keys is \"hash\", so no values of keys are kept; write \"masked\" or \"plain\"")
    } else {
        None
    }
}
