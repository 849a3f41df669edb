//! `sluicegate run --config FILE`

use std::path::Path;

use super::{FAILED, USAGE, start_process_log, tell};
use crate::config::{self, Loaded};
use crate::server;

/// Runs until a signal ends it. Refuses to start on a broken configuration.
pub(super) fn run(file: &Path) -> u8 {
    let Loaded { rules, warnings } = match config::load(file) {
        Ok(loaded) => loaded,
        Err(problems) => {
            tell(&problems);
            return USAGE;
        }
    };
    start_process_log();
    if !warnings.is_empty() {
        tell(&warnings);
    }
    let Err(error) = server::run(file, rules);
    tell(&format_args!("sluicegate: {error}"));
    FAILED
}
