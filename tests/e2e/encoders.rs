//! The memory of encoders: charged to the client for whom they compress, of whatever answer, for as long as they live.

use crate::harness::frames::{
    DATA, END_STREAM, Frames, SETTINGS, WINDOW_UPDATE, frame, get as get_block,
};
use crate::harness::*;

/// Text that no coding makes much shorter: letters from a generator of random numbers.
fn text(bytes: usize) -> String {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(letters[(state >> 32) as usize % letters.len()])
    };
    (0..bytes).map(|_| next()).collect()
}

/// An origin whose answers are such texts, that may be stored.
fn origin(bytes: usize) -> Origin {
    Origin::answering(move |_| {
        let answer = Answer::new(200).header("content-type", "text/plain");
        (answer.header("cache-control", "max-age=600"))
            .body(text(bytes))
            .into()
    })
}

/// A connection whose client opens no window, with so many streams that ask for `/`.
async fn ask_without_window(gateway: &Gateway, streams: u32, coding: &[u8]) -> Frames {
    let mut frames = Frames::connect(gateway.address()).await;
    let no_window = [0, 4, 0, 0, 0, 0];
    frames.write(&frame(SETTINGS, 0, 0, &no_window)).await;
    let block = get_block(b"/", &[(b"accept-encoding", coding)]);
    for stream in 0..streams {
        frames.request(2 * stream + 1, &block).await;
    }
    frames
}

async fn unread_bytes(gateway: &Gateway) -> f64 {
    gateway.metrics().await.sum("sluicegate_unread_bytes", &[])
}

#[tokio::test]
async fn encoders_of_cached_answers_take_room_of_their_client() {
    // Goal: one client cannot fill the memory with encoders of a cached answer that it does not read, and gets every answer all the same.
    // Method: room for 128 MiB, of which one client has half, and half of that for encoders; 300 streams without a window, whose encoders
    // would take 300 MB. The rest is sent uncompressed, with `Vary`, which is read on one stream to its end; another client gets a
    // compressed answer.
    const BODY: usize = 400_000;
    let origin = origin(BODY);
    let rules = "[server]\nmax_unread_bytes = \"128MiB\"\n[compress]\nencodings = [\"zstd\"]\n\
                 [[route]]\npath = \"/*\"\norigin = \"app\"\n[route.cache]\n";
    let gateway = Gateway::before(&origin, rules).await;
    assert_eq!(gateway.get("/").await.status, 200);
    let before = gateway.resident_bytes();
    let mut unread = Vec::new();
    for _ in 0..3 {
        unread.push(ask_without_window(&gateway, 100, b"zstd").await);
    }
    let of_client = [("cap", "client")];
    eventually("most are sent as they are", async || {
        let metrics = gateway.metrics().await;
        let plain = metrics.sum("sluicegate_uncompressed_total", &of_client);
        (plain >= 280.0).then_some(())
    })
    .await;
    let grown = gateway.resident_bytes().saturating_sub(before);
    assert!(grown < 120 << 20, "{grown} bytes more");
    let held = unread_bytes(&gateway).await;
    assert!(held > 2e7 && held <= f64::from(64 << 20), "{held}");
    assert_eq!(origin.count(), 1);

    let asked = || get("/").header("accept-encoding", "zstd");
    let plain = gateway.send(asked()).await;
    assert_eq!(
        (plain.status, plain.header("content-encoding")),
        (200, None)
    );
    assert_eq!(plain.header("vary"), Some("accept-encoding"));
    assert_eq!(plain.body.len(), BODY);
    let mut other = gateway.client_from("127.0.0.9").await;
    let coded = other.send(asked()).await;
    assert_eq!(coded.header("content-encoding"), Some("zstd"));

    let frames = unread.last_mut().unwrap();
    let wide = 0x7fff_0000_u32.to_be_bytes();
    frames.write(&frame(WINDOW_UPDATE, 0, 0, &wide)).await;
    frames.write(&frame(WINDOW_UPDATE, 0, 199, &wide)).await;
    let mut read = 0;
    loop {
        let frame = frames.next().await.unwrap();
        if frame.kind == DATA && frame.stream == 199 {
            read += frame.payload.len();
            if frame.flags & END_STREAM != 0 {
                break;
            }
        }
    }
    assert_eq!(read, BODY);
    drop(unread);
    eventually("all is given back", async || {
        (unread_bytes(&gateway).await == 0.0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn an_encoder_ends_with_its_body() {
    // Goal: an encoder whose body is encoded to its end is freed, though the client has read nothing of it. Method: a cached answer of one
    // piece, over streams without a window; the number of streams shows that they are open.
    let origin = origin(30_000);
    let rules = "[compress]\nencodings = [\"br\"]\n\
                 [[route]]\npath = \"/*\"\norigin = \"app\"\n[route.cache]\n";
    let gateway = Gateway::before(&origin, rules).await;
    assert_eq!(gateway.get("/").await.status, 200);
    let _unread = ask_without_window(&gateway, 50, b"br").await;
    eventually("all streams are served", async || {
        let metrics = gateway.metrics().await;
        let cached = [("result", "hit")];
        let hits = metrics.sum("sluicegate_cache_requests_total", &cached);
        let open = metrics.sum("sluicegate_http2_streams", &[]);
        (hits == 50.0 || open == 50.0).then_some(())
    })
    .await;
    // What is left is the encoded body, of which the client takes nothing. An encoder takes 960 KiB.
    eventually("no encoder is left", async || {
        let held = unread_bytes(&gateway).await;
        (held > 0.0 && held < 50.0 * 100_000.0).then_some(())
    })
    .await;
    let metrics = gateway.metrics().await;
    assert_eq!(metrics.sum("sluicegate_uncompressed_total", &[]), 0.0);
    let mut client = gateway.client().await;
    let coded = client.send(get("/").header("accept-encoding", "br")).await;
    assert_eq!(coded.header("content-encoding"), Some("br"));
}

#[tokio::test]
async fn an_encoder_takes_no_more_than_it_is_charged() {
    // Goal: the charge of an answer that is compressed bounds what it holds, for each coding at its usual and at its highest level. Method:
    // connections of HTTP/1 that read nothing of 8 MiB each, and the growth of resident memory without the pages of files from the fourth
    // of them to the sixteenth: the first bring what threads and allocator keep.
    const FIRST: u32 = 4;
    const FURTHER: u32 = 12;
    let origin = origin(8 << 20);
    for coding in ["zstd", "br", "gzip"] {
        for level in ["", "level = 9\n"] {
            let rules = format!(
                "[server]\nmax_unread_bytes = \"2GiB\"\n[compress]\nencodings = [\"{coding}\"]\n{level}\
                 [[route]]\npath = \"/*\"\norigin = \"app\"\n"
            );
            let gateway = Gateway::before(&origin, &rules).await;
            let mut unread = Vec::new();
            let mut held_by = async |count: u32| {
                for _ in 0..count {
                    let mut raw = RawConnection::connect_unread(gateway.address()).await;
                    let head = format!(
                        "GET / HTTP/1.1\r\nHost: a.test\r\nAccept-Encoding: {coding}\r\n\r\n"
                    );
                    raw.write(head).await;
                    unread.push(raw);
                }
                eventually("the kernel holds a part", async || {
                    (gateway.unsent_bytes() > 0).then_some(())
                })
                .await;
                let held = settled(async || gateway.anonymous_bytes()).await;
                (held as f64, unread_bytes(&gateway).await)
            };
            let (before, charged_before) = held_by(FIRST).await;
            let (after, charged) = held_by(FURTHER).await;
            let (grown, charged) = (after - before, charged - charged_before);
            // Connections, and what the allocator leaves between.
            let beside = f64::from(FURTHER) * 250_000.0;
            assert!(
                grown <= charged + beside,
                "{coding} {level}: {grown} resident, {charged} charged"
            );
        }
    }
}
