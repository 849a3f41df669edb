//! What operators see: the access log, metrics, health and status.

use std::fs;
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::harness::*;

/// A route for each way that a request can end.
const EVERY_OUTCOME: &str = r#"
[server]
max_body_bytes = 100
[limit.otp]
key = "client.ip"
rates = ["1 per 1h"]
capacity = 1000
[[route]]
path = "/forwarded"
origin = "app"
[[route]]
name = "fixed"
path = "/responded"
respond = { status = 203, body = "hello" }
[[route]]
path = "/limited"
limits = ["otp"]
origin = "app"
[[route]]
path = "/broken"
origin = "gone"
"#;

async fn with_every_outcome(origin: &Origin) -> Gateway {
    let setup = Setup::new()
        .origin("app", origin)
        .servers("gone", &["127.0.0.1:1".parse().unwrap()]);
    setup.rules(EVERY_OUTCOME).start().await
}

#[tokio::test]
async fn the_access_log_has_the_outcome_of_each_request() {
    // Goal: one line a request, with the outcome and all that explains it. Method: one request for each outcome.
    let origin = Origin::named("hello");
    let gateway = with_every_outcome(&origin).await;
    let mut client = gateway.client().await;
    let first = post("/forwarded?q=1")
        .header("Host", "shop.test:80")
        .body("12345");
    let answers = [
        client.send(first).await,
        client.get("/responded").await,
        client.get("/limited").await,
        client.get("/limited").await,
        client.get("/nowhere").await,
        gateway.send(post("/forwarded").body(vec![b'x'; 101])).await,
        gateway.get("/broken").await,
    ];
    let lines = gateway.lines_of(&answers).await;
    let column = |name: &str| -> Vec<String> {
        lines
            .iter()
            .map(|line| {
                line[name]
                    .as_str()
                    .map_or(line[name].to_string(), str::to_owned)
            })
            .collect()
    };
    assert_eq!(
        column("outcome"),
        [
            "forwarded",
            "responded",
            "forwarded",
            "rate-limited",
            "no-route",
            "rejected",
            "origin-failed"
        ]
    );
    assert_eq!(
        column("status"),
        ["200", "203", "200", "429", "404", "413", "502"]
    );
    assert_eq!(column("client"), ["127.0.0.1"; 7]);

    let forwarded = &lines[0];
    assert_eq!(
        (&forwarded["method"], &forwarded["target"]),
        (&"POST".into(), &"/forwarded?q=1".into())
    );
    assert_eq!(
        (&forwarded["host"], &forwarded["protocol"]),
        (&"shop.test".into(), &"HTTP/1.1".into())
    );
    assert_eq!(
        (&forwarded["bytes_in"], &forwarded["bytes_out"]),
        (&5.into(), &5.into())
    );
    assert_eq!(
        (&forwarded["origin"], &forwarded["attempts"]),
        (&"app".into(), &1.into())
    );
    assert_eq!(forwarded["origin_addr"], origin.address().to_string());
    assert!(
        forwarded["duration_ms"].as_f64().unwrap() >= forwarded["origin_ttfb_ms"].as_f64().unwrap(),
        "{forwarded}"
    );
    assert!(
        forwarded["time"].as_str().unwrap().starts_with("20"),
        "{forwarded}"
    );
    assert_eq!(lines[1]["route"], "fixed");
    assert_eq!(lines[2]["remaining"], 0);
    assert_eq!(lines[3]["limit"], "otp");
    assert!(
        lines[3]["retry_after"].as_f64().unwrap() > 0.0,
        "{}",
        lines[3]
    );
}

#[tokio::test]
async fn what_a_client_writes_cannot_break_a_log_line() {
    // Goal: no log injection. Method: quotes, backslashes, control and high bytes in the target; the harness parses every
    // line as JSON, and there must be one for each answer, that to a malformed request included.
    let gateway = Gateway::start("[[route]]\npath = \"/*\"\nrespond = { status = 200 }").await;
    let targets = [
        "/\"quoted\"",
        "/back\\slash",
        "/?a=\"},{\"",
        "/\u{e9}\u{4e2d}",
        "/%0a%0d",
        "/\x7f",
    ];
    let mut answers = Vec::new();
    for target in targets {
        let mut raw = gateway.raw().await;
        raw.write(format!(
            "GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
        ))
        .await;
        answers.push(raw.read_response().await);
    }
    let lines = gateway.lines_of(&answers).await;
    assert_eq!(gateway.access_log().len(), lines.len());
    assert_eq!(lines[0]["target"], "/\"quoted\"");
    assert_eq!(lines[1]["target"], "/back\\slash");
}

#[tokio::test]
async fn a_rotated_log_loses_no_line() {
    // Goal: logrotate works: rename, SIGUSR1. Method: requests before, during and after; both files together have them all.
    let gateway = Gateway::start("[[route]]\npath = \"/*\"\nrespond = { status = 200 }").await;
    let address = gateway.address();
    let flood =
        tokio::spawn(async move { Flood::gets(3000, "/").connections(8).run(address).await });
    let rotated = gateway.directory().join("access.log.1");
    eventually("the log begins", async || {
        (!gateway.access_log().is_empty()).then_some(())
    })
    .await;
    fs::rename(gateway.access_log_path(), &rotated).unwrap();
    gateway.signal(Signal::SIGUSR1);
    assert_eq!(flood.await.unwrap().count(200), 3000);
    eventually("the log is reopened", async || {
        gateway.access_log_path().exists().then_some(())
    })
    .await;
    gateway.get("/last").await;
    eventually("both files together have every line", async || {
        let (old, new) = (read_log(&rotated), gateway.access_log());
        assert!(old.len() + new.len() <= 3001);
        (old.len() + new.len() == 3001).then_some(())
    })
    .await;
    let reopened = gateway.access_log();
    assert!(reopened.iter().any(|line| line["target"] == "/last"));
    assert_eq!(
        gateway
            .metrics()
            .await
            .sum("sluicegate_access_log_dropped_total", &[]),
        0.0
    );
}

#[tokio::test]
async fn the_metrics_count_what_was_sent() {
    // Goal: counters equal to the truth. Method: known numbers of requests for known outcomes.
    let origin = Origin::named("hello");
    let gateway = with_every_outcome(&origin).await;
    let mut client = gateway.client().await;
    for _ in 0..7 {
        client.get("/limited").await;
    }
    for _ in 0..3 {
        client.get("/responded").await;
    }
    client.get("/nowhere").await;
    client.get("/broken").await;
    let metrics = eventually("twelve requests are counted", async || {
        let metrics = gateway.metrics().await;
        (metrics.sum("sluicegate_requests_total", &[]) >= 12.0).then_some(metrics)
    })
    .await;
    let requests = |outcome: &str, code: &str| {
        metrics.sum(
            "sluicegate_requests_total",
            &[("outcome", outcome), ("code", code)],
        )
    };
    assert_eq!(requests("forwarded", "2xx"), 1.0);
    assert_eq!(requests("rate-limited", "4xx"), 6.0);
    assert_eq!(requests("responded", "2xx"), 3.0);
    assert_eq!(requests("no-route", "4xx"), 1.0);
    assert_eq!(requests("origin-failed", "5xx"), 1.0);
    assert_eq!(
        metrics.sum("sluicegate_requests_total", &[("route", "fixed")]),
        3.0
    );
    assert_eq!(
        metrics.sum("sluicegate_limit_admitted_total", &[("limit", "otp")]),
        1.0
    );
    assert_eq!(
        metrics.sum("sluicegate_limit_refused_total", &[("limit", "otp")]),
        6.0
    );
}

#[tokio::test]
async fn clients_cannot_add_series() {
    // Goal: nothing that a client sends becomes a label. Method: a thousand different paths, hosts and methods; the number of
    // series stays.
    let gateway =
        Gateway::start("[[route]]\npath = \"/known/*\"\nrespond = { status = 200 }").await;
    let ask = |round: usize| {
        Flood::of(1000, move |n, buffer| {
            use std::io::Write;
            let prefix = ["known", "unknown"][n as usize % 2];
            let request = format!(
                "M{n} /{prefix}/{round}/{n} HTTP/1.1\r\nHost: h{n}.test\r\nContent-Length: 0\r\n\r\n"
            );
            buffer.write_all(request.as_bytes()).unwrap();
        })
    };
    ask(0).run(gateway.address()).await;
    let before = gateway.metrics().await.series();
    ask(1).run(gateway.address()).await;
    assert_eq!(gateway.metrics().await.series(), before);
}

#[tokio::test]
async fn labels_of_a_removed_route_vanish() {
    // Goal: series are bounded over many reloads too. Method: a named route is used, removed, and mentioned no more.
    let route = |name: &str| {
        format!("[[route]]\nname = \"{name}\"\npath = \"/\"\nrespond = {{ status = 200 }}\n")
    };
    let mut gateway = Gateway::start(&route("old-name")).await;
    gateway.get("/").await;
    eventually("the route has a label", async || {
        gateway.metrics().await.mentions("old-name").then_some(())
    })
    .await;
    gateway.reload(&route("new-name")).await;
    gateway.get("/").await;
    eventually("the old label is gone", async || {
        let metrics = gateway.metrics().await;
        (metrics.mentions("new-name") && !metrics.mentions("old-name")).then_some(())
    })
    .await;
}

#[tokio::test]
async fn the_status_shows_limits_and_origins() {
    // Goal: /status answers what an operator asks first. Method: a limit with two clients, an origin with a server.
    let origin = Origin::named("hello");
    let gateway = with_every_outcome(&origin).await;
    gateway.get("/limited").await;
    gateway.client_from("127.0.0.5").await.get("/limited").await;
    let status = gateway.status().await;
    assert_eq!(status["configuration"]["generation"], 1, "{status}");
    let limits = status["limits"]
        .as_array()
        .unwrap_or_else(|| panic!("{status}"));
    let otp = limits
        .iter()
        .find(|limit| limit["name"] == "otp")
        .unwrap_or_else(|| panic!("{status}"));
    assert_eq!(otp["keys"], 2, "{otp}");
    assert!(
        status.to_string().contains(&origin.address().to_string()),
        "{status}"
    );
}

/// A gateway whose admin listener asks for this token, which lies in the file `token`.
async fn guarded_by(token: &str) -> Gateway {
    Setup::new()
        .tokens(token)
        .rules("[[route]]\npath = \"/\"\nrespond = { status = 200 }")
        .start()
        .await
}

#[tokio::test]
async fn a_token_guards_all_but_the_probes() {
    // Goal: `token_file`. Method: each path with, without and with a wrong token.
    let gateway = guarded_by("s3cret\n").await;
    for path in ["/metrics", "/status"] {
        assert_eq!(gateway.admin(get(path)).await.status, 401, "{path}");
        assert_eq!(
            gateway.admin(get(path).bearer("wrong")).await.status,
            401,
            "{path}"
        );
        assert_eq!(
            gateway.admin(get(path).bearer("s3cret")).await.status,
            200,
            "{path}"
        );
    }
    for path in ["/healthz", "/readyz"] {
        assert_eq!(gateway.admin(get(path)).await.status, 200, "{path}");
    }
}

#[tokio::test]
async fn a_new_token_takes_over_by_itself() {
    // Goal: a token that leaked is revoked by writing another. Method: the file is replaced; nothing else changes.
    let gateway = guarded_by("leaked\n").await;
    let status = async |token: &str| {
        let ask = get("/status").bearer(token);
        gateway.admin(ask).await.status
    };
    assert_eq!(status("leaked").await, 200);
    let file = gateway.directory().join("token");
    std::fs::write(file.with_extension("new"), "fresh\n").unwrap();
    std::fs::rename(file.with_extension("new"), &file).unwrap();
    eventually("the new token is the token", async || {
        (status("fresh").await == 200).then_some(())
    })
    .await;
    assert_eq!(status("leaked").await, 401);
}

#[tokio::test]
async fn the_admin_listener_answers_404_to_unknown_paths() {
    // Goal: no surprises there either. Method: an unknown path, a wrong method.
    let gateway = Gateway::start("[[route]]\npath = \"/\"\nrespond = { status = 200 }").await;
    assert_eq!(gateway.admin(get("/nothing")).await.status, 404);
    assert_eq!(gateway.admin(post("/status")).await.status, 405);
    assert_eq!(
        gateway.get("/metrics").await.status,
        404,
        "the gateway's own listener tells no metrics"
    );
}

#[tokio::test]
async fn a_log_that_cannot_be_written_stops_no_request() {
    // Goal: a full disk is not an outage. Method: /dev/full takes no byte; requests pass and the loss is counted.
    let gateway = Setup::new()
        .whole(
            "[[listener]]\naddress = \"{listener}\"\n[admin]\naddress = \"{admin}\"\n[log]\naccess = \"/dev/full\"\n\
             [[route]]\npath = \"/*\"\nrespond = { status = 200 }\n",
        )
        .start()
        .await;
    let report = Flood::gets(2000, "/").run(gateway.address()).await;
    assert_eq!(report.count(200), 2000);
    within(Duration::from_secs(10), "the loss is counted", async || {
        (gateway
            .metrics()
            .await
            .sum("sluicegate_access_log_write_errors_total", &[])
            > 0.0)
            .then_some(())
    })
    .await;
}
