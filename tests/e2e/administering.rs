//! Who is refused, and letting one in again: keys in the access log, by value on the admin listener and the command line, cleared and set.

use serde_json::Value;

use crate::harness::*;

const TOKEN: &str = "0123456789abcdef";

/// A gateway whose admin listener asks for a token.
fn guarded(rules: &str) -> Setup {
    Setup::new().tokens(TOKEN).rules(rules)
}

/// A route with one limit, answered by the gateway.
fn route(limit: &str) -> String {
    format!(
        "[[route]]\npath = \"/{limit}\"\nlimits = [\"{limit}\"]\nrespond = {{ status = 200 }}\n"
    )
}

/// How a key stands.
async fn key(gateway: &Gateway, path: &str) -> Value {
    let answer = gateway.admin(get(path).bearer(TOKEN)).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

#[tokio::test]
async fn every_refused_line_names_its_key_and_a_value_leads_to_it() {
    // Goal: an operator who has a customer's number finds the lines, and the other way round. Method: limits by address, by a number in
    // several spellings and by two parts; the refused line's key is what the admin listener and the command line make of the value.
    let rules = [
        "[limit.ip]\nkey = \"client.ip\"\nrates = [\"1 per 1h\"]\n".to_owned(),
        "[limit.phone]\nkey = \"header.x-phone | e164\"\nrates = [\"1 per 1h\"]\non_missing = \"skip\"\n".to_owned(),
        "[limit.two]\nkey = [\"method\", \"header.x-user\"]\nrates = [\"1 per 1h\", \"9 per 1d\"]\non_missing = \"skip\"\n".to_owned(),
        ["ip", "phone", "two"].map(route).concat(),
    ];
    let setup = guarded(&rules.concat()).log_line("keys = \"masked\"");
    let gateway = setup.start().await;
    let mut client = gateway.client().await;
    let ask = |limit: &str| {
        get(&format!("/{limit}"))
            .header("x-phone", "+4915123456778")
            .header("x-user", "alice@example.com")
    };
    for (limit, query, values) in [
        ("ip", "value=127.0.0.1", vec!["127.0.0.0/24"]),
        (
            "phone",
            "value=%2B49%20151%2023456778",
            vec!["+4915*******78"],
        ),
        (
            "two",
            "value=GET&value=alice@example.com",
            vec!["GET", "al***@example.com"],
        ),
    ] {
        assert_eq!(client.send(ask(limit)).await.status, 200, "{limit}");
        let refused = client.send(ask(limit)).await;
        assert_eq!(refused.status, 429, "{limit}");
        let again = client.send(ask(limit)).await;
        let lines = gateway.lines_of(&[refused, again]).await;
        let shown = key(&gateway, &format!("/limits/{limit}/keys?{query}")).await;
        for line in &lines {
            assert_eq!(line["key"], shown["key"], "{line} {shown}");
            assert_eq!(line["key_values"], Value::from(values.clone()), "{line}");
        }
        let first = &shown["rates"][0];
        assert_eq!(
            (&first["limit"], &first["used"], &first["remaining"]),
            (&1.into(), &1.into(), &0.into())
        );
        assert_eq!(shown["admits"], false, "{shown}");
        let by_key = key(
            &gateway,
            &format!("/limits/{limit}/keys/{}", lines[0]["key"].as_str().unwrap()),
        )
        .await;
        assert_eq!(by_key["rates"][0]["used"], 1, "{by_key}");
    }
    let config = gateway.config_path();
    let mut command = Process::run(&[
        "key",
        config.to_str().unwrap(),
        "two",
        "GET",
        "alice@example.com",
    ]);
    assert_eq!(command.exit_code().await, 0, "{}", command.stderr());
    let said: Value = serde_json::from_str(&command.stdout()).unwrap();
    assert_eq!(
        (&said["limit"], &said["rates"][1]["used"]),
        (&"two".into(), &1.into())
    );
    let mut command = Process::run(&["key", config.to_str().unwrap(), "two", "GET"]);
    assert_eq!(command.exit_code().await, 64);
    assert!(
        command
            .stderr()
            .contains("write one value for each of method, header.x-user"),
        "{}",
        command.stderr()
    );
}

#[tokio::test]
async fn a_rejected_key_can_be_cleared() {
    // Goal: one request of an operator clears a customer's key, with every algorithm, and logs the operator's address. Method: use a
    // limit up until it bans; without the token nothing happens; clear the key; the next requests pass as at first.
    let algorithms = [
        "sliding-window",
        "exact",
        "fixed-window",
        "token-bucket",
        "gcra",
    ];
    let limit = |name: &&str| {
        format!(
            "[limit.{name}]\nkey = \"client.ip\"\nrates = [\"2 per 1h\"]\nalgorithm = \"{name}\"\nban = {{ for = \"3h\" }}\n{}",
            route(name)
        )
    };
    let rules: String = algorithms.iter().map(limit).collect();
    let gateway = guarded(&rules).start().await;
    let mut client = gateway.client().await;
    for name in algorithms {
        let path = format!("/{name}");
        for status in [200, 200, 429, 429] {
            assert_eq!(client.get(&path).await.status, status, "{name}");
        }
        let keys = format!("/limits/{name}/keys?value=127.0.0.1");
        let shown = key(&gateway, &keys).await;
        assert!(shown["ban"]["left"].as_f64().unwrap() > 10_000.0, "{shown}");
        assert_eq!(gateway.admin(delete(&keys)).await.status, 401);
        assert_eq!(client.get(&path).await.status, 429);
        let cleared = gateway.admin(delete(&keys).bearer(TOKEN)).await.json();
        assert_eq!(
            (&cleared["was_banned"], &cleared["ban"]),
            (&true.into(), &Value::Null)
        );
        for status in [200, 200, 429] {
            assert_eq!(client.get(&path).await.status, status, "{name}");
        }
        // By its hash, and by the ban alone: what it used would ban it again.
        let hash = shown["key"].as_str().unwrap();
        for path_of_key in ["keys", "bans"] {
            let cleared = delete(&format!("/limits/{name}/{path_of_key}/{hash}")).bearer(TOKEN);
            assert_eq!(gateway.admin(cleared).await.status, 200);
            for status in [200, 200, 429] {
                assert_eq!(
                    client.get(&path).await.status,
                    status,
                    "{name} {path_of_key}"
                );
            }
        }
        // Once more: no ban is in force, and its counters are cleared.
        let again = delete(&format!("/limits/{name}/bans/{hash}")).bearer(TOKEN);
        assert_eq!(gateway.admin(again.clone()).await.status, 200);
        assert_eq!(gateway.admin(again).await.status, 200);
        let log = gateway.stderr();
        for act in [
            format!("cleared key {hash}"),
            format!("lifted the ban of key {hash}, "),
            format!("cleared key {hash}, which had no ban"),
        ] {
            let is_it = |line: &&str| {
                line.contains(&format!("audit: limit {name}: admin (127.0.0.1:"))
                    && line.contains(&act)
            };
            assert!(log.lines().any(|line| is_it(&line)), "{act}: {log}");
        }
    }
}

#[tokio::test]
async fn an_operator_sets_what_is_used_and_bans_by_hand() {
    // Goal: a grant and a ban by hand, with a reason in the process log. Method: PUT of each; what is wrong is said and changes nothing.
    let limit = |name: &str, more: &str| {
        format!("[limit.{name}]\nkey = \"client.ip\"\nrates = [\"5 per 1h\"]\n{more}\n")
    };
    let rules = limit("a", "ban = { for = \"1m\", factor = 2, max = \"2h\" }") + &limit("b", "");
    let gateway = guarded(&(rules + &route("a") + &route("b"))).start().await;
    let mut client = gateway.client().await;
    let put = async |limit: &str, body: &str| {
        let path = format!("/limits/{limit}/keys?value=127.0.0.1");
        gateway
            .admin(request("PUT", &path).bearer(TOKEN).body(body.to_owned()))
            .await
    };
    assert_eq!(
        put("a", r#"{"used": 4}"#).await.json()["rates"][0]["remaining"],
        1
    );
    for status in [200, 429] {
        assert_eq!(client.get("/a").await.status, status);
    }
    assert_eq!(put("b", r#"{"used": 0}"#).await.status, 200);
    let banned = put("a", r#"{"ban": {"for": "1h", "reason": "card\n fraud"}}"#)
        .await
        .json();
    assert!(
        (3590.0..=3600.0).contains(&banned["ban"]["left"].as_f64().unwrap()),
        "{banned}"
    );
    let refused = client.get("/a").await;
    assert!(
        (3590..=3600).contains(&refused.retry_after()),
        "{refused:?}"
    );
    let log = gateway.stderr();
    assert!(
        log.contains("banned for 3600 s key") && log.contains(r#"reason "card\n fraud""#),
        "{log}"
    );
    for (limit, body, status) in [
        ("a", r#"{"ban": {"for": "3h"}}"#, 400),
        ("a", r#"{"used": "all"}"#, 400),
        ("a", "", 400),
        ("b", r#"{"ban": {"for": "31d"}}"#, 400),
        ("c", r#"{"used": 0}"#, 404),
    ] {
        let answer = put(limit, body).await;
        assert_eq!(answer.status, status, "{body}: {answer:?}");
        assert!(answer.json()["error"].is_string());
    }
    let log = gateway.stderr();
    let failed =
        "could not ban a key by its values for 10800 s: a ban of this limit lasts at most 7200 s";
    assert!(log.contains(failed), "{log}");
    let open = Gateway::start(&format!(
        "[limit.a]\nkey = \"client.ip\"\nrates = [\"5 per 1h\"]\n{}",
        route("a")
    ))
    .await;
    let answer = open.admin(delete("/limits/a/keys?value=127.0.0.1")).await;
    assert_eq!(answer.status, 403);
    assert!(answer.text().contains("token_file"), "{answer:?}");
}

#[tokio::test]
async fn a_key_of_a_shared_limit_is_cleared_in_the_store() {
    // Goal: one act lets a customer in for the whole fleet. Method: two gateways with a strict limit; use it up by one, look it up and
    // clear it by the other. By its hash alone nobody finds it in the store. The rights that the documentation names are enough.
    let redis = Redis::start().await;
    redis.add_gateway_user(&[]);
    let store = format!(
        "[store]\nurl = \"redis://gateway@{}\"\npassword_file = \"../password\"\nrequired_for_ready = true\ntimeout = \"5s\"\n",
        redis.address()
    );
    let limit =
        "[limit.a]\nkey = \"client.ip\"\nrates = [\"3 per 1h\"]\nstore = \"shared-strict\"\n";
    let rules = format!("{store}{limit}{}", route("a"));
    let start = || guarded(&rules).file("password", "hunter2\n").start();
    let (one, other) = (start().await, start().await);
    for status in [200, 200, 200, 429] {
        assert_eq!(one.get("/a").await.status, status);
    }
    let keys = "/limits/a/keys?value=127.0.0.1";
    let shown = key(&other, keys).await;
    assert_eq!(
        (&shown["decided_by"], &shown["rates"][0]["used"]),
        (&"store".into(), &3.into()),
        "{shown}"
    );
    let hash = format!("/limits/a/keys/{}", shown["key"].as_str().unwrap());
    assert_eq!(other.admin(delete(&hash).bearer(TOKEN)).await.status, 409);
    let cleared = other.admin(delete(keys).bearer(TOKEN)).await;
    assert_eq!(
        (cleared.status, &cleared.json()["rates"][0]["used"]),
        (200, &0.into())
    );
    assert_eq!(other.get("/a").await.status, 200);
    // The gateway that remembers its refusal forgets it by the same act.
    assert_eq!(one.admin(delete(keys).bearer(TOKEN)).await.status, 200);
    for status in [200, 200, 200, 429] {
        assert_eq!(one.get("/a").await.status, status);
    }
}
