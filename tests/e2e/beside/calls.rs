//! Calls of Envoy's rate limit service, by its own messages: what each field means, and what a caller cannot do.

use prost::Message;

use super::call_messages::{
    Call, Descriptor, Entry, Hits, METHOD, MINUTE, OK, OVER_LIMIT, about, ask, gateway_trusting,
    gateway_with, of, send,
};
use super::*;

/// A limit by address and one by tenant.
pub(super) const EDGE: &str = r#"
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

#[tokio::test]
async fn a_descriptor_counts_under_the_limits_of_its_route() {
    // Goal: the answer says how the limit stands, the rejection has the fields and the body of every rejection, and another address is
    // another client. Method: one call more than fit, and one for a neighbor.
    let gateway = gateway_with(EDGE).await;
    let call = about([of(&[("remote_address", "192.0.2.1")])]);
    for left in [2, 1, 0] {
        let answer = ask(&gateway, &call).await;
        assert_eq!(answer.overall_code, OK, "{answer:?}");
        let [status] = &answer.statuses[..] else {
            panic!("{answer:?}")
        };
        let limit = status.current_limit.clone().unwrap();
        assert_eq!((status.code, status.limit_remaining), (OK, left));
        assert_eq!((limit.requests_per_unit, limit.unit), (3, MINUTE));
        assert_eq!(limit.name, "address");
        assert!(answer.field("ratelimit").is_some(), "{answer:?}");
        assert_eq!(answer.raw_body, "");
    }
    let over = ask(&gateway, &call).await;
    assert_eq!(
        (over.overall_code, over.codes()),
        (OVER_LIMIT, vec![OVER_LIMIT])
    );
    let wait = over.statuses[0].duration_until_reset.unwrap().seconds;
    assert!((1..=60).contains(&wait), "{over:?}");
    assert!(over.field("retry-after").is_some(), "{over:?}");
    assert_eq!(over.field("content-type"), Some("application/problem+json"));
    assert!(over.raw_body.contains("address"), "{over:?}");
    assert_eq!(over.field("x-request-id"), None);
    let neighbor = about([of(&[("remote_address", "192.0.2.2")])]);
    assert_eq!(ask(&gateway, &neighbor).await.overall_code, OK);

    let lines = gateway.access_lines(5).await;
    let refused = lines.iter().find(|line| line["outcome"] == "rate-limited");
    let refused = refused.unwrap();
    assert_eq!(refused["client"], "192.0.2.1");
    assert_eq!(refused["target"], "/edge?remote_address=192.0.2.1");
    assert_eq!(refused["status"], 429);
}

#[tokio::test]
async fn a_call_charges_all_descriptors_or_none() {
    // Goal: a call that one descriptor ends takes nothing from the others, also where a route has several limits. Method: a tenant of five
    // whose client has three; the client's is used up first, then the tenant is asked alone.
    let gateway = gateway_with(EDGE).await;
    let both = about([
        of(&[("tenant", "a")]),
        of(&[("remote_address", "192.0.2.1")]),
    ]);
    for _ in 0..3 {
        assert_eq!(ask(&gateway, &both).await.codes(), [OK, OK]);
    }
    for _ in 0..10 {
        let answer = ask(&gateway, &both).await;
        assert_eq!(answer.codes(), [OK, OVER_LIMIT]);
        assert_eq!(answer.overall_code, OVER_LIMIT);
        // What remains is what remains after the refund.
        let left: Vec<u32> = answer
            .statuses
            .iter()
            .map(|one| one.limit_remaining)
            .collect();
        assert_eq!(left, [2, 0]);
    }
    let tenant = about([of(&[("tenant", "a")])]);
    assert_eq!(ask(&gateway, &tenant).await.statuses[0].limit_remaining, 1);
    assert_eq!(ask(&gateway, &tenant).await.overall_code, OK);
    assert_eq!(ask(&gateway, &tenant).await.overall_code, OVER_LIMIT);
}

#[tokio::test]
async fn hits_are_the_cost_of_a_call() {
    // Goal: hits_addend of the call, that of a descriptor before it, and 0 of a descriptor, which only asks. Method: five units in turn.
    let gateway = gateway_with(EDGE).await;
    let costing = |call: u32, own: Option<u64>| Call {
        hits_addend: call,
        ..about([Descriptor {
            hits_addend: own.map(|value| Hits { value }),
            ..of(&[("tenant", "b")])
        }])
    };
    for (call, code, left) in [
        (costing(2, None), OK, 3),
        (costing(4, None), OVER_LIMIT, 3),
        (costing(9, Some(1)), OK, 2),
        (costing(1, Some(0)), OK, 2),
        (costing(1, Some(0)), OK, 2),
        (costing(2, None), OK, 0),
        (costing(1, Some(0)), OVER_LIMIT, 0),
        (costing(1, Some(u64::MAX)), OVER_LIMIT, 0),
    ] {
        let answer = ask(&gateway, &call).await;
        let status = &answer.statuses[0];
        assert_eq!(
            (status.code, status.limit_remaining),
            (code, left),
            "{call:?}"
        );
    }
}

#[tokio::test]
async fn what_a_client_sends_makes_no_call_fail() {
    // Goal: Envoy forwards the request of a call that fails, so no value may make one fail. Method: values that are very long or look like
    // a query, each until its limit is reached; one that is no text, which is over the limit; too many descriptors.
    let gateway = gateway_with(EDGE).await;
    for value in [
        &[b'a'; 60_000][..],
        b"a&tenant=b",
        b"%00",
        b"a;tenant=c",
        b"a#b",
        "ő\u{ff11}".as_bytes(),
        b"",
    ] {
        let call = about([Descriptor {
            entries: vec![Entry {
                key: "tenant".to_owned(),
                value: value.to_vec(),
            }],
            ..Descriptor::default()
        }]);
        for _ in 0..5 {
            assert_eq!(ask(&gateway, &call).await.overall_code, OK, "{value:?}");
        }
        assert_eq!(
            ask(&gateway, &call).await.overall_code,
            OVER_LIMIT,
            "{value:?}"
        );
    }
    let no_text = about([Descriptor {
        entries: vec![Entry {
            key: "tenant".to_owned(),
            value: b"\xff\xfe".to_vec(),
        }],
        ..Descriptor::default()
    }]);
    assert_eq!(ask(&gateway, &no_text).await.overall_code, OVER_LIMIT);
    let long = |end: &str| "t".repeat(5_000) + end;
    let mut codes = Vec::new();
    for end in ["1", "2", "3", "4", "5", "6"] {
        let call = about([of(&[("tenant", &long(end))])]);
        codes.push(ask(&gateway, &call).await.overall_code);
    }
    assert_eq!(codes, [OK, OK, OK, OK, OK, OVER_LIMIT], "one counter");
    let many = about(vec![of(&[("tenant", "m")]); 33]);
    let answer = ask(&gateway, &many).await;
    assert_eq!(
        (answer.overall_code, answer.statuses.len()),
        (OVER_LIMIT, 33)
    );
    let entries: Vec<(String, String)> = (0..200)
        .map(|n| (format!("k{n}"), "v".repeat(100)))
        .collect();
    let entries: Vec<(&str, &str)> = entries.iter().map(|(k, v)| (&**k, &**v)).collect();
    assert_eq!(
        ask(&gateway, &about([of(&entries)])).await.overall_code,
        OVER_LIMIT
    );
}

#[tokio::test]
async fn a_mistake_of_the_operator_is_told() {
    // Goal: each mistake has a status of gRPC and a sentence. Method: each of them; a descriptor without a route is no mistake.
    let gateway = gateway_with(EDGE).await;
    let unlimited = ask(&gateway, &about([of(&[("other", "1")])])).await;
    assert_eq!((unlimited.overall_code, unlimited.codes()), (OK, vec![OK]));
    assert_eq!(unlimited.statuses[0].current_limit, None);
    for (method, message, status, says) in [
        (
            METHOD,
            about([]).encode_to_vec(),
            3,
            "no domain or no descriptor",
        ),
        (METHOD, b"\x0a\xff".to_vec(), 3, "transport_api_version: V3"),
        (
            "/envoy.service.ratelimit.v2.RateLimitService/ShouldRateLimit",
            Vec::new(),
            12,
            "v3.RateLimitService",
        ),
        (METHOD, vec![0; (1 << 20) + 1], 8, "1 MiB"),
    ] {
        let (told, text) = send(&gateway, method, &message).await.unwrap_err();
        assert_eq!(told, status, "{text}");
        assert!(text.contains(says), "{text}");
    }
    let strict = gateway_trusting("192.0.2.0/24", EDGE).await;
    let call = about([of(&[("tenant", "a")])]).encode_to_vec();
    let (told, text) = send(&strict, METHOD, &call).await.unwrap_err();
    assert_eq!(told, 7);
    assert!(text.contains("[client] trusted_proxies"), "{text}");

    let plain = gateway.send(get("/")).await;
    plain.assert_problem(400);
    assert!(plain.text().contains("gRPC"), "{plain:?}");
    let other = gateway.h2c().await.send(get("/")).await;
    assert_eq!(other.status, 415);
}

#[tokio::test]
async fn shadow_marks_and_lists_hold_for_calls() {
    // Goal: a limit in shadow rejects nothing, a mark goes to the origin, a blocked client is over, an allowed one is not counted, and a
    // route can forbid. Method: one descriptor for each.
    let gateway = gateway_with(
        r#"
[list.bad]
cidrs = ["192.0.2.66/32"]
[list.good]
cidrs = ["192.0.2.77/32"]
[limit.quiet]
key    = "query.quiet"
on_missing = "refuse"
rates  = ["1 per 1h"]
action = "shadow"
[limit.marked]
key    = "query.marked"
on_missing = "refuse"
rates  = ["1 per 1h"]
action = "mark"
[limit.marked.mark]
header = "x-over"
[limit.address]
key   = "client.ip"
rates = ["1 per 1h"]
[[route]]
path   = "/edge"
query  = { quiet = "*" }
limits = ["quiet"]
[[route]]
path   = "/edge"
query  = { marked = "*" }
limits = ["marked"]
[[route]]
path   = "/edge"
query  = { forbidden = "*" }
respond = { status = 403 }
[[route]]
path   = "/edge"
limits = ["address"]
block  = ["bad"]
allow  = ["good"]
"#,
    )
    .await;
    let twice = async |entry: (&str, &str)| {
        let call = about([of(&[entry])]);
        let first = ask(&gateway, &call).await;
        (first.overall_code, ask(&gateway, &call).await)
    };
    let (first, second) = twice(("quiet", "a")).await;
    assert_eq!((first, second.overall_code), (OK, OK));
    let (first, second) = twice(("marked", "a")).await;
    assert_eq!((first, second.overall_code), (OK, OK));
    let marks: Vec<&str> = (second.request_headers_to_add.iter())
        .map(|field| &*field.key)
        .collect();
    assert_eq!(marks, ["x-over"]);
    for (entry, codes) in [
        (("forbidden", "a"), (OVER_LIMIT, OVER_LIMIT)),
        (("remote_address", "192.0.2.66"), (OVER_LIMIT, OVER_LIMIT)),
        (("remote_address", "192.0.2.77"), (OK, OK)),
        (("remote_address", "2001:db8::1"), (OK, OVER_LIMIT)),
    ] {
        let (first, second) = twice(entry).await;
        assert_eq!((first, second.overall_code), codes, "{entry:?}");
    }
}

#[tokio::test]
async fn a_request_of_http1_is_rejected_and_logged_as_itself() {
    // Goal: what is no call is logged with its own words, and HEAD gets no body. Method: HEAD with the beginning of another request behind
    // it.
    let gateway = gateway_with(EDGE).await;
    let mut raw = gateway.raw().await;
    raw.write("HEAD /asked HTTP/1.1\r\nHost: a\r\n\r\nDELETE /behind HTTP/1.1\r\n")
        .await;
    let answer = String::from_utf8(raw.read_to_end().await).unwrap();
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    assert!(answer.ends_with("\r\n\r\n"), "{answer}");
    let line = gateway.access_line().await;
    assert_eq!(
        (&line["method"], &line["target"]),
        (&"HEAD".into(), &"/asked".into())
    );
}
