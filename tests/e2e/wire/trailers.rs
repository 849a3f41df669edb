//! Fields behind the body of a response, RFC 9110 §6.5.

use std::net::SocketAddr;

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use tokio::net::TcpStream;

use crate::harness::frames::{DATA, END_HEADERS, END_STREAM, Frames, HEADERS, fields, frame};
use crate::harness::*;

/// Fields of trailers, as an origin of HTTP/2 sends them.
type Fields = Vec<(&'static [u8], &'static [u8])>;

/// Fields that may follow a body.
const KEPT: [(&[u8], &[u8]); 2] = [(b"grpc-status", b"0"), (b"x-sum", b"1")];

/// Fields that may not: of framing, routing, authentication, a connection, control, content, and of the gateway's own.
const REMOVED: [(&[u8], &[u8]); 14] = [
    (b"content-length", b"9"),
    (b"host", b"evil.test"),
    (b"set-cookie", b"a=b"),
    (b"www-authenticate", b"Basic"),
    (b"authorization", b"Basic x"),
    (b"trailer", b"x-sum"),
    (b"cache-control", b"max-age=60"),
    (b"content-type", b"text/html"),
    (b"location", b"/evil"),
    (b"ratelimit", b"\"x\";r=9"),
    (b"ratelimit-policy", b"\"x\";q=9;w=1"),
    (b"x-ratelimit-remaining", b"9"),
    (b"x-request-id", b"0"),
    (b"x-cost", b"7"),
];

/// An origin of HTTP/2 whose responses end with these trailers.
pub(crate) async fn origin(trailers: Fields) -> SocketAddr {
    let listener = listen();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, fields(&trailers)));
        }
    });
    address
}

async fn serve(stream: TcpStream, trailers: Vec<u8>) {
    let mut frames = Frames::accept(stream).await;
    while let Some(got) = frames.next().await {
        if got.kind == HEADERS {
            let head = fields(&[(b":status", b"200"), (b"x-cost", b"7")]);
            let answer = [
                frame(HEADERS, END_HEADERS, got.stream, &head),
                frame(DATA, 0, got.stream, b"body"),
                frame(HEADERS, END_HEADERS | END_STREAM, got.stream, &trailers),
            ];
            frames.write(&answer.concat()).await;
        }
    }
}

/// A gateway before the origin, with a limit whose cost is in a field that clients do not get.
async fn gateway(origin: SocketAddr) -> Gateway {
    let rules = "[limit.units]\nkey = \"client.ip\"\nrates = [\"10000 per 1h\"]\nreserve = 1\ncost = \"response.header.x-cost\"\n\
         [[route]]\npath = \"/*\"\norigin = \"app\"\nlimits = [\"units\"]\n";
    Setup::new()
        .servers("app", &[origin])
        .origin_line("protocol = \"h2c\"")
        .rules(rules)
        .start()
        .await
}

/// Asks over HTTP/2. Returns the body and the trailers of the answer.
async fn ask(gateway: &Gateway) -> (Bytes, Option<HeaderMap>) {
    let stream = TcpStream::connect(gateway.address()).await.unwrap();
    let (sender, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    let request = http::Request::get("http://gateway.test/").body(()).unwrap();
    let mut sender = sender.ready().await.unwrap();
    let (answer, _) = sender.send_request(request, true).unwrap();
    let mut body = answer.await.unwrap().into_body();
    let mut read = BytesMut::new();
    while let Some(piece) = body.data().await {
        read.extend_from_slice(&piece.unwrap());
    }
    (read.freeze(), body.trailers().await.unwrap())
}

#[tokio::test]
async fn trailers_have_no_field_that_belongs_into_a_head() {
    // Goal: RFC 9110 §6.5.1, a client of HTTP/2 gets the trailers of an origin without the fields that no trailer may have; some clients
    // reset the stream for one of them. A client of HTTP/1.1 gets none. Method: each of these fields beside some that may come, and alone.
    let gateway_before_all = gateway(origin([&KEPT[..], &REMOVED].concat()).await).await;
    let (body, trailers) = ask(&gateway_before_all).await;
    let trailers = trailers.unwrap();
    let mut names: Vec<_> = trailers.keys().map(http::HeaderName::as_str).collect();
    names.sort_unstable();
    assert_eq!(
        (&body[..], &names[..]),
        (&b"body"[..], &["grpc-status", "x-sum"][..])
    );

    let mut raw = gateway_before_all.raw().await;
    raw.write("GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n")
        .await;
    let answer = String::from_utf8(raw.read_to_end().await).unwrap();
    assert!(
        answer.ends_with("\r\n\r\n4\r\nbody\r\n0\r\n\r\n"),
        "{answer}"
    );

    for field in REMOVED {
        let gateway = gateway(origin(vec![field]).await).await;
        let (body, trailers) = ask(&gateway).await;
        assert_eq!((&body[..], trailers), (&b"body"[..], None), "{field:?}");
    }
}

#[tokio::test]
async fn an_answer_whose_trailers_have_pseudo_header_fields_breaks_off() {
    // Goal: a status behind the body makes an answer malformed (RFC 9113 §8.1.1), so no client takes it for whole. Method: one beside a
    // field that may come.
    let gateway = gateway(origin(vec![(b":status", b"500"), KEPT[1]]).await).await;
    assert!(gateway.h2c().await.try_send(get("/")).await.is_err());
    let line = gateway.access_line().await;
    assert_eq!(line["failure"], "truncated", "{line}");
    let reason = line["reason"].as_str().unwrap();
    assert!(reason.contains("pseudo-field"), "{line}");
}

#[tokio::test]
async fn a_trailer_that_is_too_long_costs_the_connection_and_not_the_answer() {
    // Goal: clients get the whole answer of an origin of HTTP/1.1 whose trailer exceeds the bound, as without a trailer; the log says so,
    // and no other request uses the connection. Method: trailers with a long field and with many, in one piece with the head and in
    // several, also behind an answer that is stored; clients of both versions.
    let long = format!("0\r\nX-A: {}\r\n\r\n", "a".repeat(20_000));
    let many = format!("0\r\n{}\r\n", "X-A: b\r\n".repeat(3_000));
    let small = "0\r\nX-A: b\r\n\r\n".to_owned();
    let origin = Origin::answering(move |received| {
        let head = "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n";
        let trailer = match &*received.target {
            "/small" | "/stored/small" => &small,
            target if target.contains("/many") => &many,
            _ => &long,
        };
        if received.target.ends_with("/pieces") {
            let (first, rest) = trailer.as_bytes().split_at(trailer.len() / 2);
            let pieces = vec![head.as_bytes().to_vec(), first.to_vec(), rest.to_vec()];
            return Reply::Pieces(pieces, std::time::Duration::from_millis(20));
        }
        Reply::Raw(format!("{head}{trailer}").into_bytes())
    });
    let rules = "[[route]]\npath = \"/stored/*\"\norigin = \"app\"\n[route.cache]\n\
        [[route]]\npath = \"/*\"\norigin = \"app\"\n";
    let gateway = Gateway::before(&origin, rules).await;
    let http2 = gateway.h2c().await;
    for (target, is_large) in [
        ("/small", false),
        ("/long", true),
        ("/long/pieces", true),
        ("/many", true),
        ("/many/pieces", true),
        ("/stored/small", false),
        ("/stored/long", true),
        ("/stored/many/pieces", true),
    ] {
        let mut answers = Vec::new();
        for _ in 0..2 {
            answers.push(gateway.get(target).await);
            answers.push(http2.send(get(target)).await);
        }
        for answer in &answers {
            assert_eq!((answer.status, answer.text()), (200, "hello"), "{target}");
        }
        for line in gateway.lines_of(&answers).await {
            assert!(line["failure"].is_null(), "{line}");
            let said = match is_large && line["cache"] != "hit" {
                true => serde_json::json!("too-large"),
                false => serde_json::Value::Null,
            };
            assert_eq!(line["origin_trailer"], said, "{line}");
        }
    }
}

#[tokio::test]
async fn a_trailer_of_a_request_that_is_too_long_is_named() {
    // Goal: the client learns which bound it exceeds. Method: a trailer of 9,000 bytes behind a small body.
    let origin = Origin::echo();
    let gateway = Gateway::passing(&origin).await;
    let mut raw = gateway.raw().await;
    let trailer = "a".repeat(9_000);
    raw.write(format!(
        "POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nX-A: {trailer}\r\n\r\n"
    ))
    .await;
    let answer = raw.read_response().await;
    answer.assert_problem(400);
    assert!(answer.text().contains("trailer"), "{}", answer.text());
}
