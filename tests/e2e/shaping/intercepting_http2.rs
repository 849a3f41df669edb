//! Errors of origins that speak HTTP/2, replaced: heads that end the stream, trailers, and bodies without an end.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use h2::server::SendResponse;
use http::HeaderMap;
use tokio::net::TcpStream;

use super::intercepting::{assert_page, browse, route};
use crate::harness::*;

/// What the origin has seen.
#[derive(Default)]
struct Seen {
    connections: AtomicUsize,
    /// Endless bodies that the gateway wanted no more of.
    left: AtomicUsize,
}

/// A gateway with pages before an origin that answers 404 in the way that the path says; both end with the test.
async fn start() -> (Gateway, Arc<Seen>) {
    let listener = listen();
    let (address, seen) = (listener.local_addr().unwrap(), Arc::new(Seen::default()));
    let shared = Arc::clone(&seen);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            shared.connections.fetch_add(1, Ordering::Relaxed);
            tokio::spawn(serve(stream, Arc::clone(&shared)));
        }
    });
    let gateway = Setup::new()
        .servers("app", &[address])
        .origin_line("protocol = \"h2c\"")
        .rules(&route(""))
        .start()
        .await;
    (gateway, seen)
}

async fn serve(stream: TcpStream, seen: Arc<Seen>) {
    let Ok(mut connection) = h2::server::handshake(stream).await else {
        return;
    };
    while let Some(Ok((request, respond))) = connection.accept().await {
        let (is_head, path) = (request.method() == "HEAD", request.uri().path().to_owned());
        let path = if is_head { "/none".to_owned() } else { path };
        tokio::spawn(answer(path, respond, Arc::clone(&seen)));
    }
}

async fn answer(
    path: String,
    mut respond: SendResponse<Bytes>,
    seen: Arc<Seen>,
) -> Result<(), h2::Error> {
    let head = http::Response::builder()
        .status(404)
        .header("etag", "\"1\"");
    let head = match &*path {
        "/none-of-length" => head.header("content-length", 0),
        _ => head,
    };
    let is_head_alone = path.starts_with("/none");
    let mut out = respond.send_response(head.body(()).unwrap(), is_head_alone)?;
    match &*path {
        _ if is_head_alone => Ok(()),
        "/endless" => loop {
            out.reserve_capacity(16 * 1024);
            let Some(Ok(room)) = std::future::poll_fn(|cx| out.poll_capacity(cx)).await else {
                seen.left.fetch_add(1, Ordering::Relaxed);
                return Ok(());
            };
            out.send_data(Bytes::from(vec![b'x'; room]), false)?;
        },
        "/trailers" => {
            out.send_data("not here".into(), false)?;
            let mut trailers = HeaderMap::new();
            trailers.insert("x-behind", "the body".parse().unwrap());
            out.send_trailers(trailers)
        }
        _ => out.send_data("not here".into(), true),
    }
}

#[tokio::test]
async fn a_page_stands_in_for_the_body_of_an_h2_origin_and_for_none() {
    // Goal: with HTTP/2 the page is sent with and without a following body; the origin's connection stays open. Method: an
    // end with the head, with a body, with trailers; clients of both versions, GET and HEAD.
    let (gateway, seen) = start().await;
    let (mut old, new) = (gateway.client().await, gateway.h2c().await);
    for _ in 0..10 {
        for path in ["/none", "/none-of-length", "/body", "/trailers"] {
            assert_page(&old.send(browse(path)).await, "Not Found");
            assert_page(&new.send(browse(path)).await, "Not Found");
            let ask = || head(path).header("Accept", "text/html");
            for head in [old.send(ask()).await, new.send(ask()).await] {
                assert_eq!((head.status, head.body.len()), (404, 0), "{path}");
                assert!(head.header("content-length").is_some(), "{path}");
            }
        }
    }
    assert_eq!(seen.connections.load(Ordering::Relaxed), 1);
    let told = gateway.stderr();
    assert!(
        !told.contains("already sent") && !told.contains("after end"),
        "{told}"
    );
}

#[tokio::test]
async fn a_body_without_an_end_is_left() {
    // Goal: what is dropped is bounded, and nothing goes wrong by it. Method: an endless body, and clients of both versions; the origin
    // sees that nobody reads on, and the log has two requests that passed.
    let (gateway, seen) = start().await;
    let (mut old, new) = (gateway.client().await, gateway.h2c().await);
    assert_page(&old.send(browse("/endless")).await, "Not Found");
    assert_page(&new.send(browse("/endless")).await, "Not Found");
    eventually("the origin is left", async || {
        (seen.left.load(Ordering::Relaxed) == 2).then_some(())
    })
    .await;
    for line in gateway.access_lines(2).await {
        assert_eq!(line["outcome"], "forwarded", "{line}");
    }
    assert_page(&old.send(browse("/body")).await, "Not Found");
    assert_page(&new.send(browse("/body")).await, "Not Found");
    assert!(
        !gateway.stderr().contains("Fail to proxy"),
        "{}",
        gateway.stderr()
    );
}
