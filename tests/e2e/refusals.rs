//! What a refused client is told, what an admitted one is told, and that refusing costs neither of them the connection.

use serde_json::json;

use crate::harness::*;

/// Five an hour at `/otp`, the rest free, both answered by the echoing origin.
const OTP: &str = r#"
[limit.otp]
key = "client.ip"
rates = ["5 per 1h"]
[[route]]
path = "/otp"
limits = ["otp"]
origin = "app"
[[route]]
path = "/*"
origin = "app"
"#;

/// A gateway whose limit this client has used up.
async fn exhausted(origin: &Origin) -> Gateway {
    let gateway = Gateway::before(origin, OTP).await;
    let mut client = gateway.client().await;
    for left in (0..5).rev() {
        assert_eq!(client.get("/otp").await.remaining("otp"), left);
    }
    gateway
}

#[tokio::test]
async fn a_refusal_says_which_limit_and_when_to_come_back() {
    // Goal: fields and body as RFC 9110, RFC 9457 and the RateLimit draft want them. Method: every one compared.
    let origin = Origin::echo();
    let gateway = exhausted(&origin).await;
    let answer = gateway.get("/otp").await;
    answer.assert_problem(429);
    assert_eq!(answer.all("ratelimit-policy"), ["\"otp\";q=5;w=3600"]);
    let wait = answer.retry_after();
    assert!((1..=3601).contains(&wait), "{answer:?}");
    assert_eq!(answer.remaining("otp"), 0);
    assert!(answer.seconds_to_more("otp") <= wait, "{answer:?}");
    let body = answer.json();
    assert_eq!(
        body["type"],
        "https://iana.org/assignments/http-problem-types#quota-exceeded"
    );
    assert_eq!(body["violated-policies"], json!(["otp"]));
    assert_eq!(
        answer.header("content-length"),
        Some(answer.body.len().to_string().as_str())
    );
    assert_eq!(origin.count(), 5);
}

#[tokio::test]
async fn clients_that_are_rejected_together_come_back_apart() {
    // Goal: `retry_jitter` spreads Retry-After over its length, never below the true wait, and the log has what the client was told.
    // Method: sixty rejections within one window of an hour; the wait that the RateLimit field has is the same for all.
    let rules = OTP.replace("rates = ", "retry_jitter = \"10m\"\nrates = ");
    let origin = Origin::echo();
    let gateway = Gateway::before(&origin, &rules).await;
    let mut client = gateway.client().await;
    for _ in 0..5 {
        assert_eq!(client.get("/otp").await.status, 200);
    }
    let mut waits = Vec::new();
    for _ in 0..60 {
        let answer = client.get("/otp").await;
        answer.assert_problem(429);
        let (wait, more) = (answer.retry_after(), answer.seconds_to_more("otp"));
        // The field in whole seconds is rounded up as well, and never beyond the window.
        assert!(wait >= more && wait <= more + 602, "{wait} {more}");
        waits.push(wait);
    }
    let (least, most) = (waits.iter().min().unwrap(), waits.iter().max().unwrap());
    assert!(most - least > 300, "{waits:?}");
    let lines = gateway.access_lines(65).await;
    let logged: Vec<_> = lines
        .iter()
        .filter_map(|line| line["retry_after"].as_u64())
        .collect();
    assert_eq!(logged, waits);
}

#[tokio::test]
async fn waiting_as_long_as_retry_after_says_is_enough() {
    // Goal: Retry-After is true. Method: one per 2 s; after a refusal wait that many seconds, which is what is under test,
    // and be admitted. Then once more, to meet another place in the window.
    let gateway = Gateway::start(
        r#"
        [limit.one]
        key = "client.ip"
        rates = ["1 per 2s"]
        [[route]]
        path = "/"
        limits = ["one"]
        respond = { status = 200 }
        "#,
    )
    .await;
    let mut client = gateway.client().await;
    assert_eq!(client.get("/").await.status, 200);
    for _ in 0..2 {
        // Where two windows meet one more may pass; who goes on asking is refused.
        let refused = eventually("it is refused", async || {
            Some(client.get("/").await).filter(|answer| answer.status == 429)
        })
        .await;
        tokio::time::sleep(std::time::Duration::from_secs(refused.retry_after())).await;
        assert_eq!(client.get("/").await.status, 200, "{refused:?}");
    }
}

#[tokio::test]
async fn several_rates_and_limits_each_have_an_item() {
    // Goal: one item per rate, named apart where a limit has several; the violated ones only in the body. Method: a limit
    // with two rates beside one with one.
    let gateway = Gateway::start(
        r#"
        [limit.otp]
        key = "client.ip"
        rates = ["2 per 1h", "20 per 2h"]
        [limit.all]
        key = "global"
        rates = ["100 per 1h"]
        [[route]]
        path = "/"
        limits = ["otp", "all"]
        respond = { status = 200 }
        "#,
    )
    .await;
    let mut client = gateway.client().await;
    let admitted = client.get("/").await;
    let policy = admitted.all("ratelimit-policy").join(", ");
    for item in [
        "\"otp-3600s\";q=2;w=3600",
        "\"otp-7200s\";q=20;w=7200",
        "\"all\";q=100;w=3600",
    ] {
        assert!(policy.contains(item), "{item} is not in {policy}");
    }
    let left = ["otp-3600s", "otp-7200s", "all"].map(|item| admitted.remaining(item));
    assert_eq!(left, [1, 19, 99]);
    client.get("/").await;
    let refused = client.get("/").await;
    assert_eq!(refused.status, 429);
    let violated = refused.violated();
    assert!(
        violated.len() == 1 && violated[0].starts_with("otp"),
        "{refused:?}"
    );
}

#[tokio::test]
async fn admitted_answers_tell_what_is_left_beside_the_origins_own_fields() {
    // Goal: the origin's RateLimit fields are kept, ours are added. Method: an origin with a quota of its own.
    let origin = Origin::answering(|_| {
        let answer = Answer::new(200).header("RateLimit-Policy", "\"app\";q=9;w=60");
        answer
            .header("RateLimit", "\"app\";r=8;t=60")
            .body("ok")
            .into()
    });
    let gateway = Gateway::before(&origin, OTP).await;
    let answer = gateway.get("/otp").await;
    assert_eq!(answer.status, 200);
    assert_eq!((answer.remaining("otp"), answer.remaining("app")), (4, 8));
    let policy = answer.all("ratelimit-policy").join(", ");
    assert!(
        policy.contains("\"otp\";q=5;w=3600") && policy.contains("\"app\";q=9;w=60"),
        "{policy}"
    );
    let free = gateway.get("/free").await;
    assert_eq!(
        free.all("ratelimit"),
        ["\"app\";r=8;t=60"],
        "a route without limits adds nothing"
    );
}

#[tokio::test]
async fn a_repeated_refusal_reads_like_the_first() {
    // Goal: there are two writers of a 429, the proxy's and the listener's. Method: two refusals on one connection; the same
    // fields, the same policy, the same body.
    let origin = Origin::echo();
    let gateway = exhausted(&origin).await;
    let mut client = gateway.client().await;
    let first = client.post("/otp").await;
    let second = client.post("/otp").await;
    assert_eq!((first.status, second.status), (429, 429));
    let [first_names, second_names] = [&first, &second].map(|answer| {
        let names = answer.headers.keys().map(ToString::to_string);
        names.collect::<std::collections::BTreeSet<_>>()
    });
    assert_eq!(first_names, second_names);
    for name in ["ratelimit-policy", "content-type", "content-length"] {
        assert_eq!(first.header(name), second.header(name), "{name}");
    }
    assert_eq!(first.text(), second.text());
}

#[tokio::test]
async fn a_refused_connection_goes_on() {
    // Goal: a refusal closes nothing, whatever the method. Method: on one socket, refused GET, HEAD and POST with a small
    // body and with a chunked one, each followed by a request that passes.
    let origin = Origin::echo();
    let gateway = exhausted(&origin).await;
    let mut raw = gateway.raw().await;
    let refused = [
        "GET /otp HTTP/1.1\r\nHost: a\r\n\r\n",
        "HEAD /otp HTTP/1.1\r\nHost: a\r\n\r\n",
        "POST /otp HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\nphone=12345",
        "POST /otp HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nb\r\nphone=12345\r\n0\r\n\r\n",
        "DELETE /otp HTTP/1.1\r\nHost: a\r\n\r\n",
    ];
    for request in refused {
        raw.write(request).await;
        let answer = if request.starts_with("HEAD") {
            raw.read_response_to_head().await
        } else {
            raw.read_response().await
        };
        assert_eq!(answer.status, 429, "{request}");
        assert_ne!(answer.header("connection"), Some("close"), "{request}");
        raw.write("GET /free HTTP/1.1\r\nHost: a\r\n\r\n").await;
        assert_eq!(
            raw.read_response().await.echo().target,
            "/free",
            "after {request}"
        );
    }
    assert_eq!(
        gateway
            .metrics()
            .await
            .sum("sluicegate_limit_refused_total", &[("limit", "otp")]),
        5.0
    );
}

#[tokio::test]
async fn connection_close_is_honored_after_a_rejection() {
    // Goal: `Connection: close` and HTTP/1.0 end the connection. Method: read to the end, which must come.
    let origin = Origin::echo();
    let gateway = exhausted(&origin).await;
    for request in [
        "GET /otp HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        "GET /otp HTTP/1.0\r\nHost: a\r\n\r\n",
    ] {
        let mut raw = gateway.raw().await;
        raw.write(request).await;
        let text = String::from_utf8(raw.read_to_end().await).unwrap();
        assert!(text.contains(" 429 "), "{text}");
    }
}

#[tokio::test]
async fn a_refused_upload_is_not_read_to_the_end() {
    // Goal: a rejected upload is not read to its end. Method: announce 100 MB, read the rejection, keep
    // sending: the gateway must close long before the end, and before sockets' own buffers could explain it.
    let origin = Origin::echo();
    let gateway = exhausted(&origin).await;
    let mut raw = RawConnection::connect_unbuffered(gateway.address()).await;
    raw.write("POST /otp HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\n")
        .await;
    let piece = vec![b'x'; 64 * 1024];
    raw.write(&piece).await;
    assert_eq!(raw.read_response().await.status, 429);
    let mut sent = piece.len();
    while sent < 100_000_000 && raw.try_write(&piece).await.is_ok() {
        sent += piece.len();
    }
    assert!(
        sent < 20_000_000,
        "the gateway took {sent} bytes of a refused body"
    );
    assert_eq!(origin.count(), 5);
}

#[tokio::test]
async fn an_upload_refused_before_its_body_is_sent_need_not_be_sent() {
    // Goal: with Expect: 100-continue a refusal comes instead of the interim answer. Method: send the head only.
    let origin = Origin::echo();
    let gateway = exhausted(&origin).await;
    let mut raw = gateway.raw().await;
    raw.write(
        "POST /otp HTTP/1.1\r\nHost: a\r\nContent-Length: 5000000\r\nExpect: 100-continue\r\n\r\n",
    )
    .await;
    assert_eq!(raw.read_response().await.status, 429);
}

#[tokio::test]
async fn pipelined_requests_are_answered_after_a_refusal() {
    // Goal: requests that arrive in one piece each get their answer, in order. Method: six requests in one write, refused
    // and free ones mixed.
    let origin = Origin::echo();
    let gateway = exhausted(&origin).await;
    let mut raw = gateway.raw().await;
    let paths = ["/otp", "/one", "/otp", "/otp", "/two", "/otp"];
    let requests: String = paths
        .iter()
        .map(|path| format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"))
        .collect();
    raw.write(requests).await;
    for path in paths {
        let answer = raw.read_response().await;
        if path == "/otp" {
            assert_eq!(answer.status, 429);
        } else {
            assert_eq!(answer.echo().target, path);
        }
    }
}

#[tokio::test]
async fn answers_that_are_gathered_wait_for_no_later_request() {
    // Goal: answers that leave in one write are neither lost nor held back. Method: rejected requests in one write, more than are
    // gathered at once, with the beginning of another; all are answered before its end comes.
    const REQUESTS: usize = 100;
    let origin = Origin::echo();
    let gateway = exhausted(&origin).await;
    let mut raw = gateway.raw().await;
    let request = "POST /otp HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc";
    raw.write(request.repeat(REQUESTS) + "GET /free HTTP/1.1\r\nHo")
        .await;
    for _ in 0..REQUESTS {
        assert_eq!(raw.read_response().await.status, 429);
    }
    raw.write("st: a\r\n\r\n").await;
    assert_eq!(raw.read_response().await.echo().target, "/free");
}

#[tokio::test]
async fn answers_that_are_gathered_come_before_that_to_a_malformed_head() {
    // Goal: no answer is lost, so none is taken for that of another request. Method: two rejected requests and a
    // malformed one in one write.
    let origin = Origin::echo();
    let gateway = exhausted(&origin).await;
    let mut raw = gateway.raw().await;
    let request = "GET /otp HTTP/1.1\r\nHost: a\r\n\r\n";
    raw.write(request.repeat(2) + "GET /free HTTP/1.1\r\nHost : a\r\n\r\n")
        .await;
    for status in [429, 429, 400] {
        assert_eq!(raw.read_response().await.status, status);
    }
}

#[tokio::test]
async fn a_body_behind_a_refusal_is_never_taken_for_a_request() {
    // Goal: no smuggling through the unread body of a refused request. Method: a body that looks like a request; whatever
    // the gateway does with the connection, the origin must not see it.
    let origin = Origin::echo();
    let gateway = exhausted(&origin).await;
    for coding in ["length", "chunked"] {
        let mut raw = gateway.raw().await;
        let inner = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";
        let request = match coding {
            "length" => format!(
                "POST /otp HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{inner}",
                inner.len()
            ),
            _ => format!(
                "POST /otp HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{inner}\r\n0\r\n\r\n",
                inner.len()
            ),
        };
        raw.write(request).await;
        assert_eq!(raw.read_response().await.status, 429);
        let _ = raw
            .try_write("GET /end HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            .await;
        raw.read_to_end().await;
    }
    assert!(
        origin
            .requests()
            .iter()
            .all(|request| request.target != "/smuggled")
    );
}

#[tokio::test]
async fn a_refusal_over_http2_is_complete_and_the_connection_goes_on() {
    // Goal: the same fields and body over h2c, with and without a request body. Method: refused and free streams in turn.
    let origin = Origin::echo();
    let gateway = exhausted(&origin).await;
    let client = gateway.h2c().await;
    for request in [get("/otp"), post("/otp").body("phone=12345"), head("/otp")] {
        let shown = format!("{request:?}");
        let answer = client.send(request).await;
        assert_eq!(
            (answer.status, answer.remaining("otp")),
            (429, 0),
            "{shown}"
        );
        assert!(answer.retry_after() > 0);
        if !shown.contains("HEAD") {
            assert_eq!(answer.violated(), ["otp"]);
        }
        assert_eq!(client.send(get("/free")).await.echo().target, "/free");
    }
}

#[tokio::test]
async fn a_refusal_is_no_error_in_the_process_log() {
    // Goal: an attack does not fill the operator's log. Method: a thousand refusals; the log stays as it was.
    let origin = Origin::echo();
    let gateway = exhausted(&origin).await;
    let before = gateway.stderr().lines().count();
    let report = Flood::gets(1000, "/otp").run(gateway.address()).await;
    assert_eq!(report.count(429), 1000);
    let after = gateway.stderr();
    assert!(after.lines().count() <= before + 1, "{after}");
}
