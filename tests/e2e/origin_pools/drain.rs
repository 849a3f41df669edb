//! What an operator can do about a server.

use super::*;

/// A gateway with a token before two servers.
async fn with_token(origins: &[&Origin], lines: &str) -> Gateway {
    let addresses: Vec<SocketAddr> = origins.iter().map(|origin| origin.address()).collect();
    Setup::new()
        .file("token", "0123456789abcdef")
        .admin_line("token_file = \"{directory}/token\"")
        .servers("app", &addresses)
        .origin_line(lines)
        .rules(PASS)
        .start()
        .await
}

/// An order to a server, with the token.
async fn order(gateway: &Gateway, address: SocketAddr, order: &str) -> Value {
    let request = post(&format!("/origins/app/servers/{address}/{order}"));
    let answer = gateway.admin(bearer(request)).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

/// Replaces the rules and waits until they serve.
async fn reload(gateway: &mut Gateway, rules: &str) {
    let generation = async |gateway: &Gateway| {
        let status = gateway.admin(bearer(get("/status"))).await.json();
        status["configuration"]["generation"].as_u64().unwrap()
    };
    let before = generation(gateway).await;
    gateway.write_rules(rules, Writing::Rename);
    eventually("the new rules serve", async || {
        (generation(gateway).await > before).then_some(())
    })
    .await;
}

fn bearer(request: Request) -> Request {
    request.header("authorization", "Bearer 0123456789abcdef")
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
    let shown = gateway.admin(bearer(get("/origins"))).await.json();
    let servers = shown["origins"][0]["servers"].as_array().unwrap();
    let states: Vec<_> = servers.iter().map(|server| &server["state"]).collect();
    assert_eq!(states, ["draining", "up"]);
    let shown = order(&gateway, slow.address(), "undrain").await;
    assert_eq!(shown["state"], "up");
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
    assert_eq!(gateway.admin(bearer(get(&path))).await.status, 405);
    for (path, status) in [
        ("/origins/app/servers/127.0.0.1:1/drain", 404),
        ("/origins/none/servers/127.0.0.1:1/drain", 404),
        ("/origins/app/servers/localhost:80/drain", 400),
    ] {
        assert_eq!(
            gateway.admin(bearer(post(path))).await.status,
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
