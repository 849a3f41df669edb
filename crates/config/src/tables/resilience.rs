//! Declares `outlier_detection`, `retry` and `circuit_breaker` of an origin: what holds when its servers fail, or have enough.

use std::ops::RangeInclusive;
use std::time::Duration;

use sluicegate_config_derive::Table;
use toml::de::DeValue;

use crate::declaration::{DurationIn, IntegerIn, ListOf, ParsedText, WordOf};
use crate::field::{KeyField, quoted};
use crate::problem::ParseError;
use crate::rules::{FailureClass, Percent, QueueOrder};
use crate::section::TableSection;

/// Statuses of failures.
const FAILED: RangeInclusive<u64> = 500..=599;
/// Shortest and longest ejection.
const EJECTION_TIME: RangeInclusive<Duration> =
    Duration::from_millis(100)..=Duration::from_secs(86_400);

/// Passive health checks: a server that fails requests is ejected for a time. With this table the defaults below apply. Default: none.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
#[table(path = "origin.NAME.outlier_detection", check = check_ejection_times)]
pub struct OutlierDetectionRules {
    /// Consecutive failed requests after which a server is ejected. 1 to 1000.
    #[key(example = "5", default = 5, reader = IntegerIn(1..=1_000))]
    pub consecutive_failures: u32,
    /// The failures that count: "connect", no connection; "timeout", no response in time; "reset", a broken response; and statuses from 500
    /// to 599, or ranges of them.
    #[key(
        example = "[\"connect\", \"timeout\", \"reset\", 502, 503, 504]",
        default = outliers(),
        reader = ListOf(failure_class, FAILED)
    )]
    pub on: Vec<FailureClass>,
    /// The duration of the first ejection; the n-th one in succession lasts n times as long, up to max_ejection_time. 100ms to 1d.
    #[key(example = "\"10s\"", default = Duration::from_secs(10), reader = DurationIn(EJECTION_TIME))]
    pub base_ejection_time: Duration,
    /// The maximum duration of an ejection. 100ms to 1d.
    #[key(example = "\"5m\"", default = Duration::from_secs(300), reader = DurationIn(EJECTION_TIME))]
    pub max_ejection_time: Duration,
    /// The maximum percentage of servers out of use, for whatever reason, after an ejection. 1 to 100. It is rounded down: with 50, of one
    /// server none is ejected, of two one.
    #[key(example = "50", default = Percent(50), reader = IntegerIn(1..=100))]
    pub max_percent: Percent,
}

/// Conditions of retries. With this table the defaults below apply. Default: failed connections are retried, without a budget.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
#[table(path = "origin.NAME.retry")]
pub struct RetryRules {
    /// The failures that are retried, as in outlier_detection. A request that was sent is retried only with an idempotent method, while its
    /// body is buffered (64 KiB) and the client has received nothing of a response. An HTTP/2 stream that the server refused, or that its
    /// GOAWAY excludes, is retried with any method and without a rule. A retry is not charged to limits.
    #[key(
        example = "[\"connect\", \"timeout\", 503]",
        shown = "[\"connect\"]",
        default = vec![FailureClass::Connect],
        reader = ListOf(failure_class, FAILED)
    )]
    pub on: Vec<FailureClass>,
    /// The retry budget: the maximum share of retries among the requests of the last second. 0% to 100%.
    #[key(example = "\"20%\"", default = Percent(20), reader = ParsedText(percent))]
    pub budget: Percent,
    /// Retries per second that the budget allows in addition. 0 to 100000.
    #[key(example = "10", default = 10, reader = IntegerIn(0..=100_000))]
    pub min_per_second: u32,
    /// The time after the decision within which a request may be retried. 1ms to 1h. Default: no deadline; each attempt has the timeouts
    /// above.
    #[key(
        example = "\"10s\"",
        reader = DurationIn(Duration::from_millis(1)..=Duration::from_secs(3_600))
    )]
    pub deadline: Option<Duration>,
}

/// Limits on concurrent requests and connections of a server. Default: none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Table)]
#[table(path = "origin.NAME.circuit_breaker", check = check_bounds)]
pub struct CircuitBreakerRules {
    /// Required unless max_connections is set. Maximum number of requests in flight at each server. 1 to 1000000.
    #[key(example = "100", reader = IntegerIn(1..=1_000_000))]
    pub max_requests: Option<u32>,
    /// Maximum number of connections to each server, including idle ones and excluding health checks. 1 to 10000. Over HTTP/1.1 it also
    /// bounds the requests in flight. Default: none.
    #[key(example = "100", reader = IntegerIn(1..=10_000))]
    pub max_connections: Option<u32>,
    /// Maximum number of requests of this origin that wait for a server. 0 to 10000. Further ones get 503 with Retry-After. With
    /// max_connections, a request that has waited counts until it has its connection, since it waits again if the server has none for it.
    #[key(example = "50", shown = "0", default = 0, reader = IntegerIn(0..=10_000))]
    pub max_pending: u32,
    /// The maximum time for which a request waits. 1ms to 1m.
    #[key(
        example = "\"1s\"",
        default = Duration::from_secs(1),
        reader = DurationIn(Duration::from_millis(1)..=Duration::from_secs(60))
    )]
    pub pending_timeout: Duration,
    /// The order of waiting requests:
    ///   "fifo"  default: the oldest first; while the queue is full, a new request gets 503
    ///   "lifo"  the newest first, so that some are served in time under overload; while the queue is full, the oldest gets 503
    ///   "fair"  clients in turn, by the network of client.ip (/32, IPv6 /64); while the queue is full, the newest request of the client
    ///           that has the most gets 503
    #[key(
        example = "\"fifo\"",
        default = QueueOrder::Fifo,
        reader = WordOf(
            &[
                ("fifo", QueueOrder::Fifo),
                ("lifo", QueueOrder::Lifo),
                ("fair", QueueOrder::Fair)
            ],
            "there is no queue order {}"
        )
    )]
    pub queue_order: QueueOrder,
}

fn outliers() -> Vec<FailureClass> {
    vec![
        FailureClass::Connect,
        FailureClass::Timeout,
        FailureClass::Reset,
        FailureClass::Status(502..=504),
    ]
}

fn check_ejection_times(
    keys: &OutlierDetectionRulesKeys,
    section: &TableSection<'_>,
) -> Option<()> {
    let base = keys.base_ejection_time;
    let longest = keys.max_ejection_time;
    if base
        .zip(longest)
        .is_none_or(|(base, longest)| base <= longest)
    {
        return Some(());
    }
    section.report.error(
        &section.place,
        "an ejection lasts longer at first than at most",
        "write a `max_ejection_time` that is at least `base_ejection_time`",
    );
    None
}

fn check_bounds(keys: &CircuitBreakerRulesKeys, section: &TableSection<'_>) -> Option<()> {
    if (keys.max_requests, keys.max_connections) != (Some(None), Some(None)) {
        return Some(());
    }
    section.report.error(
        &section.place,
        "a circuit bounds neither requests nor connections",
        "write max_requests = 100, max_connections = 100, or both",
    );
    None
}

/// Reads `"connect"`, `"timeout"`, `"reset"`, `503` or `"500-599"`.
fn failure_class(element: &KeyField<'_>) -> Option<FailureClass> {
    match element.value {
        DeValue::String(text) if &**text == "connect" => Some(FailureClass::Connect),
        DeValue::String(text) if &**text == "timeout" => Some(FailureClass::Timeout),
        DeValue::String(text) if &**text == "reset" => Some(FailureClass::Reset),
        _ => statuses(element, FAILED).map(FailureClass::Status),
    }
}

/// One status, `503` or `"503"`, or a span of them, `"500-599"`.
pub(super) fn statuses(
    element: &KeyField<'_>,
    range: RangeInclusive<u64>,
) -> Option<RangeInclusive<u16>> {
    let narrow = |status: u64| u16::try_from(status).ok();
    let DeValue::String(text) = element.value else {
        let status = narrow(element.integer(range)?)?;
        return Some(status..=status);
    };
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let number = |text: &str| text.trim().parse::<u64>().ok();
    match (number(first), number(last)) {
        (Some(first), Some(last)) if first <= last => {
            if !range.contains(&first) || !range.contains(&last) {
                let least = range.start();
                let most = range.end();
                return element.refuse(
                    format!("{} is out of range", quoted(text)),
                    format!("write statuses from {least} to {most}"),
                );
            }
            Some(narrow(first)?..=narrow(last)?)
        }
        _ => element.refuse(
            format!("{} is not understood here", quoted(text)),
            element.advice(),
        ),
    }
}

/// `"20%"`
fn percent(text: &str) -> Result<Percent, ParseError> {
    percent_in(text, 0..=100, "a share of requests")
}

/// A whole percentage in a range, of which an error says `what` it is.
pub(super) fn percent_in(
    text: &str,
    range: RangeInclusive<u8>,
    what: &str,
) -> Result<Percent, ParseError> {
    let number = text.strip_suffix('%').map(str::trim);
    match number.and_then(|number| number.parse().ok()) {
        Some(share) if range.contains(&share) => Ok(Percent(share)),
        _ => Err(ParseError::new(format!(
            "{} is not {what} from {}% to {}%",
            quoted(text),
            range.start(),
            range.end()
        ))),
    }
}
