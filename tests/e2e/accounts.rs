//! What one client holds over all of its connections is counted together, and leaves others theirs.

use std::collections::HashSet;
use std::sync::Mutex;

use crate::harness::frames::{
    DATA, END_HEADERS, END_STREAM, Fate, Frames, HEADERS, REFUSED_STREAM, frame, get as get_head,
    head as post_head,
};
use crate::harness::*;

const PASS: &str = "[[route]]\npath = \"/*\"\norigin = \"app\"\n";

#[tokio::test]
async fn streams_of_one_client_leave_others_theirs() {
    // Goal: a client has no more streams over all its connections than `max_http2_streams_per_client`, all clients have no more than
    // `max_http2_streams`, and a refused request may be sent again. Method: three streams of five for one client on two connections, then
    // another client; all hang until the first connection is closed.
    let origin = Origin::answering(|received| match received.target.as_str() {
        "/hang" => Reply::Hang,
        _ => Answer::new(200).body("here").into(),
    });
    let caps = "[server]\nmax_http2_streams = 5\nmax_http2_streams_per_client = 3\n";
    let gateway = Gateway::before(&origin, &format!("{caps}{PASS}")).await;
    let open = async |streams: f64| {
        eventually("so many streams are open", async || {
            let metrics = gateway.metrics().await;
            (metrics.sum("sluicegate_http2_streams", &[]) == streams).then_some(())
        })
        .await;
    };
    let refused = Fate::Reset(REFUSED_STREAM);
    let (hang, pass) = (get_head(b"/hang", &[]), get_head(b"/", &[]));
    let mut first = Frames::connect(gateway.address()).await;
    first.request(1, &hang).await;
    first.request(3, &hang).await;
    open(2.0).await;
    let mut second = Frames::connect(gateway.address()).await;
    second.request(1, &hang).await;
    open(3.0).await;
    second.request(3, &pass).await;
    assert_eq!(second.fate(3).await, refused);
    first.request(5, &pass).await;
    assert_eq!(first.fate(5).await, refused);
    let mut other = Frames::connect_from("127.0.0.9", gateway.address()).await;
    other.request(1, &pass).await;
    assert_eq!(other.fate(1).await, Fate::Answered(200));
    open(3.0).await;
    other.request(3, &hang).await;
    other.request(5, &hang).await;
    open(5.0).await;
    other.request(7, &pass).await;
    assert_eq!(other.fate(7).await, refused);
    let metrics = gateway.metrics().await;
    for (cap, most, met) in [
        ("max_http2_streams", 5.0, 1.0),
        ("max_http2_streams_per_client", 3.0, 2.0),
    ] {
        let of = [("cap", cap)];
        assert_eq!(metrics.sum("sluicegate_http2_streams_max", &of), most);
        let total = metrics.sum("sluicegate_http2_streams_refused_total", &of);
        assert_eq!(total, met, "{cap}");
    }
    let line = "client 127.0.0.1: its HTTP/2 stream is refused: max_http2_streams_per_client = 3";
    assert!(gateway.stderr().contains(line), "{}", gateway.stderr());
    drop(first);
    open(3.0).await;
    second.request(5, &pass).await;
    assert_eq!(second.fate(5).await, Fate::Answered(200));
    other.request(9, &pass).await;
    assert_eq!(other.fate(9).await, Fate::Answered(200));
    assert_eq!(origin.count(), 8);
}

#[tokio::test]
async fn a_client_behind_a_trusted_proxy_has_streams_of_its_own() {
    // Goal: a client that a trusted proxy names has no more streams than any other, over all connections of the proxy, whatever addresses
    // of its /64 it uses, and other clients of the proxy have theirs; so has the proxy for itself. Method: three streams for one client;
    // its requests hang on two connections of the proxy.
    let origin = Origin::answering(|received| match received.target.as_str() {
        "/hang" => Reply::Hang,
        _ => Answer::new(200).body("here").into(),
    });
    let caps = "[client]\ntrusted_proxies = [\"127.0.0.9\"]\n\
                [server]\nmax_http2_streams = 40\nmax_http2_streams_per_client = 3\n";
    let gateway = Gateway::before(&origin, &format!("{caps}{PASS}")).await;
    let of = |path: &[u8], client: &[u8]| get_head(path, &[(b"x-forwarded-for", client)]);
    let mut first = Frames::connect_from("127.0.0.9", gateway.address()).await;
    first.request(1, &of(b"/hang", b"2001:db8::1")).await;
    first.request(3, &of(b"/hang", b"2001:db8::2")).await;
    let mut second = Frames::connect_from("127.0.0.9", gateway.address()).await;
    second.request(1, &of(b"/hang", b"2001:db8::3")).await;
    origin.is_asked(3).await;
    let refused = Fate::Reset(REFUSED_STREAM);
    for (stream, client) in [(3, &b"2001:db8::4"[..]), (5, b"198.51.100.1, 2001:db8::1")] {
        second.request(stream, &of(b"/", client)).await;
        assert_eq!(second.fate(stream).await, refused);
    }
    for (stream, client) in [(7, &b"2001:db8:0:1::1"[..]), (9, b"198.51.100.7")] {
        second.request(stream, &of(b"/", client)).await;
        assert_eq!(second.fate(stream).await, Fate::Answered(200));
    }
    for stream in [11, 13, 15, 17] {
        second.request(stream, &get_head(b"/hang", &[])).await;
    }
    origin.is_asked(9).await;
    let line = "client 127.0.0.9: its HTTP/2 stream for client 2001:db8::/64 is refused: max_http2_streams_per_client = 3";
    assert!(gateway.stderr().contains(line), "{}", gateway.stderr());
    let clients = gateway.status().await["clients"].clone();
    assert_eq!(
        (&clients[0]["client"], &clients[0]["trusted_proxy"]),
        (&"127.0.0.9".into(), &true.into())
    );
    assert_eq!(
        (&clients[1]["client"], &clients[1]["http2_streams"]),
        (&"2001:db8::/64".into(), &3.into())
    );
    drop(first);
    eventually("a stream is free again", async || {
        let mut third = Frames::connect_from("127.0.0.9", gateway.address()).await;
        third.request(1, &of(b"/", b"2001:db8::4")).await;
        (third.fate(1).await == Fate::Answered(200)).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_client_behind_a_trusted_proxy_sends_no_more_ahead_than_is_left() {
    // Goal: uploads of one client that a trusted proxy names leave room for those of its other clients. Method: room for 2 MiB; bodies of
    // unknown length, 256 KiB each, that one client sends over two connections of the proxy; then a body of another client.
    let origin = Origin::answering(|_| Answer::new(200).body("here").into());
    let rules =
        "[client]\ntrusted_proxies = [\"127.0.0.9\"]\n[server]\nmax_received_bytes = \"2MiB\"\n";
    let gateway = Gateway::before(&origin, &format!("{rules}{PASS}")).await;
    let of = |client: &[u8]| post_head(b"POST", b"/", &[(b"x-forwarded-for", client)]);
    let mut frames = Frames::connect_from("127.0.0.9", gateway.address()).await;
    let open = |stream, block: &[u8]| frame(HEADERS, END_HEADERS, stream, block);
    for stream in [1, 3, 5, 7] {
        frames.write(&open(stream, &of(b"192.0.2.1"))).await;
    }
    let mut second = Frames::connect_from("127.0.0.9", gateway.address()).await;
    eventually("four bodies are expected", async || {
        let metrics = gateway.metrics().await;
        let held = metrics.sum("sluicegate_received_bytes", &[]);
        (held >= f64::from(1 << 20)).then_some(())
    })
    .await;
    second.write(&open(1, &of(b"192.0.2.1"))).await;
    assert_eq!(second.fate(1).await, Fate::Reset(REFUSED_STREAM));
    second.write(&open(3, &of(b"192.0.2.2"))).await;
    second.write(&frame(DATA, END_STREAM, 3, b"all")).await;
    assert_eq!(second.fate(3).await, Fate::Answered(200));
    let line = "for client 192.0.2.1 is refused: bodies of this client are sent ahead; max_received_bytes = 2097152";
    assert!(gateway.stderr().contains(line), "{}", gateway.stderr());
}

#[tokio::test]
async fn the_status_shows_who_holds_most() {
    // Goal: an operator sees which clients hold the connections and what else they hold, the largest first, and sees them go. Method: one
    // client with three connections, one of them with a request that hangs; another with one connection, and twelve more.
    let origin = Origin::answering(|_| Reply::Hang);
    let gateway = Gateway::before(&origin, PASS).await;
    let mut held = Vec::new();
    for last in (20..32).chain([9, 9, 9]) {
        let from = format!("127.0.0.{last}");
        held.push(RawConnection::connect_from(&from, gateway.address()).await);
    }
    let mut busy = held.pop().unwrap();
    busy.write("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n").await;
    let clients = async || gateway.status().await["clients"].clone();
    eventually("all are shown", async || {
        let clients = clients().await;
        let first = &clients[0];
        (first["connections"] == 3 && first["origin_requests"] == 1).then_some(())
    })
    .await;
    let shown = clients().await;
    assert_eq!(shown.as_array().unwrap().len(), 10);
    assert_eq!(
        shown[0],
        serde_json::json!({
            "client": "127.0.0.9", "trusted_proxy": false, "connections": 3, "http2_streams": 0, "origin_requests": 1,
            "tls_handshakes": 0, "unread_bytes": 0, "received_bytes": 0,
        })
    );
    assert_eq!(shown[1]["client"], "127.0.0.20");
    drop((busy, held));
    eventually("nobody is left", async || {
        let left = clients().await;
        (left.as_array().unwrap().is_empty()).then_some(())
    })
    .await;
}

#[tokio::test]
async fn bodies_that_are_kept_for_another_attempt_have_a_budget() {
    // Goal: uploads of one client that come slowly take no more of `max_replay_bytes` than is left, a request that finds no room is sent
    // once, and what is kept ends with the answer. Method: servers that close the first connection that brings a target; requests of the
    // slow client and of another one beside half an upload, after it, and beside one of unknown length.
    let seen = std::sync::Arc::new(Mutex::new(HashSet::new()));
    let server = || {
        let seen = seen.clone();
        Origin::answering(move |received| {
            let is_first = seen.lock().unwrap().insert(received.target.clone());
            if is_first && received.target.starts_with("/flaky") {
                Reply::Close
            } else {
                Answer::new(200).body("here").into()
            }
        })
    };
    let (one, two) = (server(), server());
    let gateway = Setup::new()
        .servers("app", &[one.address(), two.address()])
        .origin_line("retry = { on = [\"reset\"], min_per_second = 1000 }")
        .rules(&format!("[server]\nmax_replay_bytes = \"64KiB\"\n{PASS}"))
        .start()
        .await;
    let kept = async |bytes: f64| {
        eventually("so many bytes are kept", async || {
            let metrics = gateway.metrics().await;
            (metrics.sum("sluicegate_replay_bytes", &[]) == bytes).then_some(())
        })
        .await;
    };
    let refused = async |cap: &str| {
        let metrics = gateway.metrics().await;
        metrics.sum("sluicegate_replay_refused_total", &[("cap", cap)])
    };
    let put = async |from: &str, path: &str| {
        let mut client = gateway.client_from(from).await;
        let answer = client
            .send(request("PUT", path).body(vec![b'x'; 1000]))
            .await;
        answer.status
    };
    let begin = async |from: &str, framing: &str| {
        let mut raw = RawConnection::connect_from(from, gateway.address()).await;
        raw.write(format!("PUT /slow HTTP/1.1\r\nHost: a\r\n{framing}"))
            .await;
        raw
    };
    let mut slow = begin("127.0.0.7", "Content-Length: 32768\r\n\r\nx").await;
    kept(49152.0).await;
    assert_eq!(put("127.0.0.7", "/flaky/1").await, 502, "it is sent once");
    assert_eq!(refused("client").await, 1.0);
    assert_eq!(put("127.0.0.9", "/flaky/2").await, 200);
    slow.write(vec![b'x'; 32767]).await;
    assert_eq!(slow.read_response().await.status, 200);
    kept(0.0).await;
    assert_eq!(put("127.0.0.7", "/flaky/3").await, 200);
    let endless = begin("127.0.0.7", "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n").await;
    kept(81920.0).await;
    assert_eq!(put("127.0.0.9", "/flaky/4").await, 502);
    assert_eq!(put("127.0.0.9", "/whole").await, 200);
    assert_eq!(refused("all").await, 2.0);
    drop(endless);
    kept(0.0).await;
    assert_eq!(refused("client").await, 1.0);
}
