//! Full speed, by wrk: a load generator that nobody here wrote.

use std::fs;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

/// A run in the making.
pub struct Wrk {
    method: &'static str,
    connections: u32,
    duration: Duration,
}

/// What wrk reports at its end.
#[derive(Debug)]
pub struct WrkReport {
    /// Requests answered.
    pub requests: u64,
    /// Answers that were neither 2xx nor 3xx.
    pub unsuccessful: u64,
    /// Connect, read, write errors and timeouts.
    pub socket_errors: u64,
    /// The whole report, for a failed assertion.
    pub text: String,
}

impl Wrk {
    /// For so long, with 16 connections and GET.
    pub fn for_duration(duration: Duration) -> Self {
        Self {
            method: "GET",
            connections: 16,
            duration,
        }
    }

    /// Sends another method.
    pub fn method(mut self, method: &'static str) -> Self {
        self.method = method;
        self
    }

    /// Keeps so many connections busy.
    pub fn connections(mut self, connections: u32) -> Self {
        self.connections = connections;
        self
    }

    /// Runs to the end.
    pub async fn run(self, to: SocketAddr, path: &str) -> WrkReport {
        let url = format!("http://{to}{path}");
        tokio::task::spawn_blocking(move || self.run_blocking(&url))
            .await
            .unwrap()
    }

    fn run_blocking(self, url: &str) -> WrkReport {
        let directory = TempDir::new().unwrap();
        let script = directory.path().join("method.lua");
        fs::write(&script, format!("wrk.method = \"{}\"\n", self.method)).unwrap();
        let output = Command::new("wrk")
            .arg("--threads=1")
            .arg(format!("--connections={}", self.connections))
            .arg(format!("--duration={}s", self.duration.as_secs()))
            .arg("--timeout=10s")
            .arg(format!("--script={}", script.display()))
            .arg(url)
            .stdin(Stdio::null())
            .output()
            .unwrap_or_else(|error| {
                panic!("wrk does not start ({error}); `./dev test` installs it")
            });
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            output.status.success(),
            "wrk failed: {text}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        WrkReport::parse(text)
    }
}

impl WrkReport {
    /// Reads `12345 requests in 35.00s`, `Non-2xx or 3xx responses: 123` and
    /// `Socket errors: connect 0, read 0, write 0, timeout 0`; the latter two appear only when there are any.
    pub fn parse(text: String) -> Self {
        let line = |part: &str| text.lines().find(|line| line.contains(part));
        let first_number = |line: &str| {
            line.split_whitespace()
                .find_map(|word| word.parse::<u64>().ok())
        };
        let requests = line(" requests in ")
            .and_then(first_number)
            .unwrap_or_else(|| panic!("no report: {text}"));
        let unsuccessful = line("Non-2xx or 3xx responses")
            .and_then(first_number)
            .unwrap_or(0);
        let socket_errors = line("Socket errors:").map_or(0, |line| {
            line.split([' ', ','])
                .filter_map(|word| word.parse::<u64>().ok())
                .sum()
        });
        Self {
            requests,
            unsuccessful,
            socket_errors,
            text,
        }
    }
}
