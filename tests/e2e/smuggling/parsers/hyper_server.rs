//! Reads requests with hyper's server.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::AsyncWriteExt;

use super::{ReadEnd, ReadMessage, Reading, latin1};

/// Bytes that hyper answers at most before they would have to be read.
const ANSWERS: usize = 1 << 20;

/// Returns how hyper reads a connection with these bytes, which ends behind them.
pub(super) async fn read_by_hyper(bytes: &[u8]) -> Reading {
    let (mut client, server) = tokio::io::duplex(ANSWERS.max(bytes.len()));
    client.write_all(bytes).await.unwrap();
    client.shutdown().await.unwrap();
    let messages = Arc::new(Mutex::new(Vec::new()));
    let read = Arc::clone(&messages);
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let read = Arc::clone(&read);
        async move {
            let (head, body) = request.into_parts();
            // A body that breaks ends the connection, and its request with it.
            if let Ok(body) = body.collect().await {
                let start = format!("{} {}", head.method, head.uri);
                let fields = head.headers.iter();
                let fields = fields
                    .map(|(name, value)| (name.to_string(), latin1(value.as_bytes())))
                    .collect();
                let data = body.to_bytes().to_vec();
                read.lock()
                    .unwrap()
                    .push(ReadMessage::new(start, fields, data));
            }
            Ok::<_, Infallible>(hyper::Response::new(Empty::<Bytes>::new()))
        }
    });
    let served = http1::Builder::new()
        .half_close(true)
        .serve_connection(TokioIo::new(server), service)
        .await;
    // Hyper does not tell an end within a message from a broken one.
    let end = match served {
        Ok(()) => ReadEnd::Over,
        Err(_) => ReadEnd::Closed,
    };
    let messages = std::mem::take(&mut *messages.lock().unwrap());
    Reading { messages, end }
}
