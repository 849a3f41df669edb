//! The status of a server, as pages and metrics show it.

/// The status of a server: in use, or the reason why not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerStatus {
    /// It gets requests, and its checks succeed.
    Up,
    /// It gets requests, and nothing checks it.
    Unchecked,
    /// It gets requests, and fails them.
    Failing,
    /// It gets less than its share for a while.
    SlowStart,
    /// Its checks fail.
    Down,
    /// It failed requests and gets none for a while.
    Ejected,
    /// The operator drains it.
    Draining,
}

impl ServerStatus {
    /// Every status.
    pub const ALL: [Self; 7] = [
        Self::Up,
        Self::Unchecked,
        Self::Failing,
        Self::SlowStart,
        Self::Down,
        Self::Ejected,
        Self::Draining,
    ];

    /// Returns whether requests are sent to the server.
    #[must_use]
    pub const fn is_asked(self) -> bool {
        match self {
            Self::Up | Self::Unchecked | Self::Failing | Self::SlowStart => true,
            Self::Down | Self::Ejected | Self::Draining => false,
        }
    }

    /// Returns whether the server is at fault: its checks or its requests fail.
    #[must_use]
    pub const fn is_fault(self) -> bool {
        match self {
            Self::Failing | Self::Down | Self::Ejected => true,
            Self::Up | Self::Unchecked | Self::SlowStart | Self::Draining => false,
        }
    }

    /// Returns its name in `/status`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Unchecked => "unchecked",
            Self::Failing => "failing",
            Self::SlowStart => "slow-start",
            Self::Down => "down",
            Self::Ejected => "ejected",
            Self::Draining => "draining",
        }
    }
}
