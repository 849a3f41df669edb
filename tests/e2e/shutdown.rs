//! SIGTERM lets finish what is under way; SIGINT does not wait.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::json;

use crate::departing::read_body;
use crate::harness::frames::{
    self, ACK, Fate, Frames, GOAWAY, NO_ERROR, PING, WINDOW_UPDATE, frame,
};
use crate::harness::*;

/// An origin that takes its time.
fn slow_origin(delay: Duration) -> Origin {
    let reply = Reply::After(delay, Box::new(Answer::new(200).body("late").into()));
    Origin::answering(move |_| reply.clone())
}

#[tokio::test]
async fn sigterm_finishes_what_is_under_way_and_then_ends() {
    // Goal: a drain loses nothing and takes no longer than it must. Method: a request of two seconds is under way and an idle
    // connection is open; the answer must come whole, new connections must be refused, and the end must follow soon.
    let origin = slow_origin(Duration::from_secs(2));
    let mut gateway = Gateway::passing(&origin).await;
    let idle = gateway.client().await;
    let mut client = gateway.client().await;
    let request = tokio::spawn(async move { client.get("/slow").await });
    origin.is_asked(1).await;
    gateway.signal(Signal::SIGTERM);
    gateway.is_closed().await;
    assert!(
        !request.is_finished(),
        "the listener closed only after the request"
    );
    let answer = request.await.unwrap();
    let answered = Instant::now();
    assert_eq!((answer.status, answer.text()), (200, "late"));
    assert_eq!(gateway.exit_code().await, 0);
    assert!(
        answered.elapsed() < Duration::from_secs(10),
        "{:?} after the last answer",
        answered.elapsed()
    );
    assert_eq!(gateway.access_log().len(), 1, "the log is flushed");
    drop(idle);
}

#[tokio::test]
async fn connections_in_the_queue_are_answered_before_the_end() {
    // Goal: a client whose connection the kernel has made is answered, also where the gateway has not accepted it when it is to end.
    // Method: forty requests come to a gateway that is stopped; it gets SIGTERM, and runs on.
    let rules = "[[route]]\npath = \"/*\"\nrespond = { status = 200 }\n";
    let mut gateway = Gateway::start(rules).await;
    gateway.pause().await;
    let mut clients = Vec::new();
    for _ in 0..40 {
        let mut client = gateway.raw().await;
        client.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
        clients.push(client);
    }
    eventually("their connections wait", async || {
        (gateway.queued_connections() == 40).then_some(())
    })
    .await;
    gateway.signal(Signal::SIGTERM);
    gateway.signal(Signal::SIGCONT);
    for client in &mut clients {
        assert_eq!(client.read_response().await.status, 200);
    }
    assert_eq!(gateway.exit_code().await, 0);
}

#[tokio::test]
async fn a_draining_gateway_is_not_ready() {
    // Goal: load balancers look elsewhere, while the process still lives. Method: both probes during a slow request.
    let origin = slow_origin(Duration::from_secs(3));
    let mut gateway = Gateway::passing(&origin).await;
    let mut client = gateway.client().await;
    let request = tokio::spawn(async move { client.get("/slow").await });
    origin.is_asked(1).await;
    gateway.signal(Signal::SIGTERM);
    let admin = gateway.admin_address();
    eventually("it is not ready", async || {
        match Client::try_connect(admin).await {
            Ok(mut client) => client
                .try_send(get("/readyz"))
                .await
                .is_ok_and(|answer| answer.status == 503)
                .then_some(()),
            Err(_) => Some(()),
        }
    })
    .await;
    assert_eq!(request.await.unwrap().status, 200);
    assert_eq!(gateway.exit_code().await, 0);
}

#[tokio::test]
async fn a_stream_of_http2_under_way_is_finished() {
    // Goal: the drain waits for streams, not only for connections. Method: two slow streams on one connection.
    let origin = slow_origin(Duration::from_secs(2));
    let mut gateway = Gateway::passing(&origin).await;
    let client = gateway.h2c().await;
    let streams = [client.clone(), client]
        .map(|client| tokio::spawn(async move { client.send(get("/slow")).await }));
    origin.is_asked(2).await;
    gateway.signal(Signal::SIGTERM);
    for stream in streams {
        assert_eq!(stream.await.unwrap().text(), "late");
    }
    assert_eq!(gateway.exit_code().await, 0);
}

/// Reads frames up to the next GOAWAY. Returns its last stream and its reason.
async fn goaway(frames: &mut Frames) -> [u32; 2] {
    loop {
        let next = frames.next().await.expect("the connection goes on");
        if next.kind == GOAWAY {
            let number = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().unwrap());
            return [number(&next.payload[..4]), number(&next.payload[4..8])];
        }
    }
}

#[tokio::test]
async fn a_drain_of_http2_takes_two_steps() {
    // Goal: RFC 9113 §6.8, a drain loses no request that its client sends before it knows, and a client that reads slowly gets its whole
    // answer, whoever answers. Method: a part of a large answer is read when the drain begins. GOAWAY with every stream and a PING; a
    // request that was on its way; GOAWAY with its stream once the PING is answered, behind which a request is ignored. The rest of the
    // answer comes through a window that opens for longer than connections without requests stay.
    const BODY: usize = 300_000;
    const FIRST_WINDOW: usize = 65_535;
    const PIECE: usize = 16_384;
    let origin = Origin::answering(|_| Answer::new(200).body(vec![b'a'; BODY]).into());
    let body = "a".repeat(BODY);
    let rules = format!(
        "[[route]]\npath = \"/origin\"\norigin = \"app\"\n\
         [[route]]\npath = \"/gateway\"\nrespond = {{ status = 200, body = \"{body}\" }}\n\
         [[route]]\npath = \"/late\"\nrespond = {{ status = 204 }}\n"
    );
    for path in ["/origin", "/gateway"] {
        let mut gateway = Gateway::before(&origin, &rules).await;
        let mut frames = Frames::connect(gateway.address()).await;
        frames.request(1, &frames::get(path.as_bytes(), &[])).await;
        assert_eq!(frames.fate(1).await, Fate::Answered(200), "{path}");
        assert!(!read_body(&mut frames, 1, FIRST_WINDOW).await, "{path}");
        gateway.signal(Signal::SIGTERM);

        assert_eq!(goaway(&mut frames).await, [0x7fff_ffff, NO_ERROR], "{path}");
        let ping = frames.next().await.expect("a question behind GOAWAY");
        assert_eq!((ping.kind, ping.flags), (PING, 0), "{path}");
        frames.request(3, &frames::get(b"/late", &[])).await;
        assert_eq!(frames.fate(3).await, Fate::Answered(204), "{path}");
        frames.write(&frame(PING, ACK, 0, &ping.payload)).await;
        assert_eq!(goaway(&mut frames).await, [3, NO_ERROR], "{path}");
        frames.request(5, &frames::get(b"/late", &[])).await;

        let mut left = BODY - FIRST_WINDOW;
        let mut is_whole = false;
        at_a_pace(Duration::from_millis(150), async || {
            let piece = left.min(PIECE);
            for stream in [0, 1] {
                let more = u32::try_from(piece).unwrap().to_be_bytes();
                let update = frame(WINDOW_UPDATE, 0, stream, &more);
                frames.write(&update).await;
            }
            is_whole = read_body(&mut frames, 1, piece).await;
            left -= piece;
            (left == 0).then_some(())
        })
        .await;
        assert!(is_whole || read_body(&mut frames, 1, 0).await, "{path}");
        assert!(frames.next().await.is_none(), "{path}");
        assert_eq!(gateway.exit_code().await, 0, "{path}");
        assert_eq!(gateway.access_log().len(), 2, "{path}");
    }
}

#[tokio::test]
async fn a_busy_connection_is_closed_between_requests_and_not_within_one() {
    // Goal: clients that keep asking on one connection lose no answer to a drain. Method: one request after another across the
    // signal, while a slow one keeps the drain open; the first that finds no connection must not have been sent.
    let origin = Origin::answering(|request| {
        let delay = if request.target == "/slow" { 1000 } else { 0 };
        Reply::After(
            Duration::from_millis(delay),
            Box::new(Answer::new(200).body("ok").into()),
        )
    });
    let mut gateway = Gateway::passing(&origin).await;
    let mut slow = gateway.client().await;
    let slow = tokio::spawn(async move { slow.get("/slow").await });
    let mut client = gateway.client().await;
    assert_eq!(client.get("/").await.status, 200);
    origin.is_asked(2).await;
    gateway.signal(Signal::SIGTERM);
    let end = loop {
        match client.try_send(get("/")).await {
            Ok(answer) => assert_eq!(answer.status, 200),
            Err(error) => break error,
        }
    };
    assert!(end.starts_with("connection gone"), "{end}");
    assert_eq!(slow.await.unwrap().status, 200);
    assert_eq!(gateway.exit_code().await, 0);
}

#[tokio::test]
async fn sigterm_without_requests_ends_soon() {
    // Goal: nothing to wait for, no waiting. Method: the exit code and the time.
    let mut gateway = Gateway::start("[[route]]\npath = \"/\"\nrespond = { status = 200 }").await;
    gateway.get("/").await;
    let started = Instant::now();
    gateway.signal(Signal::SIGTERM);
    assert_eq!(gateway.exit_code().await, 0);
    assert!(
        started.elapsed() < Duration::from_secs(15),
        "{:?}",
        started.elapsed()
    );
}

#[tokio::test]
async fn a_drain_ends_at_its_timeout() {
    // Goal: requests that never end do not hold the process, and each is recorded. Method: an origin that hangs, and one that hangs within
    // its answer, one second to drain, clients of both versions; then the same with SIGINT, which does not wait.
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nbeg\r\n";
    let origin = Origin::answering(|request| match &*request.target {
        "/begun" => Reply::Pieces(vec![head.into()], Duration::ZERO),
        _ => Reply::Hang,
    });
    let rules = "[server]\nshutdown_timeout = \"1s\"\n[[route]]\npath = \"/*\"\norigin = \"app\"\n";
    for (signal, least) in [
        (Signal::SIGTERM, Duration::from_millis(900)),
        (Signal::SIGINT, Duration::ZERO),
    ] {
        let mut gateway = Gateway::before(&origin, rules).await;
        let asked = origin.count();
        let mut raw = gateway.raw().await;
        raw.write("GET /hangs HTTP/1.1\r\nHost: a\r\n\r\n").await;
        let mut begun = gateway.raw().await;
        begun.write("GET /begun HTTP/1.1\r\nHost: a\r\n\r\n").await;
        let h2c = gateway.h2c().await;
        let stream = tokio::spawn(async move { h2c.try_send(get("/stream")).await });
        origin.is_asked(asked + 3).await;
        begun.read_response_to_head().await;
        assert_eq!(begun.read_chunk().await, b"beg");
        let started = Instant::now();
        gateway.signal(signal);
        assert_eq!(gateway.exit_code().await, 0);
        let took = started.elapsed();
        assert!(least <= took && took < Duration::from_secs(15), "{took:?}");
        assert!(stream.await.unwrap().is_err(), "a stream was answered");
        let lines = gateway.access_log();
        let mut ended: Vec<_> = (lines.iter())
            .map(|line| {
                json!([
                    line["target"],
                    line["status"],
                    line["outcome"],
                    line["reason"]
                ])
            })
            .collect();
        ended.sort_by_key(|line| line[0].to_string());
        let reason = "the process ended before the request did";
        let expected = [("/begun", 200), ("/hangs", 0), ("/stream", 0)]
            .map(|(target, status)| json!([target, status, "cut-off", reason]));
        assert_eq!(ended, expected, "{signal}");
    }
}

#[tokio::test]
async fn an_upgraded_connection_counts_as_under_way() {
    // Goal: WebSockets are drained like requests. Method: one is open, messages still pass during the drain, the end comes at
    // the timeout.
    let origin = Origin::answering(|_| Reply::WebSocket);
    let rules = "[server]\nshutdown_timeout = \"2s\"\n[[route]]\npath = \"/*\"\norigin = \"app\"\n";
    let mut gateway = Gateway::before(&origin, rules).await;
    let address = gateway.address();
    let (opened, open) = tokio::sync::oneshot::channel();
    let (signalled, go_on) = std::sync::mpsc::channel();
    let talk = tokio::task::spawn_blocking(move || {
        use tokio_tungstenite::tungstenite::{Message, client};
        let stream = std::net::TcpStream::connect(address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(15)))
            .unwrap();
        let (mut socket, _) = client(format!("ws://{address}/socket"), stream).unwrap();
        opened.send(()).unwrap();
        go_on.recv().unwrap();
        socket.send(Message::text("still there?")).unwrap();
        socket.read().unwrap()
    });
    open.await.unwrap();
    gateway.signal(Signal::SIGTERM);
    gateway.is_closed().await;
    signalled.send(()).unwrap();
    assert_eq!(
        talk.await.unwrap().into_text().unwrap().as_str(),
        "still there?"
    );
    assert_eq!(gateway.exit_code().await, 0);
}

#[tokio::test]
async fn sigint_ends_at_once() {
    // Goal: Ctrl-C. Method: a request is under way for half a minute; the end does not wait for it.
    let origin = slow_origin(Duration::from_secs(30));
    let mut gateway = Gateway::passing(&origin).await;
    let mut raw = gateway.raw().await;
    raw.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
    origin.is_asked(1).await;
    let started = Instant::now();
    gateway.signal(Signal::SIGINT);
    assert_eq!(gateway.exit_code().await, 0);
    assert!(
        started.elapsed() < Duration::from_secs(15),
        "{:?}",
        started.elapsed()
    );
}

#[tokio::test]
async fn sigint_ends_a_drain_too() {
    // Goal: SIGINT ends a drain at once. Method: a drain that would take half a minute, then the signal.
    let origin = slow_origin(Duration::from_secs(30));
    let mut gateway = Gateway::passing(&origin).await;
    let mut raw = gateway.raw().await;
    raw.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
    origin.is_asked(1).await;
    gateway.signal(Signal::SIGTERM);
    gateway.is_closed().await;
    let started = Instant::now();
    gateway.signal(Signal::SIGINT);
    assert_eq!(gateway.exit_code().await, 0);
    assert!(
        started.elapsed() < Duration::from_secs(15),
        "{:?}",
        started.elapsed()
    );
}

const ANSWER: &str = "[[route]]\npath = \"/\"\nrespond = { status = 200 }";

#[tokio::test]
async fn a_gateway_that_is_still_opening_ends_in_good_order() {
    // Goal: a signal that comes as early as the first connection ends nothing by force. Method: each of those that end a process, at the
    // moment when the kernel takes a connection for it; the exit code is that of an end in good order.
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGQUIT] {
        let (mut gateway, _first) = Gateway::as_it_opens(ANSWER).await;
        gateway.signal(signal);
        assert_eq!(gateway.exit_code().await, 0, "{signal}");
        let told = if signal == Signal::SIGINT {
            "stopping"
        } else {
            "drained"
        };
        assert!(gateway.stderr().contains(told), "{}", gateway.stderr());
    }
}

#[tokio::test]
async fn signals_during_the_start_are_handled() {
    // Goal: a reload or a rotation that comes at the start does not end the process. Method: both signals at the moment when the kernel
    // takes the first connection; the gateway serves, and has read its configuration again.
    let (mut gateway, _first) = Gateway::as_it_opens(ANSWER).await;
    gateway.signal(Signal::SIGUSR1);
    gateway.signal(Signal::SIGHUP);
    gateway.ready().await;
    eventually("the configuration is read again", async || {
        gateway.stderr().contains("SIGHUP: reloading").then_some(())
    })
    .await;
    assert_eq!(gateway.get("/").await.status, 200);
}
