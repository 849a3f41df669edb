//! `max_connections` where connections differ: one that is idle and of no use to a request must not keep it from the server.

use super::authority::{Authority, Good, TELL, TlsOrigin};
use crate::harness::{Gateway, Origin, Reply, Setup, Turnstile, Writing};

const ROUTE: &str = "[[route]]\npath = \"/*\"\norigin = \"app\"";
const TLS: &str = r#"tls = { ca_file = "../ca.pem", server_name = "app.internal" }"#;

/// One connection, and one who waits for it.
fn before(turnstile: &Turnstile, authority: &Authority, protocol: &str) -> Setup {
    Setup::new()
        .servers("app", &[turnstile.address])
        .origin_line(TLS)
        .origin_line(&format!("protocol = \"{protocol}\""))
        // A client has its answer a moment before the place of its request is left: the next one may have to wait.
        .origin_line("circuit_breaker = { max_connections = 1, max_pending = 1 }")
        .rules(ROUTE)
        .file("ca.pem", &authority.pem())
}

async fn speaks(gateway: &Gateway, version: &str) {
    let answer = gateway.get("/").await;
    assert!(answer.text().contains(version), "{version}: {answer:?}");
}

#[tokio::test]
async fn a_connection_of_rules_before_gives_way() {
    // Goal: what is spoken changes with a reload, and the first request after it is served, within the bound. Method: the one
    // connection is idle and of the other version each time.
    let authority = Authority::new();
    let origin = TlsOrigin::telling(&authority, "app.internal", "ssl http2").await;
    let turnstile = Turnstile::before(origin.address);
    let mut gateway = before(&turnstile, &authority, "h2").start().await;
    speaks(&gateway, "HTTP/2.0").await;
    for (protocol, version) in [
        ("http/1.1", "HTTP/1.1"),
        ("h2", "HTTP/2.0"),
        ("auto", "HTTP/2.0"),
    ] {
        let generation = gateway.generation().await;
        gateway.write_setup(before(&turnstile, &authority, protocol), Writing::Rename);
        gateway.serves_after(generation).await;
        speaks(&gateway, version).await;
    }
    assert_eq!(turnstile.most(), 1);
}

#[tokio::test]
async fn an_idle_connection_of_http2_gives_way_to_a_websocket() {
    // Goal: an upgrade does not use a connection of HTTP/2. Method: the one connection speaks HTTP/2 and is idle; a WebSocket comes, and
    // after it a request again.
    let authority = Authority::new();
    let certified = authority.certify("app.internal", Good::Now);
    let echo = Origin::answering(|_| Reply::WebSocket);
    let lines = format!(
        "location /socket {{ proxy_pass http://{}; proxy_http_version 1.1; proxy_set_header Upgrade $http_upgrade; \
         proxy_set_header Connection upgrade; }}\n{TELL}",
        echo.address()
    );
    let origin = TlsOrigin::start(&authority, &certified, "ssl http2", &lines).await;
    let turnstile = Turnstile::before(origin.address);
    let gateway = before(&turnstile, &authority, "auto").start().await;
    for _ in 0..3 {
        speaks(&gateway, "HTTP/2.0").await;
        let socket = gateway.websocket().await;
        gateway.get("/").await.assert_problem(503);
        drop(socket);
        crate::harness::eventually("it is closed", async || {
            (gateway.get("/").await.status == 200).then_some(())
        })
        .await;
    }
    assert_eq!(turnstile.most(), 1);
}
