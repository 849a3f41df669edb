//! Decides how many requests may be on their way to origins: so many in all, and so many of one client.
//!
//! A request on its way to an origin needs a connection there, and so a file, as a client's connection does. Over HTTP/2 a client has a
//! hundred of them on one connection of its own, so a bound on connections alone does not keep it from taking every file of the process,
//! and every port towards an origin. One request too many is answered with 503, and counted by the cap that it met.
//!
//! A client is an address, or an IPv6 /64, as the limits see it: behind a trusted proxy it is the proxy's client. A trusted proxy that
//! names no client has no bound of its own.
//!
//! The files of the process are shared out by [`FileShares`]. What is not for clients' connections is for those to origins: three quarters
//! for requests, one quarter for connections that idle.
//!
//! # Concurrency
//! As [`super::ConnectionLimiter`] has it.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use sluicegate_limiter::{Capacity, Concurrency, Permit, Permits};

use super::client_key;
use super::connections::at_least_one;
use super::open_files::{OpenFiles, OwnFiles};
use crate::admission::KeySeed;
use crate::bounds::{
    COUNTED_CLIENTS, DEFAULT_CONNECTIONS, ORIGIN_IDLE_CONNECTIONS, REQUESTS_OF_CLIENT,
};
use crate::client::{PeerTrust, hop};
use crate::config::rules::Rules;

/// The files that are for connections to origins, by use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileShares {
    /// For requests on their way.
    pub requests: u64,
    /// For connections that idle.
    pub idle: u64,
}

/// The requests on their way to origins, and how many there may be.
#[derive(Debug)]
pub struct OriginRequests {
    files: OpenFiles,
    /// What they allow beside the files that the configuration takes.
    allowed: AtomicU64,
    /// Files that they may need.
    open: AtomicU64,
    refused: [AtomicU64; RequestCap::ALL.len()],
    /// Replaced where the bound changes, with the same counts.
    of_client: ArcSwap<Permits>,
}

/// The right of one request to be on its way; dropping it gives it back.
#[derive(Debug)]
pub struct RequestPermit {
    requests: Arc<OriginRequests>,
    files: u64,
    /// The client's; `None` of a trusted proxy.
    _of_client: Option<Permit>,
}

/// The bound that a request met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestCap {
    /// On all.
    All,
    /// On those of its client.
    Client,
}

/// The numbers of requests that there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestCaps {
    /// In all.
    pub all: u64,
    /// Of one client.
    pub of_client: Concurrency,
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestTallies {
    /// Files that requests on their way may need.
    pub open: u64,
    /// Requests that were answered with 503, by [`RequestCap`] in the order of [`RequestCap::ALL`].
    pub refused: [u64; RequestCap::ALL.len()],
}

impl FileShares {
    /// The shares under these rules.
    #[must_use]
    pub fn of(files: OpenFiles, rules: &Rules) -> Self {
        let both = files.for_connections(OwnFiles::of(rules));
        let connections = rules.server.defence.max_connections.map_or_else(
            || (both / 2).min(DEFAULT_CONNECTIONS.into()),
            |all| all.get().into(),
        );
        // What is written may be more than there is; `check` warns.
        let origins = both.saturating_sub(connections).max(both / 4);
        let idle = (origins / 4).min(ORIGIN_IDLE_CONNECTIONS as u64 * pools(rules));
        Self {
            requests: (origins - idle).max(1),
            idle,
        }
    }

    /// Connections that one pool may keep.
    #[must_use]
    pub fn idle_of_pool(&self, rules: &Rules) -> usize {
        let each = (self.idle / pools(rules)).clamp(1, ORIGIN_IDLE_CONNECTIONS as u64);
        usize::try_from(each).unwrap_or(ORIGIN_IDLE_CONNECTIONS)
    }
}

/// Pools of idle connections: the framework has two for each listener, by version of HTTP.
fn pools(rules: &Rules) -> u64 {
    2 * rules.listeners.len().max(1) as u64
}

impl RequestCap {
    /// Every bound.
    pub const ALL: [Self; 2] = [Self::All, Self::Client];

    /// The key of the configuration that sets it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::All => "max_origin_requests",
            Self::Client => "max_origin_requests_per_client",
        }
    }
}

impl OriginRequests {
    /// No request is on its way yet.
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

    /// Follows rules that take other files than those before.
    pub fn follow(&self, rules: &Rules) {
        let allowed = FileShares::of(self.files, rules).requests;
        self.allowed.store(allowed, Ordering::Relaxed);
    }

    /// The numbers of requests that there may be under these rules.
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

    /// Lets a request of the client at `address` on its way, for which this many files may be needed.
    ///
    /// # Errors
    /// There are as many as may be. It is counted.
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

    /// What was counted.
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
