//! Decides whether operators are shown the values of keys, in which form, or why not.

use serde::Serialize;

use sluicegate_config::rules::{LoggedKeys, Rules};
use sluicegate_process::GatewayProcess;

/// The form in which a page shows the values of keys.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct KeyValuesForm {
    /// The reason for which none are shown; `None` where they are.
    key_values_hidden: Option<&'static str>,
    /// True if most of each is hidden, so that many keys have the same.
    key_values_masked: bool,
}

impl KeyValuesForm {
    /// Returns the form that the configuration in force allows.
    pub(super) fn new(process: &GatewayProcess) -> Self {
        let snapshot = process.shared.snapshot();
        let hidden = hidden(&snapshot.compiled.rules);
        Self {
            key_values_hidden: hidden,
            key_values_masked: hidden.is_none()
                && snapshot.compiled.rules.log.keys == LoggedKeys::Masked,
        }
    }

    /// Returns whether most of each value is hidden.
    pub(super) fn is_masked(self) -> bool {
        self.key_values_masked
    }

    /// Returns whether no values are shown.
    pub(super) fn is_hidden(self) -> bool {
        self.key_values_hidden.is_some()
    }
}

/// Returns the reason for which no values of keys are shown; `None` where they are.
fn hidden(rules: &Rules) -> Option<&'static str> {
    if rules.admin.token_file.is_none() {
        Some("values of keys are shown only to who has a token; set [admin] token_file")
    } else if rules.log.keys == LoggedKeys::Hash {
        Some("[log] keys is \"hash\", so no values of keys are kept; write \"masked\" or \"plain\"")
    } else {
        None
    }
}
