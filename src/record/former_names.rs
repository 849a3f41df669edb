//! Lists the names of metrics that were renamed, and keeps the former ones alive for one version.
//!
//! `/metrics` exports every renamed family under both names. Values of labels were renamed without an alias, since a sum over a family would
//! count both.

use sluicegate_telemetry::exposition::FormerName;

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
