//! How the old process ends: what is under way is finished, what does not end is cut off, and probes are answered meanwhile.

use std::time::Duration;

use nix::sys::signal::Signal;

use super::{KEPT, upgrade};
use crate::harness::*;

#[tokio::test]
async fn a_websocket_is_bounded_by_the_drain_and_requests_go_to_the_successor() {
    // Goal: a connection that never ends holds neither the upgrade nor the old process. Method: one is open across an upgrade; messages
    // pass until the timeout, new requests are answered by the successor at once.
    let origin = Origin::answering(|request| {
        if request.target == "/socket" {
            Reply::WebSocket
        } else {
            Answer::new(200).body("new").into()
        }
    });
    let rules = format!(
        "[server]\n{KEPT}\nshutdown_timeout = \"2s\"\n[[route]]\npath = \"/*\"\norigin = \"app\"\n"
    );
    let mut gateway = Gateway::before(&origin, &rules).await;
    let address = gateway.address();
    let (opened, open) = tokio::sync::oneshot::channel();
    let (upgraded, go_on) = std::sync::mpsc::channel();
    let talk = tokio::task::spawn_blocking(move || {
        use tokio_tungstenite::tungstenite::{Message, client};
        let stream = std::net::TcpStream::connect(address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(30)))
            .unwrap();
        let (mut socket, _) = client(format!("ws://{address}/socket"), stream).unwrap();
        opened.send(()).unwrap();
        go_on.recv().unwrap();
        socket.send(Message::text("still there?")).unwrap();
        let answer = socket.read().unwrap();
        (answer, socket.read().is_err())
    });
    open.await.unwrap();
    let _successor = upgrade(&gateway).await;
    upgraded.send(()).unwrap();
    assert_eq!(gateway.get("/").await.text(), "new");
    let (answer, ended) = talk.await.unwrap();
    assert_eq!(answer.into_text().unwrap().as_str(), "still there?");
    assert!(ended, "it was cut off");
    assert_eq!(gateway.exit_code().await, 0);
}

#[tokio::test]
async fn a_request_that_reaches_an_idle_connection_during_the_drain_is_answered() {
    // Goal: a client that just sends on a kept connection does not meet a closed one. Method: a connection is idle when SIGTERM comes;
    // requests are sent once the gateway says that it begins to drain, until an answer says that the connection ends.
    let gateway = Gateway::start("[[route]]\npath = \"/\"\nrespond = { status = 200 }").await;
    let mut client = gateway.client().await;
    assert_eq!(client.get("/").await.status, 200);
    gateway.signal(Signal::SIGTERM);
    eventually("it drains", async || {
        gateway.stderr().contains("SIGTERM: draining").then_some(())
    })
    .await;
    let mut says_close = false;
    while !says_close {
        let answer = client.get("/").await;
        assert_eq!(answer.status, 200);
        says_close = answer.header("connection") == Some("close");
    }
}

#[tokio::test]
async fn probes_are_answered_on_new_connections_while_the_gateway_drains() {
    // Goal: a probe of a load balancer gets 503, not a refused connection. Method: a request is under way; the probe connects anew after
    // the gateway's own listener has closed.
    let reply = Reply::After(
        Duration::from_secs(3),
        Box::new(Answer::new(200).body("late").into()),
    );
    let origin = Origin::answering(move |_| reply.clone());
    let mut gateway = Gateway::passing(&origin).await;
    let mut client = gateway.client().await;
    let request = tokio::spawn(async move { client.get("/slow").await });
    origin.is_asked(1).await;
    gateway.signal(Signal::SIGTERM);
    gateway.is_closed().await;
    let mut probe = Client::connect(gateway.admin_address()).await;
    assert_eq!(probe.get("/readyz").await.status, 503);
    assert_eq!(request.await.unwrap().status, 200);
    assert_eq!(gateway.exit_code().await, 0);
}
