//! Which server a request goes to, and what the client is told when it gets no proper answer there.

use std::time::{Duration, Instant};

use crate::harness::*;

const PASS: &str = "[[route]]\npath = \"/*\"\norigin = \"app\"\n";

#[tokio::test]
async fn two_servers_take_turns() {
    // Goal: round robin. Method: twenty requests one after another; both names must come up ten times.
    let (one, other) = (Origin::named("one"), Origin::named("other"));
    let gateway = Setup::new()
        .servers("app", &[one.address(), other.address()])
        .rules(PASS)
        .start()
        .await;
    let mut client = gateway.client().await;
    for _ in 0..20 {
        assert_eq!(client.get("/").await.status, 200);
    }
    assert_eq!((one.count(), other.count()), (10, 10));
}

#[tokio::test]
async fn a_failed_server_is_taken_out_and_put_back_when_it_returns() {
    // Goal: active health checks. Method: stop one of two servers, wait until twenty requests in a row find the other one at
    // the first try, start it again at its old address, wait until it is asked again. The retry lets no request fail.
    let (one, other) = (Origin::named("one"), Origin::named("other"));
    let setup = Setup::new().servers("app", &[one.address(), other.address()]);
    let gateway = setup
        .origin_line("health = { path = \"/up\", interval = \"100ms\", unhealthy_after = 1 }")
        .rules(PASS)
        .start()
        .await;
    let mut client = gateway.client().await;
    let address = other.stop();
    let mut sent = 0;
    eventually(
        "requests go to the living server at the first try",
        async || {
            for _ in 0..20 {
                assert_eq!(client.get("/").await.status, 200);
            }
            sent += 20;
            let lines = gateway.access_lines(sent).await;
            lines[sent - 20..]
                .iter()
                .all(|line| line["attempts"] == 1)
                .then_some(())
        },
    )
    .await;
    let returned = Origin::answering_at(address, |_| Answer::new(200).body("returned").into());
    let mut client = gateway.client().await;
    eventually("the returned server is asked again", async || {
        (client.get("/").await.text() == "returned").then_some(())
    })
    .await;
    assert!(returned.count() > 0);
}

#[tokio::test]
async fn a_server_that_answers_its_check_badly_is_taken_out() {
    // Goal: a check with a path looks at the status. Method: one server says 500 to /up; requests avoid it.
    let well = Origin::named("well");
    let ill = Origin::answering(|request| {
        let status = if request.target == "/up" { 500 } else { 200 };
        Answer::new(status).body("ill").into()
    });
    let gateway = Setup::new()
        .servers("app", &[well.address(), ill.address()])
        .origin_line("health = { path = \"/up\", interval = \"100ms\", unhealthy_after = 1 }")
        .rules(PASS)
        .start()
        .await;
    let mut client = gateway.client().await;
    eventually(
        "ten requests in a row find the healthy server",
        async || {
            for _ in 0..10 {
                if client.get("/").await.text() != "well" {
                    return None;
                }
            }
            Some(())
        },
    )
    .await;
}

#[tokio::test]
async fn an_unreachable_origin_is_502() {
    // Goal: connection refused is distinguished from a timeout. Method: a closed port.
    let gateway = Setup::new()
        .servers("app", &[free_address()])
        .rules(PASS)
        .start()
        .await;
    gateway.get("/").await.assert_problem(502);
}

#[tokio::test]
async fn an_origin_without_a_healthy_server_is_503() {
    // Goal: known-dead servers are not tried. Method: a dead address with health checks, asked until the checks know.
    let gateway = Setup::new()
        .servers("app", &[free_address()])
        .origin_line("health = { interval = \"100ms\", unhealthy_after = 1 }")
        .rules(PASS)
        .start()
        .await;
    let answer = eventually("503", async || {
        let answer = gateway.get("/").await;
        (answer.status != 502).then_some(answer)
    })
    .await;
    answer.assert_problem(503);
}

#[tokio::test]
async fn a_connection_that_fails_is_retried_on_another_server() {
    // Goal: `retries` hides a server that is down, without health checks. Method: one dead address of two, all answers 200.
    let origin = Origin::named("alive");
    let gateway = Setup::new()
        .servers("app", &[free_address(), origin.address()])
        .rules(PASS)
        .start()
        .await;
    let mut client = gateway.client().await;
    for _ in 0..10 {
        assert_eq!(client.get("/").await.status, 200);
    }
    let attempts: Vec<_> = gateway
        .access_lines(10)
        .await
        .iter()
        .map(|line| line["attempts"].as_u64())
        .collect();
    assert!(attempts.contains(&Some(2)), "{attempts:?}");
}

#[tokio::test]
async fn a_silent_origin_is_504_after_the_read_timeout() {
    // Goal: the read timeout. Method: an origin that accepts and says nothing; the wait is neither cut nor stretched.
    let origin = Origin::answering(|_| Reply::Hang);
    let setup = Setup::new()
        .origin("app", &origin)
        .origin_line("timeouts = { read = \"300ms\" }");
    let gateway = setup.rules(PASS).start().await;
    let started = Instant::now();
    gateway.get("/").await.assert_problem(504);
    assert!(
        started.elapsed() >= Duration::from_millis(300),
        "{:?}",
        started.elapsed()
    );
    assert!(
        started.elapsed() < Duration::from_secs(20),
        "{:?}",
        started.elapsed()
    );
}

#[tokio::test]
async fn a_timeout_on_a_kept_connection_counts_as_any_other() {
    // Goal: a silent origin is not asked again for free because its connection was used before: that would double the load on a server
    // that hangs, past the retry budget, and hide it from outlier detection. Method: a connection that answered once, then an origin that
    // hangs; one attempt, one failure of the server.
    let origin = Origin::answering(|received| match received.target.as_str() {
        "/hang" => Reply::Hang,
        _ => Reply::Answer(Answer::new(200)),
    });
    let gateway = Setup::new()
        .origin("app", &origin)
        .origin_line("timeouts = { read = \"300ms\" }")
        .rules(PASS)
        .start()
        .await;
    let mut client = gateway.client().await;
    let first = client.get("/").await;
    let second = client.get("/hang").await;
    second.assert_problem(504);
    let lines = gateway.lines_of(&[first, second]).await;
    assert_eq!(lines[1]["attempts"], 1, "{}", lines[1]);
    assert_eq!(lines[1]["failure"], "ttfb-timeout", "{}", lines[1]);
    let connections: Vec<_> = origin.requests().iter().map(|one| one.connection).collect();
    assert_eq!(connections, [0, 0]);
}

#[tokio::test]
async fn an_answer_that_exceeds_the_total_timeout_is_504() {
    // Goal: the total timeout bounds what the read timeout would allow. Method: an origin that hangs; reads may take longer.
    let origin = Origin::answering(|_| Reply::Hang);
    let setup = Setup::new()
        .origin("app", &origin)
        .origin_line("timeouts = { read = \"30s\", total = \"400ms\" }");
    let gateway = setup.rules(PASS).start().await;
    let started = Instant::now();
    gateway.get("/").await.assert_problem(504);
    assert!(
        started.elapsed() < Duration::from_secs(20),
        "{:?}",
        started.elapsed()
    );
}

#[tokio::test]
async fn a_dripping_answer_is_cut_at_the_total_timeout() {
    // Goal: an origin cannot hold a request forever by one byte at a time. Method: pieces within the read timeout for a
    // minute; the answer must break off, not look complete.
    let origin = Origin::answering(|_| Reply::Drip {
        piece: "x",
        every: Duration::from_millis(100),
        pieces: 600,
    });
    let setup = Setup::new()
        .origin("app", &origin)
        .origin_line("timeouts = { read = \"5s\", total = \"700ms\" }");
    let gateway = setup.rules(PASS).start().await;
    let started = Instant::now();
    let answer = gateway.client().await.try_send(get("/")).await;
    assert!(answer.is_err(), "{answer:?}");
    assert!(
        started.elapsed() < Duration::from_secs(30),
        "{:?}",
        started.elapsed()
    );
}

#[tokio::test]
async fn a_slow_but_allowed_answer_passes() {
    // Goal: timeouts cut nothing that is within them. Method: half of the read timeout.
    let slow = Reply::After(
        Duration::from_millis(400),
        Box::new(Answer::new(200).body("late").into()),
    );
    let origin = Origin::answering(move |_| slow.clone());
    let setup = Setup::new()
        .origin("app", &origin)
        .origin_line("timeouts = { read = \"4s\" }");
    let gateway = setup.rules(PASS).start().await;
    assert_eq!(gateway.get("/").await.text(), "late");
}

#[tokio::test]
async fn an_answer_that_is_no_http_is_502() {
    // Goal: a malformed answer counts as the origin's failure, and the client gets 502. Method: garbage, and a close without a byte.
    let origin = Origin::answering(|request| match request.target.as_str() {
        "/garbage" => Reply::Raw(b"SSH-2.0-OpenSSH_9.2\r\n\r\n".to_vec()),
        _ => Reply::Close,
    });
    let gateway = Gateway::passing(&origin).await;
    gateway.get("/garbage").await.assert_problem(502);
    gateway.post("/closed").await.assert_problem(502);
}

#[tokio::test]
async fn an_answer_cut_short_does_not_look_complete() {
    // Goal: a truncated body reaches the client as truncated. Method: 1,000 bytes promised, 10 sent; hyper must complain.
    let origin = Origin::answering(|_| Reply::CutShort {
        promised: 1000,
        sent: 10,
    });
    let gateway = Gateway::passing(&origin).await;
    let answer = gateway.client().await.try_send(get("/")).await;
    assert!(answer.is_err(), "{answer:?}");
    assert_eq!(gateway.access_line().await["outcome"], "origin-failed");
}

#[tokio::test]
async fn a_client_that_leaves_frees_its_origin_connection() {
    // Goal: an abandoned request holds nothing and is logged as such. Method: the client leaves while the origin hangs.
    let origin = Origin::answering(|_| Reply::Hang);
    let gateway = Gateway::passing(&origin).await;
    let mut raw = gateway.raw().await;
    raw.write("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n").await;
    origin.is_asked(1).await;
    drop(raw);
    eventually("the origin's connection is closed", async || {
        (origin.open_connections() == 0).then_some(())
    })
    .await;
    assert_eq!(gateway.access_line().await["outcome"], "client-gone");
}

#[tokio::test]
async fn an_origin_that_closes_without_saying_so_fails_no_get() {
    // Goal: a pooled connection may die while it is taken; what is safe to repeat is sent again. Method: an origin that closes
    // after each answer without saying so; fifty requests in a row, as fast as they go.
    let origin = Origin::answering(|_| Reply::AnswerAndClose(Answer::new(200).body("ok")));
    let gateway = Gateway::passing(&origin).await;
    let mut client = gateway.client().await;
    for n in 0..50 {
        assert_eq!(client.get("/").await.status, 200, "get {n}");
    }
    assert_eq!(origin.count(), 50, "no request was answered twice");
}

#[tokio::test]
async fn a_connection_closed_while_idle_is_not_taken_for_a_post() {
    // Goal: what must not be sent twice (RFC 9110 §9.2.2) never meets a connection that is known to be dead. Method: the same
    // origin; each request follows once the origin has closed. One thread, so that what the kernel knows the gateway knows.
    let origin = Origin::answering(|_| Reply::AnswerAndClose(Answer::new(200).body("ok")));
    let gateway = Gateway::before(&origin, &format!("[server]\nthreads = 1\n{PASS}")).await;
    let mut client = gateway.client().await;
    for n in 0..25 {
        let answer = client.send(post("/").body("x")).await;
        assert_eq!(answer.status, 200, "post {n}");
        eventually("the origin has closed", async || {
            (origin.open_connections() == 0).then_some(())
        })
        .await;
    }
    assert_eq!(origin.count(), 25, "no request was sent twice");
}
