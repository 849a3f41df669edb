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
/// The shortest default of `tunnel`.
const TUNNEL: Duration = Duration::from_secs(3_600);
/// Statuses that a check may take for healthy.
const HEALTHY: RangeInclusive<u64> = 100..=599;

/// The maximum durations of the steps of a request to the origin. 1ms to 1d.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
#[table(path = "origin.NAME.timeouts")]
pub struct OriginTimeouts {
    /// Connecting.
    #[key(example = "\"2s\"", default = Duration::from_secs(2), reader = DurationIn(TIMEOUT))]
    pub connect: Duration,
    /// Waiting for the next bytes of a response. A gRPC or event stream that is silent for longer is ended, so set a larger value for such
    /// an origin.
    #[key(example = "\"30s\"", default = Duration::from_secs(30), reader = DurationIn(TIMEOUT))]
    pub read: Duration,
    /// Writing the next bytes of a request.
    #[key(example = "\"30s\"", default = Duration::from_secs(30), reader = DurationIn(TIMEOUT))]
    pub write: Duration,
    /// The whole response. Upgraded connections are exempt. Default: no bound.
    #[key(example = "\"2m\"", shown = "\"5m\"", reader = DurationIn(TIMEOUT))]
    pub total: Option<Duration>,
    /// The time for which an idle connection to the origin is kept. Default: until the origin closes it, or a second before the time
    /// that it announces with Keep-Alive: timeout=; TCP keep-alive detects a dead peer.
    #[key(example = "\"60s\"", reader = DurationIn(TIMEOUT))]
    pub idle: Option<Duration>,
    /// The time after which an upgraded connection, such as a WebSocket, on which neither side sends a byte is ended. `read` and `write` do
    /// not apply to it. Default: 1h, or `read` where that is longer.
    #[key(example = "\"1h\"", reader = DurationIn(TIMEOUT))]
    pub tunnel: Option<Duration>,
}

impl OriginTimeouts {
    /// Returns the longest silence of an upgraded connection.
    #[must_use]
    pub fn longest_tunnel_silence(&self) -> Duration {
        self.tunnel.unwrap_or(TUNNEL.max(self.read))
    }
}

/// Active health checks. With this table the defaults below apply. Default: none, every server is in use.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
#[table(path = "origin.NAME.health", check = warn_of_host_without_path)]
pub struct HealthRules {
    /// The path of a GET request. Default: none; a server is healthy when it accepts a connection, and with TLS when its certificate is
    /// valid too. Checks use the protocol of requests.
    #[key(example = "\"/healthz\"", reader = ParsedText(health_path))]
    pub path: Option<Arc<str>>,
    /// Statuses of healthy responses, and ranges of them.
    #[key(
        example = "[\"200-399\"]",
        default = vec![200..=399],
        reader = ListOf(|element| resilience::statuses(element, HEALTHY), HEALTHY)
    )]
    pub statuses: Vec<RangeInclusive<u16>>,
    /// Host of the check. Default: the name of the origin.
    #[key(example = "\"app.internal\"", reader = ParsedText(health_host))]
    pub host: Option<Arc<str>>,
    /// Time between two checks, with a jitter of a tenth. 10ms to 1h.
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
    /// Consecutive failures after which a server is out of use. 1 to 100.
    #[key(example = "2", default = 2, reader = IntegerIn(1..=100))]
    pub unhealthy_after: usize,
    /// Consecutive successes after which it is in use again. 1 to 100.
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
