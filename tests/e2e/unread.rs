//! Answers that their client reads slowly, hardly or not at all: what they hold, and when they end.

use std::time::Duration;

use crate::harness::frames::{Frames, SETTINGS, WINDOW_UPDATE, frame, get as get_block};
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
