//! Records the state of one server for an operator, and logs its changes.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tracing::{info, warn};

use crate::LOG_TARGET;
use crate::settings::{LinkSettings, ServerAddress};
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
    /// True while counts that the server has lost are being restored, and at its first connection until all processes have done so.
    pub is_in_recovery: bool,
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
    /// Calls fail at once, and the task reconnects in the background.
    Unavailable,
}

/// The state of a server, as its connection reports it.
pub(crate) struct StatusRecord {
    settings: Arc<LinkSettings>,
    status: Mutex<ServerStatus>,
}

impl StatusRecord {
    /// Returns the record of a server that is not connected yet.
    pub(crate) fn new(address: String, settings: Arc<LinkSettings>) -> Self {
        let status = ServerStatus {
            address,
            state: ConnectionState::Connecting,
            since: settings.clock.now(),
            is_in_recovery: false,
            error: None,
            ahead_micros: None,
        };
        Self {
            settings,
            status: Mutex::new(status),
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

    /// Records by how much the server's clock is ahead.
    pub(crate) fn set_ahead(&self, micros: Option<i64>) {
        self.lock().ahead_micros = micros;
    }

    /// Records and logs that the breaker has opened.
    pub(crate) fn breaker_opened(&self, error: &str) {
        let now = self.settings.clock.now();
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
        let now = self.settings.clock.now();
        let (address, was, since) = {
            let mut status = self.lock();
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
        let (now, error) = (self.settings.clock.now(), error.to_string());
        let (address, was) = {
            let mut status = self.lock();
            status.error = Some((now, error.clone()));
            let was = std::mem::replace(&mut status.state, ConnectionState::Unavailable);
            if was == ConnectionState::Connecting {
                status.since = now;
            }
            (status.address.clone(), was)
        };
        if was == ConnectionState::Connecting {
            warn!(
                target: LOG_TARGET,
                "store: {address} unavailable, connection failed: {error}; {}",
                self.settings.outage_effect
            );
        }
    }

    fn lock(&self) -> MutexGuard<'_, ServerStatus> {
        // Its fields are true one by one, so a poisoned lock still holds a status.
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
