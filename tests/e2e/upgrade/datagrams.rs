//! HTTP/3, whose sockets are handed over with the ways to the connections of the old process.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;

use super::*;
use crate::http3::with_http3;

/// Bytes of a download that is under way at the upgrade.
const LARGE: usize = 100 * 1024 * 1024;
/// Requests that are under way at the upgrade.
const HELD: usize = 200;

/// Goal: the new process serves HTTP/3 as soon as it has taken over, and clients of the old one learn to come again. Method: a connection
/// that is open at the upgrade, and several behind it; the old process is still there then.
#[tokio::test]
async fn clients_of_http3_come_again() {
    let Some((setup, _, clients)) = with_http3() else {
        return;
    };
    let gateway = setup.rules(&rules(KEPT, "")).start().await;
    let address = gateway.address();
    let open = clients.perform(address, &["get", "/", "goaway", "ended"]);
    let upgraded = async {
        gateway.access_lines(1).await;
        upgrade(&gateway).await
    };
    let (found, successor) = tokio::join!(open, upgraded);
    assert_eq!(found, [json!(200), json!(true), json!(0x100)]);
    for _ in 0..5 {
        let found = clients.perform(address, &["get", "/", "get", "/"]).await;
        assert_eq!(found, [json!(200), json!(200)]);
    }
    drop(successor);
}

/// Goal: a client whose connection was lost with the old process learns so at once. Method: the old process is killed while it drains, and
/// the client sends PINGs, which the new one answers by a stateless reset.
#[tokio::test]
async fn the_new_process_resets_connections_that_are_lost() {
    let origin = Origin::answering(|_| Reply::Hang);
    let setup = Setup::new()
        .spoken_to_by(Version::Http3)
        .origin("slow", &origin);
    let route = route("/hang", &[], "origin = \"slow\"");
    let mut gateway = setup.rules(&rules(KEPT, &route)).start().await;
    let mut client = Http3Client::pinging(gateway.address()).await;
    let asked = tokio::spawn(async move { client.try_send(get("/hang")).await });
    origin.is_asked(1).await;
    let successor = upgrade(&gateway).await;
    gateway.kill();
    let error = asked.await.unwrap().expect_err("it is lost");
    assert!(error.contains("reset by peer"), "{error}");
    drop(successor);
}

/// What became of the requests of a client.
#[derive(Debug, Default)]
struct Asked {
    answered: usize,
    /// Refused behind GOAWAY and therefore sent again, as RFC 9114 §5.2 allows: the gateway has not seen them.
    sent_again: usize,
    connections: usize,
    lost: Vec<String>,
}

/// Asks one request after the other, over a new connection where one takes no more.
async fn ask_until(stop: Arc<AtomicBool>, to: SocketAddr) -> Asked {
    let mut asked = Asked::default();
    loop {
        let mut client = Client::connect_by(Version::Http3, None, to).await;
        asked.connections += 1;
        loop {
            // Relaxed: a stop that is seen a little later is as good.
            if stop.load(Ordering::Relaxed) {
                return asked;
            }
            match client.try_send(get("/")).await {
                Ok(answer) if answer.status == 200 => asked.answered += 1,
                Ok(answer) => asked.lost.push(format!("status {}", answer.status)),
                Err(error) if error == NOT_SENT => break,
                Err(error) if error.contains("H3_REQUEST_REJECTED") => asked.sent_again += 1,
                Err(error) => asked.lost.push(error),
            }
        }
    }
}

/// Goal: an upgrade and reloads lose no request of HTTP/3. Method: a download of 100 MB and 200 requests are under way while the gateway is
/// reloaded twenty times and replaced in between, and four clients ask without a pause.
#[tokio::test]
async fn an_upgrade_under_load_loses_no_request_of_http3() {
    let origin = Origin::answering(|received| match received.target.as_str() {
        "/large" => Answer::new(200).body(vec![b'x'; LARGE]).into(),
        _ => Reply::After(Duration::from_secs(5), Box::new(Answer::new(200).into())),
    });
    let setup = Setup::new()
        .without_access_log()
        .spoken_to_by(Version::Http3)
        .origin("app", &origin);
    let edit = |number: usize| {
        let routes = ["/large", "/held"].map(|path| route(path, &[], "origin = \"app\""));
        let edited = route(&format!("/edit-{number}"), &[], ANSWERED);
        rules(KEPT, &(routes.concat() + &edited))
    };
    let mut gateway = setup.rules(&edit(0)).start().await;
    let address = gateway.address();
    let stop = Arc::new(AtomicBool::new(false));
    let asking: Vec<_> = (0..4)
        .map(|_| tokio::spawn(ask_until(Arc::clone(&stop), address)))
        .collect();
    let ask_once = |path: &'static str| {
        tokio::spawn(async move {
            let mut client = Client::connect_by(Version::Http3, None, address).await;
            client.try_send(get(path)).await
        })
    };
    let download = ask_once("/large");
    let held: Vec<_> = (0..HELD).map(|_| ask_once("/held")).collect();
    origin.is_asked(HELD + 1).await;
    for number in 1..=10 {
        gateway.reload(&edit(number)).await;
    }
    let successor = upgrade(&gateway).await;
    for number in 11..=20 {
        gateway.reload(&edit(number)).await;
    }
    for request in held {
        let answer = request.await.unwrap();
        assert_eq!(answer.map(|answer| answer.status), Ok(200));
    }
    let downloaded = download.await.unwrap().expect("the whole body");
    assert_eq!(downloaded.body.len(), LARGE);
    assert!(downloaded.body.iter().all(|byte| *byte == b'x'));
    stop.store(true, Ordering::Relaxed);
    for client in asking {
        let asked = client.await.unwrap();
        assert!(asked.lost.is_empty(), "{asked:?}");
        assert!(asked.answered > 20, "{asked:?}");
        assert!(asked.connections >= 2, "it met the upgrade: {asked:?}");
    }
    drop(successor);
}
