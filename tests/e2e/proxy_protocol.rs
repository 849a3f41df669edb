//! Proxies in front that announce their clients.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::harness::*;

const RULES: &str = "[limit.one]\nkey = \"client.ip\"\nrates = [\"1 per 1h\"]\n\n\
                     [[route]]\npath = \"/limited\"\nlimits = [\"one\"]\nrespond = { status = 200 }\n\n\
                     [[route]]\npath = \"/*\"\norigin = \"app\"\n";

const REQUEST: &str = "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n";

/// A header of version 2 with TLVs behind the addresses, for 192.0.2.7:12345.
fn version_2() -> Vec<u8> {
    let mut header = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x13".to_vec();
    header.extend([192, 0, 2, 7, 10, 0, 0, 1, 0x30, 0x39, 1, 187]);
    header.extend([3, 0, 4, 1, 2, 3, 4]);
    header
}

async fn before(origin: &Origin, lines: &str) -> Gateway {
    Setup::new()
        .listener_line(lines)
        .origin("app", origin)
        .rules(RULES)
        .start()
        .await
}

/// A listener where this machine's proxies must announce their clients.
const REQUIRED: &str = "proxy_protocol = \"required\"\nproxy_protocol_from = [\"127.0.0.0/8\"]";

#[tokio::test]
async fn the_announced_client_is_the_peer_in_limits_log_and_to_origins() {
    // Goal: versions 1 and 2, whole and byte by byte, and headers without a client. Method: raw bytes; the addresses at the origin and
    // in the log.
    let origin = Origin::echo();
    let gateway = before(&origin, REQUIRED).await;
    for (header, client) in [
        (
            &b"PROXY TCP4 192.0.2.7 10.0.0.1 12345 443\r\n"[..],
            "192.0.2.7",
        ),
        (b"PROXY TCP6 2001:db8::7 ::1 1 2\r\n", "2001:db8::7"),
        (b"PROXY TCP6 ::ffff:192.0.2.8 ::1 1 2\r\n", "192.0.2.8"),
        (b"PROXY UNKNOWN\r\n", "127.0.0.1"),
        (&version_2(), "192.0.2.7"),
        // LOCAL: the proxy's own check.
        (b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0", "127.0.0.1"),
    ] {
        let bytes = [header, REQUEST.as_bytes()].concat();
        let mut at_once = gateway.raw().await;
        at_once.write(&bytes).await;
        let mut slowly = gateway.raw().await;
        for byte in &bytes {
            slowly.write([*byte]).await;
        }
        for connection in [&mut at_once, &mut slowly] {
            let answer = connection.read_response().await;
            assert_eq!(answer.echo().header("x-forwarded-for"), Some(client));
            let line = gateway.lines_of(&[answer]).await.remove(0);
            assert_eq!(line["client"], client);
            assert_eq!(line["peer"], serde_json::Value::Null);
            // The connection goes on without another header.
            connection.write(REQUEST).await;
            let again = connection.read_response().await;
            assert_eq!(again.echo().header("x-forwarded-for"), Some(client));
        }
    }
    let metrics = gateway.metrics().await;
    assert_eq!(
        metrics.sum("sluicegate_proxy_protocol_total", &[("result", "read")]),
        12.0
    );
}

#[tokio::test]
async fn clients_behind_one_proxy_have_a_counter_each() {
    // Goal: limits go by the announced address, those of repeated refusals too. Method: two clients through one address, each twice.
    let origin = Origin::echo();
    let gateway = before(&origin, REQUIRED).await;
    let request = "GET /limited HTTP/1.1\r\nHost: a.test\r\n\r\n";
    for client in ["192.0.2.1", "192.0.2.2"] {
        let mut connection = gateway.raw().await;
        connection
            .write(format!("PROXY TCP4 {client} 10.0.0.1 1 2\r\n"))
            .await;
        for status in [200, 429, 429, 429] {
            connection.write(request).await;
            assert_eq!(connection.read_response().await.status, status, "{client}");
        }
    }
    let lines = gateway.access_lines(8).await;
    assert_eq!(
        lines
            .iter()
            .filter(|line| line["client"] == "192.0.2.2")
            .count(),
        4
    );
}

#[tokio::test]
async fn lists_go_by_the_announced_address() {
    // Goal: Apache Traffic Server CVE-2025-31698: an announced client is blocked or allowed, not the proxy. Method: a blocked client, an
    // allowed one and another, while the proxy's own address is in the list of blocked ones.
    let rules = "[client]\nallow = [\"office\"]\nblock = [\"bad\"]\n\
                 [list.office]\ncidrs = [\"192.0.2.7\"]\n\
                 [list.bad]\ncidrs = [\"192.0.2.66\", \"127.0.0.0/8\"]\n\
                 [limit.none]\nkey = \"global\"\nrates = [\"1 per 1h\"]\n\
                 [[route]]\npath = \"/*\"\nlimits = [\"none\"]\nrespond = { status = 200 }\n";
    let setup = Setup::new().listener_line(REQUIRED).rules(rules);
    let gateway = setup.start().await;
    for (client, status) in [
        ("192.0.2.1", 200),
        ("192.0.2.1", 429),
        ("192.0.2.66", 403),
        ("192.0.2.7", 200),
    ] {
        let mut connection = gateway.raw().await;
        let header = format!("PROXY TCP4 {client} 10.0.0.1 1 2\r\n{REQUEST}");
        connection.write(header).await;
        assert_eq!(connection.read_response().await.status, status, "{client}");
    }
}

#[tokio::test]
async fn connections_are_counted_by_the_announced_address() {
    // Goal: `max_connections_per_client` bounds clients, not the proxy that all of them come through; a hop that is trusted has no bound.
    // Method: one proxy announces two clients with as many connections as one may have, then one more of the first, then many of a
    // trusted hop.
    let origin = Origin::echo();
    let caps = "[server]\nmax_connections_per_client = 2\n[client]\ntrusted_proxies = [\"198.51.100.9\"]\n";
    let gateway = Setup::new()
        .listener_line(REQUIRED)
        .origin("app", &origin)
        .rules(&format!("{caps}{RULES}"))
        .start()
        .await;
    let announce = async |client: &str| {
        let mut connection = gateway.raw().await;
        let header = format!("PROXY TCP4 {client} 10.0.0.1 1 2\r\n");
        connection.write(header).await;
        connection
    };
    let mut kept = Vec::new();
    for client in ["192.0.2.1", "192.0.2.1", "192.0.2.2", "192.0.2.2"]
        .into_iter()
        .chain(["198.51.100.9"; 5])
    {
        let mut connection = announce(client).await;
        connection.write(REQUEST).await;
        assert_eq!(connection.read_response().await.status, 200, "{client}");
        kept.push(connection);
    }
    assert_eq!(announce("192.0.2.1").await.read_to_end().await, b"");
    let labels = [("cap", "max_connections_per_client")];
    let metrics = gateway.metrics().await;
    assert_eq!(
        metrics.sum("sluicegate_connections_refused_total", &labels),
        1.0
    );
}

#[tokio::test]
async fn untrusted_peers_and_malformed_headers_are_rejected() {
    // Goal: a header from an untrusted peer is rejected, and so is a malformed one. Method: `required` and `optional`, from a proxy and
    // from a stranger, with and without a header.
    let origin = Origin::echo();
    let from = "proxy_protocol_from = [\"127.0.0.9\"]\n";
    let header = "PROXY TCP4 192.0.2.7 10.0.0.1 1 2\r\n";

    let required = before(&origin, &format!("proxy_protocol = \"required\"\n{from}")).await;
    for bytes in [header, REQUEST] {
        let mut stranger = required.raw().await;
        let _ = stranger.try_write(bytes).await;
        assert_eq!(stranger.read_to_end().await, b"");
    }
    for bytes in [REQUEST, "PROXY TCP4 nobody\r\n", "PROXY TCP4 é\ré"] {
        let mut proxy = RawConnection::connect_from("127.0.0.9", required.address()).await;
        proxy.write(bytes).await;
        let _ = proxy.try_write("\r\n".repeat(60)).await;
        assert_eq!(proxy.read_to_end().await, b"", "{bytes:?}");
    }
    let metrics = required.metrics().await;
    let count = |result| metrics.sum("sluicegate_proxy_protocol_total", &[("result", result)]);
    assert!(count("untrusted") >= 2.0);
    assert_eq!(count("malformed"), 3.0);

    let optional = before(&origin, &format!("proxy_protocol = \"optional\"\n{from}")).await;
    let mut stranger = optional.raw().await;
    stranger.write(format!("{header}{REQUEST}")).await;
    assert_eq!(stranger.read_response().await.status, 400);
    assert_eq!(
        optional.get("/").await.echo().header("x-forwarded-for"),
        Some("127.0.0.1")
    );
    for (bytes, client) in [
        (REQUEST.to_owned(), "127.0.0.9"),
        (format!("{header}{REQUEST}"), "192.0.2.7"),
    ] {
        let mut proxy = RawConnection::connect_from("127.0.0.9", optional.address()).await;
        proxy.write(bytes).await;
        let answer = proxy.read_response().await;
        assert_eq!(answer.echo().header("x-forwarded-for"), Some(client));
    }
}

#[tokio::test]
async fn a_late_header_closes_the_connection() {
    // Goal: a header has the time of a request's head. Method: silence, and half a header.
    let setup = Setup::new().listener_line(REQUIRED);
    let rules = "[[route]]\npath = \"/\"\nrespond = { status = 200 }\n[server]\nclient_header_timeout = \"1s\"\n";
    let gateway = setup.rules(rules).start().await;
    let mut silent = gateway.raw().await;
    let mut half = gateway.raw().await;
    half.write("PROXY TCP4 192.0.2.7 ").await;
    assert_eq!(silent.read_to_end().await, b"");
    assert_eq!(half.read_to_end().await, b"");
    eventually("both are counted", async || {
        let labels = [("result", "timed_out")];
        let metrics = gateway.metrics().await;
        (metrics.sum("sluicegate_proxy_protocol_total", &labels) == 2.0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn trust_in_forwarded_fields_goes_by_the_announced_peer() {
    // Goal: `[client] trusted_proxies` applies to the announced address, not to the announcing proxy. Method: a chain from an
    // announced hop that is
    // trusted, and from one that is not, through the same proxy.
    let origin = Origin::echo();
    let gateway = Setup::new()
        .listener_line(REQUIRED)
        .origin("app", &origin)
        .rules("[client]\ntrusted_proxies = [\"192.0.2.7\"]\n[[route]]\npath = \"/*\"\norigin = \"app\"\n")
        .start()
        .await;
    for (hop, client) in [("192.0.2.7", "198.51.100.1"), ("192.0.2.8", "192.0.2.8")] {
        let mut connection = gateway.raw().await;
        let request = "GET / HTTP/1.1\r\nHost: a.test\r\nX-Forwarded-For: 198.51.100.1\r\n\r\n";
        connection
            .write(format!("PROXY TCP4 {hop} 10.0.0.1 1 2\r\n{request}"))
            .await;
        let answer = connection.read_response().await;
        let line = gateway.lines_of(&[answer]).await.remove(0);
        assert_eq!(line["client"], client);
    }
}

#[tokio::test]
async fn curl_announces_itself_by_version_1_and_then_speaks_tls() {
    // Goal: what others send, and the header before TLS. Method: curl, in clear text, then under TLS by HTTP/1.1 and HTTP/2.
    let authority = Authority::new();
    let pair = authority.server(&["a.test"]);
    let origin = Origin::echo();
    let clear = before(&origin, REQUIRED).await;
    let secured = Setup::new()
        .listener_line(REQUIRED)
        .listener_line("[listener.tls]")
        .listener_line("certificates = [{ cert_file = \"../a.pem\", key_file = \"../a.key\" }]")
        .file("a.pem", &pair.certificate)
        .file("a.key", &pair.key)
        .origin("app", &origin)
        .rules(RULES)
        .start()
        .await;
    for (gateway, scheme, version) in [
        (&clear, "http", "--http1.1"),
        (&secured, "https", "--http1.1"),
        (&secured, "https", "--http2"),
    ] {
        let url = format!("{scheme}://{}/", gateway.address());
        let command = move || {
            let arguments = [
                "--silent",
                "--insecure",
                "--max-time",
                "30",
                "--haproxy-protocol",
            ];
            Command::new("curl")
                .args(arguments)
                .args([version, &url])
                .output()
                .unwrap()
        };
        let output = tokio::task::spawn_blocking(command).await.unwrap();
        let echo = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(echo.contains("127.0.0.1"), "{echo}");
        assert!(output.status.success());
    }
    let lines = secured.access_lines(2).await;
    assert!(lines.iter().any(|line| line["protocol"] == "HTTP/2"));
    assert_eq!(
        secured
            .metrics()
            .await
            .sum("sluicegate_proxy_protocol_total", &[("result", "read")]),
        2.0
    );
}

/// A real HAProxy in front.
struct Haproxy {
    child: Child,
    address: SocketAddr,
    _directory: tempfile::TempDir,
}

impl Haproxy {
    async fn before(gateway: &Gateway) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let address = free_address();
        let file = directory.path().join("haproxy.cfg");
        let text = format!(
            "defaults\n  mode tcp\n  timeout connect 10s\n  timeout client 30s\n  timeout server 30s\n\
             listen front\n  bind {address}\n  server gateway {} send-proxy-v2\n",
            gateway.address()
        );
        fs::write(&file, text).unwrap();
        let mut child = Command::new("haproxy")
            .args(["-db", "-f", file.to_str().unwrap()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| {
                panic!("haproxy does not start ({error}); `./dev test` installs it")
            });
        eventually("haproxy accepts", async || {
            assert!(child.try_wait().unwrap().is_none(), "haproxy has ended");
            TcpStream::connect_timeout(&address, Duration::from_secs(1)).ok()
        })
        .await;
        Self {
            child,
            address,
            _directory: directory,
        }
    }
}

impl Drop for Haproxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn haproxy_announces_its_clients_by_version_2() {
    // Goal: the proxy that most people have in front. Method: a real one, and clients from two addresses.
    let origin = Origin::echo();
    let gateway = before(&origin, REQUIRED).await;
    let haproxy = Haproxy::before(&gateway).await;
    for from in ["127.0.0.21", "127.0.0.22"] {
        let mut client = Client::connect_from(from, haproxy.address).await;
        let answer = client.get("/").await;
        assert_eq!(answer.echo().header("x-forwarded-for"), Some(from));
    }
}
