//! Nobody gets a request past the gateway that it did not see, or to an origin that could read it in another way.

mod parsers;
pub mod recorder;
pub mod strict;
mod variants;

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::harness::*;
use recorder::Recorder;
use strict::{Clear, Reading};
use variants::Variant;

/// Connections at the same time: most variants are a wait for more that never comes.
const TOGETHER: usize = 200;

/// What the client saw of one variant.
struct Answered {
    variant: Variant,
    statuses: Vec<u16>,
    closed: bool,
}

/// The statuses of all answers in `bytes`.
pub fn statuses(bytes: &[u8]) -> Vec<u16> {
    let text = String::from_utf8_lossy(bytes);
    let lines = text.match_indices("HTTP/1.1 ");
    lines
        .filter_map(|(at, found)| text[at + found.len()..].get(..3)?.parse().ok())
        .collect()
}

async fn send(variant: Variant, to: std::net::SocketAddr) -> Answered {
    let mut stream = TcpStream::connect(to).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let mut read = Vec::new();
    for piece in &variant.pieces {
        // The gateway may have closed already; what it said is read below.
        let _ = stream.write_all(piece).await;
        // What comes in one piece with the head is judged elsewhere than what follows it, and both are looked at.
        let _ = tokio::time::timeout(Duration::from_millis(100), stream.read_buf(&mut read)).await;
    }
    let end = tokio::time::timeout(Duration::from_secs(30), stream.read_to_end(&mut read)).await;
    Answered {
        variant,
        statuses: statuses(&read),
        closed: end.is_ok(),
    }
}

#[tokio::test]
async fn no_origin_gets_an_ambiguous_request() {
    // Goal: request smuggling, C-L against T-E and all the rest. Method: some 1,700 variants against an origin that keeps bytes. A strict
    // parser reads what the client sent; the origin must hear nothing else, in that order, and nothing that the parser would argue
    // about. llhttp and hyper must read the same in what the origin got.
    // What is clear must be served, so that refusing everything is no solution; what is not is answered with an error, or not at
    // all, and the connection closed. No request arrives without a line in the access log.
    let recorder = Recorder::start().await;
    let waits = "[server]\nclient_header_timeout = \"1s\"\nclient_read_timeout = \"1s\"\nkeepalive_timeout = \"1s\"";
    let gateway = Setup::new()
        .servers("app", &[recorder.address])
        .rules(&format!(
            "{waits}\nmax_connections = 1000\nmax_connections_per_client = 1000\n[[route]]\npath = \"/*\"\norigin = \"app\"\n"
        ))
        .start()
        .await;
    let corpus = variants::all();
    assert!(corpus.len() > 1690, "{} variants", corpus.len());
    let mut answered = Vec::new();
    let mut left = corpus.into_iter();
    let mut sending = JoinSet::new();
    loop {
        while sending.len() < TOGETHER
            && let Some(variant) = left.next()
        {
            sending.spawn(send(variant, gateway.address()));
        }
        match sending.join_next().await {
            Some(one) => answered.push(one.unwrap()),
            None => break,
        }
    }

    let record = recorder.record();
    assert!(record.unclear.is_empty(), "{:#?}", record.unclear);
    parsers::assert_clear(&record.connections).await;
    let mut heard: BTreeMap<String, Vec<Clear>> = BTreeMap::new();
    for request in &record.requests {
        let number: String = request
            .target
            .chars()
            .filter(char::is_ascii_digit)
            .collect();
        heard.entry(number).or_default().push(request.clone());
    }
    let mut wrong = Vec::new();
    for (one, number) in answered.iter().map(|one| (one, number_of(&one.variant))) {
        let (clear, rest) = strict::requests(&one.variant.bytes());
        let arrived = heard.remove(&number).unwrap_or_default();
        let mut complain = |what: &str| {
            let Answered {
                variant, statuses, ..
            } = one;
            wrong.push(format!(
                "{what}: {} {statuses:?}, {rest:?}, {arrived:?}",
                variant.name
            ));
        };
        // The absolute form may be shortened on the way; which resource it means stays.
        let expected: Vec<Clear> = clear.into_iter().map(without_authority).collect();
        let came: Vec<Clear> = arrived.iter().cloned().map(without_authority).collect();
        // Where only the meaning of the first is refused, its end is known, and the next may be served.
        let meaningless = is_meaningless(&one.variant);
        let servable = &expected[usize::from(meaningless).min(expected.len())..];
        if !servable.starts_with(&came) {
            complain("the origin heard something else");
        }
        if !meaningless && expected.first() != came.first() {
            complain("a clear request is not served");
        }
        if !one.closed {
            complain("the connection stays open");
        }
        if matches!(rest, Reading::Unclear(_)) {
            let last = one.statuses.last().copied().unwrap_or(400);
            if one.statuses.len() > came.len() && !matches!(last, 400 | 408 | 501 | 505) {
                complain("what is unclear is not refused");
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong: {wrong:#?}", wrong.len());
    assert!(heard.is_empty(), "{heard:?}");
    let forwarded = eventually("the lines of all that arrived", async || {
        let lines = gateway.access_log();
        let forwarded = lines
            .iter()
            .filter(|line| line["origin"].is_string())
            .count();
        (forwarded >= record.requests.len()).then_some(forwarded)
    })
    .await;
    assert!(forwarded >= record.requests.len());
}

/// What makes the targets of a variant unique; where it names none, nothing that arrives is its own.
fn number_of(variant: &Variant) -> String {
    let text = String::from_utf8_lossy(&variant.bytes()).into_owned();
    let at = text.find("/hidden").unwrap() + "/hidden".len();
    text[at..]
        .chars()
        .take_while(char::is_ascii_digit)
        .collect()
}

fn without_authority(mut request: Clear) -> Clear {
    if let Some(absolute) = request.target.strip_prefix("http://") {
        request.target = absolute[absolute.find('/').unwrap()..].to_owned();
    }
    request
}

/// Framed beyond doubt, and yet refused: hosts and targets that are none, and a `Host` that its sender wants struck out.
fn is_meaningless(variant: &Variant) -> bool {
    let shapes = [
        "Host: a, b",
        "Host: a/b",
        "Connection: host",
        "GET * ",
        "GET a:80 ",
    ];
    shapes.iter().any(|shape| variant.name.contains(shape))
}

#[tokio::test]
async fn a_switch_to_another_protocol_than_websocket_is_not_passed_on() {
    // Goal: `Upgrade: h2c` would open a tunnel past every limit. Method: what the origin is sent; a WebSocket passes elsewhere.
    let origin = Origin::echo();
    let gateway = Gateway::passing(&origin).await;
    let request = get("/")
        .header("Connection", "Upgrade, HTTP2-Settings")
        .header("Upgrade", "h2c")
        .header("HTTP2-Settings", "AAMAAABkAAQAAP__");
    let echo = gateway.send(request).await.echo();
    assert_eq!(echo.header("upgrade"), None);
    assert_eq!(echo.header("http2-settings"), None);
    let two = get("/")
        .header("Connection", "Upgrade")
        .header("Upgrade", "websocket, h2c");
    assert_eq!(gateway.send(two).await.echo().header("upgrade"), None);
}

#[tokio::test]
async fn settings_of_http2_are_not_passed_on_alone() {
    // Goal: an origin that switches by `HTTP2-Settings`, or by `Connection` and it, gets neither where nothing else removes it. Method: the
    // field without `Upgrade` and with one that is none, all versions, routes that copy fields as bytes and that edit them.
    let origin = Origin::echo();
    let rules = r#"
        [[route]]
        path = "/edited/*"
        origin = "app"
        [route.request_headers]
        set = { "x-own" = "1" }
        [[route]]
        path = "/*"
        origin = "app"
    "#;
    for version in Version::ALL {
        let gateway = Gateway::before_by(version, &origin, rules).await;
        for path in ["/plain", "/edited/a"] {
            let alone = get(path).header("HTTP2-Settings", "AAMAAABkAAQAAP__");
            let echo = gateway.send(alone).await.echo();
            assert_eq!(echo.header("http2-settings"), None, "{version:?} {path}");
        }
    }
}

#[tokio::test]
async fn a_length_reaches_the_origin_without_zeros_ahead() {
    // Goal: no origin takes `010` for eight, as some do that read numbers as C does, and the rest for a request. Method: lengths with
    // zeros, one behind the other on a connection, and what the origin is sent.
    let origin = Origin::echo();
    let gateway = Gateway::passing(&origin).await;
    let mut client = RawConnection::connect(gateway.address()).await;
    for (sent, length, body) in [
        ("010", "10", "0123456789"),
        ("0005", "5", "hello"),
        ("00", "0", ""),
        ("0", "0", ""),
    ] {
        let request = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {sent}\r\n\r\n{body}");
        client.write(request).await;
        let echo = client.read_response().await.echo();
        assert_eq!(echo.header("content-length"), Some(length), "{sent}");
        assert_eq!(echo.text(), body);
    }
}

#[tokio::test]
async fn fields_that_pass_for_something_else_stop_at_the_gateway() {
    // Goal: a path or method in a field bypasses no limit, and no untrusted client sets or removes a field of the gateway by another
    // dash or by `Connection`. Method: the fields that the origin gets, from an untrusted client and through a trusted proxy.
    let origin = Origin::echo();
    let rules =
        "[client]\ntrusted_proxies = [\"127.0.0.9\"]\n[[route]]\npath = \"/*\"\norigin = \"app\"\n";
    let gateway = Gateway::before(&origin, rules).await;
    let request = || {
        post("/a")
            .header("X-Original-URL", "/auth/sendOTP")
            .header("X-Rewrite-URL", "/auth/sendOTP")
            .header("X-HTTP-Method-Override", "DELETE")
            .header("X_Forwarded_For", "192.0.2.7")
            .header("Connection", "x-real-ip, x-request-id, authorization")
            .bearer("1")
            .body("four")
    };
    let echo = gateway.send(request()).await.echo();
    for name in [
        "x-original-url",
        "x-rewrite-url",
        "x-http-method-override",
        "x_forwarded_for",
    ] {
        assert_eq!(echo.header(name), None, "{name}");
    }
    assert_eq!(echo.header("x-forwarded-for"), Some("127.0.0.1"));
    assert!(echo.header("x-request-id").is_some());
    assert_eq!(echo.text(), "four");
    let struck = get("/").header("Connection", "x-forwarded-for");
    gateway.send(struck).await.assert_problem(400);
    let mut trusted = gateway.client_from("127.0.0.9").await;
    let echo = trusted
        .send(request().forwarded_for("192.0.2.1"))
        .await
        .echo();
    assert_eq!(echo.header("x-original-url"), None);
    assert_eq!(echo.header("x-http-method-override"), None);
}
