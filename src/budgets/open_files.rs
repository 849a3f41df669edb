//! Raises how many files the process may have open to what the system allows, and says how many that are.
//!
//! A connection is a file, and so is the one to the origin behind it. Service managers start processes with a soft limit of 1,024 for
//! the sake of programs that use `select`, which this one does not; the hard limit is what the operator meant.

use crate::bounds::{
    FEWEST_FILES, FILES_OF_LISTENER, FILES_OF_LISTENER_THREAD, FILES_OF_THREAD, OTHER_FILES,
};
use crate::config::rules::{LimitRules, OriginRules, Rules};

/// How many files the process may have open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenFiles {
    /// As it was started.
    pub before: u64,
    /// Now.
    pub now: u64,
}

/// The files that a configuration takes beside those of connections for requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnFiles {
    threads: u64,
    /// Of further listeners, of counters in files, and of checks of health and look-ups of names.
    further: u64,
}

/// What POSIX promises where nothing can be read, `_POSIX_OPEN_MAX` rounded up to what every system gives.
const UNKNOWN: u64 = 256;

impl OwnFiles {
    /// Counts those of `rules`.
    #[must_use]
    pub fn of(rules: &Rules) -> Self {
        let threads = rules.server.threads as u64;
        let of_listener = FILES_OF_LISTENER + FILES_OF_LISTENER_THREAD * threads;
        let listeners = rules.listeners.len().saturating_sub(1) as u64;
        let in_files = rules.server.state_dir.is_some() || rules.server.upgrade_socket.is_some();
        let of_limit = |limit: &LimitRules| 1 + u64::from(limit.ban.is_some());
        let counters: u64 = rules.limits.values().map(of_limit).sum();
        let in_background = |origin: &OriginRules| checks(origin) + look_ups(origin);
        let in_background: u64 = rules.origins.values().map(in_background).sum();
        Self {
            threads,
            further: listeners * of_listener + if in_files { counters } else { 0 } + in_background,
        }
    }
}

/// Checks of health that may be under way at an origin: one of each server.
fn checks(origin: &OriginRules) -> u64 {
    if origin.health.is_none() {
        return 0;
    }
    let servers = origin.servers.iter();
    servers.map(|entry| entry.addresses.len() as u64).sum()
}

/// Look-ups of names that may be under way at an origin: one after the other, each for as long as the resolver takes.
fn look_ups(origin: &OriginRules) -> u64 {
    u64::from(origin.servers.iter().any(|entry| entry.name.is_some()))
}

impl OpenFiles {
    /// Files for connections of clients and to origins. The rest is for everything else, which takes those of `own`.
    #[must_use]
    pub fn for_connections(self, own: OwnFiles) -> u64 {
        let others = OTHER_FILES.max(OTHER_FILES / 2 + FILES_OF_THREAD * own.threads);
        let left = self.now.saturating_sub(own.further);
        // Of a small number half, so that something is left to serve with.
        left - others.min(left / 2)
    }

    /// Whether the process can start at all.
    ///
    /// # Errors
    /// It cannot; the number of files that it takes.
    pub fn suffice(self, own: OwnFiles) -> Result<(), u64> {
        let fewest = FEWEST_FILES + FILES_OF_THREAD * own.threads + own.further;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse;

    /// Goal: whatever keeps files open for itself is counted. Method: the fewest files of a small configuration, and of one with more of
    /// each kind.
    #[test]
    fn what_takes_files_is_counted() {
        let fewest = |lines: &str| {
            let text = format!(
                "{lines}\n[[listener]]\naddress = \"127.0.0.1:1\"\n[[route]]\npath = \"/*\"\nlimits = [\"a\"]\norigin = \"app\"\n\
                 [limit.a]\nkey = \"client.ip\"\nrates = [\"9 per 1s\"]\nban = {{ for = \"1m\" }}\n"
            );
            let rules = parse("test.toml", &text).unwrap().rules;
            let none = OpenFiles { before: 0, now: 0 };
            none.suffice(OwnFiles::of(&rules)).unwrap_err()
        };
        let servers = "[origin.app]\nservers = [\"192.0.2.1:1\", \"192.0.2.2:1\"]\n";
        let one = "[server]\nthreads = 1\n";
        let small = fewest(&format!("{one}{servers}"));
        for (more, files) in [
            (
                format!("{one}[[listener]]\naddress = \"127.0.0.1:2\"\n{servers}"),
                6,
            ),
            (format!("{one}state_dir = \"state\"\n{servers}"), 2),
            (format!("{one}upgrade_socket = \"up.sock\"\n{servers}"), 2),
            (format!("{one}{servers}health = {{}}\n"), 2),
            (
                format!("{one}[origin.app]\nservers = [\"localhost:1\"]\n"),
                1,
            ),
            (format!("[server]\nthreads = 2\n{servers}"), 8),
        ] {
            assert_eq!(fewest(&more), small + files, "{more}");
        }
    }
}
