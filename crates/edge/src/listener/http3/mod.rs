//! Serves HTTP/3 at one address: the `endpoint` of each thread reads datagrams and admits connections. Each of these has a task, a
//! `driver`; `streams` owns what it shares with the tasks of its requests.
//!
//! QUIC is [`quinn_proto`], frames and fields are those of [`sluicegate_http3`]; a request is served by the code that serves a stream of
//! HTTP/2 ([`super::http2`]).
//!
//! # The client's address
//! A client is the address that completed the handshake, for the life of the connection: limits, accounts and log never see another one.
//! A datagram from elsewhere moves the packets of a connection, and anyone can forge one; so a move never changes the client. After a move
//! to another IP address that the new path has answered for, the client is asked to go on over a new connection, whose handshake proves
//! the address. A client behind NAT whose port changes notices nothing.
//! Small datagrams from elsewhere are few, since QUIC answers each with more than it has ([`foreign_datagrams`]).
//!
//! # Limits
//! Until the handshake is complete an address is only claimed, and nothing is charged to it. Handshakes have a cap of their own
//! ([`bounds::HTTP3_HANDSHAKES`]), and from a half of it on a client has to prove its address first, RFC 9000 §8.1.2. Then
//! the connection is charged as one of TCP is. The place of a handshake that fails, and the permit of a connection that ends, stay taken
//! until QUIC's memory of it goes, [`bounds::LINGER_TIME`] later at most.
//!
//! QUIC grants a client [`bounds::CLIENT_STREAM_WINDOW`] of each body as the request path takes it, and keeps
//! [`bounds::HTTP3_UNACKNOWLEDGED`] of all answers of a connection until the client has them. It keeps bytes behind a gap too, which
//! no request can take: so a connection may send [`bounds::HTTP3_UNRESERVED`] until memory is reserved for a body, and a stream whose
//! beginning does not come has the time of a head. A client that grants an answer few bytes at once gets them at a slow pace
//! ([`bounds::HTTP3_CREDIT_WAIT`]).
//!
//! # Concurrency
//! A connection runs on one thread, with its endpoint and its requests, so locks are free whenever they are taken. A thread passes on what
//! it receives for connections of another one, by their ids ([`datagram_routes`]), and what is for a process whose sockets this one has
//! taken over.

mod address;
mod connection_deadlines;
mod connection_ids;
mod connection_wait;
mod datagram_routes;
mod driver;
mod endpoint;
mod foreign_datagrams;
mod report;
mod small_credits;
mod socket;
mod stream_handle;
mod streams;
mod transport;

use std::time::{Duration, Instant};

pub use address::Http3Address;
pub use connection_ids::{QuicIdentity, ThreadPlace};
pub use datagram_routes::relay;
pub use endpoint::{Http3Endpoint, ThreadSockets};

use sluicegate_transport::timer;

/// Returns the time for the state machine of QUIC, whose timers are waited for.
fn quic_now() -> Instant {
    timer::deadline(Duration::ZERO).into_std()
}
