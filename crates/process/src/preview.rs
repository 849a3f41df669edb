//! Reads the configuration as a reload does and reports the change, without putting it in force.

use sluicegate_decide::route;

use super::reload::Reloader;
use super::shared_state::SharedState;
use crate::snapshot::keep_addresses;
use sluicegate_config::Loaded;

/// The change that a reload would make now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReloadPreview {
    /// The change, a sentence each; none where the files say what is in force.
    pub changes: Vec<String>,
    /// Settings of the files that would wait for a restart.
    pub pending_restart: Vec<String>,
    /// Warnings about the files, as text; empty without any.
    pub warnings: String,
}

impl Reloader {
    /// Returns the change that a reload would make. Nothing changes by it: neither the rules in force, nor the report of the last reload,
    /// nor its metrics. The files of logs are not opened.
    ///
    /// # Errors
    /// The reason for which a reload would leave the old rules in force.
    pub fn preview(&self, shared: &SharedState) -> Result<ReloadPreview, String> {
        let in_force = shared.snapshot();
        let loaded =
            sluicegate_config::load_again(self.file(), route::review, &in_force.compiled.rules);
        let Loaded {
            mut rules,
            warnings,
        } = loaded.map_err(|problems| problems.for_readers())?;
        rules
            .keep_files(&in_force.compiled.rules)
            .map_err(|error| error.to_string())?;
        keep_addresses(&mut rules, &in_force);
        Ok(ReloadPreview {
            changes: rules.changes_since(&in_force.compiled.rules),
            pending_restart: self.pending_restart(&rules),
            warnings: match warnings.is_empty() {
                true => String::new(),
                false => warnings.for_readers(),
            },
        })
    }
}
