//! What an operator can do about a server.

use tokio::task::JoinHandle;

use super::adaptive::{Crowd, Workers};
use super::on_demand::OnDemand;
use super::*;

/// A gateway with a token before two servers.
async fn with_token(origins: &[&Origin], lines: &str) -> Gateway {
    let addresses: Vec<SocketAddr> = origins.iter().map(|origin| origin.address()).collect();
    with_token_before(&addresses, lines).await
}

async fn with_token_before(servers: &[SocketAddr], lines: &str) -> Gateway {
    Setup::new()
        .tokens(TOKEN)
        .servers("app", servers)
        .origin_line(lines)
        .rules(PASS)
        .start()
        .await
}

/// An order to a server, with the token.
async fn order(gateway: &Gateway, address: SocketAddr, order: &str) -> Value {
    let request = post(&format!("/origins/app/servers/{address}/{order}"));
    let answer = gateway.admin(request.bearer(TOKEN)).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

/// Replaces the rules and waits until they serve.
async fn reload(gateway: &mut Gateway, rules: &str) {
    let generation = async |gateway: &Gateway| {
        let status = gateway.admin(get("/status").bearer(TOKEN)).await.json();
        status["configuration"]["generation"].as_u64().unwrap()
    };
    let before = generation(gateway).await;
    gateway.write_rules(rules, Writing::Rename);
    eventually("the new rules serve", async || {
        (generation(gateway).await > before).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_drained_server_empties_and_stays_out_across_a_reload() {
    // Goal: nothing new goes to a drained server, what is there ends in its own time, and reloads do not undo it, with the origin's rules
    // changed or not. Method: a request that takes three seconds is in flight at the drain; then reloads; then the way back.
    let slow = Origin::answering(|request| {
        let answer = Answer::new(200).body("slow");
        match &*request.target {
            "/slow" => Reply::After(std::time::Duration::from_secs(3), Box::new(answer.into())),
            _ => answer.into(),
        }
    });
    let other = Origin::named("other");
    let mut gateway = with_token(&[&slow, &other], "").await;
    let mut client = gateway.client().await;
    let under_way = tokio::spawn(async move {
        // Of two requests one meets the slow server.
        let mut told = vec![client.get("/slow").await.text().to_owned()];
        told.push(client.get("/slow").await.text().to_owned());
        told
    });
    eventually("a request is under way", async || {
        (slow.count() > 0).then_some(())
    })
    .await;
    let shown = order(&gateway, slow.address(), "drain").await;
    assert_eq!(shown["state"], "draining");
    assert_eq!(shown["in_flight"], 1);
    let told = under_way.await.unwrap();
    assert!(told.contains(&"slow".to_owned()), "{told:?}");
    let only_other = async |gateway: &Gateway| {
        let mut client = gateway.client().await;
        for _ in 0..10 {
            assert_eq!(client.get("/").await.text(), "other");
        }
    };
    only_other(&gateway).await;
    reload(&mut gateway, &format!("[server]\nmax_headers = 50\n{PASS}")).await;
    only_other(&gateway).await;
    let timeouts = "[origin.app.timeouts]\nconnect = \"1s\"\n";
    reload(&mut gateway, &format!("{timeouts}{PASS}")).await;
    only_other(&gateway).await;
    let shown = gateway.admin(get("/origins").bearer(TOKEN)).await.json();
    let servers = shown["origins"][0]["servers"].as_array().unwrap();
    let states: Vec<_> = servers.iter().map(|server| &server["state"]).collect();
    assert_eq!(states, ["draining", "unchecked"]);
    let shown = order(&gateway, slow.address(), "undrain").await;
    assert_eq!(shown["state"], "unchecked");
    let before = slow.count();
    let mut client = gateway.client().await;
    for _ in 0..10 {
        client.get("/").await;
    }
    assert_eq!(slow.count(), before + 5);
}

#[tokio::test]
async fn orders_need_the_token_and_a_server() {
    // Goal: only authorized requests drain, and errors are reported. Method: requests around the right one.
    let origin = Origin::named("app");
    let gateway = with_token(&[&origin], "").await;
    let path = format!("/origins/app/servers/{}/drain", origin.address());
    assert_eq!(gateway.admin(post(&path)).await.status, 401);
    assert_eq!(gateway.admin(get(&path).bearer(TOKEN)).await.status, 405);
    for (path, status) in [
        ("/origins/app/servers/127.0.0.1:1/drain", 404),
        ("/origins/none/servers/127.0.0.1:1/drain", 404),
        ("/origins/app/servers/localhost:80/drain", 400),
    ] {
        assert_eq!(
            gateway.admin(post(path).bearer(TOKEN)).await.status,
            status,
            "{path}"
        );
    }
    assert_eq!(gateway.get("/").await.status, 200);
    let open = Gateway::passing(&origin).await;
    assert_eq!(open.admin(post(&path)).await.status, 403);
    assert_eq!(open.get("/").await.status, 200);
}

#[tokio::test]
async fn a_server_that_is_back_starts_slowly() {
    // Goal: `slow_start` holds back a server at first. Method: an hour's start that has just begun; of 300 requests at two equal servers
    // one gets about a tenth of its share.
    let (back, warm) = (Origin::named("back"), Origin::named("warm"));
    let gateway = with_token(&[&back, &warm], "slow_start = \"1h\"").await;
    order(&gateway, back.address(), "drain").await;
    let shown = order(&gateway, back.address(), "undrain").await;
    assert_eq!(shown["state"], "slow-start");
    let mut client = gateway.client().await;
    for _ in 0..300 {
        assert_eq!(client.get("/").await.status, 200);
    }
    let share = back.count();
    assert!((5..=75).contains(&share), "{share} of 300");
}

/// The origin in `/origins`, and its server at this address.
async fn shown(gateway: &Gateway, address: SocketAddr) -> (Value, Value) {
    let shown = gateway.admin(get("/origins").bearer(TOKEN)).await.json();
    let origin = shown["origins"][0].clone();
    let servers = origin["servers"].as_array().unwrap();
    let server = servers
        .iter()
        .find(|server| server["address"] == address.to_string());
    (origin.clone(), server.unwrap().clone())
}

/// The gauges of the server with an adaptive limit: whether it is in service, what waits for it, and its limit.
async fn gauges(gateway: &Gateway, address: SocketAddr) -> [f64; 3] {
    let answer = gateway.admin(get("/metrics").bearer(TOKEN)).await;
    let metrics = Metrics::parse(answer.text());
    let address = address.to_string();
    let names = ["server_up", "concurrency_waiting", "concurrency_limit"];
    names.map(|name| {
        let name = format!("sluicegate_origin_{name}");
        metrics.sum(&name, &[("origin", "app"), ("server", &address)])
    })
}

/// Waits until the gauges are these.
async fn gauges_are(gateway: &Gateway, address: SocketAddr, wanted: [f64; 3]) {
    eventually(&format!("{address} has {wanted:?}"), async || {
        (gauges(gateway, address).await == wanted).then_some(())
    })
    .await;
}

/// Waits until so many requests wait in the queue of the origin.
async fn pending(gateway: &Gateway, address: SocketAddr, requests: usize) {
    eventually(&format!("{requests} are pending"), async || {
        let (origin, _) = shown(gateway, address).await;
        (origin["pending"] == requests).then_some(())
    })
    .await;
}

/// Sends a request on a connection of its own, and returns its status.
fn ask(gateway: &Gateway) -> JoinHandle<u16> {
    let to = gateway.address();
    tokio::spawn(async move { Client::connect(to).await.get("/").await.status })
}

#[tokio::test]
async fn a_drained_server_with_a_limit_gets_none_of_the_requests_that_wait() {
    // Goal: what a drained server has ends there and leaves its places; what waits in the queue goes to the others, and to that server only
    // once it is back. Method: two servers with two places each, which the test answers for; four requests that they hold and one that
    // waits; the gauges, and what each server was asked for, after each step.
    let servers = [OnDemand::taking(100).await, OnDemand::taking(100).await];
    let [drained, other] = &servers;
    let lines = "protocol = \"h2c\"\n\
        adaptive_concurrency = { min = 2, max = 2 }\n\
        circuit_breaker = { max_requests = 100, max_pending = 10, pending_timeout = \"1m\", queue_order = \"fair\" }";
    let gateway = with_token_before(&[drained.address, other.address], lines).await;
    let mut all: Vec<_> = (0..4).map(|_| ask(&gateway)).collect();
    for server in &servers {
        server.has(2).await;
    }
    all.push(ask(&gateway));
    pending(&gateway, drained.address, 1).await;

    let shown = order(&gateway, drained.address, "drain").await;
    assert_eq!(
        (&shown["state"], &shown["in_flight"]),
        (&"draining".into(), &2.into())
    );
    gauges_are(&gateway, drained.address, [0.0, 2.0, 2.0]).await;
    // Its places become free, and nobody gets them.
    drained.answer(2);
    gauges_are(&gateway, drained.address, [0.0, 0.0, 2.0]).await;
    pending(&gateway, drained.address, 1).await;
    assert_eq!((drained.asked().len(), other.asked().len()), (2, 2));
    // A place at the other server is for the request that waits.
    other.answer(1);
    other.has(3).await;
    pending(&gateway, drained.address, 0).await;

    all.push(ask(&gateway));
    pending(&gateway, drained.address, 1).await;
    order(&gateway, drained.address, "undrain").await;
    drained.has(3).await;
    gauges_are(&gateway, drained.address, [1.0, 1.0, 2.0]).await;
    drained.answer(1);
    other.answer(2);
    for request in all {
        assert_eq!(request.await.unwrap(), 200);
    }
    for server in &servers {
        gauges_are(&gateway, server.address, [1.0, 0.0, 2.0]).await;
    }
    assert_eq!((drained.asked().len(), other.asked().len()), (3, 3));
}

#[tokio::test]
async fn a_drained_server_keeps_its_limit() {
    // Goal: what was learned of a server outlasts its drain, so that it is not flooded, or starved, when it is back. Method: a limit that
    // has grown far beyond where it began; its value before, during and after a drain, with requests meanwhile that no server takes.
    let server = Workers::start(50, 5).await;
    let lines = "adaptive_concurrency = { min = 2, max = 40, initial = 4, window = \"20ms\" }";
    let gateway = with_token_before(&[server.address], lines).await;
    let crowd = Crowd::of(60, "127.0.0.2", &gateway);
    eventually("the limit grows", async || {
        let (_, server) = shown(&gateway, server.address).await;
        (server["limit"]["requests"].as_u64() >= Some(20)).then_some(())
    })
    .await;
    crowd.end().await;
    let (_, before) = shown(&gateway, server.address).await;
    let learned = &before["limit"];
    assert!(learned["requests"].as_u64() > Some(4), "{before}");

    let drained = order(&gateway, server.address, "drain").await;
    assert_eq!(&drained["limit"], learned);
    for _ in 0..20 {
        let answer = gateway.get("/").await;
        assert_eq!(answer.status, 503);
    }
    let limit = learned["requests"].as_f64().unwrap();
    gauges_are(&gateway, server.address, [0.0, 0.0, limit]).await;

    let back = order(&gateway, server.address, "undrain").await;
    assert_eq!(
        (&back["state"], &back["limit"]),
        (&"unchecked".into(), learned)
    );
    gauges_are(&gateway, server.address, [1.0, 0.0, limit]).await;
    assert_eq!(gateway.get("/").await.status, 200);
}
