//! Idle connections to servers: every thread can use them, they end in time, and bounds hold over all threads and both paths.

use futures_util::future::join_all;

use super::*;

/// More threads than a client needs, each with connections of its own.
const THREADS: &str = "[server]\nthreads = 4\n";

/// A gateway of several threads before these servers, with further lines of `[origin.app]`.
fn threaded(origins: &[&Origin], lines: &str) -> Setup {
    let addresses: Vec<SocketAddr> = origins.iter().map(|origin| origin.address()).collect();
    Setup::new()
        .servers("app", &addresses)
        .origin_line(lines)
        .rules(&format!("{THREADS}{PASS}"))
}

/// Asks one after the other, each on a connection of its own, which one of the threads serves.
async fn ask_in_turn(gateway: &Gateway, requests: usize) {
    for number in 1..=requests {
        assert_eq!(gateway.get("/").await.status, 200);
        // The line is written when the connection to the origin is idle again.
        gateway.access_lines(number).await;
    }
}

#[tokio::test]
async fn an_idle_connection_serves_every_thread() {
    // Goal: a thread without an idle connection takes one that another thread has used, before it opens one, with a bound and without.
    // Method: four threads and requests on twenty connections, one after the other; the origin accepts one connection.
    for circuit in ["", "circuit_breaker = { max_connections = 9 }"] {
        let origin = Origin::named("origin");
        let gateway = threaded(&[&origin], circuit).start().await;
        ask_in_turn(&gateway, 20).await;
        assert_eq!(origin.connections(), 1, "{circuit}");
    }
}

#[tokio::test]
async fn an_idle_connection_ends_before_its_server_closes_it() {
    // Goal: a request is not sent on a connection that its server is about to close. Method: an origin that announces two seconds and
    // closes nothing itself: the gateway closes the connection.
    let origin = Origin::answering(|_| {
        let answer = Answer::new(200).body("kept");
        answer.header("Keep-Alive", "timeout=2, max=100").into()
    });
    let gateway = threaded(&[&origin], "").start().await;
    assert_eq!(gateway.get("/").await.header("keep-alive"), None);
    assert_eq!(origin.connections(), 1);
    eventually("the connection is closed", async || {
        (origin.open_connections() == 0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn an_idle_connection_ends_in_time() {
    // Goal: `timeouts.idle` holds, and connections to a server that a reload removes are closed soon. Method: a gateway with the timeout;
    // one without, whose two servers become one, and whose origin then gets another name.
    let origin = Origin::named("origin");
    let closes = async |origin: &Origin| {
        eventually("the connection is closed", async || {
            (origin.open_connections() == 0).then_some(())
        })
        .await;
    };
    let gateway = threaded(&[&origin], "timeouts = { idle = \"1s\" }")
        .start()
        .await;
    ask_in_turn(&gateway, 3).await;
    closes(&origin).await;
    drop(gateway);

    let other = Origin::named("other");
    let mut gateway = threaded(&[&origin, &other], "").start().await;
    ask_in_turn(&gateway, 8).await;
    assert_eq!(
        (origin.open_connections(), other.open_connections()),
        (1, 1)
    );
    gateway.write_setup(threaded(&[&origin], ""), Writing::Rename);
    closes(&other).await;
    assert_eq!(origin.open_connections(), 1);
    let renamed = format!("{THREADS}{}", PASS.replace("app", "renamed"));
    let setup = Setup::new().origin("renamed", &origin).rules(&renamed);
    gateway.write_setup(setup, Writing::Rename);
    closes(&origin).await;
}

#[tokio::test]
async fn a_bound_holds_over_all_threads() {
    // Goal: a server never gets more connections than `max_connections`, and no request fails or waits for one that is idle in another
    // thread. Method: fifty clients at once before two connections; a third of them asks a route with a cache; POST is never sent twice.
    let origin = Origin::answering(|_| Answer::new(200).header("cache-control", "no-store").into());
    let turnstile = Turnstile::before(origin.address());
    let stored = "[[route]]\npath = \"/stored/*\"\norigin = \"app\"\n[route.cache]\n";
    let gateway = Setup::new()
        .servers("app", &[turnstile.address])
        .origin_line(
            "circuit_breaker = { max_connections = 2, max_pending = 100, pending_timeout = \"1m\" }",
        )
        .rules(&format!("{THREADS}{PASS}{stored}"))
        .start()
        .await;
    let ask = async |number: usize| {
        let mut client = gateway.client().await;
        let target = ["/plain", "/other", "/stored/one"][number % 3];
        for turn in 0..20 {
            let method = ["GET", "POST"][turn % 2];
            let answer = client.send(request(method, target)).await;
            assert_eq!(answer.status, 200, "{answer:?}");
        }
    };
    join_all((0..50).map(ask)).await;
    assert_eq!(turnstile.most(), 2);
    assert_eq!(origin.count(), 1000);
    let metrics = gateway.metrics().await;
    let refused = "sluicegate_origin_circuit_refused_total";
    assert_eq!(metrics.sum(refused, &[]), 0.0);
}
