//! Requests that are sent in another form than origins are, and the rules of HTTP that others break.

use std::time::{Duration, Instant};

use crate::harness::frames::{self, Fate, Frames};
use crate::harness::*;

/// Sends bytes on a connection of their own and reads the answer.
async fn ask(gateway: &Gateway, bytes: impl AsRef<[u8]>) -> Response {
    let mut raw = gateway.raw().await;
    raw.write(bytes).await;
    raw.read_response().await
}

#[tokio::test]
async fn one_empty_line_before_a_request_is_ignored() {
    // Goal: RFC 9112 §2.2, and no more than it says. Method: one CR LF before the first and the second request of a connection, whole and
    // in two pieces; two of them, and a line feed alone.
    let origin = Origin::echo();
    let gateway = Gateway::passing(&origin).await;
    let mut raw = gateway.raw().await;
    for _ in 0..2 {
        raw.write("\r\nGET /a HTTP/1.1\r\nHost: a\r\n\r\n").await;
        assert_eq!(raw.read_response().await.echo().target, "/a");
    }
    raw.write("\r").await;
    raw.write("\nGET /b HTTP/1.1\r\nHost: a\r\n\r\n").await;
    assert_eq!(raw.read_response().await.echo().target, "/b");
    for begin in ["\r\n\r\n", "\n", "\r\n\n", "\r\n\r"] {
        let refused = ask(
            &gateway,
            format!("{begin}GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
        )
        .await;
        refused.assert_problem(400);
    }
    assert_eq!(origin.count(), 3);
}

#[tokio::test]
async fn an_empty_line_behind_a_request_begins_no_other() {
    // Goal: a client that ends its body with an empty line of its own, as old ones do, is idle afterwards and has sent no half of a
    // request. Method: a POST and that line; the connection ends with its keep-alive time and without a word, and the log has one line.
    let gateway = Gateway::start(
        "[server]\nkeepalive_timeout = \"1s\"\nclient_header_timeout = \"200ms\"\n[[route]]\npath = \"/*\"\n\
         respond = { status = 200 }\n",
    )
    .await;
    for line in ["\r\n", "\r"] {
        let mut raw = gateway.raw().await;
        raw.write(format!(
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi{line}"
        ))
        .await;
        assert_eq!(raw.read_response().await.status, 200);
        let rest = raw.read_to_end().await;
        assert!(rest.is_empty(), "{}", rest.escape_ascii());
    }
    let lines = gateway.access_lines(2).await;
    assert!(lines.iter().all(|line| line["status"] == 200), "{lines:?}");
}

#[tokio::test]
async fn raw_bytes_of_a_query_are_percent_encoded() {
    // Goal: what `curl -g` and Go send to Prometheus arrives, and means the same. Method: queries by HTTP/1 and, where a target may
    // have them, by HTTP/2, and what the origin is sent; the limit of a query key sees one value in both spellings.
    let origin = Origin::echo();
    let gateway = Gateway::before(
        &origin,
        "[limit.one]\nkey = \"query.q\"\non_missing = \"skip\"\nrates = [\"1 per 1h\"]\n[[route]]\npath = \"/few\"\nlimits = [\"one\"]\n\
         origin = \"app\"\n[[route]]\npath = \"/*\"\norigin = \"app\"\n",
    )
    .await;
    for (sent, arrives) in [
        (
            "/api?query=up{job=\"a\"}>0",
            "/api?query=up%7Bjob=%22a%22%7D%3E0",
        ),
        ("/?a=<b>&c=^`|\\", "/?a=%3Cb%3E&c=%5E%60%7C%5C"),
        ("/?a[]=1&b='(*)'", "/?a[]=1&b='(*)'"),
        ("/{a}?b", "/{a}?b"),
        ("/?\u{e9}", "/?%C3%A9"),
    ] {
        let request = format!("GET {sent} HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(ask(&gateway, request).await.echo().target, arrives);
    }
    // Bytes that are no text are bytes all the same.
    let answer = ask(&gateway, b"GET /?\xe9 HTTP/1.1\r\nHost: a\r\n\r\n").await;
    assert_eq!(answer.echo().target, "/?%E9");
    let by_http2 = gateway.h2c().await;
    let answer = by_http2.send(get("/?q={a|b}&c=%22")).await;
    assert_eq!(answer.echo().target, "/?q=%7Ba%7Cb%7D&c=%22");
    let limited = |q: &str| format!("GET /few?q={q} HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(ask(&gateway, limited("\"x\"")).await.status, 200);
    assert_eq!(ask(&gateway, limited("%22x%22")).await.status, 429);
    assert_eq!(ask(&gateway, limited("\"x%22")).await.status, 429);
}

#[tokio::test]
async fn every_byte_of_a_target_by_http2_has_a_status() {
    // Goal: by HTTP/2 a byte that no query may hold is percent-encoded, or answered with 400 where no target may have it; it
    // never resets a stream without a status. Method: each byte of ASCII, and a letter of two bytes, in a path and in a query.
    let origin = Origin::echo();
    let gateway = Gateway::passing(&origin).await;
    let mut refused = [Vec::new(), Vec::new()];
    for byte in (0..0x80).chain([0xc3]) {
        let mut frames = Frames::connect(gateway.address()).await;
        let raw: &[u8] = if byte == 0xc3 { &[0xc3, 0xa9] } else { &[byte] };
        for (stream, begin, place) in [(1, &b"/a"[..], 0), (3, b"/?a=", 1)] {
            let target = [begin, raw, b"b"].concat();
            frames.request(stream, &frames::get(&target, &[])).await;
            match frames.fate(stream).await {
                Fate::Answered(400) => refused[place].push(byte),
                Fate::Answered(200) => {}
                other => panic!("{byte:#x} behind {begin:?}: {other:?}"),
            }
        }
    }
    // An escape that is none is refused by the stage that reads paths; the rest is no target.
    let expected = [&b"#%<>`\x7f"[..], b"\"#<>\x7f"]
        .map(|more| (0..=b' ').chain(more.iter().copied()).collect::<Vec<_>>());
    assert_eq!(refused, expected);
    let is_of_queries = |byte: u8| byte.is_ascii_graphic() && !b"\"<>^`{|}\\".contains(&byte);
    for request in origin.requests() {
        let query = request
            .target
            .split_once('?')
            .map_or("", |(_, query)| query);
        assert!(query.bytes().all(is_of_queries), "{query:?}");
    }
}

#[tokio::test]
async fn an_absolute_target_becomes_a_path() {
    // Goal: RFC 9112 §3.2.2: the authority of the target is the host, its case and default port make no difference, and origins get a
    // path;
    // by HTTP/1.0 too, where no `Host` need come along. Method: routes by host, and what the origin is sent.
    let origin = Origin::echo();
    let gateway = Gateway::before(
        &origin,
        "[[route]]\nhost = \"a.test\"\npath = \"/*\"\norigin = \"app\"\n[[route]]\npath = \"/*\"\nrespond = { status = 203 }\n",
    )
    .await;
    for (request, target, host) in [
        (
            "GET http://a.test/b?c HTTP/1.1\r\nHost: a.test",
            "/b?c",
            "a.test",
        ),
        (
            "GET http://A.test:80/ HTTP/1.1\r\nHost: a.test",
            "/",
            "A.test:80",
        ),
        (
            "GET http://a.test HTTP/1.1\r\nHost: A.TEST:80",
            "/",
            "a.test",
        ),
        (
            "GET https://a.test?b HTTP/1.1\r\nHost: a.test:443",
            "/?b",
            "a.test",
        ),
        ("GET http://a.test/b HTTP/1.0", "/b", "a.test"),
        (
            "GET http://a.test/b HTTP/1.0\r\nHost: a.test",
            "/b",
            "a.test",
        ),
        (
            "GET http://a.test/?q=\"b\" HTTP/1.1\r\nHost: a.test",
            "/?q=%22b%22",
            "a.test",
        ),
    ] {
        let echo = ask(&gateway, format!("{request}\r\nX-Of-Client: 1\r\n\r\n"))
            .await
            .echo();
        assert_eq!(echo.target, target, "{request}");
        assert_eq!(echo.header("host"), Some(host), "{request}");
        assert_eq!(echo.header("x-of-client"), Some("1"), "{request}");
    }
    let elsewhere = "GET http://b.test/ HTTP/1.0\r\n\r\n";
    assert_eq!(ask(&gateway, elsewhere).await.status, 203);
}

#[tokio::test]
async fn a_rejected_request_names_the_violated_rule() {
    // Goal: every 400 names its rule in the client's terms. Method: one request for each, and words of its detail.
    let origin = Origin::echo();
    let gateway = Gateway::passing(&origin).await;
    for (request, word) in [
        ("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", "`*`"),
        ("OPTIONS http://a HTTP/1.1\r\nHost: a\r\n\r\n", "`*`"),
        ("GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n", "http://"),
        ("GET a HTTP/1.1\r\nHost: a\r\n\r\n", "a path"),
        ("GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n", "fragment"),
        ("GET /<a> HTTP/1.1\r\nHost: a\r\n\r\n", "percent-encoded"),
        ("GET http://u@a/ HTTP/1.1\r\nHost: a\r\n\r\n", "user"),
        (
            "GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n",
            "different hosts",
        ),
        (
            "GET http://a:81/ HTTP/1.1\r\nHost: a\r\n\r\n",
            "different hosts",
        ),
        ("CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n", "CONNECT"),
        ("GET / HTTP/1.2\r\nHost: a\r\n\r\n", "version"),
        ("GET / HTTP/1.1\r\n\r\n", "Host"),
        ("GET / HTTP/1.1\r\nHost: \u{e9}.test\r\n\r\n", "Host"),
        ("GET / HTTP/1.1\r\nHost: a b\r\n\r\n", "Host"),
        ("GET / HTTP/1.1\r\nHost: a\r\nX : y\r\n\r\n", "colon"),
        (
            "GET / HTTP/1.1\r\nHost: a\r\nX: y\r\n z\r\n\r\n",
            "second line",
        ),
        (
            "GET / HTTP/1.1\r\nHost: a\r\nTransfer---Encoding: chunked\r\n\r\n",
            "almost",
        ),
        (
            "GET / HTTP/1.1\r\nHost: a\r\nContent.Length: 5\r\n\r\n",
            "almost",
        ),
        (
            "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5x\r\n\r\n",
            "Content-Length",
        ),
        (
            "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n",
            "chunked",
        ),
        (
            "GET / HTTP/1.1\r\nHost: a\r\nConnection: host\r\n\r\n",
            "Connection",
        ),
        ("GET / HTTP/1.1\nHost: a\n\n", "CR LF"),
        ("\x16\x03\x01\x02\0\x01\0\x01", "HTTP request"),
    ] {
        let answer = ask(&gateway, request).await;
        answer.assert_problem(400);
        let detail = answer.json()["detail"].as_str().unwrap().to_owned();
        assert!(detail.contains(word), "{request:?}: {detail}");
    }
    assert_eq!(origin.count(), 0);
    let raw_host = ask(&gateway, b"GET / HTTP/1.1\r\nHost: \xe9\r\n\r\n").await;
    raw_host.assert_problem(400);
    for name in ["content_length", "transfer--encoding"] {
        let request = get("/").header(name, "5");
        gateway.h2c().await.send(request).await.assert_problem(400);
    }
    assert_eq!(origin.count(), 0);
}

#[tokio::test]
async fn an_answer_to_head_has_no_body() {
    // Goal: RFC 9110 §9.3.2 of every answer that the gateway gives in its own name. Method: HEAD for which the answer is 400, 404, 413,
    // 414, 421, 429, 431 or 502; what is read to the end is a head.
    let gone = free_address();
    let gateway = Setup::new()
        .servers("gone", &[gone])
        .rules(
            "[server]\nmax_header_bytes = \"4KiB\"\nmax_uri_bytes = \"1KiB\"\n[limit.none]\nkey = \"global\"\nrates = [\"1 per 1h\"]\n\
             [[route]]\npath = \"/gone\"\norigin = \"gone\"\n[[route]]\npath = \"/limited\"\nlimits = [\"none\"]\n\
             respond = { status = 200 }\n\
             [[route]]\npath = \"/small\"\nmax_body_bytes = \"1KiB\"\nrespond = { status = 200 }\n",
        )
        .start()
        .await;
    gateway.get("/limited").await;
    let long = "a".repeat(2_000);
    for (request, status) in [
        (
            "HEAD /limited?\x01 HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(),
            400,
        ),
        ("HEAD /a#b HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), 400),
        (
            "HEAD /%zz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".to_owned(),
            400,
        ),
        (
            "HEAD /other HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".to_owned(),
            404,
        ),
        (
            "HEAD /small HTTP/1.1\r\nHost: a\r\nContent-Length: 5000\r\n\r\n".to_owned(),
            413,
        ),
        (format!("HEAD /{long} HTTP/1.1\r\nHost: a\r\n\r\n"), 414),
        (
            "HEAD /limited HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".to_owned(),
            429,
        ),
        (
            format!("HEAD / HTTP/1.1\r\nHost: a\r\nX: {long}\r\nY: {long}\r\nZ: {long}\r\n\r\n"),
            431,
        ),
        (
            "HEAD /gone HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".to_owned(),
            502,
        ),
    ] {
        let mut raw = gateway.raw().await;
        raw.write(&request).await;
        let text = String::from_utf8(raw.read_to_end().await).unwrap();
        let shown = &request[..request.len().min(40)];
        assert!(
            text.starts_with(&format!("HTTP/1.1 {status} ")),
            "{shown}: {text}"
        );
        assert!(text.ends_with("\r\n\r\n"), "{shown}: {text}");
    }
}

#[tokio::test]
async fn a_client_of_http_1_0_gets_no_interim_answer() {
    // Goal: RFC 9110 §15.2, and §10.1.1: `Expect` of HTTP/1.0 is ignored. Method: an origin that answers 100 and 103 first, and
    // clients of
    // both versions, with and without `Expect`.
    let origin = Origin::answering(|_| {
        let answers =
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n\
                        HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        Reply::Pieces(vec![answers.to_vec()], Duration::ZERO)
    });
    let gateway = Gateway::passing(&origin).await;
    for fields in ["", "Expect: 100-continue\r\n"] {
        let mut raw = gateway.raw().await;
        raw.write(format!(
            "POST / HTTP/1.0\r\nHost: a\r\nContent-Length: 2\r\n{fields}\r\nhi"
        ))
        .await;
        let text = String::from_utf8(raw.read_to_end().await).unwrap();
        assert!(text.starts_with("HTTP/1.1 200 "), "{text}");
        assert!(!text.contains(" 100 ") && !text.contains(" 103 "), "{text}");
    }
    let newer = ask(&gateway, "GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
    assert!(newer.status < 200, "{newer:?}");
}

#[tokio::test]
async fn bytes_that_begin_no_request_are_refused_at_once() {
    // Goal: 400 rather than 408 after `client_header_timeout`, on a listener with and without HTTP/2. Method: beginnings without an end,
    // and the time to the answer.
    let origin = Origin::echo();
    for http2 in ["true", "false"] {
        let gateway = Setup::new()
            .listener_line(&format!("http2 = {http2}"))
            .origin("app", &origin)
            .rules("[server]\nclient_header_timeout = \"60s\"\nclient_read_timeout = \"60s\"\n[[route]]\npath = \"/*\"\norigin = \"app\"\n")
            .start()
            .await;
        for bytes in [
            &b"\x16"[..],
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
            b"\0",
            b"\x05\x01\x00",
            b"\xff\xfb",
            b"SSH-2.0-OpenSSH_9.2\r\n",
            b"{\"jsonrpc\"",
            b"PRI * HTTP/2.0\r\n\r\nSMX",
            b"GET / HTTP/1.1\r\nHost: a\r\nX\0",
            b"GET / FTP",
        ] {
            let began = Instant::now();
            let answer = ask(&gateway, bytes).await;
            answer.assert_problem(400);
            let taken = began.elapsed();
            assert!(
                taken < Duration::from_secs(10),
                "{}: {taken:?}",
                bytes.escape_ascii()
            );
        }
    }
    assert_eq!(origin.count(), 0);
}
