//! Temporary rules about keys: one key in any spelling, bans by rules among those of the limit, and who reads the values.

use serde_json::{Value, json};

use crate::harness::*;

const TOKEN: &str = "0123456789abcdef";
const PHONE: &str = "+49 151 23456778";
const SAME_PHONE: &str = "+4915123456778";

/// A limit by a number without a `ban`, one by a mailbox and one by the address, which bans; loopback tells who the client is.
fn rules() -> String {
    "[client]\ntrusted_proxies = [\"127.0.0.0/8\"]\nblock = [\"bots\"]\n[list.bots]\ncidrs = [\"198.51.100.0/24\"]\n"
        .to_owned()
        + &limit(
            "phone",
            &["header.x-phone | e164"],
            "on_missing = \"skip\"\nrates = [\"1000 per 1h\"]",
        )
        + &limit(
            "mail",
            &["header.x-mail | email"],
            "on_missing = \"skip\"\nrates = [\"20000 per 1h\"]",
        )
        + &limit(
            "ip",
            &["client.ip"],
            "rates = [\"1000 per 1h\"]\nban = { for = \"1h\" }",
        )
        + &limit("all", &["global"], "rates = [\"100000 per 1h\"]")
        + &route("/", &["phone", "mail", "ip", "all"], ANSWERED)
}

fn guarded(keys: &str) -> Setup {
    Setup::new()
        .tokens(TOKEN)
        .log_line(&format!("keys = \"{keys}\""))
        .rules(&rules())
}

async fn asked(gateway: &Gateway, request: Request) -> Value {
    let answer = gateway.admin(request.bearer(TOKEN)).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

/// Sets a rule about a key, and returns the answer.
async fn set(gateway: &Gateway, action: &str, limit: &str, key: &str) -> Value {
    let order = json!({ "action": action, "limit": limit, "key": [key], "for": "1h" });
    asked(gateway, post("/rules").body(order.to_string())).await
}

fn escaped(value: &str) -> String {
    value.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

async fn rejected(client: &mut Client, field: &str, value: &str) -> u16 {
    client.send(get("/").header(field, value)).await.status
}

/// The hash of the key of a page.
async fn read_hash(gateway: &Gateway, target: &str) -> String {
    let page = asked(gateway, get(target)).await;
    page["key"].as_str().unwrap().to_owned()
}

/// The ids of the rules in force.
async fn ids(gateway: &Gateway) -> Vec<String> {
    let page = asked(gateway, get("/rules")).await;
    let rules = page["rules"].as_array().unwrap().iter();
    rules
        .map(|rule| rule["id"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn a_key_is_one_in_any_spelling() {
    // Goal: a rule is replaced, found and removed by its key, whatever text named it, and nothing that still rejects is left unsaid.
    // Method: a number, a mailbox and an address in two spellings each; a wider block, a list and a ban of the limit beside what is
    // removed; commands.
    let gateway = guarded("plain").start().await;
    let mut client = gateway.client().await;
    for (limit, field, one, other) in [
        ("phone", "x-phone", PHONE, SAME_PHONE),
        ("mail", "x-mail", "A@B.de", "a@b.de"),
        ("ip", "x-forwarded-for", "192.0.2.7", "::ffff:192.0.2.7"),
    ] {
        let first = set(&gateway, "block", limit, one).await;
        let second = set(&gateway, "block", limit, other).await;
        assert_eq!(second["replaced"], json!([first["rule"]["id"]]), "{limit}");
        set(&gateway, "ban", limit, one).await;
        assert_eq!(rejected(&mut client, field, other).await, 403, "{limit}");
        let target = format!("/rules?limit={limit}&value={}", escaped(one));
        let removed = asked(&gateway, delete(&target)).await;
        assert_eq!(
            removed["removed"].as_array().map(Vec::len),
            Some(2),
            "{removed}"
        );
        assert_eq!(removed["still"], json!([]));
        assert_eq!(rejected(&mut client, field, other).await, 200, "{limit}");
    }
    let own = request("PUT", "/limits/ip/keys?value=192.0.2.7").body(r#"{"ban":{"for":"10m"}}"#);
    asked(&gateway, own).await;
    set(&gateway, "ban", "ip", "192.0.2.7").await;
    let removed = asked(&gateway, delete("/rules?limit=ip&value=192.0.2.7")).await;
    let still = removed["still"][0].as_str().unwrap();
    assert!(
        still.starts_with("the limit ip itself bans it until "),
        "{still}"
    );
    assert_eq!(
        gateway
            .admin(delete("/rules?limit=ip&value=x").bearer(TOKEN))
            .await
            .status,
        400
    );

    let config = gateway.config_path();
    let config = config.to_str().unwrap();
    for target in ["203.0.113.0/24", "203.0.113.7"] {
        let mut block = Process::run(&["block", target, "--for", "1h", "--config", config]);
        assert_eq!(block.exit_code().await, 0, "{}", block.stderr());
    }
    let wide = asked(&gateway, get("/rules")).await["rules"][0]["id"].clone();
    let mut unblock = Process::run(&["unblock", "::ffff:203.0.113.7", "--config", config]);
    assert_eq!(unblock.exit_code().await, 0, "{}", unblock.stderr());
    let said = unblock.stdout();
    let expected = format!(
        "still: rule {} for 203.0.113.0/24 blocks it until ",
        wide.as_str().unwrap()
    );
    assert!(said.contains(&expected), "{said}");
    let mut again = Process::run(&["unblock", "203.0.113.7", "--config", config]);
    assert_eq!(again.exit_code().await, 1);
    let expected = format!(
        "`sluicegate rules remove {}` ends it",
        wide.as_str().unwrap()
    );
    assert!(again.stderr().contains(&expected), "{}", again.stderr());
    let remove = async |rule: &str| {
        let mut remove = Process::run(&["rules", "--config", config, "remove", rule]);
        assert_eq!(remove.exit_code().await, 0, "{}", remove.stderr());
    };
    remove(wide.as_str().unwrap()).await;
    for (order, target) in [
        (&["192.0.2.8"][..], &["192.0.2.8"][..]),
        (&["192.0.3.0/24"], &["192.0.3.8"]),
        (
            &["--limit", "phone", "--key", PHONE],
            &["--limit", "phone", "--key", SAME_PHONE],
        ),
    ] {
        let mut exempt =
            Process::run(&[&["exempt", "--for", "1h", "--config", config], order].concat());
        assert_eq!(exempt.exit_code().await, 0, "{}", exempt.stderr());
        let rule = ids(&gateway).await.remove(0);
        let mut unblock = Process::run(&[&["unblock", "--config", config], target].concat());
        assert_eq!(unblock.exit_code().await, 1, "{}", unblock.stdout());
        let said = unblock.stderr();
        let end = format!("exempts it until .*`sluicegate rules remove {rule}` ends it");
        let (does, ends) = end.split_once(".*").unwrap();
        assert!(said.contains(does) && said.contains(ends), "{said}");
        remove(&rule).await;
    }
    for (command, said) in [
        ("block", "every request of all is blocked until"),
        ("unblock", "block every request of all"),
    ] {
        let mut whole = vec![command, "--limit", "all", "--config", config];
        if command == "block" {
            whole.extend(["--for", "1h"]);
            let mut unforced = Process::run(&whole);
            assert_eq!(unforced.exit_code().await, 64, "{}", unforced.stdout());
            let danger = "would block all requests of all, which has one counter";
            assert!(unforced.stderr().contains(danger), "{}", unforced.stderr());
            whole.push("--force");
        }
        let mut whole = Process::run(&whole);
        assert_eq!(whole.exit_code().await, 0, "{}", whole.stderr());
        assert!(whole.stdout().contains(said), "{}", whole.stdout());
    }
    let everybody = read_hash(&gateway, "/limits/all/keys").await;
    for (method, path, order) in [
        (
            "POST",
            "/rules",
            json!({ "action": "ban", "limit": "all", "for": "1h" }),
        ),
        (
            "POST",
            "/rules",
            json!({ "action": "exempt", "limit": "all", "for": "1h" }),
        ),
        ("PUT", "/limits/all/keys", json!({ "ban": { "for": "1h" } })),
        (
            "PUT",
            &format!("/limits/all/keys/{everybody}"),
            json!({ "ban": { "for": "1h" } }),
        ),
    ] {
        let order = request(method, path).body(order.to_string());
        let answer = gateway.admin(order.bearer(TOKEN)).await;
        assert_eq!(answer.status, 400, "{method} {path}: {answer:?}");
        assert!(answer.text().contains("all requests of all"), "{answer:?}");
    }
    let mut unnamed = Process::run(&["unblock", "--limit", "phone", "--config", config]);
    assert_eq!(unnamed.exit_code().await, 64);
    let advice = "write one value for each of header.x-phone";
    assert!(unnamed.stderr().contains(advice), "{}", unnamed.stderr());
    let listed = json!({ "action": "block", "target": "198.51.100.7", "for": "1h" });
    asked(&gateway, post("/rules").body(listed.to_string())).await;
    let removed = asked(&gateway, delete("/rules?target=198.51.100.7")).await;
    let still = json!(["the configuration blocks it by the list bots"]);
    assert_eq!(removed["still"], still);
    assert_eq!(ids(&gateway).await, Vec::<String>::new());
}

/// The rows of the banned keys of a limit.
async fn bans(gateway: &Gateway, limit: &str) -> Vec<Value> {
    let page = asked(gateway, get(&format!("/limits/{limit}/bans"))).await;
    page["keys"].as_array().unwrap().clone()
}

/// What `/status` says of a limit.
async fn status_of(gateway: &Gateway, name: &str) -> Value {
    let status = asked(gateway, get("/status")).await;
    let mut limits = status["limits"].as_array().unwrap().iter();
    limits.find(|limit| limit["name"] == name).unwrap().clone()
}

#[tokio::test]
async fn a_ban_by_a_rule_is_among_the_bans() {
    // Goal: a ban by a rule is listed, counted, explained and ended as any other, and what ends it says so; each act has its mark. Method:
    // a rule that bans a key of a limit with and without a `ban`; each way to end it in turn; lifts of nothing.
    let gateway = guarded("plain").start().await;
    let mut client = gateway.client().await;
    for (limit, field, value) in [
        ("phone", "x-phone", SAME_PHONE),
        ("ip", "x-forwarded-for", "192.0.2.7"),
    ] {
        let begin = async || {
            let rule = set(&gateway, "ban", limit, value).await["rule"]["id"].clone();
            let rows = bans(&gateway, limit).await;
            assert_eq!((rows.len(), &rows[0]["rule"]), (1, &rule), "{rows:?}");
            assert_eq!(rows[0]["key_values"], json!([value]));
            assert!(rows[0]["left"].as_f64().unwrap() > 3_500.0);
            (rule, rows[0]["key"].as_str().unwrap().to_owned())
        };
        let (rule, key) = begin().await;
        assert_eq!(rejected(&mut client, field, value).await, 429);
        let view = status_of(&gateway, limit).await;
        assert_eq!(view["banned_by_rules"], 1);
        assert!(view["ban"].is_null() || view["ban"]["keys"] == 1, "{view}");
        let usage = asked(&gateway, get(&format!("/limits/{limit}/usage"))).await;
        assert_eq!(usage["banned_keys"], 1);
        let lifted = asked(&gateway, delete(&format!("/limits/{limit}/bans/{key}"))).await;
        assert_eq!(
            (&lifted["lifted"], &lifted["rules"]),
            (&json!(true), &json!([rule]))
        );
        assert_eq!(rejected(&mut client, field, value).await, 200);
        let log = gateway.stderr();
        let words = format!(
            "s before its end, and removed temporary rule {}",
            rule.as_str().unwrap()
        );
        assert!(log.contains(&words), "{log}");

        let (rule, _) = begin().await;
        let counted = asked(
            &gateway,
            delete(&format!("/bans?limit={limit}&dry_run=true")),
        )
        .await;
        assert_eq!(
            (&counted["bans"], &counted["rules"]),
            (&json!(1), &json!([rule]))
        );
        let ended = asked(&gateway, delete("/bans?since=20m")).await;
        assert_eq!(
            (&ended["bans"], &ended["rules"]),
            (&json!(1), &json!([rule])),
            "{ended}"
        );
        assert_eq!(rejected(&mut client, field, value).await, 200);

        let (rule, _) = begin().await;
        let cleared = asked(&gateway, post(&format!("/limits/{limit}/clear"))).await;
        assert_eq!(
            (&cleared["bans"], &cleared["rules"]),
            (&json!(1), &json!([rule]))
        );
        assert_eq!(rejected(&mut client, field, value).await, 200);
        assert_eq!(bans(&gateway, limit).await, Vec::<Value>::new());
    }
    set(&gateway, "ban", "ip", "192.0.2.7").await;
    let target = "/explain?url=/&client=192.0.2.7";
    let told = asked(&gateway, get(target)).await;
    assert_eq!(
        told["outcome"],
        "rejected with 429: the limit ip bans its key"
    );
    let ended = asked(&gateway, delete("/bans?cidr=192.0.2.0/24")).await;
    assert_eq!(ended["bans"], 1, "{ended}");
    set(&gateway, "exempt", "ip", "192.0.2.7").await;
    let told = asked(&gateway, get(target)).await;
    // The limit of the exempt key is none of those.
    let outcome = told["outcome"].as_str().unwrap();
    assert!(outcome.ends_with("that may reject it"), "{told}");
    let config = gateway.config_path();
    let wide = [
        "unban",
        "--config",
        config.to_str().unwrap(),
        "--cidr",
        "0.0.0.0/0",
    ];
    let mut unban = Process::run(&wide);
    assert_eq!(unban.exit_code().await, 1, "{}", unban.stderr());
    assert!(
        unban
            .stderr()
            .contains("ended no ban: no limit can be searched so"),
        "{}",
        unban.stderr()
    );

    let mut unnamed = Process::run(&["unban"]);
    assert_eq!(unnamed.exit_code().await, 64);
    let advice = "write --limit NAME, --since 20m or --cidr 203.0.113.0/24";
    assert!(unnamed.stderr().contains(advice), "{}", unnamed.stderr());

    let marks = asked(&gateway, get("/history")).await["marks"].clone();
    let marks: Vec<&Value> = marks.as_array().unwrap().iter().collect();
    let texts: Vec<&str> = marks
        .iter()
        .map(|mark| mark["text"].as_str().unwrap())
        .collect();
    let lifts = texts
        .iter()
        .filter(|text| text.contains("lifted the ban of key"));
    assert_eq!(lifts.count(), 2, "{texts:?}");
    let before = texts.len();
    for nothing in [
        delete("/bans?limit=ip"),
        delete("/limits/ip/bans/0123456789abcdee"),
        post("/limits/mail/clear"),
    ] {
        asked(&gateway, nothing).await;
    }
    let after = asked(&gateway, get("/history")).await["marks"]
        .as_array()
        .unwrap()
        .len();
    assert_eq!(after, before, "nothing was changed");
}

#[tokio::test]
async fn values_of_keys_in_rules_are_shown_as_others_are() {
    // Goal: no list has values that `[log] keys` hides, and each rule can still be told by its hash; what an operator wrote moves no
    // terminal. Method: the list, the answer and the commands under each form; a reason with an escape and one that is too long; a body
    // that is too long.
    for (form, values) in [
        ("hash", Value::Null),
        ("masked", json!(["+4915*******78"])),
        ("plain", json!([SAME_PHONE])),
    ] {
        let gateway = guarded(form).start().await;
        let set = set(&gateway, "block", "phone", PHONE).await;
        let page = asked(&gateway, get("/rules")).await;
        let key = format!("/limits/phone/keys?value={}", escaped(PHONE));
        let hash = asked(&gateway, get(&key)).await["key"].clone();
        for row in [&set["rule"], &page["rules"][0]] {
            assert_eq!((&row["key_values"], &row["key"]), (&values, &hash), "{row}");
            let has_value = row.to_string().contains("123456");
            assert_eq!(has_value, form == "plain", "{row}");
        }
        let hash = hash.as_str().unwrap();
        let object = match form {
            "hash" => format!("the key {hash} of phone"),
            "masked" => format!("the key {hash} (+4915*******78 masked) of phone"),
            _ => format!("{SAME_PHONE} of phone"),
        };
        assert_eq!(page["rules"][0]["object"], object);
        let marks = asked(&gateway, get("/history")).await["marks"].to_string();
        let added = format!("added block key {hash} of phone for 3600 s");
        assert!(marks.contains(&added), "{marks}");
        assert_eq!(page["key_values_hidden"].is_null(), form != "hash");
        assert_eq!(page["key_values_masked"], form == "masked");
        let config = gateway.config_path();
        let config = config.to_str().unwrap();
        let limit_and_key = ["--limit", "phone", "--key", SAME_PHONE, "--config", config];
        let mut unblock = Process::run(&[&["unblock"], &limit_and_key[..]].concat());
        assert_eq!(unblock.exit_code().await, 0, "{}", unblock.stderr());
    }
    let gateway = guarded("plain").start().await;
    let reasons = |reason: &str| {
        json!({ "action": "block", "target": "203.0.113.7", "for": "1h", "reason": reason })
            .to_string()
    };
    asked(&gateway, post("/rules").body(reasons("\u{202e}gnimaps"))).await;
    let config = gateway.config_path();
    for arguments in [&["rules"][..], &["rules", "--json"]] {
        let config = ["--config", config.to_str().unwrap()];
        let mut list = Process::run(&[arguments, &config[..]].concat());
        assert_eq!(list.exit_code().await, 0, "{}", list.stderr());
        assert!(
            list.stdout().contains("\\u202egnimaps"),
            "{}",
            list.stdout()
        );
    }
    for (body, status, part) in [
        (
            reasons(&"x".repeat(201)),
            400,
            "at most 200 characters, and this one has 201",
        ),
        (reasons(&"x".repeat(5_000)), 413, "more than 4096 bytes"),
        (reasons(&"x".repeat(200_000)), 413, "more than 4096 bytes"),
        (
            json!({ "action": "scale", "limit": "phone", "factor": 100, "for": "1h" }).to_string(),
            200,
            "",
        ),
        (
            json!({ "action": "scale", "limit": "mail", "factor": 52.43, "for": "1h" }).to_string(),
            400,
            "more than 1048575, the largest count of a rate; the largest factor is 52.42",
        ),
        (
            json!({ "action": "scale", "limit": "phone", "factor": "2", "for": "1h" }).to_string(),
            400,
            "`factor` is a number from 0.01 to 100",
        ),
    ] {
        let answer = gateway.admin(post("/rules").body(body).bearer(TOKEN)).await;
        assert_eq!(answer.status, status, "{answer:?}");
        assert!(answer.text().contains(part), "{answer:?}");
    }
}

/// The standard output of a command that ends well, with the token of the gateway.
async fn printed(gateway: &Gateway, arguments: &[&str]) -> String {
    let token = gateway.directory().join("token").display().to_string();
    let mut process = Process::run(&[arguments, &["--token-file", &token]].concat());
    assert_eq!(process.exit_code().await, 0, "{}", process.stderr());
    process.stdout()
}

/// The time since which uses of the limit `pages` are recorded, and the largest of them.
async fn recorded_uses(gateway: &Gateway) -> (Value, Value) {
    // The page in the browser reads tables too, one at a time.
    let page = eventually("no other walk is under way", async || {
        let answer = gateway
            .admin(get("/limits/pages/usage").bearer(TOKEN))
            .await;
        (answer.status == 200).then(|| answer.json())
    })
    .await;
    let peaks = page["rates"][0]["peaks"].as_array().unwrap();
    (
        page["since"].clone(),
        peaks.last().cloned().unwrap_or_default(),
    )
}

#[tokio::test]
async fn multiplied_rates_are_shown_as_such() {
    // Goal: nobody takes the rates of an emergency for those of the configuration, which keeps its usage. Method: a limit of ten an hour
    // times a half; its rates in each answer, command and view, and the time of the configuration in force; the uses before and after.
    let rules = "[client]\ntrusted_proxies = [\"127.0.0.0/8\"]\n".to_owned()
        + &limit("pages", &["client.ip"], "rates = [\"10 per 1h\"]")
        + &route("/", &["pages"], ANSWERED);
    let setup = Setup::new().tokens(TOKEN).rules(&rules);
    let gateway = setup.start().await;
    let mut client = gateway.client().await;
    for (address, requests) in [("203.0.113.1", 7), ("203.0.113.2", 3)] {
        for _ in 0..requests {
            let answer = client.send(get("/").forwarded_for(address)).await;
            assert_eq!(answer.status, 200, "{answer:?}");
        }
    }
    let most = json!({ "used": 7, "keys": 1 });
    let uses = eventually("the uses are in the sample", async || {
        let uses = recorded_uses(&gateway).await;
        (uses.1 == most).then_some(uses)
    })
    .await;
    let before = asked(&gateway, get("/status")).await;
    assert_eq!(before["limits"][0]["scaled"], Value::Null);

    let order = json!({ "action": "scale", "limit": "pages", "factor": 0.5, "for": "1h" });
    let rule = asked(&gateway, post("/rules").body(order.to_string())).await["rule"].clone();
    let scaled = json!({ "factor": 0.5, "rates": ["10 per 1h"], "until": rule["until"], "rule": rule["id"] });
    let status = asked(&gateway, get("/status")).await;
    let shown = &status["limits"][0];
    assert_eq!(
        (&shown["rates"], &shown["scaled"]),
        (&json!(["5 per 1h"]), &scaled)
    );
    for page in ["top", "usage", "keys?value=203.0.113.1"] {
        let page = asked(&gateway, get(&format!("/limits/pages/{page}"))).await;
        assert_eq!(page["scaled"], scaled, "{page}");
    }
    let target = "/explain?url=/&client=203.0.113.1";
    let told = asked(&gateway, get(target)).await["limits"][0].to_string();
    assert!(told.contains("multiplies the rates by 0.5 until"), "{told}");
    let url = format!("http://{}", gateway.admin_address());
    let frame = printed(&gateway, &["top", &url, "--once", "--interval", "0.1"]).await;
    assert!(frame.contains("temporary ×0.5: 5 per 1h"), "{frame}");
    // The sample of the multiplied rates begins with the rule.
    let answer = client.send(get("/").forwarded_for("203.0.113.3")).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    eventually("the key is in the sample of the rule", async || {
        (recorded_uses(&gateway).await.1 != Value::Null).then_some(())
    })
    .await;
    let suggest = ["suggest", "--gateway", &url, "--limit", "pages"];
    let suggestion = printed(&gateway, &suggest).await;
    assert!(
        suggestion.contains("the configuration says 10 per 1h"),
        "{suggestion}"
    );
    let dry_run = asked(&gateway, get("/reload?dry_run=true")).await;
    assert_eq!(dry_run["changes"], json!([]), "{dry_run}");
    assert_eq!(dry_run["loaded_at"], before["configuration"]["loaded_at"]);

    let browser = Browser::start().await;
    let mut page = browser.signed_in(&gateway, TOKEN, "limits").await;
    page.shows("5 per 1h by client.ip/32,/64 × 0.5, temporary")
        .await;
    page.go(&gateway.ui("limit/pages")).await;
    page.shows("5 per 1h (10 per 1h × 0.5 until ").await;
    page.shows(&format!("rule {}", rule["id"].as_str().unwrap()))
        .await;

    // The rule has a sample of its own, and the one before it goes on after it.
    assert_ne!(recorded_uses(&gateway).await.0, uses.0);
    let target = format!("/rules/{}", rule["id"].as_str().unwrap());
    asked(&gateway, delete(&target)).await;
    assert_eq!(recorded_uses(&gateway).await, uses);
    page.shows("At today's 10 per 1h, at most 0 keys of ").await;
}
