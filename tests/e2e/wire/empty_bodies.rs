//! Requests of HTTP/2 without content, on their way to origins: IIS, Azure and lighttpd answer 411 to one that does not state its length.

use super::echo::EchoOrigin;
use crate::harness::frames::{
    DATA, END_HEADERS, END_STREAM, Fate, Frames, HEADERS, fields, frame, head,
};
use crate::harness::{Gateway, Origin, Setup};

const RULES: &str = "[limit.id]\nkey = \"body.json.id\"\non_missing = \"shared\"\nrates = [\"100000 per hour\"]\n\
    [[route]]\npath = \"/keyed/h1\"\nlimits = [\"id\"]\norigin = \"h1\"\n\
    [[route]]\npath = \"/keyed/h2\"\nlimits = [\"id\"]\norigin = \"h2\"\n\
    [[route]]\npath = \"/plain/h1\"\norigin = \"h1\"\n\
    [[route]]\npath = \"/plain/h2\"\norigin = \"h2\"\n";

/// A gateway before an origin of each version.
async fn gateway(h1: &Origin, h2: &EchoOrigin, lines: &str) -> Gateway {
    Setup::new()
        .origin("h1", h1)
        .servers("h2", &[h2.address])
        .origin_line("protocol = \"h2c\"")
        .rules(&format!("{lines}{RULES}"))
        .start()
        .await
}

/// The frames behind the head of a request without content, one way to end its stream each: none, an empty one of data, one behind another,
/// trailers.
fn ends() -> Vec<Vec<Vec<u8>>> {
    let data = |flags| frame(DATA, flags, 1, b"");
    let trailers = fields(&[(b"x-behind", b"1")]);
    vec![
        vec![],
        vec![data(END_STREAM)],
        vec![data(0), data(END_STREAM)],
        vec![frame(HEADERS, END_HEADERS | END_STREAM, 1, &trailers)],
    ]
}

/// Sends a request, and returns the fields that its origin of HTTP/2 wrote into the answer.
async fn ask(gateway: &Gateway, block: &[u8], end: &[Vec<u8>]) -> String {
    let mut frames = Frames::connect(gateway.address()).await;
    let flags = match end {
        [] => END_HEADERS | END_STREAM,
        _ => END_HEADERS,
    };
    frames.write(&frame(HEADERS, flags, 1, block)).await;
    for piece in end {
        frames.write(piece).await;
    }
    assert_eq!(frames.fate(1).await, Fate::Answered(200));
    let mut body = Vec::new();
    loop {
        let next = frames.next().await.expect("the answer goes on");
        if next.kind == DATA {
            body.extend_from_slice(&next.payload);
        }
        // Trailers may end the answer.
        if matches!(next.kind, DATA | HEADERS) && next.flags & END_STREAM != 0 {
            return String::from_utf8(body).unwrap();
        }
    }
}

#[tokio::test]
async fn an_announced_length_of_nothing_reaches_the_origin() {
    // Goal: `content-length: 0` stays, however the stream ends, and no origin of HTTP/1.1 gets chunks. Method: each method and end, to
    // origins of both versions, by a plain route and one whose limit reads the body first.
    let h1 = Origin::echo();
    let h2 = EchoOrigin::start().await;
    let gateway = gateway(&h1, &h2, "").await;
    let mut sent = 0;
    for method in ["POST", "PUT", "PATCH", "DELETE", "GET", "QUERY"] {
        for (number, end) in ends().iter().enumerate() {
            for route in ["/plain", "/keyed"] {
                let what = format!("{method} {route}, end {number}");
                let block = |version: &str| {
                    let path = format!("{route}/{version}");
                    let fields: [(&[u8], &[u8]); 2] = [
                        (b"content-length", b"0"),
                        (b"content-type", b"application/json"),
                    ];
                    head(method.as_bytes(), path.as_bytes(), &fields)
                };
                ask(&gateway, &block("h1"), end).await;
                sent += 1;
                let received = h1.requests();
                assert_eq!(received.len(), sent, "{what}");
                let received = &received[sent - 1];
                assert_eq!(received.all("content-length"), ["0"], "{what}");
                assert_eq!(received.all("transfer-encoding"), [""; 0], "{what}");
                assert!(received.whole && received.body.is_empty(), "{what}");
                let told = ask(&gateway, &block("h2"), end).await;
                assert!(told.contains("\ncontent-length: 0\n"), "{what}: {told}");
            }
        }
    }
}

#[tokio::test]
async fn a_head_that_ends_its_stream_states_its_length_where_its_method_has_content() {
    // Goal: RFC 9110 §8.6, POST, PUT and PATCH without content and without a length get one of 0; other methods get none. Method: heads
    // that end their streams.
    let h1 = Origin::echo();
    let h2 = EchoOrigin::start().await;
    let gateway = gateway(&h1, &h2, "").await;
    for (method, lengths) in [
        ("POST", &["0"][..]),
        ("PUT", &["0"]),
        ("PATCH", &["0"]),
        ("DELETE", &[]),
        ("GET", &[]),
        ("OPTIONS", &[]),
    ] {
        ask(&gateway, &head(method.as_bytes(), b"/plain/h1", &[]), &[]).await;
        let received = h1.requests().pop().unwrap();
        assert_eq!(received.all("content-length"), lengths, "{method}");
        assert_eq!(received.all("transfer-encoding"), [""; 0], "{method}");
        let told = ask(&gateway, &head(method.as_bytes(), b"/plain/h2", &[]), &[]).await;
        let has_length = told.contains("\ncontent-length: 0\n");
        assert_eq!(has_length, !lengths.is_empty(), "{method}: {told}");
    }
}

#[tokio::test]
async fn an_origin_gets_no_request_before_its_empty_body_ends() {
    // Goal: RFC 9113 §8.1.1, a body that is announced as empty and goes on makes a request malformed, and no origin takes it for whole.
    // Method: bytes behind such a head, and a stream that does not end.
    let h1 = Origin::echo();
    let h2 = EchoOrigin::start().await;
    let rules = "[server]\nclient_read_timeout = \"300ms\"\n";
    let gateway = gateway(&h1, &h2, rules).await;
    for path in [&b"/plain/h1"[..], b"/plain/h2", b"/keyed/h1", b"/keyed/h2"] {
        let block = head(
            b"POST",
            path,
            &[
                (b"content-length", b"0"),
                (b"content-type", b"application/json"),
            ],
        );
        let begun = frame(HEADERS, END_HEADERS, 1, &block);
        let mut frames = Frames::connect(gateway.address()).await;
        frames.write(&begun).await;
        assert_eq!(frames.fate(1).await, Fate::Answered(408));
        let mut frames = Frames::connect(gateway.address()).await;
        frames.write(&begun).await;
        frames.write(&frame(DATA, END_STREAM, 1, b"GET")).await;
        assert!(!matches!(frames.fate(1).await, Fate::Answered(200)));
    }
    assert_eq!((h1.count(), h2.requests()), (0, 0));
}
