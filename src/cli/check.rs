//! `sluicegate check FILE`

use std::path::Path;

use super::{SUCCESS, USAGE, tell};
use crate::config;

/// Says everything that is wrong with the file.
pub(super) fn check(file: &Path) -> u8 {
    match config::load(file) {
        Ok(loaded) => {
            if !loaded.warnings.is_empty() {
                tell(&loaded.warnings);
            }
            tell(&format_args!(
                "{}: good: {} routes, {} limits, {} origins",
                file.display(),
                loaded.rules.routes.len(),
                loaded.rules.limits.len(),
                loaded.rules.origins.len(),
            ));
            SUCCESS
        }
        Err(problems) => {
            tell(&problems);
            USAGE
        }
    }
}
