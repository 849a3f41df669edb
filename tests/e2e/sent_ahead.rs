//! What clients send before the gateway can pass it on has a budget: heads and frames that are not whole, bodies that wait.

use crate::harness::frames::{
    ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, Fate, Frames, HEADERS, REFUSED_STREAM,
    SETTINGS, frame, get as get_head, head,
};
use crate::harness::*;

const PASS: &str = "[[route]]\npath = \"/*\"\norigin = \"app\"\n";

/// Requests to /wait are delayed by minutes, all but the first; others pass.
const WAIT: &str = "[limit.turn]\nkey = \"global\"\nrates = [\"1 per 1m\"]\naction = \"delay\"\nqueue = 9\nmax_wait = \"10m\"\n\
    [[route]]\npath = \"/wait\"\nlimits = [\"turn\"]\norigin = \"app\"\n";

/// Waits until clients hold so many bytes.
async fn held(gateway: &Gateway, bytes: u64) {
    eventually("so many bytes are held", async || {
        let metrics = gateway.metrics().await;
        (metrics.sum("sluicegate_received_bytes", &[]) == bytes as f64).then_some(())
    })
    .await;
}

async fn refused(gateway: &Gateway, cap: &str) -> f64 {
    let metrics = gateway.metrics().await;
    metrics.sum("sluicegate_received_refused_total", &[("cap", cap)])
}

/// Fields of at least so many bytes.
fn pieces(bytes: usize) -> String {
    let piece = format!("X-Piece: {}\r\n", "x".repeat(989));
    piece.repeat(bytes.div_ceil(piece.len()))
}

/// A head of at least so many bytes, of which all but the last line has come.
fn partial_head(bytes: usize) -> String {
    format!("GET / HTTP/1.1\r\nHost: a.test\r\n{}", pieces(bytes))
}

#[tokio::test]
async fn heads_that_are_not_whole_have_a_budget() {
    // Goal: a client that holds heads back has no more memory than is left, what finds no room is 503 with its cause, and others are
    // served, also with heads in pieces. Method: room for sixteen pieces of 4 KiB; heads of one client until one is refused, requests of
    // both, heads that grow, that end, and that leave.
    let origin = Origin::answering(|_| Answer::new(200).body("here").into());
    let rules = format!("[server]\nmax_received_bytes = \"64KiB\"\n{PASS}");
    let gateway = Gateway::before(&origin, &rules).await;
    let begin = async |from: &str, bytes: usize| {
        let mut raw = RawConnection::connect_from(from, gateway.address()).await;
        raw.write(partial_head(bytes)).await;
        raw
    };
    let mut slow = Vec::new();
    for number in 1..=8 {
        slow.push(begin("127.0.0.7", 100).await);
        held(&gateway, number * 4096).await;
    }
    let answer = begin("127.0.0.7", 100).await.read_response().await;
    answer.assert_problem(503);
    assert_eq!(answer.retry_after(), 1);
    let line = &gateway.lines_of(std::slice::from_ref(&answer)).await[0];
    assert_eq!(line["outcome"], "rejected", "{line}");
    assert_eq!(line["failure"], "partial-heads-full", "{line}");
    let reason = "too many heads of requests are not whole; send yours at once";
    assert_eq!(line["reason"], reason, "{line}");
    assert_eq!(refused(&gateway, "client").await, 1.0);
    // A whole head needs no room.
    let mut same = gateway.client_from("127.0.0.7").await;
    assert_eq!(same.send(get("/")).await.status, 200);
    let mut other = begin("127.0.0.9", 5_000).await;
    held(&gateway, 8 * 4096 + 8192 + 16_384).await;
    other.write("\r\n").await;
    assert_eq!(other.read_response().await.status, 200);
    held(&gateway, 8 * 4096).await;
    // A head that grows is refused in the middle.
    let first = &mut slow[0];
    first.write(pieces(6_000)).await;
    assert_eq!(first.read_response().await.status, 503);
    held(&gateway, 7 * 4096).await;
    slow[1].write("\r\n").await;
    assert_eq!(slow[1].read_response().await.status, 200);
    held(&gateway, 6 * 4096).await;
    drop(slow);
    held(&gateway, 0).await;
}

#[tokio::test]
async fn thousands_of_partial_heads_leave_memory_and_others_alone() {
    // Goal: a client that opens many connections, each with most of a head, takes no memory beyond the budget. Method: a thousand of them
    // with 120 KiB each, of which 1 MiB may be held; another client's requests meanwhile. A refused connection that closes takes some
    // 20 KiB for half a second.
    let origin = Origin::answering(|_| Answer::new(200).body("here").into());
    let server = "[server]\nmax_received_bytes = \"1MiB\"\nmax_header_bytes = \"128KiB\"\n";
    let gateway = Gateway::before(&origin, &format!("{server}{PASS}")).await;
    assert_eq!(gateway.get("/").await.status, 200);
    let before = gateway.resident_bytes();
    let head = partial_head(120 * 1024);
    let mut slow = Vec::new();
    for _ in 0..1000 {
        let mut raw = RawConnection::connect_from("127.0.0.7", gateway.address()).await;
        // Those without room are answered and closed while they send.
        let _ = raw.try_write(&head).await;
        slow.push(raw);
    }
    eventually("most are refused", async || {
        (refused(&gateway, "client").await >= 900.0).then_some(())
    })
    .await;
    let metrics = gateway.metrics().await;
    assert!(metrics.sum("sluicegate_received_bytes", &[]) <= 524_288.0);
    let mut other = gateway.client_from("127.0.0.9").await;
    assert_eq!(other.send(get("/")).await.status, 200);
    let grown = gateway.resident_bytes().saturating_sub(before);
    assert!(grown < 60 << 20, "{grown} bytes");
}

#[tokio::test]
async fn whole_heads_of_requests_that_wait_have_a_budget() {
    // Goal: a client whose requests with large heads hang at the origin holds no more of them than is left, over HTTP/1.1 and HTTP/2 and
    // behind a trusted proxy; others are served, and so are small heads. Method: room for 256 KiB; heads of 28 KiB until one is refused,
    // each kind of client, and what is held before, between and after.
    const HEAD: u64 = 28_672;
    let origin = Origin::answering(|request| match &*request.target {
        "/hang" => Reply::Hang,
        _ => Answer::new(200).body("here").into(),
    });
    let rules = format!(
        "[server]\nmax_received_bytes = \"256KiB\"\n[client]\ntrusted_proxies = [\"127.0.0.20\"]\n\
         client_ip_header = \"x-forwarded-for\"\n{PASS}"
    );
    let gateway = Gateway::before(&origin, &rules).await;
    let large = |target: &str, more: &str| {
        format!(
            "GET {target} HTTP/1.1\r\nHost: a.test\r\n{more}{}\r\n",
            pieces(27_000)
        )
    };
    let ask = async |from: &str, head: String| {
        let mut raw = RawConnection::connect_from(from, gateway.address()).await;
        raw.write(head).await;
        raw
    };
    let mut waiting = Vec::new();
    for number in 1..=4 {
        waiting.push(ask("127.0.0.7", large("/hang", "")).await);
        held(&gateway, number * HEAD).await;
    }
    let mut refused_one = ask("127.0.0.7", large("/hang", "")).await;
    let answer = refused_one.read_response().await;
    answer.assert_problem(503);
    assert_eq!(answer.retry_after(), 1);
    let line = &gateway.lines_of(std::slice::from_ref(&answer)).await[0];
    assert_eq!(line["failure"], "large-heads-full", "{line}");
    let reason = "requests of this client with large heads wait; max_received_bytes = 262144";
    assert_eq!(line["reason"], reason, "{line}");
    assert_eq!(refused(&gateway, "client").await, 1.0);
    // Its connection and its small heads are served, and so is another client with large ones.
    refused_one
        .write("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n")
        .await;
    assert_eq!(refused_one.read_response().await.status, 200);
    let mut other = ask("127.0.0.9", large("/", "")).await;
    assert_eq!(other.read_response().await.status, 200);
    held(&gateway, 4 * HEAD).await;
    drop(waiting);
    held(&gateway, 0).await;
    // Over HTTP/2.
    let mut streams = Frames::connect_from("127.0.0.7", gateway.address()).await;
    let long = [b'x'; 15_000];
    let block = get_head(b"/hang", &[(b"x-long", &long)]);
    for number in 1..=8 {
        streams.request(number * 2 - 1, &block).await;
        held(&gateway, u64::from(number) * 16_384).await;
    }
    streams.request(17, &block).await;
    assert_eq!(streams.fate(17).await, Fate::Answered(503));
    streams.request(19, &get_head(b"/", &[])).await;
    assert_eq!(streams.fate(19).await, Fate::Answered(200));
    drop(streams);
    held(&gateway, 0).await;
    // Behind a proxy, each client that it names has a share.
    let mut waiting = Vec::new();
    let named = |client: u8| format!("X-Forwarded-For: 192.0.2.{client}\r\n");
    for _ in 0..4 {
        waiting.push(ask("127.0.0.20", large("/hang", &named(1))).await);
    }
    held(&gateway, 4 * HEAD).await;
    let mut more = ask("127.0.0.20", large("/", &named(1))).await;
    assert_eq!(more.read_response().await.status, 503);
    let mut other = ask("127.0.0.20", large("/", &named(2))).await;
    assert_eq!(other.read_response().await.status, 200);
}

#[tokio::test]
async fn bodies_that_are_sent_ahead_have_a_budget() {
    // Goal: what a client sends ahead over HTTP/2 counts in its account, small bodies count nowhere, a stream without room is reset and
    // may be sent again, and others are served. Method: room for 1 MiB; streams of unknown length that wait for minutes, on two
    // connections, then uploads of the client and of another one.
    let origin = Origin::answering(|_| Answer::new(200).body("here").into());
    let rules = format!("[server]\nmax_received_bytes = \"1MiB\"\n{WAIT}{PASS}");
    let gateway = Gateway::before(&origin, &rules).await;
    assert_eq!(gateway.get("/wait").await.status, 200);
    let wait = head(b"POST", b"/wait", &[]);
    let begin = frame(HEADERS, END_HEADERS, 1, &wait);
    let piece = vec![b'x'; 16_000];
    let mut slow = Vec::new();
    for number in 1..=2 {
        let mut client = Frames::connect_from("127.0.0.7", gateway.address()).await;
        client.write(&begin).await;
        for _ in 0..4 {
            client.write(&frame(DATA, 0, 1, &piece)).await;
        }
        slow.push(client);
        held(&gateway, number * 262_144).await;
    }
    let mut third = Frames::connect_from("127.0.0.7", gateway.address()).await;
    third.write(&begin).await;
    third.write(&frame(DATA, 0, 1, &piece)).await;
    assert_eq!(third.fate(1).await, Fate::Reset(REFUSED_STREAM));
    assert_eq!(refused(&gateway, "client").await, 1.0);
    let line = "client 127.0.0.7: its HTTP/2 stream is refused: bodies of this client are sent ahead; max_received_bytes = 1048576";
    assert!(gateway.stderr().contains(line), "{}", gateway.stderr());
    // Neither a request without a body nor a small one needs room.
    third.request(3, &get_head(b"/", &[])).await;
    assert_eq!(third.fate(3).await, Fate::Answered(200));
    let small = head(b"POST", b"/", &[(b"content-length", b"1000")]);
    third.write(&frame(HEADERS, END_HEADERS, 5, &small)).await;
    third
        .write(&frame(DATA, END_STREAM, 5, &piece[..1000]))
        .await;
    assert_eq!(third.fate(5).await, Fate::Answered(200));
    let mut other = Frames::connect_from("127.0.0.9", gateway.address()).await;
    let large = head(b"POST", b"/", &[(b"content-length", b"48000")]);
    other.write(&frame(HEADERS, END_HEADERS, 1, &large)).await;
    held(&gateway, 2 * 262_144 + 48_000).await;
    for turn in 1..=3 {
        let end = if turn == 3 { END_STREAM } else { 0 };
        other.write(&frame(DATA, end, 1, &piece)).await;
    }
    assert_eq!(other.fate(1).await, Fate::Answered(200));
    held(&gateway, 2 * 262_144).await;
    slow.pop();
    held(&gateway, 262_144).await;
    third.write(&frame(HEADERS, END_HEADERS, 7, &large)).await;
    for turn in 1..=3 {
        let end = if turn == 3 { END_STREAM } else { 0 };
        third.write(&frame(DATA, end, 7, &piece)).await;
    }
    assert_eq!(third.fate(7).await, Fate::Answered(200));
    drop(slow);
    held(&gateway, 0).await;
}

#[tokio::test]
async fn a_hundred_windows_of_one_client_leave_memory_alone() {
    // Goal: a client cannot fill a window on each of many connections. Method: three hundred connections that send 240,000 bytes each for
    // requests which wait; room for 4 MiB, of which eight connections take half.
    let origin = Origin::answering(|_| Answer::new(200).body("here").into());
    let rules = format!("[server]\nmax_received_bytes = \"4MiB\"\n{WAIT}{PASS}");
    let gateway = Gateway::before(&origin, &rules).await;
    assert_eq!(gateway.get("/wait").await.status, 200);
    let before = gateway.resident_bytes();
    let mut upload = frame(HEADERS, END_HEADERS, 1, &head(b"POST", b"/wait", &[]));
    for _ in 0..15 {
        upload.extend(frame(DATA, 0, 1, &[b'x'; 16_000]));
    }
    let mut slow = Vec::new();
    for _ in 0..300 {
        let mut client = Frames::connect_from("127.0.0.7", gateway.address()).await;
        // The windows have come, and hold once they are acknowledged.
        client.pong().await;
        client.write(&frame(SETTINGS, ACK, 0, &[])).await;
        client.write(&upload).await;
        slow.push(client);
    }
    eventually("nearly all are refused", async || {
        (refused(&gateway, "client").await >= 290.0).then_some(())
    })
    .await;
    let metrics = gateway.metrics().await;
    let held = metrics.sum("sluicegate_received_bytes", &[]);
    assert!(held <= f64::from(2 << 20), "{held} bytes are held");
    let mut other = Frames::connect_from("127.0.0.9", gateway.address()).await;
    other.request(1, &get_head(b"/", &[])).await;
    assert_eq!(other.fate(1).await, Fate::Answered(200));
    let grown = gateway.resident_bytes().saturating_sub(before);
    assert!(grown < 40 << 20, "{grown} bytes");
}

#[tokio::test]
async fn frames_that_are_not_whole_have_a_budget() {
    // Goal: a frame, or a block of fields, that a client holds back counts in its account, and a connection without room is closed with its
    // cause in the log. Method: room for 512 KiB, half of it for one client; ten blocks of 25,000 bytes without their last ones, then one
    // more, and a frame.
    let origin = Origin::answering(|_| Answer::new(200).body("here").into());
    let server = "[server]\nmax_received_bytes = \"512KiB\"\nmax_header_bytes = \"32KiB\"\n";
    let gateway = Gateway::before(&origin, &format!("{server}{PASS}")).await;
    let value = [b'a'; 12_500];
    let block = get_head(b"/", &[(b"x-a", &value), (b"x-b", &value)]);
    let (begin, end) = block.split_at(block.len() - 10);
    let (first, second) = begin.split_at(begin.len() / 2);
    let open = [
        frame(HEADERS, END_STREAM, 1, first),
        frame(CONTINUATION, 0, 1, second),
    ]
    .concat();
    let of_block = begin.len() as u64;
    let mut slow = Vec::new();
    for number in 1..=10 {
        let mut client = Frames::connect_from("127.0.0.7", gateway.address()).await;
        client.write(&open).await;
        slow.push(client);
        held(&gateway, number * of_block).await;
    }
    let mut last = Frames::connect_from("127.0.0.7", gateway.address()).await;
    // Reads the settings, which would be acknowledged inside the block otherwise: an error of the protocol.
    last.pong().await;
    last.write(&open).await;
    assert_eq!(last.fate(1).await, Fate::Closed);
    assert_eq!(refused(&gateway, "client").await, 1.0);
    let line = "client 127.0.0.7: its HTTP/2 connection is ended: frames of this client are not whole; max_received_bytes = 524288";
    assert!(gateway.stderr().contains(line), "{}", gateway.stderr());
    // The end of a block releases it, and its request is served.
    slow[0]
        .write(&frame(CONTINUATION, END_HEADERS, 1, end))
        .await;
    assert_eq!(slow[0].fate(1).await, Fate::Answered(200));
    held(&gateway, 9 * of_block).await;
    let mut other = Frames::connect_from("127.0.0.9", gateway.address()).await;
    let unknown = frame(0x42, 0, 0, &[b'x'; 12_000]);
    let (most, rest) = unknown.split_at(11_009);
    other.write(most).await;
    held(&gateway, 9 * of_block + 11_000).await;
    other.write(rest).await;
    other.request(1, &get_head(b"/", &[])).await;
    assert_eq!(other.fate(1).await, Fate::Answered(200));
    drop(slow);
    held(&gateway, 0).await;
}
