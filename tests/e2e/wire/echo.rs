//! An origin that speaks HTTP/2 without TLS and tells what it received.

use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::{Bytes, BytesMut};
use h2::RecvStream;
use h2::server::SendResponse;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::harness::{eventually, listen};

/// The origin; it stops when dropped.
pub struct EchoOrigin {
    pub address: SocketAddr,
    seen: Arc<Seen>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct Seen {
    connections: AtomicUsize,
    requests: AtomicUsize,
    together: watch::Sender<usize>,
}

impl EchoOrigin {
    /// Listens.
    pub async fn start() -> Self {
        let listener = listen();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Seen::default());
        let shared = Arc::clone(&seen);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                shared.connections.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(serve(stream, Arc::clone(&shared)));
            }
        });
        Self {
            address,
            seen,
            task,
        }
    }

    /// How many connections were accepted so far.
    pub fn connections(&self) -> usize {
        self.seen.connections.load(Ordering::Relaxed)
    }

    /// Waits until so many requests came.
    pub async fn asked(&self, requests: usize) {
        eventually("the origin is asked", async || {
            (self.requests() >= requests).then_some(())
        })
        .await;
    }

    /// How many requests so far.
    pub fn requests(&self) -> usize {
        self.seen.requests.load(Ordering::Relaxed)
    }
}

impl Drop for EchoOrigin {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(stream: TcpStream, seen: Arc<Seen>) {
    let Ok(mut connection) = h2::server::handshake(stream).await else {
        return;
    };
    while let Some(Ok((request, respond))) = connection.accept().await {
        seen.requests.fetch_add(1, Ordering::Relaxed);
        // A stream that the gateway gave up is no failure of the test.
        tokio::spawn(answer(request, respond, Arc::clone(&seen)));
    }
}

async fn answer(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    seen: Arc<Seen>,
) -> Result<(), h2::Error> {
    let (head, mut incoming) = request.into_parts();
    let path = head.uri.path().to_owned();
    if let Some(count) = path.strip_prefix("/together/") {
        let count: usize = count.parse().unwrap();
        let mut together = seen.together.subscribe();
        seen.together.send_modify(|here| *here += 1);
        together.wait_for(|here| *here >= count).await.unwrap();
    }
    if path == "/hang" {
        std::future::pending::<()>().await;
    }
    let mut told = format!("{} {} {:?}\n", head.method, head.uri, head.version);
    for (name, value) in &head.headers {
        writeln!(
            told,
            "{name}: {}",
            String::from_utf8_lossy(value.as_bytes())
        )
        .unwrap();
    }
    let mut body = BytesMut::new();
    while let Some(piece) = incoming.data().await {
        let piece = piece?;
        incoming.flow_control().release_capacity(piece.len())?;
        body.extend_from_slice(&piece);
    }
    writeln!(told, "body: {}", String::from_utf8_lossy(&body)).unwrap();
    let mut response = Response::new(());
    if let Some(count) = path.strip_prefix("/fields/") {
        for number in 1..count.parse().unwrap() {
            let name: HeaderName = format!("x-{number}").parse().unwrap();
            response
                .headers_mut()
                .insert(name, HeaderValue::from_static("y"));
        }
        response
            .headers_mut()
            .insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    }
    let mut out = respond.send_response(response, false)?;
    if path == "/endless" {
        // As fast as the gateway takes it.
        loop {
            out.reserve_capacity(16 * 1024);
            let Some(room) = std::future::poll_fn(|cx| out.poll_capacity(cx)).await else {
                return Ok(());
            };
            out.send_data(Bytes::from(vec![b'x'; room?]), false)?;
        }
    }
    out.send_data(told.into(), false)?;
    let mut trailers = HeaderMap::new();
    trailers.insert("x-behind", "the body".parse().unwrap());
    out.send_trailers(trailers)
}
