//! Caps of origin responses, and of requests in flight to origins.

use std::time::Duration;

/// Idle connections to origins kept in all; those beyond it are closed.
pub const ORIGIN_IDLE_CONNECTIONS: usize = 4096;

/// Bytes of the head of an origin's response. A longer one ends the attempt with 502.
pub const RESPONSE_HEAD: usize = 1_048_575;

/// Fields of the head of an origin's response where `max_response_fields` is not set. More end the attempt with 502.
pub const RESPONSE_FIELDS: usize = 256;

/// Interim heads (100 to 199) that a server may send before the final head of one response. One more ends the attempt with 502.
///
/// A page has one or two of 103. A server of WebDAV that sends 102 every ten seconds reaches the bound after five minutes.
pub const INTERIM_HEADS: usize = 32;

/// Bytes of these interim heads together, 32 more counted for each field. Early Hints with a hundred links have some 12 KiB. They may wait
/// in memory for a client that does not read. More end the attempt with 502.
pub const INTERIM_BYTES: usize = 64 * 1024;

/// Bytes of a request's body that are kept for another attempt. A longer body is sent once.
pub const REPLAY_BYTES: usize = 64 * 1024;

/// Servers of one origin, those of names included.
///
/// A pick walks their states at worst, and each has series of metrics. More are rejected when the configuration is read;
/// addresses that a name gets later are left out beyond it, with a warning.
/// what a name says later, what is over is left out, with a warning.
pub const POOL_SERVERS: usize = 512;

/// Attempts of one request at its origin, the first included: the most that an origin's `retries` can ask for.
pub const MAX_ATTEMPTS: u8 = 6;

/// Requests of one client on their way to origins where `max_origin_requests_per_client` is not set, as far as a quarter of all is more.
///
/// Each may take a port towards an origin, of which there are some 28,000 for each address of a server: so one client takes a sixteenth of
/// what one server gets at most ([`SERVER_REQUESTS`]). What they hold of answers that the client does not read has a bound of its own,
/// `max_unread_bytes`.
pub const REQUESTS_OF_CLIENT: u32 = 1024;

/// Requests that one server gets at the same time where its origin has no `circuit_breaker`: with connections that idle, or that were just
/// closed, they fit into the ports that Linux has towards one address, 32,768 to 60,999. At the bound a request is answered with 503.
/// Over HTTP/2, where a connection carries [`ORIGIN_STREAMS`], it is so many times more.
pub const SERVER_REQUESTS: u32 = 16 * 1024;

/// Streams that one connection of HTTP/2 to an origin carries at the same time, unless the origin takes fewer; beyond that there is
/// another connection. What most servers take by default.
pub const ORIGIN_STREAMS: usize = 100;

/// Bytes that an origin may at least send ahead on one stream of HTTP/2. A client that does not read takes twice as much memory, as much as
/// one read from an origin of HTTP/1.1 has: the frames as they came, and the content of which a part is on its way to the client.
pub const LEAST_STREAM_WINDOW: u32 = 32 * 1024;

/// Bytes that a remote origin may send ahead on one stream: 5 MB a second at a round-trip time of 50 ms.
pub const MOST_STREAM_WINDOW: u32 = 256 * 1024;

/// The largest `stream_window` of an origin: the windows of all [`ORIGIN_STREAMS`] of a connection fit into that of the connection, which
/// has at most 2 GiB (RFC 9113 §6.9.1). It is 2.7 Gbit a second at a round-trip time of 50 ms.
pub const LARGEST_STREAM_WINDOW: u32 = 16 * 1024 * 1024;

/// Bytes a second that the windows between these two allow a stream, a fifth of a gigabit: from 32 KiB at a round-trip time of 1.3 ms to
/// 256 KiB at 10.5 ms.
pub const ORIGIN_STREAM_RATE: u32 = 25_000_000;

/// Maximum time of all look-ups of a configuration's names while it is read. Names without an answer by then are looked up again
/// in the background.
pub const RESOLVE_PATIENCE: Duration = Duration::from_secs(5);

/// Minimum time of the look-up of each name: one that is answered from a cache is not lost because of others.
pub const RESOLVE_LEAST: Duration = Duration::from_millis(100);

/// The pause between two look-ups of a name that has no address, unless `resolve_every` is shorter.
pub const RESOLVE_AGAIN: Duration = Duration::from_secs(1);

/// Bytes of a number in the body of a response that says what a request cost: 20 digits and an exponent. A longer one is malformed.
pub const COST_NUMBER_BYTES: usize = 32;

/// Clients whose requests a server with `adaptive_concurrency` counts apart, in buckets of eight: 16 KiB a server. A client whose bucket is
/// full of others counts as one without requests, so it is let in as long as the limit allows.
pub const LIMITED_CLIENTS: usize = 2048;
