//! Decides how many streams of HTTP/2 clients may have open: a maximum in all, and a maximum of one client.
//!
//! `max_streams` bounds those of one connection, but a client may have thousands of connections. A stream holds the state of its request
//! from its head to its answer, also while it waits for a body, a delay or a stored response, so a bound on requests to origins does not
//! bound them. One stream too many is reset with REFUSED_STREAM, after which its client may send the request again (RFC 9113 §8.7).
//!
//! # Concurrency
//! The same as for [`super::ConnectionLimiter`].

use std::sync::Arc;

use sluicegate_base::bounds::{CLIENT_STREAMS, STREAMS_OF_CLIENT};

use super::client_accounts::{AccountCharge, ClientAccount, Resource};
use super::tally::{BudgetCap, BudgetTallies, ResourceTally};
use sluicegate_config::rules::ServerRules;

/// The open streams of clients.
#[derive(Debug, Default)]
pub struct ClientStreams(ResourceTally);

/// A permit for one open stream. Dropping it returns the permit.
#[derive(Debug)]
#[must_use = "dropped, the permit is returned at once"]
pub struct StreamPermit {
    streams: Arc<ClientStreams>,
    _of_client: AccountCharge,
}

/// The maximum numbers of streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamCaps {
    /// In all.
    pub all: u64,
    /// For one client.
    pub of_client: u64,
}

impl StreamCaps {
    /// Returns the maximum numbers under these rules.
    #[must_use]
    pub fn new(rules: &ServerRules) -> Self {
        let defence = &rules.defence;
        let all = defence.max_http2_streams;
        let all = u64::from(all.map_or(CLIENT_STREAMS, |all| all.get()));
        let part = || (all / u64::from(STREAMS_OF_CLIENT)).max(rules.http2.max_streams.into());
        let of_client = defence.max_http2_streams_per_client;
        Self {
            all,
            of_client: of_client.map_or_else(part, |most| most.get().into()),
        }
    }

    /// Returns the value of this cap.
    #[must_use]
    pub fn value(self, cap: BudgetCap) -> u64 {
        match cap {
            BudgetCap::All => self.all,
            BudgetCap::Client => self.of_client,
        }
    }
}

impl ClientStreams {
    /// The configuration keys of its caps, in the order of [`BudgetCap::ALL`].
    pub const KEYS: [&str; BudgetCap::ALL.len()] =
        ["max_http2_streams", "max_http2_streams_per_client"];

    /// Returns a permit for a stream of the client with this account.
    ///
    /// # Errors
    /// The maximum is reached. It is counted.
    pub fn enter(
        self: &Arc<Self>,
        account: &ClientAccount,
        caps: StreamCaps,
    ) -> Result<StreamPermit, BudgetCap> {
        let of_client = self.0.charge((1, caps.all), |_| {
            account.charge(Resource::Streams, 1, |held| held < caps.of_client)
        })?;
        Ok(StreamPermit {
            streams: Arc::clone(self),
            _of_client: of_client,
        })
    }

    /// Returns the statistics.
    #[must_use]
    pub fn tallies(&self) -> BudgetTallies {
        self.0.tallies()
    }
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        self.streams.0.release(1);
    }
}
