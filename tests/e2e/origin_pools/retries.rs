//! Which failures lead to another try, how many, and at whose expense.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use tokio::net::TcpStream;

use super::*;
use crate::harness::frames::{
    DATA, END_HEADERS, END_STREAM, Frames, GOAWAY, HEADERS, INTERNAL_ERROR, NO_ERROR,
    REFUSED_STREAM, RST_STREAM, WINDOW_UPDATE, frame,
};

#[tokio::test]
async fn a_retryable_answer_is_retried_and_charged_once() {
    // Goal: a 503 becomes another try where the rules say so, for idempotent methods, and no limit is charged for it; one that counts by
    // the answer sees the last. Method: one of two servers answers 503; GETs and POSTs under a limit over all and one
    // that counts 503 alone.
    let (ill, well) = (answering(503), Origin::named("well"));
    let setup = Setup::new()
        .servers("app", &[ill.address(), well.address()])
        .origin_line("retry = { on = [503], min_per_second = 1000 }");
    let limit = "[limit.all]\nkey = \"global\"\nrates = [\"100 per 1h\"]\n\
                 [limit.failed]\nkey = \"host\"\nrates = [\"100 per 1h\"]\ncount_if = \"response.status == 503\"\n";
    let route = "[[route]]\npath = \"/*\"\norigin = \"app\"\nlimits = [\"all\", \"failed\"]\n";
    let gateway = setup.rules(&format!("{limit}{route}")).start().await;
    let mut client = gateway.client().await;
    for sent in 1..=10 {
        let answer = client.get("/").await;
        assert_eq!((answer.status, answer.text()), (200, "well"));
        assert_eq!(answer.remaining("all"), 100 - sent);
    }
    assert_eq!(well.count(), 10);
    let retried = ill.count();
    assert!(retried >= 4, "{retried}");
    let lines = gateway.access_lines(10).await;
    let attempts: u64 = lines
        .iter()
        .map(|line| line["attempts"].as_u64().unwrap())
        .sum();
    assert_eq!(attempts, 10 + retried as u64);
    // What counts by the answer was given back: the final ones were 200.
    let mut statuses: Vec<u16> = Vec::new();
    for _ in 0..2 {
        statuses.push(client.post("/").await.status);
    }
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 503], "a POST is not sent twice");
    let last = client.get("/").await;
    assert_eq!(last.remaining("all"), 87);
    assert!(last.remaining("failed") >= 98, "one POST of 503 counts");
    let retries = gateway
        .metrics()
        .await
        .sum("sluicegate_origin_retries_total", &[]);
    assert_eq!(retries, (ill.count() - 1) as f64);
}

#[tokio::test]
async fn a_body_is_sent_again_whole() {
    // Goal: what was read of a body is at hand for the next server. Method: PUTs of 1 and of 40,000 bytes; one server breaks
    // the connection.
    let (broken, well) = (Origin::answering(|_| Reply::Close), Origin::named("well"));
    let retry = "retry = { on = [\"reset\"], min_per_second = 1000 }";
    let gateway = before(&[&broken, &well], retry).await;
    for bytes in [1, 40_000] {
        for _ in 0..2 {
            let request = get("/").body(vec![b'x'; bytes]);
            assert_eq!(gateway.send(request).await.text(), "well");
        }
    }
    assert!(broken.count() >= 2);
    let whole = well
        .requests()
        .iter()
        .map(|request| request.body.len())
        .collect::<Vec<_>>();
    assert_eq!(whole, [1, 1, 40_000, 40_000]);
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_not_begun_again() {
    // Goal: what the client has got a part of is never followed by another answer, whatever the rules retry. Method: one of two servers
    // breaks off in its body; of two requests one gets its part alone.
    let broken = Origin::answering(|_| Reply::CutShort {
        promised: 100_000,
        sent: 50_000,
    });
    let well = Origin::named("well");
    let retry = "retry = { on = [\"reset\"], min_per_second = 1000 }";
    let gateway = before(&[&broken, &well], retry).await;
    let mut lengths = Vec::new();
    for _ in 0..2 {
        let mut raw = gateway.raw().await;
        raw.write("GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n")
            .await;
        let head = raw.read_response_to_head().await;
        assert_eq!(head.status, 200);
        lengths.push(raw.read_to_end().await.len());
    }
    lengths.sort_unstable();
    assert_eq!(lengths[0], "well".len());
    assert!((5..=50_000).contains(&lengths[1]), "{lengths:?}");
    assert_eq!((broken.count(), well.count()), (1, 1));
}

#[tokio::test]
async fn a_silent_server_costs_a_try_and_not_the_request() {
    // Goal: "timeout" in `on`; each try has timeouts of its own. Method: one of two servers never answers.
    let (silent, well) = (Origin::answering(|_| Reply::Hang), Origin::named("well"));
    let lines =
        "timeouts = { read = \"200ms\" }\nretry = { on = [\"timeout\"], min_per_second = 1000 }";
    let gateway = before(&[&silent, &well], lines).await;
    let mut client = gateway.client().await;
    for _ in 0..4 {
        assert_eq!(client.get("/").await.text(), "well");
    }
    assert!(silent.count() >= 1);
    assert_eq!(
        server(&gateway, silent.address()).await["last_failure"]["outcome"],
        "timeout"
    );
}

#[tokio::test]
async fn retries_to_a_failed_origin_stay_within_the_budget() {
    // Goal: the budget bounds what retries add to an origin that fails. Method: all servers answer 503, five retries each are asked for;
    // the attempts beyond the requests are at most five a second, whatever comes.
    let (one, other) = (answering(503), answering(503));
    let lines = "retries = 5\nretry = { on = [503], budget = \"0%\", min_per_second = 5 }";
    let gateway = before(&[&one, &other], lines).await;
    let started = Instant::now();
    let mut client = gateway.client().await;
    for _ in 0..200 {
        assert_eq!(client.get("/").await.status, 503);
    }
    let extra = one.count() + other.count() - 200;
    // The service that renews budgets may be late by a tick.
    let seconds = started.elapsed() + Duration::from_millis(100);
    let most = 5 * (seconds.as_secs() as usize + 2);
    assert!((5..=most).contains(&extra), "{extra} of {most}");
    let metrics = gateway.metrics().await;
    assert_eq!(
        metrics.sum("sluicegate_origin_retries_total", &[]),
        extra as f64
    );
    assert!(metrics.sum("sluicegate_origin_retry_budget_exhausted_total", &[]) > 0.0);
}

/// An origin that answers 503 to the first request for each path.
fn failing_first() -> Origin {
    let asked = Mutex::new(BTreeSet::new());
    Origin::answering(move |request| {
        let is_first = asked.lock().unwrap().insert(request.target.clone());
        let status = if is_first { 503 } else { 200 };
        Answer::new(status).body("flaky").into()
    })
}

/// Waits until no request of the gateway is at this server.
async fn is_idle(gateway: &Gateway, origin: &Origin) {
    eventually("the server has no request", async || {
        let server = server(gateway, origin.address()).await;
        (server["in_flight"] == 0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_retry_returns_to_the_server_that_failed_while_no_other_has_room() {
    // Goal: a retry prefers servers that have not failed the request, and meets the same one again only while every other one is full,
    // by `max_requests` or by its adaptive limit. Method: a server that fails the first request for each path, and one with one place,
    // free, then taken by a request that it holds, then free again; the texts, the attempts and the servers of the log.
    for bound in [
        "circuit_breaker = { max_requests = 1 }",
        "adaptive_concurrency = { min = 1, max = 1 }",
    ] {
        let flaky = failing_first();
        let steady = Origin::answering(|request| match &*request.target {
            "/hold" => Reply::Hang,
            _ => Answer::new(200).body("steady").into(),
        });
        let retry = "retry = { on = [503], min_per_second = 1000 }";
        let gateway = before(&[&flaky, &steady], &format!("{bound}\n{retry}")).await;
        let mut client = gateway.client().await;
        for turn in 0..10 {
            let answer = client.get(&format!("/free/{turn}")).await;
            assert_eq!((answer.status, answer.text()), (200, "steady"));
        }
        let failed = flaky.count();
        assert!(failed >= 4, "{failed}");
        assert_eq!(steady.count(), 10);

        // A client has its answer a moment before the place is free.
        is_idle(&gateway, &steady).await;
        let mut stuck = gateway.client().await;
        let stuck = tokio::spawn(async move { stuck.try_send(get("/hold")).await });
        eventually("the other server holds a request", async || {
            let requests = steady.requests();
            requests
                .iter()
                .any(|request| request.target == "/hold")
                .then_some(())
        })
        .await;
        let held = (flaky.count(), steady.count());
        for turn in 0..5 {
            let answer = client.get(&format!("/held/{turn}")).await;
            assert_eq!((answer.status, answer.text()), (200, "flaky"), "{bound}");
            let line = gateway.lines_of(&[answer]).await.remove(0);
            assert_eq!(line["attempts"], 2, "{line}");
            assert_eq!(line["origin_addr"], flaky.address().to_string());
        }
        assert_eq!((flaky.count(), steady.count()), (held.0 + 10, held.1));

        stuck.abort();
        is_idle(&gateway, &steady).await;
        for turn in 0..10 {
            let answer = client.get(&format!("/again/{turn}")).await;
            assert_eq!((answer.status, answer.text()), (200, "steady"));
        }
        let of_flaky = flaky.requests();
        let again = of_flaky
            .iter()
            .filter(|request| request.target.starts_with("/again/"));
        let again: BTreeSet<_> = again.map(|request| &request.target).collect();
        assert_eq!(
            flaky.count(),
            held.0 + 10 + again.len(),
            "none was asked twice"
        );
    }
}

/// An origin of HTTP/2 that turns its first request down in this way, reads the others to their end, and answers with how many bytes
/// came.
async fn turning_down(how: Down) -> SocketAddr {
    let listener = listen();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let mut down = Some(how);
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer_frames(stream, down.take()));
        }
    });
    address
}

/// A gateway before such an origin, with these rules for retries.
async fn before_frames(how: Down, retry: &str) -> Gateway {
    Setup::new()
        .servers("app", &[turning_down(how).await])
        .origin_line(&format!("protocol = \"h2c\"\n{retry}"))
        .rules(PASS)
        .start()
        .await
}

/// How the frames of [`turning_down`] say no.
#[derive(Clone, Copy)]
enum Down {
    /// RST_STREAM, with this reason.
    Reset(u32),
    /// GOAWAY, before the first stream, with this reason.
    GoAway(u32),
    /// The answer 503.
    Unavailable,
}

impl Down {
    fn frame(self, stream: u32) -> Vec<u8> {
        match self {
            Self::Reset(reason) => frame(RST_STREAM, 0, stream, &reason.to_be_bytes()),
            Self::GoAway(reason) => {
                let [last, reason] = [0, reason].map(u32::to_be_bytes);
                frame(GOAWAY, 0, 0, &[last, reason].concat())
            }
            Self::Unavailable => {
                // A value without an index, whose name is the eighth of the static table of HPACK.
                let status = b"\x08\x03503";
                frame(HEADERS, END_HEADERS | END_STREAM, stream, status)
            }
        }
    }
}

async fn answer_frames(stream: TcpStream, mut down: Option<Down>) {
    let mut frames = Frames::accept(stream).await;
    let (mut refused, mut bytes) = (0, 0);
    while let Some(got) = frames.next().await {
        if got.kind == HEADERS
            && let Some(down) = down.take()
        {
            refused = got.stream;
            frames.write(&down.frame(got.stream)).await;
        }
        if got.kind == DATA && !got.payload.is_empty() {
            // There is room for as much again, on the connection and on the stream.
            let more = u32::try_from(got.payload.len()).unwrap().to_be_bytes();
            let updates = [0, got.stream].map(|stream| frame(WINDOW_UPDATE, 0, stream, &more));
            frames.write(&updates.concat()).await;
        }
        if got.stream == refused || !matches!(got.kind, HEADERS | DATA) {
            continue;
        }
        if got.kind == DATA {
            bytes += got.payload.len();
        }
        if got.flags & END_STREAM != 0 {
            // 0x88 is `:status: 200` in the static table of HPACK.
            let head = frame(HEADERS, END_HEADERS, got.stream, &[0x88]);
            let body = frame(DATA, END_STREAM, got.stream, bytes.to_string().as_bytes());
            frames.write(&[head, body].concat()).await;
            bytes = 0;
        }
    }
}

#[tokio::test]
async fn a_stream_that_the_origin_did_not_look_at_is_sent_again_whatever_its_method() {
    // Goal: a stream that is refused, or that a GOAWAY leaves out, was not acted on (RFC 9113 §8.7, §6.8), so even a POST goes out again,
    // whole, without rules for retries and at no cost to the server; one that broke in another way does not. Method: one server, which
    // turns its first request down and counts the body of the next.
    for (down, status, attempts, first) in [
        (Down::Reset(REFUSED_STREAM), 200, 2, "abandoned"),
        (Down::GoAway(NO_ERROR), 200, 2, "abandoned"),
        (Down::GoAway(INTERNAL_ERROR), 200, 2, "abandoned"),
        (Down::Reset(INTERNAL_ERROR), 502, 1, "reset"),
    ] {
        for bytes in [0, 9, 30_000] {
            let gateway = before_frames(down, "").await;
            let answer = gateway.send(post("/").body(vec![b'x'; bytes])).await;
            assert_eq!(answer.status, status, "{bytes} bytes");
            if status == 200 {
                assert_eq!(answer.text(), bytes.to_string());
            }
            let line = gateway.access_lines(1).await.remove(0);
            assert_eq!(line["attempts"], attempts, "{line}");
            let metrics = eventually("all have ended", async || {
                let metrics = gateway.metrics().await;
                let ended = metrics.sum("sluicegate_origin_attempts_total", &[]);
                (ended == f64::from(attempts)).then_some(metrics)
            })
            .await;
            let first = metrics.sum("sluicegate_origin_attempts_total", &[("outcome", first)]);
            assert_eq!(first, 1.0);
            assert_eq!(metrics.sum("sluicegate_origin_retries_total", &[]), 0.0);
        }
    }
}

#[tokio::test]
async fn a_post_that_an_origin_of_http2_may_have_acted_on_is_sent_once() {
    // Goal: a body that is at hand, since the stream might have been refused, makes no request repeatable that is not idempotent
    // (RFC 9110 §9.2.2). Method: a stream that breaks, and an answer 503, both of which the rules retry; POSTs are sent once, a GET again.
    let retry = "retry = { on = [\"reset\", 503], min_per_second = 1000 }";
    for (down, status) in [(Down::Reset(INTERNAL_ERROR), 502), (Down::Unavailable, 503)] {
        for bytes in [0, 9] {
            let gateway = before_frames(down, retry).await;
            let answer = gateway.send(post("/").body(vec![b'x'; bytes])).await;
            assert_eq!(answer.status, status, "{bytes} bytes");
            assert_eq!(gateway.access_line().await["attempts"], 1);
        }
        let gateway = before_frames(down, retry).await;
        assert_eq!(gateway.get("/").await.status, 200);
        assert_eq!(gateway.access_line().await["attempts"], 2);
    }
}

#[tokio::test]
async fn a_body_that_is_no_longer_at_hand_is_not_sent_in_part() {
    // Goal: an origin gets a body whole or not at all. Method: bodies larger than what is kept, and a stream that is refused once; by
    // then
    // the gateway has read more or less of it.
    const BYTES: usize = 300_000;
    for _ in 0..5 {
        let gateway = before_frames(Down::Reset(REFUSED_STREAM), "").await;
        let answer = gateway.send(post("/").body(vec![b'x'; BYTES])).await;
        let line = gateway.access_lines(1).await.remove(0);
        match line["attempts"].as_u64().unwrap() {
            1 => assert_eq!(answer.status, 502),
            _ => assert_eq!((answer.status, answer.text()), (200, "300000"), "{line}"),
        }
    }
}
