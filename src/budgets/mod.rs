//! Bounds the resources of the process that clients hold: connections, requests in flight to origins, descriptors, unread bytes of
//! answers, bodies that are read for keys, delayed requests.
//!
//! Each budget has a maximum for the whole process and a share per client. A permit takes from a budget and returns to it when
//! it is dropped.

pub(crate) mod cancelled_streams;
mod client_bytes;
mod connections;
pub(crate) mod delay_queue;
mod open_files;
mod origin_requests;

use std::net::IpAddr;

use sluicegate_base::address::{PrefixBits, prefix};
use sluicegate_limiter::KeyHash;

use crate::admission::KeySeed;

pub use client_bytes::{BytesCap, BytesPermit, BytesTallies, ClientBytes};
pub use connections::{
    ClientConnectionPermit, ConnectionCaps, ConnectionLimitExceeded, ConnectionLimiter,
    ConnectionTallies,
};
pub use delay_queue::DelayedRequests;
pub use open_files::{OpenFiles, OwnFiles};
pub use origin_requests::{
    FileShares, OriginRequests, RequestCap, RequestCaps, RequestPermit, RequestTallies,
};

/// Returns the key under which this `kind` of resource is counted for the client at `address`: an address of IPv4, a /64 of
/// IPv6.
fn client_key(kind: &[u8], address: IpAddr, seed: &KeySeed) -> KeyHash {
    let network = prefix(address, PrefixBits::default());
    seed.hash_parts([kind, network.as_bytes()].into_iter())
}
