//! `sluicegate run [FILE] [--upgrade]`

use std::path::Path;

use sluicegate_decide::route;
use tracing::Level;
use tracing_subscriber::filter::LevelFilter;

use super::exit_code::{FAILED, USAGE};
use super::output::tell;
use super::process_log::ProcessLog;
use crate::config::{self, Loaded};
use crate::server::{self, StartMode};

/// Runs until a signal ends it. Fails to start with an invalid configuration.
pub(super) fn run(file: &Path, begin: StartMode) -> u8 {
    let log = match ProcessLog::start(LevelFilter::INFO) {
        Ok(log) => log,
        Err(bad) => {
            tell(&format_args!("sluicegate: {bad}"));
            return USAGE;
        }
    };
    let Loaded { rules, warnings } = match config::load(file, route::review) {
        Ok(loaded) => loaded,
        Err(problems) => {
            log.tell(Level::ERROR, &problems.for_readers());
            return USAGE;
        }
    };
    if !warnings.is_empty() {
        log.tell(Level::WARN, &warnings.for_readers());
    }
    let Err(error) = server::run(file, rules, begin);
    log.tell(Level::ERROR, &format_args!("sluicegate: {error}"));
    FAILED
}
