//! Answers that end with their connection, RFC 9112 §6.3 and §8: a client has to be able to tell one that was cut short.

use std::io::{Error, ErrorKind};
use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::harness::frames::{Fate, Frames, INTERNAL_ERROR, get};
use crate::harness::*;

const HTTP10: &[u8] = b"GET / HTTP/1.0\r\nHost: a.test\r\n\r\n";
const PATIENCE: Duration = Duration::from_secs(15);

/// An origin whose body in chunks has a last one only for `/whole`.
fn origin() -> Origin {
    Origin::answering(|request| {
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n";
        let last = if request.target == "/whole" {
            "0\r\n\r\n"
        } else {
            ""
        };
        Reply::Raw(format!("{head}{last}").into_bytes())
    })
}

/// Asks for this target by HTTP/1.0. Returns what came, and how the connection ended.
async fn ask(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    target: &str,
) -> (String, Result<usize, Error>) {
    let request = format!("GET {target} HTTP/1.0\r\nHost: a.test\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut read = Vec::new();
    let end = timeout(PATIENCE, stream.read_to_end(&mut read)).await;
    let end = end.expect("the gateway ends the connection");
    (String::from_utf8(read).unwrap(), end)
}

#[tokio::test]
async fn an_answer_that_is_cut_short_ends_by_a_reset() {
    // Goal: a client of HTTP/1.0 does not take a part of a body for all of it. Method: a body in chunks without the last one, beside a
    // whole one; the end of the connection.
    let origin = origin();
    let gateway = Gateway::passing(&origin).await;
    let ask = async |target: &str| {
        let stream = TcpStream::connect(gateway.address()).await.unwrap();
        ask(stream, target).await
    };
    let (text, end) = ask("/whole").await;
    assert!(text.ends_with("\r\n\r\nhello"), "{text}");
    assert!(end.is_ok(), "{end:?}");
    let (text, end) = ask("/cut").await;
    let end = end.map_err(|error| error.kind());
    assert_eq!(end, Err(ErrorKind::ConnectionReset), "{text}");
    // Others can tell by the framing, and get the whole part.
    let mut newer = gateway.raw().await;
    newer
        .write("GET /cut HTTP/1.1\r\nHost: a.test\r\n\r\n")
        .await;
    let text = String::from_utf8(newer.read_to_end().await).unwrap();
    assert!(text.ends_with("\r\n\r\n5\r\nhello\r\n"), "{text}");
}

#[tokio::test]
async fn an_answer_that_is_cut_short_under_tls_ends_without_close_notify() {
    // Goal: the same under TLS, where the end of a whole answer is close_notify (RFC 8446 §6.1). Method: the same two bodies, by rustls,
    // which takes an end without close_notify for an error.
    let authority = Authority::new();
    let pair = authority.server(&["a.test"]);
    let origin = origin();
    let gateway = Setup::new()
        .file("a.pem", &pair.certificate)
        .file("a.key", &pair.key)
        .listener_line("[listener.tls]")
        .listener_line("certificates = [{ cert_file = \"../a.pem\", key_file = \"../a.key\" }]")
        .origin("app", &origin)
        .rules("[[route]]\npath = \"/*\"\norigin = \"app\"\n")
        .start()
        .await;
    let client = TlsClients::of(&authority);
    let (text, end) = ask(
        client.connect_raw(gateway.address(), "a.test").await,
        "/whole",
    )
    .await;
    assert!(text.ends_with("\r\n\r\nhello"), "{text}");
    assert!(end.is_ok(), "{end:?}");
    let (text, end) = ask(
        client.connect_raw(gateway.address(), "a.test").await,
        "/cut",
    )
    .await;
    assert!(end.is_err(), "{text}");
}

#[tokio::test]
async fn an_answer_that_is_cut_short_over_http2_ends_by_a_reset() {
    // Goal: the same over HTTP/2, where a whole answer ends its stream, and other streams go on. Method: bodies without their end, in
    // chunks and of an announced length, then a whole one on the same connection.
    let origin = Origin::answering(|request| match &*request.target {
        "/chunks" => {
            let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n";
            Reply::Raw(head.into())
        }
        "/length" => Reply::CutShort {
            promised: 10,
            sent: 5,
        },
        _ => Answer::new(200).body("hello").into(),
    });
    let gateway = Gateway::passing(&origin).await;
    let mut frames = Frames::connect(gateway.address()).await;
    for (stream, path) in [(1, &b"/chunks"[..]), (3, b"/length")] {
        frames.request(stream, &get(path, &[])).await;
        assert_eq!(frames.fate(stream).await, Fate::Answered(200));
        let (body, end) = frames.body(stream).await;
        assert_eq!(end, Err(INTERNAL_ERROR), "{body:?}");
        assert_eq!(body.len(), 5);
    }
    frames.request(5, &get(b"/whole", &[])).await;
    assert_eq!(frames.fate(5).await, Fate::Answered(200));
    assert_eq!(frames.body(5).await, (b"hello".to_vec(), Ok(())));
}

#[tokio::test]
async fn an_answer_that_the_end_of_the_process_cuts_short_is_reset() {
    // Goal: the same where not the origin ends, but the gateway. Method: an answer that drips while the process ends at once.
    let origin = Origin::answering(|_| Reply::Drip {
        piece: "drop ",
        every: Duration::from_millis(20),
        pieces: 10_000,
    });
    let gateway = Gateway::passing(&origin).await;
    let mut stream = TcpStream::connect(gateway.address()).await.unwrap();
    stream.write_all(HTTP10).await.unwrap();
    let mut read = vec![0; 16 * 1024];
    let first = timeout(PATIENCE, stream.read(&mut read)).await;
    assert!(first.unwrap().unwrap() > 0);
    gateway.signal(Signal::SIGINT);
    let end = timeout(PATIENCE, stream.read_to_end(&mut read)).await;
    let end = end
        .expect("the connection ends")
        .map_err(|error| error.kind());
    assert_eq!(end, Err(ErrorKind::ConnectionReset));
}
