//! Connections of HTTP/1.1 whose server does not answer in step with the requests: which of them carry another request.

use std::sync::Arc;

use nix::sys::signal::Signal;
use tokio::io::AsyncWriteExt;
use tokio::sync::Notify;

use super::*;
use crate::harness::RawConnection;

const ANSWER: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
/// A request whose body is not there yet.
const UPLOAD: &str = "POST /upload HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello";

/// The time at which the server answers an upload of which it has a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answers {
    /// Before it has read the rest.
    Early,
    /// Its head before, and the end of its body behind the end of the upload.
    AroundIt,
}

/// The signals between a test and its server.
#[derive(Default)]
struct Steps {
    /// The server has the first part of the upload.
    has_part: Notify,
    /// The server shall answer.
    answer: Notify,
    /// The server has sent the answer.
    sent: Notify,
}

/// A server that answers an upload when the test says so, and each other request with the number of its connection.
async fn server(answers: Answers, steps: &Arc<Steps>) -> SocketAddr {
    let steps = Arc::clone(steps);
    listening(move |mut stream, number| {
        let steps = Arc::clone(&steps);
        async move {
            loop {
                let head = read_head(&mut stream).await;
                if head.is_empty() {
                    return;
                }
                if !head.starts_with(b"POST") {
                    let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{number}");
                    stream.write_all(answer.as_bytes()).await.unwrap();
                    continue;
                }
                assert!(head.ends_with(b"hello"));
                steps.has_part.notify_one();
                steps.answer.notified().await;
                let (first, last) = match answers {
                    Answers::Early => (ANSWER, ""),
                    Answers::AroundIt => ANSWER.split_at(ANSWER.len() - 1),
                };
                stream.write_all(first.as_bytes()).await.unwrap();
                steps.sent.notify_one();
                let mut rest = [0; 5];
                stream.read_exact(&mut rest).await.unwrap();
                assert_eq!(&rest, b"world");
                stream.write_all(last.as_bytes()).await.unwrap();
            }
        }
    })
    .await
}

/// A gateway with one thread, so that one request finds the connection of the other.
async fn with_one_thread(server: SocketAddr) -> Gateway {
    Setup::new()
        .servers("app", &[server])
        .rules("[server]\nthreads = 1\n[[route]]\npath = \"/*\"\norigin = \"app\"")
        .start()
        .await
}

/// Returns the connection that the next request goes out on, by its client's answer.
async fn next_connection(raw: &mut RawConnection) -> String {
    raw.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
    raw.read_response().await.text().to_owned()
}

#[tokio::test]
async fn a_connection_whose_response_ended_before_its_request_carries_no_other() {
    // Goal: RFC 9112 §9.5, a server that answers before it has read a request may take the rest of it for another request, or answer again,
    // so the connection ends, while the client's goes on. Method: the answer and the rest of the body reach a gateway that is stopped,
    // which then has both at once.
    let steps = Arc::<Steps>::default();
    let gateway = with_one_thread(server(Answers::Early, &steps).await).await;
    let mut raw = gateway.raw().await;
    raw.write(UPLOAD).await;
    steps.has_part.notified().await;
    gateway.pause().await;
    raw.write("world").await;
    steps.answer.notify_one();
    steps.sent.notified().await;
    gateway.signal(Signal::SIGCONT);
    let answer = raw.read_response().await;
    assert_eq!(answer.header("connection"), Some("keep-alive"));
    assert_eq!(next_connection(&mut raw).await, "1");
    assert_eq!(next_connection(&mut raw).await, "1");
}

#[tokio::test]
async fn a_connection_whose_response_ended_behind_its_request_carries_others() {
    // Goal: a response that begins early and ends behind the request leaves a connection in step. Method: the head of the answer reaches
    // the client before it sends the rest of its body.
    let steps = Arc::<Steps>::default();
    let gateway = with_one_thread(server(Answers::AroundIt, &steps).await).await;
    let mut raw = gateway.raw().await;
    raw.write(UPLOAD).await;
    steps.has_part.notified().await;
    steps.answer.notify_one();
    let begun = raw.read_response_to_head().await;
    assert_eq!(begun.status, 200);
    raw.write("world").await;
    assert_eq!(raw.read_to_end().await, b"ok");
    let mut raw = gateway.raw().await;
    assert_eq!(next_connection(&mut raw).await, "0");
}
