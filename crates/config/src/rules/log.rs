//! `[log]`: which lines the access log has, and what they look like.

use std::path::PathBuf;

use super::{AccessLogTarget, LogRules, LoggedKeys};

impl LogRules {
    /// Rules under which every request has a line in `access`.
    #[must_use]
    pub fn to(access: AccessLogTarget) -> Self {
        Self {
            access,
            syslog: None,
            audit: None,
            keys: LoggedKeys::Hash,
            format: LogFormat::Json,
            replay: false,
            fields: Vec::new(),
            only: None,
            refused: RefusedLines::All,
        }
    }
}

/// The target of the lines about changes by operators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuditLogTarget {
    /// The standard output.
    Stdout,
    /// The standard error, where the process log goes too.
    Stderr,
    /// A file, which is appended to.
    File(PathBuf),
}

/// The format of an access line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// An object with everything that is known, the default.
    Json,
    /// The combined format of Apache and nginx.
    Combined,
}

/// Which lines of refused requests are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusedLines {
    /// Each, the default.
    All,
    /// So many of a million, picked at random.
    PerMillion(u32),
    /// The first of each key in each second.
    OnePerKeyAndSecond,
}
