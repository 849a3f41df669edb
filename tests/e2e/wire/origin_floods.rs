//! Floods of an origin of HTTP/2: one that only makes work loses its connection, and the failure names the reason.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::harness::frames::{
    ACK, DATA, END_HEADERS, END_STREAM, Frames, HEADERS, PING, PRIORITY, SETTINGS, WINDOW_UPDATE,
    answering, frame,
};
use crate::harness::*;

/// SETTINGS_INITIAL_WINDOW_SIZE, RFC 9113 §6.5.2.
const INITIAL_WINDOW_SIZE: u8 = 4;

/// The whole answer 200 on this stream: `:status` of the static table, RFC 7541 appendix A.
fn ok(stream: u32) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | END_STREAM, stream, &[0x88])
}

#[tokio::test]
async fn an_origin_that_only_makes_work_is_disconnected() {
    // Goal: PING, SETTINGS, windows, priorities and unknown frames of an origin are bounded together, and so is empty DATA; the request
    // fails with the reason. Method: an answer behind 9,000 of each, which passes, and one behind 12,000; of empty DATA,
    // 12,000 follow a head.
    let reason = "too many frames without head or data";
    let floods = [
        frame(PING, 0, 0, b"12345678"),
        frame(PING, ACK, 0, b"12345678"),
        frame(SETTINGS, 0, 0, &[0, INITIAL_WINDOW_SIZE, 0, 1, 0, 0]),
        frame(PRIORITY, 0, 1, &[0, 0, 0, 3, 7]),
        frame(WINDOW_UPDATE, 0, 0, &1_u32.to_be_bytes()),
        frame(WINDOW_UPDATE, 0, 1, &1_u32.to_be_bytes()),
        frame(0x42, 0, 0, b"anything"),
    ];
    for piece in floods {
        let behind = async |count: usize| {
            let flood = piece.repeat(count);
            answering(move |stream| [flood.clone(), ok(stream)].concat()).await
        };
        let gateway = Setup::new()
            .servers("few", &[behind(9_000).await])
            .origin_line("protocol = \"h2c\"")
            .servers("many", &[behind(12_000).await])
            .origin_line("protocol = \"h2c\"")
            .rules("[[route]]\npath = \"/few\"\norigin = \"few\"\n[[route]]\npath = \"/many\"\norigin = \"many\"")
            .start()
            .await;
        assert_eq!(gateway.get("/few").await.status, 200, "{piece:?}");
        assert_eq!(gateway.get("/many").await.status, 502, "{piece:?}");
        let lines = gateway.access_lines(2).await;
        let failed = lines.iter().find(|line| line["status"] == 502).unwrap();
        assert_eq!(failed["failure"], "protocol", "{failed}");
        let told = failed["reason"].as_str().unwrap();
        assert!(told.contains(reason), "{told}");
        assert!(gateway.stderr().contains(reason));
    }
    let begin = |stream| frame(HEADERS, END_HEADERS, stream, &[0x88]);
    let empty = answering(move |stream| {
        let flood = frame(DATA, 0, stream, &[]).repeat(12_000);
        [begin(stream), flood, frame(DATA, END_STREAM, stream, b"a")].concat()
    })
    .await;
    let gateway = before_http2(empty).await;
    let mut raw = gateway.raw().await;
    raw.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
    let lines = gateway.access_lines(1).await;
    assert_ne!(lines[0]["failure"], serde_json::Value::Null, "{}", lines[0]);
}

/// A gateway before an origin of HTTP/2.
async fn before_http2(origin: SocketAddr) -> Gateway {
    Setup::new()
        .servers("app", &[origin])
        .origin_line("protocol = \"h2c\"")
        .rules("[[route]]\npath = \"/*\"\norigin = \"app\"")
        .start()
        .await
}

#[tokio::test]
async fn an_origin_that_needs_many_control_frames_is_served() {
    // Goal: no honest origin loses its connection: windows of 256 bytes and a ping for each piece of a request, as servers that measure
    // the path send, and five pings for each short request. Method: more such frames on one connection than may come at once.
    let listener = listen();
    let address = listener.local_addr().unwrap();
    let sent = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&sent);
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let mut frames = Frames::accept(stream).await;
        let window = [0, INITIAL_WINDOW_SIZE, 0, 0, 1, 0];
        frames.write(&frame(SETTINGS, 0, 0, &window)).await;
        let ping = frame(PING, 0, 0, b"12345678");
        while let Some(next) = frames.next().await {
            let mut control = Vec::new();
            if next.kind == DATA && !next.payload.is_empty() {
                let bytes = u32::try_from(next.payload.len()).unwrap().to_be_bytes();
                control.push(frame(WINDOW_UPDATE, 0, next.stream, &bytes));
                control.push(frame(WINDOW_UPDATE, 0, 0, &bytes));
                control.push(ping.clone());
            }
            if matches!(next.kind, HEADERS | DATA) && next.flags & END_STREAM != 0 {
                control.extend(std::iter::repeat_n(ping.clone(), 5));
                control.push(ok(next.stream));
            }
            counted.fetch_add(control.len(), Ordering::Relaxed);
            frames.write(&control.concat()).await;
        }
    });
    let gateway = before_http2(address).await;
    let mut client = gateway.client().await;
    let body = "x".repeat(1_500_000);
    assert_eq!(client.send(post("/").body(body)).await.status, 200);
    for _ in 0..2_000 {
        assert_eq!(client.get("/").await.status, 200);
    }
    // Of those that came at once some were made room for by time, 330 a second.
    let sent = sent.load(Ordering::Relaxed);
    assert!(sent > 25_000, "{sent}");
}
