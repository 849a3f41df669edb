//! A request passes to the origin and its answer comes back, whatever their shape.

use std::time::Duration;

use crate::harness::*;

#[tokio::test]
async fn a_get_reaches_the_origin_and_its_answer_comes_back() {
    // Goal: a request is forwarded. Method: an echoing origin.
    let origin = Origin::echo();
    let gateway = Gateway::passing(&origin).await;
    let echo = gateway.get("/some/path?and=query").await.echo();
    assert_eq!(
        (echo.method.as_str(), echo.target.as_str()),
        ("GET", "/some/path?and=query")
    );
}

#[tokio::test]
async fn a_post_body_arrives_whole() {
    // Goal: bodies pass unchanged, small and larger than any buffer on the way. Method: the origin's own record.
    let origin = Origin::answering(|_| Answer::new(201).into());
    let gateway = Gateway::passing(&origin).await;
    let large: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
    for body in [b"phone=123".to_vec(), large] {
        let answer = gateway.send(post("/upload").body(body.clone())).await;
        assert_eq!(answer.status, 201);
        let received = origin.requests().pop().unwrap();
        assert!(received.method == "POST" && received.body == body);
    }
}

#[tokio::test]
async fn status_fields_and_body_of_the_origin_come_back_unchanged() {
    // Goal: nothing of the answer is lost, repeated fields included. Method: a scripted answer.
    let origin = Origin::answering(|_| {
        let answer = Answer::new(418)
            .header("Set-Cookie", "a=1")
            .header("Set-Cookie", "b=2");
        answer
            .header("X-Custom", "kept as is")
            .body("short and stout")
            .into()
    });
    let gateway = Gateway::passing(&origin).await;
    let answer = gateway.get("/").await;
    assert_eq!((answer.status, answer.text()), (418, "short and stout"));
    assert_eq!(answer.all("set-cookie"), ["a=1", "b=2"]);
    assert_eq!(answer.header("x-custom"), Some("kept as is"));
}

#[tokio::test]
async fn one_connection_carries_many_requests_on_both_sides() {
    // Goal: keep-alive towards the client and a pool towards the origin. Method: the origin counts its connections. A few more
    // are allowed, because a request may come before the last connection has been put back; without a pool there were fifty.
    let origin = Origin::echo();
    let gateway = Gateway::passing(&origin).await;
    let mut client = gateway.client().await;
    for n in 0..50 {
        assert_eq!(
            client.get(&format!("/{n}")).await.echo().target,
            format!("/{n}")
        );
    }
    assert!(
        origin.connections() <= 30,
        "{} connections",
        origin.connections()
    );
}

#[tokio::test]
async fn waiting_for_an_origin_wakes_no_thread() {
    // Goal: the timers that an answer is waited for with take no system call of their own. Method: the kernel counts calls; a thread that
    // wakes itself for each timer makes one or two a request. There is one thread, since of several one may have opened the connection
    // to the origin that another uses, and wakes it.
    let origin = Origin::echo();
    let rules = "[server]\nthreads = 1\n[[route]]\npath = \"/*\"\norigin = \"app\"";
    let gateway = Gateway::before(&origin, rules).await;
    let mut client = gateway.client().await;
    client.get("/").await;
    let before = gateway.wakes();
    for _ in 0..400 {
        assert_eq!(client.get("/").await.status, 200);
    }
    let wakes = gateway.wakes().saturating_sub(before);
    assert!(wakes < 200, "{wakes} for 400 requests");
}

#[tokio::test]
async fn http2_without_tls_is_accepted_and_goes_on_as_http1() {
    // Goal: h2c with prior knowledge, with several streams at once. Method: eight parallel posts on one connection.
    let origin = Origin::echo();
    let gateway = Gateway::passing(&origin).await;
    let client = gateway.h2c().await;
    let mut streams = tokio::task::JoinSet::new();
    for n in 0..8 {
        let client = client.clone();
        streams.spawn(async move {
            (
                n,
                client
                    .send(post(&format!("/{n}")).body(format!("body {n}")))
                    .await
                    .echo(),
            )
        });
    }
    while let Some(done) = streams.join_next().await {
        let (n, echo) = done.unwrap();
        assert_eq!(
            (echo.target.as_str(), echo.text()),
            (&*format!("/{n}"), &*format!("body {n}"))
        );
        assert_eq!(echo.header("host"), Some("gateway.test"));
    }
}

#[tokio::test]
async fn a_chunked_upload_arrives_whole() {
    // Goal: a body of unknown length passes. Method: chunks of odd sizes, extensions and trailers included, sent byte for byte.
    let origin = Origin::answering(|_| Answer::new(200).into());
    let gateway = Gateway::passing(&origin).await;
    let mut raw = gateway.raw().await;
    raw.write("POST /chunked HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n")
        .await;
    raw.write("1\r\nh\r\n").await;
    raw.write("4;name=value\r\nello\r\n").await;
    raw.write("6\r\n, all!\r\n0\r\n\r\n").await;
    assert_eq!(raw.read_response().await.status, 200);
    assert_eq!(origin.only_request().text(), "hello, all!");
    raw.write("GET /next HTTP/1.1\r\nHost: a.test\r\n\r\n")
        .await;
    assert_eq!(raw.read_response().await.status, 200);
}

#[tokio::test]
async fn a_chunked_download_arrives_whole() {
    // Goal: an answer of unknown length passes, and passes while it is made. Method: a dripping origin.
    let origin = Origin::answering(|_| Reply::Drip {
        piece: "drop ",
        every: Duration::from_millis(20),
        pieces: 5,
    });
    let gateway = Gateway::passing(&origin).await;
    assert_eq!(gateway.get("/").await.text(), "drop drop drop drop drop ");
}

#[tokio::test]
async fn an_answer_to_http10_ends_as_http10_expects() {
    // Goal: old clients, which know no chunks. Method: an HTTP/1.0 request for a chunked answer, read until the close.
    let origin = Origin::answering(|_| Reply::Drip {
        piece: "drop ",
        every: Duration::ZERO,
        pieces: 3,
    });
    let gateway = Gateway::passing(&origin).await;
    let mut raw = gateway.raw().await;
    raw.write("GET / HTTP/1.0\r\nHost: a.test\r\n\r\n").await;
    let text = String::from_utf8(raw.read_to_end().await).unwrap();
    assert!(
        text.starts_with("HTTP/1.1 200") || text.starts_with("HTTP/1.0 200"),
        "{text}"
    );
    assert!(text.ends_with("\r\n\r\ndrop drop drop "), "{text}");
}

#[tokio::test]
async fn the_answer_to_a_head_has_no_body_and_the_connection_goes_on() {
    // Goal: HEAD keeps the fields and the framing. Method: HEAD, then GET, on one socket.
    let origin = Origin::answering(|_| Answer::new(200).body("twelve bytes").into());
    let gateway = Gateway::passing(&origin).await;
    let mut raw = gateway.raw().await;
    raw.write("HEAD / HTTP/1.1\r\nHost: a.test\r\n\r\n").await;
    let answer = raw.read_response_to_head().await;
    assert_eq!(
        (answer.status, answer.header("content-length")),
        (200, Some("12"))
    );
    raw.write("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n").await;
    assert_eq!(raw.read_response().await.text(), "twelve bytes");
}

#[tokio::test]
async fn a_client_that_waits_for_100_continue_is_served() {
    // Goal: the gateway answers Expect and forwards none. Method: the body is sent only after an interim answer, as curl does.
    let origin = Origin::echo();
    let gateway = Gateway::passing(&origin).await;
    let mut raw = gateway.raw().await;
    raw.write(
        "POST /e HTTP/1.1\r\nHost: a.test\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n",
    )
    .await;
    assert_eq!(raw.read_response().await.status, 100);
    raw.write("body").await;
    assert_eq!(raw.read_response().await.echo().text(), "body");
    assert_eq!(origin.only_request().header("expect"), None);
}

#[tokio::test]
async fn a_websocket_passes_both_ways() {
    // Goal: the upgrade and what follows it. Method: a real WebSocket client, an origin that sends every message back.
    let origin = Origin::answering(|_| Reply::WebSocket);
    let gateway = Gateway::passing(&origin).await;
    let address = gateway.address();
    let echoes = tokio::task::spawn_blocking(move || {
        use tokio_tungstenite::tungstenite::{Message, client};
        let stream = std::net::TcpStream::connect(address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(15)))
            .unwrap();
        let (mut socket, _) = client(format!("ws://{address}/socket"), stream).unwrap();
        let messages = [
            Message::text("hello"),
            Message::binary(vec![7_u8; 100_000]),
            Message::text("bye"),
        ];
        messages.map(|message| {
            socket.send(message.clone()).unwrap();
            socket.read().unwrap() == message
        })
    });
    assert_eq!(echoes.await.unwrap(), [true; 3]);
}

#[tokio::test]
async fn a_route_answers_by_itself() {
    // Goal: `respond` needs no origin. Method: status, body and content type as written.
    let gateway = Gateway::start(
        r#"
        [[route]]
        path = "/robots.txt"
        respond = { status = 203, body = "User-agent: *", content_type = "text/robots" }
        [[route]]
        path = "/empty"
        respond = { status = 204 }
        "#,
    )
    .await;
    let mut client = gateway.client().await;
    let answer = client.get("/robots.txt").await;
    assert_eq!((answer.status, answer.text()), (203, "User-agent: *"));
    assert_eq!(answer.header("content-type"), Some("text/robots"));
    let empty = client.get("/empty").await;
    assert_eq!((empty.status, empty.body.len()), (204, 0));
    let bare = client.send(head("/robots.txt")).await;
    assert_eq!(
        (bare.status, bare.header("content-length")),
        (203, Some("13"))
    );
}

#[tokio::test]
async fn what_no_route_takes_is_404() {
    // Goal: a request without a route is not forwarded. Method: one exact route, another path.
    let origin = Origin::echo();
    let gateway = Gateway::before(&origin, "[[route]]\npath = \"/only\"\norigin = \"app\"").await;
    gateway.get("/other").await.assert_problem(404);
    assert_eq!(origin.count(), 0);
    assert_eq!(gateway.get("/only").await.status, 200);
}

#[tokio::test]
async fn the_most_specific_route_wins() {
    // Goal: routing by host, path, method and field, not by the order in the file. Method: each route says its name.
    let gateway = Gateway::start(
        r#"
        [[route]]
        path = "/*"
        respond = { status = 200, body = "everything" }
        [[route]]
        path = "/users/*"
        respond = { status = 200, body = "below users" }
        [[route]]
        path = "/users/{id}"
        respond = { status = 200, body = "one user" }
        [[route]]
        path = "/users/me"
        respond = { status = 200, body = "me" }
        [[route]]
        path = "/users/me"
        methods = ["POST"]
        respond = { status = 200, body = "post me" }
        [[route]]
        path = "/users/me"
        headers = { x-plan = "free" }
        respond = { status = 200, body = "free me" }
        [[route]]
        host = "other.test"
        path = "/*"
        respond = { status = 200, body = "other host" }
        "#,
    )
    .await;
    let mut client = gateway.client().await;
    let cases = [
        (get("/"), "everything"),
        (get("/users"), "everything"),
        (get("/users/7/posts"), "below users"),
        (get("/users/7"), "one user"),
        (get("/users/me"), "me"),
        (post("/users/me"), "post me"),
        (get("/users/me").header("X-Plan", "free"), "free me"),
        (
            get("/users/7").header("Host", "Other.TEST:8080"),
            "other host",
        ),
    ];
    for (request, expected) in cases {
        let shown = format!("{request:?}");
        assert_eq!(client.send(request).await.text(), expected, "{shown}");
    }
}
