//! Makes the metrics of origins and their servers from samples.

use sluicegate_telemetry::exposition::{SampleValue, SampledFamily};

use super::origin_view::{OriginView, ServerView};
use sluicegate_origin::request_failure::FailureKind;
use sluicegate_origin::{AttemptOutcome, ServerStatus};

/// Returns the metrics of origins.
pub(super) fn families(origins: &[OriginView]) -> impl Iterator<Item = SampledFamily> {
    let servers = server_families(origins).into_iter();
    servers.chain(origin_families(origins))
}

fn server_families(origins: &[OriginView]) -> [SampledFamily; 12] {
    [
        of_servers(
            origins,
            SampledFamily::gauge(
                "sluicegate_origin_server_up",
                "Whether requests are sent to a server of an origin.",
            ),
            |server| Some(u64::from(server.state.is_asked())),
        ),
        states(origins),
        of_servers(
            origins,
            SampledFamily::gauge(
                "sluicegate_origin_server_in_flight",
                "Tries that are under way at a server.",
            ),
            |server| Some(u64::from(server.in_flight)),
        ),
        of_servers(
            origins,
            SampledFamily::gauge(
                "sluicegate_origin_server_connections",
                "Connections that are open to a server for requests, in use or idle, where max_connections bounds them.",
            ),
            |server| server.connections.map(u64::from),
        ),
        of_servers(
            origins,
            SampledFamily::gauge(
                "sluicegate_origin_concurrency_limit",
                "Requests that may wait for a response of a server, as adaptive_concurrency finds them.",
            ),
            |server| server.limit.map(|limit| u64::from(limit.most)),
        ),
        of_servers(
            origins,
            SampledFamily::gauge(
                "sluicegate_origin_concurrency_limit_min",
                "The least that the limit of adaptive_concurrency can become, min.",
            ),
            |server| server.limit.map(|limit| u64::from(limit.least)),
        ),
        of_servers(
            origins,
            SampledFamily::gauge(
                "sluicegate_origin_concurrency_waiting",
                "Requests that wait for a response of a server, where adaptive_concurrency limits them.",
            ),
            |server| server.limit.map(|limit| u64::from(limit.waiting)),
        ),
        of_servers(
            origins,
            SampledFamily::gauge(
                "sluicegate_origin_baseline_latency_seconds",
                "Time to the head of a response of a server without a queue, by which adaptive_concurrency judges.",
            ),
            |server| Some(server.limit?.baseline?.as_secs_f64()),
        ),
        attempts(origins),
        failures(origins),
        of_servers(
            origins,
            SampledFamily::counter(
                "sluicegate_origin_server_ejections_total",
                "How often a server was left alone for a while because it failed requests.",
            ),
            |server| Some(server.ejections),
        ),
        of_servers(
            origins,
            SampledFamily::counter(
                "sluicegate_origin_server_health_changes_total",
                "How often checks took a server out of use or put it back.",
            ),
            |server| Some(server.health_changes),
        ),
    ]
}

fn origin_families(origins: &[OriginView]) -> [SampledFamily; 6] {
    [
        of_origins(
            origins,
            SampledFamily::counter(
                "sluicegate_origin_retries_total",
                "Requests that were tried again.",
            ),
            |origin| origin.retries,
        ),
        of_origins(
            origins,
            SampledFamily::counter(
                "sluicegate_origin_retry_budget_exhausted_total",
                "Requests that were not tried again for want of budget.",
            ),
            |origin| origin.retries_not_granted,
        ),
        of_origins(
            origins,
            SampledFamily::gauge(
                "sluicegate_origin_pending",
                "Requests that wait for a place at a server.",
            ),
            |origin| u64::from(origin.pending),
        ),
        of_origins(
            origins,
            SampledFamily::counter(
                "sluicegate_origin_circuit_refused_total",
                "Requests that found no place at a server.",
            ),
            |origin| origin.refused,
        ),
        of_origins(
            origins,
            SampledFamily::counter(
                "sluicegate_origin_pending_displaced_total",
                "Requests that waited for a server and gave way to others, as queue_order says.",
            ),
            |origin| origin.displaced,
        ),
        of_origins(
            origins,
            SampledFamily::gauge(
                "sluicegate_origin_names_unresolved",
                "Names of servers that did not resolve when they were last looked up.",
            ),
            |origin| origin.unresolved as u64,
        ),
    ]
}

/// Adds a sample for each server that has the value to `family`.
fn of_servers<V: Into<SampleValue>>(
    origins: &[OriginView],
    mut family: SampledFamily,
    value: fn(&ServerView) -> Option<V>,
) -> SampledFamily {
    for origin in origins {
        for server in &origin.servers {
            if let Some(value) = value(server) {
                let address = server.address.to_string();
                let labels = [("origin", &*origin.name), ("server", &*address)];
                family.push(&labels, value);
            }
        }
    }
    family
}

/// Adds a sample for each origin to `family`.
fn of_origins(
    origins: &[OriginView],
    mut family: SampledFamily,
    value: fn(&OriginView) -> u64,
) -> SampledFamily {
    for origin in origins {
        family.push(&[("origin", &*origin.name)], value(origin));
    }
    family
}

/// Adds a series for each state of each server: 1 for the state that it has, 0 for the others.
fn states(origins: &[OriginView]) -> SampledFamily {
    let mut family = SampledFamily::gauge(
        "sluicegate_origin_server_state",
        "Whether a server of an origin has this state.",
    );
    for origin in origins {
        for server in &origin.servers {
            let address = server.address.to_string();
            for state in ServerStatus::ALL {
                let labels = [
                    ("origin", &*origin.name),
                    ("server", &*address),
                    ("state", state.as_str()),
                ];
                family.push(&labels, state == server.state);
            }
        }
    }
    family
}

/// Adds series for outcomes; those that never occurred have none.
fn attempts(origins: &[OriginView]) -> SampledFamily {
    let mut family = SampledFamily::counter(
        "sluicegate_origin_attempts_total",
        "Tries at a server, by what came of them.",
    );
    for origin in origins {
        for server in &origin.servers {
            let address = server.address.to_string();
            for (outcome, count) in AttemptOutcome::ALL.into_iter().zip(server.outcomes) {
                if count > 0 {
                    let labels = [
                        ("origin", &*origin.name),
                        ("server", &*address),
                        ("outcome", outcome.as_str()),
                    ];
                    family.push(&labels, count);
                }
            }
        }
    }
    family
}

/// Adds series for kinds of failures; those that never occurred have none. `server` is empty where no server is to blame.
fn failures(origins: &[OriginView]) -> SampledFamily {
    let mut family = SampledFamily::counter(
        "sluicegate_origin_failures_total",
        "Failures of requests at an origin, by cause.",
    );
    let mut push = |origin: &str, server: &str, counts: &[u64]| {
        for (kind, count) in FailureKind::ALL.into_iter().zip(counts) {
            if *count > 0 {
                let labels = [
                    ("origin", origin),
                    ("server", server),
                    ("failure", kind.as_str()),
                ];
                family.push(&labels, *count);
            }
        }
    };
    for origin in origins {
        push(&origin.name, "", &origin.failures);
        for server in &origin.servers {
            push(&origin.name, &server.address.to_string(), &server.failures);
        }
    }
    family
}
