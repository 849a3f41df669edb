//! Owns every hard cap of the process: the resources that a client or an origin can grow, their maximum, and the policy at the
//! maximum.
//!
//! Each constant names its unit, the reason for its size, and the policy at the bound. Caps that an operator may set are in the
//! configuration; these are the ones that no operator needs to change.

use std::ops::RangeInclusive;
use std::time::Duration;

/// Elements of a forwarded chain that are read, from the right.
///
/// Real chains have fewer than ten hops; 64 leaves room and keeps the walk below a few microseconds. At the bound the walk ends,
/// and the client is the last hop reached.
pub const FORWARDED_ELEMENTS: usize = 64;

/// Bytes of a forwarded chain that are read, from the right.
///
/// 64 elements of 128 bytes: a `Forwarded` element with `for`, `by`, `host` and `proto` is about 100 bytes. At the bound the
/// walk ends, and the client is the last hop reached.
pub const FORWARDED_BYTES: usize = 8 * 1024;

/// Bytes of one node name in a forwarded chain, with brackets and port.
///
/// The longest address, `[` 45 `]:65535`, has 53. A longer one is malformed and ends the walk.
pub const FORWARDED_NODE_BYTES: usize = 64;

/// Bytes of all readings of one path together, and of the paths from which they derive.
///
/// An unusual path of the longest target that is accepted by default (8 KiB) has room for 15. Each costs a look-up, so an
/// artificial path with many takes about a millisecond at most; one with more is answered with 400.
pub const PATH_READING_BYTES: usize = 128 * 1024;

/// Segments of a path pattern, which is the maximum depth of the trie of routes.
///
/// It bounds the recursion of a look-up. The deepest public APIs use about 15. A request may have more segments: only tails
/// match these. A pattern with more keeps its first 128 and matches anything after them, so that no limit gets lost.
pub const PATH_SEGMENTS: usize = 128;

/// Bytes that one regular expression over paths may compile to.
///
/// `^/v[0-9]+/otp$` takes one kilobyte. It bounds the states that a path can be matched against where no automaton fits the
/// cache. A larger one is rejected when the configuration is read.
pub const PATH_REGEX_BYTES: usize = 64 * 1024;

/// Bytes that an expression over paths may compile to where a template uses its groups, for which it is compiled a second time.
/// With groups it takes several times as much. A larger one is rejected when the configuration is read.
pub const PATH_GROUPS_BYTES: usize = 8 * PATH_REGEX_BYTES;

/// Routes whose path is a regular expression. More are rejected when the configuration is read: their automaton would no longer
/// fit a cache, and patterns serve thousands of paths better.
pub const PATH_REGEXES: usize = 1000;

/// Bytes of a path, in normal form, where any route has a regular expression.
///
/// Matching costs path × states at worst. Longer paths are unknown to browsers and origins (8 KiB request lines are the default of
/// nginx and Apache); one is answered with 431.
pub const PATH_REGEX_PATH: usize = 8 * 1024;

/// Address blocks of one list file.
///
/// The largest published lists have a million. At most 10 bytes each of IPv4 and 34 of IPv6 are kept; while a file is read, its
/// text and 18 bytes a block too. A longer file is refused, and the list before it stays.
pub const LIST_BLOCKS: usize = 4 * 1024 * 1024;

/// Lists that `[client]` or a route can allow, and block: each costs a request a search. More are refused when the configuration is read.
pub const LIST_USES: usize = 8;

/// Bytes of a host without its port.
///
/// RFC 1035 §2.3.4 gives names 255 bytes. A longer one is malformed: the request is answered with 400.
pub const HOST_BYTES: usize = 255;

/// Bytes of a value that a key counts by.
///
/// A cookie has at most 4 KiB, a token in a header mostly less. Only the beginning of a longer value counts, so that bytes after
/// it do not give a client a fresh counter.
pub const KEY_VALUE_BYTES: usize = 8 * 1024;

/// Bytes of a body that are read for keys: the maximum of `max_key_body_bytes`.
///
/// Pingora's buffer for retries has 64 KiB, and a frame of HTTP/2 brings up to 16 KiB more than requested.
pub const BODY_KEY_BYTES: usize = 32 * 1024;

/// Bytes of a telephone number, as it is written in a request.
///
/// E.164 has 15 digits, of which the widest take four bytes each, and people write marks between them. A longer text is no number.
pub const TELEPHONE_BYTES: usize = 256;

/// Steps of a JSON pointer in a key, which is how deep a parser may recurse along it. A pointer with more is an error.
pub const POINTER_STEPS: usize = 16;

/// Bytes of a token, RFC 7519. A longer one is not verified.
pub const TOKEN_BYTES: usize = 8 * 1024;

/// Keys of a JWKS: those in use and the next. A file with more is refused.
pub const TOKEN_KEYS: usize = 32;

/// Bytes of a request body that are read after a rejection so that the connection stays usable. A larger body is left unread and
/// the connection closed: reading a 10 MB upload only to reject it would make a rejection expensive.
pub const DRAIN_BYTES: usize = 16 * 1024;

/// Time for which a rejection waits for those bytes: enough for a body that was sent together with its head, too little to be of
/// use to a slow sender. Then the connection is closed after the answer.
pub const DRAIN_TIME: Duration = Duration::from_millis(20);

/// Bytes that are discarded after the answer before the connection closes; then it is reset.
pub const LINGER_BYTES: usize = 256 * 1024;

/// Time for which a closing connection discards them; then it is reset.
pub const LINGER_TIME: Duration = Duration::from_millis(500);

/// Idle connections to origins kept in all; those beyond it are closed.
pub const ORIGIN_IDLE_CONNECTIONS: usize = 4096;

/// Bytes of the head of an origin's response. A longer one ends the attempt with 502.
pub const RESPONSE_HEAD: usize = 1_048_575;

/// Fields of the head of an origin's response where `max_response_fields` is not set. More end the attempt with 502.
pub const RESPONSE_FIELDS: usize = 256;

/// Bytes of a request's body that are kept for another attempt. A longer body is sent once.
pub const REPLAY_BYTES: usize = 64 * 1024;

/// Servers of one origin, those of names included.
///
/// A pick walks their states at worst, and each has series of metrics. More are rejected when the configuration is read;
/// addresses that a name gets later are left out beyond it, with a warning.
/// what a name says later, what is over is left out, with a warning.
pub const POOL_SERVERS: usize = 512;

/// Tries of one request at its origin, the first included: the most that an origin's `retries` can ask for.
pub const MAX_TRIES: u8 = 6;

/// Connections of clients at the same time where `max_connections` is not set, as far as half of the files that may be open are more.
///
/// A connection that idles takes some kilobytes, so these fit beside the counters into a small machine. At the bound further ones are
/// closed at once.
pub const DEFAULT_CONNECTIONS: u32 = 128 * 1024;

/// Passes of one request through this gateway: a second is two of its listeners in a row, a third is a loop, answered with 508.
pub const OWN_PASSES: usize = 2;

/// Passes of one request through all gateways together: more tiers than exist in practice. Then it is answered with 508.
pub const ALL_PASSES: usize = 8;

/// Lines per minute about untrusted clients in the process log: enough to see what happens, too few to fill a disk. The omitted
/// ones are counted, and reported with the next.
pub const NOTICES: u32 = 10;

/// Seconds between two lines about clients that take more than their share of one limit's slots: a flood lasts for minutes.
pub const SHARE_NEWS_SECONDS: u64 = 60;

/// Descriptors that are not for connections, with one listener: its own, log, store, and a reload that opens files beside those in use.
pub const OTHER_FILES: u64 = 128;

/// Descriptors that a thread of requests has for itself, with one listener: what it waits with, and its socket.
pub const FILES_OF_THREAD: u64 = 8;

/// Descriptors that a further listener takes: its socket, and a copy of that.
pub const FILES_OF_LISTENER: u64 = 2;

/// Descriptors that each thread of requests takes for a further listener: the framework gives every listener threads of its own.
pub const FILES_OF_LISTENER_THREAD: u64 = 4;

/// Descriptors without which the process does not start, beside those of its threads, its further listeners and its counters: standard
/// streams, one listener, log, watches of files, and some connections. With fewer it says so, and ends.
pub const FEWEST_FILES: u64 = 64;

/// Requests of one client on their way to origins where `max_origin_requests_per_client` is not set, as far as a quarter of all is more.
///
/// Each may take a port towards an origin, of which there are some 28,000 for each address of a server: so one client takes a sixteenth of
/// what one server gets at most ([`SERVER_REQUESTS`]). What they hold of answers that the client does not read has a bound of its own,
/// `max_unread_bytes`.
pub const REQUESTS_OF_CLIENT: u32 = 1024;

/// Bytes of an answer that the framework may hold while its client does not read: pieces of 64 KiB, four in a batch that is being written,
/// as many in the pipe behind it, one that waits for the pipe and one that is read into. Measured: 540 to 570 KiB over HTTP/2, 780 to
/// 910 KiB over HTTP/1, of which the overhead is a part.
pub const ANSWER_PIPE: u64 = 832 * 1024;

/// Bytes that an answer holds whatever its length: the buffer for what its origin sends, and what the request takes.
pub const ANSWER_OVERHEAD: u64 = 96 * 1024;

/// Bytes of an announced body that take no room among unread answers: the kernel takes them mostly at once.
pub const SMALL_ANSWER: u64 = 16 * 1024;

/// Bytes of one piece of an answer of unknown length that its client does not take at once; so many take room among unread answers.
pub const UNTAKEN_PIECE: usize = 8 * 1024;

/// Bytes that may wait for clients where the system does not say how much memory there is, and the configuration neither.
pub const UNREAD_WITHOUT_MEMORY: u64 = 1 << 30;

/// Bytes of bodies that may be held for keys in the same case.
pub const KEY_BODIES_WITHOUT_MEMORY: u64 = 256 << 20;

/// Bytes of bodies that may be kept for another attempt in the same case.
pub const REPLAYS_WITHOUT_MEMORY: u64 = 256 << 20;

/// Requests that one server gets at the same time where its origin has no `circuit_breaker`: with connections that idle, or that were just
/// closed, they fit into the ports that Linux has towards one address, 32,768 to 60,999. At the bound a request is answered with 503.
/// Over HTTP/2, where a connection carries [`ORIGIN_STREAMS`], it is so many times more.
pub const SERVER_REQUESTS: u32 = 16 * 1024;

/// Parts of the table of clients' accounts, each under a lock of its own: more than threads of requests, so that connections that begin or
/// end at the same time rarely wait for each other.
pub const ACCOUNT_SHARDS: usize = 64;

/// Streams of HTTP/2 that clients may have open at the same time where `max_http2_streams` is not set. Each is a task with the state of its
/// request, some 12 KB measured, whether or not the request is on its way to an origin.
pub const CLIENT_STREAMS: u32 = 64 * 1024;

/// The part of these streams that one client may have where `max_http2_streams_per_client` is not set: a sixteenth, or those of one
/// connection if they are more. Offices and mobile networks have many people behind one address, each with a few streams.
pub const STREAMS_OF_CLIENT: u32 = 16;

/// Fields that `Connection` of a request may name. Each is looked for among all others; a request that names more is answered with 400.
pub const NOMINATED_FIELDS: usize = 8;

/// Bytes of a chunked request body that carry nothing, sizes, extensions and line ends, beyond 16 a chunk and twice its data. More is
/// a flood of tiny chunks or long extensions; the request is answered with 400.
pub const CHUNK_OVERHEAD: usize = 16 * 1024;

/// Bytes of the trailer of a chunked request body, which is not forwarded. More is answered with 400.
pub const TRAILER_BYTES: usize = 8 * 1024;

/// Bytes asked for in one read of a head: most heads fit. A larger one takes several reads, up to the rules' `max_header_bytes`.
pub const HEAD_READ: usize = 4 * 1024;

/// Bytes asked for in one read of a request's body.
pub const BODY_READ: usize = 16 * 1024;

/// Bytes of the gateway's own answers to pipelined requests that are gathered for one write. Then the connection writes first.
pub const QUEUED_ANSWERS: usize = 8 * 1024;

/// Time for which the end of the process waits for the access log: a disk that hangs may not delay a shutdown. Then the lines
/// are lost.
pub const LAST_LINES: Duration = Duration::from_secs(2);

/// Time for which a process that drains leaves idle connections open: a request that is on its way to one is read and answered,
/// for clients as far away as a second. Then the process ends.
pub const DRAIN_IDLE: Duration = Duration::from_secs(1);

/// Interval at which a process that drains, or follows an old process, checks its progress.
pub const DRAIN_LOOKS: Duration = Duration::from_millis(10);

/// Time for which a handover waits for the other process. The tables of ten thousand limits are opened in a few seconds. At the
/// bound the old process continues, and the new one ends.
pub const UPGRADE_PATIENCE: Duration = Duration::from_secs(60);

/// Bytes of a line of the handover: a path, `PATH_MAX` of Linux, has 4096. A longer one ends the connection.
pub const UPGRADE_LINE: usize = 8 * 1024;

/// Descriptors of one handover that were received before their lines were read: more than lines can have come. It ends the
/// connection.
pub const UPGRADE_DESCRIPTORS: usize = 1024;

/// Connections at the upgrade socket at the same time: one with a new process, one with a command, and some that only probe.
/// Others are closed at once.
pub const UPGRADE_CONVERSATIONS: usize = 8;

/// Maximum time that Pingora would wait for a drain. The process ends earlier, at the latest after `shutdown_timeout`.
pub const LONGEST_DRAIN: Duration = Duration::from_secs(24 * 60 * 60);

/// Keys in the sample of a limit's largest uses, of which there are two for each table: some 200 KB each when full.
///
/// The 99.9th percentile of so many is that of four keys. Where a limit has more keys, a fair sample of them is kept.
pub const USAGE_KEYS: usize = 4096;

/// Bytes of the samples of uses of all limits: full ones of 163 tables. With more tables each sample has fewer keys.
pub const USAGE_BYTES: u64 = 64 << 20;

/// Time after which a sample of uses begins anew; it is shown for as long again, so the uses of the last one to two days are shown.
pub const USAGE_GENERATION: Duration = Duration::from_secs(24 * 60 * 60);

/// Pause between two walks of one limit for its sample of uses: a quarter of its shortest window within these bounds. A page that shows
/// them is a minute old at most.
pub const USAGE_WALK_GAP: RangeInclusive<Duration> =
    Duration::from_secs(5)..=Duration::from_secs(60);

/// Durations of a walk for which the sampler of uses pauses after it: walks take less than a hundredth of one core.
pub const USAGE_WALK_PAUSE: u32 = 100;

/// Largest use, in units, that `/limits/NAME/usage` shows exactly; larger ones are joined in steps of 3 %.
pub const USAGE_EXACT: u32 = 128;

/// Steps between one power of two and the next in which uses beyond [`USAGE_EXACT`] are joined.
pub const USAGE_STEPS: u32 = 32;

/// Keys that `/limits/NAME/top` shows at most; a request for more is rejected. Each is some 300 bytes of JSON.
pub const TOP_KEYS: usize = 1000;

/// Bytes of one body that the configuration defines for rejections: a rejection must cost little, and the answers to repeated
/// ones are collected in a buffer of every connection. More is rejected when the configuration is read.
pub const REFUSAL_BODY: usize = 16 * 1024;

/// Fields that the configuration adds to a rejection. More are rejected when the configuration is read.
pub const REFUSAL_FIELDS: usize = 16;

/// Edits of fields on one route, those of every route included. Each costs a request a look-up. More are refused when the configuration is
/// read.
pub const FIELD_EDITS: usize = 64;

/// Bytes of a path and its query that a template makes for the origin, or of a redirect: a value has its length in the request,
/// and may be used repeatedly. A longer one is answered with 400.
pub const SHAPED_TARGET: usize = 64 * 1024;

/// Bytes of one page for failures: each is held in memory once, and sent as often as something fails. A larger one is refused when the
/// configuration is read.
pub const ERROR_PAGE: usize = 256 * 1024;

/// Bytes of an origin's own error that are dropped so that its connection stays usable, where a client of HTTP/2 has a page
/// instead. Beyond them the connection or stream is closed.
pub const REPLACED_BYTES: usize = 64 * 1024;

/// Bytes of `tracestate` that go on to the origin, W3C Trace Context §3.3.1.5: at least so many should. A longer one is left out.
pub const TRACE_STATE: usize = 512;

/// Media ranges of `Accept` that are read: browsers send about seven. Those after them are ignored.
pub const ACCEPT_RANGES: usize = 32;

/// Bytes of one database of countries, cities or networks, which is kept in memory whole. While a new one is read, it and the one in force
/// are there. A larger file is refused.
pub const GEO_DATABASE_BYTES: usize = 1024 * 1024 * 1024;

/// Databases of a configuration: each costs a request a search. More are refused when the configuration is read.
pub const GEO_DATABASES: usize = 8;

/// Countries, cities or networks that a route or a list can name: each field is a binary search. More are refused when it is read.
pub const GEO_VALUES: usize = 4096;

/// Bytes of a file of overrides: a million rows have about 40 MB. A larger file is refused when the configuration is read.
pub const OVERRIDE_BYTES: usize = 256 * 1024 * 1024;

/// Rows of a file of overrides. Each takes about 50 bytes of memory. More are refused when the configuration is read.
pub const OVERRIDE_ROWS: usize = 2_000_000;

/// Distinct rates in a file of overrides: tiers are plans that people have names for. More are refused when the configuration is read.
pub const OVERRIDE_TIERS: usize = 64;

/// Requests of the process that leaky buckets delay at the same time. Each takes a connection and the state of its request;
/// queues bound them by key, this one in all. At the bound a request that would have to wait is answered with 503, and nothing
/// is charged.
pub const WAITERS: usize = 4096;

/// Delayed requests of one limit: half of all, so that a limit by which many wait leaves room for others. At the bound a request
/// is answered with 503, and nothing is charged.
pub const WAITERS_OF_LIMIT: usize = WAITERS / 2;

/// Delayed requests of one client, an address or an IPv6 /64: more than an office behind one address has, and it takes eight
/// such clients to use all. At the bound a request is answered with 503, and nothing is charged.
pub const WAITERS_OF_CLIENT: usize = WAITERS / 8;

/// Interval at which a delayed request checks whether its HTTP/1 client is still connected: soon enough to free the place for
/// another, and with the maximum of waiters it makes 16,000 checks a second, a system call each.
pub const WAITER_LOOKS: Duration = Duration::from_millis(250);

/// Keys whose charges wait to be told to the store, merged by key. Each takes some 300 bytes. At the bound further keys are counted by
/// this node alone, and `sluicegate_store_unsent_dropped_total` counts their charges.
pub const UNSENT_KEYS: usize = 65_536;

/// Calls that settle a charge in the store, under way in the background. A store that is away answers each within its timeout, so a
/// thousand requests a second have twenty. At the bound a charge stays as it was made, which errs towards refusing.
pub const STORE_SETTLEMENTS: usize = 4096;

/// Keys of strict limits of which a gateway remembers what the store said last, some 300 bytes each, to tell it again to a store that has
/// lost it. Further ones are not told again.
pub const STORE_REMEMBERED: usize = 65_536;

/// Keys of shared limits that operators changed at other gateways, and of which a gateway has had no request since, some 150 bytes each;
/// and as many that the store keeps for gateways to read. The oldest go first.
pub const STORE_CHANGES: usize = 1024;

/// Keys of limits with `store = "shared"` of which the store is yet to be told something.
///
/// 64 shards of 1,792, which fill a table of 2,048 places to seven eighths: with 85 bytes a key at most 11 MB. A sync empties it, so it
/// takes 450,000 new keys a second at the default `sync_interval` to fill it. At the bound a sync begins at once; charges of further keys
/// are counted by this node alone meanwhile, and that is counted.
pub const SYNC_KEYS: usize = 64 * 1792;

/// Proofs for an ACME server that are shown at a time: one order is under way, and has one for each of its names. At the bound the
/// order fails.
pub const ACME_ANSWERS: usize = 128;

/// Names of one certificate. Let's Encrypt takes a hundred. More are refused when the configuration is read.
pub const ACME_NAMES: usize = 100;

/// Bytes of an answer of an ACME server, or of a file that keeps one: a chain of four certificates has about 8 KiB. A longer one is cut
/// off, and the order fails.
pub const ACME_ANSWER: usize = 1024 * 1024;

/// Maximum time of one call to an ACME server, the connection included. Then the order fails, and is tried again later.
pub const ACME_CALL: Duration = Duration::from_secs(30);

/// Maximum time of an order from its first call to the certificate; validation from several places of the world takes some ten
/// seconds. Then it fails, and is tried again later.
pub const ACME_ORDER: Duration = Duration::from_secs(300);

/// Maximum time of a TLS handshake, where `client_read_timeout` is not less. It is two or three messages each way: ten seconds
/// are enough for a phone on a train. Then the connection is closed.
pub const HANDSHAKE_TIME: Duration = Duration::from_secs(10);

/// TLS handshakes under way at once. Each takes some 40 KiB while it lasts and a fraction of a millisecond of arithmetic, so this many
/// are two seconds of work for two cores. At the bound a connection is closed at once, which is counted.
pub const HANDSHAKES: usize = 8192;

/// Bytes of a client's first message of TLS that a fingerprint is made of: with keys that resist quantum computers it has about 2 KiB. A
/// longer one has no fingerprint.
pub const HELLO: usize = 16 * 1024;

/// Sessions of TLS that are stored for clients without tickets, by listener: 200 bytes and the client's certificate each. At the
/// bound the oldest is removed, and its client makes a full handshake.
pub const TLS_SESSIONS: usize = 4096;

/// Bytes of a header of the PROXY protocol, version 2. The addresses take at most 216; what is behind them (authority, TLS, SSL names) has
/// always fitted. Version 1 has 107 by definition. A longer one ends the connection.
pub const PROXY_HEADER: usize = 4 * 1024;

/// Bytes of the subject of a client's certificate that are logged: distinguished names rarely have 200. The rest is cut.
pub const LOGGED_SUBJECT: usize = 512;

/// Time for which the admin listener waits for the end of a requested reload.
pub const RELOAD_PATIENCE: Duration = Duration::from_secs(60);

/// Bytes of an answer of the admin listener that the command line reads: the status and the metrics of some ten thousand limits. A longer
/// one is an error.
pub const ADMIN_ANSWER: u64 = 32 * 1024 * 1024;

/// Time for which the command line waits for a connection to the admin listener.
pub const ADMIN_CONNECT: Duration = Duration::from_secs(5);

/// Keys of a limit that `sluicegate top` shows: more than a screen has lines for.
pub const TOP_SHOWN_KEYS: usize = 50;

/// Connections to the admin listener at the same time: probes, scrapes and some operators. One more is closed at once.
pub const ADMIN_CONNECTIONS: usize = 32;

/// Connections to the admin listener of one address.
pub const ADMIN_CONNECTIONS_OF_ONE: usize = 24;

/// Maximum time until the first request of such a connection arrives, and a body. Then it is closed.
pub const ADMIN_PATIENCE: Duration = Duration::from_secs(10);

/// Maximum idle time between two requests, and maximum time to read an answer: a scrape has some megabytes.
pub const ADMIN_IDLE: Duration = Duration::from_secs(60);

/// Bytes of the body of a request to the admin listener.
pub const ADMIN_BODY: usize = 4 * 1024;

/// Streams of `/events` at the same time; one more is answered with 503. Each holds one of the [`ADMIN_CONNECTIONS`].
pub const EVENT_STREAMS: usize = 8;

/// Events that wait for the slowest stream at most. A stream that is further behind loses the oldest, and is told how many.
pub const EVENTS_WAITING: usize = 16;

/// Time between two looks at the latest rejections while a stream is open.
pub const EVENTS_TICK: Duration = Duration::from_millis(250);

/// The counters are sent once in so many ticks.
pub const EVENTS_TICKS_OF_COUNTERS: u32 = 4;

/// Limits whose counters one event has, those that changed most: each is some 60 bytes.
pub const EVENTS_LIMITS: usize = 1000;

/// Rejections that streams get in one tick, the first ones.
pub const EVENTS_REJECTIONS: usize = 16;

/// Bytes of the reason of a rejection in an event; the rest is cut.
pub const EVENTS_REASON: usize = 160;

/// Time of a second in which tables of limits are sampled for streams: a fraction of a core however many limits there are. The sample of
/// one table is not interrupted.
pub const EVENTS_SAMPLING: Duration = Duration::from_millis(2);

/// Bytes of the state of origins and store up to which it is sent each second in which it changes; a larger one each tenth second.
pub const EVENTS_LARGE_STATE: usize = 64 * 1024;

/// Limits that one look-up of values shows; the others are counted.
pub const LIMITS_OF_VALUES: usize = 1000;

/// Bytes of each value of a key that an access line has; the rest is cut.
pub const LOGGED_KEY_VALUE: usize = 128;

/// Request fields that access lines may show.
pub const LOGGED_FIELDS: usize = 8;

/// Bytes of each request field that an access line has; the rest is cut. User agents rarely have 300.
pub const LOGGED_FIELD: usize = 512;

/// Bytes of lines that a stripe of threads keeps for the access log, of 16: 100,000 lines a second on one thread for 100 ms. A line that
/// does not fit is dropped and counted.
pub const ACCESS_LOG_STRIPE: usize = 4 * 1024 * 1024;

/// Places in which keys have their one line a second, eight bytes each; a power of two. Keys that share a place share the line.
pub const LOG_PLACES: usize = 8192;

/// Bytes of the reason of a failure that are kept, for the access log, the process log and `/origins`; the rest is cut.
pub const FAILURE_REASON: usize = 256;

/// URLs whose last answer could not be stored, which are then not looked up: 16 bytes of hash each, and twice, for requests with
/// and without credentials. At the bound the one that was marked longest ago is looked up again.
pub const UNSTORABLE_URLS: usize = 16 * 4096;

/// Maximum time for which one request may fetch for all that wait. Then another may try: a client that reads slowly, or an
/// origin that hangs, delays the others no longer than this, and an origin gets one request of a URL in this time.
pub const FILL_AGE: Duration = Duration::from_secs(5);

/// Maximum time for which a request waits for others that fetch the same response, in all. Then it goes to the origin itself.
pub const FILL_PATIENCE: Duration = Duration::from_secs(10);

/// Stored answers of one URL: its variants under `Vary` on all routes. At the bound the oldest makes room: a client that varies a field
/// fills no more than this, and the search among them stays short.
pub const URL_VARIANTS: usize = 64;

/// Fields that an answer may differ by. One that names more is not stored.
pub const VARY_FIELDS: usize = 16;

/// Bytes of a stored body that are handed to the connection at once, so that the time allowed for one write is that of a proxied answer.
pub const STORED_PIECE: usize = 64 * 1024;

/// Ranges of one request that are cut from a stored answer; one that asks for more gets the whole.
pub const RANGES: usize = 32;

/// Streams that one connection of HTTP/2 to an origin carries at the same time, unless the origin takes fewer; beyond that there is
/// another connection. What most servers take by default.
pub const ORIGIN_STREAMS: usize = 100;

/// Bytes that an origin may send ahead on one stream of HTTP/2, which is the memory that a client that does not read takes. It
/// allows 25 MB a second at a round-trip time of 10 ms.
pub const ORIGIN_STREAM_WINDOW: u32 = 256 * 1024;

/// Bytes that an origin may send ahead on one connection: enough for all its streams, so that clients that do not read delay no
/// others.
pub const ORIGIN_CONNECTION_WINDOW: u32 = ORIGIN_STREAMS as u32 * ORIGIN_STREAM_WINDOW;

/// Bytes of a request body that a client may send ahead on one stream of HTTP/2, while the origin does not take them.
pub const CLIENT_STREAM_WINDOW: u32 = 256 * 1024;

/// Bytes that a client may send ahead on one connection. Streams share it: a client that uploads to an origin that does not read
/// delays its own other uploads, and no other client's.
pub const CLIENT_CONNECTION_WINDOW: u32 = 1024 * 1024;

/// Bytes of answers that wait unsent in the kernel for one connection of a client, up to one write of 64 KiB more.
///
/// Bytes that are sent and not yet acknowledged do not count, so a long path is filled all the same. A gigabit link sends these
/// in a millisecond.
pub const CLIENT_UNSENT: u32 = 128 * 1024;

/// Bytes of an answer that wait in one stream of HTTP/2 for the client to read; then the origin waits too, at most
/// `client_write_timeout`.
///
/// One frame's worth. Bytes in the buffer are held for the client after its request has ended, and do not count as a request any
/// more.
pub const CLIENT_SEND_BUFFER: usize = 16 * 1024;

/// Streams of one connection that were reset and are remembered, by either side; with more resets by the client that were not
/// yet processed, the connection ends.
pub const CLIENT_RESET_STREAMS: usize = 32;

/// Streams of one connection that the gateway had to reset because they break the protocol; then the connection ends.
pub const CLIENT_BROKEN_STREAMS: usize = 128;

/// Requests of one HTTP/2 connection that the client cancelled before they were answered. With so many, and if they are more
/// than half of all, the connection ends: each of them costs an origin a request.
pub const CLIENT_GIVEN_UP: u32 = 200;

/// Bytes of spans that a stripe of threads keeps while the collector takes none, of 16: 8 MiB in all, some 10,000 requests. What does not
/// fit is left out and counted.
pub const OTLP_STRIPE: usize = 512 * 1024;

/// Attributes of the gateway that an operator may name, which go with each call. More are refused when the configuration is read.
pub const OTLP_ATTRIBUTES: usize = 64;

/// Bytes of such an attribute.
pub const OTLP_TEXT: usize = 1024;

/// Time for which the end of the process waits for a collector to receive the last spans.
pub const LAST_SPANS: Duration = Duration::from_secs(1);

/// Peers that send `X-Forwarded-For`, are not trusted, and are named in the process log: 17 bytes each. Balancers in front of
/// one gateway are a few; beyond the bound only the metric counts more.
pub const UNTRUSTED_PEERS: usize = 32;

/// Bytes of a configuration that is read from the standard input.
pub const CONFIGURATION_BYTES: u64 = 64 * 1024 * 1024;

/// Files that one configuration may include.
pub const INCLUDED_FILES: usize = 1_000;

/// Maximum time of all look-ups of a configuration's names while it is read. Names without an answer by then are looked up again
/// in the background.
pub const RESOLVE_PATIENCE: Duration = Duration::from_secs(5);

/// Minimum time of the look-up of each name: one that is answered from a cache is not lost because of others.
pub const RESOLVE_LEAST: Duration = Duration::from_millis(100);

/// The pause between two look-ups of a name that has no address, unless `resolve_every` is shorter.
pub const RESOLVE_AGAIN: Duration = Duration::from_secs(1);

/// Bytes of a number in the body of a response that says what a request cost: 20 digits and an exponent. A longer one is malformed.
pub const COST_NUMBER_BYTES: usize = 32;
