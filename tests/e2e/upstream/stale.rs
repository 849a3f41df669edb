//! Connections that idled, and that their server has closed by the time of the next request.

use std::sync::{Arc, Mutex};

use tokio::io::AsyncWriteExt;
use tokio::sync::Barrier;

use super::*;
use crate::harness::frames::{END_HEADERS, END_STREAM, HEADERS, frame};
use crate::harness::{Request, get, post};

/// The requests that arrived: the path and the number of the connection.
type Arrivals = Arc<Mutex<Vec<(String, usize)>>>;

/// A server that answers requests to `/warm` once `together` have come, and others on a new connection; on one that was used before it
/// resets the connection instead. A request to `/death` is never answered.
async fn forgetful(spoken: Spoken, together: &Arc<Barrier>) -> (SocketAddr, Arrivals) {
    let arrivals = Arrivals::default();
    let (together, seen) = (Arc::clone(together), Arc::clone(&arrivals));
    let address = listening(move |stream, number| {
        let (together, seen) = (Arc::clone(&together), Arc::clone(&seen));
        async move {
            let came = |path: &str, turn: usize| {
                seen.lock().unwrap().push((path.to_owned(), number));
                path == "/warm" || path != "/death" && turn == 0
            };
            if spoken == Spoken::Http2 {
                return answer_frames(stream, together, came).await;
            }
            let mut stream = stream;
            for turn in 0.. {
                let head = read_head(&mut stream).await;
                let head = String::from_utf8_lossy(&head);
                let Some(path) = head.split(' ').nth(1) else {
                    return;
                };
                if !came(path, turn) {
                    stream.set_zero_linger().unwrap();
                    return;
                }
                if path == "/warm" {
                    together.wait().await;
                }
                let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
                stream.write_all(answer).await.unwrap();
            }
        }
    })
    .await;
    (address, arrivals)
}

/// The same over HTTP/2.
async fn answer_frames(
    stream: TcpStream,
    together: Arc<Barrier>,
    came: impl Fn(&str, usize) -> bool,
) {
    let mut frames = Frames::accept(stream).await;
    let mut turn = 0;
    while let Some(got) = frames.next().await {
        if got.kind != HEADERS {
            continue;
        }
        let has = |path: &[u8]| got.payload.windows(path.len()).any(|part| part == path);
        let path = ["/warm", "/death"]
            .into_iter()
            .find(|path| has(path.as_bytes()) || has(huffman(path)));
        if !came(path.unwrap_or("/"), turn) {
            frames.into_stream().set_zero_linger().unwrap();
            return;
        }
        turn += 1;
        if path == Some("/warm") {
            together.wait().await;
        }
        let head = frame(HEADERS, END_HEADERS | END_STREAM, got.stream, &[0x88]);
        frames.write(&head).await;
    }
}

/// The path in the code of RFC 7541, appendix B.
fn huffman(path: &str) -> &'static [u8] {
    match path {
        "/warm" => &[0x63, 0xc0, 0xec, 0xa7],
        _ => &[0x62, 0x42, 0x8d, 0x33, 0xff],
    }
}

/// A gateway before these servers, each of which keeps connections.
async fn warmed(spoken: Spoken, servers: usize, kept: usize) -> (Gateway, Vec<Arrivals>) {
    let all = servers * kept;
    let together = Arc::new(Barrier::new(all));
    let (mut addresses, mut arrivals) = (Vec::new(), Vec::new());
    for _ in 0..servers {
        let (address, seen) = forgetful(spoken, &together).await;
        addresses.push(address);
        arrivals.push(seen);
    }
    let lines = format!(
        "{}\nretries = 0\n\
         outlier_detection = {{ consecutive_failures = 1, max_percent = 100, base_ejection_time = \"1h\", max_ejection_time = \"1h\" }}",
        spoken.line()
    );
    let gateway = before(&addresses, &lines).await;
    let asked = (0..all).map(|_| gateway.get("/warm"));
    for answer in futures_util::future::join_all(asked).await {
        assert_eq!(answer.status, 200);
    }
    (gateway, arrivals)
}

/// Sends a request, and returns the status and the attempts in its line.
async fn ask(gateway: &Gateway, request: Request, before: usize) -> (u64, u64) {
    let sent = gateway.send(request).await;
    let lines = gateway.access_lines(before + 1).await;
    let line = lines.iter().find(|line| line["target"] != "/warm").unwrap();
    assert_eq!(line["status"], sent.status, "{line}");
    (u64::from(sent.status), line["attempts"].as_u64().unwrap())
}

async fn ejections(gateway: &Gateway) -> f64 {
    let metrics = gateway.metrics().await;
    metrics.sum("sluicegate_origin_server_ejections_total", &[])
}

/// The connections on which requests to this path arrived.
fn arrived(arrivals: &Arrivals, path: &str) -> Vec<usize> {
    let arrivals = arrivals.lock().unwrap();
    let of_path = arrivals.iter().filter(|(arrived, _)| arrived == path);
    of_path.map(|(_, connection)| *connection).collect()
}

#[tokio::test]
async fn a_stale_connection_costs_one_repetition_on_a_new_one() {
    // Goal: a request that meets a connection that its server has closed is sent once more, to the same server over a new connection,
    // however many idle ones there are. Method: servers that keep eight connections, all of which they reset at the next request.
    for (spoken, kept) in [(Spoken::Http1, 8), (Spoken::Http2, 1)] {
        let (gateway, servers) = warmed(spoken, 1, kept).await;
        assert_eq!(ask(&gateway, get("/"), kept).await, (200, 2), "{spoken:?}");
        let came = arrived(&servers[0], "/");
        assert!(came.len() == 2 && came[1] >= kept, "{came:?}");
        assert_eq!(ejections(&gateway).await, 0.0);
    }
}

#[tokio::test]
async fn a_request_that_breaks_its_connection_reaches_no_other_server() {
    // Goal: a request whose server dies of it is not carried from one idle connection to the next, past `retries`, and its failure counts.
    // Method: two servers that keep connections and reset them at the request; where it arrived, and the ejections.
    for (spoken, kept) in [(Spoken::Http1, 8), (Spoken::Http2, 1)] {
        let (gateway, servers) = warmed(spoken, 2, kept).await;
        let (status, attempts) = ask(&gateway, get("/death"), 2 * kept).await;
        assert_eq!(status, 502, "{spoken:?}");
        let came: Vec<usize> = servers
            .iter()
            .map(|one| arrived(one, "/death").len())
            .collect();
        assert_eq!(came.iter().sum::<usize>(), attempts as usize, "{came:?}");
        assert!(attempts <= 2 && came.contains(&0), "{spoken:?}: {came:?}");
        assert_eq!(ejections(&gateway).await, 1.0);
    }
}

#[tokio::test]
async fn a_request_that_is_not_repeated_counts_as_a_failure() {
    // Goal: a stale connection excuses its server only if the request is sent again, and a POST is not. Method: the POST, its attempts and
    // the ejection.
    for (spoken, kept) in [(Spoken::Http1, 8), (Spoken::Http2, 1)] {
        let (gateway, servers) = warmed(spoken, 1, kept).await;
        assert_eq!(
            ask(&gateway, post("/death"), kept).await,
            (502, 1),
            "{spoken:?}"
        );
        assert_eq!(arrived(&servers[0], "/death").len(), 1);
        assert_eq!(ejections(&gateway).await, 1.0);
    }
}
