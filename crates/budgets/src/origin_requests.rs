//! Decides how many requests may be in flight to origins: a maximum in all, of one client, and to one origin.
//!
//! A request in flight to an origin needs a connection there, and so a descriptor, like a client's connection. Over HTTP/2 a
//! client has a hundred of them on one connection of its own, so a bound on connections alone does not keep it from taking every
//! descriptor of the process, and every port towards an origin. One request beyond the maximum is answered with 503, and counted
//! by the cap that it exceeded.
//!
//! A client is an address, or an IPv6 /64, as in the limits: behind a trusted proxy it is the proxy's client. A trusted proxy
//! that names no client has no bound of its own.
//!
//! An origin that is slow keeps every request for its timeout, so the requests to it take all permits. Where there are several origins, one
//! of them has three quarters at most, and the others answer (docs/decisions/0018). A configuration with one origin counts nothing for it.
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
use sluicegate_config::rules::Rules;

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
    /// The number of requests that the cap of their origin refused.
    refused_by_origin: AtomicU64,
}

/// The descriptors that the requests in flight to one origin may need.
#[derive(Debug, Default)]
pub struct OriginShare(AtomicU64);

/// The part of a share that one request has; dropping it releases it.
#[derive(Debug)]
struct OriginCharge {
    share: Arc<OriginShare>,
    files: u64,
}

/// The permit of one request in flight; dropping it releases it.
#[derive(Debug)]
pub struct RequestPermit {
    requests: Arc<OriginRequests>,
    files: u64,
    of_client: AccountCharge,
    /// `None` where the origin has no cap.
    _of_origin: Option<OriginCharge>,
}

/// The cap that a request exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestCap {
    /// On the requests of all clients.
    All,
    /// On those of one client.
    Client,
    /// On those to one origin.
    Origin,
}

/// The maximum numbers of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestCaps {
    /// In all.
    pub all: u64,
    /// For one client.
    pub of_client: Concurrency,
    /// For one origin; `None` for the only one, which may take all.
    pub of_origin: Option<u64>,
}

impl FileShares {
    /// Returns the shares under these rules.
    #[must_use]
    pub fn new(files: OpenFiles, rules: &Rules) -> Self {
        let both = files.for_connections(OwnFiles::new(rules));
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
    pub fn value(self, cap: RequestCap) -> u64 {
        match cap {
            RequestCap::All => self.all,
            RequestCap::Client => self.of_client.get().into(),
            RequestCap::Origin => self.of_origin.unwrap_or(self.all),
        }
    }
}

impl RequestCap {
    /// Every cap.
    pub const ALL: [Self; 3] = [Self::All, Self::Client, Self::Origin];

    /// Returns its configuration key.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Self::All => "max_origin_requests",
            Self::Client => "max_origin_requests_per_client",
            Self::Origin => "max_origin_requests_per_origin",
        }
    }
}

impl From<BudgetCap> for RequestCap {
    fn from(cap: BudgetCap) -> Self {
        match cap {
            BudgetCap::All => Self::All,
            BudgetCap::Client => Self::Client,
        }
    }
}

impl OriginShare {
    /// Adds so many descriptors, if they are then no more than `most`. A request that has none beside it is always admitted.
    fn charge(self: &Arc<Self>, files: u64, most: u64) -> Option<OriginCharge> {
        let charge = OriginCharge {
            share: Arc::clone(self),
            files,
        };
        // Relaxed, here and below: the number bounds files, and publishes nothing.
        let before = self.0.fetch_add(files, Ordering::Relaxed);
        // Dropping the charge releases it.
        (before.saturating_add(files) <= most.max(files)).then_some(charge)
    }
}

impl Drop for OriginCharge {
    fn drop(&mut self) {
        self.share.0.fetch_sub(self.files, Ordering::Relaxed);
    }
}

impl OriginRequests {
    /// Returns a budget without requests.
    #[must_use]
    pub fn new(files: OpenFiles, rules: &Rules) -> Self {
        Self {
            files,
            allowed: AtomicU64::new(FileShares::new(files, rules).requests),
            tally: ResourceTally::default(),
            refused_by_origin: AtomicU64::new(0),
        }
    }

    /// Applies rules that need another number of descriptors.
    pub fn follow(&self, rules: &Rules) {
        let allowed = FileShares::new(self.files, rules).requests;
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
        let of_origin = match defence.max_origin_requests_per_origin {
            Some(most) => Some(most.get().into()),
            None => (rules.origins.len() > 1).then_some(all - all / 4),
        };
        RequestCaps {
            all,
            of_client,
            of_origin,
        }
    }

    /// Returns a permit for a request of the client with this account to the origin with this share, which may need so many descriptors.
    ///
    /// # Errors
    /// A maximum is reached. It is counted.
    pub fn enter(
        self: &Arc<Self>,
        account: &ClientAccount,
        (origin, files): (&Arc<OriginShare>, u64),
        rules: &Rules,
    ) -> Result<RequestPermit, RequestCap> {
        let caps = self.caps(rules);
        let most = caps.of_client.get().into();
        let of_origin = match caps.of_origin {
            None => None,
            Some(most) => Some(origin.charge(files, most).ok_or_else(|| {
                self.refused_by_origin.fetch_add(1, Ordering::Relaxed);
                RequestCap::Origin
            })?),
        };
        // One request is always admitted, however small the maximum.
        let room = (files, caps.all.max(files));
        let of_client = self.tally.charge(room, |_| {
            account.charge(Resource::OriginRequests, 1, |held| held < most)
        })?;
        Ok(RequestPermit {
            requests: Arc::clone(self),
            files,
            of_client,
            _of_origin: of_origin,
        })
    }

    /// Returns the descriptors that the requests in flight may need.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.tally.tallies().held
    }

    /// Returns the number of requests that were refused, in the order of [`RequestCap::ALL`].
    #[must_use]
    pub fn refused(&self) -> [u64; RequestCap::ALL.len()] {
        let BudgetTallies {
            refused: [all, client],
            ..
        } = self.tally.tallies();
        [all, client, self.refused_by_origin.load(Ordering::Relaxed)]
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
