//! Declares `[tracing]`.

use std::sync::Arc;

use sluicegate_config_derive::Table;

use super::otlp::{OtlpRules, OtlpSignal};
use crate::action::{Share, any_share};
use crate::declaration::{Flag, ParsedText, TableOf};
use crate::section::TableSection;

/// Traces of requests, as W3C Trace Context defines them.
#[allow(
    rustdoc::broken_intra_doc_links,
    reason = "the reference has tables in brackets"
)]
#[derive(Clone, Debug, PartialEq, Table)]
#[table(path = "tracing", check = check_propagation)]
pub struct TracingRules {
    /// True sends `traceparent` and `tracestate` (W3C Trace Context) to the origin: the trace of the client with a span of the gateway, or
    /// a new trace with the id of the request. The ids are in the log. Default: false, these fields pass unchanged.
    #[key(example = "true", default = false, reader = Flag(false, true))]
    pub propagate: bool,
    /// The share of traces with the sampled flag, 0% to 100%. A flag set by [client] trusted_proxies is kept. Default: "100%".
    #[key(example = "\"10%\"", default = Share::ALL, reader = ParsedText(any_share))]
    pub sample_ratio: Share,
    /// The OpenTelemetry collector that spans, lines of the access log and metrics are sent to. Default: none.
    #[key(example = "{ endpoint = \"http://127.0.0.1:4318\" }", reader = TableOf(OtlpRules::read))]
    pub otlp: Option<Arc<OtlpRules>>,
}

fn check_propagation(keys: &TracingRulesKeys, section: &TableSection<'_>) -> Option<()> {
    if keys.propagate? {
        return Some(());
    }
    if section.has("sample_ratio") {
        section.refuse::<()>(
            "sample_ratio",
            "without a trace nothing is recorded",
            "write propagate = true, or leave it out",
        );
    }
    let collector = keys.otlp.as_ref().and_then(Option::as_ref);
    if collector.is_some_and(|collector| collector.sends(OtlpSignal::Traces)) {
        section.refuse::<()>(
            "otlp",
            "without a trace there are no spans to send",
            "write propagate = true, or signals = [\"logs\", \"metrics\"] in it",
        );
    }
    Some(())
}
