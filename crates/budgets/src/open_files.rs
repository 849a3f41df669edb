//! Raises the limit of open files to the hard limit of the system, and reports it.
//!
//! A connection needs a descriptor, and so does the one to the origin for it. Service managers start processes with a soft limit
//! of 1,024 for programs that use `select`, which this one does not; the hard limit is the one that the operator set.

use sluicegate_base::bounds::{
    FEWEST_FILES, FILES_OF_HTTP3_THREAD, FILES_OF_LISTENER, FILES_OF_LISTENER_THREAD,
    FILES_OF_THREAD, LOOK_UPS_IN_FLIGHT, OTHER_FILES,
};

use sluicegate_config::rules::{Http3, LimitRules, OriginRules, Rules};

/// The limit of open files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenFiles {
    /// The limit at the start.
    pub before: u64,
    /// The limit now.
    pub now: u64,
}

/// The descriptors that a configuration needs beside those of connections for requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnFiles {
    threads: u64,
    /// Descriptors of further listeners, of counters in files, of health checks and name look-ups, and of connections to the collector.
    further: u64,
}

/// The assumed limit if it cannot be read: `_POSIX_OPEN_MAX`, rounded up to the number that every system allows.
const UNKNOWN: u64 = 256;

impl OwnFiles {
    /// Counts the descriptors of `rules`.
    #[must_use]
    pub fn new(rules: &Rules) -> Self {
        let threads = rules.server.threads as u64;
        let of_listener = FILES_OF_LISTENER + FILES_OF_LISTENER_THREAD * threads;
        let listeners = rules.listeners.len().saturating_sub(1) as u64;
        // Where there is a state directory there is a socket.
        let in_files = rules.server.upgrade_socket().is_some();
        let of_limit = |limit: &LimitRules| 1 + u64::from(limit.ban.is_some());
        let counters: u64 = rules.limits.values().map(of_limit).sum();
        let in_background = |origin: &OriginRules| checks(origin) + look_ups(origin);
        let in_background: u64 = rules.origins.values().map(in_background).sum();
        Self {
            threads,
            further: listeners * of_listener
                + datagrams(rules)
                + if in_files { counters } else { 0 }
                + in_background
                + crawler_look_ups(rules)
                + exports(rules),
        }
    }
}

/// Returns the number of descriptors for HTTP/3.
fn datagrams(rules: &Rules) -> u64 {
    let listeners = rules.listeners.iter();
    let spoken = listeners.filter(|listener| listener.http3 == Http3::Accepted);
    FILES_OF_HTTP3_THREAD * rules.server.threads as u64 * spoken.count() as u64
}

/// Returns the number of concurrent health checks of an origin: one of each server.
fn checks(origin: &OriginRules) -> u64 {
    if origin.health.is_none() {
        return 0;
    }
    let servers = origin.servers.iter();
    servers.map(|entry| entry.addresses.len() as u64).sum()
}

/// Returns the number of concurrent name look-ups of an origin: one after the other, each for as long as the resolver takes.
fn look_ups(origin: &OriginRules) -> u64 {
    u64::from(origin.servers.iter().any(|entry| entry.name.is_some()))
}

/// Returns the number of concurrent look-ups of crawlers' addresses.
fn crawler_look_ups(rules: &Rules) -> u64 {
    let mut crawlers = rules.crawlers.values();
    if crawlers.any(|crawler| !crawler.domains.is_empty()) {
        LOOK_UPS_IN_FLIGHT as u64
    } else {
        0
    }
}

/// Returns the number of connections to the collector: one of each signal.
fn exports(rules: &Rules) -> u64 {
    let collector = rules.collector.as_ref();
    collector.map_or(0, |collector| collector.signals.len() as u64)
}

impl OpenFiles {
    /// Returns the number of descriptors for connections of clients and to origins, after those of `own`.
    #[must_use]
    pub fn for_connections(self, own: OwnFiles) -> u64 {
        let others = OTHER_FILES.max(OTHER_FILES / 2 + FILES_OF_THREAD * own.threads);
        let left = self.now.saturating_sub(own.further);
        // Half of a small number, so that some are left for connections.
        left - others.min(left / 2)
    }

    /// Checks that the process can start.
    ///
    /// # Errors
    /// The number of descriptors that it needs, if there are fewer.
    /// It cannot; the number of files that it takes.
    pub fn suffice(self, own: OwnFiles) -> Result<(), u64> {
        let fewest = FEWEST_FILES + FILES_OF_THREAD * own.threads + own.further;
        if self.now < fewest {
            Err(fewest)
        } else {
            Ok(())
        }
    }

    /// Raises the soft limit to the hard one; on failure the limit stays.
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

    /// Leaves the limit unchanged on other systems, and assumes a small one.
    #[cfg(not(target_os = "linux"))]
    #[must_use]
    pub fn raise() -> Self {
        Self {
            before: UNKNOWN,
            now: UNKNOWN,
        }
    }
}

/// Returns the limit that is assumed where it cannot be read.
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
    use sluicegate_config::{no_review, parse};

    /// Goal: every use of descriptors is counted. Method: the minimum of a small configuration, and of one with more of each
    /// kind.
    #[test]
    fn what_takes_files_is_counted() {
        let fewest = |lines: &str| {
            let text = format!(
                "{lines}\n[[listener]]\naddress = \"127.0.0.1:1\"\n[[route]]\npath = \"/*\"\nlimits = [\"a\"]\norigin = \"app\"\n\
                 [limit.a]\nkey = \"client.ip\"\nrates = [\"9 per 1s\"]\nban = {{ for = \"1m\" }}\n"
            );
            let rules = parse("test.toml", &text, no_review).unwrap().rules;
            let none = OpenFiles { before: 0, now: 0 };
            none.suffice(OwnFiles::new(&rules)).unwrap_err()
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
            (
                format!(
                    "{one}{servers}[tracing.otlp]\nendpoint = \"http://c:4318\"\nsignals = [\"logs\", \"metrics\"]\n"
                ),
                2,
            ),
        ] {
            assert_eq!(fewest(&more), small + files, "{more}");
        }
    }
}
