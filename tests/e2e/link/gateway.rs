//! What an operator sees of the store: the log, `/status`, `/metrics`, `/readyz`, reloads, and `sluicegate store check`.

use std::fs;

use serde_json::json;

use crate::harness::{Gateway, Process, Redis, Setup, Writing, eventually, get};

fn setup(store: &str) -> Setup {
    Setup::new().rules(&format!(
        "[[route]]\npath = '/*'\nlimits = ['a']\nrespond = {{ status = 204 }}\n\
         [limit.a]\nkey = 'client.ip'\nrates = ['5 per 1h']\nstore = 'shared-strict'\n[store]\n{store}\n"
    ))
}

async fn state(gateway: &Gateway, expected: &str) {
    eventually(&format!("the store is {expected}"), async || {
        let status = gateway.status().await;
        (status["store"]["servers"][0]["state"] == expected).then_some(())
    })
    .await;
}

/// Goal: an outage is logged once, and visible while it lasts. Method: kill and restart; requests all the while.
#[tokio::test]
async fn an_outage_is_logged_once_and_shown() {
    let mut redis = Redis::start().await;
    let gateway = setup(&format!("url = '{}'", redis.url())).start().await;
    state(&gateway, "connected").await;
    let status = gateway.status().await;
    assert_eq!(status["store"]["topology"], "single");
    assert_eq!(status["store"]["nodes"], 1);
    let server = &status["store"]["servers"][0];
    assert_eq!(server["address"], redis.address().to_string());
    assert_eq!(server["last_error"], json!(null));
    assert!(server["clock_ahead_seconds"].as_f64().unwrap().abs() < 1.0);
    let address = redis.address().to_string();
    let up = async || {
        let metrics = gateway.metrics().await;
        metrics.sum("sluicegate_store_up", &[("server", &address)])
    };
    assert_eq!(up().await, 1.0);
    redis.kill();
    state(&gateway, "unavailable").await;
    assert_eq!(up().await, 0.0);
    for _ in 0..20 {
        gateway.get("/").await;
    }
    let status = gateway.status().await;
    assert!(status["store"]["servers"][0]["last_error"]["error"].is_string());
    redis.restart().await;
    state(&gateway, "connected").await;
    let log = gateway.stderr();
    for (line, times) in [
        ("breaker open", 1),
        ("available again", 1),
        ("connected to", 1),
    ] {
        assert_eq!(log.matches(line).count(), times, "{line}: {log}");
    }
    let metrics = gateway.metrics().await;
    assert_eq!(
        metrics.sum("sluicegate_store_breaker_opened_total", &[]),
        1.0
    );
    assert_eq!(
        metrics.sum("sluicegate_store_connects_total", &[("result", "ok")]),
        2.0
    );
    assert_eq!(metrics.sum("sluicegate_store_nodes", &[]), 1.0);
}

/// Goal: a gateway is ready without its store, unless it is configured to wait; then once is enough. Method: a store that starts late,
/// and
/// goes.
#[tokio::test]
async fn readiness_waits_for_the_store_only_where_it_should() {
    let mut redis = Redis::start().await;
    redis.kill();
    let without = setup(&format!("url = '{}'", redis.url())).start().await;
    assert_eq!(without.admin(get("/readyz")).await.status, 200);

    let mut gateway = without;
    gateway.write_setup(
        setup(&format!(
            "url = '{}'\nrequired_for_ready = true",
            redis.url()
        )),
        Writing::InPlace,
    );
    gateway.kill();
    let restarted = gateway.start_again_unready().await;
    assert_eq!(restarted, 503);
    let answer = gateway.admin(get("/readyz")).await;
    assert!(answer.text().contains("store"), "{answer:?}");
    redis.restart().await;
    eventually("the gateway is ready", async || {
        (gateway.admin(get("/readyz")).await.status == 200).then_some(())
    })
    .await;
    redis.kill();
    state(&gateway, "unavailable").await;
    assert_eq!(gateway.admin(get("/readyz")).await.status, 200);
}

/// Goal: a reload that leaves [store] alone keeps its connection, one that changes it makes another and ends the old. Method: the
/// server's own count of connections.
#[tokio::test]
async fn a_reload_changes_the_link_only_with_its_rules() {
    let (one, two) = (Redis::start().await, Redis::start().await);
    let connections = |redis: &Redis| {
        let list = redis.command(&["CLIENT", "LIST"]);
        list.as_str().unwrap().matches("cmd=eval").count()
    };
    let mut gateway = setup(&format!("url = '{}'", one.url())).start().await;
    state(&gateway, "connected").await;
    let connects = async |gateway: &Gateway| {
        gateway
            .metrics()
            .await
            .sum("sluicegate_store_connects_total", &[("result", "ok")])
    };
    assert_eq!(connects(&gateway).await, 1.0);
    let before = gateway.generation().await;
    gateway.write_setup(
        setup(&format!("url = '{}' # same", one.url())).admin_line("# another file"),
        Writing::Rename,
    );
    let other = setup(&format!("url = '{}'", one.url()));
    gateway.write_setup(other.listener_line("http2 = false"), Writing::Rename);
    gateway.serves_after(before).await;
    assert_eq!(connects(&gateway).await, 1.0);
    let before = gateway.generation().await;
    gateway.write_setup(setup(&format!("url = '{}'", two.url())), Writing::Rename);
    gateway.serves_after(before).await;
    state(&gateway, "connected").await;
    assert_eq!(
        gateway.status().await["store"]["servers"][0]["address"],
        two.address().to_string()
    );
    eventually("the old connection is closed", async || {
        (connections(&one) == 0).then_some(())
    })
    .await;
    assert_eq!(connections(&two), 1);
}

/// Runs `sluicegate store check` on a file with these lines of `[store]`; its exit code and what it said.
async fn check(store: &str) -> (i32, String) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("gateway.toml");
    let text = format!(
        "listener = [{{ address = '127.0.0.1:1' }}]\nroute = [{{ path = '/*', limits = ['a'], respond = {{ status = 204 }} }}]\n\
         [limit.a]\nkey = 'global'\nrates = ['1 per 1s']\nstore = 'shared-strict'\n[store]\n{store}\n"
    );
    fs::write(&file, text).unwrap();
    let mut process = Process::run(&["store", "check", file.to_str().unwrap()]);
    let code = process.exit_code().await;
    (code, format!("{}{}", process.stdout(), process.stderr()))
}

/// Goal: the check reports a working store, or the cure. Method: a good one, one that evicts, one that is full, one that nobody
/// listens at, and a wrong password.
#[tokio::test]
async fn store_check_reports_findings_and_cures() {
    let redis = Redis::start().await;
    let store = format!("url = '{}'", redis.url());
    let (code, said) = check(&store).await;
    assert_eq!(code, 0, "{said}");
    for part in [
        "Redis 7",
        "master",
        "round trip",
        "clock",
        "script",
        "maxmemory",
        "appendonly yes",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    redis.command(&[
        "CONFIG",
        "SET",
        "maxmemory-policy",
        "allkeys-lru",
        "maxmemory",
        "100mb",
    ]);
    let (code, said) = check(&store).await;
    assert!(code == 0 && said.contains("volatile-ttl"), "{said}");
    redis.command(&[
        "CONFIG",
        "SET",
        "maxmemory-policy",
        "noeviction",
        "maxmemory",
        "1",
    ]);
    let (code, said) = check(&store).await;
    assert!(code == 1 && said.contains("OOM"), "{said}");
    redis.command(&["CONFIG", "SET", "requirepass", "hunter2"]);
    let (code, said) = check(&store).await;
    assert!(code == 1 && said.contains("password_file"), "{said}");
    let nobody = crate::harness::free_port();
    let (code, said) = check(&format!("url = 'redis://127.0.0.1:{nobody}'")).await;
    assert!(code == 1 && said.contains("no connection"), "{said}");
}

/// Goal: the documented rights are enough. Method: a user with those of a store and of its check, and no more; a timeout at
/// which no busy moment of this machine is worth a word.
#[tokio::test]
async fn store_check_passes_with_the_rights_that_are_documented() {
    let redis = Redis::start_with(&[
        "--maxmemory",
        "100mb",
        "--maxmemory-policy",
        "volatile-ttl",
        "--appendonly",
        "yes",
    ])
    .await;
    redis.add_gateway_user(&["+ping", "+info"]);
    let password = redis.directory().join("password");
    fs::write(&password, "hunter2\n").unwrap();
    let (code, said) = check(&format!(
        "url = 'redis://gateway@{}'\npassword_file = '{}'\ntimeout = '5s'",
        redis.address(),
        password.display()
    ))
    .await;
    assert!(code == 0 && !said.contains("doubt"), "{said}");
}

/// Goal: Clusters are checked master by master. Method: three.
#[tokio::test]
async fn store_check_looks_at_every_master() {
    let cluster = Redis::cluster(3).await;
    let (code, said) = check(&format!("cluster = {}", cluster.toml())).await;
    assert_eq!(code, 0, "{said}");
    for node in &cluster.nodes {
        assert!(said.contains(&node.address().to_string()), "{said}");
    }
    let (code, said) = check(&format!("url = '{}'", cluster.nodes[0].url())).await;
    assert!(code == 1 && said.contains("cluster ="), "{said}");
}
