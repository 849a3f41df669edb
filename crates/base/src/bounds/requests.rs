//! Caps of a request head: its chain of addresses, path, host, key values, tokens and fields.

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

/// Routes of one host whose path is a regular expression. More are rejected when the configuration is read: their automaton would no
/// longer fit a cache, and patterns serve thousands of paths better.
pub const PATH_REGEXES_OF_HOST: usize = 1000;

/// Routes of all hosts whose path is a regular expression, each of which takes some 20 KiB.
pub const PATH_REGEXES: usize = 10_000;

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

/// Bytes of a canonical name of a parameter, decoded; a longer one is outside of the grammar.
///
/// Of 52,322 names that Common Crawl found the longest has 82.
pub const PARAMETER_NAME_BYTES: usize = 128;

/// Names in one query or form; more are outside of the grammar. PHP, Django and qs read no more than 1,000 parameters, and differ in what
/// becomes of the others.
pub const PARAMETER_NAMES: usize = 1000;

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

/// Passes of one request through this gateway: a second is two of its listeners in a row, a third is a loop, answered with 508.
pub const OWN_PASSES: usize = 2;

/// Passes of one request through all gateways together: more tiers than exist in practice. Then it is answered with 508.
pub const ALL_PASSES: usize = 8;

/// Fields that `Connection` of a request may name. Each is looked for among all others; a request that names more is answered with 400.
pub const NOMINATED_FIELDS: usize = 8;

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
