//! Full speed across reloads and an upgrade.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::net::TcpStream;

use super::{KEPT, rules, upgrade};
use crate::harness::*;

/// A minute.
const LOAD: Duration = Duration::from_secs(60);
/// From one change to the next, so that the load meets each of the eleven for itself; there is a third of a minute to spare.
const PACE: Duration = Duration::from_secs(4);

/// What became of the streams of a client of HTTP/2.
#[derive(Debug, Default)]
struct Streams {
    answered: u64,
    /// Refused by GOAWAY and therefore sent again, as RFC 9113 §6.8 allows: the gateway has not seen them.
    sent_again: u64,
    connections: u64,
    lost: Vec<String>,
}

/// Keeps asking on one connection of HTTP/2, and on a new one once that is said to end.
async fn ask_until(stop: Arc<AtomicBool>, to: SocketAddr) -> Streams {
    let mut streams = Streams::default();
    'connections: loop {
        let stream = TcpStream::connect(to).await.unwrap();
        let (mut sender, connection) = h2::client::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        streams.connections += 1;
        // Relaxed: a stop that is seen a little later is as good.
        while !stop.load(Ordering::Relaxed) {
            sender = match sender.ready().await {
                Ok(sender) => sender,
                // Nothing was sent.
                Err(_) => continue 'connections,
            };
            let head = http::Request::get("http://gateway.test/").body(()).unwrap();
            let Ok((answer, _)) = sender.send_request(head, true) else {
                continue 'connections;
            };
            let answered = async {
                let mut body = answer.await?.into_body();
                while let Some(piece) = body.data().await {
                    let piece: Bytes = piece?;
                    body.flow_control().release_capacity(piece.len())?;
                }
                Ok::<(), h2::Error>(())
            };
            match answered.await {
                Ok(()) => streams.answered += 1,
                Err(error)
                    if error.is_go_away() && error.reason() == Some(h2::Reason::NO_ERROR) =>
                {
                    streams.sent_again += 1;
                }
                Err(error) => streams.lost.push(error.to_string()),
            }
        }
        return streams;
    }
}

/// Shakes hands for every request; how many there were.
async fn shake_hands_until(
    stop: Arc<AtomicBool>,
    clients: TlsClients,
    to: SocketAddr,
) -> Result<u64, String> {
    let mut answered = 0;
    // Relaxed, as above.
    while !stop.load(Ordering::Relaxed) {
        let connected = clients.try_connect(to, "a.test").await;
        let mut client = connected.map_err(|error| error.to_string())?;
        let answer = client.try_send(get("/")).await?;
        if answer.status != 200 {
            return Err(format!("status {}", answer.status));
        }
        answered += 1;
    }
    Ok(answered)
}

#[tokio::test]
async fn ten_reloads_a_renewal_and_an_upgrade_under_load_fail_no_request_and_refill_nothing() {
    // Goal: zero downtime. Method: for a minute, wrk over HTTP/1.1, clients of HTTP/2, and one that shakes hands for every request
    // ask without a pause while the configuration is reloaded ten times, the binary replaced in between, and the certificate renewed.
    // No connection is refused or reset, no answer is other than 200, no stream is lost; the limit that was used up before refuses
    // after.
    let authority = Authority::new();
    let (old, new) = (
        authority.server(&["a.test"]),
        authority.server(&["a.test", "b.test"]),
    );
    let encrypted = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let edit = |n: u32| {
        let more = format!(
            "[[route]]\npath = \"/edit-{n}\"\nrespond = {{ status = 204 }}\n[[listener]]\naddress = \"{encrypted}\"\n[listener.tls]\n\
             certificates = [{{ cert_file = \"../site.pem\", key_file = \"../site.key\" }}]"
        );
        rules(KEPT, &more)
    };
    let mut gateway = Setup::new()
        .file("site.pem", &old.certificate)
        .file("site.key", &old.key)
        .rules(&edit(0))
        .without_access_log()
        .start()
        .await;
    for left in [4, 3, 2, 1, 0] {
        assert_eq!(gateway.get("/limited").await.remaining("otp"), left);
    }
    let address = gateway.address();
    let load = tokio::spawn(Wrk::for_duration(LOAD).run(address, "/"));
    let stop = Arc::new(AtomicBool::new(false));
    let streams: Vec<_> = (0..4)
        .map(|_| tokio::spawn(ask_until(Arc::clone(&stop), address)))
        .collect();
    let clients = TlsClients::of(&authority);
    let handshakes = shake_hands_until(Arc::clone(&stop), clients.clone(), encrypted);
    let handshakes = tokio::spawn(handshakes);
    let mut paces = tokio::time::interval(PACE);
    for n in 1..=5 {
        paces.tick().await;
        gateway.reload(&edit(n)).await;
    }
    assert_eq!(gateway.get("/limited").await.status, 429);
    paces.tick().await;
    let successor = upgrade(&gateway).await;
    assert_eq!(gateway.exit_code().await, 0);
    let directory = gateway.directory().to_owned();
    // Between the two the pair does not fit, and the old one stays.
    std::fs::write(directory.join("site.key"), &new.key).unwrap();
    std::fs::write(directory.join("site.pem"), &new.certificate).unwrap();
    eventually("the new certificate is shown", async || {
        clients.try_connect(encrypted, "b.test").await.ok()
    })
    .await;
    for n in 6..=10 {
        paces.tick().await;
        gateway.reload(&edit(n)).await;
    }
    assert!(!load.is_finished(), "the load ended before the reloads did");
    let report = load.await.unwrap();
    stop.store(true, Ordering::Relaxed);
    assert_eq!(report.socket_errors, 0, "{}", report.text);
    assert_eq!(report.unsuccessful, 0, "{}", report.text);
    assert!(report.requests > 1000, "{}", report.text);
    let shaken = handshakes.await.unwrap();
    assert!(
        shaken.as_ref().is_ok_and(|count| *count > 100),
        "{shaken:?}"
    );
    for client in streams {
        let streams = client.await.unwrap();
        assert!(streams.lost.is_empty(), "{streams:?}");
        assert!(streams.answered > 100, "{streams:?}");
        assert!(streams.connections >= 2, "it met the upgrade: {streams:?}");
    }
    assert_eq!(gateway.get("/limited").await.status, 429);
    drop(successor);
}
