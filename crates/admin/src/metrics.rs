//! Collects the families of `/metrics` and of the OpenTelemetry collector: those of the recorder, and those that are sampled at the scrape.

use http::StatusCode;
use sluicegate_decide::state::DirectoryHealth;
use sluicegate_telemetry::exposition::{self, CONTENT_TYPE, SampledFamily};

use super::certificates::expiry;
use super::configuration::ConfigurationView;
use super::limit_view::{BansView, LimitView, PermitsView};
use super::page::AdminPage;
use super::problems::{OperatingProblem, ProblemKind};
use super::snapshot::{AdminSnapshot, ProcessTimes};
use super::{
    acme, cache, connections, crawler_look_ups, origin_metrics, pending_writes, replication, rules,
    store,
};
#[cfg(feature = "otlp")]
use sluicegate_process::GatewayProcess;
use sluicegate_record::families as recorded;

/// Returns the page of `/metrics`.
pub(super) fn page(sampled: AdminSnapshot<'_>) -> AdminPage {
    let text = exposition::text(families(sampled));
    AdminPage::new(StatusCode::OK, CONTENT_TYPE, text)
}

/// Takes a sample of the metrics for the OpenTelemetry collector.
#[cfg(feature = "otlp")]
pub fn export_metrics(process: &GatewayProcess) {
    let exports = &process.shared.recorder.exports;
    exports.append_metrics(families(AdminSnapshot::new(process)));
}

/// Returns the families of `/metrics`.
fn families(sampled: AdminSnapshot<'_>) -> Vec<SampledFamily> {
    let mut all = recorded::families(sampled.recorder);
    all.extend(connections::families(&sampled.connections));
    all.extend(tables(&sampled.limits));
    all.extend(pressure(&sampled.limits));
    all.extend(bans(&sampled.limits));
    all.extend(in_flight(&sampled.limits));
    all.extend(activations(&sampled.limits));
    all.push(reserves(&sampled.limits));
    all.push(problems(&sampled.problems));
    all.push(rules::family(&sampled.rules));
    all.extend(configuration(&sampled.configuration));
    all.extend(databases(&sampled.configuration));
    all.extend(state(sampled.times, sampled.state));
    all.extend(store::families(sampled.store));
    all.extend(pending_writes::families(sampled.remote_writes));
    all.extend(replication::families(sampled.replication));
    all.extend(cache::families(sampled.cache));
    all.extend(acme::families(sampled.acme));
    all.extend(crawler_look_ups::families(sampled.crawler_look_ups));
    all.push(expiry(&sampled.certificates, sampled.times.wall));
    all.extend(origin_metrics::families(&sampled.origins));
    all
}

/// Returns the metrics of the size of each limit's table.
fn tables(limits: &[LimitView]) -> [SampledFamily; 3] {
    [
        of_limits(
            limits,
            SampledFamily::gauge("sluicegate_limit_keys", "Keys that owe something, sampled."),
            |limit| limit.keys,
        ),
        of_limits(
            limits,
            SampledFamily::gauge(
                "sluicegate_limit_slots",
                "Keys that fit in the limit's table.",
            ),
            |limit| limit.slots,
        ),
        of_limits(
            limits,
            SampledFamily::gauge(
                "sluicegate_limit_bytes",
                "Memory of the limit's table, in bytes.",
            ),
            |limit| limit.bytes,
        ),
    ]
}

/// Returns the metrics that show whether the tables are large enough, and whether they outlive the process.
fn pressure(limits: &[LimitView]) -> [SampledFamily; 5] {
    [
        of_limits(
            limits,
            SampledFamily::counter(
                "sluicegate_limit_overflow_decisions_total",
                "Decisions over keys that were counted together because the table was full: raise capacity.",
            ),
            |limit| limit.overflow_decisions,
        ),
        of_limits(
            limits,
            SampledFamily::counter(
                "sluicegate_limit_overflow_refused_total",
                "Those of them that refused.",
            ),
            |limit| limit.overflow_refused,
        ),
        of_limits(
            limits,
            SampledFamily::counter(
                "sluicegate_limit_share_refused_total",
                "Refusals of new keys whose client had taken more than its share of the slots.",
            ),
            |limit| limit.share.as_ref().map_or(0, |share| share.refused),
        ),
        of_limits(
            limits,
            SampledFamily::counter(
                "sluicegate_limit_slots_reused_total",
                "Slots given to another key once their own owed nothing.",
            ),
            |limit| limit.slots_reused,
        ),
        of_limits(
            limits,
            SampledFamily::gauge(
                "sluicegate_limit_persistent",
                "Whether the limit's counters outlive the process.",
            ),
            |limit| u64::from(limit.persistence.file().is_some()),
        ),
    ]
}

/// Adds a sample for each limit to `family`.
fn of_limits(
    limits: &[LimitView],
    mut family: SampledFamily,
    value: fn(&LimitView) -> u64,
) -> SampledFamily {
    for limit in limits {
        family.push(&[("limit", &*limit.name)], value(limit));
    }
    family
}

/// Returns the metrics of limits and tiers with conditions; the label `tier` is empty for a limit itself.
fn activations(limits: &[LimitView]) -> [SampledFamily; 2] {
    let mut active = SampledFamily::gauge(
        "sluicegate_limit_active",
        "Whether the condition of a limit, or of one of its tiers, makes it apply.",
    );
    let mut changes = SampledFamily::counter(
        "sluicegate_limit_activation_changes_total",
        "How often the condition of a limit, or of one of its tiers, made it active or inactive.",
    );
    let each =
        (limits.iter()).flat_map(|limit| limit.activations.iter().map(move |one| (limit, one)));
    for (limit, one) in each {
        let labels = [
            ("limit", &*limit.name),
            ("tier", one.tier.as_deref().unwrap_or("")),
        ];
        active.push(&labels, u64::from(one.active));
        for (to, count) in [("active", one.activated), ("inactive", one.deactivated)] {
            changes.push(&[labels[0], labels[1], ("to", to)], count);
        }
    }
    [active, changes]
}

/// Returns the metrics of limits with `ban`.
fn bans(limits: &[LimitView]) -> [SampledFamily; 4] {
    let each = |mut family: SampledFamily, value: fn(&BansView) -> u64| {
        for limit in limits {
            if let Some(bans) = &limit.bans {
                family.push(&[("limit", &*limit.name)], value(bans));
            }
        }
        family
    };
    [
        each(
            SampledFamily::counter("sluicegate_limit_bans_total", "Bans that began."),
            |bans| bans.tallies.begun,
        ),
        each(
            SampledFamily::counter(
                "sluicegate_limit_bans_not_kept_total",
                "Refusals that would have begun a ban, had there been room to remember it: raise capacity.",
            ),
            |bans| bans.tallies.not_kept,
        ),
        each(
            SampledFamily::gauge(
                "sluicegate_limit_ban_keys",
                "Keys that are banned, or whose bans are remembered, sampled.",
            ),
            |bans| bans.keys,
        ),
        each(
            SampledFamily::gauge(
                "sluicegate_limit_bans_persistent",
                "Whether the limit's bans outlive the process.",
            ),
            |bans| u64::from(bans.persistence.file().is_some()),
        ),
    ]
}

/// Returns the metrics of limits with `concurrency`.
fn in_flight(limits: &[LimitView]) -> [SampledFamily; 2] {
    let each = |mut family: SampledFamily, value: fn(&PermitsView) -> u64| {
        for limit in limits {
            if let Some(permits) = &limit.permits {
                family.push(&[("limit", &*limit.name)], value(permits));
            }
        }
        family
    };
    [
        each(
            SampledFamily::gauge(
                "sluicegate_limit_in_flight_keys",
                "Keys that have requests in flight, sampled.",
            ),
            |permits| permits.keys,
        ),
        each(
            SampledFamily::counter(
                "sluicegate_limit_in_flight_overflow_refused_total",
                "Requests refused while their key was counted together with others: raise capacity.",
            ),
            |permits| permits.overflow_refused,
        ),
    ]
}

/// Returns the metric of limits whose cost is known late.
fn reserves(limits: &[LimitView]) -> SampledFamily {
    let mut family = SampledFamily::gauge(
        "sluicegate_limit_reserved_units",
        "Units that requests in flight hold in reserve until their cost is known.",
    );
    for limit in limits {
        if let Some(reserved) = limit.reserved {
            family.push(&[("limit", &*limit.name)], reserved);
        }
    }
    family
}

/// Returns the metric of problems: a series for each kind, also without a problem, so that an alert sees its end.
fn problems(problems: &[OperatingProblem]) -> SampledFamily {
    let mut family = SampledFamily::gauge(
        "sluicegate_problems",
        "Problems that the page and /status report now, by what they are about.",
    );
    for kind in ProblemKind::ALL {
        let count = problems.iter().filter(|problem| problem.kind == kind);
        family.push(&[("kind", kind.as_str())], count.count() as u64);
    }
    family
}

fn configuration(configuration: &ConfigurationView) -> [SampledFamily; 3] {
    let last_reload = configuration.last_reload.as_ref();
    let success = last_reload.is_none_or(|report| report.error.is_none());
    let mut broken = SampledFamily::gauge(
        "sluicegate_config_file_broken",
        "1 for each list, limit with overrides, crawler, [jwt] or database of [geo] whose file is broken.",
    );
    for file in &configuration.broken_files {
        let content = file.state.as_str();
        let labels = [
            ("kind", file.kind),
            ("name", &*file.name),
            ("content", content),
        ];
        broken.push(&labels, true);
    }
    [
        SampledFamily::gauge(
            "sluicegate_config_generation",
            "Which configuration is in use: 1 is the first.",
        )
        .series(&[], configuration.generation),
        SampledFamily::gauge(
            "sluicegate_config_last_reload_success",
            "0 after a reload that was refused, else 1.",
        )
        .series(&[], success),
        broken,
    ]
}

/// Returns the metrics of the databases of `[geo]`.
fn databases(configuration: &ConfigurationView) -> [SampledFamily; 2] {
    let mut built = SampledFamily::gauge(
        "sluicegate_geo_database_build_timestamp_seconds",
        "When each database of [geo] was built, in seconds since 1970.",
    );
    let mut bytes = SampledFamily::gauge(
        "sluicegate_geo_database_bytes",
        "Memory of each database of [geo], in bytes.",
    );
    for database in &configuration.databases {
        let labels = [("file", &*database.file), ("type", &*database.kind)];
        built.push(&labels, database.built_at);
        bytes.push(&labels, database.bytes);
    }
    [built, bytes]
}

fn state(times: ProcessTimes, directory: Option<DirectoryHealth>) -> [SampledFamily; 2] {
    let ahead = times.now.as_nanos() as f64 - times.wall.as_nanos() as f64;
    let errors = SampledFamily::counter(
        "sluicegate_state_errors_total",
        "Failed attempts to keep the time, or to sweep, in the state directory.",
    );
    [
        SampledFamily::gauge(
            "sluicegate_clock_ahead_seconds",
            "How far the limits' time is ahead of the wall clock; behind where negative.",
        )
        .series(&[], ahead / 1e9),
        match directory {
            Some(health) => errors.series(&[], health.errors),
            None => errors,
        },
    ]
}
