//! Open files: one client cannot take them all, and what cannot work says so.

use std::time::Duration;

use futures_util::future::join_all;

use crate::harness::*;

const PASS: &str = "[[route]]\npath = \"/*\"\norigin = \"app\"\n";

/// An origin that never answers `/hang`.
fn partly_hanging() -> Origin {
    Origin::answering(|received| match received.target.as_str() {
        "/hang" => Reply::Hang,
        _ => Answer::new(200).body("here").into(),
    })
}

async fn refused(gateway: &Gateway, cap: &str) -> f64 {
    let metrics = gateway.metrics().await;
    metrics.sum("sluicegate_origin_requests_refused_total", &[("cap", cap)])
}

#[tokio::test]
async fn one_client_cannot_take_every_file() {
    // Goal: whatever one client does over HTTP/2, others are served and the operator is answered. Method: few files and many; eight
    // connections with 120 streams each, to an origin that does not answer them.
    for files in [1024, 1 << 14] {
        let origin = partly_hanging();
        let gateway = Setup::new()
            .with_open_files(files)
            .origin("app", &origin)
            .rules(&format!(
                "[server]\nmax_origin_requests_per_client = 100\n{PASS}"
            ))
            .start()
            .await;
        let mut streams = Vec::new();
        for _ in 0..8 {
            let client = gateway.h2c().await;
            streams.extend((0..120).map(|_| {
                let client = client.clone();
                tokio::spawn(async move { client.send(get("/hang")).await.status })
            }));
        }
        let cap = "max_origin_requests_per_client";
        eventually("what is too much is refused", async || {
            (refused(&gateway, cap).await == 860.0).then_some(())
        })
        .await;
        for _ in 0..20 {
            let mut other = gateway.client_from("127.0.0.9").await;
            assert_eq!(other.get("/").await.status, 200);
            assert_eq!(gateway.admin(get("/readyz")).await.status, 200);
        }
        assert_eq!(origin.count(), 100 + 20);
        let refused = streams.iter().filter(|stream| stream.is_finished()).count();
        assert_eq!(refused, 860);
        streams.iter().for_each(|stream| stream.abort());
        eventually("its share is free again", async || {
            let metrics = gateway.metrics().await;
            (metrics.sum("sluicegate_origin_requests", &[]) == 0.0).then_some(())
        })
        .await;
        assert_eq!(gateway.get("/").await.status, 200);
    }
}

#[tokio::test]
async fn the_share_of_a_client_follows_the_files() {
    // Goal: without a word in the configuration four clients are needed to take everything. Method: what the gateway says at 1,024 files;
    // one client asks for more than its share.
    let origin = partly_hanging();
    let gateway = Setup::new()
        .with_open_files(1024)
        .origin("app", &origin)
        .rules(PASS)
        .start()
        .await;
    let metrics = gateway.metrics().await;
    let most = |cap: &str| metrics.sum("sluicegate_origin_requests_max", &[("cap", cap)]);
    let (all, of_client) = (
        most("max_origin_requests"),
        most("max_origin_requests_per_client"),
    );
    assert!(
        all <= 448.0 && of_client == (all / 4.0).floor(),
        "{all} {of_client}"
    );
    let client = gateway.h2c().await;
    let asks = (0..120).map(|_| {
        let client = client.clone();
        tokio::spawn(async move { client.send(get("/hang")).await })
    });
    let mut asks: Vec<_> = asks.collect();
    eventually("some are refused", async || {
        let over = 120 - of_client as usize;
        (asks.iter().filter(|ask| ask.is_finished()).count() == over).then_some(())
    })
    .await;
    let done = asks.iter().position(|ask| ask.is_finished()).unwrap();
    let refusal = asks.swap_remove(done).await.unwrap();
    refusal.assert_problem(503);
    assert_eq!(refusal.retry_after(), 1);
    asks.iter().for_each(|ask| ask.abort());
}

#[tokio::test]
async fn a_trusted_proxy_speaks_for_its_clients() {
    // Goal: the share is that of the client that a trusted proxy names. Method: one connection, two clients; one uses up its share.
    let origin = partly_hanging();
    let rules = format!(
        "[server]\nmax_origin_requests_per_client = 2\n[client]\ntrusted_proxies = [\"127.0.0.1\"]\n{PASS}"
    );
    let gateway = Gateway::before(&origin, &rules).await;
    let proxy = gateway.h2c().await;
    let hanging: Vec<_> = (0..2)
        .map(|_| {
            let proxy = proxy.clone();
            let ask = get("/hang").forwarded_for("192.0.2.1");
            tokio::spawn(async move { proxy.send(ask).await })
        })
        .collect();
    origin.is_asked(2).await;
    let of = |client: &'static str| proxy.send(get("/").forwarded_for(client));
    assert_eq!(of("192.0.2.1").await.status, 503);
    let others = join_all((0..9).map(|_| of("192.0.2.2"))).await;
    assert!(others.iter().any(|answer| answer.status == 200));
    assert_eq!(of("192.0.2.3").await.status, 200);
    hanging.iter().for_each(|one| one.abort());
}

#[tokio::test]
async fn a_process_with_too_few_descriptors_prints_one_sentence() {
    // Goal: neither a panic nor half a start. Method: from far too few files to nearly enough; with enough it starts.
    let rules = "[[listener]]\naddress = \"127.0.0.1:0\"\n[server]\nthreads = 1\n[[route]]\npath = \"/*\"\nrespond = { status = 200 }\n";
    let directory = tempfile::TempDir::new().unwrap();
    let file = directory.path().join("gateway.toml");
    std::fs::write(&file, rules).unwrap();
    let arguments = ["run", "--config", file.to_str().unwrap()];
    for files in [12, 40, 91] {
        let mut process = Process::run_under(&Setup::new().with_open_files(files), &arguments);
        assert_eq!(process.exit_code().await, 1, "{files}");
        let said = process.stderr();
        assert_eq!(said.lines().count(), 1, "{files}: {said}");
        assert!(
            said.contains(&format!("{files} files may be open")),
            "{said}"
        );
        assert!(said.contains("LimitNOFILE=92"), "{said}");
    }
    let gateway = Setup::new()
        .with_open_files(92)
        .rules("[server]\nthreads = 1\n[[route]]\npath = \"/*\"\nrespond = { status = 200 }\n")
        .start()
        .await;
    for _ in 0..20 {
        assert_eq!(gateway.get("/").await.status, 200);
    }
    assert!(
        !gateway.stderr().contains("panicked"),
        "{}",
        gateway.stderr()
    );
}

/// Listeners beside that of the harness.
fn further_listeners(count: usize) -> String {
    let listener = |_| format!("[[listener]]\naddress = \"{}\"\n", free_address());
    (0..count).map(listener).collect()
}

/// Limits with bans, whose counters lie in files.
fn limits_in_files(count: usize) -> String {
    let limit = |n| {
        format!(
            "[limit.l{n}]\nkey = \"client.ip\"\nrates = [\"9 per 1h\"]\ncapacity = 64\nban = {{ for = \"1m\" }}\n\
             [[route]]\npath = \"/l{n}\"\nlimits = [\"l{n}\"]\nrespond = {{ status = 200 }}\n"
        )
    };
    (0..count).map(limit).collect()
}

#[tokio::test]
async fn listeners_and_counters_take_files_too() {
    // Goal: what a configuration takes for itself is known before it starts. Method: 21 listeners and 50 limits with bans in files, one
    // file too few and as many as are named; `check` names them too.
    let rules = format!(
        "[server]\nthreads = 1\nstate_dir = \"{{directory}}/state\"\n[[listener]]\naddress = \"{{listener}}\"\n[admin]\n\
         address = \"{{admin}}\"\n[log]\naccess = \"{{directory}}/access.log\"\n{}{}[[route]]\npath = \"/*\"\n\
         respond = {{ status = 200 }}\n",
        further_listeners(20),
        limits_in_files(50)
    );
    let enough = 84 + 8 + 20 * 6 + 100;
    let gateway = Setup::new()
        .with_open_files(enough)
        .whole(&rules)
        .start()
        .await;
    for path in ["/", "/l0", "/l49"] {
        assert_eq!(gateway.get(path).await.status, 200);
    }
    let log = gateway.stderr();
    assert!(!log.contains("panicked") && !log.contains("ERROR"), "{log}");
    let file = gateway.config_path().to_str().unwrap().to_owned();
    let too_few = Setup::new().with_open_files(enough - 1);
    let sentence = format!("LimitNOFILE={enough}, ulimit -n {enough}, or more");
    let mut run = Process::run_under(&too_few, &["run", "--config", &file]);
    assert_eq!(run.exit_code().await, 1);
    let said = run.stderr();
    assert!(
        said.contains(&sentence) && !said.contains("panicked"),
        "{said}"
    );
    let mut check = Process::run_under(&too_few, &["check", &file]);
    assert_eq!(check.exit_code().await, 0);
    assert!(check.stderr().contains(&sentence), "{}", check.stderr());
    let mut check = Process::run_under(&too_few, &["check", "--json", &file]);
    assert_eq!(check.exit_code().await, 0);
    let report: serde_json::Value = serde_json::from_str(&check.stdout()).unwrap();
    let machine = report["machine"][0].as_str().unwrap();
    assert!(machine.contains(&sentence), "{report}");
}

/// Connections that were counted, and those among them that were closed for a cap, theirs or that of their request, or for another one.
async fn connections(gateway: &Gateway) -> usize {
    let text = gateway.admin(get("/metrics")).await.text().to_owned();
    let counted = [
        "sluicegate_connections ",
        "sluicegate_connections_reclaimed_total{",
        "sluicegate_connections_refused_total{",
        "sluicegate_origin_requests_refused_total{",
    ];
    let lines = text
        .lines()
        .filter(|line| counted.iter().any(|name| line.starts_with(name)));
    lines
        .filter_map(|line| line.rsplit(' ').next()?.parse::<usize>().ok())
        .sum()
}

#[tokio::test]
async fn many_clients_leave_files_for_the_operator() {
    // Goal: the operator is answered and a reload works whatever clients take, with many listeners too. Method: 21 listeners, 400 files;
    // clients of eight addresses ask for what never comes, and take every other connection with half a request.
    let origin = partly_hanging();
    let rules = format!(
        "[server]\nthreads = 1\nclient_header_timeout = \"10m\"\n{}{PASS}",
        further_listeners(20)
    );
    let mut gateway = Setup::new()
        .with_open_files(400)
        .origin("app", &origin)
        .rules(&rules)
        .start()
        .await;
    let mut clients = Vec::new();
    for n in 0..296 {
        let from = format!("127.0.0.{}", 2 + n % 8);
        let mut client = RawConnection::connect_from(&from, gateway.address()).await;
        let head = "GET /hang HTTP/1.1\r\nHost: a\r\n\r\n";
        let sent = if n < 96 { head } else { &head[..9] };
        // One too many is closed.
        let _ = client.try_write(sent).await;
        clients.push(client);
        if n % 16 == 15 {
            // Before more come than the accept loop takes at once.
            eventually("they are let in or refused", async || {
                (connections(&gateway).await > n).then_some(())
            })
            .await;
        }
    }
    for _ in 0..5 {
        assert_eq!(gateway.admin(get("/readyz")).await.status, 200);
    }
    let more = "[[route]]\npath = \"/more\"\nrespond = { status = 200 }\n";
    gateway.reload(&format!("{rules}{more}")).await;
    assert!(
        !gateway.stderr().contains("Too many open files"),
        "{}",
        gateway.stderr()
    );
    drop(clients);
}

#[tokio::test]
async fn the_operators_listener_takes_few_files() {
    // Goal: a client of the admin listener, in a cluster every pod, can shut out neither clients nor the operator. Method: 1,024 files;
    // one address opens 1,200 connections there and sends half a request on each; others are answered meanwhile, and it is once these
    // have ended.
    let gateway = Setup::new()
        .with_open_files(1024)
        .rules("[[route]]\npath = \"/*\"\nrespond = { status = 200 }\n")
        .start()
        .await;
    let mut halves = Vec::new();
    for _ in 0..1200 {
        let mut half = RawConnection::connect(gateway.admin_address()).await;
        // One too many is closed.
        let _ = half.try_write("GET /rea").await;
        halves.push(half);
    }
    assert_eq!(gateway.client().await.get("/").await.status, 200);
    let mut other = RawConnection::connect_from("127.0.0.9", gateway.admin_address()).await;
    other.write("GET /readyz HTTP/1.1\r\nHost: a\r\n\r\n").await;
    assert_eq!(other.read_response().await.status, 200);
    // A kept connection is served again.
    other
        .write("GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
        .await;
    assert_eq!(other.read_response().await.text(), "ok");
    let log = gateway.stderr();
    assert!(
        log.contains("client 127.0.0.1: the operator's listener has as many"),
        "{log}"
    );
    eventually("halves of requests end", async || {
        let mut own = RawConnection::connect(gateway.admin_address()).await;
        own.try_write("GET /readyz HTTP/1.1\r\nHost: a\r\n\r\n")
            .await
            .ok()?;
        own.try_read_response().await.ok()
    })
    .await;
}

#[tokio::test]
async fn a_demo_with_too_few_descriptors_prints_one_sentence() {
    // Goal: a shell with a low descriptor limit gets no panic. Method: few, and hardly any.
    let _turn = demo_turn().await;
    for files in [8, 40] {
        let mut demo = Process::run_under(&Setup::new().with_open_files(files), &["demo"]);
        assert_eq!(demo.exit_code().await, 1, "{files}");
        let said = demo.stderr();
        let last = said.lines().last().unwrap_or_default();
        assert!(
            last.contains(&format!("{files} files may be open")),
            "{said}"
        );
        assert!(!said.contains("panicked"), "{said}");
    }
}

#[tokio::test]
async fn numbers_that_cannot_hold_are_named() {
    // Goal: an operator learns before the first flood that the numbers of the file do not fit. Method: `check` and a start where they
    // need
    // more files than there may be.
    let origin = Origin::echo();
    let rules = format!("[server]\nmax_connections = 900\nthreads = 1\n{PASS}");
    let gateway = Setup::new()
        .with_open_files(1024)
        .origin("app", &origin)
        .origin_line("circuit_breaker = { max_connections = 50 }")
        .rules(&rules)
        .start()
        .await;
    let sentence = "these numbers need 1128 open files (900 for max_connections, 100 for max_connections of origins, 128 for everything \
        else), and the process may have 1024: raise the limit (LimitNOFILE=1128, ulimit -n 1128), or lower the numbers";
    eventually("the process log has it", async || {
        gateway.stderr().contains(sentence).then_some(())
    })
    .await;
    let file = gateway.config_path();
    let mut check = Process::run_under(
        &Setup::new().with_open_files(1024),
        &["check", file.to_str().unwrap()],
    );
    assert_eq!(check.exit_code().await, 0);
    assert!(check.stderr().contains(sentence), "{}", check.stderr());
    let mut check = Process::run_under(
        &Setup::new().with_open_files(2000),
        &["check", file.to_str().unwrap()],
    );
    assert_eq!(check.exit_code().await, 0);
    assert!(!check.stderr().contains("open files"), "{}", check.stderr());
    tokio::time::timeout(Duration::from_secs(30), async { gateway.get("/").await })
        .await
        .unwrap();
}
