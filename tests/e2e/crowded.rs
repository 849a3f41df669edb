//! Connections at their maximum: who holds most makes room, and nobody loses a request.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::harness::frames::{self, Frames, GOAWAY, NO_ERROR, PING};
use crate::harness::*;

const RESPOND: &str = "[[route]]\npath = \"/*\"\nrespond = { status = 200, body = \"here\" }\n";

/// The addresses that take what they get.
const FLOOD: [&str; 4] = ["127.0.0.11", "127.0.0.12", "127.0.0.13", "127.0.0.14"];

/// Rules for so many connections, without a share of one client, and these lines of `[server]`.
fn rules(most: usize, lines: &str) -> String {
    format!(
        "[server]\nmax_connections = {most}\nmax_connections_per_client = 1000\n{lines}\n{RESPOND}"
    )
}

/// A listener under TLS with this certificate.
fn under_tls(pair: &Pair) -> Setup {
    Setup::new()
        .file("site.pem", &pair.certificate)
        .file("site.key", &pair.key)
        .listener_line("[listener.tls]")
        .listener_line(
            "certificates = [{ cert_file = \"../site.pem\", key_file = \"../site.key\" }]",
        )
}

async fn reclaimed(gateway: &Gateway, state: &str) -> f64 {
    let metrics = gateway.metrics().await;
    let labels = [("state", state)];
    metrics.sum("sluicegate_connections_reclaimed_total", &labels)
}

async fn open(gateway: &Gateway) -> f64 {
    gateway.metrics().await.sum("sluicegate_connections", &[])
}

/// Waits until so many connections are open.
async fn are_open(gateway: &Gateway, most: usize) {
    eventually("every connection is accepted", async || {
        (open(gateway).await == most as f64).then_some(())
    })
    .await;
}

/// Requests that a fifth address sends, one after the other, each over a connection of its own.
async fn is_served(gateway: &Gateway, requests: usize) {
    for request in 0..requests {
        let mut client = gateway.client_from("127.0.0.20").await;
        assert_eq!(client.get("/").await.status, 200, "request {request}");
    }
}

/// What the connections of a flood do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FloodKind {
    /// They send nothing.
    Silent,
    /// They have sent a request, and idle.
    Idle,
    /// They have sent a part of a head.
    Partial,
    /// They have sent the preface of HTTP/2 and their settings.
    Http2,
}

async fn flooding(flood: FloodKind, from: &str, to: SocketAddr) -> RawConnection {
    let mut raw = RawConnection::connect_from(from, to).await;
    match flood {
        FloodKind::Silent => {}
        FloodKind::Idle => {
            raw.write("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n").await;
            assert_eq!(raw.read_response().await.status, 200);
        }
        FloodKind::Partial => raw.write("GET / HTTP/1.1\r\nHost: a.test\r\n").await,
        FloodKind::Http2 => {
            raw.write("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
            raw.write(frames::frame(frames::SETTINGS, 0, 0, &[])).await;
        }
    }
    raw
}

#[tokio::test]
async fn four_addresses_do_not_close_the_gateway() {
    // Goal: whatever a flood does with its connections, a fifth address is served at once, and keeps the connection that it had before.
    // Method: four addresses with a hundred connections each, of 400; the fifth sends requests over an old connection and over new ones.
    for flood in [
        FloodKind::Silent,
        FloodKind::Idle,
        FloodKind::Partial,
        FloodKind::Http2,
    ] {
        let gateway = Gateway::start(&rules(400, "client_header_timeout = \"1m\"")).await;
        let mut old = gateway.client_from("127.0.0.20").await;
        assert_eq!(old.get("/").await.status, 200);
        let mut kept = Vec::new();
        for from in FLOOD {
            for _ in 0..100 {
                kept.push(flooding(flood, from, gateway.address()).await);
            }
        }
        are_open(&gateway, 400).await;
        is_served(&gateway, 60).await;
        assert_eq!(old.get("/").await.status, 200, "{flood:?}");
        let state = match flood {
            FloodKind::Partial => "partial",
            _ => "idle",
        };
        // Of these places the fifth address needs one after the other: its own connections close.
        assert!(reclaimed(&gateway, state).await >= 1.0, "{flood:?}");
    }
}

#[tokio::test]
async fn a_share_is_as_much_as_is_left() {
    // Goal: without a configured maximum of one client one address takes half, and the others find room. Method: more silent connections of
    // one address than may be, which get no place of others; then clients.
    let rules =
        format!("[server]\nmax_connections = 40\nclient_header_timeout = \"1m\"\n{RESPOND}");
    let gateway = Gateway::start(&rules).await;
    let mut kept = Vec::new();
    for _ in 0..60 {
        kept.push(gateway.raw().await);
    }
    eventually("further ones take the places of its own", async || {
        (reclaimed(&gateway, "idle").await == 40.0).then_some(())
    })
    .await;
    assert_eq!(open(&gateway).await, 20.0);
    assert_eq!(kept[0].read_to_end().await, b"");
    kept[59]
        .write("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n")
        .await;
    assert_eq!(kept[59].read_response().await.status, 200);
    is_served(&gateway, 5).await;
}

#[tokio::test]
async fn the_connection_that_idled_longest_goes_first() {
    // Goal: between clients with as much the longest wait decides, also between HTTP/1 and HTTP/2. Method: eight clients with one
    // connection each, the first of which sends another request last; one new client after the other.
    let gateway = Gateway::start(&rules(8, "")).await;
    let mut clients = Vec::new();
    for at in 1..=6 {
        let mut client = gateway.client_from(&format!("127.0.1.{at}")).await;
        assert_eq!(client.get("/").await.status, 200);
        clients.push(client);
    }
    let mut streams = Frames::connect_from("127.0.1.7", gateway.address()).await;
    streams.request(1, &frames::get(b"/", &[])).await;
    assert_eq!(streams.fate(1).await, frames::Fate::Answered(200));
    streams.pong().await;
    let mut last = gateway.client_from("127.0.1.8").await;
    assert_eq!(last.get("/").await.status, 200);
    assert_eq!(clients[0].get("/").await.status, 200);
    let mut newer = Vec::new();
    for at in 10..15 {
        let mut client = gateway.client_from(&format!("127.0.1.{at}")).await;
        assert_eq!(client.get("/").await.status, 200);
        newer.push(client);
    }
    for (at, client) in clients.iter_mut().enumerate() {
        let is_kept = client.try_send(get("/")).await.is_ok();
        assert_eq!(is_kept, at == 0, "{at}");
    }
    let mut client = gateway.client_from("127.0.1.20").await;
    assert_eq!(client.get("/").await.status, 200);
    assert_eq!(streams.goaway().await, Some(NO_ERROR));
    assert_eq!(last.get("/").await.status, 200);
    assert_eq!(open(&gateway).await, 8.0);
    assert_eq!(reclaimed(&gateway, "idle").await, 6.0);
}

#[tokio::test]
async fn what_is_in_flight_is_not_cut() {
    // Goal: a request at an origin, a body that is sent, an answer that is read, a stream of HTTP/2 and a WebSocket keep their connections,
    // and a new one is refused. Method: one of each, all that there may be; then two more clients, and the end of each request.
    let origin = Origin::answering(|received| match received.target.as_str() {
        "/slow" => Reply::Drip {
            piece: "drop",
            every: Duration::from_millis(100),
            pieces: 30,
        },
        "/socket" => Reply::WebSocket,
        _ => Answer::new(200).into(),
    });
    let rules = "[server]\nmax_connections = 4\nmax_connections_per_client = 4\n[[route]]\npath = \"/*\"\norigin = \"app\"\n";
    let gateway = Gateway::before(&origin, rules).await;
    let mut slow = gateway.raw().await;
    slow.write("GET /slow HTTP/1.1\r\nHost: a.test\r\n\r\n")
        .await;
    let mut upload = gateway.raw().await;
    upload
        .write("POST /upload HTTP/1.1\r\nHost: a.test\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n")
        .await;
    assert_eq!(upload.read_response_to_head().await.status, 100);
    upload.write("ab").await;
    let mut streams = Frames::connect(gateway.address()).await;
    streams.request(1, &frames::get(b"/slow", &[])).await;
    let socket = gateway.websocket().await;
    eventually("both answers are under way", async || {
        (origin.count() >= 3).then_some(())
    })
    .await;
    for _ in 0..2 {
        let mut refused = RawConnection::connect_from("127.0.0.30", gateway.address()).await;
        assert_eq!(refused.read_to_end().await, b"");
    }
    upload.write("cd").await;
    assert_eq!(upload.read_response().await.status, 200);
    assert_eq!(slow.read_response().await.status, 200);
    assert_eq!(streams.fate(1).await, frames::Fate::Answered(200));
    // All but the WebSocket idle now.
    is_served(&gateway, 3).await;
    drop(socket);
}

#[tokio::test]
async fn connections_behind_tls_make_room_too() {
    // Goal: a connection that finished its handshake and is silent makes room, and so do one that began none and one that stopped in it.
    // Method: all places by them, in turn; another client is served, and the silent one reads close_notify.
    let authority = Authority::new();
    let pair = authority.server(&["site.test"]);
    let gateway = under_tls(&pair).rules(&rules(4, "")).start().await;
    let tls = TlsClients::of(&authority);
    let mut finished = tls.connect_raw(gateway.address(), "site.test").await;
    let mut silent = gateway.raw().await;
    let mut begun = gateway.raw().await;
    begun.write(b"\x16\x03\x01\x02").await;
    let mut busy = tls.connect(gateway.address(), "site.test").await;
    assert_eq!(busy.get("/").await.status, 200);
    are_open(&gateway, 4).await;
    let mut served = Vec::new();
    for _ in 0..3 {
        let mut client = tls.connect(gateway.address(), "site.test").await;
        assert_eq!(client.get("/").await.status, 200);
        served.push(client);
    }
    let mut rest = Vec::new();
    assert_eq!(finished.read_to_end(&mut rest).await.ok(), Some(0));
    assert_eq!(silent.read_to_end().await, b"");
    drop((begun, busy));
}

#[tokio::test]
async fn a_connection_that_sends_nothing_has_the_time_of_a_head() {
    // Goal: `client_header_timeout` for the first byte, whatever is to be spoken. Method: silence from the first byte in clear text and
    // behind TLS, behind a handshake, and in the middle of HTTP/2's preface over TLS, far below all other timeouts.
    let authority = Authority::new();
    let pair = authority.server(&["site.test"]);
    let waits = "[server]\nclient_header_timeout = \"1s\"\nclient_read_timeout = \"10m\"\nkeepalive_timeout = \"10m\"\n";
    let clear = Gateway::start(&format!("{waits}{RESPOND}")).await;
    let secured = under_tls(&pair)
        .rules(&format!("{waits}{RESPOND}"))
        .start()
        .await;
    let started = Instant::now();
    let mut silent = [clear.raw().await, secured.raw().await];
    let http1 = TlsClients::of(&authority)
        .connect_raw(secured.address(), "site.test")
        .await;
    let http2 = TlsClients::of(&authority).offering(&["h2"]);
    let mut http2 = http2.connect_raw(secured.address(), "site.test").await;
    http2.write_all(b"PRI * HTTP/2.0\r\n").await.unwrap();
    for raw in &mut silent {
        assert_eq!(raw.read_to_end().await, b"");
    }
    for mut stream in [http1, http2] {
        let mut rest = Vec::new();
        // A connection that ends in HTTP/2 has the settings of the gateway before it.
        let _ = stream.read_to_end(&mut rest).await;
    }
    let took = started.elapsed();
    assert!(took < Duration::from_secs(60), "{took:?}");
    // A connection whose first request came waits longer for the next one.
    let mut client = clear.client().await;
    assert_eq!(client.get("/").await.status, 200);
}

/// A gateway with sixty connections, whose clients a proxy announces.
async fn behind_proxy() -> Gateway {
    let line = "proxy_protocol = \"required\"\nproxy_protocol_from = [\"127.0.0.1\"]\n";
    let lines = "[server]\nmax_connections = 60\nclient_header_timeout = \"1m\"\n";
    let setup = Setup::new().listener_line(line);
    setup.rules(&format!("{lines}{RESPOND}")).start().await
}

/// A connection of a client behind a proxy.
async fn announce(gateway: &Gateway, client: &str) -> RawConnection {
    let mut raw = gateway.raw().await;
    let header = format!("PROXY TCP6 {client} 2001:db8::ffff 1 2\r\n");
    raw.write(header).await;
    raw
}

#[tokio::test]
async fn connections_without_a_proxy_header_make_room_themselves() {
    // Goal: a flood of connections that send no PROXY header closes its own connections, and none of a client. Method: ten clients that
    // idle, then two hundred silent connections of sixty; each client sends another request over its connection.
    let gateway = behind_proxy().await;
    let request = "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n";
    let mut clients = Vec::new();
    for client in 0..10 {
        let mut raw = announce(&gateway, &format!("2001:db8:{client:x}::1")).await;
        raw.write(request).await;
        assert_eq!(raw.read_response().await.status, 200, "{client}");
        clients.push(raw);
    }
    let mut flood = Vec::new();
    for _ in 0..200 {
        flood.push(gateway.raw().await);
    }
    eventually("the flood makes room", async || {
        (reclaimed(&gateway, "idle").await >= 20.0).then_some(())
    })
    .await;
    for (client, raw) in clients.iter_mut().enumerate() {
        raw.write(request).await;
        assert_eq!(raw.read_response().await.status, 200, "{client}");
    }
}

#[tokio::test]
async fn accounts_at_the_maximum_are_those_of_clients_behind_a_proxy() {
    // Goal: behind the PROXY protocol the client that holds most makes room, an IPv6 /48 together. Method: one proxy announces a client of
    // one connection, then a hundred networks of a /48, then other clients.
    let gateway = behind_proxy().await;
    let announce = async |client: &str| announce(&gateway, client).await;
    let request = "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n";
    let mut alone = announce("2001:db8:9::1").await;
    alone.write(request).await;
    assert_eq!(alone.read_response().await.status, 200);
    let mut flood = Vec::new();
    for network in 0..100 {
        let mut raw = announce(&format!("2001:db8:1:{:x}::1", network * 97)).await;
        // One that gets no place is closed.
        let _ = raw.try_write(request).await;
        let _ = raw.try_read_response().await;
        flood.push(raw);
    }
    for client in 0..40 {
        let mut raw = announce(&format!("2001:db8:{:x}::1", 0x100 + client)).await;
        raw.write(request).await;
        assert_eq!(raw.read_response().await.status, 200, "{client}");
        flood.push(raw);
    }
    alone.write(request).await;
    assert_eq!(alone.read_response().await.status, 200);
    assert!(open(&gateway).await <= 60.0);
}

#[tokio::test]
async fn an_answer_over_http2_that_waits_for_its_client_is_not_cut() {
    // Goal: a stream that is open, since its client opens no window, keeps its connection. Method: windows without a byte; new clients;
    // then the window.
    let gateway = Gateway::start(&rules(4, "")).await;
    let mut streams = Frames::connect(gateway.address()).await;
    let no_window = [0, 4, 0, 0, 0, 0];
    streams
        .write(&frames::frame(frames::SETTINGS, 0, 0, &no_window))
        .await;
    streams.request(1, &frames::get(b"/", &[])).await;
    assert_eq!(streams.fate(1).await, frames::Fate::Answered(200));
    let mut kept = Vec::new();
    for at in 0..12 {
        let mut client = gateway.client_from(&format!("127.0.2.{}", at + 1)).await;
        assert_eq!(client.get("/").await.status, 200);
        kept.push(client);
    }
    let window = 4_u32.to_be_bytes();
    streams
        .write(&frames::frame(frames::WINDOW_UPDATE, 0, 1, &window))
        .await;
    loop {
        let frame = streams.next().await.expect("the connection goes on");
        assert!(frame.kind != GOAWAY && frame.kind != PING);
        if frame.kind == frames::DATA {
            assert_eq!(frame.payload, b"here");
            break;
        }
    }
}
