//! What one client may hold by HTTP/2, and for how long.

use std::time::Duration;

use serde_json::{Value, json};

use super::echo::EchoOrigin;
use crate::harness::frames::{
    DATA, END_HEADERS, END_STREAM, Fate, Frames, GOAWAY, HEADERS, NO_ERROR, PING, REFUSED_STREAM,
    SETTINGS, WINDOW_UPDATE, frame, get, head,
};
use crate::harness::{Answer, Gateway, Origin, Reply, Setup, at_a_pace, h2load, within};

const ROUTE: &str = "[[route]]\npath = \"/*\"\norigin = \"app\"\n";

async fn before_h2c(origin: &EchoOrigin, lines: &str, rules: &str) -> Gateway {
    Setup::new()
        .servers("app", &[origin.address])
        .origin_line("protocol = \"h2c\"")
        .origin_line(lines)
        .rules(&format!("{ROUTE}{rules}"))
        .start()
        .await
}

#[tokio::test]
async fn a_connection_carries_so_many_requests_and_no_more() {
    // Goal: `max_streams` is announced and enforced. Method: the first SETTINGS; one stream more than allowed, while the others hang.
    let origin = EchoOrigin::start().await;
    let gateway = before_h2c(&origin, "", "[server.http2]\nmax_streams = 2").await;
    let mut frames = Frames::connect(gateway.address()).await;
    let settings = frames.next().await.unwrap();
    assert_eq!(settings.kind, SETTINGS);
    let told = |id: u16| {
        let mut each = settings.payload.chunks(6);
        each.find(|pair| u16::from_be_bytes([pair[0], pair[1]]) == id)
            .map(|pair| u32::from_be_bytes(pair[2..6].try_into().unwrap()))
    };
    assert_eq!(told(3), Some(2), "the streams");
    assert_eq!(told(6), Some(32 * 1024), "the head");
    for stream in [1, 3, 5] {
        frames.request(stream, &get(b"/hang", &[])).await;
    }
    assert_eq!(frames.fate(5).await, Fate::Reset(REFUSED_STREAM));
}

#[tokio::test]
async fn a_body_that_stops_is_the_clients_fault() {
    // Goal: a stream that opens and never ends is answered with 408, and not blamed on the origin. Method: the head of a POST and a piece
    // of its body, to origins of both versions.
    let h2c = EchoOrigin::start().await;
    let h1 = Origin::echo();
    let gateway = Setup::new()
        .servers("h2c", &[h2c.address])
        .origin_line("protocol = \"h2c\"\ntimeouts = { read = \"300ms\" }")
        .origin("h1", &h1)
        .origin_line("timeouts = { read = \"300ms\" }")
        .rules("[[route]]\npath = \"/told\"\norigin = \"h2c\"\n[[route]]\npath = \"/*\"\norigin = \"h1\"")
        .start()
        .await;
    // Kept: who leaves before the whole answer is recorded as gone.
    let mut open_connections = Vec::new();
    for path in [&b"/told"[..], b"/h1"] {
        let mut frames = Frames::connect(gateway.address()).await;
        let open = head(b"POST", path, &[]);
        frames.write(&frame(HEADERS, END_HEADERS, 1, &open)).await;
        frames.write(&frame(DATA, 0, 1, b"a piece")).await;
        assert_eq!(frames.fate(1).await, Fate::Answered(408));
        open_connections.push(frames);
    }
    for line in gateway.access_lines(2).await {
        assert_eq!(line["outcome"], "rejected", "{line}");
    }
}

#[tokio::test]
async fn a_body_that_takes_its_time_is_not_blamed_on_the_client() {
    // Goal: a client that keeps sending is never cut off. Method: a body in pieces that takes longer than a read of the origin may, to
    // origins of both versions.
    let h2c = EchoOrigin::start().await;
    let h1 = Origin::echo();
    let gateway = Setup::new()
        .servers("h2c", &[h2c.address])
        .origin_line("protocol = \"h2c\"\ntimeouts = { read = \"2s\" }")
        .origin("h1", &h1)
        .origin_line("timeouts = { read = \"2s\" }")
        .rules("[[route]]\npath = \"/told\"\norigin = \"h2c\"\n[[route]]\npath = \"/*\"\norigin = \"h1\"")
        .start()
        .await;
    for path in [&b"/told"[..], b"/h1"] {
        let mut frames = Frames::connect(gateway.address()).await;
        let open = head(b"POST", path, &[]);
        frames.write(&frame(HEADERS, END_HEADERS, 1, &open)).await;
        let mut pieces = 0;
        at_a_pace(Duration::from_millis(200), async || {
            frames.write(&frame(DATA, 0, 1, b"a piece")).await;
            pieces += 1;
            (pieces == 16).then_some(())
        })
        .await;
        frames.write(&frame(DATA, END_STREAM, 1, b"")).await;
        let fate = frames.fate(1).await;
        assert_eq!(fate, Fate::Answered(200), "{}", path.escape_ascii());
    }
}

#[tokio::test]
async fn a_connection_without_requests_ends() {
    // Goal: idle connections are not kept forever, whatever frames without requests they carry. Method: silence, a head that never ends,
    // and a ping now and then.
    let origin = Origin::named("fine");
    let rules = format!("{ROUTE}[server]\nkeepalive_timeout = \"1s\"");
    let gateway = Gateway::before(&origin, &rules).await;
    for sent in [
        Vec::new(),
        frame(HEADERS, 0, 1, &get(b"/", &[])),
        frame(PING, 0, 0, b"12345678"),
    ] {
        let mut frames = Frames::connect(gateway.address()).await;
        frames.write(&sent).await;
        let ended = within(Duration::from_secs(10), "the end", async || {
            frames.goaway().await;
            Some(())
        });
        ended.await;
    }
}

#[tokio::test]
async fn a_reloaded_keepalive_timeout_holds_for_open_connections() {
    // Goal: a connection that was open before a reload idles for as long as the rules say when its last request ends. Method: a timeout
    // that no test waits for becomes one second; one client has a request in flight meanwhile, another one is idle and sends the next one
    // later.
    let (let_go, holding) = std::sync::mpsc::channel();
    let holding = std::sync::Mutex::new(holding);
    let origin = Origin::answering(move |received| {
        if received.target == "/held" {
            holding.lock().unwrap().recv().unwrap();
        }
        Answer::new(200).into()
    });
    let rules = |timeout| format!("{ROUTE}[server]\nkeepalive_timeout = \"{timeout}\"");
    let mut gateway = Gateway::before(&origin, &rules("10m")).await;
    let mut idle = Frames::connect(gateway.address()).await;
    idle.request(1, &get(b"/", &[])).await;
    assert_eq!(idle.fate(1).await, Fate::Answered(200));
    let mut busy = Frames::connect(gateway.address()).await;
    busy.request(1, &get(b"/held", &[])).await;
    origin.is_asked(2).await;
    gateway.reload(&rules("1s")).await;
    let_go.send(()).unwrap();
    assert_eq!(busy.fate(1).await, Fate::Answered(200));
    idle.request(3, &get(b"/", &[])).await;
    assert_eq!(idle.fate(3).await, Fate::Answered(200));
    for mut frames in [idle, busy] {
        // It waits for fifteen seconds, and then fails.
        while frames.next().await.is_some() {}
    }
}

#[tokio::test]
async fn an_answer_that_is_not_read_ends() {
    // Goal: slow readers hold little memory and not forever. Method: 64 answers without an end, windows wide open, nothing is read; the
    // gateway holds what they reserve, with the window of the origin, and ends the streams after `client_write_timeout`.
    const RESERVED: u64 = (194 + 256 + 46) * 1024;
    let origin = EchoOrigin::start().await;
    let rules = "[server]\nclient_write_timeout = \"1s\"";
    let gateway = before_h2c(&origin, "", rules).await;
    let leave_unread = async |streams: u32| {
        let mut frames = Frames::connect_unread(gateway.address()).await;
        let wide = 0x7fff_0000_u32.to_be_bytes();
        frames
            .write(&frame(SETTINGS, 0, 0, &[&[0, 4][..], &wide].concat()))
            .await;
        frames.write(&frame(WINDOW_UPDATE, 0, 0, &wide)).await;
        for stream in 0..streams {
            frames.request(1 + 2 * stream, &get(b"/endless", &[])).await;
        }
        frames
    };
    let ended = async || {
        within(Duration::from_secs(30), "all streams end", async || {
            let metrics = gateway.metrics().await;
            (metrics.sum("sluicegate_requests_in_flight", &[]) == 0.0).then_some(())
        })
        .await;
    };
    // From here on the code is in memory.
    let first = leave_unread(1).await;
    origin.asked(1).await;
    ended().await;
    let before = gateway.resident_bytes();
    let rest = leave_unread(64).await;
    origin.asked(65).await;
    ended().await;
    drop((first, rest));
    let grown = gateway.resident_bytes().saturating_sub(before);
    assert!(grown < 64 * RESERVED, "{grown} bytes more");
}

#[tokio::test]
async fn a_head_that_is_too_long_gets_431() {
    // Goal: the size of heads holds for HTTP/2 too. Method: 40 KiB of fields, then a request that passes on the same connection; the
    // lines of both in the access log.
    let origin = Origin::named("fine");
    let gateway = Gateway::passing(&origin).await;
    let mut frames = Frames::connect(gateway.address()).await;
    let value = [b'a'; 4096];
    let many: Vec<(&[u8], &[u8])> = vec![(b"x-long", &value); 10];
    let block = get(b"/", &many);
    let (first, rest) = block.split_at(16_000);
    let (second, third) = rest.split_at(16_000);
    frames.write(&frame(HEADERS, END_STREAM, 1, first)).await;
    frames.write(&frame(9, 0, 1, second)).await;
    frames.write(&frame(9, END_HEADERS, 1, third)).await;
    assert_eq!(frames.fate(1).await, Fate::Answered(431));
    frames.request(3, &get(b"/", &[])).await;
    assert_eq!(frames.fate(3).await, Fate::Answered(200));
    assert_eq!(origin.count(), 1);
    let lines = gateway.access_lines(2).await;
    let facts = |line: &Value| ["status", "outcome", "protocol"].map(|name| line[name].clone());
    assert_eq!(
        facts(&lines[0]),
        [json!(431), json!("rejected"), json!("HTTP/2")]
    );
    assert_eq!(
        facts(&lines[1]),
        [json!(200), json!("forwarded"), json!("HTTP/2")]
    );
}

#[tokio::test]
async fn a_tunnel_is_not_dug() {
    // Goal: CONNECT is refused and reaches no origin; extended CONNECT opens no WebSocket where the origin answers as if it was a GET (RFC
    // 8441 §4: any 2xx would). Method: both.
    let origin = Origin::named("fine");
    let gateway = Gateway::passing(&origin).await;
    let mut frames = Frames::connect(gateway.address()).await;
    let plain: [(&[u8], &[u8]); 2] = [(b":method", b"CONNECT"), (b":authority", b"a.test:443")];
    frames
        .request(1, &crate::harness::frames::fields(&plain))
        .await;
    assert_eq!(frames.fate(1).await, Fate::Answered(405));
    assert_eq!(origin.count(), 0);
    let extended = head(b"CONNECT", b"/chat", &[(b":protocol", b"websocket")]);
    let mut frames = Frames::connect(gateway.address()).await;
    frames.request(1, &extended).await;
    assert_eq!(frames.fate(1).await, Fate::Answered(501));
    assert_eq!(origin.count(), 1);
}

#[tokio::test]
async fn a_load_of_http2_passes() {
    // Goal: many streams on many connections, by an independent client. Method: h2load; every request succeeds.
    let origin = Origin::answering(|_| Reply::Answer(crate::harness::Answer::new(200).body("x")));
    let gateway = Gateway::passing(&origin).await;
    let to = format!("http://{}/", gateway.address());
    let said = h2load(&["-n", "4000", "-c", "8", "-m", "32", &to]).await;
    assert!(
        said.contains("4000 succeeded, 0 failed, 0 errored"),
        "{said}"
    );
}

#[tokio::test]
async fn an_idle_connection_ends_with_a_reason() {
    // Goal: RFC 9113 §6.8, a client learns which requests were served before a connection that is idle ends, so that it may repeat one that
    // is on its way. Method: one request, then silence for `keepalive_timeout`.
    let rules = "[server]\nkeepalive_timeout = \"1s\"\n[[route]]\npath = \"/*\"\nrespond = { status = 200 }\n";
    let gateway = Gateway::start(rules).await;
    let mut frames = Frames::connect(gateway.address()).await;
    frames.request(1, &get(b"/", &[])).await;
    assert_eq!(frames.fate(1).await, Fate::Answered(200));
    let last = loop {
        let next = frames.next().await.expect("a reason before the end");
        if next.kind == GOAWAY {
            break next.payload;
        }
    };
    let [stream, reason] =
        [&last[..4], &last[4..8]].map(|number| u32::from_be_bytes(number.try_into().unwrap()));
    assert_eq!((stream, reason), (1, NO_ERROR));
    assert!(frames.next().await.is_none());
    let metrics = gateway.metrics().await;
    assert_eq!(metrics.sum("sluicegate_http2_abuse_total", &[]), 0.0);
}
