//! Starts the process log: the lines on the standard error, and their format.
//!
//! `tracing` carries the lines of the gateway, and those of libraries that use it; `tracing-log` adds the lines of Pingora and
//! of other libraries that use `log`. Two environment variables decide: `SLUICEGATE_LOG` the levels ([`levels`]),
//! `SLUICEGATE_LOG_FORMAT` the format of a line ([`line`]).
//!
//! The format is a variable, and not a key of the file, since lines are written before the file is read, and about errors in it.
//! It is not an option either: it belongs to the place where the process runs, as the level does, and both are set in the same
//! place of a unit, a container or a shell.
//!
//! Without levels in the environment the command decides: `run` writes infos, `demo` shows warnings and errors between its requests.
//!
//! # Errors
//! An invalid variable ends the start: an operator who asked for JSON would otherwise get lines that the collector drops.

mod levels;
mod line;

use std::fmt::Display;
use std::io;

use tracing::Level;
use tracing_log::{AsLog, LogTracer};
use tracing_subscriber::filter::{EnvFilter, LevelFilter};
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt;

use self::levels::BadLevels;
use self::line::{ProcessLogFormat, ProcessLogLine, json};
use super::output::tell;

const LEVELS: &str = "SLUICEGATE_LOG";
const FORMAT: &str = "SLUICEGATE_LOG_FORMAT";

/// The process log of a command that serves.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProcessLog {
    format: ProcessLogFormat,
}

/// A variable with an invalid value.
#[derive(Debug)]
pub(super) enum BadLog {
    Levels(BadLevels),
    Format(String),
}

impl Display for BadLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Levels(cause) => write!(f, "{LEVELS}: {cause}"),
            Self::Format(got) => write!(
                f,
                "{FORMAT}: {got:?} is no format; write \"text\" or \"json\""
            ),
        }
    }
}

impl ProcessLog {
    /// Sends the lines of the process to the standard error, with the levels and the format from the environment; `usual` is the level
    /// without a variable that names another.
    ///
    /// # Errors
    /// One of the variables is invalid.
    pub(super) fn start(usual: LevelFilter) -> Result<Self, BadLog> {
        let format = match variable(FORMAT).as_deref() {
            None | Some("text") => ProcessLogFormat::Text,
            Some("json") => ProcessLogFormat::Json,
            Some(other) => return Err(BadLog::Format(other.to_owned())),
        };
        let asked = variable(LEVELS).unwrap_or_default();
        let levels = levels::directives(&asked, usual).map_err(BadLog::Levels)?;
        install(levels, format);
        Ok(Self { format })
    }

    /// Writes a report for the operator, whatever the levels: several lines of text, or one of JSON.
    pub(super) fn tell(self, level: Level, report: &dyn Display) {
        match self.format {
            ProcessLogFormat::Text => tell(report),
            ProcessLogFormat::Json => {
                tell(&json(level, env!("CARGO_PKG_NAME"), &report.to_string()))
            }
        }
    }
}

/// Returns the value of a variable; an empty one counts as none.
fn variable(name: &str) -> Option<String> {
    let value = std::env::var_os(name)?.to_string_lossy().into_owned();
    Some(value).filter(|value| !value.is_empty())
}

fn install(levels: EnvFilter, format: ProcessLogFormat) {
    let most = levels.max_level_hint().unwrap_or(LevelFilter::TRACE);
    let lines = fmt::layer()
        .event_format(ProcessLogLine(format))
        .with_writer(io::stderr)
        // A line that cannot be written to the standard error is lost: an error about it would go there too, and end the
        // process.
        .log_internal_errors(false);
    let subscriber = tracing_subscriber::registry().with(levels).with(lines);
    // Both fail only when a subscriber is installed already, which then logs.
    let _ = tracing::subscriber::set_global_default(subscriber);
    let _ = LogTracer::builder().with_max_level(most.as_log()).init();
    if format == ProcessLogFormat::Json {
        std::panic::set_hook(Box::new(|panic| {
            tell(&json(Level::ERROR, "panic", &panic.to_string()));
        }));
    }
}
