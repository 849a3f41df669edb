//! Owns the log of changes by operators: one JSON line a change, written by a thread of its own.
//!
//! Without `[log] audit` there is no thread and no stream, and the process log has the lines.
//!
//! # Errors
//!
//! Only opening the target fails, at the start and at [`AuditLog::retarget`]. Later errors are counted and logged.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sluicegate_base::bounds::AUDIT_LOG_BUFFER;
use sluicegate_telemetry::line_log::{LineLog, LineLogCounts, LineLogSettings, LineTarget};

use sluicegate_config::rules::{AuditLogTarget, LogRules};

/// The log of changes by operators; the default has no stream. Dropping it writes what is buffered.
#[derive(Debug, Default)]
pub struct AuditLog {
    /// `None` until a target is configured.
    lines: Mutex<Option<LineLog>>,
}

impl AuditLog {
    /// Opens the target of `rules`, if there is one. A `fork` after this does not have the thread of the log.
    ///
    /// # Errors
    ///
    /// The system's error for the file or the thread.
    pub fn start(rules: &LogRules) -> io::Result<Self> {
        let log = Self::default();
        log.retarget(rules)?;
        Ok(log)
    }

    /// Takes a line without its line feed. Returns whether there is a stream that takes it.
    #[must_use]
    pub fn record(&self, line: &[u8]) -> bool {
        let lines = self.lock();
        let Some(lines) = lines.as_ref().filter(|lines| lines.is_on()) else {
            return false;
        };
        lines.append(0, |bytes, _| {
            bytes.extend_from_slice(line);
            bytes.push(b'\n');
        });
        true
    }

    /// Writes the lines up to now to the old file, then opens the path again, as SIGUSR1 asks for. Returns at once.
    pub fn reopen(&self) {
        if let Some(lines) = &*self.lock() {
            lines.reopen();
        }
    }

    /// Applies the target of a reload: lines up to now go to the old one, later ones to the new one.
    ///
    /// # Errors
    ///
    /// The system's error for the file; the old target then stays in use.
    pub fn retarget(&self, rules: &LogRules) -> io::Result<()> {
        let target = line_target(rules.audit.as_ref());
        let mut lines = self.lock();
        match &*lines {
            Some(lines) => lines.retarget(&target),
            None if target == LineTarget::Off => Ok(()),
            None => {
                let settings = LineLogSettings {
                    name: "audit log",
                    buffers: 1,
                    cap: AUDIT_LOG_BUFFER,
                };
                *lines = Some(LineLog::start(settings, target)?);
                Ok(())
            }
        }
    }

    /// Waits, at most `timeout`, until every line taken before is written. Returns whether it is.
    #[must_use]
    pub fn flush(&self, timeout: Duration) -> bool {
        self.lock()
            .as_ref()
            .is_none_or(|lines| lines.flush(timeout))
    }

    /// Returns the counts since a stream was first configured.
    #[must_use]
    pub fn counts(&self) -> LineLogCounts {
        self.lock()
            .as_ref()
            .map(LineLog::counts)
            .unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, Option<LineLog>> {
        // The log is put there in one step.
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Translates `[log] audit`.
fn line_target(target: Option<&AuditLogTarget>) -> LineTarget {
    match target {
        Some(AuditLogTarget::Stdout) => LineTarget::Stdout,
        Some(AuditLogTarget::Stderr) => LineTarget::Stderr,
        Some(AuditLogTarget::File(path)) => LineTarget::File(path.clone()),
        None => LineTarget::Off,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluicegate_config::rules::AccessLogTarget;

    fn rules(audit: Option<AuditLogTarget>) -> LogRules {
        LogRules {
            audit,
            ..LogRules::to(AccessLogTarget::Off)
        }
    }

    /// Goal: a reload begins, moves and ends the stream, and no line is lost on the way. Method: a line under each target.
    #[test]
    fn the_stream_follows_its_target() {
        let directory = tempfile::tempdir().expect("a directory");
        let paths = ["a.log", "b.log"].map(|name| directory.path().join(name));
        let log = AuditLog::start(&rules(None)).expect("nothing is opened");
        assert!(!log.record(b"{}"));
        for path in &paths {
            let target = AuditLogTarget::File(path.clone());
            log.retarget(&rules(Some(target)))
                .expect("a new file opens");
            // The thread of the log takes the target at its next round.
            assert!(log.flush(Duration::from_secs(60)));
            assert!(log.record(b"{\"n\":1}"));
            assert!(log.flush(Duration::from_secs(60)));
        }
        let absent = AuditLogTarget::File(directory.path().join("none/a.log"));
        assert!(log.retarget(&rules(Some(absent))).is_err());
        assert!(log.record(b"{\"n\":2}"), "the target before stays");
        assert!(log.flush(Duration::from_secs(60)));
        log.retarget(&rules(None)).expect("nothing is opened");
        assert!(!log.record(b"{}"));
        let text = paths.map(|path| std::fs::read_to_string(path).expect("a file"));
        assert_eq!(text, ["{\"n\":1}\n", "{\"n\":1}\n{\"n\":2}\n"]);
        assert_eq!(log.counts().lines, 3);
    }
}
