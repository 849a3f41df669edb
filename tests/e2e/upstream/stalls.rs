//! Uploads that stop: because their client stalls, or because their server reads no more.

use tokio::io::AsyncWriteExt;
use tokio::net::TcpSocket;

use super::*;
use crate::harness::frames::{DATA, END_HEADERS, frame, head};
use crate::harness::{eventually, post};

/// A client that sends a part of a body and stays silent, until this is dropped.
async fn stall(client: Spoken, gateway: &Gateway) -> Box<dyn std::any::Any> {
    match client {
        Spoken::Http1 => {
            let mut raw = gateway.raw().await;
            raw.write("PUT /up HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nabcde")
                .await;
            Box::new(raw)
        }
        Spoken::Http2 => {
            let mut frames = Frames::connect(gateway.address()).await;
            let block = head(b"PUT", b"/up", &[(b"content-length", b"1000")]);
            frames.write(&frame(HEADERS, END_HEADERS, 1, &block)).await;
            frames.write(&frame(DATA, 0, 1, b"abcde")).await;
            Box::new(frames)
        }
    }
}

/// A server that waits for the whole of each request.
async fn patient(origin: Spoken) -> SocketAddr {
    listening(move |mut stream, _| async move {
        if origin == Spoken::Http2 {
            let mut frames = Frames::accept(stream).await;
            while frames.next().await.is_some() {}
            return;
        }
        let mut sink = [0; 4096];
        while stream.read(&mut sink).await.is_ok_and(|read| read > 0) {}
    })
    .await
}

#[tokio::test]
async fn a_client_that_stalls_its_upload_counts_against_no_server() {
    // Goal: a stalled upload is its client's failure: 408, no further attempt, no failure of a server, no ejection. Method: clients and
    // servers of both versions, rules that retry timeouts and eject at the first failure; the line, the metrics and the state of the
    // servers.
    for (client, origin) in BOTH
        .into_iter()
        .flat_map(|one| BOTH.map(|other| (one, other)))
    {
        let servers = [patient(origin).await, patient(origin).await];
        let lines = format!(
            "{}\nretries = 3\nretry = {{ on = [\"timeout\"], min_per_second = 1000 }}\ntimeouts = {{ read = \"300ms\" }}\n\
             outlier_detection = {{ consecutive_failures = 1, max_percent = 100 }}",
            origin.line()
        );
        let gateway = before(&servers, &lines).await;
        let _stalled = stall(client, &gateway).await;
        let line = gateway.access_line().await;
        assert_eq!(
            (&line["status"], &line["attempts"]),
            (&408.into(), &1.into()),
            "{line}"
        );
        assert!(line["failure"].is_null(), "{line}");
        let metrics = eventually("the attempt has ended", async || {
            let metrics = gateway.metrics().await;
            (metrics.sum("sluicegate_origin_attempts_total", &[]) == 1.0).then_some(metrics)
        })
        .await;
        let abandoned = [("outcome", "abandoned")];
        assert_eq!(
            metrics.sum("sluicegate_origin_attempts_total", &abandoned),
            1.0
        );
        assert_eq!(metrics.sum("sluicegate_origin_failures_total", &[]), 0.0);
        assert_eq!(
            metrics.sum("sluicegate_origin_server_ejections_total", &[]),
            0.0
        );
        assert!(!gateway.stderr().contains("ttfb-timeout"));
    }
}

/// A server with little room for what it does not read: over HTTP/2 it reads frames, and gives no window for more.
pub(super) async fn deaf(origin: Spoken) -> SocketAddr {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    if origin == Spoken::Http1 {
        socket.set_recv_buffer_size(4096).unwrap();
    }
    let listener = socket.listen(64).unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                if origin == Spoken::Http1 {
                    read_head(&mut stream).await;
                    std::future::pending::<()>().await;
                }
                let mut frames = Frames::accept(stream).await;
                while frames.next().await.is_some() {}
            });
        }
    });
    address
}

#[tokio::test]
async fn a_server_that_does_not_read_an_upload_is_to_blame() {
    // Goal: where the gateway has stopped to read a body because its server takes no more, the timeout is the server's. Method: clients of
    // both versions that send as fast as they may, servers of both that read nothing, and the two timeouts that can end it.
    const BYTES: usize = 32 << 20;
    for (client, origin) in BOTH
        .into_iter()
        .flat_map(|one| BOTH.map(|other| (one, other)))
    {
        for (timeouts, failure) in [
            ("read = \"500ms\", write = \"500ms\"", "write-timeout"),
            (
                "read = \"500ms\", write = \"9s\", total = \"900ms\"",
                "total-timeout",
            ),
        ] {
            let server = deaf(origin).await;
            let lines = format!("{}\ntimeouts = {{ {timeouts} }}", origin.line());
            let gateway = before(&[server], &lines).await;
            let sending = match client {
                Spoken::Http1 => {
                    let mut stream = TcpStream::connect(gateway.address()).await.unwrap();
                    tokio::spawn(async move {
                        let head = format!(
                            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {BYTES}\r\n\r\n"
                        );
                        let _ = stream.write_all(head.as_bytes()).await;
                        let _ = stream.write_all(&vec![b'x'; BYTES]).await;
                    })
                }
                Spoken::Http2 => {
                    let client = gateway.h2c().await;
                    tokio::spawn(async move {
                        let _ = client.try_send(post("/").body(vec![b'x'; BYTES])).await;
                    })
                }
            };
            let line = gateway.access_line().await;
            assert_eq!(line["failure"], failure, "{client:?} {origin:?}: {line}");
            assert_eq!(line["status"], 504, "{line}");
            sending.abort();
        }
    }
}
