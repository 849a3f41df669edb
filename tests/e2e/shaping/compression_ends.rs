//! Ends of answers on routes that compress: answers without a body, and answers with trailers.

use std::net::SocketAddr;

use crate::harness::frames::{DATA, END_HEADERS, END_STREAM, HEADERS, answering, fields, frame};
use crate::harness::*;

/// Compresses all that has one of these types, however short it is.
const RULES: &str = r#"
[[route]]
path = "/*"
origin = "app"
compress = { encodings = ["gzip"], min_bytes = 0, types = ["text/*", "application/*"] }
"#;

const END: u8 = END_HEADERS | END_STREAM;

async fn before_http2(origin: SocketAddr) -> Gateway {
    let setup = Setup::new().servers("app", &[origin]);
    let setup = setup.origin_line("protocol = \"h2c\"");
    setup.rules(RULES).start().await
}

#[tokio::test]
async fn an_answer_without_a_body_ends_with_its_head() {
    // Goal: RFC 9112 §7.1, no answer takes the next one for its body, and RFC 9110 §8.4, no coding is named of bytes that nobody coded.
    // Method: an origin of HTTP/2 that ends its streams with their heads, and one of HTTP/1.1 that announces a length of 0; two pipelined
    // requests by HTTP/1.1, and one by HTTP/2.
    let streams = answering(|stream| {
        let head = fields(&[(b":status", b"200"), (b"content-type", b"text/plain")]);
        frame(HEADERS, END, stream, &head)
    })
    .await;
    let lengths = Origin::answering(|_| {
        let answer = Answer::new(200).header("Content-Type", "text/plain");
        answer.into()
    });
    for gateway in [
        before_http2(streams).await,
        Gateway::before(&lengths, RULES).await,
    ] {
        let mut raw = gateway.raw().await;
        let request = "GET /x HTTP/1.1\r\nHost: a.test\r\nAccept-Encoding: gzip\r\n\r\n";
        raw.write(request.repeat(2)).await;
        let request = get("/x").header("Accept-Encoding", "gzip");
        for answer in [
            raw.read_response().await,
            raw.read_response().await,
            gateway.h2c().await.send(request).await,
        ] {
            assert_eq!((answer.status, answer.text()), (200, ""));
            assert_eq!(answer.header("content-encoding"), None);
            assert_eq!(answer.header("transfer-encoding"), None);
        }
    }
}

#[tokio::test]
async fn a_compressed_answer_has_no_trailers() {
    // Goal: trailers describe the bytes of the origin, so they reach no client that gets other bytes; gRPC, whose status is in the
    // trailers, is never compressed. Method: one answer with trailers in each type, for clients that accept a coding and that do not.
    for (of, coding) in [
        ("text/plain", Some("gzip")),
        ("application/grpc", None),
        ("application/grpc+proto", None),
        ("application/grpc-web", None),
    ] {
        let origin = answering(move |stream| {
            let head = fields(&[(b":status", b"200"), (b"content-type", of.as_bytes())]);
            let trailers = fields(&[(b"grpc-status", b"0")]);
            let answer = [
                frame(HEADERS, END_HEADERS, stream, &head),
                frame(DATA, 0, stream, &[b'x'; 2_000]),
                frame(HEADERS, END, stream, &trailers),
            ];
            answer.concat()
        })
        .await;
        let gateway = before_http2(origin).await;
        let client = gateway.h2c().await;
        let plain = client.send(get("/x")).await;
        assert_eq!(plain.header("grpc-status"), Some("0"), "{of}");
        let request = get("/x").header("Accept-Encoding", "gzip");
        let answer = client.send(request).await;
        assert_eq!(answer.header("content-encoding"), coding, "{of}");
        assert_eq!(
            answer.header("grpc-status").is_some(),
            coding.is_none(),
            "{of}"
        );
    }
}
