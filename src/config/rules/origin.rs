//! `[origin.NAME]`: servers, how they are reached, and how long each step may take.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;

use super::pool::{Balance, CircuitRules, EjectionRules, PoolServer, RetryRules, StickyRules};
use super::wire::{OriginTls, Protocol};

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
    pub ejection: Option<EjectionRules>,
    /// How long the share of a server grows that is new or back; default: not at all.
    pub slow_start: Option<Duration>,
    /// How much a server gets at once; `None`: as much as comes.
    pub circuit: Option<CircuitRules>,
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

/// `[origin.NAME.health]`: active checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthRules {
    /// A path to GET; without one a TCP connection is healthy.
    pub path: Option<Arc<str>>,
    /// Which answers are; default 200–399.
    pub statuses: Vec<RangeInclusive<u16>>,
    /// `Host` of the check; default: the origin's name.
    pub host: Option<Arc<str>>,
    /// Time between checks; default 5 s.
    pub interval: Duration,
    /// How long one check may take; default 1 s.
    pub timeout: Duration,
    /// Failures in a row before a server is taken out; default 2.
    pub unhealthy_after: usize,
    /// Successes in a row before it is put back; default 1.
    pub healthy_after: usize,
}

/// `[origin.NAME.timeouts]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginTimeouts {
    /// To connect; default 2 s.
    pub connect: Duration,
    /// To wait for the next bytes of a response; default 30 s.
    pub read: Duration,
    /// To write the next bytes of a request; default 30 s.
    pub write: Duration,
    /// For the whole response; default none. An upgraded connection is exempt.
    pub total: Option<Duration>,
    /// How long an idle pooled connection is kept; `None` until the origin closes it.
    pub idle: Option<Duration>,
}

/// What the origin sees as `Host`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostPolicy {
    /// What the client sent, the default.
    Preserve,
    /// Always this value.
    Fixed(HeaderValue),
}
