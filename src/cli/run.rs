//! `sluicegate run --config FILE [--upgrade]`

use std::path::Path;

use super::{FAILED, USAGE, process_log, tell};
use crate::config::{self, Loaded};
use crate::server::{self, Begin};

/// Runs until a signal ends it. Refuses to start on a broken configuration.
pub(super) fn run(file: &Path, begin: Begin) -> u8 {
    let Loaded { rules, warnings } = match config::load(file) {
        Ok(loaded) => loaded,
        Err(problems) => {
            tell(&problems);
            return USAGE;
        }
    };
    process_log::start();
    if !warnings.is_empty() {
        tell(&warnings);
    }
    let Err(error) = server::run(file, rules, begin);
    tell(&format_args!("sluicegate: {error}"));
    FAILED
}
