//! Fields of calls beside their entries: hits in the log, and how replay reads them.

use std::collections::BTreeMap;

use super::call_messages::{Call, Descriptor, Hits, OK, OVER_LIMIT, about, ask, gateway_with, of};
use super::*;

/// Two limits, in a log that replay can repeat.
const RULES: &str = r#"
replay = true

[limit.address]
key   = "client.ip"
rates = ["3 per 1m"]

[limit.tenant]
key   = "query.tenant"
rates = ["5 per 1m"]
on_missing = "refuse"

[[route]]
path   = "/edge"
query  = { remote_address = "*" }
limits = ["address"]

[[route]]
path   = "/edge"
query  = { tenant = "*" }
limits = ["tenant"]
"#;

/// A descriptor about a tenant that counts as so many requests.
fn tenant(name: &str, hits: Option<u64>) -> Descriptor {
    Descriptor {
        hits_addend: hits.map(|value| Hits { value }),
        ..of(&[("tenant", name)])
    }
}

#[tokio::test]
async fn replay_counts_descriptors_as_often_as_the_call_did() {
    // Goal: replay = live for calls: hits of a call and of a descriptor, questions, which charge nothing, and descriptors whose charge is
    // given back since another one of their call is over. Method: a schedule of calls, the log under its own configuration, and each
    // decision compared; the last calls show what the ones before have charged.
    let gateway = gateway_with(RULES).await;
    let address = || of(&[("remote_address", "192.0.2.1")]);
    let calls = [
        (about([tenant("a", Some(2))]), OK),
        (
            Call {
                hits_addend: 4,
                ..about([tenant("a", None)])
            },
            OVER_LIMIT,
        ),
        (about([tenant("a", Some(0))]), OK),
        (about([tenant("a", Some(3))]), OK),
        (about([tenant("a", Some(0))]), OVER_LIMIT),
        (about([address(), tenant("b", Some(2))]), OK),
        (about([address(), tenant("b", Some(2))]), OK),
        (about([address(), tenant("b", Some(2))]), OVER_LIMIT),
        (about([tenant("b", None)]), OK),
        (about([tenant("b", None)]), OVER_LIMIT),
        (about([address()]), OK),
        (about([address()]), OVER_LIMIT),
    ];
    let mut descriptors = 0;
    for (call, code) in &calls {
        descriptors += call.descriptors.len();
        assert_eq!(ask(&gateway, call).await.overall_code, *code, "{call:?}");
    }
    let lines = gateway.access_lines(descriptors).await;
    let mut hits = BTreeMap::new();
    for line in &lines {
        *hits.entry(line["hits"].as_u64()).or_insert(0) += 1;
    }
    let expected = [
        (None, 6),
        (Some(0), 3),
        (Some(2), 4),
        (Some(3), 1),
        (Some(4), 1),
    ];
    assert_eq!(hits, BTreeMap::from(expected));

    let directory = TempDir::new().unwrap();
    let decisions = directory.path().join("decisions.json");
    let log = gateway.access_log_path().display().to_string();
    let config = gateway.config_path().display().to_string();
    let out = decisions.display().to_string();
    let mut process = Process::run(&["replay", &log, "--config", &config, "--decisions", &out]);
    assert_eq!(process.exit_code().await, 0, "{}", process.stderr());
    let decisions = read_log(&decisions);
    assert_eq!(decisions.len(), descriptors);
    for line in &lines {
        let same = decisions
            .iter()
            .find(|decision| decision["id"] == line["id"]);
        let decision = same.unwrap();
        let outcome = match line["outcome"].as_str().unwrap() {
            "allowed" => "admitted",
            other => other,
        };
        assert_eq!(decision["outcome"], outcome, "{line}\n{decision}");
        assert_eq!(decision["limit"], line["limit"], "{line}\n{decision}");
    }
}
