//! Computes what happens a second from two samples of a gateway.

use std::cmp::Ordering;

use serde::Serialize;
use sluicegate_base::clock;

use super::sample::{
    ConditionStatus, GatewaySample, LatencyStatus, ProblemStatus, RequestResults, ScrapedLimit,
    ScrapedServer, ServerError, ServerLimitStatus,
};
use sluicegate_decide::admission::ScaledRates;

/// A gateway between two samples.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct GatewayView {
    /// The running version.
    pub version: String,
    /// Seconds since the start of the process.
    pub uptime: u64,
    /// Requests in flight.
    pub requests_in_flight: u64,
    /// Requests since the start, and a second.
    pub requests: CountRate,
    /// Requests that were rejected.
    pub rejected: CountRate,
    /// Requests that the gateway answered with 5xx.
    pub failed_by_gateway: CountRate,
    /// Requests that an origin answered with 5xx.
    pub failed_by_origins: CountRate,
    /// Requests whose client left.
    pub clients_gone: CountRate,
    /// Durations of the last seconds; `None` without requests.
    pub latency_ms: Option<LatencyStatus>,
    /// The problems of the gateway, the heaviest first.
    pub problems: Vec<ProblemStatus>,
    /// The number of problems that are left out.
    pub problems_omitted: usize,
    /// Every limit; those that reject most first.
    pub limits: Vec<LimitRow>,
    /// Every server of every origin.
    pub servers: Vec<ServerRow>,
}

/// A counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct CountRate {
    /// Since the start of the process.
    pub total: f64,
    /// A second; `None` where there is one sample only, or the process has started anew.
    pub per_second: Option<f64>,
}

/// A limit.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LimitRow {
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
    /// Its condition, and those of its tiers.
    pub conditions: Vec<ConditionStatus>,
    /// Active keys.
    pub keys: u64,
    /// Keys that its table is made for.
    pub capacity: u64,
    /// Requests that were charged.
    pub admitted: CountRate,
    /// Requests that were rejected.
    pub rejected: CountRate,
    /// Requests that a limit or rates in shadow would have rejected.
    pub shadow_rejected: CountRate,
    /// Decisions by shared counters.
    pub overflow: CountRate,
}

/// A server of an origin.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ServerRow {
    /// The origin.
    pub origin: String,
    /// The address.
    pub address: String,
    /// Its state.
    pub state: String,
    /// Attempts in flight.
    pub in_flight: u64,
    /// Its adaptive concurrency limit; `None` where its origin has none.
    pub limit: Option<ServerLimitStatus>,
    /// Requests that wait for a server of the origin.
    pub pending: u64,
    /// Attempts.
    pub attempts: CountRate,
    /// Attempts that failed or were answered with 5xx.
    pub errors: CountRate,
    /// The latest failure.
    pub last_error: Option<ServerError>,
}

impl ServerRow {
    /// Returns whether the server is in use and its requests succeed.
    #[must_use]
    pub fn is_well(&self) -> bool {
        matches!(&*self.state, "up" | "unchecked")
    }
}

/// Two samples of one process, or only the later.
struct SamplePair<'a> {
    before: Option<&'a GatewaySample>,
    now: &'a GatewaySample,
}

impl SamplePair<'_> {
    /// Returns a counter of both samples.
    fn rate(&self, count: impl Fn(&GatewaySample) -> f64) -> CountRate {
        let total = count(self.now);
        let per_second = self.before.and_then(|before| {
            let seconds = clock::between(before.at, self.now.at).as_secs_f64();
            let grown = total - count(before);
            (seconds > 0.0 && grown >= 0.0).then(|| grown / seconds)
        });
        CountRate { total, per_second }
    }

    fn result(&self, count: fn(&RequestResults) -> u64) -> CountRate {
        self.rate(|sample| count(&sample.status.requests) as f64)
    }

    fn limit(&self, name: &str, count: fn(&ScrapedLimit) -> f64) -> CountRate {
        self.rate(|sample| sample.limits.get(name).map_or(0.0, count))
    }

    fn server(&self, server: &(String, String), count: fn(&ScrapedServer) -> f64) -> CountRate {
        self.rate(|sample| sample.servers.get(server).map_or(0.0, count))
    }
}

impl GatewayView {
    /// Compares two samples.
    #[must_use]
    pub fn between(before: Option<&GatewaySample>, now: &GatewaySample) -> Self {
        // Another start of the process: its counters began at zero.
        let before = before.filter(|before| before.status.started == now.status.started);
        let pair = SamplePair { before, now };
        let status = &now.status;
        let limits = status.limits.iter().map(|limit| LimitRow {
            name: limit.name.clone(),
            key: limit.key.clone(),
            rates: limit.rates.clone(),
            scaled: limit.scaled.clone(),
            action: limit.shown_action(),
            conditions: limit.conditions.clone(),
            keys: limit.keys,
            capacity: limit.capacity,
            admitted: pair.limit(&limit.name, |counts| counts.admitted),
            rejected: pair.limit(&limit.name, |counts| counts.rejected),
            shadow_rejected: pair.limit(&limit.name, |counts| counts.shadow_rejected),
            overflow: pair.limit(&limit.name, |counts| counts.overflow),
        });
        let mut limits: Vec<LimitRow> = limits.collect();
        limits.sort_by(LimitRow::by_rejections);
        let servers = status.origins.iter().flat_map(|origin| {
            let pair = &pair;
            origin.servers.iter().map(move |server| {
                let name = (origin.name.clone(), server.address.clone());
                ServerRow {
                    attempts: pair.server(&name, |counts| counts.attempts),
                    errors: pair.server(&name, |counts| counts.errors),
                    origin: name.0,
                    address: name.1,
                    state: server.state.clone(),
                    in_flight: server.in_flight,
                    limit: server.limit,
                    pending: origin.pending,
                    last_error: server.last_error.clone(),
                }
            })
        });
        Self {
            version: status.version.clone(),
            uptime: status.uptime,
            requests_in_flight: status.requests_in_flight,
            requests: pair.rate(|sample| sample.requests),
            rejected: pair.result(|requests| requests.rejected),
            failed_by_gateway: pair.result(|requests| requests.failed_by_gateway),
            failed_by_origins: pair.result(|requests| requests.failed_by_origins),
            clients_gone: pair.result(|requests| requests.clients_gone),
            latency_ms: status.recent.latency_ms,
            problems: status.problems.clone(),
            problems_omitted: status.problems_omitted,
            servers: servers.collect(),
            limits,
        }
    }
}

impl LimitRow {
    /// Orders limits: those that reject most a second, then those that would, then those that admit most, then by name.
    fn by_rejections(one: &Self, other: &Self) -> Ordering {
        let busy = |row: &Self| {
            [row.rejected, row.shadow_rejected, row.admitted]
                .map(|count| count.per_second.unwrap_or(0.0))
        };
        let by_count = busy(other).into_iter().zip(busy(one));
        let first = by_count.map(|(other, one)| other.total_cmp(&one));
        let first = first.fold(Ordering::Equal, Ordering::then);
        first.then_with(|| one.name.cmp(&other.name))
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::tests::sampled;
    use super::*;

    /// Goal: rates are differences over the time between two samples. Method: two samples five seconds apart; one alone; one of another
    /// process.
    #[test]
    fn rates_are_differences_of_counters() {
        let (first, second) = (sampled(10, 100.0), sampled(15, 150.0));
        let view = GatewayView::between(Some(&first), &second);
        assert_eq!(
            (view.requests.total, view.requests.per_second),
            (150.0, Some(10.0))
        );
        let otp = &view.limits[0];
        assert_eq!(otp.name, "otp");
        assert_eq!(
            (otp.admitted.per_second, otp.rejected.per_second),
            (Some(10.0), Some(5.0))
        );
        assert_eq!(otp.overflow.per_second, Some(0.0));
        assert_eq!(view.servers[0].attempts.per_second, Some(10.0));
        assert_eq!(view.servers[1].errors.total, 6.0);

        let alone = GatewayView::between(None, &first);
        assert_eq!(alone.requests.per_second, None);
        let mut restarted = sampled(20, 7.0);
        restarted.status.started = "2026-11-25T10:00:00.000Z".to_owned();
        let view = GatewayView::between(Some(&second), &restarted);
        assert_eq!((view.requests.total, view.requests.per_second), (7.0, None));
    }

    /// Goal: what rejects is on top. Method: a limit in shadow that begins to reject more than the other.
    #[test]
    fn limits_that_reject_most_come_first() {
        let (first, mut second) = (sampled(10, 100.0), sampled(15, 100.0));
        if let Some(search) = second.limits.get_mut("search") {
            search.shadow_rejected += 50.0;
        }
        let view = GatewayView::between(Some(&first), &second);
        let names: Vec<_> = view.limits.iter().map(|limit| &*limit.name).collect();
        assert_eq!(names, ["search", "otp"]);
    }
}
