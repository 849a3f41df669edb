//! Decides how many requests may be in flight to origins: a maximum in all, and a maximum of one client.
//!
//! A request in flight to an origin needs a connection there, and so a descriptor, like a client's connection. Over HTTP/2 a
//! client has a hundred of them on one connection of its own, so a bound on connections alone does not keep it from taking every
//! descriptor of the process, and every port towards an origin. One request beyond the maximum is answered with 503, and counted
//! by the cap that it exceeded.
//!
//! A client is an address, or an IPv6 /64, as in the limits: behind a trusted proxy it is the proxy's client. A trusted proxy
//! that names no client has no bound of its own.
//!
//! [`FileShares`] divides the descriptors of the process. Those that are not for clients' connections are for connections to
//! origins: three quarters for requests, one quarter for idle connections.
//!
//! # Concurrency
//! The same as for [`super::ConnectionLimiter`].

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sluicegate_base::bounds::{DEFAULT_CONNECTIONS, ORIGIN_IDLE_CONNECTIONS, REQUESTS_OF_CLIENT};
use sluicegate_limiter::Concurrency;

use super::client_accounts::{AccountCharge, ClientAccount, Resource};
use super::connections::at_least_one;
use super::open_files::{OpenFiles, OwnFiles};
use super::tally::{BudgetCap, BudgetTallies, ResourceTally};
use crate::config::rules::Rules;

/// The descriptors for connections to origins, by use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileShares {
    /// For requests in flight.
    pub requests: u64,
    /// For idle connections.
    pub idle: u64,
}

/// The requests in flight to origins, and their maximum.
#[derive(Debug)]
pub struct OriginRequests {
    files: OpenFiles,
    /// The maximum that the descriptor limit allows, less the descriptors that the configuration needs.
    allowed: AtomicU64,
    /// The descriptors that the requests in flight may need.
    tally: ResourceTally,
}

/// The permit of one request in flight; dropping it releases it.
#[derive(Debug)]
pub struct RequestPermit {
    requests: Arc<OriginRequests>,
    files: u64,
    of_client: AccountCharge,
}

/// The maximum numbers of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestCaps {
    /// In all.
    pub all: u64,
    /// For one client.
    pub of_client: Concurrency,
}

impl FileShares {
    /// Returns the shares under these rules.
    #[must_use]
    pub fn of(files: OpenFiles, rules: &Rules) -> Self {
        let both = files.for_connections(OwnFiles::of(rules));
        let connections = rules.server.defence.max_connections.map_or_else(
            || (both / 2).min(DEFAULT_CONNECTIONS.into()),
            |all| all.get().into(),
        );
        // The configured number may exceed the limit; `check` warns.
        let origins = both.saturating_sub(connections).max(both / 4);
        let idle = (origins / 4).min(ORIGIN_IDLE_CONNECTIONS as u64);
        Self {
            requests: (origins - idle).max(1),
            idle,
        }
    }

    /// Returns the maximum number of idle connections, at least one.
    #[must_use]
    pub fn most_idle(&self) -> usize {
        usize::try_from(self.idle.max(1)).unwrap_or(ORIGIN_IDLE_CONNECTIONS)
    }
}

impl RequestCaps {
    /// Returns the value of this cap.
    #[must_use]
    pub fn of(self, cap: BudgetCap) -> u64 {
        match cap {
            BudgetCap::All => self.all,
            BudgetCap::Client => self.of_client.get().into(),
        }
    }
}

impl OriginRequests {
    /// The configuration keys of its caps, in the order of [`BudgetCap::ALL`].
    pub const KEYS: [&str; BudgetCap::ALL.len()] =
        ["max_origin_requests", "max_origin_requests_per_client"];

    /// Returns a budget without requests.
    #[must_use]
    pub fn new(files: OpenFiles, rules: &Rules) -> Self {
        Self {
            files,
            allowed: AtomicU64::new(FileShares::of(files, rules).requests),
            tally: ResourceTally::default(),
        }
    }

    /// Applies rules that need another number of descriptors.
    pub fn follow(&self, rules: &Rules) {
        let allowed = FileShares::of(self.files, rules).requests;
        self.allowed.store(allowed, Ordering::Relaxed);
    }

    /// Returns the maximum numbers of requests under these rules.
    #[must_use]
    pub fn caps(&self, rules: &Rules) -> RequestCaps {
        let defence = &rules.server.defence;
        let all = defence.max_origin_requests.map_or_else(
            // Relaxed: a bound, publishes nothing.
            || self.allowed.load(Ordering::Relaxed),
            |all| all.get().into(),
        );
        let of_client = defence.max_origin_requests_per_client.unwrap_or_else(|| {
            let quarter = u32::try_from(all / 4).unwrap_or(u32::MAX);
            at_least_one(quarter.min(REQUESTS_OF_CLIENT))
        });
        RequestCaps { all, of_client }
    }

    /// Returns a permit for a request of the client with this account that may need so many descriptors.
    ///
    /// # Errors
    /// The maximum is reached. It is counted.
    pub fn enter(
        self: &Arc<Self>,
        account: &ClientAccount,
        files: u64,
        rules: &Rules,
    ) -> Result<RequestPermit, BudgetCap> {
        let caps = self.caps(rules);
        let most = caps.of_client.get().into();
        // One request is always admitted, however small the maximum.
        let room = (files, caps.all.max(files));
        let of_client = self.tally.charge(room, |_| {
            account.charge(Resource::OriginRequests, 1, |held| held < most)
        })?;
        Ok(RequestPermit {
            requests: Arc::clone(self),
            files,
            of_client,
        })
    }

    /// Returns the statistics.
    #[must_use]
    pub fn tallies(&self) -> BudgetTallies {
        self.tally.tallies()
    }
}

impl RequestPermit {
    /// Returns the account of the request's client.
    #[must_use]
    pub fn account(&self) -> &ClientAccount {
        self.of_client.account()
    }
}

impl Drop for RequestPermit {
    fn drop(&mut self) {
        self.requests.tally.release(self.files);
    }
}
