//! Owns what an origin says about the choice of its servers: who they are, who gets the next request, and what holds when they fail.

use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use super::KeyTemplate;

/// One entry of `servers`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolServer {
    /// `name:port`, to be asked for again; `None` where an address is written.
    pub name: Option<Arc<str>>,
    /// What it was when the file was read, in order; each address is a server. None where a name did not resolve then.
    pub addresses: Vec<SocketAddr>,
    /// `weight`; default 1.
    pub weight: Weight,
    /// `backup`.
    pub role: Role,
}

impl PoolServer {
    /// Whether no address is known of it.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        self.addresses.is_empty()
    }
}

/// The share of a server: twice the weight is twice the requests. 1–256.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Weight(pub NonZeroU16);

impl Default for Weight {
    fn default() -> Self {
        Self(NonZeroU16::MIN)
    }
}

/// When a server is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Whenever it can be.
    Primary,
    /// Only while no primary can be.
    Backup,
}

/// `balance`: who gets the next request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Balance {
    /// Each in turn, as often as its weight says; the default.
    RoundRobin,
    /// Who has the fewest in flight for its weight.
    LeastRequests,
    /// Of two picked at random, who has fewer in flight for its weight.
    PowerOfTwo,
    /// `hash`: requests with the same value of `hash_key` go to the same server; those without one take turns.
    Hash(KeyTemplate),
}

/// How a try at a server can fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FailureClass {
    /// `connect`: no connection could be made, so nothing was sent.
    Connect,
    /// `timeout`: it was sent, and no answer came in time.
    Timeout,
    /// `reset`: the connection broke before the answer was whole.
    Reset,
    /// `502`, `"500-599"`: it answered with one of these.
    Status(RangeInclusive<u16>),
}

/// `[origin.NAME.outlier_detection]`: a server that fails requests is left alone for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EjectionRules {
    /// Failures in a row; default 5.
    pub failures: u32,
    /// What is a failure; default a connection that fails or breaks, a timeout, 502 to 504.
    pub on: Vec<FailureClass>,
    /// `for`: how long at first; default 10 s. Each ejection that follows soon lasts as long again.
    pub first: Duration,
    /// How long at most; default 5 min.
    pub longest: Duration,
    /// `max_percent` of the servers may be out of use, for whatever reason, after an ejection; default 50.
    pub most: Percent,
}

/// A share of something, 0–100.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Percent(pub u8);

/// `[origin.NAME.retry]`: what `retries` may be used for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryRules {
    /// After which failures; default a connection that cannot be made.
    pub on: Vec<FailureClass>,
    /// Retries per hundred requests; default 20.
    pub budget: Percent,
    /// `min_per_second`: retries a second that need no requests to earn them; default 10.
    pub floor: u32,
    /// For how long after the decision a try may begin; default: for ever.
    pub within: Option<Duration>,
}

/// `[origin.NAME.circuit_breaker]`: how much a server gets at once, and how much waits for that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CircuitRules {
    /// `max_requests` in flight at one server. Without it there are `max_connections`.
    pub requests: Option<u32>,
    /// `max_connections` open to one server for requests.
    pub connections: Option<u32>,
    /// `max_pending` requests of the origin that wait; default 0.
    pub pending: u32,
    /// `pending_timeout`: how long one waits; default 1 s.
    pub patience: Duration,
}

/// `sticky`: a client stays with its server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StickyRules {
    /// The name of the cookie; default `sluicegate-server`.
    pub cookie: Arc<str>,
    /// For how long; default: until the browser is closed.
    pub ttl: Option<Duration>,
}
