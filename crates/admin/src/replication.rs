//! Shows the replication of limits with `store = "shared"`, in `/status` and `/metrics`.

use std::collections::BTreeMap;

use serde::Serialize;
use sluicegate_telemetry::exposition::SampledFamily;

use sluicegate_store::ReplicationStats;

/// The `replication` of `/status`.
#[derive(Serialize)]
pub(super) struct ReplicationSection {
    keys: usize,
    lag_seconds: f64,
    syncs: u64,
    units: u64,
    dropped_units: u64,
    retries: u64,
    excess: BTreeMap<String, u64>,
}

impl ReplicationSection {
    pub(super) fn new(exchanged: ReplicationStats) -> Self {
        let excess = exchanged.excess.into_iter();
        Self {
            keys: exchanged.keys,
            lag_seconds: exchanged.lag.as_secs_f64(),
            syncs: exchanged.syncs,
            units: exchanged.units,
            dropped_units: exchanged.lost,
            retries: exchanged.repeated,
            excess: excess
                .map(|(limit, units)| (limit.to_string(), units))
                .collect(),
        }
    }
}

/// Returns the metrics of replication; none without a store.
pub(super) fn families(exchanged: Option<ReplicationStats>) -> Vec<SampledFamily> {
    let Some(exchanged) = exchanged else {
        return Vec::new();
    };
    let mut excess = SampledFamily::counter(
        "sluicegate_limit_excess_units_total",
        "Units that this gateway told the store of which exceeded the limit there.",
    );
    for (limit, units) in &exchanged.excess {
        excess.push(&[("limit", &**limit)], *units);
    }
    vec![
        SampledFamily::gauge(
            "sluicegate_store_sync_keys",
            "Keys of shared limits that the store is yet to be told of, or that are still open.",
        )
        .series(&[], exchanged.keys as u64),
        SampledFamily::gauge(
            "sluicegate_store_sync_lag_seconds",
            "How long the charge has waited that has waited longest to be told.",
        )
        .series(&[], exchanged.lag.as_secs_f64()),
        SampledFamily::counter(
            "sluicegate_store_syncs_total",
            "Syncs that told the store everything.",
        )
        .series(&[], exchanged.syncs),
        SampledFamily::counter(
            "sluicegate_store_pushed_units_total",
            "Units that the store was told of.",
        )
        .series(&[], exchanged.units),
        SampledFamily::counter(
            "sluicegate_store_sync_retries_total",
            "Pushes that were sent again, since their answer was lost.",
        )
        .series(&[], exchanged.repeated),
        SampledFamily::counter(
            "sluicegate_store_sync_dropped_units_total",
            "Units that this gateway alone counts, and the store is never told of.",
        )
        .series(&[], exchanged.lost),
        excess,
    ]
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Duration;

    use sluicegate_telemetry::exposition;

    use super::*;

    /// Returns a replication with a lag of an eighth of a second.
    pub(crate) fn behind() -> ReplicationStats {
        ReplicationStats {
            keys: 8,
            lag: Duration::from_millis(125),
            syncs: 9,
            units: 10,
            lost: 11,
            repeated: 12,
            excess: vec![("otp".into(), 13)],
        }
    }

    /// Returns its section of `/status`.
    pub(crate) fn section() -> serde_json::Value {
        serde_json::json!({
            "keys": 8, "lag_seconds": 0.125, "syncs": 9, "units": 10, "dropped_units": 11, "retries": 12, "excess": { "otp": 13 },
        })
    }

    /// Goal: each number is shown under its own name, in `/status` and in `/metrics`. Method: numbers that differ.
    #[test]
    fn every_number_has_its_own_name() {
        let status =
            serde_json::to_value(ReplicationSection::new(behind())).expect("numbers and text");
        assert_eq!(status, section());
        let text = exposition::text(families(Some(behind())));
        let text = String::from_utf8(text).expect("text");
        for line in [
            "sluicegate_store_sync_keys 8",
            "sluicegate_store_sync_lag_seconds 0.125",
            "sluicegate_store_syncs_total 9",
            "sluicegate_store_pushed_units_total 10",
            "sluicegate_store_sync_dropped_units_total 11",
            "sluicegate_store_sync_retries_total 12",
            "sluicegate_limit_excess_units_total{limit=\"otp\"} 13",
        ] {
            assert!(
                text.lines().any(|written| written == line),
                "{line}\n{text}"
            );
        }
    }
}
