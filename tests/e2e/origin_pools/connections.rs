//! How many connections a server gets for requests: never more than `max_connections`, and no request fails for want of one that comes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use http::Response;

use super::*;

/// Who waits, waits long enough.
const QUEUE: &str = "max_pending = 10000, pending_timeout = \"1m\"";

/// A gateway whose origin lies behind the turnstile.
fn behind(turnstile: &Turnstile, circuit: &str) -> Setup {
    Setup::new()
        .servers("app", &[turnstile.address])
        .origin_line(&format!("circuit_breaker = {{ {circuit} }}"))
        .rules(PASS)
}

/// Answers after a moment; `end` says how a connection goes on.
fn brief(end: fn(Answer) -> Reply) -> Origin {
    Origin::answering(move |_| {
        let answer = end(Answer::new(200).body("said"));
        Reply::After(Duration::from_millis(2), Box::new(answer))
    })
}

/// Clients that keep their connections and ask by turns with GET, and with POST, which is never sent twice. Every request is answered.
async fn crowd(gateway: &Gateway, clients: usize, requests: usize) {
    let one = async |_| {
        let mut client = gateway.client().await;
        for turn in 0..requests {
            let answer = match turn % 2 {
                0 => client.get("/").await,
                _ => client.send(post("/").body("x")).await,
            };
            assert_eq!(answer.status, 200, "{answer:?}");
        }
    };
    join_all((0..clients).map(one)).await;
}

/// How many connections `/status` has.
async fn open(gateway: &Gateway) -> u64 {
    let status = gateway.status().await;
    status["origins"][0]["servers"][0]["connections"]
        .as_u64()
        .unwrap_or_else(|| panic!("{status}"))
}

#[tokio::test]
async fn a_crowd_shares_the_connections_of_http1() {
    // Goal: the bound holds strictly, and costs no request. Method: 60 clients at once, through four connections; what the gateway counts
    // is what there is.
    let origin = brief(Reply::Answer);
    let turnstile = Turnstile::before(origin.address());
    let gateway = behind(&turnstile, &format!("max_connections = 4, {QUEUE}"))
        .start()
        .await;
    crowd(&gateway, 60, 20).await;
    assert_eq!(turnstile.most(), 4);
    eventually("the gateway counts what there is", async || {
        (open(&gateway).await as usize == origin.open_connections()).then_some(())
    })
    .await;
    // Who was refused a connection is neither a try nor a failure.
    let attempts = "sluicegate_origin_attempts_total";
    let answered = [("outcome", "2xx")];
    let metrics = eventually("all have ended", async || {
        let metrics = gateway.metrics().await;
        (metrics.sum(attempts, &answered) == 1200.0).then_some(metrics)
    })
    .await;
    assert_eq!(metrics.sum(attempts, &[]), 1200.0);
    assert!(metrics.sum("sluicegate_origin_server_connections", &[]) <= 4.0);
    let refused = "sluicegate_origin_circuit_refused_total";
    assert_eq!(metrics.sum(refused, &[]), 0.0);
}

#[tokio::test]
async fn connections_that_close_make_room() {
    // Goal: the permit of a connection that closes is released, whichever side closes it and however. Method: an origin that says so,
    // and one
    // that does not, which a kept connection may meet; then only GET is sent again.
    for end in [
        |answer: Answer| Reply::AnswerAndClose(answer.header("Connection", "close")),
        |answer: Answer| Reply::Answer(answer.header("Connection", "close")),
    ] {
        let origin = brief(end);
        let turnstile = Turnstile::before(origin.address());
        let gateway = behind(&turnstile, &format!("max_connections = 3, {QUEUE}"))
            .start()
            .await;
        crowd(&gateway, 30, 10).await;
        assert_eq!(turnstile.most(), 3);
        assert_eq!(turnstile.came(), 300);
        eventually("all are closed", async || {
            (open(&gateway).await == 0).then_some(())
        })
        .await;
    }
    let origin = brief(Reply::AnswerAndClose);
    let turnstile = Turnstile::before(origin.address());
    let gateway = behind(&turnstile, &format!("max_connections = 3, {QUEUE}"))
        .start()
        .await;
    for _ in 0..10 {
        let all = join_all((0..30).map(|_| gateway.get("/"))).await;
        // One that met a close several times in a row is answered with 502, as without a bound.
        assert!(all.iter().all(|answer| answer.status != 503), "{all:?}");
    }
    assert!(turnstile.most() <= 3, "{}", turnstile.most());
    eventually("all are closed", async || {
        (open(&gateway).await == 0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn streams_of_a_client_share_them_too() {
    // Goal: the client's HTTP version makes no difference. Method: 90 streams at once on one connection of HTTP/2.
    let origin = brief(Reply::Answer);
    let turnstile = Turnstile::before(origin.address());
    let gateway = behind(&turnstile, &format!("max_connections = 4, {QUEUE}"))
        .start()
        .await;
    let client = gateway.h2c().await;
    for _ in 0..5 {
        let all = join_all((0..90).map(|_| client.send(get("/")))).await;
        assert!(all.iter().all(|answer| answer.status == 200), "{all:?}");
    }
    assert_eq!(turnstile.most(), 4);
}

/// An origin that takes this many streams on a connection of HTTP/2 without TLS, each for a moment.
async fn streaming(streams: u32) -> SocketAddr {
    let listener = listen();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut builder = h2::server::Builder::new();
                builder.max_concurrent_streams(streams);
                let mut connection = builder.handshake::<_, Bytes>(stream).await.unwrap();
                while let Some(Ok((request, mut respond))) = connection.accept().await {
                    tokio::spawn(async move {
                        // An answer before the end of the body would cost the client its connection.
                        let mut body = request.into_body();
                        while let Some(Ok(piece)) = body.data().await {
                            let _ = body.flow_control().release_capacity(piece.len());
                        }
                        tokio::time::sleep(Duration::from_millis(2)).await;
                        // A stream that the gateway gave up is no failure of the test.
                        if let Ok(mut out) = respond.send_response(Response::new(()), false) {
                            let _ = out.send_data(Bytes::from_static(b"said"), true);
                        }
                    });
                }
            });
        }
    });
    address
}

#[tokio::test]
async fn a_crowd_shares_the_connections_of_http2() {
    // Goal: requests share streams, wait for one where all are taken, and a connection that is being made is waited for. Method: origins
    // that take many streams and few; more requests at once than fit, on connections that are not there yet.
    for (streams, connections) in [(100, 1), (100, 2), (3, 2), (1, 2)] {
        let turnstile = Turnstile::before(streaming(streams).await);
        let circuit = format!("max_connections = {connections}, {QUEUE}");
        let gateway = behind(&turnstile, &circuit)
            .origin_line("protocol = \"h2c\"")
            .start()
            .await;
        crowd(&gateway, 60, 10).await;
        assert!(
            turnstile.most() <= connections,
            "{streams}: {}",
            turnstile.most()
        );
        assert!(open(&gateway).await as usize <= connections);
    }
}

#[tokio::test]
async fn a_burst_waits_for_the_connection_that_is_made() {
    // Goal: requests that one connection carries need no queue, though it is not there when they come. Method: no queue; 80 at once.
    let turnstile = Turnstile::before(streaming(100).await);
    let gateway = behind(&turnstile, "max_connections = 1")
        .origin_line("protocol = \"h2c\"")
        .start()
        .await;
    let client = gateway.h2c().await;
    let all = join_all((0..80).map(|_| client.send(get("/")))).await;
    assert!(all.iter().all(|answer| answer.status == 200), "{all:?}");
    assert_eq!((turnstile.most(), turnstile.came()), (1, 1));
}

#[tokio::test]
async fn a_request_without_a_connection_is_answered_as_by_a_full_server() {
    // Goal: 503 with Retry-After once no connection is left and waiting brought none; a WebSocket has one to its end. Method: two places,
    // two WebSockets, which end. (A client has its answer a moment before the place of its request is left, so the next one may wait.)
    let origin = Origin::answering(|received| match received.header("upgrade") {
        Some(_) => Reply::WebSocket,
        None => Answer::new(200).into(),
    });
    let turnstile = Turnstile::before(origin.address());
    let circuit = "max_connections = 2, max_pending = 1";
    let gateway = behind(&turnstile, circuit).start().await;
    let first = gateway.websocket().await;
    for _ in 0..5 {
        assert_eq!(gateway.get("/").await.status, 200);
    }
    let second = gateway.websocket().await;
    assert_eq!(open(&gateway).await, 2);
    let refused = gateway.get("/").await;
    refused.assert_problem(503);
    assert_eq!(refused.retry_after(), 1);
    drop(second);
    eventually("there is room again", async || {
        (gateway.get("/").await.status == 200).then_some(())
    })
    .await;
    drop(first);
    assert_eq!(turnstile.most(), 2);
}

#[tokio::test]
async fn a_reload_closes_connections_that_no_request_can_use() {
    // Goal: connections of the rules before are neither counted twice nor kept forever, and no request fails. Method: reloads under load
    // that change the bound and, with it, which connections may be used again; a WebSocket that stays.
    let origin = Origin::answering(|received| match received.header("upgrade") {
        Some(_) => Reply::WebSocket,
        None => Reply::After(Duration::from_millis(2), Box::new(Answer::new(200).into())),
    });
    let turnstile = Turnstile::before(origin.address());
    let setup = |most| behind(&turnstile, &format!("max_connections = {most}, {QUEUE}"));
    let mut gateway = setup(6).start().await;
    let _socket = gateway.websocket().await;
    let address = gateway.address();
    let over = Arc::new(AtomicBool::new(false));
    let load = tokio::spawn({
        let over = Arc::clone(&over);
        async move {
            let one = async |_| {
                let mut client = Client::connect(address).await;
                while !over.load(Ordering::Relaxed) {
                    let answer = client.get("/").await;
                    assert_eq!(answer.status, 200, "{answer:?}");
                }
            };
            join_all((0..20).map(one)).await;
        }
    });
    for most in [5, 4, 3, 2] {
        let generation = gateway.generation().await;
        gateway.write_setup(setup(most), Writing::Rename);
        gateway.serves_after(generation).await;
        eventually("no more are open than may be", async || {
            (open(&gateway).await <= most).then_some(())
        })
        .await;
    }
    over.store(true, Ordering::Relaxed);
    load.await.unwrap();
    assert!(turnstile.most() <= 6, "{}", turnstile.most());
}

#[tokio::test]
async fn a_server_that_is_away_keeps_no_permits() {
    // Goal: connections that cannot be made are failures of the server, not want of permits. Method: a closed port, one permit; then the
    // server is back.
    let origin = Origin::named("back");
    let address = origin.stop();
    let gateway = Setup::new()
        .servers("app", &[address])
        .origin_line(&format!(
            "circuit_breaker = {{ max_connections = 1, {QUEUE} }}"
        ))
        .rules(PASS)
        .start()
        .await;
    let all = join_all((0..20).map(|_| gateway.get("/"))).await;
    assert!(all.iter().all(|answer| answer.status == 502), "{all:?}");
    let failed = [("outcome", "connect")];
    let failures = gateway
        .metrics()
        .await
        .sum("sluicegate_origin_attempts_total", &failed);
    assert_eq!(failures, 40.0);
    assert_eq!(open(&gateway).await, 0);
    let _origin = Origin::answering_at(address, |_| Answer::new(200).into());
    assert_eq!(gateway.get("/").await.status, 200);
    assert_eq!(open(&gateway).await, 1);
}

#[tokio::test]
async fn checks_have_connections_of_their_own() {
    // Goal: a server whose connections are all taken is not taken out for it. Method: one connection, taken by a request that hangs;
    // checks go on, and find it well.
    let origin = Origin::answering(|received| match received.target.as_str() {
        "/healthz" => Answer::new(200).into(),
        _ => Reply::Hang,
    });
    let health = "health = { path = \"/healthz\", interval = \"20ms\", unhealthy_after = 1 }";
    let gateway = before(
        &[&origin],
        &format!("circuit_breaker = {{ max_connections = 1 }}\n{health}"),
    )
    .await;
    let mut stuck = gateway.client().await;
    let stuck = tokio::spawn(async move { stuck.try_send(get("/")).await });
    eventually("it has its connection", async || {
        (open(&gateway).await == 1).then_some(())
    })
    .await;
    let checked = origin.count();
    eventually("checks go on", async || {
        (origin.count() > checked + 5).then_some(())
    })
    .await;
    assert_eq!(server(&gateway, origin.address()).await["state"], "up");
    stuck.abort();
    eventually("it is closed with its request", async || {
        (open(&gateway).await == 0).then_some(())
    })
    .await;
}

/// A gateway that has one connection of HTTP/2 for each of these servers.
async fn one_each(servers: &[SocketAddr]) -> Gateway {
    Setup::new()
        .servers("app", servers)
        .origin_line(&format!(
            "protocol = \"h2c\"\ncircuit_breaker = {{ max_connections = 1, {QUEUE} }}"
        ))
        .rules(PASS)
        .start()
        .await
}

#[tokio::test]
async fn another_server_is_used_if_one_has_no_free_connection() {
    // Goal: a request without a connection goes to a server that has one. Method: two servers of HTTP/2 with one stream each; one of
    // them hangs.
    let stuck = hanging().await;
    let well = Turnstile::before(streaming(1).await);
    let gateway = one_each(&[stuck, well.address]).await;
    let client = gateway.h2c().await;
    // Before it heard how many streams there may be, the gateway may send one more than that, which hangs too.
    let (mut hanging, mut answered) = (Vec::new(), 0);
    while answered < 20 {
        let client = client.clone();
        let mut one = tokio::spawn(async move { client.send(get("/")).await.status });
        match tokio::time::timeout(Duration::from_secs(2), &mut one).await {
            Ok(status) => {
                assert_eq!(status.unwrap(), 200);
                answered += 1;
            }
            Err(_) => hanging.push(one),
        }
    }
    assert!(matches!(hanging.len(), 1 | 2), "{}", hanging.len());
    assert_eq!(well.most(), 1);
    hanging.iter().for_each(|one| one.abort());
}

/// An origin that takes one stream of HTTP/2 and does not answer.
async fn hanging() -> SocketAddr {
    let listener = listen();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let mut all = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            let mut builder = h2::server::Builder::new();
            builder.max_concurrent_streams(1);
            let mut connection = builder.handshake::<_, Bytes>(stream).await.unwrap();
            all.push(tokio::spawn(async move {
                let mut held = Vec::new();
                while let Some(Ok(one)) = connection.accept().await {
                    held.push(one);
                }
            }));
        }
    });
    address
}
