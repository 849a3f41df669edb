//! Shows the state of ordered certificates, in `/status` and `/metrics`.

use std::sync::Arc;

use serde::Serialize;
use sluicegate_decide::rfc3339;
use sluicegate_telemetry::exposition::SampledFamily;

use sluicegate_acme::{AcmeState, OrderOutcome, RenewalStatus};
use sluicegate_config::rules::Rules;
use sluicegate_config::without_url_secrets;

/// The certificates that are ordered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AcmeView {
    /// The URL of the ACME server's directory.
    pub directory: Arc<str>,
    /// Their states, by name.
    pub statuses: Vec<RenewalStatus>,
    /// Orders since the start, by result.
    pub orders: [(OrderOutcome, u64); OrderOutcome::ALL.len()],
}

/// The `acme` of `/status`.
#[derive(Serialize)]
pub(super) struct AcmeSection {
    directory: String,
    certificates: Vec<CertificateOrderSection>,
}

#[derive(Serialize)]
struct CertificateOrderSection {
    names: Vec<String>,
    not_before: Option<String>,
    not_after: Option<String>,
    next_order: String,
    failures: u32,
    error: Option<String>,
}

impl AcmeView {
    /// Samples `state`; `None` where no certificate is ordered.
    pub(super) fn new(state: &AcmeState, rules: &Rules) -> Option<Self> {
        let rules = rules.acme.as_ref()?;
        Some(Self {
            directory: Arc::clone(&rules.directory),
            statuses: state.statuses(),
            orders: OrderOutcome::ALL.map(|outcome| (outcome, state.orders(outcome))),
        })
    }
}

impl AcmeSection {
    pub(super) fn new(view: AcmeView) -> Self {
        Self {
            directory: without_url_secrets(&view.directory),
            certificates: view
                .statuses
                .into_iter()
                .map(CertificateOrderSection::new)
                .collect(),
        }
    }
}

impl CertificateOrderSection {
    fn new(status: RenewalStatus) -> Self {
        let validity = status.validity;
        Self {
            names: status
                .names
                .names()
                .iter()
                .map(ToString::to_string)
                .collect(),
            not_before: validity.map(|validity| rfc3339::format(validity.begins)),
            not_after: validity.map(|validity| rfc3339::format(validity.ends)),
            next_order: rfc3339::format(status.next_order),
            failures: status.failures,
            error: status.error,
        }
    }
}

/// Returns the metrics of ordered certificates; none where none is ordered. Times are seconds since the Unix epoch.
pub(super) fn families(view: Option<AcmeView>) -> Vec<SampledFamily> {
    let Some(view) = view else {
        return Vec::new();
    };
    let mut orders = SampledFamily::counter(
        "sluicegate_acme_orders_total",
        "Orders of certificates, by what came of them.",
    );
    for (outcome, count) in view.orders {
        orders.push(&[("result", outcome.name())], count);
    }
    let mut next = SampledFamily::gauge(
        "sluicegate_acme_next_order_timestamp_seconds",
        "When a certificate is ordered next.",
    );
    let mut failures = SampledFamily::gauge(
        "sluicegate_acme_failures",
        "Orders of a certificate that failed since the last that did not.",
    );
    for status in &view.statuses {
        let labels = [("certificate", &**status.names.first())];
        next.push(&labels, status.next_order.as_secs());
        failures.push(&labels, u64::from(status.failures));
    }
    vec![orders, next, failures]
}

#[cfg(test)]
mod tests {
    use sluicegate_limiter::Timestamp;
    use sluicegate_telemetry::exposition;

    use super::*;
    use sluicegate_base::pki::Validity;
    use sluicegate_config::rules::NameSet;

    fn view() -> AcmeView {
        let names = |names: &[&str]| {
            NameSet::new(names.iter().map(|name| (*name).into()).collect()).unwrap()
        };
        let status = |names, validity, next: u64, failures, error: Option<&str>| RenewalStatus {
            names,
            validity,
            next_order: Timestamp::from_secs(next),
            failures,
            error: error.map(str::to_owned),
        };
        let validity = Validity {
            begins: Timestamp::from_secs(1_000_000_000),
            ends: Timestamp::from_secs(1_000_000_100),
        };
        AcmeView {
            directory: "https://ca.test/?key=hunter2".into(),
            statuses: vec![
                status(
                    names(&["b.test", "a.test"]),
                    Some(validity),
                    1_000_000_060,
                    0,
                    None,
                ),
                status(names(&["c.test"]), None, 1_000_000_070, 2, Some("no")),
            ],
            orders: [
                (OrderOutcome::Issued, 3),
                (OrderOutcome::Refused, 4),
                (OrderOutcome::RateLimited, 5),
                (OrderOutcome::Failed, 6),
            ],
        }
    }

    /// Goal: each number is told under its own name, in `/status` and in `/metrics`. Method: numbers that differ.
    #[test]
    fn every_number_is_told() {
        let status = serde_json::to_value(AcmeSection::new(view())).expect("numbers and text");
        assert_eq!(
            status,
            serde_json::json!({
                "directory": "https://ca.test/?(secret)",
                "certificates": [
                    {
                        "names": ["a.test", "b.test"],
                        "not_before": "2001-09-09T01:46:40.000Z",
                        "not_after": "2001-09-09T01:48:20.000Z",
                        "next_order": "2001-09-09T01:47:40.000Z",
                        "failures": 0,
                        "error": null,
                    },
                    {
                        "names": ["c.test"],
                        "not_before": null,
                        "not_after": null,
                        "next_order": "2001-09-09T01:47:50.000Z",
                        "failures": 2,
                        "error": "no",
                    },
                ],
            })
        );
        let text = exposition::text(families(Some(view())));
        let text = String::from_utf8(text).expect("text");
        for line in [
            "sluicegate_acme_orders_total{result=\"issued\"} 3",
            "sluicegate_acme_orders_total{result=\"refused\"} 4",
            "sluicegate_acme_orders_total{result=\"rate_limited\"} 5",
            "sluicegate_acme_orders_total{result=\"failed\"} 6",
            "sluicegate_acme_next_order_timestamp_seconds{certificate=\"a.test\"} 1000000060",
            "sluicegate_acme_next_order_timestamp_seconds{certificate=\"c.test\"} 1000000070",
            "sluicegate_acme_failures{certificate=\"c.test\"} 2",
        ] {
            assert!(text.lines().any(|told| told == line), "{line}\n{text}");
        }
    }
}
