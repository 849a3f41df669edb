//! What applies only under load beside a plain limit: tiers and challenges; what `explain` and replay say.

use serde_json::json;

use super::{activity, becomes};
use crate::harness::*;

const PLANS: &str = r#"
[client]
trusted_proxies = ["127.0.0.0/8"]
[limit.site]
key = "global"
rates = ["40 per 1h"]
algorithm = "exact"
[limit.plan]
key = "header.x-user"
on_missing = "shared"
rates = ["100 per 1h"]
tier = "header.x-plan"
[limit.plan.tiers]
free = { rates = ["2 per 1h"], when = "limit.site.used > 50%" }
guest = { rates = "blocked", when = "limit.site.used > 50%" }
[limit.pages]
key = "client.ip"
rates = ["1 per 1h"]
action = "challenge"
unsolved = "unsolved"
when = "limit.site.used > 50%"
[limit.unsolved]
key = "client.ip"
rates = ["50 per 1h"]
[[route]]
path = "/*"
limits = ["site", "plan"]
respond = { status = 200 }
[[route]]
path = "/page"
limits = ["site", "pages"]
respond = { status = 200 }
"#;

/// What Chromium asks documents with.
const BROWSER: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";

#[tokio::test]
async fn a_tier_and_a_challenge_apply_only_under_load() {
    // Goal: free users have the limit's own rates in peace and less under load, guests are sent away then, and browsers get a page only
    // then; whoever pays notices nothing. Method: requests of each before and after half of the site's limit is used.
    let gateway = Gateway::start(PLANS).await;
    let user = |name: &str, plan: &str| get("/").header("x-user", name).header("x-plan", plan);
    let page = || {
        get("/page")
            .header("accept", BROWSER)
            .header("sec-fetch-dest", "document")
            .header("sec-fetch-mode", "navigate")
    };
    for _ in 0..6 {
        assert_eq!(gateway.send(user("ann", "free")).await.status, 200);
    }
    let guest = gateway.send(user("gus", "guest")).await;
    assert_eq!(guest.status, 200);
    for _ in 0..3 {
        assert_eq!(gateway.send(page()).await.status, 200, "no page in peace");
    }
    let line = gateway.lines_of(&[guest]).await;
    assert_eq!(line[0].get("tier"), None, "it has the limit's own rates");
    for _ in 0..11 {
        assert_eq!(gateway.send(user("pia", "pro")).await.status, 200);
    }
    becomes(&gateway, "pages", true).await;
    eventually("both tiers are active", async || {
        (activity(&gateway, "plan").await == 2.0).then_some(())
    })
    .await;
    let refused = gateway.send(user("ann", "free")).await;
    assert_eq!(
        (refused.status, refused.violated()),
        (429, vec!["plan".to_owned()])
    );
    let blocked = gateway.send(user("gus", "guest")).await;
    blocked.assert_problem(403);
    assert_eq!(gateway.send(user("pia", "pro")).await.status, 200);
    let challenged = gateway.send(page()).await;
    assert_eq!(challenged.status, 429);
    assert_eq!(
        challenged.header("content-type"),
        Some("text/html; charset=utf-8")
    );
    let lines = gateway.lines_of(&[refused, blocked, challenged]).await;
    assert_eq!(lines[0]["tier"], json!({"plan": "free"}));
    assert_eq!(lines[1]["tier"], json!({"plan": "guest"}));
    assert_eq!(
        (&lines[2]["outcome"], &lines[2]["active"]),
        (&json!("challenged"), &json!(["pages"]))
    );
    let status = gateway.status().await;
    let limits = status["limits"].as_array().unwrap();
    let plan = limits.iter().find(|limit| limit["name"] == "plan").unwrap();
    assert_eq!(plan["conditions"][0]["tier"], json!("free"));
    assert_eq!(plan["conditions"][1]["active"], json!(true));
}

/// Runs the program, and returns what it prints.
async fn printed(arguments: &[&str]) -> String {
    let mut program = Process::run(arguments);
    let code = program.exit_code().await;
    assert_eq!(code, 0, "{}", program.stderr());
    program.stdout()
}

#[tokio::test]
async fn explain_says_when_a_limit_applies() {
    // Goal: the sentences of a limit, a tier and a request have the condition and its end. Method: explain, with and without a request.
    let directory = tempfile::TempDir::new().unwrap();
    let file = directory.path().join("gateway.toml");
    let listener = "[[listener]]\naddress = \"127.0.0.1:1\"\n";
    std::fs::write(&file, format!("{listener}{PLANS}")).unwrap();
    let file = file.to_str().unwrap();
    let text = printed(&["explain", file]).await;
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let kept =
        "limit.site.used > 50%, and from then on until limit.site.used > 45% has not held for 10s";
    assert!(
        text.contains(&format!(
            "It applies only while {kept}. At all other times it is in shadow"
        )),
        "{text}"
    );
    assert!(
        text.contains(&format!("\"free\" only while {kept}")),
        "{text}"
    );
    let request = printed(&[
        "explain",
        file,
        "--request",
        "GET http://a.test/",
        "--header",
        "x-user: ann",
        "--header",
        "x-plan: free",
        "--client",
        "127.0.0.1",
    ])
    .await;
    let request = request.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        request.contains(&format!("in the tier \"free\": 2 in 1h, only while {kept}")),
        "{request}"
    );
}

#[tokio::test]
async fn a_replay_judges_conditions_over_limits() {
    // Goal: a replay switches a limit on where a gateway would have, and leaves out what no log shows. Method: a log of one client, faster
    // and faster; a limit by the use of the site's, and one by the origin's time.
    let directory = tempfile::TempDir::new().unwrap();
    let write = |name: &str, text: String| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let rules = r#"
        [[listener]]
        address = "127.0.0.1:1"
        [origin.app]
        servers = ["127.0.0.1:2"]
        [limit.site]
        key = "global"
        rates = ["100 per 10m"]
        algorithm = "fixed-window"
        action = "shadow"
        [limit.ip]
        key = "client.ip"
        rates = ["5 per 10m"]
        when = "limit.site.used >= 50%"
        [limit.slow]
        key = "client.ip"
        rates = ["5 per 10m"]
        when = "origin.app.p99 > 500ms"
        [[route]]
        path = "/*"
        limits = ["site", "ip", "slow"]
        origin = "app"
    "#;
    let config = write("gateway.toml", rules.to_owned());
    let line = |second: usize| {
        format!(
            "192.0.2.1 - - [01/Jan/2026:00:{:02}:{:02} +0000] \"GET / HTTP/1.1\" 200 5\n",
            second / 60,
            second % 60
        )
    };
    // One request a second: half of the site's limit is used after the fiftieth, a quarter of a second before the next.
    let log = write("access.log", (0..60).map(line).collect());
    let report = printed(&["replay", "--config", &config, "--json", &log]).await;
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    let text = report.to_string();
    assert!(
        text.contains(
            "it applies only while origin.app.p99 > 500ms, and no log shows origin.app.p99"
        ),
        "{text}"
    );
    let ip = &report["limits"]["ip"];
    assert_eq!(ip["rejected"], json!(10), "{ip}");
}
