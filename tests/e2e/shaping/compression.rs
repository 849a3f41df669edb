//! Answers that are compressed on their way, and those that are left as they are.

use std::io::Read;
use std::process::Command;
use std::time::Duration;

use crate::harness::*;

const RULES: &str = r#"
[[route]]
path = "/plain/*"
origin = "app"

[[route]]
path = "/small/*"
origin = "app"
response_headers = { set = { content-type = "text/event-stream" } }
compress = { encodings = ["gzip"], min_bytes = 0, types = ["text/event-stream"] }

[[route]]
path = "/*"
origin = "app"
compress = {}
"#;

fn text() -> String {
    (0..2_000)
        .map(|line| format!("line {line} of many\n"))
        .collect()
}

fn origin() -> Origin {
    Origin::answering(|request| {
        let answer = Answer::new(200).header("content-type", "text/html; charset=utf-8");
        let answer = answer
            .header("etag", "\"1\"")
            .header("accept-ranges", "bytes")
            .header("content-digest", "sha-256=:ZGlnZXN0:")
            .header("repr-digest", "sha-256=:ZGlnZXN0:");
        Reply::Answer(match request.target.rsplit('/').next().unwrap() {
            "encoded" => answer.header("content-encoding", "br").body(text()),
            "fixed" => answer.header("cache-control", "no-transform").body(text()),
            "part" => {
                let part = Answer::new(206).header("content-type", "text/html");
                part.header("content-range", "bytes 0-1999/9999")
                    .body("a".repeat(2_000))
            }
            "short" => answer.body("short"),
            "image" => Answer::new(200)
                .header("content-type", "image/png")
                .body(text()),
            _ => answer.body(text()),
        })
    })
}

fn decoded(coding: &str, body: &[u8]) -> String {
    let mut text = String::new();
    let read = match coding {
        "gzip" => flate2::read::GzDecoder::new(body).read_to_string(&mut text),
        "br" => brotli::Decompressor::new(body, 4096).read_to_string(&mut text),
        "zstd" => zstd::stream::read::Decoder::new(body)
            .unwrap()
            .read_to_string(&mut text),
        other => panic!("{other}"),
    };
    read.unwrap();
    text
}

#[tokio::test]
async fn answers_come_in_the_coding_that_the_client_likes_best() {
    // Goal: each coding decodes to what the origin sent; the head says so and nothing that is no longer true. Method: every coding, over
    // HTTP/1.1 and HTTP/2.
    let origin = origin();
    let gateway = Gateway::before(&origin, RULES).await;
    let h2 = gateway.h2c().await;
    for (accept, coding) in [
        ("gzip, deflate, br, zstd", "zstd"),
        ("gzip, br", "br"),
        ("gzip;q=1, br;q=0.5", "gzip"),
    ] {
        let request = || get("/x").header("Accept-Encoding", accept);
        for answer in [gateway.send(request()).await, h2.send(request()).await] {
            assert_eq!(answer.status, 200);
            assert_eq!(answer.header("content-encoding"), Some(coding));
            for untrue in [
                "content-length",
                "accept-ranges",
                "content-digest",
                "repr-digest",
            ] {
                assert_eq!(answer.header(untrue), None, "{untrue}");
            }
            assert_eq!(answer.header("etag"), Some("W/\"1\""));
            assert_eq!(answer.all("vary"), ["accept-encoding"]);
            assert!(
                answer.body.len() < text().len() / 2,
                "{}",
                answer.body.len()
            );
            assert_eq!(decoded(coding, &answer.body), text());
        }
    }
}

#[tokio::test]
async fn what_is_encoded_a_part_short_or_not_to_be_touched_passes_as_it_is() {
    // Goal: no double work, no broken ranges. Method: one answer of each kind, with what the client takes.
    let origin = origin();
    let gateway = Gateway::before(&origin, RULES).await;
    for path in [
        "/encoded", "/fixed", "/part", "/short", "/image", "/plain/x",
    ] {
        let request = get(path).header("Accept-Encoding", "gzip");
        let answer = gateway.send(request).await;
        let coding = answer.header("content-encoding");
        assert_ne!(coding, Some("gzip"), "{path}");
        assert!(answer.header("content-length").is_some(), "{path}");
        assert_eq!(answer.header("vary"), None, "{path}");
    }
    for request in [get("/x"), get("/x").header("Accept-Encoding", "gzip;q=0")] {
        let answer = gateway.send(request).await;
        assert_eq!(answer.header("content-encoding"), None);
        assert_eq!(answer.all("vary"), ["accept-encoding"]);
        assert_eq!(answer.header("etag"), Some("\"1\""));
        assert!(answer.header("repr-digest").is_some());
    }
}

#[tokio::test]
async fn a_304_has_the_validator_that_the_client_got() {
    // Goal: a client that revalidates what it got, compressed or not, is told about that, RFC 9110 §15.4.5. Method: an origin that compares
    // weakly, and clients that name the validator of their response; from the origin and from the cache, and where nothing is compressed.
    let origin = Origin::answering(|request| {
        let named = request.header("if-none-match").unwrap_or_default();
        let answer = match named.contains("\"1\"") {
            true => Answer::new(304),
            false => Answer::new(200)
                .header("content-type", "text/html")
                .body(text()),
        };
        Reply::Answer(
            answer
                .header("etag", "\"1\"")
                .header("cache-control", "max-age=600"),
        )
    });
    let stored = "[[route]]\npath = \"/stored/*\"\norigin = \"app\"\ncompress = {}\ncache = {}\n";
    let gateway = Gateway::before(&origin, &format!("{stored}{RULES}")).await;
    let h2 = gateway.h2c().await;
    for (path, coding, etag) in [
        ("/x", "gzip", "W/\"1\""),
        ("/x", "identity", "\"1\""),
        ("/stored/x", "gzip", "W/\"1\""),
        ("/stored/x", "identity", "\"1\""),
        ("/plain/x", "gzip", "\"1\""),
    ] {
        let request = || get(path).header("Accept-Encoding", coding);
        let whole = gateway.send(request()).await;
        assert_eq!(
            (whole.status, whole.header("etag")),
            (200, Some(etag)),
            "{path} {coding}"
        );
        let again = || request().header("If-None-Match", etag);
        for confirmed in [gateway.send(again()).await, h2.send(again()).await] {
            assert_eq!(confirmed.status, 304, "{path} {coding}");
            assert_eq!(confirmed.header("etag"), Some(etag), "{path} {coding}");
            let varies = etag.starts_with('W').then_some("accept-encoding");
            assert_eq!(confirmed.header("vary"), varies, "{path} {coding}");
        }
    }
    // What the gateway compresses nowhere passes as the origin sent it, whatever the client names.
    let request = get("/plain/x").header("If-None-Match", "W/\"1\"");
    assert_eq!(gateway.send(request).await.header("etag"), Some("\"1\""));
}

#[tokio::test]
async fn an_event_is_sent_when_it_comes() {
    // Goal: a stream of events stays one. Method: an origin that sends a piece and then waits for longer than the test; what the
    // client has
    // by then decodes to the piece.
    let origin = Origin::answering(|_| Reply::Drip {
        piece: "data: one\n\n",
        every: Duration::from_secs(600),
        pieces: 2,
    });
    let gateway = Gateway::before(&origin, RULES).await;
    let mut raw = gateway.raw().await;
    let request = "GET /small/events HTTP/1.1\r\nHost: a.test\r\nAccept-Encoding: gzip\r\n\r\n";
    raw.write(request).await;
    let head = raw.read_response_to_head().await;
    assert_eq!(head.header("content-encoding"), Some("gzip"));
    let chunk = raw.read_chunk().await;
    let mut decoder = flate2::read::GzDecoder::new(&*chunk);
    let mut event = [0; 11];
    decoder.read_exact(&mut event).unwrap();
    assert_eq!(&event, b"data: one\n\n");
}

#[tokio::test]
async fn curl_reads_what_nginx_sent() {
    // Goal: real ends on both sides. Method: nginx as origin, curl --compressed as client.
    let body = "hello ".repeat(300);
    let nginx = Nginx::start(&format!(
        "location / {{ default_type text/plain; return 200 \"{}\"; }}",
        body.trim()
    ))
    .await;
    let setup = Setup::new().servers("app", &[nginx.address()]);
    let gateway = setup.rules(RULES).start().await;
    let url = format!("http://{}/x", gateway.address());
    let output = Command::new("curl")
        .args(["-sS", "--compressed", "-D", "-", &url])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let (head, text) = text.split_once("\r\n\r\n").unwrap();
    let head = head.to_lowercase();
    assert!(head.contains("content-encoding: "), "{head}");
    assert_eq!(text, body.trim());
}
