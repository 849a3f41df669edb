//! Shows the pending writes to the store in `/metrics`, and the results of those that were sent.

use sluicegate_telemetry::exposition::SampledFamily;

use sluicegate_store::RemoteWriteStats;

/// Returns the metrics of pending writes; none without a store.
pub(super) fn families(debts: Option<RemoteWriteStats>) -> Vec<SampledFamily> {
    let Some(debts) = debts else {
        return Vec::new();
    };
    vec![
        SampledFamily::counter(
            "sluicegate_store_settlements_total",
            "Charges in the store that came to more or less than was reserved, by whether it was told.",
        )
        .series(&[("result", "ok")], debts.settled)
        .series(&[("result", "failed")], debts.not_settled),
        SampledFamily::gauge(
            "sluicegate_store_unsent_keys",
            "Keys whose charges the store is yet to be told of.",
        )
        .series(&[], debts.unsent_keys as u64),
        SampledFamily::counter(
            "sluicegate_store_unsent_dropped_total",
            "Charges that the store is never told of, since too many keys waited already.",
        )
        .series(&[], debts.unsent_lost),
    ]
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Numbers that differ.
    pub(crate) fn four() -> RemoteWriteStats {
        RemoteWriteStats {
            unsent_keys: 4,
            unsent_lost: 5,
            settled: 6,
            not_settled: 7,
        }
    }
}
