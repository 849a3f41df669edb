//! Owns the options: where requests go, over how many connections and streams, and when they end.

use std::cell::Cell;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::Failure;

/// The load.
pub struct Load {
    /// The address of the server.
    pub server: SocketAddr,
    /// That address without its port, the server's name in TLS.
    pub host: String,
    /// The address with its port, as in the URL.
    pub authority: String,
    /// The path with its query.
    pub path: String,
    /// The connections.
    pub connections: u64,
    /// The requests at once of each connection.
    pub streams: u64,
    seconds: Option<u64>,
    requests: Option<u64>,
}

impl Load {
    /// Reads the arguments behind the program's name.
    ///
    /// # Errors
    /// An option is unknown or no number, the URL is missing or names no address, or nothing ends the run.
    pub fn from_arguments(mut arguments: impl Iterator<Item = String>) -> Result<Self, Failure> {
        let mut connections = 8;
        let mut streams = 16;
        let mut seconds = None;
        let mut requests = None;
        let mut url = None;
        while let Some(argument) = arguments.next() {
            let mut number = || -> Result<u64, Failure> {
                let value = arguments.next();
                let value = value.ok_or_else(|| format!("{argument} needs a number"))?;
                let is_wrong = |_| format!("{argument} {value} is no number");
                Ok(value.parse().map_err(is_wrong)?)
            };
            match argument.as_str() {
                "--connections" => connections = number()?,
                "--streams" => streams = number()?,
                "--seconds" => seconds = Some(number()?),
                "--requests" => requests = Some(number()?),
                _ if url.is_none() && !argument.starts_with("--") => url = Some(argument),
                _ => return Err(format!("{argument} is unknown").into()),
            }
        }
        if seconds.is_none() && requests.is_none() {
            return Err("write --seconds N, --requests N or both".into());
        }
        let url = url.ok_or("write the URL, https://ADDRESS:PORT/PATH")?;
        let is_wrong = || format!("{url} is not as https://ADDRESS:PORT/PATH");
        let target = url.strip_prefix("https://").ok_or_else(is_wrong)?;
        let (authority, path) = target.split_once('/').ok_or_else(is_wrong)?;
        let server: SocketAddr = authority.parse().map_err(|_| is_wrong())?;
        Ok(Self {
            server,
            host: server.ip().to_string(),
            authority: authority.to_owned(),
            path: format!("/{path}"),
            connections,
            streams,
            seconds,
            requests,
        })
    }

    /// Returns what may be sent from now on.
    pub fn budget(&self, start: Instant) -> Budget {
        let seconds = self.seconds.map(Duration::from_secs);
        Budget {
            left: Cell::new(self.requests.unwrap_or(u64::MAX)),
            end: seconds.map(|seconds| start + seconds),
        }
    }
}

/// What all streams together may send.
pub struct Budget {
    left: Cell<u64>,
    end: Option<Instant>,
}

impl Budget {
    /// Takes a request; false where none is left.
    pub fn take(&self, now: Instant) -> bool {
        let left = self.left.get();
        if left == 0 || self.end.is_some_and(|end| now >= end) {
            return false;
        }
        self.left.set(left - 1);
        true
    }
}
