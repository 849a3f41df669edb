//! The health of a rate limit service, by `grpc.health.v1`, which Envoy, kubelets and client libraries ask for.

use bytes::{Bytes, BytesMut};
use h2::RecvStream;
use h2::client::SendRequest;
use http::HeaderMap;
use nix::sys::signal::Signal;
use prost::Message;
use tokio::net::TcpStream;

use super::call_messages::{framed, gateway_with, send};
use super::calls::EDGE;
use super::*;

const CHECK: &str = "/grpc.health.v1.Health/Check";
const WATCH: &str = "/grpc.health.v1.Health/Watch";
const RATE_LIMITS: &str = "envoy.service.ratelimit.v3.RateLimitService";

/// Statuses of `HealthCheckResponse`.
const SERVING: u8 = 1;
const NOT_SERVING: u8 = 2;
const SERVICE_UNKNOWN: u8 = 3;

#[derive(Clone, PartialEq, Message)]
struct Question {
    #[prost(string, tag = "1")]
    service: String,
}

fn question(service: &str) -> Vec<u8> {
    let service = service.to_owned();
    Question { service }.encode_to_vec()
}

/// An open call of `Watch`.
struct Watch {
    answer: RecvStream,
    read: BytesMut,
}

impl Watch {
    async fn open(gateway: &Gateway, message: &[u8]) -> Self {
        Self::over(connect(gateway).await, message).await
    }

    async fn over(sender: SendRequest<Bytes>, message: &[u8]) -> Self {
        let request = http::Request::post(format!("http://gateway.test{WATCH}"));
        let request = request.header("content-type", "application/grpc");
        let mut sender = sender.ready().await.unwrap();
        let (answer, mut upload) = sender
            .send_request(request.body(()).unwrap(), false)
            .unwrap();
        upload
            .send_data(Bytes::from(framed(message)), true)
            .unwrap();
        let answer = tokio::time::timeout(PATIENCE, answer).await;
        Self {
            answer: answer.expect("an answer in time").unwrap().into_body(),
            read: BytesMut::new(),
        }
    }

    /// The status of the next message; `None` at the end of the messages.
    async fn next(&mut self) -> Option<u8> {
        while self.read.len() < 7 {
            let piece = tokio::time::timeout(PATIENCE, self.answer.data()).await;
            let piece = piece.expect("a message in time")?.unwrap();
            self.read.extend_from_slice(&piece);
        }
        let message = self.read.split_to(7);
        assert_eq!(message[..6], [0, 0, 0, 0, 2, 8]);
        Some(message[6])
    }

    async fn trailers(mut self) -> HeaderMap {
        self.answer.trailers().await.unwrap().expect("trailers")
    }
}

async fn connect(gateway: &Gateway) -> SendRequest<Bytes> {
    let stream = TcpStream::connect(gateway.address()).await.unwrap();
    let (sender, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    sender
}

#[tokio::test]
async fn a_check_knows_the_services_of_its_listener() {
    // Goal: each service of the listener is healthy, and another one is not found, as the protocol has it. Method: each name, and a message
    // that is none.
    let gateway = gateway_with(EDGE).await;
    for service in ["", RATE_LIMITS, "grpc.health.v1.Health"] {
        let answer = send(&gateway, CHECK, &question(service)).await;
        assert_eq!(answer, Ok(vec![8, SERVING]), "{service:?}");
    }
    for service in [
        "no.such.Service",
        "envoy.service.ratelimit.v2.RateLimitService",
        " ",
    ] {
        let (status, text) = send(&gateway, CHECK, &question(service)).await.unwrap_err();
        assert_eq!(status, 5, "{service:?}: {text}");
    }
    let (status, _) = send(&gateway, CHECK, b"\x0a\xff").await.unwrap_err();
    assert_eq!(status, 3);
}

#[tokio::test]
async fn a_watch_reports_the_drain_and_ends() {
    // Goal: a client that watches learns at once that the gateway shuts down, and does not keep it. Method: watches of a service, of the
    // server and of an unknown service; one whose client leaves; SIGTERM.
    let mut gateway = gateway_with(EDGE).await;
    let mut watches = Vec::new();
    for (service, status) in [
        (RATE_LIMITS, SERVING),
        ("", SERVING),
        ("no.such", SERVICE_UNKNOWN),
    ] {
        let mut watch = Watch::open(&gateway, &question(service)).await;
        assert_eq!(watch.next().await, Some(status), "{service:?}");
        watches.push((watch, status));
    }
    drop(Watch::open(&gateway, &question("")).await);
    gateway.signal(Signal::SIGTERM);
    for (mut watch, status) in watches {
        if status == SERVING {
            assert_eq!(watch.next().await, Some(NOT_SERVING));
        }
        assert_eq!(watch.next().await, None);
        assert_eq!(watch.trailers().await["grpc-status"], "14");
    }
    assert_eq!(gateway.exit_code().await, 0);
}

#[tokio::test]
async fn watches_have_a_bound() {
    // Goal: clients cannot open watches without end, and a closed one makes room. Method: as many as may be open, one more, and one more
    // after the others have left.
    let gateway = gateway_with(EDGE).await;
    let mut open = Vec::new();
    let mut sender = connect(&gateway).await;
    loop {
        if open.len() % 50 == 0 {
            sender = connect(&gateway).await;
        }
        let mut watch = Watch::over(sender.clone(), b"").await;
        if watch.answer.is_end_stream() {
            break;
        }
        assert_eq!(watch.next().await, Some(SERVING));
        open.push(watch);
        assert!(open.len() <= 2_000, "no bound");
    }
    assert!(open.len() >= 100, "{}", open.len());
    open.clear();
    eventually("there is room again", async || {
        let mut watch = Watch::open(&gateway, b"").await;
        (!watch.answer.is_end_stream() && watch.next().await == Some(SERVING)).then_some(())
    })
    .await;
}
