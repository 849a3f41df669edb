//! Keys that have rates of their own, are not limited, or are blocked, as a file says.

use std::fmt::Write;
use std::path::Path;

use crate::harness::*;

/// One limit by client, whose overrides are in `file`, behind a trusted proxy.
fn by_client(file: &str) -> String {
    format!(
        r#"
        [client]
        trusted_proxies = ["127.0.0.1"]
        [limit.api]
        key = "client.ip"
        rates = ["1 per 1h", "9 per 2h"]
        overrides = "{file}"
        headers = "both"
        [limit.all]
        key = "global"
        rates = ["100 per 1h"]
        [[route]]
        path = "/"
        limits = ["all", "api"]
        respond = {{ status = 200 }}
        "#
    )
}

const CSV: &str = "# tenants\nclient.ip, rates\n\
    192.0.2.1, 3 per 1h; 9 per 2h\n\
    192.0.2.2, unlimited\n\
    192.0.2.3, blocked\n\
    2001:db8::/64, 9 per 2h; 2 per 1h\n";

/// A client and how many of its requests are to pass before the first that does not.
async fn assert_passes(gateway: &Gateway, client: &str, requests: usize) {
    let mut connection = gateway.client().await;
    for nth in 0..requests {
        let answer = connection.send(get("/").forwarded_for(client)).await;
        assert_eq!(answer.status, 200, "{client}, request {nth}: {answer:?}");
    }
    for nth in 0..3 {
        // The later ones are repeated refusals of one connection.
        let answer = connection.send(get("/").forwarded_for(client)).await;
        assert_eq!(answer.status, 429, "{client}, refusal {nth}: {answer:?}");
    }
}

/// Writes beside `path` and renames, as deployment tools do.
fn replace(path: &Path, text: &str) {
    let beside = path.with_extension("new");
    std::fs::write(&beside, text).unwrap();
    std::fs::rename(beside, path).unwrap();
}

#[tokio::test]
async fn keys_have_rates_of_their_own_or_none() {
    // Goal: each tier has the rates and fields of its row, all other keys those of the limit. Method: a client of each tier, by address
    // and by network; fields, log and metrics.
    let gateway = Setup::new()
        .rules(&by_client("../tiers.csv"))
        .file("tiers.csv", CSV)
        .start()
        .await;
    assert_passes(&gateway, "192.0.2.9", 1).await;
    assert_passes(&gateway, "192.0.2.1", 3).await;
    assert_passes(&gateway, "2001:db8::7", 2).await;

    let refused = gateway.send(get("/").forwarded_for("192.0.2.1")).await;
    let policy = refused.all("ratelimit-policy").join(", ");
    assert!(policy.contains("\"api-3600s\";q=3;w=3600"), "{policy}");
    assert_eq!(refused.header("x-ratelimit-limit"), Some("3"));
    assert_eq!(refused.violated(), ["api-3600s"]);

    let free = get("/").forwarded_for("192.0.2.2");
    let mut unlimited = gateway.client().await;
    for left in (0..20).rev() {
        let answer = unlimited.send(free.clone()).await;
        assert_eq!(
            (answer.status, answer.remaining("all")),
            (200, 74 + left),
            "{answer:?}"
        );
        assert_eq!(answer.all("ratelimit-policy"), ["\"all\";q=100;w=3600"]);
        assert_eq!(answer.header("x-ratelimit-limit"), None);
    }

    let blocked = gateway.send(get("/").forwarded_for("192.0.2.3")).await;
    blocked.assert_problem(403);
    assert_eq!(blocked.header("retry-after"), None);
    let after = unlimited.send(free).await;
    assert_eq!(
        after.remaining("all"),
        73,
        "what is blocked charges no limit"
    );

    let lines = gateway.lines_of(&[blocked, after]).await;
    assert_eq!(
        (&lines[0]["outcome"], &lines[0]["status"]),
        (&"blocked".into(), &403.into())
    );
    assert_eq!(lines[0]["blocked"], serde_json::json!(["api"]));
    assert_eq!(lines[1]["unlimited"], serde_json::json!(["api"]));
    let metrics = gateway.metrics().await;
    let of_api = [("limit", "api")];
    assert_eq!(metrics.sum("sluicegate_limit_blocked_total", &of_api), 1.0);
    assert_eq!(
        metrics.sum("sluicegate_limit_unlimited_total", &of_api),
        21.0
    );
    assert!(!metrics.mentions("192.0.2.3"));
}

#[tokio::test]
async fn a_new_file_is_taken_whole_and_keeps_what_was_counted() {
    // Goal: tiers change without a restart, and no key gets a fresh counter by it; an invalid file changes nothing and is reported.
    // Method:
    // raise a client that is used up, break the file, mend it.
    let file = |rates: &str| format!("[[override]]\nkey = \"192.0.2.1\"\nrates = {rates}\n");
    let gateway = Setup::new()
        .rules(&by_client("../tiers.toml"))
        .file("tiers.toml", &file("[\"2 per 1h\", \"9 per 2h\"]"))
        .start()
        .await;
    let path = gateway.directory().join("tiers.toml");
    assert_passes(&gateway, "192.0.2.1", 2).await;
    let generation = gateway.generation().await;
    replace(&path, &file("[\"5 per 1h\", \"9 per 2h\"]"));
    gateway.serves_after(generation).await;
    assert_passes(&gateway, "192.0.2.1", 3).await;

    replace(&path, &file("[\"7 per 1h\", \"9 per 3h\"]"));
    let kept = [("kind", "limit"), ("content", "kept")];
    eventually("the broken file is told about", async || {
        let metrics = gateway.metrics().await;
        (metrics.sum("sluicegate_config_file_broken", &kept) == 1.0).then_some(())
    })
    .await;
    let log = gateway.stderr();
    assert!(log.contains("line 1: the periods of"), "{log}");
    let refused = gateway.send(get("/").forwarded_for("192.0.2.1")).await;
    assert_eq!(
        (refused.status, refused.header("x-ratelimit-limit")),
        (429, Some("5"))
    );

    let generation = gateway.generation().await;
    replace(&path, &file("\"blocked\""));
    gateway.serves_after(generation).await;
    assert_eq!(
        gateway
            .send(get("/").forwarded_for("192.0.2.1"))
            .await
            .status,
        403
    );
}

#[tokio::test]
async fn a_row_meets_exactly_the_requests_that_it_names() {
    // Goal: rows and requests are brought into the same form. Method: a key of every part; the named request in other spellings, and
    // neighbours that differ in one part each.
    let gateway = Setup::new()
        .rules(
            r#"
            [client]
            trusted_proxies = ["127.0.0.1"]
            [limit.api]
            key = ["client.ip/24,/56", "host", "path", "method"]
            rates = ["1000 per 1h"]
            overrides = "../tiers.csv"
            [[route]]
            path = "/*"
            limits = ["api"]
            respond = { status = 200 }
            "#,
        )
        .file(
            "tiers.csv",
            "client.ip,host,path,method,rates\n192.0.2.0/24,Example.COM,/%61/b/,POST,blocked\n",
        )
        .start()
        .await;
    let ask = |client: &str, host: &str, request: Request| {
        let request = request.header("host", host).forwarded_for(client);
        async { gateway.send(request).await.status }
    };
    assert_eq!(ask("192.0.2.77", "example.com", post("/a/b")).await, 403);
    assert_eq!(
        ask("192.0.2.1", "EXAMPLE.com:80", post("/a/%62/?x=1")).await,
        403
    );
    assert_eq!(ask("192.0.3.77", "example.com", post("/a/b")).await, 200);
    assert_eq!(ask("192.0.2.77", "example.org", post("/a/b")).await, 200);
    assert_eq!(ask("192.0.2.77", "example.com", post("/a/c")).await, 200);
    assert_eq!(ask("192.0.2.77", "example.com", get("/a/b")).await, 200);
}

#[tokio::test]
async fn a_tier_may_admit_more_than_the_logs_of_its_limit_would_hold() {
    // Goal: `exact` keeps as many moments as the largest tier counts. Method: a tier a hundred times the limit's own count.
    let rules =
        by_client("../tiers.csv").replace("[limit.all]", "algorithm = \"exact\"\n[limit.all]");
    let gateway = Setup::new()
        .rules(&rules.replace("100 per 1h", "1000 per 1h"))
        .file(
            "tiers.csv",
            "client.ip,rates\n192.0.2.1,100 per 1h;200 per 2h\n",
        )
        .start()
        .await;
    assert_passes(&gateway, "192.0.2.1", 100).await;
    assert_passes(&gateway, "192.0.2.2", 1).await;
}

#[tokio::test]
async fn a_limit_that_marks_stays_hidden_from_keys_with_rates_of_their_own() {
    // Goal: rows change rates, not the visibility of a limit. Method: a row under a limit that marks; what client and origin see
    // before it is
    // exceeded, and after.
    let origin = Origin::echo();
    let rules = r#"
        [limit.api]
        key = "client.ip"
        rates = ["1 per 1h"]
        action = "mark"
        overrides = "../tiers.csv"
        [[route]]
        path = "/"
        limits = ["api"]
        origin = "app"
        "#;
    let gateway = Setup::new()
        .origin("app", &origin)
        .rules(rules)
        .file("tiers.csv", "client.ip,rates\n127.0.0.1,2 per 1h\n")
        .start()
        .await;
    for marked in [false, false, true] {
        let answer = gateway.get("/").await;
        for field in ["ratelimit", "ratelimit-policy"] {
            assert_eq!(answer.header(field), None, "{answer:?}");
        }
        let mark = answer.echo().header("x-sluicegate-limit").is_some();
        assert_eq!((answer.status, mark), (200, marked));
    }
}

#[tokio::test]
async fn a_million_rows_are_looked_up_as_fast_as_one() {
    // Goal: the size that tenants come in. Method: a million networks, the first and the last blocked, one in the middle unlimited;
    // memory stays in bounds.
    let mut rows = String::from("client.ip,rates\n");
    for row in 0..1_000_000_u32 {
        let tier = match row {
            0 | 999_999 => "blocked",
            500_000 => "unlimited",
            _ => "7 per 1h;9 per 2h",
        };
        let address = std::net::Ipv4Addr::from_bits(0x0a00_0000 + row);
        writeln!(rows, "{address},{tier}").unwrap();
    }
    let gateway = Setup::new()
        .rules(&by_client("../tiers.csv"))
        .file("tiers.csv", &rows)
        .start()
        .await;
    let status = async |row: u32| {
        let address = std::net::Ipv4Addr::from_bits(0x0a00_0000 + row);
        gateway
            .send(get("/").forwarded_for(&address.to_string()))
            .await
            .status
    };
    assert_eq!([status(0).await, status(999_999).await], [403, 403]);
    for _ in 0..9 {
        assert_eq!(status(500_000).await, 200);
    }
    for _ in 0..7 {
        assert_eq!(status(42).await, 200);
    }
    assert_eq!(
        [
            status(42).await,
            status(1_000_000).await,
            status(1_000_000).await
        ],
        [429, 200, 429]
    );
    let bytes = gateway.resident_bytes();
    assert!(bytes < 300_000_000, "{bytes} bytes");
}

#[tokio::test]
async fn the_top_ranks_each_key_by_its_own_rates() {
    // Goal: the keys that are nearest to being rejected are the first, whatever the limit's own rates say of them. Method: a key with a
    // large row and many requests, one with a small row that is full, and one without a row; the first two of the list.
    let rules = by_client("../tenants.csv")
        .replace("\"1 per 1h\", \"9 per 2h\"", "\"10 per 1h\"")
        .replace("100 per 1h", "1000 per 1h");
    let rows = "client.ip, rates\n192.0.2.1, 2 per 1h\n192.0.2.2, 1000 per 1h\n";
    let setup = Setup::new().file("tenants.csv", rows).rules(&rules);
    let gateway = setup.start().await;
    let mut client = gateway.client().await;
    for (address, requests) in [("192.0.2.1", 2), ("192.0.2.2", 9), ("192.0.2.3", 5)] {
        for _ in 0..requests {
            let answer = client.send(get("/").forwarded_for(address)).await;
            assert_eq!(answer.status, 200, "{address}");
        }
    }
    let page = gateway.admin(get("/limits/api/top?n=2")).await.json();
    let top = page["top"].as_array().unwrap().iter();
    let used: Vec<f64> = top.map(|key| key["used"].as_f64().unwrap()).collect();
    assert_eq!(used, [1.0, 0.5], "{page}");
}
