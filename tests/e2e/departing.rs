//! Requests in flight: an answer counts until its last byte has left the gateway, not until it lies in a buffer.

use std::time::Duration;

use crate::harness::frames::{
    self, DATA, END_STREAM, Fate, Frames, HEADERS, RST_STREAM, SETTINGS, WINDOW_UPDATE, frame,
};
use crate::harness::*;

/// Sizes of bodies: none, within one frame, within the send buffer, and beyond it.
const SIZES: [usize; 6] = [0, 1, 8, 1_000, 60_000, 200_000];

/// The sources of an answer.
const SOURCES: [&str; 3] = ["origin", "cached", "fixed"];

/// One request in flight to routes that the origin, the cache and the gateway answer with so many bytes.
async fn one_in_flight(origin: &Origin, size: usize, lines: &str) -> Gateway {
    let body = "a".repeat(size);
    let rules = format!(
        "{lines}\n[limit.a]\nkey = \"client.ip\"\nrates = [\"100000 per 1h\"]\nconcurrency = 1\n\
         [[route]]\npath = \"/origin\"\nlimits = [\"a\"]\norigin = \"app\"\n\
         [[route]]\npath = \"/fixed\"\nlimits = [\"a\"]\nrespond = {{ status = 200, body = \"{body}\" }}\n\
         [[route]]\npath = \"/small\"\nlimits = [\"a\"]\nrespond = {{ status = 200, body = \"\" }}\n\
         [[route]]\npath = \"/cached\"\nlimits = [\"a\"]\norigin = \"app\"\n[route.cache]\n"
    );
    let gateway = Gateway::before(origin, &rules).await;
    assert_eq!(gateway.get("/cached").await.body.len(), size);
    gateway
}

fn of_size(size: usize) -> Origin {
    Origin::answering(move |_| {
        Answer::new(200)
            .header("Cache-Control", "max-age=600")
            .body(vec![b'a'; size])
            .into()
    })
}

fn window(stream: u32, bytes: usize) -> Vec<u8> {
    frame(WINDOW_UPDATE, 0, stream, &(bytes as u32).to_be_bytes())
}

/// A connection each of whose streams has a window of so many bytes, and the connection one for everything.
async fn with_windows(gateway: &Gateway, bytes: u32) -> Frames {
    let mut frames = Frames::connect(gateway.address()).await;
    let mut settings = vec![0, 4];
    settings.extend(bytes.to_be_bytes());
    frames.write(&frame(SETTINGS, 0, 0, &settings)).await;
    frames.write(&window(0, 1 << 24)).await;
    frames
}

/// Reads so many bytes of the body on a stream, and returns whether the stream ends with them.
pub(super) async fn read_body(frames: &mut Frames, stream: u32, mut bytes: usize) -> bool {
    loop {
        let frame = frames.next().await.expect("the connection goes on");
        if frame.stream != stream || !matches!(frame.kind, DATA | HEADERS) {
            continue;
        }
        let is_end = frame.flags & END_STREAM != 0;
        if frame.kind == DATA {
            bytes = bytes.checked_sub(frame.payload.len()).expect("no more");
        }
        if is_end || bytes == 0 {
            assert_eq!(bytes, 0);
            return is_end;
        }
    }
}

/// The status of a request that another connection of the same client sends.
async fn other(gateway: &Gateway) -> u16 {
    gateway.get("/small").await.status
}

#[tokio::test]
async fn an_answer_over_http2_counts_until_its_last_byte_has_left() {
    // Goal: no size of an answer gets around `concurrency`, whoever answers. Method: streams with a window of one byte; each byte but the
    // last one is let through in two steps, and a second request is refused after each of them; with the last byte it passes at once.
    for size in SIZES {
        let origin = of_size(size);
        let gateway = one_in_flight(&origin, size, "").await;
        for source in SOURCES {
            let case = format!("{size} bytes, {source}");
            let mut frames = with_windows(&gateway, 1).await;
            let path = format!("/{source}");
            frames.request(1, &frames::get(path.as_bytes(), &[])).await;
            assert_eq!(frames.fate(1).await, Fate::Answered(200), "{case}");
            if size > 1 {
                assert!(!read_body(&mut frames, 1, 1).await, "{case}");
                assert_eq!(other(&gateway).await, 429, "{case}");
                if size > 2 {
                    frames.write(&window(1, size - 2)).await;
                    assert!(!read_body(&mut frames, 1, size - 2).await, "{case}");
                    assert_eq!(other(&gateway).await, 429, "{case}");
                }
                frames.write(&window(1, 1)).await;
            }
            if size > 0 && !read_body(&mut frames, 1, 1.min(size)).await {
                assert!(read_body(&mut frames, 1, 0).await, "{case}");
            }
            assert_eq!(other(&gateway).await, 200, "{case}");
            // On the same connection too.
            frames.request(3, &frames::get(b"/small", &[])).await;
            assert_eq!(frames.fate(3).await, Fate::Answered(200), "{case}");
        }
    }
}

#[tokio::test]
async fn a_stream_that_ends_gives_its_permit_back() {
    // Goal: however a stream ends that its client lets no byte through. Method: no window; the client resets the stream, leaves, and waits
    // for the write timeout.
    for size in [1, 60_000] {
        let origin = of_size(size);
        let lines = "[server]\nclient_write_timeout = \"2s\"";
        let gateway = one_in_flight(&origin, size, lines).await;
        for source in SOURCES {
            let path = format!("/{source}");
            let ends: &[&str] = match size {
                1 => &["reset", "leave"],
                _ => &["reset", "leave", "wait"],
            };
            for end in ends {
                let case = format!("{size} bytes, {source}, {end}");
                let mut frames = with_windows(&gateway, 0).await;
                frames.request(1, &frames::get(path.as_bytes(), &[])).await;
                assert_eq!(frames.fate(1).await, Fate::Answered(200), "{case}");
                assert_eq!(other(&gateway).await, 429, "{case}");
                match *end {
                    "reset" => frames.write(&frame(RST_STREAM, 0, 1, &[0, 0, 0, 8])).await,
                    "leave" => drop(frames),
                    _ => assert!(matches!(frames.fate(1).await, Fate::Reset(_)), "{case}"),
                }
                eventually("the permit is back", async || {
                    (other(&gateway).await == 200).then_some(())
                })
                .await;
            }
        }
    }
}

#[tokio::test]
async fn an_answer_with_trailers_counts_until_its_body_has_left() {
    // Goal: trailers end an answer as its last byte does. Method: an origin of HTTP/2 that sends trailers, and a stream with a window of a
    // byte.
    let head = frame(HEADERS, frames::END_HEADERS, 1, &[0x88]);
    let origin = frames::answering(move |stream| {
        let trailers = frames::fields(&[(b"x-sum", b"1")]);
        [
            frame(HEADERS, frames::END_HEADERS, stream, &head[9..]),
            frame(DATA, 0, stream, b"12345678"),
            frame(HEADERS, frames::END_HEADERS | END_STREAM, stream, &trailers),
        ]
        .concat()
    })
    .await;
    let rules = "[limit.a]\nkey = \"client.ip\"\nrates = [\"100000 per 1h\"]\nconcurrency = 1\n\
         [[route]]\npath = \"/small\"\nlimits = [\"a\"]\nrespond = { status = 200, body = \"\" }\n\
         [[route]]\npath = \"/*\"\nlimits = [\"a\"]\norigin = \"app\"\n";
    let gateway = Setup::new()
        .servers("app", &[origin])
        .origin_line("protocol = \"h2c\"")
        .rules(rules)
        .start()
        .await;
    let mut frames = with_windows(&gateway, 1).await;
    frames.request(1, &frames::get(b"/", &[])).await;
    assert_eq!(frames.fate(1).await, Fate::Answered(200));
    assert_eq!(other(&gateway).await, 429);
    frames.write(&window(1, 7)).await;
    assert!(!read_body(&mut frames, 1, 8).await);
    assert!(read_body(&mut frames, 1, 0).await);
    assert_eq!(other(&gateway).await, 200);
}

#[tokio::test]
async fn an_answer_over_http1_counts_until_the_socket_takes_it() {
    // Goal: the same over HTTP/1.1, also in a pipeline. Method: an answer that is larger than the buffers of both kernels, which its client
    // does not read, with another request behind it; then the client reads.
    const SIZE: usize = 16 << 20;
    let origin = of_size(SIZE);
    let rules = "[limit.a]\nkey = \"client.ip\"\nrates = [\"100000 per 1h\"]\nconcurrency = 1\n\
         [[route]]\npath = \"/small\"\nlimits = [\"a\"]\nrespond = { status = 200, body = \"small\" }\n\
         [[route]]\npath = \"/*\"\nlimits = [\"a\"]\norigin = \"app\"\n";
    let gateway = Gateway::before(&origin, rules).await;
    let mut raw = RawConnection::connect_unread(gateway.address()).await;
    raw.write(
        "GET /large HTTP/1.1\r\nHost: a.test\r\n\r\nGET /small HTTP/1.1\r\nHost: a.test\r\n\r\n",
    )
    .await;
    origin.is_asked(1).await;
    for _ in 0..3 {
        assert_eq!(other(&gateway).await, 429);
    }
    assert_eq!(raw.read_response().await.body.len(), SIZE);
    assert_eq!(raw.read_response().await.text(), "small");
    assert_eq!(other(&gateway).await, 200);
}

#[tokio::test]
async fn the_log_says_how_long_an_answer_took_to_leave() {
    // Goal: a request ends when its answer has left, and its bytes are those of the whole body. Method: a window that opens after half a
    // second.
    let origin = of_size(8);
    let gateway = one_in_flight(&origin, 8, "").await;
    let mut frames = with_windows(&gateway, 1).await;
    frames.request(1, &frames::get(b"/origin", &[])).await;
    assert_eq!(frames.fate(1).await, Fate::Answered(200));
    tokio::time::sleep(Duration::from_millis(500)).await;
    frames.write(&window(1, 7)).await;
    assert!(!read_body(&mut frames, 1, 8).await);
    assert!(read_body(&mut frames, 1, 0).await);
    let lines = gateway.access_lines(2).await;
    let line = lines
        .iter()
        .find(|line| line["target"] == "/origin")
        .unwrap();
    assert_eq!(line["bytes_out"], 8, "{line}");
    assert!(line["duration_ms"].as_f64().unwrap() >= 500.0, "{line}");
}
