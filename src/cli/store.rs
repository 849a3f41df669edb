//! `sluicegate store check [FILE]`

use std::io::Write;
use std::path::Path;

use sluicegate_decide::route;

use super::exit_code::{FAILED, SUCCESS, USAGE};
use super::output::tell;
use sluicegate_redis_link::check::Severity;

use crate::config;
use crate::store;
use sluicegate_telemetry::terminal_text::printable;

/// Tests every server of the store, and prints the findings.
pub(super) fn check(file: &Path) -> u8 {
    let loaded = match config::load_unopened(file, route::review) {
        Ok(loaded) => loaded,
        Err(problems) => {
            tell(&problems);
            return USAGE;
        }
    };
    let Some(rules) = loaded.rules.store else {
        tell(&format_args!(
            "{}: there is no store; write [store] url = \"redis://127.0.0.1:6379\"",
            file.display()
        ));
        return FAILED;
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let findings = match runtime {
        Ok(runtime) => runtime.block_on(store::check(&rules)),
        Err(error) => {
            tell(&error);
            return FAILED;
        }
    };
    let mut out = std::io::stdout().lock();
    for finding in &findings {
        // A reader that closes the pipe has read enough.
        let _ = writeln!(out, "{}", printable(&finding.to_string()));
        if let Some(remedy) = &finding.remedy {
            let _ = writeln!(out, "      {}", printable(&store::advice(remedy)));
        }
    }
    if findings
        .iter()
        .any(|finding| finding.grade == Severity::Bad)
    {
        FAILED
    } else {
        SUCCESS
    }
}
