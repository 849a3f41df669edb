//! Bounds what clients hold of the process: connections, requests on their way to origins, descriptors, unread bytes, delayed requests.
//!
//! Each budget has a cap for the whole process and a share per client. A permit takes from a budget and gives back when it is dropped.

pub(crate) mod cancelled_streams;
mod connections;
pub(crate) mod delay_queue;
mod open_files;
mod origin_requests;
mod unread;

use std::net::IpAddr;

use sluicegate_limiter::KeyHash;

use crate::address::{PrefixBits, prefix};
use crate::admission::KeySeed;

pub use connections::{
    ConnectionCaps, ConnectionLimitExceeded, ConnectionLimiter, ConnectionTallies,
};
pub use delay_queue::DelayedRequests;
pub use open_files::{OpenFiles, OwnFiles};
pub use origin_requests::{
    FileShares, OriginRequests, RequestCap, RequestCaps, RequestPermit, RequestTallies,
};
pub use unread::{UnreadAnswers, UnreadCap, UnreadPermit, UnreadTallies};

/// Returns the key by which this `kind` of thing is counted of the client at `address`: an address of IPv4, a /64 of IPv6.
fn client_key(kind: &[u8], address: IpAddr, seed: &KeySeed) -> KeyHash {
    let network = prefix(address, PrefixBits::default());
    seed.hash_parts([kind, network.as_bytes()].into_iter())
}
