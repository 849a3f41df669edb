//! Rules that operators set for a time: who is blocked and who is exempt, by API, command line and page; their end, file and fleet.

use std::fs;

use serde_json::{Value, json};
use sluicegate_limiter::Timestamp;

use crate::geo::database;
use crate::harness::*;

const TOKEN: &str = "0123456789abcdef";

/// One an hour for everybody together; loopback tells who the client is.
const RULES: &str = r#"
[server]
state_dir = "state"
[client]
trusted_proxies = ["127.0.0.0/8"]
allow = ["office"]
[list.office]
cidrs = ["192.0.2.0/24"]
[limit.one]
key = "global"
rates = ["1 per 1h"]
[[route]]
name = "all"
path = "/*"
limits = ["one"]
respond = { status = 200 }
"#;

fn guarded(rules: &str) -> Setup {
    Setup::new().tokens(TOKEN).rules(rules)
}

async fn order(gateway: &Gateway, order: Value) -> Response {
    gateway
        .admin(post("/rules").body(order.to_string()).bearer(TOKEN))
        .await
}

/// Sets a rule, and returns its id.
async fn set(gateway: &Gateway, action: &str, target: &str, length: &str) -> String {
    let answer = order(
        gateway,
        json!({ "action": action, "target": target, "for": length, "reason": "a test" }),
    )
    .await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()["rule"]["id"].as_str().unwrap().to_owned()
}

async fn remove(gateway: &Gateway, id: &str) {
    let answer = gateway
        .admin(delete(&format!("/rules/{id}")).bearer(TOKEN))
        .await;
    assert_eq!(answer.status, 200, "{answer:?}");
}

/// The targets of the rules in force.
async fn targets(gateway: &Gateway) -> Vec<String> {
    let page = gateway.admin(get("/rules").bearer(TOKEN)).await.json();
    let rules = page["rules"].as_array().unwrap().iter();
    let mut targets: Vec<String> = rules
        .map(|rule| rule["target"].as_str().unwrap().to_owned())
        .collect();
    targets.sort();
    targets
}

async fn status(client: &mut Client, address: &str) -> u16 {
    client.send(get("/").forwarded_for(address)).await.status
}

async fn explained(gateway: &Gateway, client: &str) -> Value {
    let target = format!("/explain?url=/&client={client}");
    gateway.admin(get(&target).bearer(TOKEN)).await.json()
}

#[tokio::test]
async fn a_rule_blocks_or_exempts_clients_until_its_end() {
    // Goal: a rule is in force when it is answered, on open connections too, ahead of limits; log, metrics, list and /explain show it; the
    // narrowest decides, it ends by itself or by hand, and it replaces its like. Method: a limit that is used up, rules for addresses,
    // blocks and networks, and a clock that passes their ends.
    let geo = database("ASN");
    let rules = format!("{RULES}[geo]\ndatabases = [\"{}\"]\n", geo.display());
    let gateway = guarded(&rules).with_driven_clock().start().await;
    let begin = 1_800_000_000;
    let mut clock = gateway.clock();
    clock.set(Timestamp::from_secs(begin));
    let mut client = gateway.client().await;
    assert_eq!(status(&mut client, "203.0.113.1").await, 200);
    assert_eq!(status(&mut client, "203.0.113.1").await, 429);

    let block = set(&gateway, "block", "203.0.113.0/24", "30m").await;
    set(&gateway, "exempt", "203.0.113.7", "10m").await;
    set(&gateway, "block", "192.0.2.0/25", "30m").await;
    set(&gateway, "block", "AS1221", "30m").await;
    let blocked = client.send(get("/").forwarded_for("203.0.113.1")).await;
    blocked.assert_problem(403);
    let exempt = client.send(get("/").forwarded_for("203.0.113.7")).await;
    assert_eq!((exempt.status, exempt.header("ratelimit")), (200, None));
    let lines = gateway.lines_of(&[blocked, exempt]).await;
    assert_eq!(lines[0]["outcome"], "blocked");
    assert_eq!(lines[0]["list"], format!("temporary:{block}"));
    assert!(lines[1]["list"].as_str().unwrap().starts_with("temporary:"));
    for (address, wanted) in [
        ("192.0.2.1", 403),
        ("192.0.2.200", 200),
        ("1.128.0.9", 403),
        ("198.51.100.1", 429),
    ] {
        assert_eq!(status(&mut client, address).await, wanted, "{address}");
    }
    let page = gateway.admin(get("/rules").bearer(TOKEN)).await.json();
    assert_eq!(page["kept"], true);
    let listed = page["rules"].as_array().unwrap();
    let row = listed.iter().find(|rule| rule["id"] == *block).unwrap();
    assert_eq!(
        (&row["hits"], &row["by"], &row["reason"]),
        (&json!(1), &json!("admin"), &json!("a test"))
    );
    let metrics = gateway
        .admin(get("/metrics").bearer(TOKEN))
        .await
        .text()
        .to_owned();
    for line in [
        "sluicegate_temporary_rules{action=\"block\"} 3",
        "sluicegate_temporary_rules{action=\"exempt\"} 1",
    ] {
        assert!(metrics.contains(line), "{line}");
    }
    let told = explained(&gateway, "203.0.113.9").await;
    assert_eq!(told["outcome"], "rejected with 403, before any limit");
    let list = told["list"].as_str().unwrap();
    assert!(
        list.starts_with(&format!(
            "the temporary rule {block} for 203.0.113.0/24 blocks it until "
        )) && list.ends_with(": a test"),
        "{list}"
    );

    clock.set(Timestamp::from_secs(begin + 601));
    eventually("the exemption ends", async || {
        (status(&mut client, "203.0.113.7").await == 403).then_some(())
    })
    .await;
    let again = order(
        &gateway,
        json!({ "action": "block", "target": "203.0.113.0/24", "for": "1h" }),
    )
    .await
    .json();
    assert_eq!(again["replaced"], json!([block]));
    remove(&gateway, again["rule"]["id"].as_str().unwrap()).await;
    assert_eq!(status(&mut client, "203.0.113.7").await, 429);
    assert_eq!(
        gateway
            .admin(delete(&format!("/rules/{block}")).bearer(TOKEN))
            .await
            .status,
        404
    );
    assert_eq!(targets(&gateway).await, ["192.0.2.0/25", "AS1221"]);
}

#[tokio::test]
async fn a_rule_that_would_do_harm_is_refused_and_says_why() {
    // Goal: a slip cuts off nobody, and nobody sets a rule without the token. Method: orders that are dangerous, malformed, too long, or
    // without effect; a forced one; requests without the token, and of a gateway without one.
    let gateway = guarded(RULES).start().await;
    for (target, length, part) in [
        ("0.0.0.0/0", "30m", "wider than /8"),
        ("127.0.0.1", "30m", "trusted_proxies"),
        ("203.0.113.1/24", "30m", "has bits behind its prefix"),
        ("example.com", "30m", "AS64496"),
        ("AS1221", "30m", "no database of [geo] knows networks"),
        ("203.0.113.1", "31d", "from 1s to 30d"),
        ("203.0.113.1", "30", "30s"),
    ] {
        let answer = order(
            &gateway,
            json!({ "action": "block", "target": target, "for": length }),
        )
        .await;
        assert_eq!(answer.status, 400, "{target} {length}");
        assert!(answer.text().contains(part), "{}", answer.text());
    }
    let forced = json!({ "action": "block", "target": "0.0.0.0/0", "for": "30m", "force": true });
    assert_eq!(order(&gateway, forced.clone()).await.status, 200);
    assert_eq!(gateway.get("/").await.status, 403);
    // The listener of operators is subject to no rule.
    assert_eq!(targets(&gateway).await, ["0.0.0.0/0"]);
    assert_eq!(
        gateway
            .admin(post("/rules").body(forced.to_string()))
            .await
            .status,
        401
    );
    assert_eq!(
        gateway
            .admin(request("PUT", "/rules").bearer(TOKEN))
            .await
            .status,
        405
    );
    assert_eq!(
        gateway
            .admin(get("/rules/0123456789ab").bearer(TOKEN))
            .await
            .status,
        405
    );
    assert_eq!(
        gateway.admin(delete("/rules/x").bearer(TOKEN)).await.status,
        400
    );

    let open = Gateway::start(RULES).await;
    let answer = open.admin(post("/rules").body(forced.to_string())).await;
    assert_eq!(answer.status, 403);
    assert!(answer.text().contains("token_file"), "{}", answer.text());
    assert_eq!(open.admin(get("/rules")).await.json()["rules"], json!([]));
}

#[tokio::test]
async fn rules_outlive_the_process() {
    // Goal: a rule holds across a reload, `kill -9` and a restart. Method: a rule, and each of them in turn; a removed rule that stays
    // removed.
    let mut gateway = guarded(RULES).start().await;
    let removed = set(&gateway, "block", "203.0.113.2", "1h").await;
    set(&gateway, "block", "203.0.113.1", "1h").await;
    remove(&gateway, &removed).await;
    gateway.write_rules(&RULES.replace("1 per 1h", "2 per 1h"), Writing::InPlace);
    eventually("the reload is done", async || {
        gateway
            .stderr()
            .contains("configuration 2 is in force")
            .then_some(())
    })
    .await;
    let log = gateway.stderr();
    for line in [
        " added block 203.0.113.1 for 3600 s, reason \"a test\"",
        " removed block 203.0.113.2",
    ] {
        assert!(log.contains(line), "{line}: {log}");
    }
    assert_eq!(
        status(&mut gateway.client().await, "203.0.113.1").await,
        403
    );
    gateway.kill();
    gateway.start_again().await;
    let mut client = gateway.client().await;
    assert_eq!(status(&mut client, "203.0.113.1").await, 403);
    assert_eq!(status(&mut client, "203.0.113.2").await, 200);
    assert_eq!(targets(&gateway).await, ["203.0.113.1"]);
}

#[tokio::test]
async fn keys_are_banned_and_rates_multiplied_until_their_end() {
    // Goal: a key is blocked, exempt or banned at a limit without a `ban`, and a limit has other rates while its counts stay; all ends by
    // itself. Method: two keys under four an hour; each rule in turn, and what /explain, the key's state and the log say; a clock that
    // passes the ends; a restart in between.
    let rules = "[server]\nstate_dir = \"state\"\n[client]\ntrusted_proxies = [\"127.0.0.0/8\"]\n"
        .to_owned()
        + &limit(
            "four",
            &["client.ip"],
            "rates = [\"4 per 1h\"]\nalgorithm = \"fixed-window\"",
        )
        + &route("/", &["four"], ANSWERED);
    let mut gateway = guarded(&rules).with_driven_clock().start().await;
    // Near the present: a process that starts again has the clock of the machine until the test sets it.
    let hour = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs() / 3600;
    let begin = (hour + 1) * 3600 + 60;
    let at = |gateway: &Gateway, seconds: u64| {
        gateway.clock().set(Timestamp::from_secs(begin + seconds))
    };
    at(&gateway, 0);
    let key = |action: &str, length: &str| json!({ "action": action, "limit": "four", "key": ["203.0.113.1"], "for": length });
    let mut client = gateway.client().await;
    assert_eq!(status(&mut client, "203.0.113.1").await, 200);

    let banned = json!({ "ban": { "for": "10m", "reason": "fraud" } });
    let ban = request("PUT", "/limits/four/keys?value=203.0.113.1").body(banned.to_string());
    let state = gateway.admin(ban.bearer(TOKEN)).await.json();
    assert_eq!(
        (&state["next"], &state["admits"]),
        (&json!("banned"), &json!(false)),
        "{state}"
    );
    let refused = client.send(get("/").forwarded_for("203.0.113.1")).await;
    assert_eq!(refused.status, 429);
    assert!((500..=600).contains(&refused.retry_after()));
    let line = &gateway.lines_of(&[refused]).await[0];
    assert_eq!(
        (&line["outcome"], &line["limit"]),
        (&json!("banned"), &json!("four"))
    );
    assert_eq!(status(&mut client, "203.0.113.2").await, 200);
    let top = gateway
        .admin(get("/limits/four/top").bearer(TOKEN))
        .await
        .json();
    assert_eq!(top["top"][0]["next"], "banned", "{top}");
    let told = explained(&gateway, "203.0.113.1").await;
    let limits = told["limits"].as_array().unwrap();
    assert!(
        limits[0].as_str().unwrap().contains("bans the key until"),
        "{told}"
    );

    gateway.kill();
    // The process that was killed has left it.
    fs::remove_file(gateway.directory().join("clock.sock")).unwrap();
    gateway.start_again().await;
    at(&gateway, 60);
    let mut client = gateway.client().await;
    assert_eq!(status(&mut client, "203.0.113.1").await, 429);
    assert_eq!(order(&gateway, key("exempt", "20m")).await.status, 200);
    assert_eq!(
        status(&mut client, "203.0.113.1").await,
        429,
        "a ban outranks an exemption"
    );
    at(&gateway, 601);
    eventually("the ban ends", async || {
        (status(&mut client, "203.0.113.1").await == 200).then_some(())
    })
    .await;
    for _ in 0..5 {
        assert_eq!(status(&mut client, "203.0.113.1").await, 200);
    }
    let blocked = order(&gateway, key("block", "10m")).await.json();
    let answer = client.send(get("/").forwarded_for("203.0.113.1")).await;
    answer.assert_problem(403);
    assert_eq!(gateway.lines_of(&[answer]).await[0]["outcome"], "blocked");
    remove(&gateway, blocked["rule"]["id"].as_str().unwrap()).await;

    // One of four is used by the second key.
    let scale =
        |factor: f64| json!({ "action": "scale", "limit": "four", "factor": factor, "for": "15m" });
    assert_eq!(order(&gateway, scale(0.5)).await.status, 200);
    assert_eq!(status(&mut client, "203.0.113.2").await, 200);
    assert_eq!(status(&mut client, "203.0.113.2").await, 429);
    let replaced = order(&gateway, scale(0.75)).await.json();
    assert_eq!(replaced["replaced"].as_array().map(Vec::len), Some(1));
    assert_eq!(status(&mut client, "203.0.113.2").await, 200);
    assert_eq!(status(&mut client, "203.0.113.2").await, 429);
    at(&gateway, 601 + 901);
    eventually("the rates are those of the configuration", async || {
        (status(&mut client, "203.0.113.2").await == 200).then_some(())
    })
    .await;
    assert_eq!(status(&mut client, "203.0.113.2").await, 429);

    assert_eq!(order(&gateway, key("ban", "10m")).await.status, 200);
    assert_eq!(status(&mut client, "203.0.113.1").await, 429);
    let clear = delete("/limits/four/keys?value=203.0.113.1");
    let cleared = gateway.admin(clear.bearer(TOKEN)).await.json();
    let state = (&cleared["was_banned"], &cleared["next"]);
    assert_eq!(state, (&json!(true), &json!("admitted")), "{cleared}");
    assert_eq!(status(&mut client, "203.0.113.1").await, 200);
    for (wrong, part) in [
        (
            json!({ "action": "ban", "limit": "none", "key": ["a"], "for": "1m" }),
            "no limit",
        ),
        (
            json!({ "action": "ban", "limit": "four", "key": [], "for": "1m" }),
            "one value for each of",
        ),
        (
            json!({ "action": "ban", "target": "203.0.113.1", "for": "1m" }),
            "write a limit and its key",
        ),
        (scale(0.001), "0.01 to 100"),
    ] {
        let answer = order(&gateway, wrong).await;
        assert_eq!(answer.status, 400);
        assert!(answer.text().contains(part), "{}", answer.text());
    }
}

#[tokio::test]
async fn gateways_of_one_store_share_their_rules() {
    // Goal: one command blocks on every gateway, and a gateway without its store keeps what it has; what was set meanwhile follows. Who has
    // no token reads no reason. Method: two gateways; rules that are set at one and removed at the other, one for a single gateway; the
    // store away, back and emptied; a gateway without tokens.
    let mut redis = Redis::start().await;
    let store = format!("[store]\nurl = \"{}\"\n", redis.url());
    let rules = RULES.replace("state_dir = \"state\"\n", "") + &store;
    let one = guarded(&rules).start().await;
    let other = guarded(&rules).start().await;
    let have = async |gateway: &Gateway, wanted: &[&str]| {
        eventually(&format!("the rules are {wanted:?}"), async || {
            (targets(gateway).await == wanted).then_some(())
        })
        .await;
    };
    let first = set(&one, "block", "203.0.113.0/24", "1h").await;
    let own =
        json!({ "action": "block", "target": "203.0.114.0/24", "for": "1h", "scope": "here" });
    assert_eq!(order(&one, own).await.status, 200);
    have(&other, &["203.0.113.0/24"]).await;
    let mut client = other.client().await;
    assert_eq!(status(&mut client, "203.0.113.1").await, 403);
    set(&other, "exempt", "203.0.113.7", "1h").await;
    have(&one, &["203.0.113.0/24", "203.0.113.7", "203.0.114.0/24"]).await;
    remove(&other, &first).await;
    have(&one, &["203.0.113.7", "203.0.114.0/24"]).await;

    redis.kill();
    set(&one, "block", "198.51.100.0/24", "1h").await;
    assert_eq!(targets(&other).await, ["203.0.113.7"]);
    redis.restart().await;
    have(&other, &["198.51.100.0/24", "203.0.113.7"]).await;
    redis.command(&["FLUSHALL"]);
    set(&other, "block", "198.51.101.0/24", "1h").await;
    have(
        &one,
        &[
            "198.51.100.0/24",
            "198.51.101.0/24",
            "203.0.113.7",
            "203.0.114.0/24",
        ],
    )
    .await;
    let open = Gateway::start(&rules).await;
    let told = eventually("the gateway without tokens has the rule", async || {
        let told = open.admin(get("/explain?url=/&client=198.51.100.1")).await;
        told.json()["list"].as_str().map(str::to_owned)
    })
    .await;
    assert!(
        told.contains(" for 198.51.100.0/24 blocks it until ") && !told.contains("a test"),
        "{told}"
    );
    let third = guarded(&rules).start().await;
    have(
        &third,
        &["198.51.100.0/24", "198.51.101.0/24", "203.0.113.7"],
    )
    .await;
}

/// Runs a block of shell as printed, with the configuration and the program of this gateway in the place of the installed ones.
fn run(gateway: &Gateway, block: &str) -> String {
    let config = gateway.config_path();
    let block = block.replace("/etc/sluicegate/gateway.toml", config.to_str().unwrap());
    let done = shell(&block).output().unwrap();
    let said =
        String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{block}: {said}");
    said
}

#[tokio::test]
async fn the_commands_of_the_runbook_block_and_limit_as_printed() {
    // Goal: an operator at night copies commands that work. Method: each block of both entries, run in a shell; what clients get after it.
    let rules = RULES.replace("1 per 1h", "1000 per 1h");
    let rules = rules.replace("limit.one", "limit.everything");
    let gateway = guarded(&rules.replace("\"one\"", "\"everything\""))
        .start()
        .await;
    let mut client = gateway.client().await;
    let runbook = project_file("docs/operations/runbook.md");
    let [block, list, unblock] = blocks(section(&runbook, "Block addresses"), "sh")[..] else {
        panic!("other blocks");
    };
    assert_eq!(status(&mut client, "198.51.100.1").await, 200);
    assert!(run(&gateway, block).contains("198.51.100.0/24 is blocked until "));
    assert_eq!(status(&mut client, "198.51.100.1").await, 403);
    assert_eq!(status(&mut client, "198.51.100.7").await, 200);
    let listed = run(&gateway, list);
    assert!(
        listed.contains("block   198.51.100.0/24") && listed.contains("exempt  198.51.100.7"),
        "{listed}"
    );
    run(&gateway, unblock);
    assert_eq!(status(&mut client, "198.51.100.1").await, 200);

    for block in blocks(section(&runbook, "Add an emergency limit now"), "sh") {
        run(&gateway, block);
    }
    let mut answers = Vec::new();
    for _ in 0..31 {
        answers.push(
            client
                .send(get("/").forwarded_for("203.0.113.1"))
                .await
                .status,
        );
    }
    assert!(answers.contains(&429), "{answers:?}");
    let wrong = Process::run(&["block", "198.51.100.1/24", "--for", "30m"])
        .exit_code()
        .await;
    assert_eq!(wrong, 64);
}

#[tokio::test]
async fn the_page_sets_and_removes_a_rule() {
    // Goal: an operator without a shell does the same, and sees on the overview that rules are in force. Method: the form, first with a
    // target that is refused, then forced, and the buttons of the list; the client's answers; at the width of a phone too.
    let gateway = guarded(RULES).start().await;
    let mut client = gateway.client().await;
    let browser = Browser::start().await;
    let mut page = browser.signed_in(&gateway, TOKEN, "rules").await;
    page.shows("No temporary rule is in force.").await;
    page.press("main", "Add a rule").await;
    page.fill("dialog[open] input[name=target]", "127.0.0.0/8")
        .await;
    page.fill("dialog[open] input[name=reason]", "<b>scraping</b>")
        .await;
    page.press("dialog[open]", "Set").await;
    page.shows("overlap, so requests through a proxy could be rejected")
        .await;
    page.fill("dialog[open] input[name=target]", "203.0.113.0/24")
        .await;
    page.press("dialog[open]", "Set").await;
    page.shows("blocks 203.0.113.0/24").await;
    page.shows("<b>scraping</b>").await;
    assert_eq!(status(&mut client, "203.0.113.1").await, 403);
    page.press("main", "Add a rule").await;
    page.fill("dialog[open] select[name=action]", "scale").await;
    page.fill("dialog[open] input[name=factor]", "2").await;
    page.press("dialog[open]", "Set").await;
    page.shows("multiplies the rates of one by 2").await;
    assert_eq!(status(&mut client, "192.0.3.1").await, 200);
    assert_eq!(status(&mut client, "192.0.3.1").await, 200);
    page.go(&gateway.ui("")).await;
    page.shows("2 temporary rules in force").await;
    set(&gateway, "exempt", "203.0.113.7", "1h").await;
    page.shows("3 temporary rules in force").await;
    page.becomes_a_phone().await;
    page.go(&gateway.ui("rules")).await;
    page.shows("exempts 203.0.113.7").await;
    let wide = page.value("document.documentElement.scrollWidth").await;
    assert!(wide.as_u64().unwrap() <= 390, "{wide} pixels");
    page.value("document.querySelector('[aria-label=\"Remove the rule that blocks 203.0.113.0/24\"]').click()").await;
    page.shows("Remove the rule that blocks 203.0.113.0/24?")
        .await;
    page.press("dialog[open]", "Remove").await;
    page.until("!document.querySelector('main').textContent.includes('203.0.113.0/24')")
        .await;
    assert_eq!(status(&mut client, "203.0.113.1").await, 429);
    assert_eq!(page.complaints_but(&[400, 401]).await, Vec::<String>::new());
}
