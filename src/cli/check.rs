//! `sluicegate check FILE`

use std::path::Path;

use super::{SUCCESS, USAGE, tell};
use crate::config::{self, MemoryPlan};
use crate::listener::OpenFiles;
use crate::server;

/// Says everything that is wrong with the file.
pub(super) fn check(file: &Path) -> u8 {
    match config::load(file) {
        Ok(loaded) => {
            if !loaded.warnings.is_empty() {
                tell(&loaded.warnings);
            }
            let memory = MemoryPlan::of(&loaded.rules);
            if let Some(warning) = memory.warning() {
                tell(&format_args!("warning: {warning}"));
            }
            tell(&format_args!("{}: memory: {memory}", file.display()));
            // On this machine, and as this shell may; the service may be given more.
            if let Some(shortage) = server::shortage(OpenFiles::raise(), &loaded.rules) {
                tell(&format_args!("{}: {shortage}", file.display()));
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
