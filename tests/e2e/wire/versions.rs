//! Which version of HTTP is spoken with an origin, and what of a request survives the change of versions.

use std::time::Duration;

use super::authority::{Authority, Good, TELL, TlsOrigin};
use super::echo::EchoOrigin;
use crate::harness::{Origin, Reply, Setup, eventually, get, post};

const ROUTE: &str = "[[route]]\npath = \"/*\"\norigin = \"app\"";
const TLS: &str = r#"tls = { ca_file = "../ca.pem", server_name = "app.internal" }"#;

#[tokio::test]
async fn the_version_is_what_both_sides_take() {
    // Goal: `protocol` decides, by ALPN; HTTP/2 alone never falls back to HTTP/1.1 silently. Method: nginx with and without http2,
    // which tells
    // what was spoken.
    let authority = Authority::new();
    let both = TlsOrigin::telling(&authority, "app.internal", "ssl http2").await;
    let old = TlsOrigin::telling(&authority, "app.internal", "ssl").await;
    for (protocol, origin, spoken) in [
        ("http/1.1", &both, Some("HTTP/1.1")),
        ("h2", &both, Some("HTTP/2.0")),
        ("auto", &both, Some("HTTP/2.0")),
        ("auto", &old, Some("HTTP/1.1")),
        ("h2", &old, None),
    ] {
        let gateway = Setup::new()
            .servers("app", &[origin.address])
            .origin_line(TLS)
            .origin_line(&format!("protocol = \"{protocol}\""))
            .rules(ROUTE)
            .file("ca.pem", &authority.pem())
            .start()
            .await;
        for _ in 0..2 {
            let answer = gateway.get("/").await;
            match spoken {
                Some(version) => assert!(answer.text().contains(version), "{protocol}: {answer:?}"),
                None => assert_eq!(answer.status, 502, "{protocol}"),
            }
        }
        let complains = gateway.stderr().contains("WARN");
        assert_eq!(complains, spoken.is_none(), "{}", gateway.stderr());
    }
}

#[tokio::test]
async fn a_request_reaches_an_h2c_origin_whole() {
    // Goal: method, target, fields, host and body arrive by HTTP/2 without TLS, from clients of either version; answers come back with
    // their trailers left to who can take them. Method: an origin that tells what it received.
    let origin = EchoOrigin::start().await;
    let gateway = Setup::new()
        .servers("app", &[origin.address])
        .origin_line("protocol = \"h2c\"\nhost = \"app.internal\"")
        .rules(ROUTE)
        .start()
        .await;
    let request = || {
        post("/told/a?b=c")
            .header("x-of-client", "1")
            .header("te", "trailers")
            .body("hello")
    };
    for answer in [
        gateway.send(request()).await,
        gateway.h2c().await.send(request()).await,
    ] {
        assert_eq!(answer.status, 200, "{answer:?}");
        let told = answer.text();
        for expected in [
            "POST http://app.internal/told/a?b=c HTTP/2.0",
            "x-of-client: 1",
            "x-forwarded-for: 127.0.0.1",
            "x-forwarded-host: ",
            "body: hello",
        ] {
            assert!(told.contains(expected), "{expected} is not in {told}");
        }
        assert!(!told.contains("\nhost:"), "{told}");
    }
    let told = gateway.h2c().await.send(request()).await;
    assert!(told.text().contains("te: trailers"), "{told:?}");
}

#[tokio::test]
async fn many_requests_share_one_connection_of_http2() {
    // Goal: streams, not connections. Method: 60 requests to an origin that answers when all are there. Each is sent once the one before
    // has arrived: while a stream is begun, Pingora has its connection out of the pool, and who comes at that moment makes another.
    const TOGETHER: usize = 60;
    let origin = EchoOrigin::start().await;
    let gateway = Setup::new()
        .servers("app", &[origin.address])
        .origin_line("protocol = \"h2c\"")
        .rules(ROUTE)
        .start()
        .await;
    let client = gateway.h2c().await;
    let mut sent = Vec::new();
    for count in 1..=TOGETHER {
        let client = client.clone();
        let request = get(&format!("/together/{TOGETHER}"));
        sent.push(tokio::spawn(async move { client.send(request).await }));
        eventually("the request arrives", async || {
            (origin.requests() == count).then_some(())
        })
        .await;
    }
    for answer in sent {
        assert_eq!(answer.await.unwrap().status, 200);
    }
    assert_eq!(origin.connections(), 1);
}

#[tokio::test]
async fn a_websocket_passes_to_an_origin_with_tls() {
    // Goal: the upgrade is asked for by HTTP/1.1, though the origin takes HTTP/2 too. Method: a real WebSocket client; nginx with TLS
    // before an origin that sends every message back.
    let authority = Authority::new();
    let certified = authority.certify("app.internal", Good::Now);
    let echo = Origin::answering(|_| Reply::WebSocket);
    let lines = format!(
        "location /socket {{ proxy_pass http://{}; proxy_http_version 1.1; proxy_set_header Upgrade $http_upgrade; \
         proxy_set_header Connection upgrade; }}\n{TELL}",
        echo.address()
    );
    let origin = TlsOrigin::start(&authority, &certified, "ssl http2", &lines).await;
    for protocol in ["auto", "http/1.1"] {
        let gateway = Setup::new()
            .servers("app", &[origin.address])
            .origin_line(TLS)
            .origin_line(&format!("protocol = \"{protocol}\""))
            .rules(ROUTE)
            .file("ca.pem", &authority.pem())
            .start()
            .await;
        // A connection of HTTP/2 lies ready, and must not be taken.
        assert_eq!(gateway.get("/").await.status, 200);
        let address = gateway.address();
        let echoed = tokio::task::spawn_blocking(move || {
            use tokio_tungstenite::tungstenite::{Message, client};
            let stream = std::net::TcpStream::connect(address).unwrap();
            stream
                .set_read_timeout(Some(Duration::from_secs(15)))
                .unwrap();
            let (mut socket, _) = client(format!("ws://{address}/socket"), stream).unwrap();
            socket.send(Message::text("hello")).unwrap();
            socket.read().unwrap()
        });
        assert_eq!(echoed.await.unwrap().into_text().unwrap(), "hello");
    }
}
