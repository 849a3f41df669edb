//! Declares the keys of `[server]` that bound what a client may ask of the gateway before a limit decides.

use std::time::Duration;

use sluicegate_config_derive::Table;
use sluicegate_limiter::Concurrency;

use crate::declaration::{ChoiceOf, DurationIn, NUMBER, ReadBy, SizeIn};
use crate::field::KeyField;

/// Longest wait for a head: an hour. Nobody types one.
const LONGEST_HEAD: Duration = Duration::from_secs(3600);
/// Largest rate that can be asked for: 1 MiB a second. More would cut honest uploads from most homes.
const LARGEST_RATE: u64 = 1 << 20;
/// Most bytes that may be held for clients: 1 TiB, more than machines have.
const MOST_UNREAD: u64 = 1 << 40;

/// The keys of `[server]` that stand before the limits.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
pub struct DefenceRules {
    /// Maximum number of client connections, 1 to 1048575. For a further one a connection is closed that waits for a request, of the client
    /// that holds most; without one it is closed at once, without a response. Default: half of the open-file limit,
    /// since each connection may need another one to an origin, and at most 131072. The soft limit of open files is raised to the hard
    /// limit.
    #[key(example = "100000", reader = ReadBy(concurrency, NUMBER))]
    pub max_connections: Option<Concurrency>,
    /// Maximum number of connections of one client: of an address, or of an IPv6 /64; of a /56 twice, of a /48 four times as many. Trusted
    /// proxies are exempt. Default: as many as are left, half of max_connections if the client is alone.
    #[key(example = "1000", reader = ReadBy(concurrency, NUMBER))]
    pub max_connections_per_client: Option<Concurrency>,
    /// Maximum number of TLS handshakes in progress, 1 to 1048575, from the first byte of the client; a further connection is closed at
    /// once. One client can have at most as many as are left, half of them if it is alone. Default: 8192.
    #[key(example = "8192", reader = ReadBy(concurrency, NUMBER))]
    pub max_tls_handshakes: Option<Concurrency>,
    /// Maximum number of requests in flight to origins, 1 to 1048575. Each may need a file descriptor, and two where the origin has
    /// max_connections. A further one is answered with 503. Default: three quarters of the open-file limit that max_connections leaves; the
    /// last quarter is for idle connections.
    #[key(example = "100000", reader = ReadBy(concurrency, NUMBER))]
    pub max_origin_requests: Option<Concurrency>,
    /// Maximum number of requests in flight to origins of one client; a trusted proxy that names no client is exempt. Default: a quarter of
    /// max_origin_requests, at most 1024.
    #[key(example = "1000", reader = ReadBy(concurrency, NUMBER))]
    pub max_origin_requests_per_client: Option<Concurrency>,
    /// Maximum number of requests in flight to one origin, counted as those of max_origin_requests: an origin that is slow leaves room for
    /// the others. Default: three quarters of max_origin_requests; with one origin all of them.
    #[key(example = "75000", reader = ReadBy(concurrency, NUMBER))]
    pub max_origin_requests_per_origin: Option<Concurrency>,
    /// Maximum number of open HTTP/2 streams of all clients, 1 to 1048575; a further one is reset with REFUSED_STREAM, and its client may
    /// send the request again. A new number applies to new connections. Default: 65536.
    #[key(example = "100000", reader = ReadBy(concurrency, NUMBER))]
    pub max_http2_streams: Option<Concurrency>,
    /// Maximum number of open HTTP/2 streams of one client. Default: a sixteenth of max_http2_streams, at least max_streams in
    /// `[server.http2]`.
    #[key(example = "1000", reader = ReadBy(concurrency, NUMBER))]
    pub max_http2_streams_per_client: Option<Concurrency>,
    /// Maximum number of response bytes buffered for clients that have not read them yet, for all clients, 0B to 1TiB. A request whose
    /// response finds no room gets 503, or is cut off where its length was not announced; one whose encoder finds none is sent
    /// uncompressed. One client can use at most as much as is left, half of it if it is alone. Default: a quarter of the memory available
    /// to the process.
    #[key(example = "\"1GiB\"", reader = SizeIn(0..=MOST_UNREAD))]
    pub max_unread_bytes: Option<u64>,
    /// Maximum number of bytes of request bodies that are buffered because a key needs them, counted twice and with the buffer that they
    /// are read into, at most 16 KiB, for all clients, 0B to 1TiB; a request that finds no room gets 503. One client can use at most as
    /// much as is left. Default: a sixteenth of the memory available to the process.
    #[key(example = "\"256MiB\"", reader = SizeIn(0..=MOST_UNREAD))]
    pub max_key_bodies_bytes: Option<u64>,
    /// Maximum number of bytes of request bodies that are kept for a retry at another server, at most 64 KiB each, for all clients, 0B to
    /// 1TiB; a body that finds no room is sent once and not retried. One client can use at most as much as is left. Default: a sixteenth of
    /// the memory available to the process.
    #[key(example = "\"256MiB\"", reader = SizeIn(0..=MOST_UNREAD))]
    pub max_replay_bytes: Option<u64>,
    /// Maximum memory for what clients have sent and the gateway cannot pass on yet, for all clients, 0B to 1TiB: incomplete request heads,
    /// heads of more than 4 KiB until their requests end, incomplete HTTP/2 frames, and the receive windows of HTTP/2 request bodies, at
    /// most 1 MiB a connection. Beyond it a head is answered with 503, a stream is reset with REFUSED_STREAM, and a connection with an
    /// incomplete frame is closed. One client can use as much as is left, as of max_unread_bytes. Default: a sixteenth of the memory that
    /// the process may use.
    #[key(example = "\"256MiB\"", reader = SizeIn(0..=MOST_UNREAD))]
    pub max_received_bytes: Option<u64>,
    /// The maximum duration of the head of a request from its first byte to its last; then the client is answered with 408. Also the time
    /// that a new connection has for its first byte. 1ms to 1h.
    #[key(
        example = "\"10s\"",
        default = Duration::from_secs(10),
        reader = DurationIn(Duration::from_millis(1)..=LONGEST_HEAD)
    )]
    pub client_header_timeout: Duration,
    /// Minimum rate of a request body, in bytes a second; a slower upload ends with 408. 0B to 1MiB; 0B disables it.
    #[key(example = "\"240B\"", default = 240, reader = SizeIn(0..=LARGEST_RATE))]
    pub client_min_rate: u64,
    /// Minimum rate at which a client reads a response, in bytes a second; a slower connection is closed. Over HTTP/2 it is the rate of the
    /// connection, and each stream has client_write_timeout for a piece of at most 64 KiB, as over HTTP/3, which has that alone. 0B to
    /// 1MiB; 0B disables it.
    #[key(example = "\"240B\"", default = 240, reader = SizeIn(0..=LARGEST_RATE))]
    pub client_min_read_rate: u64,
    /// Maximum length of a request target, path and query together; a longer one is answered with 414. 64B to 1MiB.
    #[key(example = "\"8KiB\"", default = 8 << 10, reader = SizeIn(64..=1 << 20))]
    pub max_uri_bytes: usize,
    /// Treatment of fields that an origin may use instead of the path or method of the request (X-Original-URL, X-Rewrite-URL,
    /// X-HTTP-Method-Override and similar), and that would bypass routes and limits. "strip" removes them unless a trusted proxy writes
    /// them and `[client] trusted_headers` lists them; "pass" forwards them, for origins that ignore them.
    #[key(
        example = "\"strip\"",
        default = OverrideFields::Strip,
        reader = ChoiceOf(
            &[("strip", OverrideFields::Strip), ("pass", OverrideFields::Pass)],
            NEITHER,
            "write \"strip\", or \"pass\" where origins ignore such fields or are asked by them"
        )
    )]
    pub path_override_headers: OverrideFields,
    /// Treatment of fields whose names contain characters other than letters, digits and dashes: PHP, WSGI and Rack servers read X_Api_Key
    /// as X-Api-Key. "strip" removes them, as nginx does; "pass" forwards them, except other spellings of names that this file or the
    /// gateway uses. A name that is written with underscores in this file passes as it is written.
    #[key(
        example = "\"strip\"",
        default = UnderscoreFields::Strip,
        reader = ChoiceOf(
            &[("strip", UnderscoreFields::Strip), ("pass", UnderscoreFields::Pass)],
            NEITHER,
            "write \"strip\", or \"pass\" where clients send fields with such names to origins that want them"
        )
    )]
    pub underscores: UnderscoreFields,
}

const NEITHER: &str = "{} is neither \"strip\" nor \"pass\"";

/// The treatment of fields such as `X-Original-URL` and `X-HTTP-Method-Override` on their way to an origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverrideFields {
    /// They are removed, unless a trusted proxy sends those that it may write.
    Strip,
    /// They are forwarded: the origin ignores them, or they are what it is asked by.
    Pass,
}

/// The treatment of fields whose names have other characters than letters, digits and dashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnderscoreFields {
    /// They are removed, but for those that the configuration names.
    Strip,
    /// They are forwarded, unless CGI takes the name for one that matters.
    Pass,
}

fn concurrency(field: &KeyField<'_>) -> Option<Concurrency> {
    let count = field.integer(1..=Concurrency::MAX.get().into())?;
    Concurrency::new(u32::try_from(count).ok()?).ok()
}
