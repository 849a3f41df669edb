//! Who gets a request.

use super::*;

/// The server that a client was given, out of its `Set-Cookie`.
fn cookie(answer: &Response) -> Option<String> {
    let given = answer.header("set-cookie")?;
    Some(given.split(';').next().unwrap().to_owned())
}

#[tokio::test]
async fn weights_are_shares() {
    // Goal: twice the weight is twice the requests, exactly. Method: weights 3 and 1, forty requests one after another.
    let (heavy, light) = (Origin::named("heavy"), Origin::named("light"));
    let rules = format!(
        "[origin.app]\nservers = [{{ address = \"{}\", weight = 3 }}, \"{}\"]\n{PASS}",
        heavy.address(),
        light.address()
    );
    let gateway = Gateway::start(&rules).await;
    let mut client = gateway.client().await;
    for _ in 0..40 {
        assert_eq!(client.get("/").await.status, 200);
    }
    assert_eq!((heavy.count(), light.count()), (30, 10));
    let attempts = "sluicegate_origin_attempts_total";
    let address = heavy.address().to_string();
    let labels = [("server", &*address), ("outcome", "2xx")];
    assert_eq!(gateway.metrics().await.sum(attempts, &labels), 30.0);
}

#[tokio::test]
async fn a_busy_server_is_spared() {
    // Goal: "least-requests" sees what is in flight. Method: a server that never answers and one that does: after the first request the
    // silent one gets none, and it is free again once its client has left.
    let (silent, quick) = (Origin::answering(|_| Reply::Hang), Origin::named("quick"));
    let gateway = before(&[&silent, &quick], "balance = \"least-requests\"").await;
    let mut stuck = gateway.client().await;
    let stuck = tokio::spawn(async move { stuck.try_send(get("/")).await });
    eventually("one request is stuck", async || {
        let in_flight = &server(&gateway, silent.address()).await["in_flight"];
        (*in_flight == 1 && silent.count() == 1).then_some(())
    })
    .await;
    let before = quick.count();
    let mut client = gateway.client().await;
    for _ in 0..20 {
        assert_eq!(client.get("/").await.text(), "quick");
    }
    assert_eq!((silent.count(), quick.count()), (1, before + 20));
    stuck.abort();
    eventually("its place is free", async || {
        (server(&gateway, silent.address()).await["in_flight"] == 0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_hashed_value_keeps_its_server_across_a_restart() {
    // Goal: equal values of `hash_key` meet at one server, whatever process decides. Method: thirty users twice, with a restart between;
    // the servers hear of each user what they heard before, and each hears of some.
    let (one, other) = (Origin::named("one"), Origin::named("other"));
    let lines = "balance = \"hash\"\nhash_key = \"header.x-user\"";
    let mut gateway = before(&[&one, &other], lines).await;
    let ask = async |gateway: &Gateway| {
        let mut client = gateway.client().await;
        let mut told = Vec::new();
        for user in 0..30 {
            let request = get("/").header("x-user", &format!("user-{user}"));
            told.push(client.send(request).await.text().to_owned());
        }
        told
    };
    let first = ask(&gateway).await;
    assert_eq!(ask(&gateway).await, first);
    gateway.kill();
    gateway.start_again().await;
    assert_eq!(ask(&gateway).await, first);
    assert!(one.count() >= 9 && other.count() >= 9, "{first:?}");
}

#[tokio::test]
async fn a_sticky_client_keeps_its_server_across_a_restart() {
    // Goal: the cookie leads back to its server, also in the next process where counters survive. Method: a cookie from each server; ten
    // requests with each, a restart, ten more; no second cookie is given, and a made-up one gets a new one.
    let (one, other) = (Origin::named("one"), Origin::named("other"));
    let rules = format!("[server]\nstate_dir = \"state\"\n{PASS}");
    let setup = Setup::new().servers("app", &[one.address(), other.address()]);
    let setup = setup.origin_line("sticky = { ttl = \"1h\" }").rules(&rules);
    let mut gateway = setup.start().await;
    let first = gateway.get("/").await;
    let second = gateway.get("/").await;
    assert_ne!(first.text(), second.text());
    let given = first.header("set-cookie").unwrap();
    assert!(given.starts_with("sluicegate-server="), "{given}");
    assert!(
        given.ends_with("; Path=/; HttpOnly; SameSite=Lax; Max-Age=3600"),
        "{given}"
    );
    for round in 0..2 {
        for answer in [&first, &second] {
            let mut client = gateway.client().await;
            for _ in 0..10 {
                let cookies = format!("a=b; {}", cookie(answer).unwrap());
                let again = client.send(get("/").header("cookie", &cookies)).await;
                assert_eq!(again.text(), answer.text(), "round {round}");
                assert_eq!(again.header("set-cookie"), None);
            }
        }
        gateway.kill();
        gateway.start_again().await;
    }
    let forged = get("/").header("cookie", "sluicegate-server=0000000000000000");
    assert!(cookie(&gateway.send(forged).await).is_some());
}
