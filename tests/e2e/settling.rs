//! Charges that wait for the answer: `count_if`, and a `cost` that the origin tells.

use std::time::Duration;

use sluicegate_limiter::Timestamp;

use crate::harness::*;

/// A limit of so many failed logins an hour before `app`, and a route without a limit.
fn failures(count: u32) -> String {
    format!(
        "[limit.failures]\nkey = \"client.ip\"\nrates = [\"{count} per 1h\"]\ncount_if = \"response.status in [401, 403]\"\n\
         [[route]]\npath = \"/*\"\nlimits = [\"failures\"]\norigin = \"app\"\n"
    )
}

/// Answers with the status that the path names.
fn as_asked() -> Origin {
    Origin::answering(|received| {
        let status = received.target.trim_start_matches('/').parse();
        Answer::new(status.unwrap_or(200)).into()
    })
}

#[tokio::test]
async fn a_thousand_parallel_guesses_reach_the_origin_five_times() {
    // Goal: guesses that are sent before the first is answered do not slip through. Method: 1,000 connections ask at once, and the
    // origin takes its time to refuse each password.
    let wrong = Reply::After(
        Duration::from_millis(300),
        Box::new(Answer::new(401).into()),
    );
    let origin = Origin::answering(move |_| wrong.clone());
    let gateway = Gateway::before(&origin, &failures(5)).await;
    let mut clients = Vec::new();
    for _ in 0..1_000 {
        clients.push(gateway.client().await);
    }
    let guesses = clients
        .iter_mut()
        .map(|client| async { client.post("/login").await.status });
    let statuses = futures_util::future::join_all(guesses).await;
    let count = |status| statuses.iter().filter(|found| **found == status).count();
    assert_eq!((count(401), count(429)), (5, 995));
    assert_eq!(origin.count(), 5);
    assert_eq!(gateway.post("/login").await.status, 429);
}

#[tokio::test]
async fn answers_that_do_not_count_leave_the_counter_unchanged() {
    // Goal: successes are free, and failures are not. Method: many more successes than the limit, one by one, then failures; what a
    // client is told remains includes the reservation of the request itself.
    let origin = as_asked();
    let gateway = Gateway::before(&origin, &failures(3)).await;
    let mut client = gateway.client().await;
    for _ in 0..20 {
        let answer = client.get("/200").await;
        assert_eq!((answer.status, answer.remaining("failures")), (200, 2));
    }
    for left in [2, 1, 0] {
        let answer = client.get("/401").await;
        assert_eq!((answer.status, answer.remaining("failures")), (401, left));
    }
    assert_eq!(client.get("/200").await.status, 429);
    let metrics = gateway.metrics().await;
    let labels = [("limit", "failures")];
    assert_eq!(
        metrics.sum("sluicegate_limit_refunded_total", &labels),
        20.0
    );
    assert_eq!(
        metrics.sum("sluicegate_limit_admitted_total", &labels),
        23.0
    );
    let lines = gateway.access_lines(24).await;
    let released = lines
        .iter()
        .filter(|line| line["refunded"][0] == "failures");
    assert_eq!(released.count(), 20);
}

#[tokio::test]
async fn a_reservation_is_given_back_however_the_request_ends() {
    // Goal: a request without an answer that counts leaks nothing. Method: a limit of one failure; each way to end must leave room
    // for the next: the client leaves over HTTP/1 and over HTTP/2, the origin closes, times out, and cannot be reached.
    let origin = Origin::answering(|received| match received.target.as_str() {
        "/hang" => Reply::Hang,
        "/close" => Reply::Close,
        _ => Answer::new(401).into(),
    });
    let setup = Setup::new()
        .origin("app", &origin)
        .origin_line("timeouts = { read = \"2s\" }");
    let gateway = setup.rules(&failures(1)).start().await;

    let mut raw = gateway.raw().await;
    raw.write("GET /hang HTTP/1.1\r\nHost: a.test\r\n\r\n")
        .await;
    origin.is_asked(1).await;
    assert_eq!(gateway.get("/401").await.status, 429, "it is reserved");
    drop(raw);
    gateway.access_lines(2).await;

    let h2c = gateway.h2c().await;
    let hanging = tokio::spawn(async move { h2c.send(get("/hang")).await });
    origin.is_asked(2).await;
    hanging.abort();
    gateway.access_lines(3).await;

    gateway.post("/close").await.assert_problem(502);
    gateway.get("/hang").await.assert_problem(504);
    let address = origin.stop();
    gateway.get("/401").await.assert_problem(502);
    let origin = Origin::answering_at(address, |_| Answer::new(401).into());
    assert_eq!(gateway.get("/401").await.status, 401);
    assert_eq!(gateway.get("/401").await.status, 429);
    assert_eq!(origin.count(), 1);
}

#[tokio::test]
async fn a_request_that_is_tried_again_counts_once() {
    // Goal: retries reserve nothing. Method: one of two servers refuses connections; two failures are two, whatever was tried.
    let origin = as_asked();
    let gone = Origin::echo().stop();
    let setup = Setup::new()
        .servers("app", &[gone, origin.address()])
        .origin_line("retries = 3");
    let gateway = setup.rules(&failures(2)).start().await;
    let mut client = gateway.client().await;
    for status in [401, 401, 429] {
        assert_eq!(client.get("/401").await.status, status);
    }
    let lines = gateway.access_lines(3).await;
    assert!(lines.iter().any(|line| line["attempts"] == 2), "{lines:?}");
}

#[tokio::test]
async fn a_limit_that_waits_for_the_answer_is_charged_with_the_others_or_not_at_all() {
    // Goal: C2 with `count_if`. Method: a limit a client of 10, and one of 3 failures for all; 1,000 requests after the third
    // failure leave the first at 3, and a success gives back only what waited for it.
    let rules = "[limit.each]\nkey = \"client.ip\"\nrates = [\"10 per 1h\"]\n\
        [limit.all]\nkey = \"global\"\nrates = [\"3 per 1h\"]\ncount_if = \"response.status == 401\"\n\
        [[route]]\npath = \"/*\"\nlimits = [\"each\", \"all\"]\norigin = \"app\"\n";
    let origin = as_asked();
    let gateway = Gateway::before(&origin, rules).await;
    let mut client = gateway.client().await;
    let answer = client.get("/200").await;
    assert_eq!((answer.remaining("each"), answer.remaining("all")), (9, 2));
    for _ in 0..3 {
        assert_eq!(client.get("/401").await.status, 401);
    }
    let flood = Flood::gets(1_000, "/401").run(gateway.address()).await;
    assert_eq!(flood.count(429), 1_000);
    let refused = client.get("/401").await;
    assert_eq!(refused.violated(), ["all"]);
    assert_eq!(refused.remaining("each"), 6, "four were admitted");
    assert_eq!(origin.count(), 4);
}

#[tokio::test]
async fn the_gateways_own_answers_are_judged_by_their_status() {
    // Goal: `respond` and the errors of an origin have a status like any other. Method: a fixed answer that counts, and a dead origin
    // under a limit that counts 5xx.
    let gateway = Gateway::start(
        "[limit.a]\nkey = \"client.ip\"\nrates = [\"1 per 1h\"]\ncount_if = \"response.status in 200..=299\"\n\
         [limit.b]\nkey = \"client.ip\"\nrates = [\"1 per 1h\"]\ncount_if = \"response.status in 500..=599\"\n\
         [origin.dead]\nservers = [\"127.0.0.1:1\"]\nretries = 0\n\
         [[route]]\npath = \"/fixed\"\nlimits = [\"a\", \"b\"]\nrespond = { status = 204 }\n\
         [[route]]\npath = \"/dead\"\nlimits = [\"b\"]\norigin = \"dead\"\n",
    )
    .await;
    assert_eq!(gateway.get("/fixed").await.status, 204);
    assert_eq!(gateway.get("/fixed").await.violated(), ["a"]);
    gateway.get("/dead").await.assert_problem(502);
    assert_eq!(gateway.get("/dead").await.violated(), ["b"]);
}

#[tokio::test]
async fn a_field_of_the_response_can_say_what_counts() {
    // Goal: `response.header`, joined. Method: the same status with and without the field, and the other way round.
    let rules = "[limit.a]\nkey = \"client.ip\"\nrates = [\"1 per 1h\"]\n\
        count_if = 'response.status == 200 and response.header.x-failed == \"1\"'\n\
        [[route]]\npath = \"/*\"\nlimits = [\"a\"]\norigin = \"app\"\n";
    let origin = Origin::answering(|received| match received.target.as_str() {
        "/failed" => Answer::new(200).header("X-Failed", "1").into(),
        "/other" => Answer::new(201).header("X-Failed", "1").into(),
        _ => Answer::new(200).into(),
    });
    let gateway = Gateway::before(&origin, rules).await;
    for (path, status) in [("/", 200), ("/other", 201), ("/failed", 200), ("/", 429)] {
        assert_eq!(gateway.get(path).await.status, status, "{path}");
    }
}

#[tokio::test]
async fn an_upgrade_is_judged_by_its_handshake() {
    // Goal: 101 is an answer, and known long before the WebSocket closes. Method: it counts; while the first is open the second is
    // refused.
    let rules = "[limit.a]\nkey = \"client.ip\"\nrates = [\"1 per 1h\"]\ncount_if = \"response.status != 101\"\n\
        [[route]]\npath = \"/*\"\nlimits = [\"a\"]\norigin = \"app\"\n";
    let origin = Origin::answering(|_| Reply::WebSocket);
    let gateway = Gateway::before(&origin, rules).await;
    let address = gateway.address();
    tokio::task::spawn_blocking(move || {
        use tokio_tungstenite::tungstenite::client;
        let open = || {
            let stream = std::net::TcpStream::connect(address).unwrap();
            client(format!("ws://{address}/socket"), stream).unwrap().0
        };
        // Had the first kept its reservation, the second could not open.
        let sockets = [open(), open()];
        drop(sockets);
    })
    .await
    .unwrap();
    let lines = gateway.access_lines(2).await;
    assert!(
        lines.iter().all(|line| line["refunded"][0] == "a"),
        "{lines:?}"
    );
}

#[tokio::test]
async fn a_constant_cost_is_taken_from_every_rate() {
    // Goal: `cost = 3`. Method: two fit into seven, and the refusal says that one is left.
    let gateway = Gateway::start(
        "[limit.a]\nkey = \"client.ip\"\nrates = [\"7 per 1h\"]\ncost = 3\n\
         [[route]]\npath = \"/\"\nlimits = [\"a\"]\nrespond = { status = 200 }\n",
    )
    .await;
    let mut client = gateway.client().await;
    for (status, left) in [(200, 4), (200, 1), (429, 1), (429, 1)] {
        let answer = client.get("/").await;
        assert_eq!((answer.status, answer.remaining("a")), (status, left));
    }
}

#[tokio::test]
async fn a_request_is_charged_when_its_body_has_come() {
    // Goal: a client that holds its body back charges no window that is over by then. Method: a clock that the test sets two hours ahead
    // between the head and the body; the next request of the number, one an hour, is rejected.
    const NOW: u64 = 1_800_000_000;
    let rules = "[limit.phone]\nkey = \"body.json.phone\"\non_missing = \"refuse\"\nrates = [\"1 per 1h\"]\n\
        [[route]]\npath = \"/*\"\nlimits = [\"phone\"]\norigin = \"app\"\n";
    let origin = Origin::echo();
    let gateway = Setup::new()
        .origin("app", &origin)
        .rules(rules)
        .with_driven_clock()
        .start()
        .await;
    let mut clock = gateway.clock();
    clock.set(Timestamp::from_secs(NOW));
    let body = "{\"phone\":\"015112345678\"}";
    let mut raw = gateway.raw().await;
    raw.write(format!(
        "POST /otp HTTP/1.1\r\nhost: a.test\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
         expect: 100-continue\r\n\r\n",
        body.len()
    ))
    .await;
    assert_eq!(raw.read_response().await.status, 100);
    clock.set(Timestamp::from_secs(NOW + 2 * 60 * 60));
    raw.write(body).await;
    assert_eq!(raw.read_response().await.status, 200);
    let again = post("/otp")
        .header("content-type", "application/json")
        .body(body);
    assert_eq!(gateway.send(again).await.status, 429);
}

#[tokio::test]
async fn the_cost_is_in_no_interim_answer() {
    // Goal: the field of a cost is for the gateway alone, in whatever head it comes. Method: an early hint with it and another field, which
    // passes, before the final answer.
    let rules = "[limit.a]\nkey = \"client.ip\"\nrates = [\"100 per 1h\"]\ncost = \"response.header.x-cost\"\nmax_cost = 40\n\
        [[route]]\npath = \"/*\"\nlimits = [\"a\"]\norigin = \"app\"\n";
    let origin = Origin::answering(|_| {
        let heads = [
            "HTTP/1.1 103 Early Hints\r\nX-Cost: 9\r\nLink: </a.css>\r\n\r\n",
            "HTTP/1.1 200 OK\r\nX-Cost: 7\r\nContent-Length: 2\r\n\r\nok",
        ];
        let heads = heads.map(|head| head.as_bytes().to_vec());
        Reply::Pieces(heads.to_vec(), Duration::from_millis(20))
    });
    let gateway = Gateway::before(&origin, rules).await;
    let mut raw = gateway.raw().await;
    raw.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
    let hint = raw.read_response_to_head().await;
    assert_eq!(
        (hint.status, hint.header("link"), hint.header("x-cost")),
        (103, Some("</a.css>"), None)
    );
    let answer = raw.read_response().await;
    assert_eq!((answer.text(), answer.header("x-cost")), ("ok", None));
    assert_eq!(gateway.get("/").await.remaining("a"), 92);
}

#[tokio::test]
async fn the_response_sets_the_cost_of_a_request() {
    // Goal: `cost = "response.header.NAME"`: charged as sent, within `max_cost`; one where the value is malformed; the field is not
    // for clients. Method: what the next request finds left.
    let rules = "[limit.a]\nkey = \"client.ip\"\nrates = [\"100 per 1h\"]\ncost = \"response.header.x-cost\"\nmax_cost = 40\n\
        [[route]]\npath = \"/*\"\nlimits = [\"a\"]\norigin = \"app\"\n";
    let origin = Origin::answering(|received| {
        let answer = Answer::new(200).header("X-Other", "stays");
        match received.target.trim_start_matches('/') {
            "none" => answer.into(),
            cost => answer.header("X-Cost", cost).into(),
        }
    });
    let gateway = Gateway::before(&origin, rules).await;
    let mut client = gateway.client().await;
    let mut left = 100;
    for (path, cost) in [
        ("/7", 7),
        ("/0", 0),
        ("/none", 1),
        ("/ten", 1),
        ("/-3", 1),
        ("/99999999999", 40),
    ] {
        let answer = client.get(path).await;
        assert_eq!(
            (answer.status, answer.remaining("a")),
            (200, left - 1),
            "{path}"
        );
        assert_eq!(
            (answer.header("x-cost"), answer.header("x-other")),
            (None, Some("stays"))
        );
        left -= cost;
    }
    assert_eq!(client.get("/40").await.remaining("a"), left - 1);
    assert_eq!(client.get("/40").await.status, 200, "ten were left");
    assert_eq!(client.get("/0").await.status, 429, "what is spent is spent");

    let metrics = gateway.metrics().await;
    let sum = |name| metrics.sum(name, &[("limit", "a")]);
    assert_eq!(sum("sluicegate_limit_response_cost_total"), 127.0);
    assert_eq!(sum("sluicegate_limit_cost_malformed_total"), 2.0);
    let lines = gateway.access_lines(9).await;
    assert!(lines.iter().any(|line| line["cost"]["a"] == 7), "{lines:?}");
    let malformed = lines.iter().filter(|line| line["cost_malformed"][0] == "a");
    assert_eq!(malformed.count(), 2);
}
