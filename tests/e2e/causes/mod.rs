//! Every 502, 503 and 504 says why: in the access log, in the process log, in `/origins` and in the metrics.

mod faulty;

use std::time::Duration;

use serde_json::Value;

use crate::harness::frames::INTERNAL_ERROR;
use crate::harness::*;
use faulty::{BlackHole, Faulty, Way, body_reset, goaway, stream_reset, tls};

const NAME: &str = "app.internal";

/// One way to fail, and what is told of it.
struct Case {
    name: &'static str,
    way: Way,
    /// Lines of the origin's table.
    lines: &'static str,
    status: u64,
    failure: &'static str,
    reason: &'static str,
}

impl Case {
    fn new(name: &'static str, way: Way, told: (u64, &'static str, &'static str)) -> Self {
        let (status, failure, reason) = told;
        Self {
            name,
            way,
            lines: "",
            status,
            failure,
            reason,
        }
    }

    fn with(mut self, lines: &'static str) -> Self {
        self.lines = lines;
        self
    }
}

/// Faults before the response head, by what an origin does.
fn heads() -> Vec<Case> {
    let fields: String = (0..300).map(|n| format!("x-{n}: y\r\n")).collect();
    let many = format!("HTTP/1.1 200 OK\r\n{fields}\r\n").into_bytes();
    let large = format!("HTTP/1.1 200 OK\r\nx: {}", "y".repeat(1 << 21)).into_bytes();
    vec![
        Case::new(
            "reset-at-accept",
            Way::ResetAtOnce,
            (502, "reset", "os error"),
        ),
        Case::new(
            "reset-in-head",
            Way::ResetAfter(b"HTTP/1.1 20".to_vec()),
            (502, "reset", "Connection reset by peer (os error 104)"),
        ),
        Case::new(
            "close",
            Way::CloseAfter(Vec::new()),
            (502, "closed", "connection closed before the response"),
        ),
        Case::new(
            "close-in-head",
            Way::CloseAfter(b"HTTP/1.1 200 OK\r\n".to_vec()),
            (
                502,
                "closed",
                "connection closed after 17 bytes of the response head",
            ),
        ),
        Case::new(
            "no-http",
            Way::CloseAfter(b"SSH-2.0-OpenSSH_9.2\r\nlisten to me\r\n\r\n".to_vec()),
            (
                502,
                "malformed-head",
                "invalid HTTP version in a head that begins with \"SSH-2.0-OpenSSH_9.2\"",
            ),
        ),
        Case::new(
            "bad-status",
            Way::CloseAfter(b"HTTP/1.1 2xx OK\r\n\r\n".to_vec()),
            (
                502,
                "malformed-head",
                "invalid response status in a head that begins with \"HTTP/1.1 2xx OK\"",
            ),
        ),
        Case::new(
            "two-lengths",
            Way::CloseAfter(
                b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n".to_vec(),
            ),
            (502, "malformed-head", "(RFC 9112 section 6.3)"),
        ),
        Case::new(
            "bad-first-chunk",
            Way::CloseAfter(
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nok\r\n".to_vec(),
            ),
            (
                502,
                "malformed-body",
                "malformed chunk (RFC 9112 section 7.1)",
            ),
        ),
        Case::new(
            "many-fields",
            Way::CloseAfter(many),
            (502, "too-many-fields", "more than 256 header fields"),
        ),
        Case::new(
            "large-head",
            Way::SilentAfter(large),
            (
                502,
                "head-too-large",
                "more than 1048575 bytes of header fields",
            ),
        ),
        Case::new(
            "silent",
            Way::SilentAfter(Vec::new()),
            (504, "ttfb-timeout", "no response head within 300ms"),
        )
        .with("timeouts = { read = \"300ms\" }"),
        Case::new(
            "silent-total",
            Way::SilentAfter(Vec::new()),
            (
                504,
                "total-timeout",
                "the response was not complete within 300ms",
            ),
        )
        .with("timeouts = { total = \"300ms\" }"),
        Case::new(
            "plain",
            Way::Blurt(b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()),
            (502, "tls", "InvalidContentType"),
        )
        .with("tls = { verify = \"off\" }"),
        Case::new(
            "tls-silent",
            Way::Deaf,
            (504, "connect-timeout", "within 300ms"),
        )
        .with("tls = { verify = \"off\" }\ntimeouts = { connect = \"300ms\" }"),
        Case::new(
            "no-h2",
            Way::Blurt(b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()),
            (502, "protocol", ""),
        )
        .with("protocol = \"h2c\""),
        Case::new(
            "stream-reset",
            stream_reset(INTERNAL_ERROR),
            (502, "reset", "the server reset the stream: INTERNAL_ERROR"),
        )
        .with("protocol = \"h2c\""),
        Case::new(
            "goaway",
            goaway(INTERNAL_ERROR),
            (
                502,
                "reset",
                "the server did not process the request: INTERNAL_ERROR",
            ),
        )
        .with("protocol = \"h2c\""),
    ]
}

/// Faults in the middle of a body: the client already has the status.
fn bodies() -> Vec<Case> {
    let part = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n0123456789".to_vec();
    let chunks = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n01234\r\n".to_vec();
    // More than the read that brings the head.
    let large = vec![b'x'; 200_000];
    let begun = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n30d40\r\n";
    let bad = [&begun[..], &large, b"\r\nzz\r\n"].concat();
    vec![
        Case::new(
            "short",
            Way::CloseAfter(part.clone()),
            (
                200,
                "truncated",
                "connection closed, after 10 of 1000 bytes of the body",
            ),
        ),
        Case::new(
            "short-chunks",
            Way::CloseAfter(chunks),
            (
                200,
                "truncated",
                "connection closed, after 5 bytes of the body",
            ),
        ),
        Case::new(
            "bad-chunks",
            Way::CloseAfter(bad),
            (
                200,
                "malformed-body",
                "malformed chunk (RFC 9112 section 7.1), after",
            ),
        ),
        Case::new(
            "reset-in-body",
            Way::ResetAfter(part.clone()),
            (200, "truncated", "bytes of the body"),
        ),
        Case::new(
            "stalled",
            Way::SilentAfter(part.clone()),
            (
                200,
                "read-timeout",
                "no byte for 300ms, after 10 of 1000 bytes",
            ),
        )
        .with("timeouts = { read = \"300ms\" }"),
        Case::new(
            "stream-reset-in-body",
            body_reset(INTERNAL_ERROR),
            (
                200,
                "truncated",
                "the server reset the stream: INTERNAL_ERROR, after 10 bytes",
            ),
        )
        .with("protocol = \"h2c\""),
    ]
}

/// Certificates that are not believed.
fn certificates(ours: &Authority) -> Vec<Case> {
    let line = "tls = { ca_file = \"../ca.pem\", server_name = \"app.internal\" }";
    [
        (
            "unknown-signer",
            tls(&Authority::new().server(&[NAME])),
            "invalid peer certificate",
        ),
        (
            "other-name",
            tls(&ours.server(&["other.internal"])),
            "not valid for name \"app.internal\"",
        ),
        ("expired", tls(&ours.expired(&[NAME])), "expired"),
        // What `openssl req -x509` makes, named as its own ca_file.
        (
            "self-signed",
            tls(&ours.itself()),
            "make it with -addext basicConstraints=critical,CA:FALSE",
        ),
    ]
    .map(|(name, way, reason)| Case::new(name, way, (502, "tls", reason)).with(line))
    .into()
}

/// The route to an origin by its name.
fn route(name: &str) -> String {
    format!("[[route]]\npath = \"/{name}\"\norigin = \"{name}\"\n")
}

/// Asks every case once; the gateway, and each case's line.
async fn ask(
    cases: Vec<Case>,
    authority: &Authority,
) -> (Gateway, Vec<(Case, Value)>, Vec<Faulty>) {
    let (mut setup, mut routes) = (Setup::new().file("ca.pem", &authority.pem()), String::new());
    let mut origins = Vec::new();
    for case in &cases {
        let origin = Faulty::start(case.way.clone()).await;
        setup = setup
            .servers(case.name, &[origin.address])
            .origin_line(case.lines);
        routes.push_str(&route(case.name));
        origins.push(origin);
    }
    let gateway = setup.rules(&routes).start().await;
    for case in &cases {
        // A body that breaks off is an error to the client.
        let _ = gateway
            .client()
            .await
            .try_send(get(&format!("/{}", case.name)))
            .await;
    }
    let lines = gateway.access_lines(cases.len()).await;
    let told = cases.into_iter().map(|case| {
        let target = format!("/{}", case.name);
        let line = lines.iter().find(|line| line["target"] == target);
        (
            case,
            line.unwrap_or_else(|| panic!("{target} has no line"))
                .clone(),
        )
    });
    let told = told.collect();
    (gateway, told, origins)
}

#[tokio::test]
async fn every_failure_of_an_origin_has_its_cause() {
    // Goal: an operator reads in the log why an answer failed, and in the process log, metrics and `/origins` the same. Method: a table
    // of faults, each by an origin of its own; the line's status, kind and reason, and one warning for each server.
    let authority = Authority::new();
    let cases = heads()
        .into_iter()
        .chain(bodies())
        .chain(certificates(&authority));
    let (gateway, told, _origins) = ask(cases.collect(), &authority).await;
    let log = gateway.stderr();
    let metrics = gateway.admin(get("/metrics")).await.text().to_owned();
    let origins = gateway.admin(get("/origins")).await.json();
    for (case, line) in &told {
        let name = case.name;
        assert_eq!(line["outcome"], "origin-failed", "{name}: {line}");
        assert_eq!(line["status"], case.status, "{name}: {line}");
        assert_eq!(line["failure"], case.failure, "{name}: {line}");
        let reason = line["reason"].as_str().unwrap_or_default();
        assert!(
            !reason.is_empty() && reason.contains(case.reason),
            "{name}: {line}"
        );
        let warnings: Vec<_> = log
            .lines()
            .filter(|line| line.contains(&format!("origin {name}:")))
            .collect();
        let warning = format!(
            "origin {name}: server {}: {}: {reason}",
            line["origin_addr"].as_str().unwrap(),
            case.failure
        );
        assert!(
            warnings.len() == 1 && warnings[0].contains(&warning),
            "{warning}\n{log}"
        );
        let labels = [
            format!("origin=\"{name}\""),
            format!("failure=\"{}\"", case.failure),
        ];
        assert!(
            metrics
                .lines()
                .any(|line| line.starts_with("sluicegate_origin_failures_total{")
                    && labels.iter().all(|label| line.contains(label))),
            "{labels:?}\n{metrics}"
        );
        let shown = origins["origins"]
            .as_array()
            .unwrap()
            .iter()
            .find(|origin| origin["name"] == name)
            .unwrap();
        assert_eq!(
            shown["servers"][0]["last_error"]["reason"], reason,
            "{shown}"
        );
    }
}

#[tokio::test]
async fn an_unreachable_server_has_a_cause() {
    // Goal: a stopped server, one behind a firewall that drops, and an origin whose servers are all out of service are distinguished.
    // Method: a closed port, one whose queue is full, one that its checks took out, one that failed too often.
    let hole = BlackHole::start().await;
    let out = "health = { interval = \"100ms\", unhealthy_after = 1 }";
    let ejected = "outlier_detection = { consecutive_failures = 1, max_percent = 100 }";
    let gateway = Setup::new()
        .servers("stopped", &[free_address()])
        .servers("hole", &[hole.address])
        .origin_line("timeouts = { connect = \"300ms\" }")
        .servers("bounded", &[hole.address])
        .origin_line(
            "timeouts = { connect = \"300ms\" }\ncircuit_breaker = { max_connections = 4 }",
        )
        .servers("down", &[free_address(), free_address()])
        .origin_line(out)
        .servers("ejected", &[free_address()])
        .origin_line(ejected)
        .rules(
            &["stopped", "hole", "bounded", "down", "ejected"]
                .map(route)
                .concat(),
        )
        .start()
        .await;
    let line = async |target: &str, status: u16| {
        let answer = eventually("the status", async || {
            let answer = gateway.get(target).await;
            (answer.status == status).then_some(answer)
        })
        .await;
        gateway.lines_of(&[answer]).await.remove(0)
    };
    for (target, status, failure, reason) in [
        (
            "/stopped",
            502,
            "connect",
            "Connection refused (os error 111)",
        ),
        (
            "/hole",
            504,
            "connect-timeout",
            "no connection within 300ms",
        ),
        (
            "/bounded",
            504,
            "connect-timeout",
            "no connection within 300ms",
        ),
        ("/down", 503, "no-server", "of 2 servers, 2 down"),
        ("/ejected", 503, "no-server", "of 1 servers, 1 ejected"),
    ] {
        let line = line(target, status).await;
        assert_eq!(line["failure"], failure, "{line}");
        assert_eq!(line["reason"], reason, "{line}");
        assert!(
            gateway.stderr().contains(&format!("{failure}: {reason}")),
            "{}",
            gateway.stderr()
        );
    }
}

#[tokio::test]
async fn a_full_origin_says_whether_the_queue_was_full_or_the_wait_too_long() {
    // Goal: the two reasons for which a full origin answers 503. Method: one place that is never left, one that may wait for it, and a
    // second that may not.
    let origin = Origin::answering(|_| Reply::Hang);
    let gateway = Setup::new()
        .origin("app", &origin)
        .origin_line(
            "circuit_breaker = { max_requests = 1, max_pending = 1, pending_timeout = \"2s\" }",
        )
        .rules("[[route]]\npath = \"/*\"\norigin = \"app\"\n")
        .start()
        .await;
    let mut stuck = gateway.client().await;
    let stuck = tokio::spawn(async move { stuck.try_send(get("/stuck")).await });
    origin.is_asked(1).await;
    let mut waiting = gateway.client().await;
    let waiting = tokio::spawn(async move { waiting.send(get("/waiting")).await });
    eventually("one waits", async || {
        let status = gateway.status().await;
        (status["origins"][0]["pending"] == 1).then_some(())
    })
    .await;
    let refused = gateway.get("/refused").await;
    let waited = tokio::time::timeout(Duration::from_secs(30), waiting)
        .await
        .unwrap()
        .unwrap();
    let lines = gateway.lines_of(&[refused, waited]).await;
    assert_eq!(lines[0]["failure"], "circuit-full", "{}", lines[0]);
    assert_eq!(lines[1]["failure"], "pending-timeout", "{}", lines[1]);
    assert_eq!(lines[1]["reason"], "every server was full for 2s");
    stuck.abort();
}

#[tokio::test]
async fn a_flood_of_failures_is_one_warning_with_a_count() {
    // Goal: a dead origin under load does not fill the process log, and nothing is hidden. Method: fifty failures; one warning, and the
    // metric counts each. The request that a second server saves has no failure in its line.
    let alive = Origin::named("alive");
    let gateway = Setup::new()
        .servers("dead", &[free_address()])
        .origin_line("retries = 0")
        .servers("half", &[free_address(), alive.address()])
        .rules(&["dead", "half"].map(route).concat())
        .start()
        .await;
    let mut client = gateway.client().await;
    for _ in 0..50 {
        assert_eq!(client.get("/dead").await.status, 502);
        client = gateway.client().await;
    }
    let log = gateway.stderr();
    assert_eq!(log.matches("origin dead: server").count(), 1, "{log}");
    let metrics = gateway.admin(get("/metrics")).await.text().to_owned();
    let line = metrics.lines().find(|line| {
        line.starts_with("sluicegate_origin_failures_total{") && line.contains("\"dead\"")
    });
    assert!(line.is_some_and(|line| line.ends_with(" 50")), "{line:?}");
    let answers = [gateway.get("/half").await, gateway.get("/half").await];
    for line in gateway.lines_of(&answers).await {
        assert!(line["status"] == 200 && line["failure"].is_null(), "{line}");
    }
}

#[tokio::test]
async fn a_rejected_request_says_which_rule_it_broke() {
    // Goal: a 4xx of the gateway's own has a reason in the log. Method: a route that is none, a body that is too large, chunks that are
    // no chunks.
    let origin = Origin::echo();
    let gateway = Setup::new()
        .origin("app", &origin)
        .rules("[[route]]\npath = \"/up\"\norigin = \"app\"\nmax_body_bytes = 4\n")
        .start()
        .await;
    let answers = [
        gateway.get("/none").await,
        gateway.send(post("/up").body("too much")).await,
        gateway.get("/a%zz").await,
    ];
    for (line, reason) in gateway.lines_of(&answers).await.iter().zip([
        "no route matches this request",
        "the request body is larger than this route accepts",
        "",
    ]) {
        let told = line["reason"].as_str().unwrap_or_default();
        assert!(!told.is_empty() && told.contains(reason), "{line}");
        assert!(line["failure"].is_null(), "{line}");
    }
}
