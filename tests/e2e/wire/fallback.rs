//! Servers of `protocol = "auto"` that take HTTP/2 in the handshake, and then do not speak it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::harness::frames::{RST_STREAM, SETTINGS, frame};
use crate::harness::{Authority, Gateway, Setup, get, listen, post};

const NAME: &str = "app.internal";

/// The answer of a server to HTTP/2 that it has negotiated.
#[derive(Clone, Copy, Debug)]
enum Refusal {
    /// Each stream is reset with `HTTP_1_1_REQUIRED`.
    Streams,
    /// These bytes, which are not HTTP/2.
    Bytes(&'static [u8]),
}

/// Connections of each version.
#[derive(Default)]
struct Accepted {
    http1: AtomicUsize,
    http2: AtomicUsize,
}

impl Accepted {
    fn counts(&self) -> (usize, usize) {
        let [http1, http2] = [&self.http1, &self.http2].map(|count| count.load(Ordering::Relaxed));
        (http1, http2)
    }
}

/// A server with TLS that negotiates HTTP/2 where it is offered, and refuses it then.
struct Unwilling {
    address: SocketAddr,
    accepted: Arc<Accepted>,
}

impl Unwilling {
    async fn start(authority: &Authority, refusal: Refusal) -> Self {
        let acceptor = TlsAcceptor::from(Arc::new(server_config(authority, &["h2", "http/1.1"])));
        let listener = listen();
        let address = listener.local_addr().unwrap();
        let accepted = Arc::<Accepted>::default();
        let counts = Arc::clone(&accepted);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let tls = acceptor.accept(stream).await.unwrap();
                let is_http2 = tls.get_ref().1.alpn_protocol() == Some(b"h2");
                if is_http2 {
                    counts.http2.fetch_add(1, Ordering::Relaxed);
                    tokio::spawn(refuse(tls, refusal));
                } else {
                    counts.http1.fetch_add(1, Ordering::Relaxed);
                    tokio::spawn(answer(tls));
                }
            }
        });
        Self { address, accepted }
    }
}

/// The configuration of a server that takes these protocols.
pub fn server_config(authority: &Authority, protocols: &[&str]) -> ServerConfig {
    let pair = authority.server(&[NAME]);
    let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap();
    let certificate = CertificateDer::from_pem_slice(pair.certificate.as_bytes()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    config.alpn_protocols = protocols
        .iter()
        .map(|name| name.as_bytes().to_vec())
        .collect();
    config
}

async fn refuse(mut tls: TlsStream<TcpStream>, refusal: Refusal) {
    match refusal {
        Refusal::Streams => {
            let handshake = h2::server::handshake(tls).await;
            let Ok(mut connection) = handshake else {
                return;
            };
            while let Some(Ok((_, mut respond))) = connection.accept().await {
                respond.send_reset(h2::Reason::HTTP_1_1_REQUIRED);
            }
        }
        Refusal::Bytes(bytes) => {
            let mut read = [0; 4096];
            // The preface, and perhaps more.
            let _ = tls.read(&mut read).await;
            let _ = tls.write_all(bytes).await;
            // The gateway ends the connection.
            while tls.read(&mut read).await.is_ok_and(|bytes| bytes > 0) {}
        }
    }
}

/// Answers requests without a body.
async fn answer(mut tls: TlsStream<TcpStream>) {
    let mut read = Vec::new();
    while tls.read_buf(&mut read).await.is_ok_and(|bytes| bytes > 0) {
        if read.ends_with(b"\r\n\r\n") {
            read.clear();
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nHTTP/1.1";
            let _ = tls.write_all(answer).await;
        }
    }
}

/// A gateway before a server with TLS.
pub async fn before(server: SocketAddr, authority: &Authority, protocol: &str) -> Gateway {
    Setup::new()
        .servers("app", &[server])
        .origin_line(&format!(
            "tls = {{ ca_file = \"../ca.pem\", server_name = \"{NAME}\" }}\nprotocol = \"{protocol}\""
        ))
        .rules("[[route]]\npath = \"/*\"\norigin = \"app\"\n")
        .file("ca.pem", &authority.pem())
        .start()
        .await
}

#[tokio::test]
async fn a_server_that_refuses_http2_is_asked_by_http1() {
    // Goal: with `protocol = "auto"`, a server that resets a stream with HTTP_1_1_REQUIRED (RFC 9113 §7), or sends what is not HTTP/2, gets
    // HTTP/1.1 from then on: the request that found out is sent again if its method is idempotent, and HTTP/2 is not tried once more. With
    // "h2" it is 502. Method: servers that negotiate HTTP/2 and refuse it: by a reset, by a frame that belongs to no stream, by HTTP/1.1.
    let authority = Authority::new();
    let misplaced: &[u8] = Box::leak(frame(RST_STREAM, 0, 0, &[0; 4]).into_boxed_slice());
    for refusal in [
        Refusal::Streams,
        Refusal::Bytes(misplaced),
        Refusal::Bytes(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"),
    ] {
        for (first, status, attempts) in [(get("/"), 200, 2), (post("/"), 502, 1)] {
            let origin = Unwilling::start(&authority, refusal).await;
            let gateway = before(origin.address, &authority, "auto").await;
            let expected = [(status, attempts), (200, 1), (200, 1)];
            for (request, expected) in [first, post("/"), get("/")].into_iter().zip(expected) {
                let answer = gateway.send(request).await;
                let line = gateway
                    .lines_of(std::slice::from_ref(&answer))
                    .await
                    .remove(0);
                let found = (answer.status, line["attempts"].as_u64().unwrap());
                assert_eq!(found, expected, "{refusal:?}: {line}");
                assert_eq!(answer.status == 200, answer.text() == "HTTP/1.1");
            }
            assert_eq!(origin.accepted.counts(), (1, 1), "{refusal:?}");
        }

        let origin = Unwilling::start(&authority, refusal).await;
        let gateway = before(origin.address, &authority, "h2").await;
        for request in [post("/"), get("/")] {
            let answer = gateway.send(request).await;
            answer.assert_problem(502);
            let line = gateway.lines_of(&[answer]).await.remove(0);
            assert_eq!(line["attempts"], 1, "{refusal:?}: {line}");
            assert_eq!(line["failure"], "protocol", "{refusal:?}: {line}");
        }
        assert_eq!(origin.accepted.counts().0, 0, "{refusal:?}");
    }
}

#[tokio::test]
async fn a_server_that_breaks_a_rule_of_http2_is_not_asked_by_http1() {
    // Goal: with `protocol = "auto"`, a server whose SETTINGS came speaks HTTP/2: a rule that it breaks behind them fails the request, and
    // the next one is sent over HTTP/2 again. Method: a frame that belongs to no stream.
    let authority = Authority::new();
    let frames = [frame(SETTINGS, 0, 0, &[]), frame(RST_STREAM, 0, 0, &[0; 4])];
    let bytes: &[u8] = Box::leak(frames.concat().into_boxed_slice());
    let origin = Unwilling::start(&authority, Refusal::Bytes(bytes)).await;
    let gateway = before(origin.address, &authority, "auto").await;
    for connections in 1..=2 {
        let answer = gateway.send(get("/")).await;
        answer.assert_problem(502);
        let line = gateway.lines_of(&[answer]).await.remove(0);
        assert_eq!(line["failure"], "protocol", "{line}");
        let reason = line["reason"].as_str().unwrap();
        assert!(reason.contains("broke a rule of HTTP/2"), "{reason}");
        assert_eq!(origin.accepted.counts(), (0, connections));
    }
}
