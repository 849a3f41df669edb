//! Owns what a gateway says of itself at one moment: `/status`, and the counters of `/metrics` by limit and by server.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sluicegate_limiter::Timestamp;

use super::scrape::samples;
use sluicegate_decide::admission::ScaledRates;

/// A gateway at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GatewaySample {
    /// The time of the sample, by the clock of this machine.
    pub at: Timestamp,
    /// `/status`.
    pub status: GatewayStatus,
    /// Requests since the start of the process.
    pub requests: f64,
    /// The counters of each limit.
    pub limits: BTreeMap<String, ScrapedLimit>,
    /// The counters of each server, by origin and address.
    pub servers: BTreeMap<(String, String), ScrapedServer>,
}

/// The counters of a limit, over all routes, since the start of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ScrapedLimit {
    /// Requests that were charged, in shadow too.
    pub admitted: f64,
    /// Requests that were rejected, by the rates or otherwise.
    pub rejected: f64,
    /// Requests that a limit or rates in shadow would have rejected.
    pub shadow_rejected: f64,
    /// Decisions by counters that several keys share, since the table is full.
    pub overflow: f64,
}

/// The counters of a server, since the start of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ScrapedServer {
    /// Attempts.
    pub attempts: f64,
    /// Attempts that failed, and those that were answered with 5xx.
    pub errors: f64,
}

/// The parts of `/status` that are shown. What an older gateway does not say is empty.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct GatewayStatus {
    /// The running version.
    pub version: String,
    /// The start of the process; another one says that counters began anew.
    pub started: String,
    /// Seconds since then.
    pub uptime: u64,
    /// Requests in flight.
    pub requests_in_flight: u64,
    /// Requests since the start, by result.
    pub requests: RequestResults,
    /// The requests of the last seconds.
    pub recent: RecentStatus,
    /// The problems of the gateway, the heaviest first.
    pub problems: Vec<ProblemStatus>,
    /// The number of problems that are left out.
    pub problems_omitted: usize,
    /// Every limit.
    pub limits: Vec<LimitStatus>,
    /// Every origin.
    pub origins: Vec<OriginStatus>,
}

/// Numbers of requests by their result in `/status`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct RequestResults {
    /// Requests that were rejected.
    pub rejected: u64,
    /// Requests that the gateway answered with 5xx.
    pub failed_by_gateway: u64,
    /// Requests that an origin answered with 5xx.
    pub failed_by_origins: u64,
    /// Requests whose client left.
    pub clients_gone: u64,
}

/// The requests of the last seconds in `/status`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct RecentStatus {
    /// Their durations; `None` without requests.
    pub latency_ms: Option<LatencyStatus>,
}

/// Percentiles of durations in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct LatencyStatus {
    /// The median.
    pub p50: f64,
    /// The duration that nine of ten requests do not exceed.
    pub p90: f64,
    /// The duration that 99 of a hundred requests do not exceed.
    pub p99: f64,
}

/// A problem in `/status`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct ProblemStatus {
    /// `critical` or `warning`.
    pub severity: String,
    /// The part of the gateway that it is about.
    pub kind: String,
    /// The name of that part; empty where there is one only.
    pub name: String,
    /// The sentence that says what is wrong.
    pub sentence: String,
    /// The address of the entry in the runbook.
    pub runbook: String,
}

/// A limit in `/status`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct LimitStatus {
    /// Its name.
    pub name: String,
    /// Its key.
    pub key: String,
    /// Its rates in force.
    pub rates: Vec<String>,
    /// The temporary rule that multiplied them; `None` where they are those of the configuration.
    pub scaled: Option<ScaledRates>,
    /// Its action.
    pub action: String,
    /// Active keys.
    pub keys: u64,
    /// Keys that its table is made for.
    pub capacity: u64,
    /// Its condition, and those of its tiers.
    pub conditions: Vec<ConditionStatus>,
}

/// The condition of a limit or a tier in `/status`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct ConditionStatus {
    /// The tier; `None` where it is the limit itself.
    pub tier: Option<String>,
    /// The condition.
    pub when: String,
    /// True if the limit or the tier applies.
    pub active: bool,
    /// The time of the latest change.
    pub since: Option<String>,
}

impl LimitStatus {
    /// Returns the action, or `idle` while the limit's own condition does not make it apply.
    pub(super) fn shown_action(&self) -> String {
        let own = self
            .conditions
            .iter()
            .find(|condition| condition.tier.is_none());
        match own {
            Some(condition) if !condition.active => "idle".to_owned(),
            _ => self.action.clone(),
        }
    }
}

/// An origin in `/status`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct OriginStatus {
    /// Its name.
    pub name: String,
    /// Its servers.
    pub servers: Vec<OriginServerStatus>,
    /// Requests that wait for a server.
    pub pending: u64,
}

/// A server in `/status`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct OriginServerStatus {
    /// Its address.
    pub address: String,
    /// `up`, `unchecked`, `failing`, `down`, `ejected`, `draining`, `slow-start`.
    pub state: String,
    /// Attempts in flight.
    pub in_flight: u64,
    /// Its adaptive concurrency limit; `None` where its origin has none.
    pub limit: Option<ServerLimitStatus>,
    /// The latest attempt that failed.
    pub last_error: Option<ServerError>,
}

/// The adaptive concurrency limit of a server in `/status`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct ServerLimitStatus {
    /// The limit in force.
    pub requests: u64,
    /// The least that it can become.
    pub min: u64,
    /// Requests that wait for the head of their response.
    pub waiting: u64,
    /// The latency of the server without a queue, in milliseconds; `None` before it was measured.
    pub baseline_ms: Option<f64>,
}

/// The latest failure of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct ServerError {
    /// Its time.
    pub at: String,
    /// Its kind.
    pub failure: String,
    /// Its cause.
    pub reason: String,
}

/// The outcomes of attempts that are errors.
const ERRORS: [&str; 4] = ["5xx", "connect", "timeout", "reset"];

impl GatewaySample {
    /// Reads the pages of one moment.
    ///
    /// # Errors
    /// `/status` is not that of a gateway.
    pub fn parse(at: Timestamp, status: &str, metrics: &str) -> Result<Self, serde_json::Error> {
        let mut sample = Self {
            at,
            status: serde_json::from_str(status)?,
            ..Self::default()
        };
        for metric in samples(metrics) {
            sample.add(metric.name, metric.value, |label| metric.label(label));
        }
        Ok(sample)
    }

    fn add(&mut self, name: &str, value: f64, label: impl Fn(&str) -> String) {
        let add: fn(&mut ScrapedLimit, f64) = match name {
            "sluicegate_requests_total" => {
                self.requests += value;
                return;
            }
            "sluicegate_origin_attempts_total" => {
                let server = (label("origin"), label("server"));
                let totals = self.servers.entry(server).or_default();
                totals.attempts += value;
                if ERRORS.contains(&&*label("outcome")) {
                    totals.errors += value;
                }
                return;
            }
            "sluicegate_limit_admitted_total" | "sluicegate_limit_shadow_admitted_total" => {
                |totals, value| totals.admitted += value
            }
            "sluicegate_limit_refused_total"
            | "sluicegate_limit_challenged_total"
            | "sluicegate_limit_banned_total"
            | "sluicegate_limit_blocked_total"
            | "sluicegate_limit_concurrency_refused_total"
            | "sluicegate_limit_store_unavailable_total" => {
                |totals, value| totals.rejected += value
            }
            "sluicegate_limit_shadow_refused_total"
            | "sluicegate_limit_shadow_rates_refused_total" => {
                |totals, value| totals.shadow_rejected += value
            }
            "sluicegate_limit_overflow_decisions_total" => |totals, value| totals.overflow += value,
            _ => return,
        };
        add(self.limits.entry(label("limit")).or_default(), value);
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A gateway with two limits and one origin, after so many seconds and requests of each limit.
    pub(crate) fn sampled(seconds: u64, requests: f64) -> GatewaySample {
        let status = r#"{
            "version": "0.1.0", "started": "2026-11-25T08:00:00.000Z", "uptime": 90061, "requests_in_flight": 3, "new": [1],
            "requests": { "all": 0, "rejected": REJECTED, "failed_by_gateway": FAILED, "failed_by_origins": SECONDS, "clients_gone": 4 },
            "recent": { "seconds": 10.0, "latency_ms": { "p50": 1.24, "p90": 1.5, "p99": 2500.0 } },
            "limits": [
                { "name": "otp", "key": "client.ip/32,/64", "rates": ["5 per 3s", "20 per 1m"], "action": "reject", "keys": 512,
                  "capacity": 1024 },
                { "name": "search", "key": "header.x-api-key", "rates": ["100 per 1s"], "action": "shadow", "keys": 7,
                  "capacity": 262144, "conditions": [
                    { "tier": null, "when": "origin.app.p99 > 500ms", "active": true, "since": "2026-11-25T08:58:00.000Z", "activated": 3 },
                    { "tier": "free", "when": "connections > 1000", "active": false, "since": null, "activated": 0 } ] }
            ],
            "origins": [ { "name": "app", "pending": 0, "servers": [
                { "address": "127.0.0.1:3000", "state": "up", "in_flight": 2, "last_error": null,
                  "limit": { "requests": 34, "min": 4, "waiting": 31, "baseline_ms": 48.25 } },
                { "address": "127.0.0.1:3001", "state": "down", "in_flight": 0,
                  "last_error": { "at": "2026-11-25T08:59:00.000Z", "failure": "connect", "reason": "connection refused" } }
            ] } ]
        }"#;
        let status = status
            .replace("REJECTED", &((requests / 2.0) as u64).to_string())
            .replace("FAILED", &(2 * seconds).to_string())
            .replace("SECONDS", &seconds.to_string());
        let metrics = format!(
            "# TYPE sluicegate_requests_total counter\n\
             sluicegate_requests_total{{route=\"/a\",status=\"200\"}} {requests}\n\
             sluicegate_limit_admitted_total{{route=\"/a\",limit=\"otp\"}} {requests}\n\
             sluicegate_limit_admitted_total{{route=\"/b\",limit=\"otp\"}} 10\n\
             sluicegate_limit_refused_total{{route=\"/a\",limit=\"otp\"}} {}\n\
             sluicegate_limit_banned_total{{route=\"/a\",limit=\"otp\"}} 1\n\
             sluicegate_limit_challenged_total{{route=\"/c\",limit=\"otp\"}} 2\n\
             sluicegate_limit_shadow_refused_total{{route=\"/a\",limit=\"search\"}} 4\n\
             sluicegate_limit_overflow_decisions_total{{limit=\"otp\"}} 0\n\
             sluicegate_origin_attempts_total{{origin=\"app\",server=\"127.0.0.1:3000\",outcome=\"2xx\"}} {requests}\n\
             sluicegate_origin_attempts_total{{origin=\"app\",server=\"127.0.0.1:3001\",outcome=\"connect\"}} 6\n",
            requests / 2.0,
        );
        GatewaySample::parse(Timestamp::from_secs(seconds), &status, &metrics).expect("a status")
    }

    /// Goal: counters are added over the routes, rejections over their reasons. Method: a status and a scrape.
    #[test]
    fn counters_are_added_by_limit_and_by_server() {
        let sample = sampled(0, 100.0);
        assert_eq!(sample.requests, 100.0);
        let otp = sample.limits["otp"];
        assert_eq!(
            (otp.admitted, otp.rejected, otp.overflow),
            (110.0, 53.0, 0.0)
        );
        assert_eq!(sample.limits["search"].shadow_rejected, 4.0);
        let server = |address: &str| sample.servers[&("app".to_owned(), address.to_owned())];
        assert_eq!(server("127.0.0.1:3000").errors, 0.0);
        assert_eq!(
            (
                server("127.0.0.1:3001").attempts,
                server("127.0.0.1:3001").errors
            ),
            (6.0, 6.0)
        );
        assert_eq!(sample.status.origins[0].servers[1].state, "down");
        assert!(GatewaySample::parse(Timestamp::from_secs(0), "ok", "").is_err());
    }
}
