//! Bounds the resources of the process that clients hold: connections, handshakes, streams, requests in flight to origins, descriptors,
//! unread bytes of answers, bodies that are read for keys, kept for another attempt or sent ahead, heads that are not whole, delayed
//! requests.
//!
//! Each budget has a maximum for the whole process and a share per client, which is a number of the client's account
//! ([`ClientAccount`]). A permit takes from a budget and returns to it when it is dropped.
#![forbid(unsafe_code)]
// A test that unwraps fails where it should.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

mod client_accounts;
mod client_bytes;
mod client_streams;
mod connections;
pub mod delay_queue;
mod open_connections;
mod open_files;
mod origin_requests;
mod tally;
mod tls_handshakes;

pub use client_accounts::{ClientAccount, ClientAccounts, Resource};
pub use client_bytes::{BytesPermit, ClientBytes, NamedBytes};
pub use client_streams::{ClientStreams, StreamCaps, StreamPermit};
pub use connections::{ClientConnectionPermit, ConnectionCaps, ConnectionLimiter};
pub use delay_queue::DelayedRequests;
pub use open_connections::ReclaimedWait;
pub use open_files::{OpenFiles, OwnFiles};
pub use origin_requests::{
    FileShares, OriginRequests, OriginShare, RequestCap, RequestCaps, RequestPermit,
};
pub use tally::{BudgetCap, BudgetTallies, CapCounts};
pub use tls_handshakes::{ClientHandshake, HandshakePermit, RefusedHandshake, TlsHandshakes};
