//! `sluicegate check FILE [--offline]`

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

/// Says what is wrong with the text of the file and with its lists.
pub(super) fn check_offline(file: &Path) -> u8 {
    match config::check_offline(file) {
        Ok(warnings) => {
            if !warnings.is_empty() {
                tell(&warnings);
            }
            tell(&format_args!(
                "{}: good, as far as that can be told offline: names, certificates, keys and secrets were not looked at",
                file.display(),
            ));
            SUCCESS
        }
        Err(problems) => {
            tell(&problems);
            USAGE
        }
    }
}
