//! Clients that leave while nothing is read from them.

use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc;

use super::*;
use crate::harness::frames::{
    DATA, END_HEADERS, RST_STREAM, SETTINGS, WINDOW_UPDATE, frame, get as get_head, head,
};
use crate::harness::{Origin, Reply, within};

/// How a client leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leaves {
    /// It closes its connection.
    Closes,
    /// It resets its connection.
    Resets,
    /// It resets its stream, and keeps the connection.
    ResetsStream,
}

const WAYS: [Leaves; 3] = [Leaves::Closes, Leaves::Resets, Leaves::ResetsStream];

/// The time in which a client that left must be noticed: far below the timeouts of the origins here.
const NOTICED: Duration = Duration::from_secs(5);

/// A client whose request was sent.
enum Asking {
    Http1(TcpStream),
    Http2(Frames),
}

impl Asking {
    /// Sends a request without a body.
    async fn begin(way: Leaves, gateway: &Gateway, path: &str) -> Self {
        if way == Leaves::ResetsStream {
            let mut frames = Frames::connect(gateway.address()).await;
            frames.request(1, &get_head(path.as_bytes(), &[])).await;
            return Self::Http2(frames);
        }
        let mut stream = TcpStream::connect(gateway.address()).await.unwrap();
        let head = format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        Self::Http1(stream)
    }

    /// Leaves; what is returned stays open.
    async fn leave(self, way: Leaves) -> Option<Frames> {
        match self {
            Self::Http1(stream) => {
                if way == Leaves::Resets {
                    stream.set_zero_linger().unwrap();
                }
                drop(stream);
                None
            }
            Self::Http2(mut frames) => {
                let reset = frame(RST_STREAM, 0, 1, &8_u32.to_be_bytes());
                frames.write(&reset).await;
                Some(frames)
            }
        }
    }
}

/// Waits for the line of a request that its client left.
async fn noted(gateway: &Gateway, path: &str, reason: &str) {
    let line = within(NOTICED, path, async || {
        let lines = gateway.access_log();
        lines.into_iter().find(|line| line["target"] == path)
    })
    .await;
    assert_eq!(line["outcome"], "client-gone", "{line}");
    let told = line["reason"].as_str().unwrap_or_default();
    assert!(reason.is_empty() || told == reason, "{line}");
}

const LEFT_WAIT: &str = "the client left while its request waited for a server";

#[tokio::test]
async fn a_client_that_leaves_gives_its_place_in_the_queue_back() {
    // Goal: the request of a client that left is not sent, and another one has its place. Method: a server with one request at a time,
    // which holds it; a client that waits leaves in each way, then one that stays, for which the queue of one has room.
    for way in WAYS {
        let origin = Origin::answering(|_| Reply::Hang);
        let gateway = before(
            &[origin.address()],
            "circuit_breaker = { max_requests = 1, max_pending = 1, pending_timeout = \"1m\" }",
        )
        .await;
        let _held = Asking::begin(Leaves::Closes, &gateway, "/held").await;
        origin.is_asked(1).await;
        let waiting = Asking::begin(way, &gateway, "/leaves").await;
        pending(&gateway, 1).await;
        let _open = waiting.leave(way).await;
        noted(&gateway, "/leaves", LEFT_WAIT).await;
        pending(&gateway, 0).await;
        let _stays = Asking::begin(Leaves::Closes, &gateway, "/stays").await;
        pending(&gateway, 1).await;
        assert_eq!(origin.count(), 1, "{way:?}");
    }
}

/// Waits until so many requests wait for the server.
async fn pending(gateway: &Gateway, requests: usize) {
    within(NOTICED, "they wait", async || {
        let status = gateway.status().await;
        (status["origins"][0]["pending"] == requests).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_client_that_leaves_ends_the_wait_for_a_connection() {
    // Goal: no request is kept for a client that left while its connection is made. Method: a server whose TLS handshake never ends.
    for way in WAYS {
        let (came, mut comes) = mpsc::unbounded_channel();
        let server = listening(move |mut stream, _| {
            let came = came.clone();
            async move {
                let mut sink = [0; 4096];
                while stream.read(&mut sink).await.is_ok_and(|read| read > 0) {
                    let _ = came.send(());
                }
                let _ = came.send(());
            }
        })
        .await;
        let lines = "tls = { verify = \"off\" }\ntimeouts = { connect = \"1m\" }\nretries = 0";
        let gateway = before(&[server], lines).await;
        let asking = Asking::begin(way, &gateway, "/leaves").await;
        // The hello of the client.
        assert_eq!(comes.recv().await, Some(()));
        let _open = asking.leave(way).await;
        noted(&gateway, "/leaves", LEFT_WAIT).await;
        // The end of the connection.
        assert_eq!(comes.recv().await, Some(()));
    }
}

#[tokio::test]
async fn a_client_that_leaves_during_an_upload_that_nobody_reads_is_noticed() {
    // Goal: while the server takes no more of a body, and nothing is read from its client, the client's end ends the request. Method:
    // servers of both versions that read nothing; clients that send until nothing is taken any more, and leave in each way.
    for (way, origin) in WAYS
        .into_iter()
        .flat_map(|way| BOTH.map(|origin| (way, origin)))
    {
        let server = super::stalls::deaf(origin).await;
        let lines = format!(
            "{}\ntimeouts = {{ read = \"1m\", write = \"1m\" }}",
            origin.line()
        );
        let gateway = before(&[server], &lines).await;
        let asking = if way == Leaves::ResetsStream {
            Asking::Http2(fill_stream(&gateway).await)
        } else {
            let mut stream = TcpStream::connect(gateway.address()).await.unwrap();
            let head = "POST /leaves HTTP/1.1\r\nHost: a\r\nContent-Length: 60000000\r\n\r\n";
            stream.write_all(head.as_bytes()).await.unwrap();
            let piece = [b'x'; 16 * 1024];
            let patience = Duration::from_millis(500);
            while tokio::time::timeout(patience, stream.write_all(&piece))
                .await
                .is_ok()
            {}
            Asking::Http1(stream)
        };
        // A FIN stays behind the bytes for which there is no window, and so does not arrive; a reset does.
        let leaves = if way == Leaves::Closes {
            Leaves::Resets
        } else {
            way
        };
        let _open = asking.leave(leaves).await;
        noted(&gateway, "/leaves", "").await;
    }
}

/// Sends a body on stream 1 until no more is taken.
async fn fill_stream(gateway: &Gateway) -> Frames {
    let mut frames = Frames::connect(gateway.address()).await;
    let block = head(b"POST", b"/leaves", &[(b"content-length", b"60000000")]);
    frames.write(&frame(HEADERS, END_HEADERS, 1, &block)).await;
    let (mut connection, mut stream) = (65_535_i64, 65_535_i64);
    loop {
        while connection.min(stream) >= 16_384 {
            frames.write(&frame(DATA, 0, 1, &[b'x'; 16_384])).await;
            connection -= 16_384;
            stream -= 16_384;
        }
        let Ok(got) = tokio::time::timeout(Duration::from_millis(500), frames.next()).await else {
            return frames;
        };
        let got = got.expect("an open connection");
        let number = |at: usize| {
            i64::from(u32::from_be_bytes(
                got.payload[at..at + 4].try_into().unwrap(),
            ))
        };
        match (got.kind, got.stream) {
            (WINDOW_UPDATE, 0) => connection += number(0),
            (WINDOW_UPDATE, 1) => stream += number(0),
            (SETTINGS, _) => {
                // SETTINGS_INITIAL_WINDOW_SIZE, RFC 9113 §6.5.2.
                for at in (0..got.payload.len()).step_by(6) {
                    if got.payload[at..at + 2] == [0, 4] {
                        stream += number(at + 2) - 65_535;
                    }
                }
            }
            _ => {}
        }
    }
}

#[tokio::test]
async fn a_client_that_leaves_behind_bytes_sent_ahead_is_noticed() {
    // Goal: however much of later requests a client has sent, its end ends the request that is served. Method: a server that holds the
    // request; nothing, and more than is read ahead, then a close or a reset.
    for way in [Leaves::Closes, Leaves::Resets] {
        for ahead in [0, 3000, 5000, 20_000] {
            let origin = Origin::answering(|_| Reply::Hang);
            let gateway = before(&[origin.address()], "timeouts = { read = \"1m\" }").await;
            let Asking::Http1(mut stream) = Asking::begin(way, &gateway, "/leaves").await else {
                unreachable!("a way over HTTP/1");
            };
            origin.is_asked(1).await;
            let later = format!(
                "GET /later HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n",
                "y".repeat(ahead)
            );
            if ahead > 0 {
                stream.write_all(later.as_bytes()).await.unwrap();
            }
            let _open = Asking::Http1(stream).leave(way).await;
            noted(&gateway, "/leaves", "").await;
            within(NOTICED, "the connection to the server ends", async || {
                (origin.open_connections() == 0).then_some(())
            })
            .await;
        }
    }
}
