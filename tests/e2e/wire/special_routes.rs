//! Routes that read bodies, change answers, or switch protocols, over HTTP/1.1.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::harness::*;

/// A route of every kind, and a page for errors of origins.
const EVERY_KIND: &str = r#"
[error_pages.5xx]
html = "<h1>{status}</h1>"
intercept = true

[limit.phone]
rates = ["100 per 1m"]
on_missing = "refuse"
key = "body.json.phone"

[[route]]
path = "/shaped/*"
origin = "app"
response_headers = { set = { x-shaped = "yes" } }

[[route]]
path = "/gzip/*"
origin = "app"
compress = { encodings = ["gzip"], min_bytes = 0, types = ["text/plain"] }

[[route]]
path = "/keyed/*"
origin = "app"
limits = ["phone"]

[[route]]
path = "/*"
origin = "app"
"#;

const UPGRADE: &str = "Connection: Upgrade\r\nUpgrade: websocket\r\n\
    Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

/// A request that accepts an HTML page, for `/N` below the folder of its kind, and the kind of its answer.
fn request_of(n: usize) -> (String, &'static str) {
    let keyed = r#"{"phone":"+491701234567"}"#;
    let length = keyed.len();
    let browser = "Host: a\r\nAccept: text/html\r\n";
    match n % 6 {
        0 => (
            format!("GET /shaped/{n} HTTP/1.1\r\n{browser}\r\n"),
            "shaped",
        ),
        1 => (
            format!("GET /gzip/{n} HTTP/1.1\r\n{browser}Accept-Encoding: gzip\r\n\r\n"),
            "gzip",
        ),
        2 => (
            format!(
                "POST /keyed/{n} HTTP/1.1\r\n{browser}Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{keyed}"
            ),
            "plain",
        ),
        3 => (
            format!(
                "POST /keyed/{n} HTTP/1.1\r\n{browser}Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n\
                 {length:x}\r\n{keyed}\r\n0\r\n\r\n"
            ),
            "plain",
        ),
        4 => (format!("GET /broken/{n} HTTP/1.1\r\n{browser}\r\n"), "page"),
        _ => (
            format!("GET /socket/{n} HTTP/1.1\r\n{browser}{UPGRADE}\r\n"),
            "plain",
        ),
    }
}

#[tokio::test]
async fn pipelined_requests_to_every_kind_of_route_are_answered_in_order() {
    // Goal: no kind of route loses a request that arrives early. Method: twelve requests in one write to routes that edit, compress, read a
    // key from the body, replace an error, or are refused an upgrade; the origin is slow, and each of its answers names its request.
    let origin = Origin::answering(|request| {
        let status = if request.target.starts_with("/broken") {
            503
        } else {
            200
        };
        let told = format!("{} {} bytes", request.target, request.body.len());
        let answer = Answer::new(status)
            .header("Content-Type", "text/plain")
            .body(told);
        Reply::After(Duration::from_millis(10), Box::new(answer.into()))
    });
    let gateway = Gateway::before(&origin, EVERY_KIND).await;
    let mut raw = gateway.raw().await;
    raw.write((0..12).map(|n| request_of(n).0).collect::<String>())
        .await;
    for n in 0..12 {
        let (request, kind) = request_of(n);
        let target = request.split(' ').nth(1).unwrap();
        let answer = raw.read_response().await;
        let bytes = if target.starts_with("/keyed") { 25 } else { 0 };
        let told = format!("{target} {bytes} bytes");
        match kind {
            "gzip" => {
                let mut text = String::new();
                let mut coder = flate2::read::GzDecoder::new(&answer.body[..]);
                std::io::Read::read_to_string(&mut coder, &mut text).unwrap();
                assert_eq!(
                    (answer.header("content-encoding"), text),
                    (Some("gzip"), told)
                );
            }
            "page" => assert_eq!((answer.status, answer.text()), (503, "<h1>503</h1>")),
            _ => {
                assert_eq!(
                    (answer.status, answer.text()),
                    (200, told.as_str()),
                    "{request}"
                );
                let shaped = (kind == "shaped").then_some("yes");
                assert_eq!(answer.header("x-shaped"), shaped);
            }
        }
    }
}

#[tokio::test]
async fn a_request_behind_a_body_that_was_waited_for_is_answered() {
    // Goal: a body that follows `100 Continue` ends where its length says. Method: body and next request in one write.
    let origin = Origin::echo();
    let gateway = Gateway::passing(&origin).await;
    let mut raw = gateway.raw().await;
    raw.write("POST /one HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
        .await;
    assert_eq!(raw.read_response_to_head().await.status, 100);
    raw.write("helloGET /two HTTP/1.1\r\nHost: a\r\n\r\n").await;
    for (target, body) in [("/one", &b"hello"[..]), ("/two", b"")] {
        let echo = raw.read_response().await.echo();
        assert_eq!((echo.target.as_str(), &echo.body[..]), (target, body));
    }
}

#[tokio::test]
async fn an_origin_is_not_blamed_for_a_body_that_stops() {
    // Goal: a client that stops in its body gets 408, though the origin's time is shorter than its own, and the log says why. Method: half
    // a body.
    let origin = Origin::echo();
    let gateway = Setup::new()
        .origin("app", &origin)
        .origin_line("timeouts = { read = \"300ms\" }")
        .rules("[[route]]\npath = \"/*\"\norigin = \"app\"\n")
        .start()
        .await;
    let mut raw = gateway.raw().await;
    raw.write("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhalf")
        .await;
    raw.read_response().await.assert_problem(408);
    let line = gateway.access_line().await;
    assert_eq!(line["outcome"], "rejected");
    assert_eq!(line["reason"], "the request body did not come in time");
}

/// Accepts one connection, reads a head from it, and answers with these bytes.
async fn answer_once(listener: &TcpListener, answer: &[u8]) -> (TcpStream, Vec<u8>) {
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut read = Vec::new();
    while !read.windows(4).any(|four| four == b"\r\n\r\n") {
        assert_ne!(stream.read_buf(&mut read).await.unwrap(), 0);
    }
    stream.write_all(answer).await.unwrap();
    (stream, read)
}

#[tokio::test]
async fn bytes_around_a_switch_of_protocols_pass_both_ways() {
    // Goal: no byte of a tunnel is lost or taken for HTTP. Method: the client sends bytes along with its request, the origin along with its
    // 101; then the client ends its direction, and the origin answers after that.
    let listener = listen();
    let gateway = Setup::new()
        .servers("app", &[listener.local_addr().unwrap()])
        .rules("[[route]]\npath = \"/*\"\norigin = \"app\"\n")
        .start()
        .await;
    let mut client = TcpStream::connect(gateway.address()).await.unwrap();
    let ask =
        format!("GET /socket HTTP/1.1\r\nHost: a\r\n{UPGRADE}\r\nGET /early HTTP/1.1\r\n\r\n");
    client.write_all(ask.as_bytes()).await.unwrap();
    let switch = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nfirst";
    let (mut server, head) = answer_once(&listener, switch.as_bytes()).await;
    let head = String::from_utf8(head).unwrap();
    assert!(
        head.contains("connection: Upgrade\r\nupgrade: websocket\r\n"),
        "{head}"
    );
    let mut early = head.split_once("\r\n\r\n").unwrap().1.as_bytes().to_vec();
    while early.len() < 23 {
        assert_ne!(server.read_buf(&mut early).await.unwrap(), 0);
    }
    assert_eq!(early, b"GET /early HTTP/1.1\r\n\r\n");
    client.shutdown().await.unwrap();
    assert_eq!(server.read(&mut [0; 8]).await.unwrap(), 0);
    server.write_all(b" and last").await.unwrap();
    drop(server);
    let mut all = String::new();
    client.read_to_string(&mut all).await.unwrap();
    let (head, told) = all.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    assert!(head.contains("\r\nconnection: Upgrade"), "{head}");
    assert_eq!(told, "first and last");
    let line = gateway.access_line().await;
    assert_eq!(
        (line["status"].as_u64(), line["bytes_out"].as_u64()),
        (Some(101), Some(14))
    );
}

/// A gateway and an open tunnel through it to a server, behind the heads.
async fn tunnel(origin: &str) -> (Gateway, TcpStream, TcpStream) {
    let listener = listen();
    let gateway = Setup::new()
        .servers("app", &[listener.local_addr().unwrap()])
        .origin_line(origin)
        .rules("[[route]]\npath = \"/*\"\norigin = \"app\"\n")
        .start()
        .await;
    let mut client = TcpStream::connect(gateway.address()).await.unwrap();
    let ask = format!("GET /socket HTTP/1.1\r\nHost: a\r\n{UPGRADE}\r\n");
    client.write_all(ask.as_bytes()).await.unwrap();
    let switch =
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n";
    let (server, _) = answer_once(&listener, switch.as_bytes()).await;
    (gateway, client, server)
}

#[tokio::test]
async fn a_tunnel_without_a_byte_ends_after_the_tunnel_timeout() {
    // Goal: an abandoned tunnel does not hold its connections forever, one in use is not cut, and the end is no failure of the origin.
    // Method: a `tunnel` of one second beside outlier detection that one failure triggers; the origin sends a byte now and then for longer
    // than that, and then none.
    let lines = "timeouts = { tunnel = \"1s\" }
        outlier_detection = { consecutive_failures = 1, max_percent = 100 }";
    let (gateway, mut client, mut server) = tunnel(lines).await;
    let mut sent = 0;
    at_a_pace(Duration::from_millis(400), async || {
        server.write_all(b".").await.unwrap();
        sent += 1;
        (sent == 9).then_some(())
    })
    .await;
    let mut all = String::new();
    client.read_to_string(&mut all).await.unwrap();
    assert!(all.ends_with("\r\n\r\n........."), "{all}");
    let line = gateway.access_line().await;
    assert_eq!(line["status"], 101, "{line}");
    assert!(line["failure"].is_null(), "{line}");
    let metrics = gateway.metrics().await;
    for name in [
        "sluicegate_origin_failures_total",
        "sluicegate_origin_server_ejections_total",
    ] {
        assert_eq!(metrics.sum(name, &[]), 0.0, "{name}");
    }
}

#[tokio::test]
async fn a_tunnel_outlasts_the_timeouts_of_requests() {
    // Goal: a WebSocket that is silent for longer than an answer may be stays open. Method: `read`, `write` and `total` of a tenth of a
    // second; the server is silent for ten times as long, then sends a byte, which arrives.
    let timeouts = "timeouts = { read = \"100ms\", write = \"100ms\", total = \"100ms\" }";
    let (_gateway, mut client, mut server) = tunnel(timeouts).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    server.write_all(b".").await.unwrap();
    drop(server);
    let mut all = String::new();
    client.read_to_string(&mut all).await.unwrap();
    assert!(all.ends_with("\r\n\r\n."), "{all}");
}

#[tokio::test]
async fn a_connection_of_http10_persists_where_it_asks_for_it() {
    // Goal: RFC 9112 §9.3. Method: answers with a length, with and without keep-alive; then one in chunks, which the close ends.
    let origin = Origin::answering(|request| match request.target.as_str() {
        "/chunks" => Reply::Drip {
            piece: "drop ",
            every: Duration::ZERO,
            pieces: 2,
        },
        _ => Answer::new(200).body("four").into(),
    });
    let gateway = Gateway::passing(&origin).await;
    let mut raw = gateway.raw().await;
    for _ in 0..2 {
        raw.write("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
            .await;
        let answer = raw.read_response().await;
        assert_eq!(
            (answer.text(), answer.header("connection")),
            ("four", Some("keep-alive"))
        );
    }
    raw.write("GET /chunks HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        .await;
    let text = String::from_utf8(raw.read_to_end().await).unwrap();
    assert!(text.contains("\r\nconnection: close\r\n"), "{text}");
    assert!(text.ends_with("\r\n\r\ndrop drop "), "{text}");
    let mut raw = gateway.raw().await;
    raw.write("GET / HTTP/1.0\r\n\r\n").await;
    let text = String::from_utf8(raw.read_to_end().await).unwrap();
    assert!(
        text.contains("\r\nconnection: close\r\n") && text.ends_with("\r\n\r\nfour"),
        "{text}"
    );
}

#[tokio::test]
async fn options_of_a_connection_are_few_and_name_no_field_that_must_stay() {
    // Goal: `Connection` cannot remove what the origin relies on, and costs little. Method: each kind of wrong option is 400 with its rule,
    // before a limit counts the request, and the connection goes on.
    let origin = Origin::echo();
    let rules = "[limit.all]\nrates = [\"1 per 1h\"]\nkey = \"client.ip\"\n[[route]]\npath = \"/*\"\norigin = \"app\"\nlimits = [\"all\"]";
    let gateway = Gateway::before(&origin, rules).await;
    let mut raw = gateway.raw().await;
    let many = (0..9)
        .map(|n| format!("x-{n}"))
        .collect::<Vec<_>>()
        .join(", ");
    for options in ["Host", "x-a, X-Forwarded-For", "\"x-a\"", "x a", &many] {
        raw.write(format!(
            "GET / HTTP/1.1\r\nHost: a\r\nConnection: {options}\r\n\r\n"
        ))
        .await;
        let answer = raw.read_response().await;
        answer.assert_problem(400);
        assert_eq!(answer.json()["rule"], "connection-option", "{options}");
    }
    raw.write("GET / HTTP/1.1\r\nHost: a\r\nConnection: x-a\r\nX-A: 1\r\n\r\n")
        .await;
    let echo = raw.read_response().await.echo();
    assert_eq!(echo.header("x-a"), None);
    assert_eq!(origin.count(), 1);
}

#[tokio::test]
async fn a_large_error_that_a_page_replaces_costs_its_connection_alone() {
    // Goal: the client's connection goes on, whatever follows the head of a replaced error. Method: a body of 1 MB, one that is cut, and
    // one that never ends, each before another request.
    let origin = Origin::answering(|request| match request.target.as_str() {
        "/large" => Answer::new(503).body("x".repeat(1 << 20)).into(),
        "/cut" => Reply::Raw(b"HTTP/1.1 503 No\r\nContent-Length: 9\r\n\r\nx".to_vec()),
        "/endless" => Reply::Pieces(
            vec![b"HTTP/1.1 503 No\r\nContent-Length: 9\r\n\r\nx".to_vec()],
            Duration::ZERO,
        ),
        _ => Answer::new(200).body("next").into(),
    });
    let gateway = Gateway::before(&origin, EVERY_KIND).await;
    let mut raw = gateway.raw().await;
    for target in ["/large", "/cut", "/endless"] {
        raw.write(format!(
            "GET {target} HTTP/1.1\r\nHost: a\r\nAccept: text/html\r\n\r\n"
        ))
        .await;
        let answer = raw.read_response().await;
        assert_eq!(
            (answer.status, answer.text()),
            (503, "<h1>503</h1>"),
            "{target}"
        );
        raw.write("GET /next HTTP/1.1\r\nHost: a\r\n\r\n").await;
        assert_eq!(raw.read_response().await.text(), "next");
    }
}
