//! Caps on what is read. Larger input is an error, never cut. The ranges at the end are those of keys that are written.

use std::ops::RangeInclusive;

/// Bytes of one input with all that it includes. The largest generated configurations have a few MiB.
pub const INPUT_BYTES: usize = 16 * 1024 * 1024;

/// Directives, sections or nodes of one input with all that it includes.
pub const DIRECTIVES: usize = 200_000;

/// Blocks within blocks. It bounds recursion; real files have about six.
pub const DEPTH: usize = 32;

/// Words of one directive.
pub const WORDS: usize = 4096;

/// Files that are included, one after the other or within each other.
pub const INCLUDED_FILES: usize = 1_000;

/// Includes within includes.
pub const INCLUDE_DEPTH: usize = 16;

/// Variables that are defined by other variables, one behind the other.
pub const VARIABLE_DEPTH: usize = 8;

/// Locations that pass a request on to each other. nginx has the same bound.
pub const JUMPS: usize = 10;

/// Directives of a location that pass requests on, and whose targets are compared with its limits.
pub const JUMP_DIRECTIVES: usize = 64;

/// Memory for the expressions of the locations of one server block.
pub const EXPRESSION_BYTES: usize = 64 * 1024 * 1024;

/// Routes that are made of one location by conditions on its requests.
pub const ROUTE_CASES: usize = 64;

/// Cases into which conditions divide the requests of a frontend, before those that need no route are removed. An edge of some hundred
/// hosts has some thousand.
pub const REQUEST_CELLS: usize = 20_000;

/// Most limits of a route, which the configuration has too.
pub const ROUTE_LIMITS: usize = 8;

/// Characters of a directive that comments and reports show.
pub const SHOWN: usize = 100;

/// Pairs of a prefix and an expression of a server block that have routes of their own, before those of expressions.
pub const ARRANGED_PAIRS: usize = 4096;

/// Pairs of a prefix and an expression of a server block that are compared.
pub const COMPARED_PAIRS: usize = 1 << 18;

/// Routes of one host that are compared with each other by the case of their paths; those of larger hosts regard it.
pub const ROUTES_COMPARED_BY_CASE: usize = 1024;

/// Locations that the paths of one `rewrite` of nginx are divided by.
pub const REWRITE_PARTS: usize = 64;

/// Pairs of a path with a slash at the end and an expression that are compared.
pub const COMPARISONS_OF_SLASHES: usize = 1_000_000;

/// Routes that are added for paths with a slash at the end.
pub const ROUTES_WITH_SLASHES: usize = 8192;

/// Routes of one host that are repeated with the conditions of later ones.
pub const REPEATED_ROUTES: usize = 1024;

/// Addresses of one server block of nginx. Real ones have two.
pub const LISTENS_OF_SERVER: usize = 1024;

/// Pairs of a name and an address of all server blocks of nginx. Ten thousand names at two addresses are 20,000.
pub const NAMES_AT_ADDRESSES: usize = 200_000;

/// Alternatives of one rule of Traefik.
pub const RULE_ALTERNATIVES: usize = 256;

/// Largest burst and queue of a limit.
pub const BURST: u64 = 1_048_574;

/// Longest period of a rate, in seconds.
pub const PERIOD_SECONDS: u64 = 31 * 86_400;

/// Largest `capacity` of a limit.
pub const CAPACITY: u64 = 1 << 30;

/// The default of `capacity` of a limit.
pub const USUAL_CAPACITY: u64 = 262_144;

/// Largest `weight` of a server.
pub const SERVER_WEIGHT: u64 = 256;

/// Milliseconds that a key of `timeouts` of an origin takes.
pub const ORIGIN_MILLIS: RangeInclusive<u64> = 1..=DAY_MILLIS;

/// Milliseconds that `interval` of `health` takes.
pub const HEALTH_INTERVAL_MILLIS: RangeInclusive<u64> = 10..=3_600_000;

/// Milliseconds that `timeout` of `health` takes.
pub const HEALTH_TIMEOUT_MILLIS: RangeInclusive<u64> = 1..=60_000;

/// Checks that `healthy_after` and `unhealthy_after` of `health` take.
pub const HEALTH_CHECKS: RangeInclusive<u64> = 1..=100;

/// Milliseconds that `base_ejection_time` of `outlier_detection` takes.
pub const EJECTION_MILLIS: RangeInclusive<u64> = 100..=DAY_MILLIS;

/// Failures that `consecutive_failures` of `outlier_detection` takes.
pub const EJECTION_FAILURES: RangeInclusive<u64> = 1..=1_000;

/// Longest `pending_timeout` of an origin, in milliseconds.
pub const PENDING_MILLIS: u64 = 60_000;

/// Largest `max_requests` of an origin.
pub const ORIGIN_REQUESTS: u64 = 1_000_000;

/// Largest `max_connections` and `max_pending` of an origin.
pub const ORIGIN_CONNECTIONS: u64 = 10_000;

/// Bytes that `max_header_bytes` of `[server]` takes.
pub const HEADER_BYTES: RangeInclusive<u64> = 1 << 10..=1 << 20;

/// Bytes that `max_uri_bytes` of `[server]` takes.
pub const URI_BYTES: RangeInclusive<u64> = 64..=1 << 20;

/// Fields that `max_headers` of `[server]` takes.
pub const HEADER_FIELDS: RangeInclusive<u64> = 1..=256;

/// Streams that `http2.max_streams` of `[server]` takes.
pub const HTTP2_STREAMS: RangeInclusive<u64> = 1..=1024;

const DAY_MILLIS: u64 = 86_400_000;

/// Returns the milliseconds that a key of `[server]` takes.
#[must_use]
pub fn server_millis(key: &str) -> RangeInclusive<u64> {
    match key {
        "client_header_timeout" => 1..=3_600_000,
        "keepalive_timeout" => 1_000..=DAY_MILLIS,
        "shutdown_timeout" => 0..=DAY_MILLIS,
        _ => 1..=DAY_MILLIS,
    }
}

/// Returns the nearest value of a range.
pub(crate) fn nearest(value: u64, range: &RangeInclusive<u64>) -> u64 {
    value.clamp(*range.start(), *range.end())
}
