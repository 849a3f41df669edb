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

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use sluicegate_base::bounds::{
    COUNTED_CLIENTS, DEFAULT_CONNECTIONS, ORIGIN_IDLE_CONNECTIONS, REQUESTS_OF_CLIENT,
};
use sluicegate_limiter::{Capacity, Concurrency, Permit, Permits};

use super::client_key;
use super::connections::at_least_one;
use super::open_files::{OpenFiles, OwnFiles};
use crate::admission::KeySeed;
use crate::client::{PeerTrust, hop};
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
    /// Descriptors that the requests in flight may need.
    open: AtomicU64,
    refused: [AtomicU64; RequestCap::ALL.len()],
    /// Replaced where the bound changes, with the same counts.
    of_client: ArcSwap<Permits>,
}

/// The permit of one request in flight; dropping it releases it.
#[derive(Debug)]
pub struct RequestPermit {
    requests: Arc<OriginRequests>,
    files: u64,
    /// The client's permit; `None` for a trusted proxy.
    _of_client: Option<Permit>,
}

/// The cap that a request exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestCap {
    /// On all requests.
    All,
    /// On those of its client.
    Client,
}

/// The maximum numbers of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestCaps {
    /// In all.
    pub all: u64,
    /// For one client.
    pub of_client: Concurrency,
}

/// Statistics of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestTallies {
    /// Descriptors that requests in flight may need.
    pub open: u64,
    /// Requests that were answered with 503, by [`RequestCap`] in the order of [`RequestCap::ALL`].
    pub refused: [u64; RequestCap::ALL.len()],
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
    pub fn of(self, cap: RequestCap) -> u64 {
        match cap {
            RequestCap::All => self.all,
            RequestCap::Client => self.of_client.get().into(),
        }
    }
}

impl RequestCap {
    /// Every bound.
    pub const ALL: [Self; 2] = [Self::All, Self::Client];

    /// Returns the configuration key that sets it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::All => "max_origin_requests",
            Self::Client => "max_origin_requests_per_client",
        }
    }
}

impl OriginRequests {
    /// Returns a budget without requests.
    #[must_use]
    pub fn new(files: OpenFiles, rules: &Rules) -> Self {
        let capacity = Capacity::new(COUNTED_CLIENTS).unwrap_or_default();
        Self {
            files,
            allowed: AtomicU64::new(FileShares::of(files, rules).requests),
            open: AtomicU64::new(0),
            refused: Default::default(),
            of_client: ArcSwap::from_pointee(Permits::new(
                at_least_one(REQUESTS_OF_CLIENT),
                capacity,
            )),
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

    /// Returns a permit for a request of the client at `address` that may need so many descriptors.
    ///
    /// # Errors
    /// The maximum is reached. It is counted.
    pub fn enter(
        self: &Arc<Self>,
        address: IpAddr,
        files: u64,
        rules: &Rules,
        seed: &KeySeed,
    ) -> Result<RequestPermit, RequestCap> {
        let caps = self.caps(rules);
        // Relaxed, here and below: the count bounds files and memory and publishes nothing.
        let before = self.open.fetch_add(files, Ordering::Relaxed);
        let mut permit = RequestPermit {
            requests: Arc::clone(self),
            files,
            _of_client: None,
        };
        if before.saturating_add(files) > caps.all.max(files) {
            return self.count(RequestCap::All);
        }
        if hop(address, &rules.client) == PeerTrust::Trusted {
            return Ok(permit);
        }
        let key = client_key(b"origin requests", address, seed);
        let mut of_client = self.of_client.load();
        if of_client.max() != caps.of_client {
            let edited = of_client.edited(caps.of_client, of_client.capacity());
            self.of_client.store(Arc::new(edited));
            of_client = self.of_client.load();
        }
        match of_client.take(key) {
            Ok(of_client) => {
                permit._of_client = Some(of_client);
                Ok(permit)
            }
            Err(_) => self.count(RequestCap::Client),
        }
    }

    /// Returns the statistics.
    #[must_use]
    pub fn tallies(&self) -> RequestTallies {
        let refused = self.refused.each_ref();
        RequestTallies {
            open: self.open.load(Ordering::Relaxed),
            refused: refused.map(|count| count.load(Ordering::Relaxed)),
        }
    }

    fn count<T>(&self, cap: RequestCap) -> Result<T, RequestCap> {
        self.refused[cap as usize].fetch_add(1, Ordering::Relaxed);
        Err(cap)
    }
}

impl Drop for RequestPermit {
    fn drop(&mut self) {
        self.requests.open.fetch_sub(self.files, Ordering::Relaxed);
    }
}
