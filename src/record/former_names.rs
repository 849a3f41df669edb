//! Lists the names of metrics and log fields that were renamed, and keeps the former ones alive for one version.
//!
//! `/metrics` exports every renamed family under both names. The access log writes one set of names: the present one, or with
//! `[log] old_names = true` the former one. Values of labels were renamed without an alias, since a sum over a family would count both.

use sluicegate_telemetry::exposition::FormerName;

use super::outcome::RequestDisposition;
use crate::config::FORMER_OUTCOMES;
use crate::config::rules::LogNames;
use crate::store::DecisionSource;

/// The families that were renamed.
pub(super) const FAMILIES: [FormerName; 13] = [
    FormerName {
        former: "sluicegate_cache_abandoned_total",
        present: "sluicegate_cache_store_aborted_total",
    },
    FormerName {
        former: "sluicegate_cache_waits_total",
        present: "sluicegate_cache_coalesced_total",
    },
    FormerName {
        former: "sluicegate_decision_duration_seconds",
        present: "sluicegate_limits_duration_seconds",
    },
    FormerName {
        former: "sluicegate_limit_bans_survive",
        present: "sluicegate_limit_bans_persistent",
    },
    FormerName {
        former: "sluicegate_limit_incomplete_keys_total",
        present: "sluicegate_limit_key_missing_total",
    },
    FormerName {
        former: "sluicegate_limit_released_total",
        present: "sluicegate_limit_refunded_total",
    },
    FormerName {
        former: "sluicegate_limit_store_away_refused_total",
        present: "sluicegate_limit_store_unavailable_total",
    },
    FormerName {
        former: "sluicegate_limit_survives",
        present: "sluicegate_limit_persistent",
    },
    FormerName {
        former: "sluicegate_limit_told_cost_total",
        present: "sluicegate_limit_response_cost_total",
    },
    FormerName {
        former: "sluicegate_origin_tries_total",
        present: "sluicegate_origin_attempts_total",
    },
    FormerName {
        former: "sluicegate_store_pushes_repeated_total",
        present: "sluicegate_store_sync_retries_total",
    },
    FormerName {
        former: "sluicegate_store_sync_lost_units_total",
        present: "sluicegate_store_sync_dropped_units_total",
    },
    FormerName {
        former: "sluicegate_store_unsent_lost_total",
        present: "sluicegate_store_unsent_dropped_total",
    },
];

/// The beginnings of those fields of a line whose names changed.
#[derive(Debug)]
pub(super) struct RenamedFields {
    pub(super) limits_us: &'static [u8],
    pub(super) missing_reason: &'static [u8],
    pub(super) refunded: &'static [u8],
    pub(super) origin_addr: &'static [u8],
    pub(super) attempts: &'static [u8],
    pub(super) origin_ttfb_ms: &'static [u8],
}

static PRESENT_FIELDS: RenamedFields = RenamedFields {
    limits_us: b",\"limits_us\":",
    missing_reason: b",\"missing_reason\":\"",
    refunded: b",\"refunded\":[",
    origin_addr: b",\"origin_addr\":\"",
    attempts: b",\"attempts\":",
    origin_ttfb_ms: b",\"origin_ttfb_ms\":",
};

static FORMER_FIELDS: RenamedFields = RenamedFields {
    limits_us: b",\"decision_us\":",
    missing_reason: b",\"missing_why\":\"",
    refunded: b",\"released\":[",
    origin_addr: b",\"server\":\"",
    attempts: b",\"tries\":",
    origin_ttfb_ms: b",\"wait_ms\":",
};

/// Returns the fields that the operator asks for.
pub(super) fn fields(names: LogNames) -> &'static RenamedFields {
    match names {
        LogNames::Present => &PRESENT_FIELDS,
        LogNames::Former => &FORMER_FIELDS,
    }
}

/// Returns the value of the log field `outcome`.
pub(super) fn outcome(disposition: RequestDisposition, names: LogNames) -> &'static str {
    let present = disposition.as_str();
    if names == LogNames::Present {
        return present;
    }
    let renamed = FORMER_OUTCOMES.iter().find(|(_, new)| *new == present);
    renamed.map_or(present, |(former, _)| former)
}

/// Returns the value of the log field `decided_by`.
pub(super) fn decider(decider: DecisionSource, names: LogNames) -> &'static str {
    match (names, decider) {
        (LogNames::Former, DecisionSource::Cached) => "view",
        _ => decider.as_str(),
    }
}
