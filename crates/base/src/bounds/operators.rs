//! Caps of operator interfaces: the admin listener, logs, spans, certificates, configurations.

use std::time::Duration;

/// Lines per minute about untrusted clients in the process log: enough to see what happens, too few to fill a disk. The omitted
/// ones are counted, and reported with the next.
pub const NOTICES: u32 = 10;

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

/// Bytes of the subject of a client's certificate that are logged: distinguished names rarely have 200. The rest is cut.
pub const LOGGED_SUBJECT: usize = 512;

/// Bytes of an answer of the admin listener that the command line reads: the status and the metrics of some ten thousand limits. A longer
/// one is an error.
pub const ADMIN_ANSWER: u64 = 32 * 1024 * 1024;

/// Time for which the command line waits for a connection to the admin listener.
pub const ADMIN_CONNECT: Duration = Duration::from_secs(5);

/// Keys of a limit that `sluicegate top` shows: more than a screen has lines for.
pub const TOP_SHOWN_KEYS: usize = 50;

/// Rejected clients of each group that `sluicegate top` reads.
pub const TOP_REJECTED_CLIENTS: usize = 10;

/// Connections to the admin listener at the same time: probes, scrapes and some operators. One more is closed at once.
pub const ADMIN_CONNECTIONS: usize = 32;

/// Connections to the admin listener of one address.
pub const ADMIN_CONNECTIONS_OF_ONE: usize = 24;

/// Maximum time until the first request of such a connection arrives, and a body. Then it is closed.
pub const ADMIN_PATIENCE: Duration = Duration::from_secs(10);

/// Maximum time for which a change by an operator waits for the changes before it; less than the patience of the commands.
pub const ADMIN_CHANGE_TURN: Duration = Duration::from_secs(4);

/// Maximum idle time between two requests, and maximum time to read an answer: a scrape has some megabytes.
pub const ADMIN_IDLE: Duration = Duration::from_secs(60);

/// Bytes of the body of a request to the admin listener.
pub const ADMIN_BODY: usize = 4 * 1024;

/// Temporary rules of a gateway, some 300 bytes each; one more is refused. As many removed ones are remembered until their end.
pub const TEMPORARY_RULES: usize = 10_000;

/// The longest time for which a temporary rule is set: what is to last belongs into the configuration.
pub const TEMPORARY_RULE_LENGTH: Duration = Duration::from_secs(30 * 24 * 3600);

/// Bytes of the file of the temporary rules, and of an answer of the store with them: [`TEMPORARY_RULES`] with long reasons, and as many
/// removed ones.
pub const TEMPORARY_RULES_FILE: u64 = 32 * 1024 * 1024;

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

/// Clients that are counted by their rejections, for each of address, network, country, autonomous system and user agent: one with a larger
/// share than 1/256 of all rejections is always among them.
pub const REJECTED_CLIENTS: usize = 256;

/// Time after which rejections are counted anew; the counts before are shown for as long again.
pub const REJECTED_PERIOD: Duration = Duration::from_secs(5 * 60);

/// Bytes of a user agent by which rejections are counted; the rest is cut.
pub const REJECTED_USER_AGENT: usize = 128;

/// Time of a second in which tables of limits are sampled for streams: a fraction of a core however many limits there are. The sample of
/// one table is not interrupted.
pub const EVENTS_SAMPLING: Duration = Duration::from_millis(2);

/// Bytes of the state of origins and store up to which it is sent each second in which it changes; a larger one each tenth second.
pub const EVENTS_LARGE_STATE: usize = 64 * 1024;

/// Time that one step of the history covers: long enough for an hour to be small, short enough to see a burst.
pub const HISTORY_STEP: Duration = Duration::from_secs(10);

/// Steps of the history that are kept beside the one that is not finished: an hour. Each is 120 bytes, and the counts below.
pub const HISTORY_STEPS: usize = 360;

/// Limits that the history counts by name, those with the most requests: 12 bytes a step each, so 280 KB in all.
pub const HISTORY_LIMITS: usize = 64;

/// Origins that the history counts by name, those with the most attempts: 8 bytes a step each, so 92 KB in all.
pub const HISTORY_ORIGINS: usize = 32;

/// Marks of the history that are kept of what was done, and again as many of problems, so that a server that fails and recovers again and
/// again displaces no reload.
pub const HISTORY_MARKS: usize = 128;

/// Bytes of the text of a mark, and of its name; the rest is cut.
pub const HISTORY_MARK_TEXT: usize = 240;

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

/// Keys that one request to end bans by network looks up, a power of two: a /20 of single IPv4 addresses, a /52 of IPv6 networks of /64.
pub const UNBANNED_ADDRESSES: u32 = 4096;

/// Bytes of audit lines that wait while their target takes nothing: some thousand changes by operators.
pub const AUDIT_LOG_BUFFER: usize = 1024 * 1024;

/// Places in which keys have their one line a second, eight bytes each; a power of two. Keys that share a place share the line.
pub const LOG_PLACES: usize = 8192;

/// Bytes of the reason of a failure that are kept, for the access log, the process log and `/origins`; the rest is cut.
pub const FAILURE_REASON: usize = 256;

/// Bytes of spans that a stripe of threads keeps while the collector takes none, of 16: 8 MiB in all, some 10,000 requests. What does not
/// fit is left out and counted.
pub const OTLP_STRIPE: usize = 512 * 1024;

/// Bytes of access log lines that a stripe of threads keeps while the collector takes none, of 16: 32 MiB in all, some 10,000 lines, each
/// with its fields beside it. What does not fit is left out and counted.
pub const OTLP_LOG_STRIPE: usize = 2 * 1024 * 1024;

/// Bytes of metrics that are kept while the collector takes none: one sample of some 8,000 routes with limits, or those of a day of a small
/// gateway. What does not fit is left out and counted; sums that are sent later are complete all the same.
pub const OTLP_METRICS: usize = 32 * 1024 * 1024;

/// Attributes of the gateway that an operator may name, which go with each call. More are refused when the configuration is read.
pub const OTLP_ATTRIBUTES: usize = 64;

/// Bytes of such an attribute.
pub const OTLP_TEXT: usize = 1024;

/// Peers that send `X-Forwarded-For`, are not trusted, and are named in the process log: 17 bytes each. Balancers in front of
/// one gateway are a few; beyond the bound only the metric counts more.
pub const UNTRUSTED_PEERS: usize = 32;

/// Bytes of a configuration file, or of one that is read from the standard input.
pub const CONFIGURATION_BYTES: u64 = 64 * 1024 * 1024;

/// Files that one configuration may include.
pub const INCLUDED_FILES: usize = 1_000;
