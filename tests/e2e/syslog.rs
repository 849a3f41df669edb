//! Access lines at a syslog server: `[log] access = "syslog"` over a Unix socket, UDP and TCP.

use regex::Regex;
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::net::{TcpListener, TcpStream, UdpSocket, UnixDatagram};
use tokio::time::timeout;

use crate::harness::*;

const ROUTE: &str = "[[route]]\npath = \"/*\"\nrespond = { status = 200 }\n";

fn setup(server: &str) -> Setup {
    let rules = format!(
        "[log.syslog]\nserver = \"{server}\"\nfacility = \"local3\"\napp_name = \"edge\"\nhostname = \"edge-1\"\n{ROUTE}"
    );
    Setup::new().with_syslog().rules(&rules)
}

/// The access line within a message, whose head is checked.
fn line(message: &[u8], gateway: &Gateway) -> Value {
    let message = std::str::from_utf8(message).unwrap();
    let head = Regex::new(
        r"^<158>1 (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z) edge-1 edge (\d+) access - (\{.*\})$",
    )
    .unwrap();
    let parts = head
        .captures(message)
        .unwrap_or_else(|| panic!("{message}"));
    assert_eq!(parts[2], gateway.id().to_string());
    let line: Value = serde_json::from_str(&parts[3]).unwrap();
    assert_eq!(line["time"], parts[1], "{message}");
    line
}

/// Replaces the configuration by one with this server.
async fn send_to(gateway: &mut Gateway, server: &str) {
    let before = gateway.generation().await;
    gateway.write_setup(setup(server), Writing::Rename);
    gateway.serves_after(before).await;
}

/// The next message of a connection: its length, a space, and so many bytes.
async fn counted(connection: &mut BufReader<TcpStream>) -> Vec<u8> {
    let mut length = Vec::new();
    connection.read_until(b' ', &mut length).await.unwrap();
    let length: usize = std::str::from_utf8(&length)
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    let mut message = vec![0; length];
    connection.read_exact(&mut message).await.unwrap();
    message
}

#[tokio::test]
async fn access_lines_go_to_a_syslog_server() {
    // Goal: each line is one message that RFC 5424 describes, by each transport, and a reload moves them. Method: one gateway, and a server
    // at a Unix socket, by UDP and by TCP; the one by TCP is away at first, and later closes its connection.
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("log");
    let unix = UnixDatagram::bind(&path).unwrap();
    let mut gateway = setup(&format!("unix:{}", path.display())).start().await;
    let mut buffer = vec![0; 65_536];
    gateway.get("/unix").await;
    let size = timeout(PATIENCE, unix.recv(&mut buffer))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(line(&buffer[..size], &gateway)["target"], "/unix");

    let udp = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    send_to(
        &mut gateway,
        &format!("udp://{}", udp.local_addr().unwrap()),
    )
    .await;
    gateway.get("/udp").await;
    let size = timeout(PATIENCE, udp.recv(&mut buffer))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(line(&buffer[..size], &gateway)["target"], "/udp");

    let address = free_address();
    send_to(&mut gateway, &format!("tcp://{address}")).await;
    gateway.get("/tcp-1").await;
    eventually("the gateway says that nobody listens", async || {
        let errors = gateway
            .metrics()
            .await
            .sum("sluicegate_access_log_write_errors_total", &[]);
        (errors > 0.0).then_some(())
    })
    .await;
    let listener = TcpListener::bind(address).await.unwrap();
    for targets in [["/tcp-1", "/tcp-2"], ["/tcp-3", "/tcp-4"]] {
        gateway.get(targets[0]).await;
        gateway.get(targets[1]).await;
        let accepted = timeout(PATIENCE, listener.accept()).await.unwrap().unwrap();
        let mut connection = BufReader::new(accepted.0);
        let mut seen = Vec::new();
        while seen.last().is_none_or(|last| last != targets[1]) {
            let message = timeout(PATIENCE, counted(&mut connection)).await.unwrap();
            seen.push(
                line(&message, &gateway)["target"]
                    .as_str()
                    .unwrap()
                    .to_owned(),
            );
        }
        assert_eq!(seen[0], targets[0]);
    }
}
