//! `[log]`: which lines the access log has, and what they look like.

use std::path::PathBuf;

/// The form in which access lines show the key of a rejected request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LoggedKeys {
    /// By its hash alone, the default.
    #[default]
    Hash,
    /// With its values, most of each hidden.
    Masked,
    /// With its values.
    Plain,
}

/// Where access lines go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessLogTarget {
    /// The standard output, the default.
    Stdout,
    /// A file, appended to and reopened at SIGUSR1.
    File(PathBuf),
    /// The server of `[log.syslog]`.
    Syslog,
    /// Nowhere.
    Off,
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
