//! Owns the access log: one line a request, written by a thread that no request waits for.
//!
//! A request formats its line straight into a buffer of its own thread, and the thread of the log writes it out ([`LineLog`]), the lines
//! of each tenth of a second in the order in which their requests arrived: those of one client, one request after the other, on whatever
//! connections, are in their order.
//! `LineSelection` decides which requests have a line; [`super::line`] formats it, or [`super::live_view`]. Where the OpenTelemetry
//! collector gets lines, each is a record for it too, whatever the target is.
//!
//! # Limits
//!
//! [`ACCESS_LOG_STRIPE`] bytes for each of 16 stripes while the target takes nothing; then lines are dropped and counted.
//!
//! # Errors
//!
//! Only opening the target fails, at start and at [`AccessLog::retarget`]. Later errors are counted and logged, never
//! returned to a request.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use sluicegate_base::bounds::ACCESS_LOG_STRIPE;
use sluicegate_telemetry::line_log::{LineLog, LineLogSettings, LineTarget};
use sluicegate_telemetry::per_thread::STRIPES;
use sluicegate_telemetry::rfc3339::TimeFormatter;
use sluicegate_telemetry::syslog::{SyslogServer, SyslogTarget};

#[cfg(feature = "otlp")]
use super::export_queues::ExportQueues;
use super::line::{self, LogEntry};
use super::line_selection::{LeftOut, LineSelection};
use super::live_view::{self, ColorMode};
#[cfg(feature = "otlp")]
use super::log_records;
use super::outcome::Outcome;
use sluicegate_config::rules::{AccessLogTarget, LogRules, SyslogAddress, SyslogRules};

/// Formats a line.
type LineFormat = fn(&mut Vec<u8>, &mut TimeFormatter, &LogEntry<'_>);

/// The running access log. Dropping it writes what is buffered.
#[derive(Debug)]
pub struct AccessLog {
    lines: LineLog,
    format: LineFormat,
    rules: ArcSwap<LogRules>,
    selection: LineSelection,
    #[cfg(feature = "otlp")]
    exports: Arc<ExportQueues>,
}

/// The counts of the access log since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccessLogCounts {
    /// Lines taken.
    pub lines: u64,
    /// Lines dropped because a buffer was full.
    pub dropped: u64,
    /// Writes and reopenings that failed.
    pub write_errors: u64,
    /// Requests that have no line by the operator's rules.
    pub left_out: LeftOut,
}

impl AccessLog {
    /// Opens the target of `rules` and starts the thread of the log. A `fork` after this does not have that thread.
    ///
    /// # Errors
    ///
    /// The system's error for the file or the thread.
    pub fn start(rules: &LogRules) -> io::Result<Self> {
        Self::with(rules, STRIPES, ACCESS_LOG_STRIPE, line::write)
    }

    /// Starts the view of `sluicegate demo` on the standard output, with one buffer, so that lines come in order.
    ///
    /// # Errors
    ///
    /// The system's error for the standard output or the thread.
    pub fn live(colour: ColorMode) -> io::Result<Self> {
        let rules = LogRules::to(AccessLogTarget::Stdout);
        Self::with(&rules, 1, ACCESS_LOG_STRIPE, live_view::format(colour))
    }

    fn with(rules: &LogRules, buffers: usize, cap: usize, format: LineFormat) -> io::Result<Self> {
        let settings = LineLogSettings {
            name: "access log",
            buffers,
            cap,
        };
        Ok(Self {
            lines: LineLog::start(settings, line_target(rules))?,
            format,
            rules: ArcSwap::from_pointee(rules.clone()),
            selection: LineSelection::new(),
            #[cfg(feature = "otlp")]
            exports: Arc::default(),
        })
    }

    /// Returns the queues to which it exports lines.
    #[cfg(feature = "otlp")]
    pub(super) fn exports(&self) -> &Arc<ExportQueues> {
        &self.exports
    }

    /// Takes the line of one request.
    pub fn record(&self, outcome: &Outcome<'_>) {
        #[cfg(feature = "otlp")]
        let exported = self.exports.lines();
        #[cfg(not(feature = "otlp"))]
        let exported = None::<()>;
        if !self.lines.is_on() && exported.is_none() {
            return;
        }
        let rules = &**self.rules.load();
        let Some(left_out) = self.selection.choose(rules, outcome) else {
            return;
        };
        let entry = LogEntry {
            outcome,
            rules,
            left_out,
        };
        if self.lines.is_on() {
            self.lines
                .append(outcome.arrived.as_nanos(), |bytes, time| {
                    (self.format)(bytes, time, &entry);
                });
        }
        #[cfg(feature = "otlp")]
        if let Some(queue) = exported {
            log_records::append(queue, &entry);
        }
    }

    /// Writes the lines up to now to the old file, then opens the path again, as SIGUSR1 asks for. Returns at once.
    pub fn reopen(&self) {
        self.lines.reopen();
    }

    /// Applies the rules of a reload: lines up to now go to the old target, later ones to the new one. A target that is the same is not
    /// opened again.
    ///
    /// # Errors
    ///
    /// The system's error for the file; the old target and the old rules then stay in use.
    pub fn retarget(&self, rules: &LogRules) -> io::Result<()> {
        self.lines.retarget(&line_target(rules))?;
        self.rules.store(Arc::new(rules.clone()));
        Ok(())
    }

    /// Waits, at most `timeout`, until every line taken before is written. Returns whether it is.
    #[must_use]
    pub fn flush(&self, timeout: Duration) -> bool {
        self.lines.flush(timeout)
    }

    /// Returns the counts.
    #[must_use]
    pub fn counts(&self) -> AccessLogCounts {
        let counts = self.lines.counts();
        AccessLogCounts {
            lines: counts.lines,
            dropped: counts.dropped,
            write_errors: counts.write_errors,
            left_out: self.selection.left_out(),
        }
    }
}

/// Translates `[log] access` and `[log.syslog]`.
fn line_target(rules: &LogRules) -> LineTarget {
    match (&rules.access, &rules.syslog) {
        (AccessLogTarget::Stdout, _) => LineTarget::Stdout,
        (AccessLogTarget::File(path), _) => LineTarget::File(path.clone()),
        (AccessLogTarget::Syslog, Some(syslog)) => LineTarget::Syslog(syslog_target(syslog)),
        // The configuration has no `access = "syslog"` without a server.
        (AccessLogTarget::Off | AccessLogTarget::Syslog, _) => LineTarget::Off,
    }
}

fn syslog_target(rules: &SyslogRules) -> SyslogTarget {
    let server = match &rules.server {
        SyslogAddress::Udp(place) => SyslogServer::Udp(place.clone()),
        SyslogAddress::Tcp(place) => SyslogServer::Tcp(place.clone()),
        SyslogAddress::Unix(path) => SyslogServer::Unix(path.clone()),
    };
    SyslogTarget {
        server,
        facility: rules.facility,
        hostname: rules.hostname.clone().unwrap_or_else(machine_name),
        app_name: rules.app_name.clone(),
    }
}

/// Returns the name of the machine, or `-`, which RFC 5424 has for a name that is not known.
fn machine_name() -> Box<str> {
    let name = nix::unistd::gethostname().unwrap_or_default();
    let name = name.to_str().unwrap_or_default();
    let is_valid = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic());
    if is_valid { name } else { "-" }.into()
}

#[cfg(test)]
#[path = "access_log_tests.rs"]
mod tests;
