//! Reads what Linux says about this process, for the `process_*` metrics that every dashboard knows.
//!
//! Whatever cannot be read is left out rather than shown as 0: `/proc` may be hidden, and other systems have none.

use std::fs;

use crate::exposition::{SampleValue, SampledFamily};

/// Clock ticks a second in `/proc`: the kernel's `USER_HZ`, 100 on every architecture that Rust's standard library runs on
/// with Linux but Alpha.
const USER_HZ: f64 = 100.0;

/// The figures of one process at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProcessStats {
    /// User and system time since the start.
    pub cpu_seconds: Option<f64>,
    /// Memory in RAM.
    pub resident_bytes: Option<u64>,
    /// Address space.
    pub virtual_bytes: Option<u64>,
    /// Descriptors in use.
    pub open_fds: Option<u64>,
    /// Descriptors allowed, the soft limit.
    pub max_fds: Option<u64>,
    /// Threads.
    pub threads: Option<u64>,
    /// Seconds since the Unix epoch at which it started.
    pub start_seconds: Option<f64>,
}

impl ProcessStats {
    /// Reads `/proc/self`.
    pub fn read() -> Self {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        // Reading the directory opens it: one descriptor is the reading itself.
        let open_fds = fs::read_dir("/proc/self/fd")
            .ok()
            .map(|fds| (fds.count() as u64).saturating_sub(1));
        Self {
            open_fds,
            ..Self::parse(
                &text("/proc/self/stat"),
                &text("/proc/self/status"),
                &text("/proc/self/limits"),
                &text("/proc/stat"),
            )
        }
    }

    /// Returns the families `process_*`; what could not be read has none.
    pub fn families(&self) -> Vec<SampledFamily> {
        let cpu = SampledFamily::counter(
            "process_cpu_seconds_total",
            "User and system CPU time spent, in seconds.",
        );
        let gauges = [
            (
                "process_resident_memory_bytes",
                "Memory in RAM, in bytes.",
                self.resident_bytes.map(SampleValue::from),
            ),
            (
                "process_virtual_memory_bytes",
                "Address space, in bytes.",
                self.virtual_bytes.map(SampleValue::from),
            ),
            (
                "process_open_fds",
                "File descriptors in use.",
                self.open_fds.map(SampleValue::from),
            ),
            (
                "process_max_fds",
                "File descriptors allowed.",
                self.max_fds.map(SampleValue::from),
            ),
            (
                "process_threads",
                "Threads.",
                self.threads.map(SampleValue::from),
            ),
            (
                "process_start_time_seconds",
                "Start, in seconds since the Unix epoch.",
                self.start_seconds.map(SampleValue::from),
            ),
        ];
        let cpu = self.cpu_seconds.map(|seconds| cpu.series(&[], seconds));
        let gauges = gauges.into_iter().filter_map(|(name, help, value)| {
            Some(SampledFamily::gauge(name, help).series(&[], value?))
        });
        cpu.into_iter().chain(gauges).collect()
    }

    fn parse(stat: &str, status: &str, limits: &str, system: &str) -> Self {
        // proc_pid_stat(5): the name in parentheses may hold anything, so fields count from the last one; field 3 is first.
        let fields: Vec<&str> = stat
            .rsplit_once(')')
            .map_or("", |(_, rest)| rest)
            .split_whitespace()
            .collect();
        let ticks = |field: usize| {
            fields
                .get(field - 3)
                .and_then(|ticks| ticks.parse::<f64>().ok())
        };
        let kibibytes = |name| number_after(status, name).map(|kib| kib.saturating_mul(1024));
        let booted = number_after(system, "btime").map(|seconds| seconds as f64);
        Self {
            cpu_seconds: ticks(14)
                .zip(ticks(15))
                .map(|(user, system)| (user + system) / USER_HZ),
            resident_bytes: kibibytes("VmRSS:"),
            virtual_bytes: kibibytes("VmSize:"),
            open_fds: None,
            max_fds: number_after(limits, "Max open files"),
            threads: number_after(status, "Threads:"),
            start_seconds: ticks(22)
                .zip(booted)
                .map(|(started, booted)| booted + started / USER_HZ),
        }
    }
}

/// Returns the number behind `name` at the start of a line.
fn number_after(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the fields are the right ones, whatever the process is called. Method: a hand-made `/proc`.
    #[test]
    fn the_fields_of_proc_are_found_behind_a_hostile_name() {
        let stat = "7 (a) S 1 (b) S 1 7 7 0 -1 4194560 1 0 0 0 250 50 0 0 20 0 3 0 1000 9 9";
        let status = "Name:\tx\nVmSize:\t    2048 kB\nVmRSS:\t    1024 kB\nThreads:\t3\n";
        let limits = "Limit  Soft  Hard\nMax open files            1024                 4096                 files\n";
        let read = ProcessStats::parse(stat, status, limits, "cpu 1 2\nbtime 1700000000\n");
        assert_eq!(read.cpu_seconds, Some(3.0));
        assert_eq!(read.resident_bytes, Some(1_048_576));
        assert_eq!(read.virtual_bytes, Some(2_097_152));
        assert_eq!(read.max_fds, Some(1024));
        assert_eq!(read.threads, Some(3));
        assert_eq!(read.start_seconds, Some(1_700_000_010.0));
    }

    /// Goal: what is missing is absent. Method: an empty `/proc`.
    #[test]
    fn a_hidden_proc_shows_nothing() {
        assert_eq!(ProcessStats::parse("", "", "", ""), ProcessStats::default());
    }

    /// Goal: the real files are read. Method: this process.
    #[test]
    #[cfg(target_os = "linux")]
    fn this_process_has_memory_threads_and_descriptors() {
        let read = ProcessStats::read();
        assert!(read.resident_bytes > Some(0) && read.threads > Some(0) && read.open_fds > Some(2));
        assert!(read.start_seconds > Some(1_500_000_000.0));
    }
}
