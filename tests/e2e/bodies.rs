//! Keys out of a request's body: what is read before the decision, and that the origin still gets every byte.

use std::time::Duration;

use crate::harness::*;

const KEYED: &str = r#"
[limit.phone]
key = "body.json.phone | e164 DE"
on_missing = "refuse"
rates = ["2 per hour"]
[[route]]
path = "/otp"
limits = ["phone"]
origin = "app"
"#;

/// Forwards whatever the body is, and counts those without `id` together.
const LENIENT: &str = r#"
[limit.id]
key = "body.json.id"
on_missing = "shared"
rates = ["100000 per hour"]
[[route]]
path = "/*"
limits = ["id"]
origin = "app"
"#;

fn json(target: &str, body: impl Into<bytes::Bytes>) -> Request {
    post(target)
        .header("content-type", "application/json")
        .body(body)
}

/// A JSON text of exactly so many bytes, at least 9.
fn text_of(bytes: usize) -> String {
    format!("{{\"id\":\"{}\"}}", "a".repeat(bytes - 9))
}

#[tokio::test]
async fn one_telephone_number_is_one_counter() {
    // Goal: the sendOTP case: each number has its two, in any spelling and from any address. Method: three spellings from two addresses,
    // then another number; the origin sees what was admitted, and the connection of a refused client stays.
    let origin = Origin::echo();
    let gateway = Gateway::before(&origin, KEYED).await;
    let mut client = gateway.client().await;
    let mut other = gateway.client_from("127.0.0.9").await;
    let body = |phone: &str| {
        json(
            "/otp",
            format!("{{\"x\": [1, {{}}], \"phone\": \"{phone}\"}}"),
        )
    };
    assert_eq!(client.send(body("0151 12345678")).await.status, 200);
    assert_eq!(other.send(body("+4915112345678")).await.status, 200);
    for _ in 0..3 {
        let refused = client.send(body("0049 151 12345678")).await;
        assert_eq!(
            (refused.status, refused.violated()),
            (429, vec!["phone".to_owned()])
        );
    }
    assert_eq!(client.send(body("0151 12345679")).await.status, 200);
    assert_eq!(origin.count(), 3);
    assert_eq!(
        origin.requests()[0].text(),
        "{\"x\": [1, {}], \"phone\": \"0151 12345678\"}"
    );
}

#[tokio::test]
async fn what_is_no_plain_value_is_missing_for_a_reason() {
    // Goal: no body gives the gateway one value and the origin another, and the log says what was wrong. Method: one body of each kind
    // against `refuse`; the reasons of the log, in order.
    let origin = Origin::echo();
    let gateway = Gateway::before(&origin, KEYED).await;
    let good = "{\"phone\":\"015112345678\"}";
    let typed = |kind: &str, body: &str| {
        post("/otp")
            .header("content-type", kind)
            .body(body.to_owned())
    };
    let long = format!(
        "{{\"phone\":\"015112345678\",\"x\":\"{}\"}}",
        "a".repeat(16 * 1024)
    );
    let cases = [
        (post("/otp"), "absent"),
        (json("/otp", "{}"), "absent"),
        (json("/otp", "{\"phone\":null}"), "absent"),
        (json("/otp", "{\"phone\":\"\"}"), "malformed"),
        (json("/otp", "{\"phone\":[1]}"), "malformed"),
        (json("/otp", "{\"phone\":\"015112345678\""), "malformed"),
        (json("/otp", "{\"phone\":\"015112345678\"} x"), "malformed"),
        (
            json("/otp", "{\"phone\":\"0151999\",\"phone\":\"015112345678\"}"),
            "repeated",
        ),
        (
            json(
                "/otp",
                "{\"phone\":\"015112345678\",\"Phone\":\"015112345679\"}",
            ),
            "repeated",
        ),
        (
            json("/otp", "{\"ph\\u006fne\":\"1\",\"phone\":\"015112345678\"}"),
            "repeated",
        ),
        (json("/otp", long), "too-large"),
        (typed("text/plain", good), "other-type"),
        (typed("application/json; charset=utf-16", good), "malformed"),
        (
            typed("application/json; charset*=''utf-7", good),
            "malformed",
        ),
        (post("/otp").body(good), "other-type"),
        (
            json("/otp", good).header("content-encoding", "gzip"),
            "encoded",
        ),
    ];
    let reasons: Vec<&str> = cases.iter().map(|(_, reason)| *reason).collect();
    let mut answers = Vec::new();
    for (request, reason) in cases {
        let answer = gateway.send(request).await;
        assert_eq!(answer.status, 400, "{reason}");
        let detail = answer.json()["detail"].to_string();
        assert!(detail.contains("body"), "{detail}");
        answers.push(answer);
    }
    let lines = gateway.lines_of(&answers).await;
    let logged: Vec<_> = lines
        .iter()
        .map(|line| line["missing_reason"].as_str().unwrap())
        .collect();
    assert_eq!(logged, reasons);
    assert_eq!(origin.count(), 0);
    for kind in [
        "application/json; charset=UTF-8",
        "application/vnd.api+json",
    ] {
        assert_eq!(gateway.send(typed(kind, good)).await.status, 200, "{kind}");
    }
}

#[tokio::test]
async fn nested_members_and_form_parameters_are_values() {
    // Goal: a pointer leads into objects and lists, and forms are read as queries are. Method: a limit of each kind, two spellings, then
    // another value.
    let origin = Origin::echo();
    let gateway = Gateway::before(
        &origin,
        r#"
        [limit.nested]
        key = "body.json./users/0/na~1me"
        on_missing = "refuse"
        rates = ["2 per hour"]
        [limit.form]
        key = "body.form.phone"
        on_missing = "refuse"
        rates = ["2 per hour"]
        [[route]]
        path = "/json"
        limits = ["nested"]
        origin = "app"
        [[route]]
        path = "/form"
        limits = ["form"]
        origin = "app"
        "#,
    )
    .await;
    let nested = |name: &str| json("/json", format!("{{\"users\":[{{\"na/me\":{name}}},2]}}"));
    let mut statuses = Vec::new();
    for name in ["1", "1.0", "\"1\"", "true", "{}"] {
        statuses.push(gateway.send(nested(name)).await.status);
    }
    assert_eq!(statuses, [200, 200, 429, 200, 400]);
    let mut statuses = Vec::new();
    for body in [
        "phone=%2B1",
        "x=1&ph%6fne=%2b1",
        "phone=%2B1&y",
        "phone=2",
        "phone=1&phone=2",
        "x=1",
    ] {
        let form = post("/form").header("content-type", "application/x-www-form-urlencoded");
        statuses.push(gateway.send(form.body(body)).await.status);
    }
    assert_eq!(statuses, [200, 200, 429, 200, 400, 400]);
}

#[tokio::test]
async fn every_byte_of_a_body_reaches_the_origin() {
    // Goal: what was read before the decision is forwarded untouched. Method: sizes around the cap and far beyond it, announced, in
    // chunks of several sizes, and over HTTP/2; each on one connection, so that the next request shows that the last ended in its place.
    let origin = Origin::echo();
    let gateway = Gateway::before(&origin, LENIENT).await;
    const CAP: usize = 16 * 1024;
    let mut bodies = vec![String::new(), "x".to_owned()];
    bodies.extend(
        [
            CAP - 1,
            CAP,
            CAP + 1,
            64 << 10,
            (64 << 10) + 1,
            100_000,
            1 << 20,
        ]
        .map(text_of),
    );
    let mut client = gateway.client().await;
    let http2 = gateway.h2c().await;
    let mut raw = gateway.raw().await;
    let mut expected = 0;
    for body in &bodies {
        assert_eq!(client.send(json("/", body.clone())).await.status, 200);
        assert_eq!(http2.send(json("/", body.clone())).await.status, 200);
        for chunk in [1 + body.len() / 3, 40_000, 1 << 20] {
            raw.write(
                "POST / HTTP/1.1\r\nhost: a.test\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n",
            )
            .await;
            for piece in body.as_bytes().chunks(chunk) {
                raw.write(format!("{:x}\r\n", piece.len())).await;
                raw.write(piece).await;
                raw.write("\r\n").await;
            }
            raw.write("0\r\n\r\n").await;
            assert_eq!(
                raw.read_response().await.status,
                200,
                "{} in {chunk}",
                body.len()
            );
        }
        let received = origin.requests().split_off(expected);
        assert_eq!(received.len(), 5, "{}", body.len());
        for request in &received {
            assert!(
                request.whole && request.body == body.as_bytes(),
                "{}",
                body.len()
            );
        }
        expected += received.len();
    }
    let lines = gateway.access_lines(expected).await;
    let bytes: u64 = lines
        .iter()
        .map(|line| line["bytes_in"].as_u64().unwrap())
        .sum();
    assert_eq!(
        bytes,
        bodies.iter().map(|body| 5 * body.len() as u64).sum::<u64>()
    );
}

#[tokio::test]
async fn the_next_request_behind_a_body_is_its_own() {
    // Goal: pipelining stays whole. Method: three requests in one write, of which the second is refused after its body was read.
    let origin = Origin::echo();
    let gateway = Gateway::before(&origin, &KEYED.replace("2 per hour", "1 per hour")).await;
    let body = |phone: &str| {
        let body = format!("{{\"phone\":\"{phone}\"}}");
        let length = body.len();
        format!(
            "POST /otp HTTP/1.1\r\nhost: a.test\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        )
    };
    let mut raw = gateway.raw().await;
    let all = [
        body("015112345678"),
        body("015112345678"),
        body("015112345679"),
    ]
    .concat();
    raw.write(all).await;
    let mut statuses = Vec::new();
    for _ in 0..3 {
        statuses.push(raw.read_response().await.status);
    }
    assert_eq!(statuses, [200, 429, 200]);
    let last = origin.requests().pop().unwrap();
    assert_eq!(last.text(), "{\"phone\":\"015112345679\"}");
}

#[tokio::test]
async fn a_retry_sends_the_body_again_and_charges_once() {
    // Goal: a second server gets the body that was read for the decision. Method: the first server refuses connections.
    let origin = Origin::echo();
    let dead = Origin::echo().stop();
    let gateway = Setup::new()
        .servers("app", &[dead, origin.address()])
        .rules(&LENIENT.replace("100000 per hour", "9 per hour"))
        .start()
        .await;
    for sent in 1..=4 {
        let body = format!("{{\"id\":7,\"x\":{sent}}}");
        let answer = gateway.send(json("/", body.clone())).await;
        assert_eq!((answer.status, answer.remaining("id")), (200, 9 - sent));
        assert_eq!(origin.requests().pop().unwrap().text(), body);
    }
}

#[tokio::test]
async fn a_body_is_counted_where_no_server_takes_it() {
    // Goal: `bytes_in` is what the client sent, whether or not a server is in service, and once for several attempts. Method: a server
    // that refuses connections and is ejected, requests that may be sent again and others, over both versions.
    const BYTES: usize = 508;
    let gateway = Setup::new()
        .servers("app", &["127.0.0.1:1".parse().unwrap()])
        .origin_line("retries = 2")
        .origin_line("outlier_detection = { consecutive_failures = 2, max_percent = 100 }")
        .rules(LENIENT)
        .start()
        .await;
    let (client, mut lines) = (gateway.h2c().await, 0);
    for method in ["PUT", "POST", "PUT"] {
        let request = json("/", text_of(BYTES)).by(method);
        for answer in [
            gateway.send(request.clone()).await,
            client.send(request.clone()).await,
        ] {
            assert!([502, 503].contains(&answer.status), "{answer:?}");
            lines += 1;
        }
    }
    let lines = gateway.access_lines(lines).await;
    assert!(
        lines.iter().any(|line| line["failure"] == "no-server"),
        "{lines:?}"
    );
    for line in lines {
        assert_eq!(line["bytes_in"], BYTES, "{line}");
    }
}

#[tokio::test]
async fn a_client_that_waits_for_100_continue_is_invited_before_the_decision() {
    // Goal: the body is asked for, once, and then decides. Method: raw sockets; the second request of a number with one an hour.
    let origin = Origin::echo();
    let gateway = Gateway::before(&origin, &KEYED.replace("2 per hour", "1 per hour")).await;
    let body = "{\"phone\":\"015112345678\"}";
    for status in [200, 429] {
        let mut raw = gateway.raw().await;
        raw.write(format!(
            "POST /otp HTTP/1.1\r\nhost: a.test\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
             expect: 100-continue\r\n\r\n",
            body.len()
        ))
        .await;
        assert_eq!(raw.read_response().await.status, 100);
        raw.write(body).await;
        assert_eq!(raw.read_response().await.status, status);
    }
    assert_eq!(origin.only_request().text(), body);
}

#[tokio::test]
async fn a_slow_body_is_given_up_and_nothing_is_charged() {
    // Goal: a sender of a byte now and then holds nothing for longer than the deadline of the whole. Method: announce more than is
    // sent, send on until the gateway answers.
    let origin = Origin::echo();
    let rules = format!("[server]\nclient_read_timeout = \"600ms\"\n{KEYED}");
    let gateway = Gateway::before(&origin, &rules).await;
    let mut raw = gateway.raw().await;
    raw.write(
        "POST /otp HTTP/1.1\r\nhost: a.test\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n{",
    )
    .await;
    // A byte now and then, until the answer comes.
    let mut answer = None;
    while answer.is_none() {
        let pause = tokio::time::timeout(Duration::from_millis(100), raw.try_read_response());
        match pause.await {
            Ok(read) => answer = Some(read.unwrap()),
            Err(_) => raw.write(" ").await,
        }
    }
    let answer = answer.unwrap();
    answer.assert_problem(408);
    assert_eq!(origin.count(), 0);
    let line = gateway.access_line().await;
    assert_eq!(
        (line["status"].as_u64(), line["limit"].is_null()),
        (Some(408), true)
    );
}

#[tokio::test]
async fn the_largest_body_of_a_route_still_holds() {
    // Goal: `max_body_bytes` refuses before anything is charged or forwarded. Method: a chunked body larger than the route's, smaller
    // than
    // what is read for keys.
    let origin = Origin::echo();
    let rules = LENIENT
        .replace("origin = \"app\"", "origin = \"app\"\nmax_body_bytes = 100")
        .replace("100000 per hour", "9 per hour");
    let gateway = Gateway::before(&origin, &rules).await;
    let mut raw = gateway.raw().await;
    let body = text_of(200);
    raw.write(format!(
        "POST / HTTP/1.1\r\nhost: a.test\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n\
         c8\r\n{body}\r\n0\r\n\r\n"
    ))
    .await;
    assert_eq!(raw.read_response().await.status, 413);
    let passed = gateway.send(json("/", text_of(50))).await;
    assert_eq!((passed.status, passed.remaining("id")), (200, 8));
    assert_eq!(origin.count(), 1);
}

#[tokio::test]
async fn a_refusal_takes_nothing_from_limits_by_the_body() {
    // Goal: C2 between a key of a body, a key of an address and one counter for all. Method: ten each for a number and a client, three
    // for
    // all; 1,003 requests, of which three pass; then the first two alone, on a route of their own, have 10 − 3 − 1 left.
    let rules = r#"
        [limit.number]
        key = "body.json.phone | e164 DE"
        on_missing = "refuse"
        rates = ["10 per hour"]
        [limit.each]
        key = "client.ip"
        rates = ["10 per hour"]
        [limit.all]
        key = "global"
        rates = ["3 per hour"]
        [[route]]
        path = "/otp"
        limits = ["number", "each", "all"]
        origin = "app"
        [[route]]
        path = "/alone"
        limits = ["number", "each"]
        origin = "app"
        "#;
    let origin = Origin::echo();
    let gateway = Gateway::before(&origin, rules).await;
    let flood = Flood::of(1_003, |_, buffer| {
        buffer.extend_from_slice(
            b"POST /otp HTTP/1.1\r\nHost: a.test\r\nContent-Type: application/json\r\nContent-Length: 24\r\n\r\n\
              {\"phone\":\"015112345678\"}",
        );
    });
    let flood = flood.run(gateway.address()).await;
    assert_eq!((flood.count(200), flood.count(429)), (3, 1_000));
    let alone = json("/alone", "{\"phone\":\"+49 151 12345678\"}");
    let alone = gateway.send(alone).await;
    assert_eq!((alone.remaining("number"), alone.remaining("each")), (6, 6));
}

#[tokio::test]
async fn a_body_that_cannot_be_read_is_a_second_source_beside_the_query() {
    // Goal: a framework that merges query and body (Rails, Laravel) reads no number that the key does not see. Method: one number in the
    // query, another in a body that is too long to be read, compressed, in another charset or of a type that only some take for JSON;
    // and bodies that no framework reads parameters from.
    let origin = Origin::echo();
    let rules = KEYED.replace("body.json.phone | e164 DE", "query.phone");
    let rules = format!("[server]\nmax_key_body_bytes = \"2KiB\"\n{rules}");
    let gateway = Gateway::before(&origin, &rules).await;
    let mut client = gateway.client().await;
    let hidden = "{\"phone\":\"2\"}";
    let long = format!("{{\"x\":\"{}\",\"phone\":\"2\"}}", "x".repeat(3_000));
    let typed = |kind: &str, body: &str| {
        post("/otp?phone=1")
            .header("content-type", kind)
            .body(body.to_owned())
    };
    let json = "application/json";
    for (name, request) in [
        ("longer than is read", typed(json, &long)),
        (
            "compressed",
            typed(json, hidden).header("content-encoding", "gzip"),
        ),
        (
            "another charset",
            typed("application/json; charset=utf-16", hidden),
        ),
        ("text/json", typed("text/json", hidden)),
        ("text/x-json", typed("text/x-json", hidden)),
        (
            "of two types",
            typed("text/plain", hidden).header("content-type", json),
        ),
        ("no JSON", typed(json, "{\"phone\":")),
    ] {
        let answer = client.send(request).await;
        assert_eq!(answer.status, 400, "{name}");
        let line = gateway.lines_of(&[answer]).await.remove(0);
        assert_eq!(line["missing_reason"], "repeated", "{name}: {line}");
    }
    for body in [
        typed("application/octet-stream", &long),
        typed(json, "{\"other\":1}"),
    ] {
        assert_eq!(client.send(body).await.status, 200);
    }
    assert_eq!(client.send(typed("text/plain", hidden)).await.status, 429);
}

#[tokio::test]
async fn bodies_that_are_read_for_keys_have_a_budget() {
    // Goal: clients that send such bodies slowly hold no more than `max_key_bodies_bytes` together, one of them no more than is left, and
    // what finds no room is 503 with its cause. Method: room for two bodies of 16 KiB, three times each, as the buffer counts that they are
    // read into; one with a length and one without, which do not come; requests of their client and of others beside each, and after their
    // ends.
    let origin = Origin::answering(|received| match received.target.as_str() {
        "/hang" => Reply::Hang,
        _ => Answer::new(200).body("here").into(),
    });
    let rules = format!("[server]\nmax_key_bodies_bytes = \"96KiB\"\n{LENIENT}");
    let gateway = Gateway::before(&origin, &rules).await;
    let held = async |bytes: f64| {
        let what = format!("{bytes} bytes are held");
        eventually(&what, async || {
            let metrics = gateway.metrics().await;
            (metrics.sum("sluicegate_key_body_bytes", &[]) == bytes).then_some(())
        })
        .await;
    };
    let begin = async |from: &str, framing: &str| {
        let mut raw = RawConnection::connect_from(from, gateway.address()).await;
        let head = "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Type: application/json\r\n";
        raw.write(format!("{head}{framing}\r\n\r\n")).await;
        raw
    };
    let mut first = begin("127.0.0.7", "Content-Length: 16384").await;
    held(49152.0).await;
    let mut same = gateway.client_from("127.0.0.7").await;
    let of_client = same.send(json("/", text_of(16_000))).await;
    let mut other = gateway.client_from("127.0.0.9").await;
    assert_eq!(other.send(json("/", text_of(100))).await.status, 200);
    // A request holds its bytes to its end, which may come after its client has the answer.
    held(49152.0).await;
    let second = begin("127.0.0.8", "Transfer-Encoding: chunked").await;
    held(98304.0).await;
    let of_all = other.send(json("/", text_of(100))).await;
    for (answer, whose) in [(&of_client, "this client"), (&of_all, "all clients")] {
        answer.assert_problem(503);
        assert_eq!(answer.retry_after(), 1);
        let line = &gateway.lines_of(std::slice::from_ref(answer)).await[0];
        assert_eq!(line["failure"], "key-bodies-full", "{line}");
        let reason = format!("bodies of {whose} are read for keys; max_key_bodies_bytes = 98304");
        assert_eq!(line["reason"], reason, "{line}");
    }
    let metrics = gateway.metrics().await;
    for cap in ["all", "client"] {
        let refused = metrics.sum("sluicegate_key_body_refused_total", &[("cap", cap)]);
        assert_eq!(refused, 1.0, "{cap}");
    }
    first.write(text_of(16_384)).await;
    assert_eq!(first.read_response().await.status, 200);
    held(49152.0).await;
    // The connection of the refused request is closed where its body came later than its answer.
    let mut same = gateway.client_from("127.0.0.7").await;
    assert_eq!(same.send(json("/", text_of(100))).await.status, 200);
    drop(second);
    held(0.0).await;
    // Once a body of unknown length is here, what it holds is known.
    let client = gateway.h2c().await;
    let hanging = tokio::spawn(async move { client.try_send(json("/hang", text_of(100))).await });
    held(300.0).await;
    hanging.abort();
    held(0.0).await;
}

#[tokio::test]
async fn a_body_that_nobody_reads_is_judged_by_its_length() {
    // Goal: with `respond`, an announced length beyond `max_body_bytes` is 413; a body without a length is not read, so it changes nothing.
    // Method: both, over both versions; chunks that go on and on end with their connection.
    let rules = "[[route]]\npath = \"/*\"\nmax_body_bytes = 4\nrespond = { status = 200, body = \"here\" }\n";
    let gateway = Gateway::start(rules).await;
    let head = "POST / HTTP/1.1\r\nHost: a.test\r\n";
    let mut raw = gateway.raw().await;
    raw.write(format!("{head}Content-Length: 5\r\n\r\n12345"))
        .await;
    raw.read_response().await.assert_problem(413);
    let mut raw = gateway.raw().await;
    let chunked = format!("{head}Transfer-Encoding: chunked\r\n\r\n");
    for _ in 0..2 {
        raw.write(format!("{chunked}5\r\n12345\r\n0\r\n\r\n")).await;
        assert_eq!(raw.read_response().await.text(), "here");
    }
    raw.write(chunked).await;
    let chunk = format!("8000\r\n{}\r\n", "x".repeat(0x8000));
    while raw.try_write(&chunk).await.is_ok() {}
    let client = gateway.h2c().await;
    let announced = post("/").header("content-length", "5").body("12345");
    client.send(announced).await.assert_problem(413);
    let answer = client.send(post("/").body("12345")).await;
    assert_eq!((answer.status, answer.text()), (200, "here"));
}
