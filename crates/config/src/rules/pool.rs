//! Owns what an origin says about the choice of its servers: who they are, who gets the next request, and what holds when they fail.

use std::num::{NonZeroU16, TryFromIntError};
use std::ops::RangeInclusive;
use std::sync::Arc;

use super::{KeyTemplate, OriginAddress};

/// One entry of `servers`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolServer {
    /// `name:port`, to be asked for again; `None` where an address or a socket is written.
    pub name: Option<Arc<str>>,
    /// The addresses when the file was read, in order; each is a server. None where a name did not resolve then.
    pub addresses: Vec<OriginAddress>,
    /// `weight`; default 1.
    pub weight: Weight,
    /// `backup`.
    pub role: Role,
}

impl PoolServer {
    /// Returns its port, which is that of its name or of each of its addresses.
    pub(crate) fn port(&self) -> Option<u16> {
        match &self.name {
            Some(name) => name.rsplit_once(':')?.1.parse().ok(),
            None => self.addresses.first()?.tcp().map(|address| address.port()),
        }
    }

    /// Returns whether no address of it is known.
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

impl TryFrom<u64> for Weight {
    type Error = TryFromIntError;

    fn try_from(weight: u64) -> Result<Self, TryFromIntError> {
        NonZeroU16::try_from(u16::try_from(weight)?).map(Self)
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
    /// The server with the fewest requests in flight for its weight.
    LeastRequests,
    /// The server with fewer requests in flight for its weight, of two picked at random.
    PowerOfTwo,
    /// `hash`: requests with the same value of `hash_key` go to the same server; those without one take turns.
    Hash(KeyTemplate),
}

/// `queue_order`: which of the requests that wait for a server is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueOrder {
    /// The oldest; the default.
    Fifo,
    /// The newest.
    Lifo,
    /// The oldest of the client whose turn it is.
    Fair,
}

/// The kind of failure of an attempt at a server.
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

/// A share of something, 0–100.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Percent(pub u8);

impl TryFrom<u64> for Percent {
    type Error = TryFromIntError;

    fn try_from(percent: u64) -> Result<Self, TryFromIntError> {
        u8::try_from(percent).map(Self)
    }
}
