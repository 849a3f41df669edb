//! Answers that their client reads slowly, hardly or not at all: what they hold, and when they end.

use std::time::{Duration, Instant};

use crate::harness::frames::{
    DATA, END_STREAM, Frames, SETTINGS, WINDOW_UPDATE, frame, get as get_block,
};
use crate::harness::*;

const PASS: &str = "[[route]]\npath = \"/*\"\norigin = \"app\"\n";

/// An origin whose answers have so many bytes.
fn origin(bytes: usize) -> Origin {
    Origin::answering(move |_| Answer::new(200).body(vec![b'x'; bytes]).into())
}

/// A connection of HTTP/2 whose client lets everything come and reads nothing.
async fn connect_wide_open(gateway: &Gateway) -> Frames {
    let mut frames = Frames::connect_unread(gateway.address()).await;
    let wide = 0x7fff_0000_u32.to_be_bytes();
    let settings = [&[0, 4][..], &wide].concat();
    frames.write(&frame(SETTINGS, 0, 0, &settings)).await;
    frames.write(&frame(WINDOW_UPDATE, 0, 0, &wide)).await;
    frames
}

/// Waits until the number does not grow any more, and gives it.
async fn settled(mut number: impl FnMut() -> u64) -> u64 {
    let mut last = 0;
    within(Duration::from_secs(30), "nothing moves", async || {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let now = number();
        let is_same = now > 0 && now == last;
        last = now;
        is_same.then_some(now)
    })
    .await
}

#[tokio::test]
async fn the_kernel_keeps_little_of_an_answer() {
    // Goal: what the kernel holds of an unread answer is bounded, over HTTP/1 and HTTP/2. Method: 20 connections that read nothing of 8 MiB
    // each, and one with 20 streams of that.
    let origin = origin(8 << 20);
    let gateway = Gateway::before(&origin, PASS).await;
    let mut unread = Vec::new();
    for _ in 0..20 {
        let mut raw = RawConnection::connect_unread(gateway.address()).await;
        raw.write("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n").await;
        unread.push(raw);
    }
    let held = settled(|| gateway.unsent_bytes()).await;
    assert!(held < 20 * 256 * 1024, "{held} bytes in the kernel");
    drop(unread);
    eventually("they are gone", async || {
        (gateway.unsent_bytes() == 0).then_some(())
    })
    .await;
    let mut frames = connect_wide_open(&gateway).await;
    for stream in (1..40).step_by(2) {
        frames.request(stream, &get_block(b"/", &[])).await;
    }
    let held = settled(|| gateway.unsent_bytes()).await;
    assert!(held < 256 * 1024, "{held} bytes in the kernel");
}

#[tokio::test]
async fn an_answer_that_is_read_slowly_arrives() {
    // Goal: no honest reader is cut, however many bytes the gateway holds for it. Method: 100 KB a second, while a write may wait for one,
    // over HTTP/1 and HTTP/2.
    const BYTES: usize = 700_000;
    let origin = origin(BYTES);
    let rules = "[server]\nclient_write_timeout = \"1s\"\nclient_min_read_rate = \"16KiB\"\n";
    let gateway = Gateway::before(&origin, &format!("{rules}{PASS}")).await;
    let mut raw = RawConnection::connect_unread(gateway.address()).await;
    raw.write("GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n")
        .await;
    let mut read = 0;
    loop {
        let now = raw.read_at_most(10_000).await;
        if now == 0 {
            break;
        }
        read += now;
        tokio::time::sleep(Duration::from_micros(now as u64 * 10)).await;
    }
    assert!(read > BYTES, "cut after {read} bytes");

    let mut frames = connect_wide_open(&gateway).await;
    frames.request(1, &get_block(b"/", &[])).await;
    let mut read = 0;
    let ended = loop {
        let Some(frame) = frames.next().await else {
            break false;
        };
        if frame.kind == DATA {
            read += frame.payload.len();
            if frame.flags & END_STREAM != 0 {
                break true;
            }
        }
        tokio::time::sleep(Duration::from_micros(frame.payload.len() as u64 * 10)).await;
    };
    assert!(ended && read == BYTES, "cut after {read} bytes");
}

#[tokio::test]
async fn an_answer_that_trickles_ends() {
    // Goal: who reads a little now and then holds no answer for ever, and the log says why it ended. Method: over HTTP/1 a few kilobytes a
    // second, over HTTP/2 a window that opens by a byte; both far within the timeout of a write.
    let origin = origin(4 << 20);
    let rules = "[server]\nclient_write_timeout = \"1s\"\nclient_min_read_rate = \"128KiB\"\n";
    let gateway = Gateway::before(&origin, &format!("{rules}{PASS}")).await;
    let started = Instant::now();
    let mut raw = RawConnection::connect_unread(gateway.address()).await;
    raw.write("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n").await;
    while gateway.access_log().is_empty() && started.elapsed() < Duration::from_secs(15) {
        raw.read_at_most(2_000).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let line = gateway.access_line().await;
    assert_eq!(line["outcome"], "client-gone");
    let reason = line["reason"].as_str().unwrap();
    assert!(
        reason.contains("the client reads less than 131072 bytes a second"),
        "{reason}"
    );

    let started = Instant::now();
    let mut frames = Frames::connect(gateway.address()).await;
    let none = [0, 4, 0, 0, 0, 0];
    frames.write(&frame(SETTINGS, 0, 0, &none)).await;
    frames.request(1, &get_block(b"/", &[])).await;
    let byte = 1_u32.to_be_bytes();
    while gateway.access_log().len() < 2 && started.elapsed() < Duration::from_secs(15) {
        // The stream may be over by now.
        let _ = frames.try_write(&frame(WINDOW_UPDATE, 0, 1, &byte)).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let line = gateway.access_lines(2).await.remove(1);
    assert_eq!(line["outcome"], "client-gone");
    let reason = line["reason"].as_str().unwrap();
    assert!(reason.contains("within client_write_timeout"), "{reason}");
}

#[tokio::test]
async fn a_connection_whose_requests_are_over_is_not_left_unread() {
    // Goal: answers that fit into the buffers of HTTP/2 end the request before they are read; the connection that holds them ends as well.
    // Method: 100 streams whose answers fit, nothing is read, and a `keepalive_timeout` that is far away.
    let origin = origin(15_000);
    let rules = "[server]\nclient_write_timeout = \"1s\"\nkeepalive_timeout = \"10m\"\n";
    let gateway = Gateway::before(&origin, &format!("{rules}{PASS}")).await;
    let mut frames = connect_wide_open(&gateway).await;
    for stream in (1..200).step_by(2) {
        frames.request(stream, &get_block(b"/", &[])).await;
    }
    origin.is_asked(100).await;
    within(Duration::from_secs(20), "the end", async || {
        let metrics = gateway.metrics().await;
        (metrics.sum("sluicegate_connections", &[]) == 0.0).then_some(())
    })
    .await;
}
