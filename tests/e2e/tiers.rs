//! Requests that name a tier have its rates: by a claim of a verified token, or a field that only a trusted hop may write.

use serde_json::{Value, json};

use crate::harness::*;
use crate::tokens::{now, token};

/// A limit by subject, whose tier is in the token; the rates are those of who names none, and of "pro".
fn by_claim(own: &str, pro: &str) -> String {
    format!(
        r#"
        [jwt]
        algorithms = ["EdDSA"]
        key_file = "../key.pem"
        [limit.api]
        key = "jwt.sub"
        on_missing = "shared"
        rates = {own}
        overrides = "../rows.csv"
        headers = "both"
        tier = "jwt.plan | lower"
        [limit.api.tiers]
        pro = {pro}
        partner = "unlimited"
        closed = "blocked"
        [limit.all]
        key = "global"
        rates = ["100 per 1h"]
        [[route]]
        path = "/*"
        limits = ["all", "api"]
        respond = {{ status = 200 }}
        "#
    )
}

const OWN: &str = r#"["2 per 1h", "9 per 2h"]"#;
const PRO: &str = r#"["9 per 2h", "4 per 1h"]"#;

fn setup() -> Setup {
    Setup::new()
        .file("key.pem", include_str!("../tokens/ed.pub.pem"))
        .file("rows.csv", "jwt.sub,rates\nfay,3 per 1h;9 per 2h\n")
        .rules(&by_claim(OWN, PRO))
}

/// A token of `user` that says `plan`.
fn signed(user: &str, plan: &Value) -> String {
    token(&json!({ "sub": user, "plan": plan, "exp": now() + 3600 }))
}

fn asks(user: &str, plan: &Value) -> Request {
    with(&signed(user, plan))
}

fn with(token: &str) -> Request {
    get("/").bearer(token)
}

/// Sends `request` until it is refused, and says how many passed.
async fn passes(gateway: &Gateway, request: &Request) -> usize {
    let mut connection = gateway.client().await;
    for passed in 0..20 {
        let answer = connection.send(request.clone()).await;
        match answer.status {
            200 => {}
            429 => return passed,
            status => panic!("{status}: {answer:?}"),
        }
    }
    20
}

#[tokio::test]
async fn a_claim_names_the_tier_and_cannot_be_forged() {
    // Goal: a plan has its rates, every other request the limit's own, and a row goes before the plan. Method: subjects of each plan, by
    // signed tokens; plans that are unknown or of the wrong type, and a token with a broken signature; fields, log, metrics.
    let gateway = setup().start().await;
    let ann = asks("ann", &json!("Pro"));
    assert_eq!(passes(&gateway, &ann).await, 4);
    let refused = gateway.send(ann).await;
    assert_eq!(refused.status, 429);
    let policy = refused.all("ratelimit-policy").join(", ");
    assert!(policy.contains("\"api-3600s\";q=4;w=3600"), "{policy}");
    assert_eq!(refused.header("x-ratelimit-limit"), Some("4"));
    assert_eq!(refused.violated(), ["api-3600s"]);

    for (user, plan) in [
        ("bob", json!(null)),
        ("cat", json!("gold")),
        ("dan", json!(["pro"])),
    ] {
        assert_eq!(passes(&gateway, &asks(user, &plan)).await, 2, "{user}");
    }
    let good = signed("eve", &json!("pro"));
    let made_up = with(&good[..good.len() - 4]);
    assert_eq!(passes(&gateway, &made_up).await, 2, "with all strangers");
    assert_eq!(passes(&gateway, &with(&good)).await, 4);
    assert_eq!(
        passes(&gateway, &asks("fay", &json!("closed"))).await,
        3,
        "a row"
    );

    let mut answers = vec![refused];
    for _ in 0..10 {
        answers.push(gateway.send(asks("gus", &json!("partner"))).await);
    }
    let free = &answers[1];
    assert_eq!((free.status, free.header("x-ratelimit-limit")), (200, None));
    let blocked = gateway.send(asks("hal", &json!("closed"))).await;
    blocked.assert_problem(403);
    let last = gateway.send(asks("ida", &json!("gold"))).await;
    answers.extend([blocked, last]);
    let lines = gateway.lines_of(&answers).await;
    assert_eq!(lines[0]["tier"], json!({"api": "pro"}));
    assert_eq!(
        (&lines[0]["limit"], &lines[0]["status"]),
        (&json!("api"), &json!(429))
    );
    assert_eq!(lines[1]["tier"], json!({"api": "partner"}));
    assert_eq!(lines[1]["unlimited"], json!(["api"]));
    assert_eq!(lines[11]["tier"], json!({"api": "closed"}));
    assert_eq!(lines[11]["blocked"], json!(["api"]));
    assert_eq!(lines[12]["tier"], Value::Null, "a tier that is not known");
    let metrics = gateway.metrics().await;
    let of_api = [("limit", "api")];
    assert_eq!(metrics.sum("sluicegate_limit_blocked_total", &of_api), 1.0);
    assert_eq!(
        metrics.sum("sluicegate_limit_unlimited_total", &of_api),
        10.0
    );
}

#[tokio::test]
async fn a_change_of_the_tier_keeps_the_counts() {
    // Goal: neither a new plan nor a reload of what plans mean gives anybody a fresh counter. Method: use up the limit's own rates,
    // then come with a larger plan; use that up, raise it, and come again.
    let mut gateway = setup().start().await;
    assert_eq!(passes(&gateway, &asks("ann", &json!(null))).await, 2);
    assert_eq!(passes(&gateway, &asks("ann", &json!("pro"))).await, 2);
    let raised = PRO.replace("4 per 1h", "7 per 1h");
    gateway.reload(&by_claim(OWN, &raised)).await;
    assert_eq!(passes(&gateway, &asks("ann", &json!("pro"))).await, 3);
    assert_eq!(passes(&gateway, &asks("ann", &json!(null))).await, 0);
}

#[tokio::test]
async fn logs_hold_what_the_largest_tier_counts() {
    // Goal: `exact` keeps as many moments as any tier needs, and says what they take. Method: a tier a hundred times the limit's own
    // count;
    // the memory in metrics, and as explained.
    let exact = by_claim(r#"["1 per 1h"]"#, r#""100 per 1h""#)
        .replace("on_missing", "algorithm = \"exact\"\non_missing")
        .replace("overrides = \"../rows.csv\"", "")
        .replace("[\"100 per 1h\"]", "[\"1000 per 1h\"]");
    let gateway = setup().rules(&exact).start().await;
    let mut connection = gateway.client().await;
    for nth in 0..100 {
        let answer = connection.send(asks("ann", &json!("pro"))).await;
        assert_eq!(answer.status, 200, "{nth}");
    }
    assert_eq!(passes(&gateway, &asks("ann", &json!("pro"))).await, 0);
    assert_eq!(passes(&gateway, &asks("bob", &json!(null))).await, 1);

    let said = explained(&exact, &["--json"]).await;
    let said: Value = serde_json::from_str(&said).unwrap();
    let limits = said["limits"].as_array().unwrap();
    let api = limits.iter().find(|limit| limit["name"] == "api").unwrap();
    let taken = gateway
        .metrics()
        .await
        .sum("sluicegate_limit_bytes", &[("limit", "api")]);
    assert_eq!(api["memory_bytes"].as_f64(), Some(taken), "as explained");
}

const BY_FIELD: &str = r#"
[client]
trusted_proxies = ["127.0.0.1"]
[limit.api]
key = "client.ip"
rates = ["2 per 1h"]
tier = "header.x-plan"
[limit.api.tiers]
pro = "5 per 1h"
closed = "blocked"
[[route]]
path = "/*"
limits = ["api"]
respond = { status = 200 }
"#;

#[tokio::test]
async fn a_field_names_the_tier_only_where_a_trusted_hop_writes_it() {
    // Goal: no client can choose a plan. Method: the same field over a trusted hop and from an untrusted peer; two fields that differ;
    // and a
    // stranger that says it is blocked, who is counted like everybody.
    let gateway = Gateway::start(BY_FIELD).await;
    let from_hop = |client: &str| get("/").forwarded_for(client).header("x-plan", "pro");
    assert_eq!(passes(&gateway, &from_hop("192.0.2.1")).await, 5);
    let twice = from_hop("192.0.2.2").header("x-plan", "closed");
    assert_eq!(passes(&gateway, &twice).await, 2);
    let unnamed = get("/").forwarded_for("192.0.2.3");
    assert_eq!(passes(&gateway, &unnamed).await, 2);

    // On one connection, where repeated refusals are answered without the proxy.
    let mut hop = gateway.client().await;
    let mut statuses = Vec::new();
    for plan in [
        "", "", "", "", "pro", "pro", "pro", "pro", "", "", "closed", "",
    ] {
        let asked = get("/").forwarded_for("192.0.2.4");
        let asked = if plan.is_empty() {
            asked
        } else {
            asked.header("x-plan", plan)
        };
        statuses.push(hop.send(asked).await.status);
    }
    assert_eq!(
        statuses,
        [200, 200, 429, 429, 200, 200, 200, 429, 429, 429, 403, 429]
    );

    let mut stranger = gateway.client_from("127.0.0.2").await;
    let mut statuses = Vec::new();
    for plan in ["pro", "closed", "pro", "pro"] {
        let answer = stranger.send(get("/").header("x-plan", plan)).await;
        statuses.push(answer.status);
    }
    assert_eq!(statuses, [200, 200, 429, 429]);
}

/// What `explain` says under `rules`.
async fn explained(rules: &str, arguments: &[&str]) -> String {
    let rows = "jwt.sub,rates\nfay,3 per 1h;9 per 2h\nguy,blocked\n";
    let key = include_str!("../tokens/ed.pub.pem");
    let files = [("key.pem", key), ("rows.csv", rows)];
    crate::explain::explained(&rules.replace("../", ""), &files, arguments).await
}

#[tokio::test]
async fn tiers_are_explained_in_general_and_for_one_request() {
    // Goal: `explain` shows the rates of each request, and the reason. Method: the sentences of both kinds of tier; requests with a
    // token, with a row,
    // with a field from a hop and from a stranger.
    let all = explained(&by_claim(OWN, PRO), &[]).await;
    for sentence in [
        "Tiers by jwt.plan | lower: \"closed\" is rejected with 403, \"partner\" is unlimited and \"pro\" allows 4 in 1h and 9 in 2h; \
         any other request has the limit's own rates. A row of the file takes precedence.",
        "rows.csv, 1 keys have rates of their own, 0 are unlimited and 1 are rejected with 403.",
    ] {
        assert!(all.contains(sentence), "{sentence}\nis not in\n{all}");
    }
    let field = explained(BY_FIELD, &[]).await;
    assert!(
        field.contains("The field is used only from trusted proxies."),
        "{field}"
    );

    for (user, plan, line) in [
        (
            "ann",
            "pro",
            "api: jwt.sub = \"ann\"; in the tier \"pro\": 4 in 1h and 9 in 2h",
        ),
        ("ann", "gold", "api: jwt.sub = \"ann\"\n"),
        (
            "fay",
            "closed",
            "api: jwt.sub = \"fay\"; by a row of its overrides: 3 in 1h and 9 in 2h",
        ),
        ("guy", "pro", "rejected with 403: the limit api blocks it"),
        (
            "ann",
            "closed",
            "rejected with 403: the limit api blocks it",
        ),
    ] {
        let bearer = format!("Authorization: Bearer {}", signed(user, &json!(plan)));
        let asked = ["--request", "GET /", "--header", &bearer];
        let said = explained(&by_claim(OWN, PRO), &asked).await;
        assert!(said.contains(line), "{line}\nis not in\n{said}");
    }
    for (client, is_pro) in [("127.0.0.1", true), ("192.0.2.1", false)] {
        let asked = [
            "--request",
            "GET /",
            "--header",
            "X-Plan: pro",
            "--client",
            client,
        ];
        let said = explained(BY_FIELD, &asked).await;
        assert_eq!(
            said.contains("; in the tier \"pro\": 5 in 1h"),
            is_pro,
            "{said}"
        );
    }
}
