//! Requests that come together to servers of `protocol = "auto"`, whose version the first handshake shows.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Barrier;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::fallback::{before, server_config};
use crate::harness::{Authority, listening};

/// Requests that come together.
const BURST: usize = 60;

/// Answers the requests of a connection once so many have come.
async fn answer_together(tls: TlsStream<TcpStream>, requests: usize) {
    let mut connection = h2::server::handshake(tls).await.unwrap();
    let mut waiting = Vec::new();
    while let Some(Ok((_, respond))) = connection.accept().await {
        waiting.push(respond);
        if waiting.len() == requests {
            for mut respond in waiting.drain(..) {
                let _ = respond.send_response(http::Response::new(()), true);
            }
        }
    }
}

/// Answers one request, and ends the connection.
async fn answer_once(mut tls: TlsStream<TcpStream>) {
    let mut read = Vec::new();
    while !read.ends_with(b"\r\n\r\n") {
        if tls.read_buf(&mut read).await.unwrap_or(0) == 0 {
            return;
        }
    }
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    tls.write_all(answer).await.unwrap();
    let _ = tls.shutdown().await;
}

#[tokio::test]
async fn a_burst_to_a_server_that_takes_http2_shares_a_connection() {
    // Goal: requests that come while the first connection is opened wait until it shows its version, and share it. Method: a burst to a
    // server that answers when all requests are on one connection; then another.
    let authority = Authority::new();
    let acceptor = TlsAcceptor::from(Arc::new(server_config(&authority, &["h2", "http/1.1"])));
    let opened = Arc::<AtomicUsize>::default();
    let count = Arc::clone(&opened);
    let server = listening(move |stream, _| {
        count.fetch_add(1, Ordering::Relaxed);
        let acceptor = acceptor.clone();
        async move { answer_together(acceptor.accept(stream).await.unwrap(), BURST).await }
    })
    .await;
    let gateway = before(server, &authority, "auto").await;
    for _ in 0..2 {
        for answer in join_all((0..BURST).map(|_| gateway.get("/"))).await {
            assert_eq!(answer.status, 200);
        }
        assert_eq!(opened.load(Ordering::Relaxed), 1);
    }
}

#[tokio::test]
async fn a_burst_to_a_server_that_takes_http1_waits_once() {
    // Goal: once a server has chosen HTTP/1.1, no request waits for the handshake of another. Method: a burst to a server without
    // connections that go on; then two requests, whose handshakes wait for each other.
    let authority = Authority::new();
    let acceptor = TlsAcceptor::from(Arc::new(server_config(&authority, &["http/1.1"])));
    let together = Arc::new(Barrier::new(2));
    let server = listening(move |stream, number| {
        let (acceptor, together) = (acceptor.clone(), Arc::clone(&together));
        async move {
            if number >= BURST {
                together.wait().await;
            }
            answer_once(acceptor.accept(stream).await.unwrap()).await;
        }
    })
    .await;
    let gateway = before(server, &authority, "auto").await;
    for burst in [BURST, 2, 2] {
        for answer in join_all((0..burst).map(|_| gateway.get("/"))).await {
            assert_eq!(answer.status, 200, "{burst}");
        }
    }
}
