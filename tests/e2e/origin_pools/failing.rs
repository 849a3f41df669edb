//! What holds when servers fail.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

#[tokio::test]
async fn a_server_that_fails_requests_is_left_alone() {
    // Goal: passive ejection, without checks. Method: one of two servers answers 503; after three of them clients see no more, and status
    // and metrics say why.
    let (ill, well) = (answering(503), Origin::named("well"));
    let ejection = "outlier_detection = { consecutive_failures = 3, on = [503], base_ejection_time = \"1h\", max_ejection_time = \"1h\" }";
    let gateway = before(&[&ill, &well], ejection).await;
    let mut client = gateway.client().await;
    let mut statuses = Vec::new();
    for _ in 0..30 {
        statuses.push(client.get("/").await.status);
    }
    assert_eq!(statuses.iter().filter(|status| **status == 503).count(), 3);
    assert_eq!(ill.count(), 3);
    let shown = server(&gateway, ill.address()).await;
    assert_eq!(shown["state"], "ejected");
    assert_eq!(shown["last_failure"]["outcome"], "5xx");
    let ejections = "sluicegate_origin_server_ejections_total";
    assert_eq!(gateway.metrics().await.sum(ejections, &[]), 1.0);
}

#[tokio::test]
async fn an_ejected_server_comes_back() {
    // Goal: an ejection ends by itself. Method: a server that fails once and is well then; it is asked again.
    let asked = AtomicUsize::new(0);
    let shaky = Origin::answering(move |_| {
        let first = asked.fetch_add(1, Ordering::Relaxed) == 0;
        Answer::new(if first { 500 } else { 200 }).into()
    });
    let well = Origin::named("well");
    let ejection = "outlier_detection = { consecutive_failures = 1, on = [\"500-599\"], base_ejection_time = \"200ms\" }";
    let gateway = before(&[&shaky, &well], ejection).await;
    let mut client = gateway.client().await;
    eventually("it was ejected and is asked again", async || {
        client.get("/").await;
        (shaky.count() > 1).then_some(())
    })
    .await;
    let ejections = "sluicegate_origin_server_ejections_total";
    assert_eq!(gateway.metrics().await.sum(ejections, &[]), 1.0);
    becomes(&gateway, shaky.address(), "unchecked").await;
}

#[tokio::test]
async fn the_last_servers_are_not_ejected() {
    // Goal: `max_percent` outweighs failures. Method: a single server that always fails is asked all the same.
    let ill = answering(502);
    let gateway = before(&[&ill], "outlier_detection = { consecutive_failures = 1 }").await;
    let mut client = gateway.client().await;
    for _ in 0..10 {
        assert_eq!(client.get("/").await.text(), "said");
    }
    assert_eq!(ill.count(), 10);
}

#[tokio::test]
async fn backups_serve_while_no_primary_can() {
    // Goal: a backup gets nothing before, and nothing after. Method: a primary with a check that stops and comes back.
    let (primary, backup) = (Origin::named("primary"), Origin::named("backup"));
    let rules = format!(
        "[origin.app]\nservers = [\"{}\", {{ address = \"{}\", backup = true }}]\n\
         health = {{ interval = \"50ms\", unhealthy_after = 1 }}\n{PASS}",
        primary.address(),
        backup.address()
    );
    let gateway = Gateway::start(&rules).await;
    let mut client = gateway.client().await;
    for _ in 0..10 {
        assert_eq!(client.get("/").await.text(), "primary");
    }
    let address = primary.stop();
    // The first one may still meet the primary, and is tried again.
    for _ in 0..10 {
        assert_eq!(client.get("/").await.text(), "backup");
    }
    becomes(&gateway, address, "down").await;
    assert_eq!(client.get("/").await.text(), "backup");
    let _primary = Origin::answering_at(address, |_| Answer::new(200).body("primary").into());
    becomes(&gateway, address, "up").await;
    for _ in 0..10 {
        assert_eq!(client.get("/").await.text(), "primary");
    }
}

#[tokio::test]
async fn a_check_wants_the_statuses_that_it_names() {
    // Goal: `statuses`. Method: a server whose check answers 200 where only 204 is good, beside one that says 204.
    let (wrong, right) = (answering(200), answering(204));
    let health = "health = { path = \"/up\", statuses = [204], interval = \"50ms\" }";
    let gateway = before(&[&wrong, &right], health).await;
    becomes(&gateway, wrong.address(), "down").await;
    assert_eq!(server(&gateway, right.address()).await["state"], "up");
    let mut client = gateway.client().await;
    for _ in 0..10 {
        assert_eq!(client.get("/").await.status, 204);
    }
}

#[tokio::test]
async fn a_server_that_is_killed_under_load_costs_no_get() {
    // Goal: checks, ejection and retries together let no GET fail. Method: 20,000 of them at three servers, one of which is killed on the
    // way; every answer is 200.
    let origins: Vec<Origin> = (0..3).map(|_| Origin::named("alive")).collect();
    let addresses: Vec<SocketAddr> = origins.iter().map(Origin::address).collect();
    let setup = Setup::new().servers("app", &addresses).origin_line(
        "health = { interval = \"100ms\" }\n\
         outlier_detection = { consecutive_failures = 3, base_ejection_time = \"1h\", max_ejection_time = \"1h\" }\nretries = 3\n\
         retry = { on = [\"connect\", \"reset\"], budget = \"100%\", min_per_second = 1000 }",
    );
    let gateway = setup.rules(PASS).start().await;
    let mut origins = origins;
    let failing = origins.remove(1);
    let address = gateway.address();
    let flood = tokio::spawn(async move {
        let flood = Flood::gets(20_000, "/").connections(16);
        flood.run(address).await
    });
    eventually("the load is under way", async || {
        (failing.count() > 1000).then_some(())
    })
    .await;
    drop(failing);
    let report = flood.await.unwrap();
    assert_eq!((report.count(200), report.broken()), (20_000, 0));
}

#[tokio::test]
async fn a_name_is_several_servers_of_one_entry() {
    // Goal: a name that is looked up again and again keeps serving, and its servers what is known of them. Method: localhost, which every
    // machine knows, looked up each 100 ms; the requests of half a second find the one address that listens, at the second try at worst.
    let origin = Origin::named("named");
    let port = origin.address().port();
    let rules = format!(
        "[origin.app]\nservers = [\"localhost:{port}\"]\nresolve_every = \"100ms\"\n\
         health = {{ interval = \"50ms\", unhealthy_after = 1 }}\n{PASS}"
    );
    let gateway = Gateway::start(&rules).await;
    let mut client = gateway.client().await;
    let started = std::time::Instant::now();
    while started.elapsed() < std::time::Duration::from_millis(500) {
        assert_eq!(client.get("/").await.text(), "named");
    }
    assert_eq!(server(&gateway, origin.address()).await["state"], "up");
}
