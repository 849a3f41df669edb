//! `[origin.NAME]`: servers, how they are reached, and how long each step may take.

use std::time::Duration;

use http::HeaderValue;

use super::pool::{Balance, PoolServer};
use super::wire::Protocol;
use crate::config::tables::balance::StickyRules;
use crate::config::tables::origin_steps::{HealthRules, OriginTimeouts};
use crate::config::tables::origin_tls::OriginTls;
use crate::config::tables::resilience::{CircuitBreakerRules, OutlierDetectionRules, RetryRules};

/// `[origin.NAME]`: a pool of servers.
#[derive(Clone, Debug, PartialEq)]
pub struct OriginRules {
    /// At least one.
    pub servers: Vec<PoolServer>,
    /// What is spoken with them.
    pub protocol: Protocol,
    /// How connections to them are encrypted; `None`: not at all.
    pub tls: Option<OriginTls>,
    /// How a server is chosen.
    pub balance: Balance,
    /// What keeps a client with its server; `None`: nothing does.
    pub sticky: Option<StickyRules>,
    /// How often names of servers are looked up again; default 30 s.
    pub resolve_every: Duration,
    /// Active health checks; `None` leaves every server in use.
    pub health: Option<HealthRules>,
    /// Which servers are left alone for a while; `None`: none is.
    pub outlier_detection: Option<OutlierDetectionRules>,
    /// How long the share of a server grows that is new or back; default: not at all.
    pub slow_start: Option<Duration>,
    /// How much a server gets at once; `None`: as much as comes.
    pub circuit_breaker: Option<CircuitBreakerRules>,
    /// How long each step may take.
    pub timeouts: OriginTimeouts,
    /// How often a request is tried again, 0–5; default 1.
    pub retries: u8,
    /// After what, and how much of it; `None`: after a connection that cannot be made, without a budget.
    pub retry: Option<RetryRules>,
    /// What the origin sees as `Host`.
    pub host: HostPolicy,
    /// In which case field names go to the origin and come back from it.
    pub header_case: HeaderCase,
}

/// In which case field names travel between client and origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderCase {
    /// In lower case, as in HTTP/2.
    Lower,
    /// As each side wrote them.
    AsSent,
}

/// What the origin sees as `Host`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostPolicy {
    /// What the client sent, the default.
    Preserve,
    /// Always this value.
    Fixed(HeaderValue),
}
