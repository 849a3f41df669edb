//! Caps of client connections and streams: bytes, descriptors, handshakes, times.

use std::time::Duration;

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

/// Connections of clients at the same time where `max_connections` is not set, as far as half of the files that may be open are more.
///
/// A connection that idles takes some kilobytes, so these fit beside the counters into a small machine. At the bound further ones are
/// closed at once.
pub const DEFAULT_CONNECTIONS: u32 = 128 * 1024;

/// Connections that are closed for new ones, and whose threads have not closed their sockets yet. Each takes a descriptor beside those of
/// `max_connections`, out of [`OTHER_FILES`]. Beyond them new connections are closed.
pub const CLOSING_CONNECTIONS: u64 = 96;

/// Connections that are looked at to find the one that is closed for a new one: some microseconds of work. As long as there are no more,
/// the order is exact.
pub const EXAMINED_CONNECTIONS: usize = 512;

/// Parts of the table of open connections, each under a lock of its own: more than threads of requests.
pub const CONNECTION_SHARDS: usize = 32;

/// Descriptors that are not for connections, with one listener: its own, log, store, and a reload that opens files beside those in use.
pub const OTHER_FILES: u64 = 128;

/// Descriptors that a thread of requests has for itself, with one listener: what it waits with, and its socket.
pub const FILES_OF_THREAD: u64 = 8;

/// Descriptors that a further listener takes: its socket, and a copy of that.
pub const FILES_OF_LISTENER: u64 = 2;

/// Descriptors that each thread of requests takes for a further listener: the framework gives every listener threads of its own.
pub const FILES_OF_LISTENER_THREAD: u64 = 4;

/// Descriptors that each thread takes for HTTP/3 at a listener: its socket, both ends of the way to it, and copies for the next process,
/// beside those of the thread itself.
pub const FILES_OF_HTTP3_THREAD: u64 = 5 + FILES_OF_LISTENER_THREAD;

/// Descriptors without which the process does not start, beside those of its threads, its further listeners and its counters: standard
/// streams, one listener, log, watches of files, four for each background task, and some connections. With fewer it says so, and ends.
pub const FEWEST_FILES: u64 = 84;

/// Bytes of the largest read from a connection.
pub const LARGEST_READ: usize = 64 * 1024;

/// Bytes of the largest frame of HTTP/2 that the gateway takes, RFC 9113 §4.2.
pub const LARGEST_FRAME: usize = 16 * 1024;

/// Bytes that rustls holds for one connection towards a client: what is written and not sent yet, the default of its `set_buffer_limit`.
pub const CLIENT_TLS: u64 = 64 * 1024;

/// Bytes that rustls holds for one connection from an origin: a record that is not whole, and the text of one.
pub const ORIGIN_TLS: u64 = 34 * 1024;

/// Bytes that an answer holds whatever its length: the state of its request, and of its connection to the origin.
pub const ANSWER_OVERHEAD: u64 = 46 * 1024;

/// Bytes that an answer holds beside them in a stream of HTTP/2 to its client: its part of the output, and the stream, measured.
pub const ANSWER_STREAM: u64 = 32 * 1024;

/// Bytes of an announced body that take no room among unread answers: the kernel takes them mostly at once.
pub const SMALL_ANSWER: u64 = 16 * 1024;

/// Bytes of one piece of an answer of unknown length that its client does not take at once; so many take room among unread answers.
pub const UNTAKEN_PIECE: usize = 8 * 1024;

/// Bytes that a request holds beside the pieces of its answer while its client does not take them.
pub const PENDING_ANSWER: u64 = 16 * 1024;

/// Bytes that a connection of TLS holds beside them, of records that were encrypted and not sent.
pub const PENDING_RECORDS: u64 = 80 * 1024;

/// Bytes that may wait for clients where the system does not say how much memory there is, and the configuration neither.
pub const UNREAD_WITHOUT_MEMORY: u64 = 1 << 30;

/// Bytes of bodies that may be held for keys in the same case.
pub const KEY_BODIES_WITHOUT_MEMORY: u64 = 256 << 20;

/// Bytes of bodies that may be kept for another attempt in the same case.
pub const REPLAYS_WITHOUT_MEMORY: u64 = 256 << 20;

/// Bytes that clients have sent of heads, frames and bodies that the gateway has not passed on, where the system reports no memory.
pub const RECEIVED_WITHOUT_MEMORY: u64 = 256 << 20;

/// Parts of the table of clients' accounts, each under a lock of its own: more than threads of requests, so that connections that begin or
/// end at the same time rarely wait for each other.
pub const ACCOUNT_SHARDS: usize = 64;

/// Streams of HTTP/2 that clients may have open at the same time where `max_http2_streams` is not set. Each is a task with the state of its
/// request, some 12 KB measured, whether or not the request is on its way to an origin.
pub const CLIENT_STREAMS: u32 = 64 * 1024;

/// The part of these streams that one client may have where `max_http2_streams_per_client` is not set: a sixteenth, or those of one
/// connection if they are more. Offices and mobile networks have many people behind one address, each with a few streams.
pub const STREAMS_OF_CLIENT: u32 = 16;

/// Calls of gRPC that watch the health of a rate limit service at the same time: some for each proxy that asks it. Each holds a stream for
/// as long as the proxy runs.
pub const HEALTH_WATCHES: usize = 1024;

/// Bytes of a chunked request body that carry nothing, sizes, extensions and line ends, beyond 16 a chunk and twice its data. More is
/// a flood of tiny chunks or long extensions; the request is answered with 400.
pub const CHUNK_OVERHEAD: usize = 16 * 1024;

/// Bytes of the trailer of a body in chunks, which is not forwarded. Behind a request, more is answered with 400; behind a response, the
/// trailer is dropped with the connection.
pub const TRAILER_BYTES: usize = 8 * 1024;

/// Bytes asked for in one read of a head: most heads fit. A larger one takes several reads, up to the rules' `max_header_bytes`.
pub const HEAD_READ: usize = 4 * 1024;

/// Bytes asked for in one read of a request's body.
pub const BODY_READ: usize = 16 * 1024;

/// Bytes of the gateway's own answers to pipelined requests that are gathered for one write. Then the connection writes first.
pub const QUEUED_ANSWERS: usize = 8 * 1024;

/// Maximum time of a TLS handshake, where `client_read_timeout` is not less. It is two or three messages each way: ten seconds
/// are enough for a phone on a train. Then the connection is closed.
pub const HANDSHAKE_TIME: Duration = Duration::from_secs(10);

/// TLS handshakes in progress at once where `max_tls_handshakes` is not set. Each takes some 40 KiB while it lasts and a fraction of a
/// millisecond of arithmetic, so this many are two seconds of work for two cores. At the bound a connection is closed at once, which is
/// counted.
pub const HANDSHAKES: u32 = 8192;

/// Handshakes of HTTP/3 at one listener that are not complete: until then an address is only claimed, so they have no share for each
/// client. From half of them on a client has to prove its address first, which costs it a round trip, and then has a share; beyond them it
/// gets no answer. A forged first datagram takes a place for up to [`HANDSHAKE_TIME`], some 40 KiB and a signature.
pub const HTTP3_HANDSHAKES: usize = 1024;

/// Streams that a client may have on a connection of HTTP/3 beside those of requests: it has use for three, RFC 9114 §6.2, RFC 9204 §4.2,
/// and may try others.
pub const HTTP3_CLIENT_STREAMS: u32 = 8;

/// Bytes of answers on one connection of HTTP/3 that the client has not acknowledged: QUIC keeps them to repeat them. 256 KiB are 20 Mbit/s
/// over a round trip of 100 ms.
pub const HTTP3_UNACKNOWLEDGED: u64 = 256 * 1024;

/// Bytes that a client may send ahead on a connection of HTTP/3 before memory is reserved for a body: heads, and what lies behind gaps. No
/// budget counts them.
pub const HTTP3_UNRESERVED: u32 = 64 * 1024;

/// Bytes that a client may send ahead on a connection of HTTP/3 from its first body on, where there is room: what is more than
/// [`HTTP3_UNRESERVED`] is reserved until the connection ends, since QUIC takes no window back. 256 KiB are 20 Mbit/s over a round trip of
/// 100 ms.
pub const HTTP3_WINDOW: u32 = 256 * 1024;

/// Bytes of a body over HTTP/3 that were read from QUIC and that its request has not taken: two pieces.
pub const HTTP3_BODY_AHEAD: u64 = 32 * 1024;

/// The time for which an answer over HTTP/3 waits whose client grants less than 1 KiB at once: some 50 pieces a second are little work.
pub const HTTP3_CREDIT_WAIT: Duration = Duration::from_millis(20);

/// The longest time without a packet while a request of HTTP/3 is served: less than the idle time of any client, and than that of NAT
/// (RFC 9000 §10.1.2).
pub const HTTP3_PING: Duration = Duration::from_secs(10);

/// The longest time for which a client of HTTP/3 that is asked to begin no more requests may begin some all the same: three of its round
/// trips, where they are shorter.
pub const HTTP3_GOAWAY_TIME: Duration = Duration::from_secs(5);

/// The shortest such time: a client that is busy reads what has come a little later.
pub const HTTP3_LEAST_GOAWAY_TIME: Duration = Duration::from_millis(100);

/// Bytes of a client's first message of TLS that a fingerprint is made of: with keys that resist quantum computers it has about 2 KiB. A
/// longer one has no fingerprint.
pub const HELLO: usize = 16 * 1024;

/// Sessions of TLS that are stored for clients without tickets, by listener: 200 bytes and the client's certificate each. At the
/// bound the oldest is removed, and its client makes a full handshake.
pub const TLS_SESSIONS: usize = 4096;

/// Bytes of a header of the PROXY protocol, version 2. The addresses take at most 216; what is behind them (authority, TLS, SSL names) has
/// always fitted. Version 1 has 107 by definition. A longer one ends the connection.
pub const PROXY_HEADER: usize = 4 * 1024;

/// Bytes of a request body that a client may send ahead on one stream of HTTP/2, while the origin does not take them.
pub const CLIENT_STREAM_WINDOW: u32 = 256 * 1024;

/// Bytes that a client may send ahead on one connection. Streams share it: a client that uploads to an origin that does not read
/// delays its own other uploads, and no other client's.
pub const CLIENT_CONNECTION_WINDOW: u32 = 1024 * 1024;

/// Bytes of a body that is announced, or of a frame that is not whole, which count in no budget of bytes: the maximum number of streams, or
/// of connections, bounds them, and nearly all requests have no more.
pub const UNCHARGED_BODY: u64 = 1024;

/// Connections that wait in the kernel until the gateway accepts them. The kernel lowers it to `net.core.somaxconn`, 4,096 by default.
pub const LISTEN_BACKLOG: i32 = 65_535;

/// Pause after a connection could not be accepted for lack of descriptors or memory: a further attempt would fail at once.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Bytes of answers that wait unsent in the kernel for one connection of a client, up to one write of 64 KiB more.
///
/// Bytes that are sent and not yet acknowledged do not count, so a long path is filled all the same. A gigabit link sends these
/// in a millisecond.
pub const CLIENT_UNSENT: u32 = 128 * 1024;

/// The shortest bound on the time for which a client acknowledges nothing of what was sent. The kernel sends again after 0.2 to 1 s, so a
/// shorter one would end a connection at the first packet that is lost (RFC 6298 §2).
pub const LEAST_UNACKNOWLEDGED: Duration = Duration::from_secs(1);

/// Bytes of answers that wait for the socket of one connection of HTTP/2; then their origins wait too, at most `client_write_timeout`.
///
/// Two records of TLS: one is sent while the next one is filled. Bytes in the output are held for the client after their requests have
/// ended, and do not count as requests any more.
pub const CLIENT_OUTPUT: usize = 32 * 1024;

/// Streams of one connection that the gateway reset last, and of which it ignores what is still under way, RFC 9113 §5.1: uploads that are
/// rejected. Each takes four bytes. A frame for an older one ends the connection.
pub const ENDED_STREAMS: usize = 1024;

/// Streams of one connection that the gateway had to reset because they break the protocol; then the connection ends.
pub const CLIENT_BROKEN_STREAMS: u32 = 128;

/// Requests of one HTTP/2 connection that the client cancelled before they were answered. With so many, and if they are more
/// than half of all, the connection ends: each of them costs an origin a request.
pub const CLIENT_GIVEN_UP: u32 = 200;

/// Frames of one HTTP/2 connection that carry neither a request nor data, which its client, or an origin, may send at once; then the
/// connection ends.
///
/// The size of nghttp2's bucket. A browser opens a connection with fewer than ten; a client that pings at each piece of an answer, or
/// opens its windows by small steps, gets more [for each piece](CONTROL_FRAMES_PER_DATA_FRAME).
pub const CONTROL_FRAMES: u32 = 10_000;

/// Such frames by which a second refills what was used of them: the rate of nghttp2's bucket, far above that of any keep-alive.
pub const CONTROL_FRAMES_PER_SECOND: u32 = 330;

/// Such frames by which a request refills them: its CONTINUATION frames, priorities, windows, trailer and reset.
pub const CONTROL_FRAMES_PER_REQUEST: u32 = 10;

/// Such frames by which a DATA frame that was sent refills them: a window of its stream, one of the connection, and a PING that measures
/// the path, as gRPC sends.
pub const CONTROL_FRAMES_PER_DATA_FRAME: u32 = 3;
