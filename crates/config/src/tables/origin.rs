//! Declares `[origin.NAME]`: a pool of servers.

use std::time::Duration;

use http::HeaderValue;
use sluicegate_base::bounds::{LARGEST_STREAM_WINDOW, LEAST_STREAM_WINDOW, RESPONSE_FIELDS};
use sluicegate_config_derive::Table;

use crate::declaration::{ChoiceOf, DurationIn, IntegerIn, ListBy, ParsedText, SizeIn, TableOf};
use crate::form::ValueKind;
use crate::host;
use crate::problem::ParseError;
use crate::rules::{
    AdaptiveConcurrencyRules, Balance, CircuitBreakerRules, HealthRules, OriginTimeouts, OriginTls,
    OutlierDetectionRules, PoolServer, Protocol, RetryRules, StickyRules,
};
use crate::section::TableSection;
use crate::tables::balance::{self, BalanceTable};
use crate::tables::{adaptive_concurrency, origin_tls, servers};

/// The port of HTTPS.
pub(super) const HTTPS: u16 = 443;

pub(crate) const EXAMPLE: &str = "with servers = [\"127.0.0.1:3000\"]";

/// A pool of servers.
#[derive(Clone, Debug, PartialEq, Table)]
#[table(path = "origin.NAME", check = review)]
pub struct OriginRules {
    /// Required. Addresses or names, with ports, or Unix sockets such as "unix:/run/app.sock"; each address of a name is a server, at most
    /// 512 in all. Instead of a string, a table:
    ///   { address = "10.0.0.7:3000", weight = 3, backup = true }
    /// with a weight, 1 to 256, to which its share of requests is proportional, and backup, for a server that is used only while no other
    /// is available. A name that does not resolve keeps the addresses that it had. Without any address, requests get 503 while it is looked
    /// up every second.
    #[key(
        example = "[\"127.0.0.1:3000\"]",
        shown = "[\"127.0.0.1:3000\", { address = \"127.0.0.1:3001\", weight = 1, backup = false }]",
        reader = ListBy(servers::read, &[ValueKind::String, ValueKind::Object])
    )]
    pub servers: Vec<PoolServer>,
    /// The protocol that is spoken with them, and TLS.
    #[part(read = transport, keys = Vec::new)]
    pub transport: OriginTransport,
    /// The bytes that a server may send ahead on one stream of HTTP/2, 32KiB to 16MiB. A client that does not read makes the gateway hold
    /// up to twice as much, which an answer reserves of max_unread_bytes. Default: what 25 MB a second need at the distance of the server,
    /// 32KiB to 256KiB.
    #[key(
        example = "\"256KiB\"",
        reader = SizeIn(LEAST_STREAM_WINDOW as u64..=LARGEST_STREAM_WINDOW as u64)
    )]
    pub stream_window: Option<u32>,
    /// The interval at which names of servers are resolved again, 100ms to 1d. Servers are added and removed with the addresses of their
    /// name; a name that does not resolve keeps its servers.
    #[key(
        example = "\"30s\"",
        default = Duration::from_secs(30),
        reader = DurationIn(Duration::from_millis(100)..=Duration::from_secs(86_400))
    )]
    pub resolve_every: Duration,
    /// The choice of a server.
    #[part(read = balance::read, keys = BalanceTable::keys)]
    pub balance: Balance,
    /// The time over which the share of a new or recovered server grows from a tenth to the whole, 100ms to 1h. Default: none, the whole
    /// share at once.
    #[key(
        example = "\"30s\"",
        reader = DurationIn(Duration::from_millis(100)..=Duration::from_secs(3_600))
    )]
    pub slow_start: Option<Duration>,
    /// The maximum number of retries of a request, 0 to 5. Without [origin.NAME.retry] only failed connections are retried.
    #[key(example = "1", default = 1, reader = IntegerIn(0..=5))]
    pub retries: u8,
    /// The Host that the origin receives: "preserve", that of the client, or a literal host such as "app.internal:8080".
    #[key(example = "\"preserve\"", default = HostPolicy::Preserve, reader = ParsedText(host_policy))]
    pub host: HostPolicy,
    /// The case of field names: "lower", as in HTTP/2, or "as-sent", which costs about 3 % of a request's CPU time and is for old origins
    /// and clients that distinguish "X-Api-Key" from "x-api-key". Stored responses keep the case in which they came.
    #[key(
        example = "\"lower\"",
        default = HeaderCase::Lower,
        reader = ChoiceOf(
            &[("lower", HeaderCase::Lower), ("as-sent", HeaderCase::AsSent)],
            "there is no header case {}",
            "write \"lower\", or \"as-sent\" for an origin or clients that mind"
        )
    )]
    pub header_case: HeaderCase,
    /// The maximum number of header fields of a response, 1 to 4096. A response with more becomes 502 (`too-many-fields` in the access
    /// log).
    #[key(example = "256", default = RESPONSE_FIELDS, reader = IntegerIn(1..=4096))]
    pub max_response_fields: usize,
    /// The longest time of each step.
    #[key(example = "{ connect = \"2s\" }", nested)]
    pub timeouts: OriginTimeouts,
    /// Active health checks.
    #[key(example = "{ path = \"/healthz\" }", reader = TableOf(HealthRules::read))]
    pub health: Option<HealthRules>,
    /// The ejection of servers that fail requests.
    #[key(example = "{ consecutive_failures = 5 }", reader = TableOf(OutlierDetectionRules::read))]
    pub outlier_detection: Option<OutlierDetectionRules>,
    /// The failures after which a request is tried again, and how often.
    #[key(example = "{ on = [\"connect\", 503] }", reader = TableOf(RetryRules::read))]
    pub retry: Option<RetryRules>,
    /// The bounds of what a server gets at once.
    #[key(example = "{ max_requests = 100 }", reader = TableOf(CircuitBreakerRules::read))]
    pub circuit_breaker: Option<CircuitBreakerRules>,
    /// A limit on what a server gets at once that follows its latency.
    #[key(example = "{ min = 4 }", reader = TableOf(AdaptiveConcurrencyRules::read))]
    pub adaptive_concurrency: Option<AdaptiveConcurrencyRules>,
    /// The cookie that keeps a client with its server.
    #[key(example = "{ ttl = \"1h\" }", reader = TableOf(StickyRules::read))]
    pub sticky: Option<StickyRules>,
}

/// The protocol that is spoken with servers, and TLS.
#[derive(Clone, Debug, PartialEq)]
pub struct OriginTransport {
    /// The version of HTTP.
    pub protocol: Protocol,
    /// The settings of TLS; `None`: connections are in clear text.
    pub tls: Option<OriginTls>,
}

/// The case of field names on their way between client and origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderCase {
    /// In lower case, as in HTTP/2.
    Lower,
    /// The bytes that each side wrote.
    AsSent,
}

/// The `Host` that the origin gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostPolicy {
    /// That of the client, the default.
    Preserve,
    /// Always this value.
    Fixed(HeaderValue),
}

fn review(keys: &OriginRulesKeys, section: &TableSection<'_>) -> Option<()> {
    review_ports(keys, section);
    review_queue(keys, section)
}

/// Warns of a server at the port of HTTPS that gets clear text.
fn review_ports(keys: &OriginRulesKeys, section: &TableSection<'_>) {
    let is_clear = |transport: &OriginTransport| transport.tls.is_none();
    if !keys.transport.as_ref().is_some_and(is_clear) {
        return;
    }
    let mut servers = keys.servers.iter().flatten();
    if servers.any(|server| server.port() == Some(HTTPS)) {
        section.report.warning(
            &section.place_of("servers"),
            "a server gets clear text at port 443, which is that of HTTPS",
            "write tls = {} beside it, or the port at which the server takes clear text",
        );
    }
}

fn review_queue(keys: &OriginRulesKeys, section: &TableSection<'_>) -> Option<()> {
    let adaptive = keys.adaptive_concurrency.as_ref()?.as_ref();
    let circuit = keys.circuit_breaker.as_ref()?.as_ref();
    adaptive_concurrency::review_queue(adaptive, circuit, section);
    Some(())
}

fn transport(section: &TableSection<'_>) -> Option<OriginTransport> {
    let (protocol, tls) = origin_tls::read(section)?;
    if protocol == Protocol::Http1 && section.has("stream_window") {
        return section.refuse(
            "stream_window",
            "HTTP/1.1 has no streams",
            "write protocol = \"h2\", \"h2c\" or \"auto\", or leave stream_window out",
        );
    }
    Some(OriginTransport { protocol, tls })
}

fn host_policy(text: &str) -> Result<HostPolicy, ParseError> {
    match text {
        "preserve" => Ok(HostPolicy::Preserve),
        _ => host::sent(text).map(HostPolicy::Fixed),
    }
}
