//! Key exchanges: which one is chosen, and first messages that are longer than a segment because of it.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;

/// Goal: who can, exchanges keys that resist quantum computers; nobody else is refused. Method: clients with and without
/// X25519MLKEM768, and the metric.
#[tokio::test]
async fn key_exchanges_resist_quantum_computers_where_clients_can() {
    let authority = Authority::new();
    let pair = authority.server(&["a.test"]);
    let gateway = with(&[&pair], "").rules(HELLO).start().await;
    for clients in [
        TlsClients::of(&authority),
        TlsClients::speaking(&authority, &rustls::version::TLS12),
        TlsClients::classical(&authority),
    ] {
        let mut client = clients.connect(gateway.address(), "a.test").await;
        assert_eq!(client.get("/").await.text(), "hello");
    }
    eventually("key exchanges are counted by group", async || {
        let metrics = gateway.metrics().await;
        let counts = ["X25519MLKEM768", "X25519"].map(|group| exchanges(&metrics, group));
        (counts == [1.0, 2.0]).then_some(())
    })
    .await;
    let metrics = gateway.metrics().await;
    for (version, handshakes) in [("TLSv1.2", 1.0), ("TLSv1.3", 2.0)] {
        let labels = [("kind", "full"), ("version", version)];
        let counted = metrics.sum("sluicegate_tls_handshakes_total", &labels);
        assert_eq!(counted, handshakes);
    }
}

/// Goal: that holds for QUIC as well. Method: a client of HTTP/3, and the metrics.
#[tokio::test]
async fn key_exchanges_over_quic_resist_quantum_computers() {
    let setup = Setup::new().spoken_to_by(Version::Http3).rules(HELLO);
    let gateway = setup.start().await;
    let mut client = Client::connect_by(Version::Http3, None, gateway.address()).await;
    assert_eq!(client.send(get("/")).await.text(), "hello");
    eventually("the key exchange is counted", async || {
        let metrics = gateway.metrics().await;
        let labels = [("kind", "quic"), ("version", "TLSv1.3")];
        let over_quic = metrics.sum("sluicegate_tls_handshakes_total", &labels);
        let handshakes = metrics.sum("sluicegate_tls_handshakes_total", &[]);
        (over_quic == 1.0 && exchanges(&metrics, "X25519MLKEM768") == handshakes).then_some(())
    })
    .await;
}

/// Goal: that holds with origins as well. Method: a gateway under TLS as the server of two origins, of which one is verified; its metric.
#[tokio::test]
async fn key_exchanges_with_origins_resist_quantum_computers() {
    let authority = Authority::new();
    let pair = authority.server(&["a.test"]);
    let server = with(&[&pair], "").rules(HELLO).start().await;
    let gateway = Setup::new()
        .file("ca.pem", &authority.pem())
        .servers("verified", &[server.address()])
        .origin_line("tls = { ca_file = \"../ca.pem\", server_name = \"a.test\" }")
        .servers("any", &[server.address()])
        .origin_line("tls = { verify = \"off\" }")
        .rules(
            "[[route]]\npath = \"/verified\"\norigin = \"verified\"\n\
             [[route]]\npath = \"/any\"\norigin = \"any\"\n",
        )
        .start()
        .await;
    for path in ["/verified", "/any"] {
        assert_eq!(gateway.get(path).await.text(), "hello", "{path}");
    }
    eventually("both key exchanges are counted", async || {
        let metrics = server.metrics().await;
        (exchanges(&metrics, "X25519MLKEM768") == 2.0).then_some(())
    })
    .await;
}

/// The key exchanges of a group.
fn exchanges(metrics: &Metrics, group: &str) -> f64 {
    metrics.sum("sluicegate_tls_key_exchanges_total", &[("group", group)])
}

/// Passes a connection on, behind a header of the PROXY protocol, with what the client sends in pieces of so many bytes.
async fn relay(to: SocketAddr, piece: usize) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (client, _) = listener.accept().await.unwrap();
        let gateway = TcpStream::connect(to).await.unwrap();
        gateway.set_nodelay(true).unwrap();
        let (mut from_client, mut to_client) = client.into_split();
        let (mut from_gateway, mut to_gateway) = gateway.into_split();
        tokio::spawn(async move { tokio::io::copy(&mut from_gateway, &mut to_client).await });
        let header = b"PROXY TCP4 192.0.2.7 127.0.0.1 4000 443\r\n";
        to_gateway.write_all(header).await.unwrap();
        let mut bytes = vec![0; piece];
        loop {
            match from_client.read(&mut bytes).await {
                Ok(0) | Err(_) => return,
                Ok(read) => to_gateway.write_all(&bytes[..read]).await.unwrap(),
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    });
    address
}

/// Goal: a first message that needs several segments is read whole. Method: one of 1.5 KB in pieces of 100 bytes and of 1,400 behind the
/// PROXY protocol, and at once; certificate, address and fingerprint are those of the whole.
#[tokio::test]
async fn a_first_message_in_pieces_is_read_whole() {
    let authority = Authority::new();
    let pairs = [authority.server(&["a.test"]), authority.server(&["b.test"])];
    let lines = "proxy_protocol = \"required\"\nproxy_protocol_from = [\"127.0.0.0/8\"]";
    let gateway = Setup::new().listener_line(lines);
    let gateway = under_tls(gateway, &[&pairs[0], &pairs[1]], "");
    let gateway = gateway.rules(HELLO).start().await;
    let mut fingerprints = Vec::new();
    for piece in [100, 1_400, 16_384] {
        let relayed = relay(gateway.address(), piece).await;
        // A client that comes back would send a ticket, which is another fingerprint.
        let clients = TlsClients::of(&authority);
        let mut client = clients.connect(relayed, "b.test").await;
        assert_eq!(client.certificate, pairs[1].der());
        let answer = client.get("/").await;
        let lines = gateway.lines_of(&[answer]).await;
        assert_eq!(lines[0]["client"], "192.0.2.7");
        assert_eq!(lines[0]["sni"], "b.test");
        fingerprints.push(lines[0]["ja4"].as_str().unwrap().to_owned());
    }
    assert!(fingerprints[0].starts_with("t13d"), "{fingerprints:?}");
    assert!(fingerprints.iter().all(|one| *one == fingerprints[0]));
}
