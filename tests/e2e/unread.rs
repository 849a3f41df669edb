//! Answers that their client reads slowly, hardly or not at all: what they hold, and when they end.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;

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

#[tokio::test]
async fn the_kernel_keeps_little_of_an_answer() {
    // Goal: what the kernel holds of an unread answer is bounded, over HTTP/1 and HTTP/2. Method: 20 connections that read nothing of
    // 8 MiB
    // each, and one with 20 streams of that.
    let origin = origin(8 << 20);
    let gateway = Gateway::before(&origin, PASS).await;
    let mut unread = Vec::new();
    for _ in 0..20 {
        let mut raw = RawConnection::connect_unread(gateway.address()).await;
        raw.write("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n").await;
        unread.push(raw);
    }
    let held = settled(async || gateway.unsent_bytes()).await;
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
    let held = settled(async || gateway.unsent_bytes()).await;
    assert!(held < 256 * 1024, "{held} bytes in the kernel");
}

#[tokio::test]
async fn an_answer_that_is_read_slowly_arrives() {
    // Goal: no steady reader is cut off, however many bytes the gateway holds for it. Method: 100 KB a second, while a write may wait
    // for one,
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
    // Goal: a client that reads a little now and then cannot hold an answer forever, and the log has the reason. Method: over HTTP/1 a
    // few kilobytes a
    // second, over HTTP/2 a window that opens by a byte; both far within the timeout of a write.
    let origin = origin(4 << 20);
    let rules = "[server]\nclient_write_timeout = \"1s\"\nclient_min_read_rate = \"128KiB\"\n";
    let gateway = Gateway::before(&origin, &format!("{rules}{PASS}")).await;
    let started = Instant::now();
    let mut raw = RawConnection::connect_unread(gateway.address()).await;
    raw.write("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n").await;
    let is_over =
        |lines| gateway.access_log().len() >= lines || started.elapsed() >= Duration::from_secs(30);
    at_a_pace(Duration::from_millis(100), async || {
        raw.read_at_most(2_000).await;
        is_over(1).then_some(())
    })
    .await;
    let line = gateway.access_line().await;
    assert_eq!(line["outcome"], "client-gone");
    let reason = line["reason"].as_str().unwrap();
    assert!(
        reason.contains("the client reads less than 131072 bytes a second"),
        "{reason}"
    );

    let mut frames = Frames::connect(gateway.address()).await;
    let none = [0, 4, 0, 0, 0, 0];
    frames.write(&frame(SETTINGS, 0, 0, &none)).await;
    frames.request(1, &get_block(b"/", &[])).await;
    let byte = 1_u32.to_be_bytes();
    at_a_pace(Duration::from_millis(100), async || {
        // The stream may be over by now.
        let _ = frames.try_write(&frame(WINDOW_UPDATE, 0, 1, &byte)).await;
        is_over(2).then_some(())
    })
    .await;
    let line = gateway.access_lines(2).await.remove(1);
    assert_eq!(line["outcome"], "client-gone");
    let reason = line["reason"].as_str().unwrap();
    assert!(reason.contains("within client_write_timeout"), "{reason}");
}

#[tokio::test]
async fn a_connection_whose_requests_are_over_is_not_left_unread() {
    // Goal: answers that fit into the buffers of HTTP/2 end the request before they are read; the connection that holds them ends as
    // well.
    // Method: 100 streams whose answers fit, nothing is read, and a long `keepalive_timeout`.
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

#[cfg(target_os = "linux")]
#[tokio::test]
async fn an_answer_that_waits_in_the_kernel_ends_its_connection() {
    // Goal: an answer that the kernel has taken whole holds its connection no longer than one that is still written, and a reload changes
    // the time for new connections. Method: answers that fit into the kernel, to clients that read nothing, and a long `keepalive_timeout`;
    // the connection of before the reload stays.
    let origin = origin(15_000);
    let rules = |time: &str| {
        format!("[server]\nclient_write_timeout = \"{time}\"\nkeepalive_timeout = \"10m\"\n{PASS}")
    };
    let mut gateway = Gateway::before(&origin, &rules("10m")).await;
    let ask = async |gateway: &Gateway, lines: usize| {
        let mut raw = RawConnection::connect_unread(gateway.address()).await;
        raw.write("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n").await;
        let lines = gateway.access_lines(lines).await;
        assert!(lines.iter().all(|line| line["status"] == 200), "{lines:?}");
        raw
    };
    let _patient = ask(&gateway, 1).await;
    gateway.reload(&rules("1s")).await;
    let _short = ask(&gateway, 2).await;
    within(
        Duration::from_secs(20),
        "the end of the second",
        async || {
            let metrics = gateway.metrics().await;
            (metrics.sum("sluicegate_connections", &[]) == 1.0).then_some(())
        },
    )
    .await;
}

#[tokio::test]
async fn one_client_holds_no_more_than_its_share_of_memory() {
    // Goal: however many answers a client leaves unread, what they hold has a bound, and others are served. Method: room for 32 MiB, of
    // which one client has half; 300 connections that read nothing, to an origin that announces its length. Most get 503 instead.
    let origin = origin(1 << 20);
    let rules = format!("[server]\nmax_unread_bytes = \"32MiB\"\n{PASS}");
    let gateway = Gateway::before(&origin, &rules).await;
    let mut other = gateway.client_from("127.0.0.9").await;
    assert_eq!(other.get("/").await.status, 200);
    let before = gateway.resident_bytes();
    let mut unread = Vec::new();
    for _ in 0..300 {
        let mut raw = RawConnection::connect_unread(gateway.address()).await;
        raw.write("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n").await;
        unread.push(raw);
    }
    let of_client = [("cap", "client")];
    eventually("most are refused", async || {
        let metrics = gateway.metrics().await;
        let refused = metrics.sum("sluicegate_unread_refused_total", &of_client);
        (refused >= 130.0).then_some(())
    })
    .await;
    settled(async || gateway.unsent_bytes()).await;
    let grown = gateway.resident_bytes().saturating_sub(before);
    // Those that were refused have read a piece before that.
    assert!(grown < 24 << 20, "{grown} bytes more");
    for _ in 0..5 {
        assert_eq!(other.get("/").await.status, 200);
    }
    let held = gateway.metrics().await.sum("sluicegate_unread_bytes", &[]);
    assert!((8e6..17e6).contains(&held), "{held}");
    let lines = gateway.access_log();
    let refused = lines.iter().find(|line| line["status"] == 503).unwrap();
    assert_eq!(refused["failure"], "unread-full");
    assert_eq!(
        refused["reason"],
        "answers wait for this client to read them; max_unread_bytes = 33554432"
    );
    drop(unread);
    eventually("all is given back", async || {
        let held = gateway.metrics().await.sum("sluicegate_unread_bytes", &[]);
        (held == 0.0).then_some(())
    })
    .await;
}

/// Answers that a client asks for and does not read.
struct UnreadAnswers<'g> {
    gateway: &'g Gateway,
    connections: Vec<RawConnection>,
    streams: Frames,
    asked: u32,
}

impl<'g> UnreadAnswers<'g> {
    async fn none(gateway: &'g Gateway) -> Self {
        Self {
            gateway,
            connections: Vec::new(),
            streams: connect_wide_open(gateway).await,
            asked: 0,
        }
    }

    /// Asks for one more: over HTTP/1.1 on a connection of its own, over HTTP/2 on a stream.
    async fn ask(&mut self, version: Version, path: &str) {
        if version == Version::Http2 {
            let block = get_block(path.as_bytes(), &[]);
            self.streams.request(1 + 2 * self.asked, &block).await;
        } else {
            let mut raw = RawConnection::connect_unread(self.gateway.address()).await;
            raw.write(format!("GET {path} HTTP/1.1\r\nHost: a.test\r\n\r\n"))
                .await;
            self.connections.push(raw);
        }
        self.asked += 1;
    }

    /// Waits until each has reserved so much, and returns what the gateway holds then.
    async fn wait(&self, reserved: u64) -> u64 {
        let expected = (u64::from(self.asked) * reserved) as f64;
        eventually("all wait", async || {
            let metrics = self.gateway.metrics().await;
            (metrics.sum("sluicegate_unread_bytes", &[]) == expected).then_some(())
        })
        .await;
        settled(async || self.gateway.resident_bytes()).await
    }
}

/// An origin of HTTP/2 whose answers have so many bytes, and their length at `/length`.
async fn stream_origin(bytes: usize) -> SocketAddr {
    let body = Bytes::from(vec![b'x'; bytes]);
    listening(move |stream, _| {
        let body = body.clone();
        async move {
            let mut connection = h2::server::handshake(stream).await.unwrap();
            while let Some(Ok((request, mut respond))) = connection.accept().await {
                let mut head = http::Response::builder();
                if request.uri().path() == "/length" {
                    head = head.header("content-length", body.len());
                }
                let stream = respond.send_response(head.body(()).unwrap(), false);
                // Sent as far as the windows allow.
                stream.unwrap().send_data(body.clone(), true).unwrap();
            }
        }
    })
    .await
}

#[tokio::test]
async fn an_unread_answer_holds_no_more_than_it_reserves() {
    // Goal: the budget of unread answers bounds the memory that they hold: each holds less than it reserves, for a client of HTTP/1.1 in
    // clear text less than 128 KiB. Method: 80 more answers beside 20 that nobody reads, with and without a length, by origins and clients
    // of both versions.
    const BYTES: usize = 4 << 20;
    const MORE: u64 = 80;
    let body = vec![b'x'; BYTES];
    let origin = Origin::answering(move |received| match received.target.as_str() {
        "/length" => Answer::new(200).body(body.clone()).into(),
        _ => {
            let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n400000\r\n";
            Reply::Raw([&head[..], &body].concat())
        }
    });
    let streams = stream_origin(BYTES).await;
    for (server, protocol) in [(origin.address(), "http/1.1"), (streams, "h2c")] {
        for (version, reserved) in [(Version::Http1, 110 << 10), (Version::Http2, 142 << 10)] {
            for path in ["/length", "/chunks"] {
                let gateway = Setup::new()
                    .servers("app", &[server])
                    .origin_line(&format!("protocol = \"{protocol}\""))
                    .rules(PASS)
                    .start()
                    .await;
                let mut unread = UnreadAnswers::none(&gateway).await;
                for _ in 0..20 {
                    unread.ask(version, path).await;
                }
                // The code and the buffers of the threads are in memory from here on.
                let before = unread.wait(reserved).await;
                for _ in 0..MORE {
                    unread.ask(version, path).await;
                }
                let each = unread.wait(reserved).await.saturating_sub(before) / MORE;
                assert!(
                    each < reserved,
                    "{protocol} {version:?} {path}: {each} bytes each"
                );
            }
        }
    }
}

#[tokio::test]
async fn a_stream_takes_room_only_while_it_waits() {
    // Goal: an answer of unknown length needs room while its client lags behind, and a stream of small events never. Method: 20
    // streams of
    // events and 30 answers in chunks that nobody reads, with room for 9 of those; the rest is cut off.
    let large = [
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n400000\r\n".to_vec(),
        vec![b'x'; 4 << 20],
    ]
    .concat();
    let origin = Origin::answering(move |received| match received.target.as_str() {
        "/events" => Reply::Drip {
            piece: "data: something\n\n",
            every: Duration::from_millis(100),
            pieces: 1000,
        },
        _ => Reply::Raw(large.clone()),
    });
    let rules = format!("[server]\nmax_unread_bytes = \"2MiB\"\n{PASS}");
    let gateway = Gateway::before(&origin, &rules).await;
    let mut events = Vec::new();
    for _ in 0..20 {
        let mut raw = gateway.raw().await;
        raw.write("GET /events HTTP/1.1\r\nHost: a.test\r\n\r\n")
            .await;
        assert_eq!(raw.read_response_to_head().await.status, 200);
        raw.read_chunk().await;
        events.push(raw);
    }
    let held = gateway.metrics().await.sum("sluicegate_unread_bytes", &[]);
    assert_eq!(held, 0.0);
    let mut unread = Vec::new();
    for _ in 0..30 {
        let mut raw = RawConnection::connect_unread(gateway.address()).await;
        raw.write("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n").await;
        unread.push(raw);
    }
    eventually("most are cut off", async || {
        let metrics = gateway.metrics().await;
        let in_flight = metrics.sum("sluicegate_requests_in_flight", &[]);
        (in_flight <= 20.0 + 9.0).then_some(())
    })
    .await;
    for raw in &mut events {
        raw.read_chunk().await;
    }
}

#[tokio::test]
async fn own_answers_that_wait_take_room() {
    // Goal: a client that sends requests ahead and reads none of their answers holds no more memory than its share, its other connections
    // end with a line in the log, and others are served. Method: room for 2 MiB, of which one client has half; 60 connections with
    // thousands of requests that the gateway answers itself.
    let rules = "[server]\nmax_unread_bytes = \"2MiB\"\n\
                 [[route]]\npath = \"/*\"\nrespond = { status = 200, body = \"here\" }\n";
    let gateway = Gateway::start(rules).await;
    let mut unread = tokio::task::JoinSet::new();
    for _ in 0..60 {
        let mut raw = RawConnection::connect_unread(gateway.address()).await;
        unread.spawn(async move {
            let requests = "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n".repeat(40_000);
            // It breaks where there is no room.
            let _ = raw.try_write(requests).await;
            std::future::pending::<()>().await;
        });
    }
    let of_client = [("cap", "client")];
    eventually("some are refused", async || {
        let metrics = gateway.metrics().await;
        let refused = metrics.sum("sluicegate_unread_refused_total", &of_client);
        (refused >= 20.0).then_some(())
    })
    .await;
    let held = gateway.metrics().await.sum("sluicegate_unread_bytes", &[]);
    assert!(held > 0.0 && held <= f64::from(1 << 20), "{held}");
    let line = "client 127.0.0.1: its connection is ended: answers wait for this client to read them; max_unread_bytes = 2097152";
    assert!(gateway.stderr().contains(line), "{}", gateway.stderr());
    let mut other = gateway.client_from("127.0.0.9").await;
    assert_eq!(other.get("/").await.status, 200);
    unread.shutdown().await;
    eventually("all is given back", async || {
        let held = gateway.metrics().await.sum("sluicegate_unread_bytes", &[]);
        (held == 0.0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn cached_answers_that_wait_take_room() {
    // Goal: streams whose client opens no window hold no more of cached answers than its share, and others are served. Method: room for
    // 8 MiB, of which one client has half; 200 streams that take nothing of a stored answer of 200 KB; most are reset.
    let origin = Origin::answering(|_| {
        let answer = Answer::new(200).header("cache-control", "max-age=600");
        answer.body(vec![b'x'; 200_000]).into()
    });
    let rules = "[server]\nmax_unread_bytes = \"8MiB\"\n\
                 [[route]]\npath = \"/*\"\norigin = \"app\"\n[route.cache]\n";
    let gateway = Gateway::before(&origin, rules).await;
    let mut other = gateway.client_from("127.0.0.9").await;
    assert_eq!(other.get("/").await.status, 200);
    let mut unread = Vec::new();
    for _ in 0..2 {
        let mut frames = Frames::connect(gateway.address()).await;
        frames
            .write(&frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]))
            .await;
        for stream in (1..200).step_by(2) {
            frames.request(stream, &get_block(b"/", &[])).await;
        }
        unread.push(frames);
    }
    let of_client = [("cap", "client")];
    eventually("most are refused", async || {
        let metrics = gateway.metrics().await;
        let refused = metrics.sum("sluicegate_unread_refused_total", &of_client);
        (refused >= 140.0).then_some(())
    })
    .await;
    let metrics = gateway.metrics().await;
    let held = metrics.sum("sluicegate_unread_bytes", &[]);
    assert!(held > 2e6 && held <= f64::from(4 << 20), "{held}");
    assert_eq!(other.get("/").await.body.len(), 200_000);
    drop(unread);
    eventually("all is given back", async || {
        let held = gateway.metrics().await.sum("sluicegate_unread_bytes", &[]);
        (held == 0.0).then_some(())
    })
    .await;
}
