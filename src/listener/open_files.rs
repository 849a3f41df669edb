//! Raises how many files the process may have open to what the system allows, and says how many that are.
//!
//! A connection is a file, and so is the one to the origin behind it. Service managers start processes with a soft limit of 1,024 for
//! the sake of programs that use `select`, which this one does not; the hard limit is what the operator meant.

use crate::bounds::{FEWEST_FILES, FILES_OF_THREAD, OTHER_FILES};

/// How many files the process may have open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenFiles {
    /// As it was started.
    pub before: u64,
    /// Now.
    pub now: u64,
}

/// What POSIX promises where nothing can be read, `_POSIX_OPEN_MAX` rounded up to what every system gives.
const UNKNOWN: u64 = 256;

impl OpenFiles {
    /// Files for connections of clients and to origins. The rest is for everything else that `threads` threads of requests go with.
    #[must_use]
    pub fn for_connections(self, threads: usize) -> u64 {
        let others = OTHER_FILES.max(OTHER_FILES / 2 + FILES_OF_THREAD * threads as u64);
        // Of a small number half, so that something is left to serve with.
        self.now - others.min(self.now / 2)
    }

    /// Whether the process can start at all with `threads` threads of requests.
    ///
    /// # Errors
    /// It cannot; the number of files that it takes.
    pub fn suffice(self, threads: usize) -> Result<(), u64> {
        let fewest = FEWEST_FILES + FILES_OF_THREAD * threads as u64;
        if self.now < fewest {
            Err(fewest)
        } else {
            Ok(())
        }
    }

    /// Raises the soft limit to the hard one. Where that fails, what was stays.
    #[cfg(target_os = "linux")]
    #[must_use]
    pub fn raise() -> Self {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let limit = getrlimit(Resource::Nofile);
        let before = limit.current.unwrap_or(u64::MAX);
        let raised = Rlimit {
            current: limit.maximum,
            ..limit
        };
        let now = match setrlimit(Resource::Nofile, raised) {
            Ok(()) => limit.maximum.unwrap_or(u64::MAX),
            Err(_) => before,
        };
        Self { before, now }
    }

    /// Elsewhere the limit is left as it is, and taken to be small.
    #[cfg(not(target_os = "linux"))]
    #[must_use]
    pub fn raise() -> Self {
        Self {
            before: UNKNOWN,
            now: UNKNOWN,
        }
    }
}

/// As where nothing can be read.
impl Default for OpenFiles {
    fn default() -> Self {
        Self {
            before: UNKNOWN,
            now: UNKNOWN,
        }
    }
}
