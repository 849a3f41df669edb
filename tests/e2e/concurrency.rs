//! Requests in flight: no more of a key than its limit says, and every permit comes back.

use std::time::Duration;

use crate::harness::frames::{
    DATA, END_HEADERS, END_STREAM, Fate, Frames, HEADERS, RST_STREAM, frame, head as head_of,
};
use crate::harness::*;

/// A limit of so many requests in flight before `app`, with rates that do not matter.
fn in_flight(most: u32) -> String {
    format!(
        "[limit.a]\nkey = \"client.ip\"\nrates = [\"100000 per 1h\"]\nconcurrency = {most}\n\
         [[route]]\npath = \"/*\"\nlimits = [\"a\"]\norigin = \"app\"\n"
    )
}

/// Hangs, closes, opens a WebSocket or answers, as the path says.
fn as_asked() -> Origin {
    Origin::answering(|received| match received.target.as_str() {
        "/hang" => Reply::Hang,
        "/close" => Reply::Close,
        "/socket" => Reply::WebSocket,
        _ => Answer::new(200).into(),
    })
}

/// Sends a request that will not be answered.
async fn hang(gateway: &Gateway) -> RawConnection {
    let mut raw = gateway.raw().await;
    raw.write("GET /hang HTTP/1.1\r\nHost: a.test\r\n\r\n")
        .await;
    raw
}

/// Keys that hold permits, as `/status` has it.
async fn holders(gateway: &Gateway) -> u64 {
    let status = gateway.status().await;
    status["limits"][0]["concurrency"]["keys"].as_u64().unwrap()
}

async fn all_came_back(gateway: &Gateway) {
    eventually("every permit came back", async || {
        (holders(gateway).await == 0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn no_more_than_so_many_of_a_key_are_in_flight() {
    // Goal: the limit, what a refusal says and leaves, and that each client has its own. Method: two that hang, a third, another client.
    let origin = as_asked();
    let gateway = Gateway::before(&origin, &in_flight(2)).await;
    let mut client = gateway.client().await;
    let left = client.get("/").await.remaining("a");
    let hanging = [hang(&gateway).await, hang(&gateway).await];
    origin.is_asked(3).await;
    let mut refused = Vec::new();
    for _ in 0..3 {
        // The second and third time the quick path answers.
        refused.push(client.get("/").await);
    }
    for answer in &refused {
        answer.assert_problem(429);
        assert_eq!(answer.violated(), ["a-concurrency"]);
        assert_eq!(answer.retry_after(), 1);
    }
    assert_eq!(
        gateway.client_from("127.0.0.5").await.get("/").await.status,
        200
    );
    eventually("only those that hang", async || {
        (holders(&gateway).await == 1).then_some(())
    })
    .await;
    drop(hanging);
    let passed = eventually("one left", async || {
        let answer = client.get("/").await;
        (answer.status == 200).then_some(answer)
    })
    .await;
    assert_eq!(passed.remaining("a"), left - 3, "refusals charged nothing");

    for line in gateway.lines_of(&refused).await {
        assert_eq!(line["outcome"], "refused-concurrency", "{line}");
        assert_eq!(
            (&line["limit"], &line["in_flight"]),
            (&"a".into(), &2.into())
        );
    }
    let metrics = gateway.metrics().await;
    let refused = metrics.sum(
        "sluicegate_limit_concurrency_refused_total",
        &[("limit", "a")],
    );
    assert!(refused >= 3.0, "{refused}");
    all_came_back(&gateway).await;
}

#[tokio::test]
async fn a_thousand_aborted_connections_leave_nothing_in_flight() {
    // Goal: no leak under abort. Method: 1,000 requests that all fit and hang; all clients leave at once, and 1,000 others fit again.
    let origin = as_asked();
    let gateway = Gateway::before(&origin, &in_flight(1_000)).await;
    for round in 1..=2 {
        let mut hanging = Vec::new();
        for _ in 0..1_000 {
            hanging.push(hang(&gateway).await);
        }
        origin.is_asked(1_000 * round).await;
        assert_eq!(gateway.get("/").await.status, 429);
        drop(hanging);
        all_came_back(&gateway).await;
    }
}

#[tokio::test]
async fn a_permit_comes_back_however_the_origin_fails() {
    // Goal: no way to end keeps a permit. Method: one in flight, on one connection: the origin closes, is late, refuses, and answers.
    let origin = as_asked();
    let setup = Setup::new()
        .origin("app", &origin)
        .origin_line("timeouts = { read = \"1s\" }");
    let gateway = setup.rules(&in_flight(1)).start().await;
    gateway.post("/close").await.assert_problem(502);
    all_came_back(&gateway).await;
    gateway.get("/hang").await.assert_problem(504);
    all_came_back(&gateway).await;
    assert_eq!(gateway.get("/").await.status, 200);
    all_came_back(&gateway).await;
    origin.stop();
    gateway.get("/").await.assert_problem(502);
    all_came_back(&gateway).await;
}

#[tokio::test]
async fn every_stream_of_http_2_counts() {
    // Goal: one connection is no way around. Method: two streams hang, the third is refused; aborted, their permits come back.
    let origin = as_asked();
    let gateway = Gateway::before(&origin, &in_flight(2)).await;
    let h2c = gateway.h2c().await;
    let hanging: Vec<_> = (0..2)
        .map(|_| {
            let h2c = h2c.clone();
            tokio::spawn(async move { h2c.send(get("/hang")).await })
        })
        .collect();
    origin.is_asked(2).await;
    assert_eq!(h2c.send(get("/")).await.violated(), ["a-concurrency"]);
    hanging.iter().for_each(tokio::task::JoinHandle::abort);
    all_came_back(&gateway).await;
    assert_eq!(h2c.send(get("/")).await.status, 200);
}

#[tokio::test]
async fn a_client_with_its_answer_may_send_again() {
    // Goal: a client that sends one request at a time is never refused, though each goes over a connection of its own. Method: one
    // permit; many in a row, with and without a body, from the origin and from the gateway.
    let rules = format!(
        "{}[[route]]\npath = \"/fixed\"\nlimits = [\"a\"]\nrespond = {{ status = 200, body = \"ok\" }}\n",
        in_flight(1)
    );
    let origin = Origin::answering(|received| match received.target.as_str() {
        "/empty" => Answer::new(204).into(),
        "/large" => Answer::new(200).body(vec![b'a'; 1 << 20]).into(),
        _ => Answer::new(200).body("a body").into(),
    });
    let gateway = Gateway::before(&origin, &rules).await;
    for _ in 0..50 {
        for (request, status) in [
            (get("/"), 200),
            (get("/empty"), 204),
            (head("/"), 200),
            (get("/large"), 200),
            (get("/fixed"), 200),
        ] {
            assert_eq!(
                gateway.send(request.clone()).await.status,
                status,
                "{request:?}"
            );
        }
    }
    let h2c = gateway.h2c().await;
    for _ in 0..50 {
        assert_eq!(h2c.send(get("/")).await.status, 200);
        assert_eq!(h2c.send(get("/fixed")).await.status, 200);
    }
}

#[tokio::test]
async fn pipelined_requests_are_in_flight_one_by_one() {
    // Goal: HTTP/1 answers in order, so a pipeline is one request at a time. Method: five at once, with one permit.
    let origin = as_asked();
    let gateway = Gateway::before(&origin, &in_flight(1)).await;
    let mut raw = gateway.raw().await;
    raw.write("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n".repeat(5))
        .await;
    for _ in 0..5 {
        assert_eq!(raw.read_response().await.status, 200);
    }
}

#[tokio::test]
async fn a_websocket_is_in_flight_until_it_closes() {
    // Goal: a permit is held beyond the answer's head. Method: one open socket, one permit.
    let origin = as_asked();
    let gateway = Gateway::before(&origin, &in_flight(1)).await;
    let address = gateway.address();
    let open = move || {
        let stream = std::net::TcpStream::connect(address).unwrap();
        let url = format!("ws://{address}/socket");
        tokio_tungstenite::tungstenite::client(url, stream)
            .unwrap()
            .0
    };
    let mut socket = tokio::task::spawn_blocking(open).await.unwrap();
    assert_eq!(gateway.get("/").await.violated(), ["a-concurrency"]);
    socket = tokio::task::spawn_blocking(move || {
        socket.send("still here".into()).unwrap();
        assert_eq!(socket.read().unwrap().into_text().unwrap(), "still here");
        socket
    })
    .await
    .unwrap();
    assert_eq!(holders(&gateway).await, 1);
    drop(socket);
    all_came_back(&gateway).await;
    assert_eq!(gateway.get("/").await.status, 200);
}

#[tokio::test]
async fn a_websocket_over_http2_is_in_flight_to_its_end() {
    // Goal: a tunnel on a stream holds its permit, whatever becomes of its connection. Method: one WebSocket and a message; then its end, a
    // reset, and the end of the connection.
    let origin = as_asked();
    let gateway = Gateway::before(&origin, &in_flight(1)).await;
    for (kind, flags, last) in [
        (Some(DATA), END_STREAM, &b""[..]),
        (Some(RST_STREAM), 0, &[0, 0, 0, 8]),
        (None, 0, b""),
    ] {
        let mut socket = Frames::connect(gateway.address()).await;
        let asked = head_of(b"CONNECT", b"/socket", &[(b":protocol", b"websocket")]);
        socket.write(&frame(HEADERS, END_HEADERS, 1, &asked)).await;
        assert_eq!(socket.fate(1).await, Fate::Answered(200));
        // A masked frame of text; the mask is zeros.
        socket
            .write(&frame(DATA, 0, 1, b"\x81\x82\0\0\0\0hi"))
            .await;
        let echoed = loop {
            let next = socket.next().await.expect("a frame");
            if next.kind == DATA {
                break next.payload;
            }
        };
        assert_eq!(echoed, b"\x81\x02hi");
        assert_eq!(gateway.get("/").await.violated(), ["a-concurrency"]);
        assert_eq!(holders(&gateway).await, 1);
        match kind {
            Some(kind) => socket.write(&frame(kind, flags, 1, last)).await,
            None => drop(socket),
        }
        all_came_back(&gateway).await;
        assert_eq!(gateway.get("/").await.status, 200);
    }
}

#[tokio::test]
async fn a_reload_keeps_what_is_in_flight() {
    // Goal: C4 for permits. Method: two hang; fewer and more may be, by reloads, while they do.
    let origin = as_asked();
    let mut gateway = Gateway::before(&origin, &in_flight(2)).await;
    let hanging = [hang(&gateway).await, hang(&gateway).await];
    origin.is_asked(2).await;
    for (most, status) in [(1, 429), (3, 200), (2, 429)] {
        gateway.reload(&in_flight(most)).await;
        assert_eq!(gateway.get("/").await.status, status, "{most}");
    }
    drop(hanging);
    all_came_back(&gateway).await;
}

#[tokio::test]
async fn what_refuses_gives_the_permit_back() {
    // Goal: all or nothing with permits, and bans before them. Method: one a request an hour, with a ban, and one in flight: the refusal
    // is the rate's, then the ban's, never the permit's.
    let rules = "[limit.a]\nkey = \"client.ip\"\nrates = [\"1 per 1h\"]\nconcurrency = 1\nban = { for = \"2h\" }\n\
        [[route]]\npath = \"/*\"\nlimits = [\"a\"]\norigin = \"app\"\n";
    let origin = as_asked();
    let gateway = Gateway::before(&origin, rules).await;
    let mut client = gateway.client().await;
    assert_eq!(client.get("/").await.status, 200);
    for _ in 0..3 {
        let answer = client.get("/").await;
        assert_eq!(
            (answer.status, answer.violated()),
            (429, vec!["a".to_owned()])
        );
    }
    assert_eq!(holders(&gateway).await, 0);
    assert_eq!(origin.count(), 1);
}

#[tokio::test]
async fn a_slow_answer_is_in_flight_to_its_end() {
    // Goal: a download counts as long as it lasts. Method: a body that drips; its head is here long before the permit is back.
    let origin = Origin::answering(|received| match received.target.as_str() {
        "/drip" => Reply::Drip {
            piece: "drop",
            every: Duration::from_millis(100),
            pieces: 20,
        },
        _ => Answer::new(200).into(),
    });
    let gateway = Gateway::before(&origin, &in_flight(1)).await;
    let mut raw = gateway.raw().await;
    raw.write("GET /drip HTTP/1.1\r\nHost: a.test\r\n\r\n")
        .await;
    assert_eq!(raw.read_response_to_head().await.status, 200);
    assert_eq!(gateway.get("/").await.violated(), ["a-concurrency"]);
    all_came_back(&gateway).await;
}

#[tokio::test]
async fn a_fetch_for_the_cache_is_in_flight_until_its_end() {
    // Goal: requests for less than the whole, one after another, make no more requests at the origin at once than the limit says. Method:
    // an origin that stops in its body; a client that has its head, by each version of HTTP, then another one that asks for another page;
    // the end of the fetch gives the permit back.
    for by in Version::ALL {
        let origin = Origin::answering(|_| {
            let half =
                "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 10\r\n\r\n01234";
            Reply::Pieces(vec![half.into(), b"56789".into()], Duration::from_secs(600))
        });
        let rules = format!("{}[route.cache]\n", in_flight(1));
        let gateway = Gateway::before_by(by, &origin, &rules).await;
        let mut first = gateway.client().await;
        assert_eq!(first.send(head("/first")).await.status, 200, "{by:?}");
        let mut other = gateway.client().await;
        let refused = other.send(head("/second")).await;
        assert_eq!(refused.status, 429, "{by:?}");
        assert_eq!(other.get("/second").await.violated(), ["a-concurrency"]);
        assert_eq!(origin.count(), 1, "{by:?}");
        origin.stop();
        all_came_back(&gateway).await;
    }
}
