//! Records the state of one server for an operator, and logs its changes.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tracing::{info, warn};

use crate::LOG_TARGET;
use crate::address::ServerAddress;
use crate::settings::LinkSettings;
use crate::time::Moment;

/// The state of a connection, for an operator.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerStatus {
    /// The address of the server, without user and password.
    pub address: String,
    /// The state of the breaker.
    pub state: ConnectionState,
    /// The beginning of that state.
    pub since: Moment,
    /// True while counts that the server has lost are being restored, at its first connection until all processes have done so, and before
    /// the seed is known.
    pub is_in_recovery: bool,
    /// The time since which the server is tried without success; `None` once it was reached.
    pub unreached_since: Option<Moment>,
    /// The duration of the latest heartbeat.
    pub round_trip: Option<Duration>,
    /// The latest error and its time.
    pub error: Option<(Moment, String)>,
    /// Microseconds by which the server's clock is ahead of this machine's; negative where it is behind.
    pub ahead_micros: Option<i64>,
}

/// The state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionState {
    /// The first connection is being made.
    Connecting,
    /// Calls pass.
    Connected,
    /// Exchanges pass. Decisions do not, since answers come later than their timeout.
    Slow,
    /// Calls fail at once, and the task reconnects in the background.
    Unavailable,
}

/// The state of a server, as its connection reports it.
pub(crate) struct StatusRecord {
    settings: Arc<LinkSettings>,
    status: Mutex<ServerStatus>,
    unreached_warning: UnreachedWarning,
}

/// The time of the latest warning of a server that was never reached.
#[derive(Debug, Default)]
struct UnreachedWarning(Mutex<Option<Moment>>);

/// The time after which a server that was never reached is worth a warning of its own.
const UNREACHED_PATIENCE: Duration = Duration::from_secs(30);
/// The pause between two of these warnings.
const UNREACHED_REMINDER: Duration = Duration::from_secs(3_600);

impl StatusRecord {
    /// Returns the record of a server that is not connected yet.
    pub(crate) fn new(address: String, settings: Arc<LinkSettings>) -> Self {
        let status = ServerStatus {
            address,
            state: ConnectionState::Connecting,
            since: settings.environment.now(),
            is_in_recovery: false,
            unreached_since: Some(settings.environment.now()),
            round_trip: None,
            error: None,
            ahead_micros: None,
        };
        Self {
            settings,
            status: Mutex::new(status),
            unreached_warning: UnreachedWarning::default(),
        }
    }

    /// Returns the state.
    pub(crate) fn get(&self) -> ServerStatus {
        self.lock().clone()
    }

    /// Records where the server was located.
    pub(crate) fn set_address(&self, address: &ServerAddress) {
        self.lock().address = address.to_string();
    }

    /// Records the duration of a heartbeat, and by how much the server's clock is ahead.
    pub(crate) fn heartbeat(&self, round_trip: Duration, ahead_micros: Option<i64>) {
        let mut status = self.lock();
        status.round_trip = Some(round_trip);
        status.ahead_micros = ahead_micros;
    }

    /// Logs that answers come too late for decisions.
    pub(crate) fn too_slow(&self) {
        let address = self.lock().address.clone();
        let timeout = self.settings.timeout;
        warn!(
            target: LOG_TARGET,
            "store: {address} slow, answers take longer than {timeout:?}, breaker open for decisions: {}",
            self.settings.outage_effect
        );
    }

    /// Logs that answers come in time for decisions.
    pub(crate) fn fast_again(&self) {
        let address = self.lock().address.clone();
        info!(target: LOG_TARGET, "store: {address} fast enough for decisions again");
    }

    /// Records and logs that the breaker has opened.
    pub(crate) fn breaker_opened(&self, error: &str) {
        let now = self.settings.environment.now();
        let address = {
            let mut status = self.lock();
            status.state = ConnectionState::Unavailable;
            status.since = now;
            status.error = Some((now, error.to_owned()));
            status.address.clone()
        };
        warn!(
            target: LOG_TARGET,
            "store: {address} unavailable, breaker open: {error}; {}",
            self.settings.outage_effect
        );
    }

    /// Records and logs that calls pass.
    pub(crate) fn available(&self) {
        let now = self.settings.environment.now();
        let (address, was, since) = {
            let mut status = self.lock();
            status.unreached_since = None;
            let was = std::mem::replace(&mut status.state, ConnectionState::Connected);
            let since = std::mem::replace(&mut status.since, now);
            (status.address.clone(), was, since)
        };
        match was {
            ConnectionState::Unavailable => {
                info!(
                    target: LOG_TARGET,
                    "store: {address} available again after {:.1?}",
                    now.saturating_since(since)
                )
            }
            _ => info!(target: LOG_TARGET, "store: connected to {address}"),
        }
    }

    /// Records a failed attempt to connect, and logs the first of a row.
    pub(crate) fn unreachable(&self, error: &impl fmt::Display) {
        let now = self.settings.environment.now();
        let error = error.to_string();
        let (address, was, unreached_since) = {
            let mut status = self.lock();
            status.error = Some((now, error.clone()));
            let was = std::mem::replace(&mut status.state, ConnectionState::Unavailable);
            if was == ConnectionState::Connecting {
                status.since = now;
            }
            (status.address.clone(), was, status.unreached_since)
        };
        if was == ConnectionState::Connecting {
            warn!(
                target: LOG_TARGET,
                "store: {address} unavailable, connection failed: {error}; {}",
                self.settings.outage_effect
            );
        }
        let unreached_for = unreached_since.map(|since| now.saturating_since(since));
        if let Some(unreached_for) = unreached_for
            && self.unreached_warning.is_due(now, unreached_for)
        {
            warn!(
                target: LOG_TARGET,
                "store: {address} never reached in {unreached_for:.0?}, no count is shared: {error}; {}",
                self.settings.outage_effect
            );
        }
    }

    fn lock(&self) -> MutexGuard<'_, ServerStatus> {
        // Its fields are true one by one, so a poisoned lock still holds a status.
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl UnreachedWarning {
    /// Returns whether to warn: after [`UNREACHED_PATIENCE`], then once in [`UNREACHED_REMINDER`].
    fn is_due(&self, now: Moment, unreached_for: Duration) -> bool {
        let mut warned = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = match *warned {
            None => unreached_for >= UNREACHED_PATIENCE,
            Some(warned) => now.saturating_since(warned) >= UNREACHED_REMINDER,
        };
        if is_due {
            *warned = Some(now);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a server that is never reached is reported after half a minute, and then seldom. Method: attempts every ten seconds for two
    /// hours.
    #[test]
    fn a_server_that_is_never_reached_is_reported_once_an_hour() {
        let warning = UnreachedWarning::default();
        let start = Moment::from_secs(1_800_000_000);
        let attempts = (0..720_u64).map(|attempt| attempt * 10);
        let due = attempts.filter(|seconds| {
            let unreached_for = Duration::from_secs(*seconds);
            warning.is_due(start.saturating_add(unreached_for), unreached_for)
        });
        assert_eq!(due.collect::<Vec<_>>(), [30, 3_630]);
    }
}
