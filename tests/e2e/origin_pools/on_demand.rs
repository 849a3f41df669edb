//! An origin of HTTP/2 that answers when the test says so.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::Response;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

use crate::harness::{eventually, listen};

/// An origin that takes so many streams at a time and answers one for each permit that the test gives.
pub(super) struct OnDemand {
    pub(super) address: SocketAddr,
    /// The paths that it was asked for.
    asked: Arc<Mutex<Vec<String>>>,
    answers: Arc<Semaphore>,
}

impl OnDemand {
    /// Starts one that takes one stream at a time.
    pub(super) async fn start() -> Self {
        Self::taking(1).await
    }

    /// Starts one that takes so many streams of a connection at a time.
    pub(super) async fn taking(streams: u32) -> Self {
        let listener = listen();
        let origin = Self {
            address: listener.local_addr().unwrap(),
            asked: Arc::default(),
            answers: Arc::new(Semaphore::new(0)),
        };
        let (asked, answers) = (Arc::clone(&origin.asked), Arc::clone(&origin.answers));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (asked, answers) = (Arc::clone(&asked), Arc::clone(&answers));
                tokio::spawn(serve(stream, streams, asked, answers));
            }
        });
        origin
    }

    pub(super) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    pub(super) fn answer(&self, requests: usize) {
        self.answers.add_permits(requests);
    }

    /// Waits until it was asked for so many.
    pub(super) async fn has(&self, requests: usize) {
        eventually("it is asked", async || {
            (self.asked().len() == requests).then_some(())
        })
        .await;
    }
}

async fn serve(
    stream: TcpStream,
    streams: u32,
    asked: Arc<Mutex<Vec<String>>>,
    answers: Arc<Semaphore>,
) {
    let mut builder = h2::server::Builder::new();
    builder.max_concurrent_streams(streams);
    let mut connection = builder.handshake::<_, Bytes>(stream).await.unwrap();
    while let Some(Ok((request, mut respond))) = connection.accept().await {
        asked.lock().unwrap().push(request.uri().path().to_owned());
        let answers = Arc::clone(&answers);
        tokio::spawn(async move {
            answers.acquire().await.unwrap().forget();
            // A stream that the gateway gave up is no failure of the test.
            let _ = respond.send_response(Response::new(()), true);
        });
    }
}
