//! Requests and responses of HTTP/1.1: their order on a connection, their framing, their ends.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::authority::{Authority, Good, TlsOrigin};
use crate::harness::*;

/// An origin whose answers name their requests, and come late.
fn slow_echo() -> Origin {
    Origin::answering(|request| {
        let answer = Answer::new(200).body(format!("{} {}", request.method, request.target));
        Reply::After(Duration::from_millis(20), Box::new(answer.into()))
    })
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    // Goal: RFC 9112 §9.3.2, whenever the requests arrive. Method: ten requests in one write, POST with a body among them; then each while
    // the answer to the one before is awaited; and one that arrives in two pieces. The origin is slow, and gets each of them once.
    let origin = slow_echo();
    let gateway = Gateway::passing(&origin).await;
    let mut raw = gateway.raw().await;
    let text = |n: usize| match n % 3 {
        2 => format!("POST /{n} HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"),
        _ => format!("GET /{n} HTTP/1.1\r\nHost: a\r\n\r\n"),
    };
    let told = |n: usize| format!("{} /{n}", if n % 3 == 2 { "POST" } else { "GET" });
    raw.write((0..10).map(text).collect::<String>()).await;
    for n in 0..10 {
        assert_eq!(raw.read_response().await.text(), told(n));
    }
    for n in 10..16 {
        raw.write(text(n)).await;
        // Its answer is awaited when the next one arrives.
        origin.is_asked(n + 1).await;
    }
    raw.write("GET /x HTTP/1.1\r\nHo").await;
    for n in 10..16 {
        assert_eq!(raw.read_response().await.text(), told(n));
    }
    raw.write("st: a\r\n\r\n").await;
    assert_eq!(raw.read_response().await.text(), "GET /x");
    assert_eq!(origin.count(), 17);
}

#[tokio::test]
async fn the_date_of_an_origin_is_kept() {
    // Goal: RFC 9110 §6.6.1, `Date` is the origin's; where it sends none, the gateway adds it. Method: both, and an answer of the gateway.
    let origin = Origin::answering(|request| match request.target.as_str() {
        "/old" => Reply::Raw(
            b"HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nContent-Length: 0\r\n\r\n"
                .to_vec(),
        ),
        _ => Reply::Raw(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec()),
    });
    let gateway = Gateway::passing(&origin).await;
    let old = gateway.get("/old").await;
    assert_eq!(old.all("date"), ["Sun, 06 Nov 1994 08:49:37 GMT"]);
    assert_eq!(gateway.get("/none").await.all("date").len(), 1);
    origin.stop();
    assert_eq!(gateway.get("/failed").await.all("date").len(), 1);
}

#[tokio::test]
async fn a_body_that_ends_with_its_connection_becomes_chunks() {
    // Goal: the client's connection outlives the origin's. Method: answers of HTTP/1.0 and 1.1 without a length, an empty one too, on one
    // connection of the client; and to HEAD, which has no body.
    let origin = Origin::answering(|request| {
        let (version, body) = match request.target.as_str() {
            "/one" => ("1.0", "until the close"),
            "/two" => ("1.1", "until the close"),
            _ => ("1.1", ""),
        };
        Reply::Raw(format!("HTTP/{version} 200 OK\r\nServer: a\r\n\r\n{body}").into_bytes())
    });
    let gateway = Gateway::passing(&origin).await;
    let mut raw = gateway.raw().await;
    for (method, target, body) in [
        ("GET", "/one", "until the close"),
        ("GET", "/two", "until the close"),
        ("GET", "/empty", ""),
        ("HEAD", "/empty", ""),
        ("GET", "/one", "until the close"),
    ] {
        raw.write(format!("{method} {target} HTTP/1.1\r\nHost: a\r\n\r\n"))
            .await;
        let answer = if method == "HEAD" {
            raw.read_response_to_head().await
        } else {
            raw.read_response().await
        };
        assert_eq!(
            (answer.status, answer.text()),
            (200, body),
            "{method} {target}"
        );
    }
}

#[tokio::test]
async fn what_follows_a_response_reaches_nobody() {
    // Goal: bytes behind a response are not taken for the answer to another client's request. Method: an origin that sends a second answer
    // along with the first, at once and a moment later; the next client gets an answer of its own.
    let origin = Origin::answering(|request| {
        let own = format!("for {}", request.target);
        let length = own.len();
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{own}");
        let smuggled = b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nsmuggled".to_vec();
        match request.target.as_str() {
            "/at-once" => Reply::Pieces(
                vec![[answer.as_bytes(), &smuggled].concat()],
                Duration::ZERO,
            ),
            _ => Reply::Pieces(
                vec![answer.into_bytes(), smuggled],
                Duration::from_millis(5),
            ),
        }
    });
    let rules = "[server]\nthreads = 1\n[[route]]\npath = \"/*\"\norigin = \"app\"";
    let gateway = Gateway::before(&origin, rules).await;
    for target in ["/at-once", "/at-once", "/later", "/later", "/at-once"] {
        assert_eq!(gateway.get(target).await.text(), format!("for {target}"));
        // The origin's second answer arrives on the idle connection.
        eventually("the idle connection ended", async || {
            (origin.open_connections() == 0).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn responses_that_two_parsers_could_read_in_two_ways_are_not_passed_on() {
    // Goal: an origin's answer is judged as strictly as a request. Method: heads with two framings, two lengths, folded fields, bare
    // carriage returns, lines that are no field, chunks in HTTP/1.0; each is a 502 with its reason, and the next request gets its own
    // answer.
    let heads = [
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
        "HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX : a\r\nContent-Length: 0\r\n\r\n",
        // Apache CVE-2022-37436: a line that is no field ended the head.
        "HTTP/1.1 200 OK\r\nno field\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\nno field\nContent-Length: 0\n\n",
        // Apache CVE-2023-38709, CVE-2024-42516: line ends in a value split the response.
        "HTTP/1.1 200 OK\r\nContent-Type: a\rX: b\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Type: a\0b\r\nContent-Length: 0\r\n\r\n",
    ];
    let origin = Origin::answering(move |request| {
        let index = request.target[1..].parse().ok();
        let head = index.and_then(|index: usize| heads.get(index));
        head.map_or_else(
            || Answer::new(200).body("proper").into(),
            |head| Reply::Raw(head.as_bytes().to_vec()),
        )
    });
    let gateway = Gateway::passing(&origin).await;
    for index in 0..heads.len() {
        gateway.get(&format!("/{index}")).await.assert_problem(502);
        assert_eq!(gateway.get("/proper").await.text(), "proper");
    }
    let lines = gateway.access_lines(2 * heads.len()).await;
    let failed = lines.iter().filter(|line| line["status"] == 502);
    for line in failed {
        assert_eq!(line["failure"], "malformed-head", "{line}");
    }
}

#[tokio::test]
async fn bare_line_feeds_in_heads_of_an_origin_become_cr_lf() {
    // Goal: RFC 9112 §2.2, an origin that ends lines with LF is served, and its clients get CR LF. Method: heads with LF alone and beside
    // CR LF, interim ones too, with a body that begins with a line feed; as bytes with HTTP/1.1, as fields with HTTP/2; a route that edits
    // fields and one that does not; and two responses in one, of which the second reaches nobody.
    let heads = [
        "HTTP/1.1 200 OK\nX-A: 1\nX-B:2\nContent-Length: 4\n\n",
        "HTTP/1.1 200 OK\r\nX-A: 1\nX-B: 2 \r\nContent-Length: 4\r\n\n",
        "HTTP/1.0 200 OK\nX-A: 1\nX-B: 2\n\r\n",
        "HTTP/1.1 103 Early Hints\nLink: </a>\n\nHTTP/1.1 200 OK\nX-A: 1\nX-B: 2\nContent-Length: 4\n\n",
    ];
    let origin = Origin::answering(move |request| {
        let index = request.target.rsplit('/').next().unwrap();
        Reply::Raw(match index.parse::<usize>() {
            Ok(index) => format!("{}\n\nab", heads[index]).into_bytes(),
            Err(_) => b"HTTP/1.1 200 OK\nContent-Length: 4\n\nlastHTTP/1.1 200 OK\nContent-Length: 3\n\nbad".to_vec(),
        })
    });
    let rules = "[[route]]\npath = \"/*\"\norigin = \"app\"\n\
                 [[route]]\npath = \"/edited/*\"\norigin = \"app\"\nresponse_headers = { set = { X-C = \"3\" } }\n";
    let gateway = Gateway::before(&origin, rules).await;
    let h2c = gateway.h2c().await;
    for prefix in ["", "/edited"] {
        for (index, head) in heads.iter().enumerate() {
            let target = format!("{prefix}/{index}");
            let mut raw = gateway.raw().await;
            let request = format!("GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
            raw.write(request).await;
            let bytes = String::from_utf8(raw.read_to_end().await).unwrap();
            let (begin, _) = bytes.split_once("\n\nab").expect("the body");
            assert!(!begin.replace("\r\n", "").contains('\n'), "{bytes:?}");
            assert!(begin.contains("\r\nx-a: 1\r\nx-b: 2\r\n"), "{bytes:?}");

            let answer = h2c.send(get(&target)).await;
            assert_eq!(answer.text(), "\n\nab", "{head:?}");
            let fields = [answer.header("x-a"), answer.header("x-b")];
            assert_eq!(fields, [Some("1"), Some("2")], "{head:?}");
        }
    }
    assert_eq!(gateway.get("/two").await.text(), "last");
    assert_eq!(gateway.get("/0").await.text(), "\n\nab");
}

#[tokio::test]
async fn an_early_hint_passes_and_a_switch_that_nobody_asked_for_does_not() {
    // Goal: interim answers (RFC 9110 §15.2) reach the client before the final one; 101 without an upgrade is the origin's failure. Method:
    // both, with a pause before the final answer.
    let origin = Origin::answering(|request| match request.target.as_str() {
        "/switch" => Reply::Raw(b"HTTP/1.1 101 Switching Protocols\r\n\r\n".to_vec()),
        _ => Reply::Pieces(
            vec![
                b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n".to_vec(),
                b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec(),
            ],
            Duration::from_millis(20),
        ),
    });
    let gateway = Gateway::passing(&origin).await;
    let mut raw = gateway.raw().await;
    raw.write("GET /hint HTTP/1.1\r\nHost: a\r\n\r\n").await;
    let hint = raw.read_response_to_head().await;
    assert_eq!(hint.status, 103);
    assert_eq!(hint.header("link"), Some("</a.css>; rel=preload"));
    assert_eq!(raw.read_response().await.text(), "ok");
    gateway.get("/switch").await.assert_problem(502);
}

#[tokio::test]
async fn a_trailer_passes_in_neither_direction() {
    // Goal: fields of a trailer are not merged with those of the head, which the limits have judged. Method: a request with a trailer that
    // names a client, and an answer with one; data arrives, the trailers do not.
    let origin = Origin::answering(|_| {
        Reply::Raw(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nok\r\n0\r\nX-Late: 1\r\n\r\n"
                .to_vec(),
        )
    });
    let gateway = Gateway::passing(&origin).await;
    let mut raw = gateway.raw().await;
    raw.write(
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n0\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n",
    )
    .await;
    let answer = raw.read_response().await;
    assert_eq!((answer.text(), answer.header("x-late")), ("ok", None));
    let request = origin.only_request();
    assert_eq!(request.text(), "abc");
    assert_eq!(request.all("x-forwarded-for"), ["127.0.0.1"]);
}

#[tokio::test]
async fn a_failed_origin_does_not_end_the_connection_of_the_client() {
    // Goal: a client whose origin fails keeps its connection, unless bytes of its request are unread. Method: an origin that closes
    // without a word, then answers; then one that is gone, and a body that is still being sent.
    let origin = Origin::answering(|request| match request.target.as_str() {
        "/fails" => Reply::Close,
        _ => Answer::new(200).body("ok").into(),
    });
    let gateway = Gateway::passing(&origin).await;
    let mut raw = gateway.raw().await;
    for _ in 0..3 {
        raw.write("GET /fails HTTP/1.1\r\nHost: a\r\n\r\n").await;
        assert_eq!(raw.read_response().await.status, 502);
        raw.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
        assert_eq!(raw.read_response().await.text(), "ok");
    }
    origin.stop();
    raw.write("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\nhello")
        .await;
    let failed = raw.read_response().await;
    assert_eq!(
        (failed.status, failed.header("connection")),
        (502, Some("close"))
    );
    assert!(raw.read_to_end().await.is_empty());
}

#[tokio::test]
async fn bytes_of_a_later_request_do_not_prolong_the_time_of_an_origin() {
    // Goal: a client that sends ahead a byte at a time does not keep a silent origin's request open. Method: `read` of one second, a byte
    // of a second request every 200 ms; 504 comes long before the client has sent 50 of them, which takes ten seconds.
    const BYTES: usize = 50;
    let origin = Origin::answering(|_| Reply::Hang);
    let gateway = Setup::new()
        .origin("app", &origin)
        .origin_line("timeouts = { read = \"1s\" }")
        .rules("[[route]]\npath = \"/*\"\norigin = \"app\"")
        .start()
        .await;
    let mut stream = TcpStream::connect(gateway.address()).await.unwrap();
    stream.set_nodelay(true).unwrap();
    stream
        .write_all(b"GET /silent HTTP/1.1\r\nHost: a\r\n\r\n")
        .await
        .unwrap();
    let later = format!("GET /{} HTTP/1.1\r\n", "x".repeat(BYTES));
    let (mut sent, mut read) = (0, Vec::new());
    while read.is_empty() && sent < BYTES {
        stream
            .write_all(&later.as_bytes()[sent..=sent])
            .await
            .unwrap();
        sent += 1;
        let wait = Duration::from_millis(200);
        let _ = tokio::time::timeout(wait, stream.read_buf(&mut read)).await;
    }
    let answer = String::from_utf8_lossy(&read);
    assert!(
        answer.starts_with("HTTP/1.1 504 "),
        "{sent} bytes: {answer}"
    );
    assert_eq!(origin.only_request().target, "/silent");
}

#[tokio::test]
async fn an_invitation_that_nobody_asked_for_is_not_passed_on() {
    // Goal: RFC 9110 §15.2.1: 100 is for a client that sent `Expect`; another would take it for the answer. Method: an origin that sends
    // 100 once and twice before its answer, at once and a moment earlier; GET and POST, two on a connection.
    let invitation = b"HTTP/1.1 100 Continue\r\n\r\n".to_vec();
    let last = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec();
    let origin = Origin::answering(move |request| {
        let pieces = match request.target.as_str() {
            "/at-once" => vec![[&invitation[..], &last].concat()],
            "/twice" => vec![invitation.clone(), invitation.clone(), last.clone()],
            _ => vec![invitation.clone(), last.clone()],
        };
        Reply::Pieces(pieces, Duration::from_millis(20))
    });
    let gateway = Gateway::passing(&origin).await;
    let mut raw = gateway.raw().await;
    for target in ["/at-once", "/earlier", "/twice"] {
        for request in [
            format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"),
            format!("POST {target} HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi"),
        ] {
            raw.write(&request).await;
            let answer = raw.read_response().await;
            assert_eq!((answer.status, answer.text()), (200, "ok"), "{request}");
        }
    }
    assert_eq!(origin.count(), 6);
}

#[tokio::test]
async fn responses_of_an_origin_with_tls_pass_whole_and_in_order() {
    // Goal: the gateway speaks TLS to an origin as it speaks clear text. Method: pipelined requests of each framing to nginx,
    // which ends TLS before a scripted origin; the answers come in order, on one connection to nginx.
    let scripted = Origin::answering(|request| match request.target.as_str() {
        "/chunks" => Reply::Drip {
            piece: "drop ",
            every: Duration::from_millis(5),
            pieces: 3,
        },
        "/large" => Answer::new(200).body("x".repeat(1 << 20)).into(),
        _ => {
            let answer = Answer::new(200).header("Date", "Sun, 06 Nov 1994 08:49:37 GMT");
            answer
                .body(format!("{} {}", request.method, request.text()))
                .into()
        }
    });
    let authority = Authority::new();
    let certified = authority.certify("app.internal", Good::Now);
    let to = scripted.address();
    let lines = format!(
        "location / {{ proxy_pass http://{to}; proxy_http_version 1.1; proxy_pass_header Date; }}"
    );
    let nginx = TlsOrigin::start(&authority, &certified, "ssl", &lines).await;
    let turnstile = Turnstile::before(nginx.address);
    let gateway = Setup::new()
        .servers("app", &[turnstile.address])
        .origin_line(r#"tls = { ca_file = "../ca.pem", server_name = "app.internal" }"#)
        .rules("[server]\nthreads = 1\n[[route]]\npath = \"/*\"\norigin = \"app\"")
        .file("ca.pem", &authority.pem())
        .start()
        .await;
    let mut raw = gateway.raw().await;
    let head = |method: &str, target: &str, more: &str| {
        format!("{method} {target} HTTP/1.1\r\nHost: a\r\n{more}\r\n")
    };
    let pipelined = [
        head("GET", "/short", ""),
        head("POST", "/short", "Content-Length: 5\r\n") + "hello",
        head("GET", "/large", ""),
        head("PUT", "/short", "Transfer-Encoding: chunked\r\n") + "2\r\nhi\r\n0\r\n\r\n",
        head("GET", "/chunks", ""),
        head("HEAD", "/short", ""),
        head("GET", "/short", ""),
    ];
    raw.write(pipelined.concat()).await;
    let short = raw.read_response().await;
    assert_eq!(short.text(), "GET ");
    assert_eq!(short.all("date"), ["Sun, 06 Nov 1994 08:49:37 GMT"]);
    assert_eq!(raw.read_response().await.text(), "POST hello");
    assert_eq!(raw.read_response().await.text(), "x".repeat(1 << 20));
    assert_eq!(raw.read_response().await.text(), "PUT hi");
    assert_eq!(raw.read_response().await.text(), "drop drop drop ");
    assert_eq!(raw.read_response_to_head().await.status, 200);
    assert_eq!(raw.read_response().await.text(), "GET ");
    assert_eq!(turnstile.came(), 1);
}
