//! `sluicegate suggest`: a number that ordinary clients do not reach.

use super::*;
use crate::geo::database;

/// A log of `clients` that each ask once to seven times within some seconds, several times over `days`, and of a robot with 400 requests
/// within four seconds.
fn traffic(clients: u64, days: u64) -> String {
    let mut requests = Vec::new();
    for client in 0..clients {
        for round in 0..days * 4 {
            let begin = 1_795_245_000 + round * 21_600 + client * 11;
            let burst = 1 + (client + round) % 7;
            requests.extend((0..burst).map(|step| {
                (
                    begin + step,
                    format!("10.0.{}.{}", client / 200, client % 200),
                )
            }));
        }
    }
    requests.extend((0..400).map(|step| (1_795_300_000 + step / 100, "203.0.113.9".to_owned())));
    requests.sort();
    requests
        .iter()
        .map(|(second, client)| common_line(*second, client))
        .collect()
}

async fn suggest(arguments: &[&str]) -> (i32, String, String) {
    let mut process = Process::run(&[&["suggest"], arguments].concat());
    let code = process.exit_code().await;
    (code, process.stdout(), process.stderr())
}

#[tokio::test]
async fn a_suggestion_spares_ordinary_clients_and_names_the_robot() {
    // Goal: from a log to a limit with a reason. Method: 300 clients with bursts of up to seven requests, and one robot; the printed
    // configuration is checked and replayed.
    let files = Files::new();
    let log = files.write("access.log", traffic(300, 2));
    let (code, stdout, stderr) = suggest(&[&log, "--json"]).await;
    assert_eq!(code, 0, "{stderr}");
    let found: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(
        (&found["keys"], &found["confidence"]),
        (&301.into(), &"medium".into())
    );
    let ten = &found["periods"][0];
    assert_eq!(
        (&ten["period"], &ten["p50"], &ten["p99"], &ten["max"]),
        (&"10s".into(), &7.into(), &7.into(), &400.into())
    );
    assert!(
        found["warnings"][0]
            .as_str()
            .unwrap()
            .contains("203.0.113.9"),
        "{found}"
    );
    // The 99.9th percentile of 301 keys is the robot's.
    let (_, stdout, _) = suggest(&[&log, "--exclude", "203.0.113.9", "--json"]).await;
    let spared: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(
        (&spared["keys"], &spared["periods"][0]["suggested"]),
        (&300.into(), &9.into())
    );
    assert_eq!(spared["warnings"], serde_json::json!([]));
    let (code, text, stderr) = suggest(&[&log, "--exclude", "203.0.113.9/32"]).await;
    assert_eq!(code, 0, "{stderr}");
    assert!(
        text.contains("action = \"shadow\"") && text.contains("What replay says of it"),
        "{text}"
    );
    // The output is a configuration that replay takes, although it has no listener.
    let config = files.write("suggested.toml", text);
    let report = report(&[&log, "--config", &config]).await;
    let limit = &report["limits"]["suggested"];
    assert_eq!(
        (&limit["keys_rejected"], &limit["worst_keys"][0]["key"]),
        (&1.into(), &"203.0.113.9".into())
    );
    assert_eq!(report["rejected"], 0);
}

#[tokio::test]
async fn a_question_that_the_log_cannot_answer_is_refused_with_the_reason() {
    // Goal: no number out of nothing. Method: a key that no line has, a path that nobody asked for, a path that is none.
    let files = Files::new();
    let log = files.write("access.log", traffic(3, 1));
    for (arguments, part) in [
        (&["--key", "header.x-api-key"][..], "x-api-key"),
        (
            &["--route", "/other"],
            "no request of the log has the path /other",
        ),
        (&["--route", "other"], "path"),
        (&["--exclude", "robot"], "192.0.2.0/24"),
    ] {
        let (code, _, stderr) = suggest(&[&[log.as_str()], arguments].concat()).await;
        assert_eq!(code, 64, "{arguments:?}");
        assert!(stderr.contains(part), "{arguments:?}: {stderr}");
    }
    let (code, text, _) =
        suggest(&[&log, "--route", "/a", "--key", "client.ip/24,/56, path"]).await;
    assert_eq!(code, 0);
    for part in [
        "confidence: low",
        "key = [\"client.ip/24,/56\", \"path\"]",
        "path = \"/a\"",
    ] {
        assert!(text.contains(part), "{part} is not in:\n{text}");
    }
}

#[tokio::test]
async fn a_key_of_parts_that_every_request_has_gets_a_number() {
    // Goal: such a key is suggested without on_missing, and no more is counted than a limit would. Method: a parameter of the route's path,
    // and one key for all, over lines of the gateway's own; one line of a request that broke a rule before any limit.
    let files = Files::new();
    let line = |second: u32, id: u32, outcome: &str| {
        format!(
            "{{\"time\":\"2026-11-21T07:10:{second:02}.000Z\",\"client\":\"192.0.2.1\",\"method\":\"GET\",\"target\":\"/users/{id}\",\
             \"outcome\":\"{outcome}\",\"status\":200,\"fields\":{{\"user-agent\":\"curl/8.5.0\"}}}}\n"
        )
    };
    let mut log: String = (0..40)
        .map(|second| line(second, second % 4, "forwarded"))
        .collect();
    log += &line(59, 9, "rejected");
    let log = files.write("access.log", log);
    for (key, keys, first) in [("path.id", 4, "0"), ("global", 1, "global")] {
        let arguments = ["--route", "/users/{id}", "--key", key, "--json"];
        let (code, stdout, stderr) = suggest(&[&[log.as_str()][..], &arguments].concat()).await;
        assert_eq!(code, 0, "{key}: {stderr}");
        let found: Value = serde_json::from_str(&stdout).unwrap();
        assert_eq!(
            (&found["requests"], &found["keys"]),
            (&40.into(), &keys.into()),
            "{key}"
        );
        let largest = found["periods"][0]["largest"].as_array().unwrap();
        assert!(
            largest.iter().any(|key| key[0] == first),
            "{key}: {largest:?}"
        );
        let config = found["config"].as_str().unwrap();
        assert!(!config.contains("on_missing"), "{config}");
    }
}

#[tokio::test]
async fn a_limit_in_shadow_gets_its_number_from_the_gateway() {
    // Goal: a number without a log. Method: a limit in shadow that one of forty clients exceeds, and one that nobody reaches; the output
    // for each, and for questions without an answer.
    let shadow = |name: &str, key: &[&str], lines: &str| {
        limit(name, key, &format!("{lines}\naction = \"shadow\""))
    };
    let client = &["client.ip"];
    let limits = [
        shadow("tried", client, "rates = [\"20 per 1h\"]"),
        shadow("wide", &["client.ip", "method"], "rates = [\"100 per 1h\"]"),
        shadow(
            "owed",
            client,
            "rates = [\"20 per 1h\"]\nalgorithm = \"gcra\"",
        ),
        shadow(
            "bucket",
            client,
            "rates = [\"100 per 1h\"]\nalgorithm = \"token-bucket\"",
        ),
        shadow("unused", client, "rates = [\"20 per 1h\"]"),
    ];
    let route = route("/", &["tried", "wide", "owed", "bucket"], ANSWERED);
    let gateway = Gateway::start(&(limits.concat() + &route)).await;
    for client in 1..=40 {
        let requests = if client == 40 { 30 } else { 1 + client % 3 };
        let mut from = gateway.client_from(&format!("127.0.1.{client}")).await;
        for _ in 0..requests {
            from.get("/").await;
        }
    }
    let url = format!("http://{}", gateway.admin_address());
    let of = async |limit: &str, more: &[&str]| {
        suggest(&[&["--gateway", &*url, "--limit", limit], more].concat()).await
    };
    // A walk may not have seen the last requests.
    let wide = eventually("all clients are seen", async || {
        let (_, stdout, _) = of("wide", &["--json"]).await;
        let found: Value = serde_json::from_str(&stdout).ok()?;
        (found["keys"] == 40 && found["periods"][0]["max"] == 30).then_some(found)
    })
    .await;
    assert_eq!(
        (&wide["periods"][0]["p50"], &wide["confidence"]),
        (&2.into(), &"low".into())
    );
    assert_eq!(wide["warnings"], serde_json::json!([]));
    // 1.2 times the 99.9th percentile of 40 keys, which is the robot's.
    assert_eq!(wide["rates"], serde_json::json!(["40 per 1h"]));
    let (code, text, stderr) = of("tried", &[]).await;
    assert_eq!(code, 0, "{stderr}");
    for part in [
        "confidence: low",
        "1 of 40 keys reached 20 per 1h",
        "raise the rate of the limit in shadow to 40 per 1h",
        "[limit.tried]\nkey = \"client.ip/32,/64\"\nrates = [\"40 per 1h\"]\naction = \"shadow\"",
    ] {
        assert!(text.contains(part), "{part} is not in:\n{text}");
    }
    // Of a bucket it is what it must hold; the robot has all of one, and as it drains the table shows a little less than that.
    let bucket = eventually("the bucket is seen", async || {
        let (_, stdout, _) = of("bucket", &["--json"]).await;
        let found: Value = serde_json::from_str(&stdout).ok()?;
        (found["periods"][0]["max"] == 30).then_some(found)
    })
    .await;
    assert_eq!(
        (&bucket["bucket"], &bucket["rates"]),
        (&40.into(), &serde_json::json!(["100 per 1h"]))
    );
    assert_eq!(bucket["config"], "[limit.bucket]\nburst = 40\n");
    let (code, text, stderr) = of("owed", &[]).await;
    assert_eq!(code, 0, "{stderr}");
    for part in ["burst = 40", "in the limit in shadow and ask again"] {
        assert!(text.contains(part), "{part} is not in:\n{text}");
    }
    for (limit, part) in [
        ("unused", "no key of limit unused"),
        ("absent", "no such limit"),
    ] {
        let (code, _, stderr) = of(limit, &[]).await;
        assert_eq!(code, 1, "{stderr}");
        assert!(stderr.contains(part), "{limit}: {stderr}");
    }
    let (code, _, stderr) = suggest(&["--gateway", &url]).await;
    assert_eq!(code, 64);
    assert!(stderr.contains("--limit"), "{stderr}");
}

#[tokio::test]
async fn a_configuration_gets_a_number_for_each_of_its_limits() {
    // Goal: one command suggests numbers for all limits of a gateway, by whatever they count, and says what it leaves out. Method: a
    // configuration with limits by address, by a part of the path on two routes, by the place out of a database, in shadow, with a fixed
    // cost, with an algorithm that takes no large number, a bucket, and one without requests; the numbers, the lines to paste, the
    // replay of them, and the same as text.
    let files = Files::new();
    let database = database("Country").display().to_string();
    let rules = format!(
        "[geo]\ndatabases = [\"{database}\"]\n\
         [limit.address]\nkey = \"client.ip\"\nrates = [\"5 per 1m\"]\nalgorithm = \"exact\"\n\
         [limit.shop]\nkey = \"path.shop\"\nrates = [\"50 per 1m\"]\naction = \"shadow\"\n\
         [limit.country]\nkey = \"client.country\"\nrates = [\"50 per 1m\"]\n\
         [limit.costly]\nkey = \"client.ip\"\nrates = [\"50 per 1m\"]\ncost = 3\n\
         [limit.exact]\nkey = \"global\"\nrates = [\"50 per 1m\"]\nalgorithm = \"exact\"\n\
         [limit.bucket]\nkey = \"client.ip\"\nrates = [\"50 per 1m\"]\nalgorithm = \"gcra\"\n\
         [limit.unused]\nkey = \"client.ip\"\nrates = [\"50 per 1m\"]\n\
         [limit.agent]\nkey = \"header.user-agent\"\non_missing = \"ip\"\nrates = [\"50 per 1m\"]\n\
         [[route]]\nname = \"carts\"\npath = \"/{{shop}}/cart\"\n\
         limits = [\"address\", \"shop\", \"country\", \"costly\", \"exact\", \"bucket\", \"agent\"]\n{ANSWERED}\n\
         [[route]]\nname = \"orders\"\npath = \"/{{shop}}/orders\"\nlimits = [\"shop\"]\n{ANSWERED}\n\
         [[route]]\nname = \"never\"\npath = \"/never\"\nlimits = [\"unused\"]\n{ANSWERED}\n\
         [[route]]\nname = \"rest\"\npath = \"/*\"\n{ANSWERED}\n"
    );
    let config = files.config("gateway.toml", &rules);
    let line = |second: u64, client: &str, path: &str| {
        common_line(second, client).replace("GET /a ", &format!("GET {path} "))
    };
    let mut log = String::new();
    // Ten carts and ten orders of one shop in ten seconds, by two clients of two countries, fifty times.
    for round in 0..50 {
        for step in 0..10 {
            let second = 1_795_245_000 + round * 900 + step;
            let client = if step < 6 {
                "2.125.160.216"
            } else {
                "89.160.20.112"
            };
            log += &line(second, client, "/a/cart");
            log += &line(second, client, "/a/orders");
        }
        log += &line(1_795_245_000 + round * 900 + 30, "192.0.2.1", "/else");
    }
    let log = files.write("access.log", log);
    let (code, stdout, stderr) = suggest(&[&log, "--config", &config, "--json"]).await;
    assert_eq!(code, 0, "{stderr}");
    let found: Value = serde_json::from_str(&stdout).unwrap();
    let limits = found["limits"].as_object().unwrap();
    let most = |limit: &str| limits[limit]["periods"][0]["max"].as_u64();
    assert_eq!(most("address"), Some(6));
    assert_eq!(most("shop"), Some(20));
    assert_eq!(most("country"), Some(6));
    assert_eq!(most("costly"), Some(18));
    assert_eq!(most("exact"), Some(10));
    assert_eq!(
        (&limits["shop"]["routes"], &limits["shop"]["requests"]),
        (&serde_json::json!(["carts", "orders"]), &1_000.into())
    );
    assert_eq!(limits["country"]["keys"], 2);
    assert_eq!(limits["country"]["periods"][0]["largest"][0][0], "GB");
    // A limit in shadow counts only what the limits that reject admit.
    let rejected = |limit: &str| limits[limit]["replayed"]["rejected"].as_u64().unwrap();
    for (limit, suggested) in limits {
        let replayed = &suggested["replayed"];
        let requests = replayed["requests"].as_u64().unwrap();
        let before = if limit == "shop" {
            rejected("costly")
        } else {
            0
        };
        assert_eq!(suggested["requests"], requests + before, "{limit}");
        assert_eq!(replayed["keys"], suggested["keys"], "{limit}");
    }
    // No window of an exact limit has more than the most of any.
    for limit in ["address", "exact"] {
        assert_eq!(rejected(limit), 0, "{limit}");
    }
    let pasted = |limit: &str| limits[limit]["config"].as_str().unwrap().to_owned();
    assert!(
        pasted("address").starts_with("[limit.address]\nshadow_rates = [\"8 per 10m\""),
        "{stdout}"
    );
    assert!(
        pasted("shop").starts_with("[limit.shop]\nrates = ["),
        "{stdout}"
    );
    let left_out = found["not_suggested"].as_array().unwrap();
    let left_out: Vec<(&str, &str)> = (left_out.iter())
        .map(|limit| {
            (
                limit["limit"].as_str().unwrap(),
                limit["reason"].as_str().unwrap(),
            )
        })
        .collect();
    let [(agent, no_agent), (bucket, no_bucket), (unused, no_request)] = *left_out else {
        panic!("{left_out:?}");
    };
    assert_eq!([agent, bucket, unused], ["agent", "bucket", "unused"]);
    assert!(
        no_agent.contains("user-agent is not in the log"),
        "{no_agent}"
    );
    assert!(no_bucket.contains("suggest --gateway"), "{no_bucket}");
    assert!(no_request.contains("no request"), "{no_request}");
    assert_eq!(found["routes_without_limits"], serde_json::json!(["rest"]));

    let (code, text, stderr) = suggest(&[&log, "--config", &config]).await;
    assert_eq!(code, 0, "{stderr}");
    for part in [
        "# limit shop: 1,000 requests of 1 key (path.shop) on carts, orders\n",
        "# now: 5 in 1m, exact, reject\n",
        "# enforced, these rates would reject 0 of 500 requests (0.00 %), of 0 of 2 keys (0.00 %)\n",
        "#   limit bucket: ",
        "# no limit counts the requests of: rest\n",
    ] {
        assert!(text.contains(part), "{part} is not in:\n{text}");
    }
    // All that is no comment is TOML with a table for each limit.
    let tables: toml::Table = text.parse().unwrap();
    assert_eq!(tables["limit"].as_table().unwrap().len(), 5);

    // A client can be left out, and a file without a limit says what to write.
    let exclude = ["--exclude", "2.125.160.216"];
    let (_, stdout, _) =
        suggest(&[&[&*log, "--config", &config, "--json"][..], &exclude].concat()).await;
    let found: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(found["limits"]["address"]["periods"][0]["max"], 4);
    let empty = files.config(
        "empty.toml",
        &format!("[[route]]\npath = \"/*\"\n{ANSWERED}\n"),
    );
    let (code, _, stderr) = suggest(&[&log, "--config", &empty]).await;
    assert_eq!(code, 64);
    assert!(
        stderr.contains("has no limit; sluicegate suggest --route PATH"),
        "{stderr}"
    );
    let (code, _, stderr) = suggest(&[&log, "--config", &config, "--key", "path"]).await;
    assert_eq!(code, 64);
    assert!(stderr.contains("cannot be used with"), "{stderr}");
}
