//! Shows the look-ups of crawlers' addresses, in `/metrics`.

use sluicegate_base::crawler::ReverseDns;
use sluicegate_telemetry::exposition::SampledFamily;

use sluicegate_process::snapshot::Snapshot;

/// The look-ups since the start and at present, and what is kept of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CrawlerLookUpsView {
    /// Look-ups by result.
    results: Vec<(&'static str, u64)>,
    /// Requests for which no look-up began, by bound.
    skipped: Vec<(&'static str, u64)>,
    /// Look-ups in flight.
    in_flight: u64,
    /// Look-ups that wait, beside known crawlers and elsewhere.
    waiting: [(&'static str, usize); 2],
    /// Addresses in memory, confirmed and others.
    cached: [(&'static str, usize); 2],
}

impl CrawlerLookUpsView {
    /// Samples the look-ups; `None` where no crawler has domains.
    pub(super) fn new(snapshot: &Snapshot) -> Option<Self> {
        let names: &ReverseDns = snapshot.compiled.crawlers.reverse_dns()?;
        let (confirmed, unconfirmed) = names.cached();
        let (known, unknown) = names.waiting();
        Some(Self {
            results: names.counts().results().collect(),
            skipped: names.counts().skipped().collect(),
            in_flight: names.counts().in_flight(),
            waiting: [("known", known), ("unknown", unknown)],
            cached: [("confirmed", confirmed), ("unconfirmed", unconfirmed)],
        })
    }
}

/// Returns the metrics; none where no crawler has domains.
pub(super) fn families(view: Option<CrawlerLookUpsView>) -> Vec<SampledFamily> {
    let Some(view) = view else {
        return Vec::new();
    };
    let mut results = SampledFamily::counter(
        "sluicegate_crawler_lookups_total",
        "Look-ups of the names of addresses that claim to be a crawler, by result.",
    );
    for (result, count) in view.results {
        results.push(&[("result", result)], count);
    }
    let mut skipped = SampledFamily::counter(
        "sluicegate_crawler_lookups_skipped_total",
        "Requests whose address was not looked up, by the bound that prevented it.",
    );
    for (bound, count) in view.skipped {
        skipped.push(&[("bound", bound)], count);
    }
    let in_flight = SampledFamily::gauge(
        "sluicegate_crawler_lookups_in_flight",
        "Look-ups that have begun and not ended.",
    )
    .series(&[], view.in_flight);
    let mut waiting = SampledFamily::gauge(
        "sluicegate_crawler_lookups_waiting",
        "Addresses that wait for their look-up, by whether their network has a confirmed address.",
    );
    for (network, count) in view.waiting {
        waiting.push(&[("network", network)], count as u64);
    }
    let mut cached = SampledFamily::gauge(
        "sluicegate_crawler_lookup_addresses",
        "Addresses whose look-ups are kept, by result.",
    );
    for (state, count) in view.cached {
        cached.push(&[("state", state)], count as u64);
    }
    vec![results, skipped, in_flight, waiting, cached]
}
