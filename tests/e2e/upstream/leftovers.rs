//! Bytes that an origin sends behind a response: they belong to no request, and no other gets them.

use std::sync::Arc;

use tokio::io::AsyncWriteExt;
use tokio::sync::Notify;

use super::*;

/// A whole response, for whoever takes the bytes for one.
const LEFT_OVER: &str = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nleft over";

/// Each response that ends in another way, by the path that asks for it: the method, its bytes, and the body that its client gets.
const RESPONSES: [(&str, &str, &str, &str); 5] = [
    (
        "GET",
        "/length",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
        "ok",
    ),
    (
        "GET",
        "/chunks",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        "ok",
    ),
    ("GET", "/no-content", "HTTP/1.1 204 No Content\r\n\r\n", ""),
    (
        "GET",
        "/not-modified",
        "HTTP/1.1 304 Not Modified\r\nContent-Length: 62\r\n\r\n",
        "",
    ),
    (
        "HEAD",
        "/head",
        "HTTP/1.1 200 OK\r\nContent-Length: 62\r\n\r\n",
        "",
    ),
];

/// A server that sends the left over bytes with each of these responses, or behind it, says that it has, and answers other requests with
/// the number of their connection.
async fn server(behind: Behind, sent: &Arc<Notify>) -> SocketAddr {
    let sent = Arc::clone(sent);
    listening(move |stream, number| serve(stream, number, behind, Arc::clone(&sent))).await
}

async fn serve(mut stream: TcpStream, number: usize, behind: Behind, sent: Arc<Notify>) {
    loop {
        let head = read_head(&mut stream).await;
        let head = String::from_utf8_lossy(&head).into_owned();
        let Some(path) = head.split(' ').nth(1) else {
            return;
        };
        let known = RESPONSES.iter().find(|response| response.1 == path);
        let mut answer = match known {
            Some((_, _, bytes, _)) => (*bytes).to_owned(),
            None => format!("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{number}"),
        };
        match (known, behind) {
            (None, _) => {}
            (Some(_), Behind::AtOnce) => answer.push_str(LEFT_OVER),
            (Some(_), Behind::InAnotherWrite) => {
                stream.write_all(answer.as_bytes()).await.unwrap();
                LEFT_OVER.clone_into(&mut answer);
            }
        }
        // The gateway may have ended the connection already.
        let _ = stream.write_all(answer.as_bytes()).await;
        if known.is_some() {
            sent.notify_one();
        }
    }
}

/// The time at which the bytes are sent.
#[derive(Clone, Copy, Debug)]
enum Behind {
    /// In one write with the response.
    AtOnce,
    /// In the next.
    InAnotherWrite,
}

#[tokio::test]
async fn bytes_behind_a_response_answer_no_other_request() {
    // Goal: a client gets the response to its own request, however much an origin sends beyond one. Method: a response of each kind with
    // another one behind it, then a request of somebody else, which goes out on a connection of its own. One thread, so that it would find
    // the connection.
    for behind in [Behind::AtOnce, Behind::InAnotherWrite] {
        for (method, path, _, body) in RESPONSES {
            let sent = Arc::<Notify>::default();
            let gateway = Setup::new()
                .servers("app", &[server(behind, &sent).await])
                .rules("[server]\nthreads = 1\n[[route]]\npath = \"/*\"\norigin = \"app\"")
                .start()
                .await;
            let answer = gateway.send(request(method, path)).await;
            assert_eq!(answer.text(), body, "{method} {path} {behind:?}");
            sent.notified().await;
            let other = gateway.get("/other").await;
            let case = format!("{method} {path} {behind:?}: {other:?}");
            assert_ne!(other.text(), "left over", "{case}");
            assert_eq!((other.status, other.text()), (200, "1"), "{case}");
        }
    }
}
