//! What clients may press against before anything is decided: connections, time, slowness.

use std::time::{Duration, Instant};

use crate::harness::*;

/// The pace of slow clients.
const TENTH: Duration = Duration::from_millis(100);

const PASS: &str = "[[route]]\npath = \"/*\"\norigin = \"app\"\n";
/// Requests for `/free` are answered, others go to `app`.
const HANG_OR_RESPOND: &str = "[[route]]\npath = \"/*\"\norigin = \"app\"\n\
     [[route]]\npath = \"/free\"\nrespond = { status = 200, body = \"here\" }\n";
const RESPOND: &str = "[[route]]\npath = \"/*\"\nrespond = { status = 200, body = \"here\" }\n";

async fn refused(gateway: &Gateway, cap: &str) -> f64 {
    let metrics = gateway.metrics().await;
    metrics.sum("sluicegate_connections_refused_total", &[("cap", cap)])
}

/// Whether a new connection from `address` is let in: it is answered.
async fn is_let_in(gateway: &Gateway, address: &str) -> bool {
    let mut client = gateway.client_from(address).await;
    client.try_send(get("/free")).await.is_ok()
}

/// A connection from `address` with a request that hangs at its origin.
async fn hanging(gateway: &Gateway, address: &str) -> RawConnection {
    let mut raw = RawConnection::connect_from(address, gateway.address()).await;
    raw.write("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n").await;
    raw
}

#[tokio::test]
async fn one_client_has_no_more_than_its_connections() {
    // Goal: `max_connections_per_client`. Method: as many as may be, idle; the next is closed without a byte and counted, another client
    // is served, and a place that is given back is there again.
    let rules = format!("[server]\nmax_connections_per_client = 5\n{RESPOND}");
    let gateway = Gateway::start(&rules).await;
    let mut kept = Vec::new();
    for _ in 0..5 {
        let mut client = gateway.client_from("127.0.0.7").await;
        assert_eq!(client.get("/").await.status, 200);
        kept.push(client);
    }
    assert!(!is_let_in(&gateway, "127.0.0.7").await);
    assert!(is_let_in(&gateway, "127.0.0.8").await);
    assert_eq!(refused(&gateway, "max_connections_per_client").await, 1.0);
    drop(kept.pop());
    eventually("the place is free", async || {
        is_let_in(&gateway, "127.0.0.7").await.then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_connection_too_many_is_closed_without_a_byte() {
    // Goal: `max_connections`, whatever is spoken. Method: three carry requests of three clients, one of them by HTTP/2; a fourth reads
    // the end at once.
    let origin = Origin::answering(|_| Reply::Hang);
    let rules =
        format!("[server]\nmax_connections = 3\nmax_connections_per_client = 3\n{HANG_OR_RESPOND}");
    let gateway = Gateway::before(&origin, &rules).await;
    let held = [
        hanging(&gateway, "127.0.0.2").await,
        hanging(&gateway, "127.0.0.3").await,
    ];
    let third = gateway.h2c().await;
    let third = tokio::spawn(async move { third.send(get("/")).await });
    origin.is_asked(3).await;
    let mut raw = gateway.raw().await;
    assert_eq!(raw.read_to_end().await, b"");
    assert_eq!(refused(&gateway, "max_connections").await, 1.0);
    assert_eq!(
        gateway.metrics().await.sum("sluicegate_connections", &[]),
        3.0
    );
    third.abort();
    eventually("the place is free", async || {
        is_let_in(&gateway, "127.0.0.4").await.then_some(())
    })
    .await;
    drop(held);
}

#[tokio::test]
async fn a_trusted_proxy_has_no_bound_of_its_own() {
    // Goal: a CDN in front is not taken for one client. Method: more connections from a trusted address than a client may have.
    let rules = format!(
        "[server]\nmax_connections_per_client = 2\n[client]\ntrusted_proxies = [\"127.0.0.9\"]\n{RESPOND}"
    );
    let gateway = Gateway::start(&rules).await;
    let mut kept = Vec::new();
    for _ in 0..10 {
        let mut client = gateway.client_from("127.0.0.9").await;
        assert_eq!(client.get("/").await.status, 200);
        kept.push(client);
    }
}

#[tokio::test]
async fn the_caps_follow_a_reload() {
    // Goal: an operator under attack need not restart. Method: two connections whose requests hang, each cap set to two, a third; then to
    // four.
    let origin = Origin::answering(|_| Reply::Hang);
    for caps in [[(100, 2), (100, 4)], [(2, 100), (4, 100)]] {
        let rules = |(all, each): (u32, u32)| {
            format!(
                "[server]\nmax_connections = {all}\nmax_connections_per_client = {each}\n{HANG_OR_RESPOND}"
            )
        };
        let mut gateway = Gateway::before(&origin, &rules((100, 100))).await;
        let asked = origin.count();
        let kept = [
            hanging(&gateway, "127.0.0.7").await,
            hanging(&gateway, "127.0.0.7").await,
        ];
        origin.is_asked(asked + 2).await;
        gateway.reload(&rules(caps[0])).await;
        assert!(!is_let_in(&gateway, "127.0.0.7").await);
        gateway.reload(&rules(caps[1])).await;
        assert!(is_let_in(&gateway, "127.0.0.7").await);
        drop(kept);
    }
}

#[tokio::test]
async fn a_head_that_drips_is_408_and_has_its_line() {
    // Goal: `client_header_timeout` holds for the whole head. Method: a byte every tenth of a second, well within every other timeout.
    let gateway = Gateway::start(&format!(
        "[server]\nclient_header_timeout = \"1s\"\n{RESPOND}"
    ))
    .await;
    let mut raw = gateway.raw().await;
    let started = Instant::now();
    let mut head = "GET / HTTP/1.1\r\nHost: a.test\r\nX-Long: "
        .bytes()
        .chain(std::iter::repeat(b'x'));
    at_a_pace(TENTH, async || {
        let is_open = raw.try_write([head.next()?]).await.is_ok();
        (!is_open || started.elapsed() > Duration::from_millis(1500)).then_some(())
    })
    .await;
    raw.read_response().await.assert_problem(408);
    assert!(
        started.elapsed() >= Duration::from_secs(1),
        "{:?}",
        started.elapsed()
    );
    assert_eq!(gateway.access_line().await["status"], 408);
}

#[tokio::test]
async fn a_target_too_long_is_414_in_both_protocols() {
    // Goal: `max_uri_bytes`. Method: one byte below and one above, and one that never ends.
    let rules = format!("[server]\nmax_uri_bytes = 1000\n{RESPOND}");
    let gateway = Gateway::start(&rules).await;
    let target = |bytes: usize| format!("/{}", "x".repeat(bytes - 1));
    assert_eq!(gateway.get(&target(1000)).await.status, 200);
    gateway.get(&target(1001)).await.assert_problem(414);
    let long = gateway.h2c().await.send(get(&target(1001))).await;
    long.assert_problem(414);
    assert_eq!(
        gateway.h2c().await.send(get(&target(1000))).await.status,
        200
    );
    let mut raw = gateway.raw().await;
    raw.write(format!("GET {}", target(9000))).await;
    raw.read_response().await.assert_problem(414);
}

#[tokio::test]
async fn a_body_that_drips_is_408_and_frees_its_origin() {
    // Goal: `client_min_rate`: a byte now and then must not hold a request forever. Method: a byte every tenth of a second, each far
    // within the timeout of a read.
    let origin = Origin::echo();
    let rules =
        format!("[server]\nclient_read_timeout = \"1s\"\nclient_min_rate = \"1KiB\"\n{PASS}");
    let gateway = Gateway::before(&origin, &rules).await;
    let mut raw = gateway.raw().await;
    raw.write("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1000\r\n\r\n")
        .await;
    let started = Instant::now();
    at_a_pace(TENTH, async || {
        let is_open = raw.try_write("x").await.is_ok();
        (!is_open || started.elapsed() >= Duration::from_secs(3)).then_some(())
    })
    .await;
    raw.read_response().await.assert_problem(408);
    assert!(
        started.elapsed() < Duration::from_secs(10),
        "{:?}",
        started.elapsed()
    );
    eventually("the origin's connection is closed", async || {
        (origin.open_connections() == 0).then_some(())
    })
    .await;
    assert!(origin.requests().iter().all(|request| !request.whole));
}

#[tokio::test]
async fn a_body_that_is_slow_but_fast_enough_arrives() {
    // Goal: no upload above the minimum rate is cut off. Method: the same timeouts, three times as long, at four times the rate.
    let origin = Origin::echo();
    let rules =
        format!("[server]\nclient_read_timeout = \"1s\"\nclient_min_rate = \"1KiB\"\n{PASS}");
    let gateway = Gateway::before(&origin, &rules).await;
    let mut raw = gateway.raw().await;
    raw.write("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 12000\r\n\r\n")
        .await;
    let mut sent = 0;
    at_a_pace(TENTH, async || {
        raw.write("x".repeat(400)).await;
        sent += 400;
        (sent == 12_000).then_some(())
    })
    .await;
    assert_eq!(raw.read_response().await.status, 200);
    assert_eq!(origin.only_request().body.len(), 12000);
}

#[tokio::test]
async fn a_silent_body_is_408() {
    // Goal: `client_read_timeout` is answered with 408, where a client may still read. Method: half a body.
    let origin = Origin::echo();
    let gateway = Gateway::before(
        &origin,
        &format!("[server]\nclient_read_timeout = \"500ms\"\n{PASS}"),
    )
    .await;
    let mut raw = gateway.raw().await;
    raw.write("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 10\r\n\r\nhalf")
        .await;
    raw.read_response().await.assert_problem(408);
}

#[tokio::test]
async fn a_client_that_never_reads_holds_no_request() {
    // Goal: the heads of answers have a write timeout too. Method: thousands of requests at once whose answers have large heads and no
    // body, none of them read; when the buffers of the kernel are full, the gateway must give up, while the connection is still held.
    let origin = Origin::answering(|_| {
        Answer::new(204)
            .header("X-Large", &"x".repeat(15_000))
            .into()
    });
    let gateway = Gateway::before(
        &origin,
        &format!("[server]\nclient_write_timeout = \"1s\"\n{PASS}"),
    )
    .await;
    let mut raw = gateway.raw().await;
    let requests = "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n".repeat(4000);
    let _ = tokio::time::timeout(Duration::from_secs(5), raw.try_write(requests)).await;
    eventually("its requests are served", async || {
        (origin.count() > 0).then_some(())
    })
    .await;
    eventually("the connection is given up", async || {
        let metrics = gateway.metrics().await;
        let open = metrics.sum("sluicegate_connections", &[]);
        (open == 0.0).then_some(())
    })
    .await;
    assert!(
        origin.count() < 4000,
        "{} answers fitted into the buffers",
        origin.count()
    );
    assert_eq!(
        gateway
            .metrics()
            .await
            .sum("sluicegate_requests_in_flight", &[]),
        0.0
    );
}

#[tokio::test]
async fn a_crowd_costs_little_and_others_are_served() {
    // Goal: idle and slow connections take memory only, and little of it. Method: a thousand that were served once and idle, two hundred
    // that never end their head; the memory of each stays within what a connection's buffers are, and another client is served at once.
    let gateway = Gateway::start(&format!(
        "[server]\nmax_connections_per_client = 5000\n{RESPOND}"
    ))
    .await;
    let mut other = gateway.client_from("127.0.0.2").await;
    assert_eq!(other.get("/").await.status, 200);
    let before = gateway.resident_bytes();
    let mut kept = Vec::new();
    for _ in 0..1000 {
        let mut raw = gateway.raw().await;
        raw.write("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n").await;
        assert_eq!(raw.read_response().await.status, 200);
        kept.push(raw);
    }
    for _ in 0..200 {
        let mut raw = gateway.raw().await;
        raw.write("GET / HTTP/1.1\r\nHost: a.test\r\nX-Slow: ")
            .await;
        kept.push(raw);
    }
    eventually("all are there", async || {
        let open = gateway.metrics().await.sum("sluicegate_connections", &[]);
        (open >= 1200.0).then_some(())
    })
    .await;
    for _ in 0..100 {
        assert_eq!(other.get("/").await.status, 200);
    }
    let each = gateway.resident_bytes().saturating_sub(before) / kept.len() as u64;
    assert!(each < 48 * 1024, "{each} bytes a connection");
}
