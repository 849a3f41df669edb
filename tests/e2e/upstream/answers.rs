//! Answers of HTTP/1.1 that are wrong from their first bytes.

use tokio::io::AsyncWriteExt;

use super::*;
use crate::harness::{EndOfStream, get};

/// A server that gives every request these bytes, in one write.
async fn saying(answer: &'static str) -> SocketAddr {
    listening(move |mut stream, _| async move {
        read_head(&mut stream).await;
        let _ = stream.write_all(answer.as_bytes()).await;
        let mut sink = [0; 64];
        while stream.read(&mut sink).await.is_ok_and(|read| read > 0) {}
    })
    .await
}

#[tokio::test]
async fn chunks_that_are_malformed_with_their_head_are_a_bad_gateway() {
    // Goal: a client gets 502 and not the beginning of nothing, where the gateway sees at once that the body is malformed. Method: bad
    // chunks in the same write as the head, first or behind a good one, to clients of both versions.
    for body in ["zz\r\nok\r\n", "2\r\nok\r\nzz\r\n"] {
        let answer = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{body}");
        let server = saying(answer.leak()).await;
        let gateway = before(&[server], "").await;
        let answer = gateway.get("/").await;
        answer.assert_problem(502);
        let (answer, end) = gateway.h2c().await.send_to_the_end(get("/")).await;
        assert_eq!((answer.status, end), (502, EndOfStream::Later));
        for line in gateway.access_lines(2).await {
            assert_eq!(
                (&line["status"], &line["failure"]),
                (&502.into(), &"malformed-body".into())
            );
        }
    }
}

#[tokio::test]
async fn a_switch_to_another_protocol_is_a_bad_gateway() {
    // Goal: RFC 9110 §7.8, a server switches only to what the client asked for. Method: 101 with another protocol, with two, and with none.
    for protocols in [
        "Upgrade: h2c\r\n",
        "Upgrade: websocket\r\nUpgrade: h2c\r\n",
        "Upgrade: websocket, h2c\r\n",
        "",
    ] {
        let answer =
            format!("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n{protocols}\r\n");
        let server = saying(answer.leak()).await;
        let gateway = before(&[server], "").await;
        let mut raw = gateway.raw().await;
        raw.write(
            "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        )
        .await;
        assert_eq!(raw.read_response().await.status, 502, "{protocols:?}");
        let line = gateway.access_line().await;
        assert_eq!(line["failure"], "malformed-head", "{line}");
        assert_eq!(
            line["reason"],
            "101 to another protocol than the client asked for"
        );
    }
}
