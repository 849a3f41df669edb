//! Connections of HTTP/2 that are dead, that take few streams, or whose heads are large.

use std::time::Duration;

use http::Response;

use super::*;
use crate::harness::frames::{CONTINUATION, END_HEADERS, END_STREAM, HEADERS, fields, frame};
use crate::harness::post;

#[tokio::test]
async fn a_dead_connection_gets_no_more_requests_after_a_timeout() {
    // Goal: a connection whose server says nothing any more costs one timeout, not one for each request. Method: a server that is silent
    // on its first connection after one answer.
    let server = listening(|stream, number| async move {
        let mut frames = Frames::accept(stream).await;
        let mut answered = false;
        while let Some(stream) = next_head(&mut frames).await {
            if number > 0 || !answered {
                let head = frame(HEADERS, END_HEADERS | END_STREAM, stream, &[0x88]);
                frames.write(&head).await;
                answered = true;
            }
        }
    })
    .await;
    let lines = "protocol = \"h2c\"\ntimeouts = { read = \"300ms\" }";
    let gateway = before(&[server], lines).await;
    let mut statuses = Vec::new();
    for _ in 0..5 {
        statuses.push(gateway.get("/").await.status);
    }
    assert_eq!(statuses, [200, 504, 200, 200, 200]);
}

#[tokio::test]
async fn a_new_connection_carries_no_more_streams_than_its_server_takes() {
    // Goal: requests that come together to a server with few streams are not refused, whatever their method: no stream is opened beyond
    // the one that opened the connection before the settings came. Method: a server of two streams at a time; twice thirty requests, the
    // second ones when the number is known, each of which is answered once the next one is there too; the attempts of each.
    let (arrived, _) = tokio::sync::watch::channel(0);
    let server = listening(move |stream, _| {
        let arrived = arrived.clone();
        async move {
            let mut builder = h2::server::Builder::new();
            builder.max_concurrent_streams(2);
            let Ok(mut connection) = builder.handshake::<_, bytes::Bytes>(stream).await else {
                return;
            };
            while let Some(Ok((request, mut respond))) = connection.accept().await {
                let mut number = 0;
                arrived.send_modify(|count| {
                    *count += 1;
                    number = *count;
                });
                let mut others = arrived.subscribe();
                tokio::spawn(async move {
                    let mut body = request.into_body();
                    while body.data().await.is_some() {}
                    let is_last = number % 30 == 0;
                    let is_followed = |count: &i32| is_last || *count > number;
                    let _ = others.wait_for(is_followed).await;
                    let _ = respond.send_response(Response::new(()), true);
                });
            }
        }
    })
    .await;
    let gateway = before(&[server], "protocol = \"h2c\"").await;
    for round in 1..=2 {
        let asked = (0..30).map(|_| gateway.send(post("/").body("hello")));
        for answer in futures_util::future::join_all(asked).await {
            assert_eq!(answer.status, 200);
        }
        for line in gateway.access_lines(30 * round).await {
            assert_eq!(line["attempts"], 1, "{line}");
        }
    }
}

#[tokio::test]
async fn a_large_head_in_small_frames_passes() {
    // Goal: a response head below 1 MiB passes in frames of 16 KiB, which every server may send. Method: 75 fields of 12,000 bytes in
    // CONTINUATION frames; another request is open on the connection meanwhile.
    let server = listening(|stream, _| async move {
        let mut frames = Frames::accept(stream).await;
        let mut open = None;
        while let Some(stream) = next_head(&mut frames).await {
            let Some(first) = open.replace(stream) else {
                continue;
            };
            let value = "a".repeat(12_000);
            let names: Vec<String> = (0..75).map(|number| format!("x-{number}")).collect();
            let mut all: Vec<(&[u8], &[u8])> = vec![(b":status", b"200")];
            all.extend(names.iter().map(|name| (name.as_bytes(), value.as_bytes())));
            let block = fields(&all);
            let pieces: Vec<&[u8]> = block.chunks(16_384).collect();
            for (number, piece) in pieces.iter().enumerate() {
                let (kind, end) = match number {
                    0 => (HEADERS, END_STREAM),
                    _ => (CONTINUATION, 0),
                };
                let last = if number + 1 == pieces.len() {
                    END_HEADERS
                } else {
                    0
                };
                frames.write(&frame(kind, end | last, stream, piece)).await;
            }
            let head = frame(HEADERS, END_HEADERS | END_STREAM, first, &[0x88]);
            frames.write(&head).await;
        }
    })
    .await;
    let gateway = before(&[server], "protocol = \"h2c\"").await;
    let mut first = gateway.raw().await;
    first.write("GET /first HTTP/1.1\r\nHost: a\r\n\r\n").await;
    let within = Duration::from_secs(10);
    crate::harness::within(within, "the first one is open", async || {
        let status = gateway.status().await;
        (status["origins"][0]["servers"][0]["in_flight"] == 1).then_some(())
    })
    .await;
    let mut second = gateway.raw().await;
    second
        .write("GET /second HTTP/1.1\r\nHost: a\r\n\r\n")
        .await;
    let large = second.read_response().await;
    assert_eq!(
        (large.status, large.header("x-74").map(str::len)),
        (200, Some(12_000))
    );
    assert_eq!(first.read_response().await.status, 200);
}
