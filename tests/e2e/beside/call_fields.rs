//! Fields of calls beside their entries: hits in the log and in replay, limits that descriptors bring along, hits to give back; and fields
//! of answers that Envoy's log shows, or that Envoy does not read.

use std::collections::BTreeMap;

use prost::Message;
use tokio::net::TcpStream;

use super::call_messages::{
    Call, Descriptor, Hits, METHOD, OK, OVER_LIMIT, Override, about, ask, framed, gateway_with, of,
};
use super::calls::EDGE;
use super::*;

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
    let gateway = gateway_with(&format!("replay = true\n{EDGE}")).await;
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

/// A limit with tiers for two limits that descriptors bring along.
const TIERS: &str = r#"
[limit.tenant]
key   = "query.tenant"
rates = ["2 per 1m"]
on_missing = "refuse"
tier  = "header.x-descriptor-limit"

[limit.tenant.tiers]
"4/minute" = ["4 per 1m"]
"1/minute" = ["1 per 1m"]

[[route]]
path   = "/edge"
query  = { tenant = "*" }
limits = ["tenant"]
"#;

const SECOND: i32 = 1;
const MINUTE: i32 = 2;
const MONTH: i32 = 5;

/// Asks about a tenant with a limit until it is over. Returns how many calls were admitted, and the count of the limit that held.
async fn admitted(gateway: &Gateway, name: &str, limit: Option<Override>) -> (u32, u32) {
    let call = about([Descriptor {
        limit,
        ..tenant(name, None)
    }]);
    for admitted in 0..20 {
        let answer = ask(gateway, &call).await;
        if answer.overall_code == OVER_LIMIT {
            let limit = answer.statuses[0].current_limit.clone().unwrap();
            return (admitted, limit.requests_per_unit);
        }
    }
    panic!("{name} has no limit");
}

#[tokio::test]
async fn a_descriptor_names_the_tier_by_its_limit() {
    // Goal: a limit that a descriptor brings along holds where a tier has its name; any other, the one that asks for everything above all,
    // leaves the configured rates, and is counted and logged. Method: tenants with such limits, each until it is over.
    let gateway = gateway_with(TIERS).await;
    let limit = |requests_per_unit, unit| {
        Some(Override {
            requests_per_unit,
            unit,
        })
    };
    for (name, limit, holds) in [
        ("none", None, 2),
        ("four", limit(4, MINUTE), 4),
        ("one", limit(1, MINUTE), 1),
        ("any", limit(u32::MAX, SECOND), 2),
        ("zero", limit(0, 0), 2),
        ("month", limit(4, MONTH), 2),
        ("unknown", limit(4, -7), 2),
    ] {
        assert_eq!(
            admitted(&gateway, name, limit).await,
            (holds, holds),
            "{name}"
        );
    }
    // The counters are those of the limit: a tenant that changes its tier keeps its count.
    assert_eq!(admitted(&gateway, "none", limit(4, MINUTE)).await, (2, 4));
    assert_eq!(admitted(&gateway, "four", limit(1, MINUTE)).await, (0, 1));
    // An entry with the name of the field names nothing.
    let forged = [("tenant", "forger"), ("x-descriptor-limit", "4/minute")];
    let call = about([of(&forged)]);
    for code in [OK, OK, OVER_LIMIT] {
        assert_eq!(ask(&gateway, &call).await.overall_code, code);
    }

    let metrics = gateway.metrics().await;
    let ignored = |field| {
        metrics.sum(
            "sluicegate_descriptor_fields_ignored_total",
            &[("field", field)],
        )
    };
    assert_eq!(ignored("limit"), 12.0);
    assert_eq!(ignored("is_negative_hits"), 0.0);
    let log = gateway.stderr();
    assert!(
        log.contains("the limit 4294967295/second, which no tier has for a name"),
        "{log}"
    );
    let lines = gateway.access_lines(29).await;
    let line = lines
        .iter()
        .find(|line| line["tier"]["tenant"] == "4/minute");
    assert!(line.is_some(), "{lines:?}");
}

#[tokio::test]
async fn hits_to_give_back_charge_nothing_and_give_nothing_back() {
    // Goal: a caller cannot free what another one has charged, nor is it charged for the attempt. Method: a tenant of two at its limit, a
    // call that gives five back, and one more.
    let gateway = gateway_with(TIERS).await;
    let back = Descriptor {
        is_negative_hits: true,
        ..tenant("a", Some(5))
    };
    let one = about([tenant("a", None)]);
    assert_eq!(ask(&gateway, &one).await.overall_code, OK);
    let answer = ask(&gateway, &about([back.clone()])).await;
    assert_eq!(
        (answer.overall_code, answer.statuses[0].limit_remaining),
        (OK, 1)
    );
    assert_eq!(ask(&gateway, &one).await.overall_code, OK);
    assert_eq!(ask(&gateway, &about([back])).await.overall_code, OVER_LIMIT);
    assert_eq!(ask(&gateway, &one).await.overall_code, OVER_LIMIT);
    let metrics = gateway.metrics().await;
    let labels = [("field", "is_negative_hits")];
    assert_eq!(
        metrics.sum("sluicegate_descriptor_fields_ignored_total", &labels),
        2.0
    );
    let lines = gateway.access_lines(5).await;
    let asked = lines.iter().filter(|line| line["hits"] == 0).count();
    assert_eq!(asked, 2);
}

#[tokio::test]
async fn an_answer_over_the_limit_has_metadata_and_none_has_a_quota() {
    // Goal: Envoy can log which limit rejected, under which id the gateway logged it; no answer hands out units in advance. Method: a
    // tenant of two, asked three times, and one whose route forbids it.
    let rules = format!(
        "{TIERS}\n[[route]]\npath = \"/edge\"\nquery = {{ forbidden = \"*\" }}\nrespond = {{ status = 403 }}\n"
    );
    let gateway = gateway_with(&rules).await;
    for code in [OK, OK, OVER_LIMIT] {
        let answer = ask(&gateway, &about([tenant("a", None)])).await;
        assert_eq!(answer.overall_code, code);
        assert_eq!((&answer.quota, &answer.statuses[0].quota), (&None, &None));
        if code == OK {
            assert_eq!(answer.dynamic_metadata, None);
            continue;
        }
        assert_eq!(answer.metadata("limit"), Some("tenant"));
        assert_eq!(answer.metadata("outcome"), Some("rate-limited"));
        let lines = gateway.access_lines(3).await;
        let refused = lines.iter().find(|line| line["outcome"] == "rate-limited");
        assert_eq!(refused.unwrap()["id"].as_str(), answer.metadata("id"));
    }
    let answer = ask(&gateway, &about([of(&[("forbidden", "a")])])).await;
    assert_eq!(
        (answer.overall_code, answer.metadata("limit")),
        (OVER_LIMIT, None)
    );
    assert_eq!(answer.metadata("outcome"), Some("responded"));
}

/// A leaky bucket in which one call waits.
const SLOW: &str = r#"
[limit.slow]
key   = "query.tenant"
on_missing = "refuse"
rates = ["1 per 20s"]
algorithm = "leaky-bucket"
action = "delay"
queue = 1
max_wait = "30s"

[[route]]
path   = "/edge"
query  = { tenant = "*" }
limits = ["slow"]
"#;

#[tokio::test]
async fn a_call_that_envoy_gives_up_stays_charged() {
    // Goal: who resets its calls has no more of them admitted, since Envoy may forward the request of each. Method: a call that waits in a
    // leaky bucket is reset, as Envoy does after its timeout, and the next ones find the bucket full.
    let gateway = gateway_with(SLOW).await;
    let call = about([tenant("a", None)]);
    assert_eq!(ask(&gateway, &call).await.overall_code, OK);

    let stream = TcpStream::connect(gateway.address()).await.unwrap();
    let (sender, connection) = h2::client::handshake(stream).await.unwrap();
    let connection = tokio::spawn(connection);
    let head = http::Request::post(format!("http://{}{METHOD}", gateway.address()))
        .header("content-type", "application/grpc")
        .header("te", "trailers");
    let head = head.body(()).unwrap();
    let (_answer, mut body) = (sender.ready().await.unwrap())
        .send_request(head, false)
        .unwrap();
    body.send_data(framed(&call.encode_to_vec()).into(), true)
        .unwrap();
    eventually("the call waits", async || {
        let metrics = gateway.metrics().await;
        (metrics.sum("sluicegate_requests_in_flight", &[]) == 1.0).then_some(())
    })
    .await;
    body.send_reset(h2::Reason::CANCEL);
    for _ in 0..20 {
        assert_eq!(ask(&gateway, &call).await.overall_code, OVER_LIMIT);
    }
    connection.abort();
}
