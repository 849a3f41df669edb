//! Declares `timeouts` and `health` of an origin: how long each step with it may take, and how its servers are checked.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use sluicegate_config_derive::Table;

use super::resilience;
use crate::declaration::{DurationIn, IntegerIn, ListOf, ParsedText};
use crate::field::quoted;
use crate::host;
use crate::problem::ParseError;
use crate::section::TableSection;

/// Shortest and longest timeout.
const TIMEOUT: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(86_400);
/// Statuses that a check may take for healthy.
const HEALTHY: RangeInclusive<u64> = 100..=599;

/// The maximum durations of the steps with the origin. 1ms to 1d.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
#[table(path = "origin.NAME.timeouts")]
pub struct OriginTimeouts {
    /// To connect.
    #[key(example = "\"2s\"", default = Duration::from_secs(2), reader = DurationIn(TIMEOUT))]
    pub connect: Duration,
    /// To wait for the next bytes of a response. A stream of gRPC or of events that is silent for longer ends, so give such an origin
    /// more.
    #[key(example = "\"30s\"", default = Duration::from_secs(30), reader = DurationIn(TIMEOUT))]
    pub read: Duration,
    /// To write the next bytes of a request.
    #[key(example = "\"30s\"", default = Duration::from_secs(30), reader = DurationIn(TIMEOUT))]
    pub write: Duration,
    /// For the whole response. Default: no bound. An upgraded connection is exempt.
    #[key(example = "\"2m\"", shown = "\"5m\"", reader = DurationIn(TIMEOUT))]
    pub total: Option<Duration>,
    /// The time for which an idle connection to the origin is kept. Default: until the origin closes it; TCP probes tell whether it is
    /// still there.
    #[key(example = "\"60s\"", reader = DurationIn(TIMEOUT))]
    pub idle: Option<Duration>,
}

/// Active checks. Default: none, every server is in use; with this table, as below.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
#[table(path = "origin.NAME.health", check = warn_of_host_without_path)]
pub struct HealthRules {
    /// A path to GET. Default: none, a server is healthy when it accepts a connection, with TLS when its certificate is believed too.
    /// Checks speak as requests do.
    #[key(example = "\"/healthz\"", reader = ParsedText(health_path))]
    pub path: Option<Arc<str>>,
    /// Which answers are healthy: statuses, and spans of them.
    #[key(
        example = "[\"200-399\"]",
        default = vec![200..=399],
        reader = ListOf(|element| resilience::statuses(element, HEALTHY), HEALTHY)
    )]
    pub statuses: Vec<RangeInclusive<u16>>,
    /// Host of the check. Default: the name of the origin.
    #[key(example = "\"app.internal\"", reader = ParsedText(health_host))]
    pub host: Option<Arc<str>>,
    /// Time between two checks, a tenth more or less, so that gateways do not check together. 10ms to 1h.
    #[key(
        example = "\"5s\"",
        default = Duration::from_secs(5),
        reader = DurationIn(Duration::from_millis(10)..=Duration::from_secs(3_600))
    )]
    pub interval: Duration,
    /// The maximum duration of one check. 1ms to 1m.
    #[key(
        example = "\"1s\"",
        default = Duration::from_secs(1),
        reader = DurationIn(Duration::from_millis(1)..=Duration::from_secs(60))
    )]
    pub timeout: Duration,
    /// Failures in a row before a server is taken out. 1 to 100.
    #[key(example = "2", default = 2, reader = IntegerIn(1..=100))]
    pub unhealthy_after: usize,
    /// Successes in a row before it is put back. 1 to 100.
    #[key(example = "1", default = 1, reader = IntegerIn(1..=100))]
    pub healthy_after: usize,
}

fn warn_of_host_without_path(keys: &HealthRulesKeys, section: &TableSection<'_>) -> Option<()> {
    if let (Some(None), Some(Some(_))) = (&keys.path, &keys.host) {
        section.report.warning(
            &section.place,
            "without a path a check only connects, and sends no Host",
            "write path = \"/healthz\", or leave out the host",
        );
    }
    Some(())
}

/// A path with or without a query, as a request line has it.
fn health_path(text: &str) -> Result<Arc<str>, ParseError> {
    let sendable = text
        .bytes()
        .all(|byte| byte.is_ascii_graphic() && byte != b'#');
    let parsed = text.parse::<http::uri::PathAndQuery>();
    if text.starts_with('/') && sendable && parsed.is_ok() {
        return Ok(text.into());
    }
    Err(ParseError::new(format!(
        "{} is not a path to ask for",
        quoted(text)
    )))
}

fn health_host(text: &str) -> Result<Arc<str>, ParseError> {
    host::sent(text).map(|_| Arc::from(text))
}
