//! The access log's lines are what `docs/operations/logs.md` says.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use proptest::prelude::*;
use serde_json::{Value, json};
use sluicegate_base::bounds::LOGGED_SUBJECT;
use sluicegate_decide::client::{ClientCertPolicy, ClientCertificate, TlsFacts};
use sluicegate_decide::rejection::{LimitRejection, MissingKey, MissingReason, RejectionReason};
use sluicegate_limiter::{ActiveBan, Capacity, Concurrency, KeyHash, Permits};
use sluicegate_telemetry::rfc3339::TimeFormatter;

use super::super::example::{Example, NOW, refused, verdict_of};
use super::super::metrics::RequestMetrics;
use super::super::outcome::{OriginUse, Outcome};
use super::*;
use sluicegate_config::rules::{AccessLogTarget, OnMissing, ValueSource};
use sluicegate_decide::admission::{LimitEvent, LimitNote, ReportDetails};

fn line(outcome: &Outcome<'_>) -> String {
    let mut into = Vec::new();
    let entry = LogEntry {
        outcome,
        rules: &LogRules::to(AccessLogTarget::Off),
        left_out: 0,
    };
    write(&mut into, &mut TimeFormatter::default(), &entry);
    String::from_utf8(into).expect("a line is UTF-8")
}

fn parsed(outcome: &Outcome<'_>) -> Value {
    serde_json::from_str(&line(outcome)).expect("a line is JSON")
}

/// Goal: a refusal names the limit and the wait, and has no origin. Method: the whole object; one a minute, used up at
/// 07:10:38.042, frees a moment after the window ends at 07:11:00.
#[test]
fn a_refused_request_names_its_limit_and_its_wait() {
    let (route, verdict) = refused();
    let example = Example {
        route: Some(&route),
        verdict: Some(&verdict),
        ..Example::default()
    };
    assert_eq!(
        parsed(&example.outcome()),
        json!({
            "time": "2026-11-21T07:10:38.042Z", "id": "00000000000000000000000000000abc",
            "client": "203.0.113.7", "peer": "::1", "method": "POST", "host": "example.com",
            "target": "/auth/sendOTP?x=1", "protocol": "HTTP/1.1", "route": "POST /auth/sendOTP",
            "outcome": "rate-limited", "limit": "otp", "key": "000000000000abcc",
            "key_values": ["+49151\"*****78"], "remaining": 0, "retry_after": 22, "status": 429,
            "bytes_in": 12, "bytes_out": 345, "duration_ms": 12.345, "limits_us": 0.412,
        })
    );
}

/// Goal: who is barred is told apart from who is refused, and a ban can be lifted by what the line says. Method: what stands before the
/// limits, without a verdict, and a ban that begins, with one; the key loses the bit that the limiter does not keep.
#[test]
fn a_barred_request_names_its_limit_its_wait_and_what_bars_it() {
    let (route, verdict) = refused();
    let banned = ActiveBan {
        left: Duration::from_millis(599_001),
        level: 3,
    };
    let rejection = |reason| LimitRejection {
        limit: 0,
        key: KeyHash::from_bits(0x0f),
        reason,
        wait: banned.left,
    };
    let full = Concurrency::new(1).map(|max| Permits::new(max, Capacity::new(16).expect("16")));
    let permits = full.expect("one");
    let _held = permits.take(KeyHash::from_bits(2)).expect("a permit");
    let full = permits.take(KeyHash::from_bits(2)).expect_err("the second");
    for (reason, verdict, outcome, told) in [
        (
            RejectionReason::Banned(banned),
            None,
            "banned",
            ["ban_level", "ban_key"],
        ),
        (
            RejectionReason::BanStarted(banned),
            Some(&verdict),
            "rate-limited",
            ["ban_level", "ban_key"],
        ),
        (
            RejectionReason::Concurrency(full),
            None,
            "refused-concurrency",
            ["in_flight", "limit"],
        ),
        (
            RejectionReason::StoreUnavailable,
            None,
            "store-unavailable",
            ["retry_after", "limit"],
        ),
    ] {
        let example = Example {
            route: Some(&route),
            verdict,
            rejection: Some(rejection(reason)),
            ..Example::default()
        };
        let object = parsed(&example.outcome());
        assert_eq!(object["outcome"], outcome);
        assert_eq!(object["limit"], "otp");
        assert_eq!(object["retry_after"], 600);
        for field in told {
            assert!(object.get(field).is_some(), "{field} in {object}");
        }
        if let RejectionReason::Banned(_) = reason {
            assert_eq!(object["ban_key"], "000000000000000e");
        }
        let guide = include_str!("../../../docs/operations/logs.md");
        for field in object.as_object().expect("an object").keys() {
            assert!(guide.contains(&format!("| `{field}` |")), "{field}");
        }
        assert!(guide.contains(&format!("| `{outcome}` |")), "{outcome}");
    }
}

/// Returns the address of a server on this machine.
fn local_server() -> OriginAddress {
    SocketAddr::from(([127, 0, 0, 1], 3000)).into()
}

/// Goal: a server at a Unix socket has its path as the address, and the line stays JSON. Method: a path with bytes that JSON escapes.
#[test]
fn a_server_at_a_socket_has_its_path() {
    let (route, verdict) = verdict_of(1);
    let server = "unix:/run/a \"b\"\\c.sock".parse().expect("an address");
    let example = Example {
        route: Some(&route),
        verdict: Some(&verdict),
        origin: Some(OriginUse {
            name: "app",
            server: &server,
            began: NOW,
            status: Some(200),
            attempts: 1,
            wait: None,
            request_id: None,
            has_large_trailer: false,
        }),
        ..Example::default()
    };
    let object = parsed(&example.outcome());
    assert_eq!(object["origin_addr"], server.to_string());
    assert_eq!(object["attempts"], 1);
}

/// Goal: a forwarded request names its origin and no limit. Method: an admitted verdict and an IPv6 server.
#[test]
fn a_forwarded_request_names_its_origin() {
    let (route, verdict) = verdict_of(1);
    let server = SocketAddr::new(Ipv6Addr::LOCALHOST.into(), 3000).into();
    let origin = OriginUse {
        name: "app",
        server: &server,
        began: NOW,
        status: Some(200),
        attempts: 2,
        wait: Some(Duration::from_micros(1_050)),
        request_id: None,
        has_large_trailer: false,
    };
    let example = Example {
        route: Some(&route),
        verdict: Some(&verdict),
        origin: Some(origin),
        ..Example::default()
    };
    let object = parsed(&example.outcome());
    assert_eq!(object["origin"], "app");
    assert_eq!(object["origin_addr"], "[::1]:3000");
    assert_eq!(object["attempts"], 2);
    assert_eq!(object["origin_ttfb_ms"], json!(1.05));
    assert_eq!(object["remaining"], 0);
    assert!(object.get("limit").is_none() && object.get("retry_after").is_none());
}

fn missing_key() -> MissingKey {
    MissingKey {
        limit: 0,
        source: ValueSource::Cookie("s\"id".into()),
        why: MissingReason::Repeated,
        then: OnMissing::Ip,
    }
}

/// Goal: the operator learns what a request lacked, and nothing of its values. Method: a missing whose name needs an escape.
#[test]
fn a_request_without_a_part_of_a_key_says_which() {
    let missing_keys = [missing_key()];
    let example = Example {
        missing_keys: &missing_keys,
        ..Example::default()
    };
    let object = parsed(&example.outcome());
    assert_eq!(object["missing"], "cookie.s\"id");
    assert_eq!(object["missing_reason"], "repeated");
}

/// Goal: what does not apply is absent. Method: a request that told nothing and matched nothing.
#[test]
fn fields_that_do_not_apply_are_left_out() {
    let object = parsed(
        &Example {
            client: None,
            host: b"",
            ..Example::default()
        }
        .outcome(),
    );
    for absent in [
        "client",
        "host",
        "route",
        "list",
        "limit",
        "remaining",
        "retry_after",
        "missing",
        "missing_reason",
        "origin",
        "origin_addr",
        "attempts",
        "origin_ttfb_ms",
        "failure",
        "reason",
    ] {
        assert!(object.get(absent).is_none(), "{absent}");
    }
}

/// Goal: a client cannot make a line long. Method: a megabyte of bytes that each become six.
#[test]
fn a_long_request_is_cut_and_says_so() {
    let long = vec![0; 1 << 20];
    let example = Example {
        method: &long,
        host: &long,
        target: &long,
        ..Example::default()
    };
    let line = line(&example.outcome());
    assert!(line.len() < 16 * 1024, "{}", line.len());
    let object: Value = serde_json::from_str(&line).expect("a line is JSON");
    assert_eq!(object["target_bytes"], 1 << 20);
    assert!(object["target"].as_str().expect("text").ends_with('…'));
}

fn secured() -> TlsFacts {
    TlsFacts {
        version: "TLSv1.3",
        cipher: "TLS13_AES_128_GCM_SHA256",
        server_name: Some("x\"\n{}".into()),
        certificate: Some(ClientCertificate {
            subject: Some("CN=\"x\"".repeat(200).into()),
            fingerprint: "0".repeat(64).into(),
        }),
        asked: ClientCertPolicy::ForCertificate,
        ja4: Some("t13d1516h2_8daaf6152771_e5627efa2ab1".into()),
        strict_transport: None,
        alternative_service: None,
    }
}

/// Goal: what a client has shown is in the line, and makes it neither long nor two (Envoy CVE-2024-45808). Method: a subject that is cut.
#[test]
fn the_handshake_is_in_the_line_and_bounded() {
    let secured = secured();
    let example = Example {
        secured: Some(&secured),
        ..Example::default()
    };
    let line = parsed(&example.outcome());
    assert_eq!(
        (&line["tls"], &line["sni"]),
        (&json!("TLSv1.3"), &json!("x\"\n{}"))
    );
    assert_eq!(line["ja4"], "t13d1516h2_8daaf6152771_e5627efa2ab1");
    let subject = line["tls_client"].as_str().expect("text");
    assert!(subject.starts_with("CN=\"x\"CN") && subject.ends_with('…'));
    assert!(subject.len() < LOGGED_SUBJECT + 8);
    let plain = parsed(&Example::default().outcome());
    assert!(plain["tls"].is_null() && plain["sni"].is_null());
}

/// Goal: every field is documented. Method: look each key of the fullest lines up in the operator's guide.
#[test]
fn every_field_is_in_the_operators_guide() {
    let guide = include_str!("../../../docs/operations/logs.md");
    let (route, verdict) = refused();
    let id = HeaderValue::from_static("of-the-origin");
    let origin = OriginUse {
        name: "app",
        server: &local_server(),
        began: NOW,
        status: Some(200),
        attempts: 1,
        wait: Some(Duration::ZERO),
        request_id: Some(&id),
        has_large_trailer: true,
    };
    let long = [b'a'; MAX_TARGET + 1];
    let missing_keys = [missing_key()];
    let secured = secured();
    let fullest = Example {
        secured: Some(&secured),
        missing_keys: &missing_keys,
        route: Some(&route),
        verdict: Some(&verdict),
        list: Some("office"),
        origin: Some(origin),
        reason: Some("connection closed"),
        target: &long,
        ..Example::default()
    };
    for field in parsed(&fullest.outcome())
        .as_object()
        .expect("an object")
        .keys()
    {
        assert!(
            guide.contains(&format!("| `{field}` |")),
            "{field} is not documented"
        );
    }
}

proptest! {
    /// Goal: no request breaks the log. Method: arbitrary bytes where a client has a say; one line, valid JSON.
    #[test]
    fn arbitrary_bytes_make_one_line_of_json(
        method in proptest::collection::vec(any::<u8>(), 0..50),
        host in proptest::collection::vec(any::<u8>(), 0..300),
        target in proptest::collection::vec(any::<u8>(), 0..2_200),
        address in any::<u32>(),
    ) {
        let client = Some(Ipv4Addr::from_bits(address).into());
        let line = line(&Example { client, method: &method, host: &host, target: &target, ..Example::default() }.outcome());
        prop_assert_eq!(line.find('\n'), Some(line.len() - 1));
        let object: Value = serde_json::from_str(&line).expect("a line is JSON");
        prop_assert_eq!(&object["client"], &json!(Ipv4Addr::from_bits(address).to_string()));
    }
}

/// Goal: what is found out beside the verdict is in the line, under the limit's name, each finding once. Method: a verdict over the
/// second of two limits, with notes about both.
#[test]
fn notes_are_written_with_the_names_of_their_limits() {
    let (_, verdict) = refused();
    let route = RequestMetrics::new().route(&Arc::from("r"), &[Arc::from("a"), Arc::from("b")]);
    let note = |limit, event| LimitNote { limit, event };
    let details = ReportDetails {
        tiers: Default::default(),
        queues: Vec::new(),
        named: vec![(0, Arc::from("pro")), (1, Arc::from("fr\"ee"))],
        asked: [1].into_iter().collect(),
        notes: vec![
            note(0, LimitEvent::Released),
            note(0, LimitEvent::Cost(7)),
            note(1, LimitEvent::Released),
            note(1, LimitEvent::Cost(0)),
            note(0, LimitEvent::OverReserve(3)),
            note(1, LimitEvent::CostMalformed),
            note(0, LimitEvent::CostMissing),
            note(0, LimitEvent::Marked),
            note(0, LimitEvent::Unlimited),
            note(1, LimitEvent::Blocked),
            note(1, LimitEvent::ShadowRatesRefused),
            note(1, LimitEvent::ShadowRatesAdmitted),
            note(0, LimitEvent::OverflowRefused),
            note(1, LimitEvent::ShareRefused),
        ],
        marks: Vec::new(),
    };
    let outcome = Example {
        route: Some(&route),
        verdict: Some(&verdict),
        details: Some(&details),
        ..Example::default()
    };
    let text = line(&outcome.outcome());
    let line: Value = serde_json::from_str(&text).expect("a line is JSON");
    let guide = include_str!("../../../docs/operations/logs.md");
    for field in line.as_object().expect("an object").keys() {
        assert_eq!(
            text.matches(&format!("\"{field}\":")).count(),
            1,
            "{field} in {text}"
        );
        assert!(guide.contains(&format!("| `{field}` |")), "{field}");
    }
    assert_eq!(line["tier"], json!({"a": "pro", "b": "fr\"ee"}));
    assert_eq!(line["limit"], "b");
    assert_eq!(line["refunded"], json!(["a", "b"]));
    assert_eq!(line["cost"], json!({"a": 7, "b": 0}));
    assert_eq!(line["over_reserve"], json!({"a": 3}));
    assert_eq!(line["cost_malformed"], json!(["b"]));
    assert_eq!(line["cost_missing"], json!(["a"]));
    assert_eq!(line["marked"], json!(["a"]));
    assert_eq!(line["shadow_rates_refused"], json!(["b"]));
    assert_eq!(line["overflow"], json!(["a"]));
    assert_eq!(line["over_share"], json!(["b"]));
    assert!(line["shadow_refused"].is_null());
}
