//! Replay is what the gateway did: a schedule runs through a real gateway, and its access log through `replay`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::*;

/// The client whose requests come together.
const BURSTING: &str = "192.0.2.77";

/// A limit for each algorithm by a key that is in no log, and all that decides beside rates. One thread decides, so decisions have the
/// order of their times in the log: where replay admits a request in place of another, it is over as soon as its rejection was.
fn rules() -> String {
    let mut rules =
        String::from("[server]\nthreads = 1\n[client]\ntrusted_proxies = [\"127.0.0.0/8\"]\n");
    for (algorithm, lines) in ALGORITHMS {
        let rate = match algorithm {
            "leaky-bucket" => "10 per 1s",
            _ => "4 per 1s",
        };
        rules += &format!(
            "[limit.{algorithm}]\nkey = \"header.x-api-key\"\non_missing = \"ip\"\nrates = [\"{rate}\"]\n\
             algorithm = \"{algorithm}\"\n{lines}[[route]]\npath = \"/{algorithm}\"\nlimits = [\"{algorithm}\"]\norigin = \"app\"\n"
        );
    }
    rules
        + r#"
[limit.failures]
key = "client.ip"
rates = ["3 per 1s"]
count_if = "response.status in [401]"
[limit.work]
key = ["client.ip", "path"]
rates = ["30 per 2s"]
cost = "response.header.x-cost"
[limit.banning]
key = "header.x-api-key"
on_missing = "shared"
rates = ["3 per 1s"]
[limit.banning.ban]
for = "1s"
[limit.flight]
key = "client.ip"
rates = ["1000 per 1m"]
concurrency = 2
[limit.shadow]
key = "global"
rates = ["5 per 1s"]
action = "shadow"
[limit.part]
key = "client.ip"
rates = ["2 per 1s"]
enforce = "50%"
[[route]]
path = "/several"
limits = ["failures", "work", "shadow"]
origin = "app"
[[route]]
path = "/ban"
limits = ["banning", "part"]
origin = "app"
[[route]]
path = "/slow"
limits = ["flight"]
origin = "app"
"#
}

/// An origin that is slow on one path, and reports costs and failures on another.
fn origin() -> Origin {
    Origin::answering(|received| {
        if received.target.starts_with("/slow") {
            let answer = Box::new(Answer::new(200).into());
            return Reply::After(Duration::from_secs(1), answer);
        }
        let status = if received.target.contains("wrong") {
            401
        } else {
            200
        };
        Answer::new(status).header("x-cost", "7").into()
    })
}

#[tokio::test]
async fn replay_decides_each_request_of_its_own_log_as_the_gateway_did() {
    // Goal: replay = live, for every algorithm and for bans, costs, count_if, shadow, shares of keys and requests in flight; by keys that
    // only their hashes in the log tell apart. Method: bursts by several clients and keys against a running gateway, then its access log
    // under its own configuration; the decisions must be equal, request by request.
    let origin = origin();
    let setup = Setup::new()
        .servers("app", &[origin.address()])
        .log_line("replay = true")
        .rules(&rules());
    let gateway = setup.start().await;
    let mut client = gateway.client().await;
    let paths: Vec<String> = ALGORITHMS
        .iter()
        .map(|(name, _)| format!("/{name}"))
        .collect();
    let others = ["/several", "/several?wrong", "/ban"].map(str::to_owned);
    let paths = [paths, others.to_vec()].concat();
    let mut sent = 0;
    for (turn, (_, name)) in reference::schedule(720, 1).into_iter().enumerate() {
        // Twenty-four requests to one path, so that each of a few keys exceeds its rate.
        let mut request = get(&paths[turn / 24 % paths.len()]).forwarded_for(&name);
        if turn % 8 != 0 {
            request = request.header("x-api-key", &format!("key {}", turn % 3));
        }
        client.send(request).await;
        sent += 1;
        if turn % 100 == 50 {
            // Rates recover in between.
            tokio::time::sleep(Duration::from_millis(400)).await;
        }
    }
    for _ in 0..2 {
        let mut clients = Vec::new();
        for _ in 0..5 {
            clients.push(gateway.client().await);
        }
        // Together: one client that waits for each answer would fill no queue.
        for path in ["/slow", "/leaky-bucket"] {
            let request = || {
                get(path)
                    .forwarded_for(BURSTING)
                    .header("x-api-key", "burst")
            };
            let requests = clients.iter_mut().map(|client| client.send(request()));
            sent += futures_util::future::join_all(requests).await.len();
        }
    }
    let lines = gateway.access_lines(sent).await;
    let files = Files::new();
    let out = files.path("decisions.json");
    let log = gateway.access_log_path().display().to_string();
    let config = gateway.config_path().display().to_string();
    let report = report(&[&log, "--config", &config, "--decisions", &out]).await;
    assert_eq!(
        report["not_judged"],
        serde_json::json!([]),
        "{}",
        report["notes"]
    );
    let replayed = decisions(&out);
    assert_eq!(replayed.len(), lines.len());
    let mut rejections = BTreeSet::new();
    let mut together: BTreeMap<(String, String), i32> = BTreeMap::new();
    for line in &lines {
        let decision = replayed
            .iter()
            .find(|decision| decision["id"] == line["id"])
            .unwrap();
        let outcome = match line["outcome"].as_str().unwrap() {
            "forwarded" => "admitted",
            other => other,
        };
        if line["client"] == BURSTING {
            // Which of requests that come at the same time passes is for the kernel to say: only how many do is compared.
            let target = line["target"].as_str().unwrap().to_owned();
            let count = |outcome: &str| (target.clone(), outcome.to_owned());
            *together.entry(count(outcome)).or_insert(0) += 1;
            *together
                .entry(count(decision["outcome"].as_str().unwrap()))
                .or_insert(0) -= 1;
        } else {
            assert_eq!(decision["outcome"], outcome, "{line}\n{decision}");
            assert_eq!(decision["limit"], line["limit"], "{line}\n{decision}");
        }
        if outcome != "admitted" {
            rejections.insert((outcome, line["limit"].as_str().unwrap()));
        }
    }
    let burst = lines.iter().filter(|line| line["client"] == BURSTING);
    let burst: Vec<String> = burst.map(serde_json::Value::to_string).collect();
    assert!(
        together.values().all(|difference| *difference == 0),
        "{together:?}\n{}",
        burst.join("\n")
    );
    // The schedule reaches every limit that may reject.
    let limits: Vec<&str> = rejections.iter().map(|(_, limit)| *limit).collect();
    for (algorithm, _) in ALGORITHMS {
        assert!(limits.contains(&algorithm), "{algorithm}: {rejections:?}");
    }
    for rejection in [
        ("rate-limited", "failures"),
        ("rate-limited", "work"),
        ("banned", "banning"),
        ("refused-concurrency", "flight"),
    ] {
        assert!(
            rejections.contains(&rejection),
            "{rejection:?}: {rejections:?}"
        );
    }
    let shadow = lines
        .iter()
        .filter(|line| line["shadow_refused"][0] == "shadow")
        .count();
    assert!(shadow > 0);
    assert_eq!(report["limits"]["shadow"]["rejected"], shadow);
}

#[tokio::test]
async fn replay_holds_what_requests_announced_until_they_ended() {
    // Goal: replay = live for reserves that are announced in bodies and costs that are in responses, neither of which is in a log. Method:
    // questions to a language model of which one holds its reserve while others come, and one announces nothing; decisions of the gateway
    // and of the replay of its log, one by one.
    let model = Framework::LanguageModel.start().await;
    let rules = "[limit.tokens]\nkey = \"client.ip\"\nrates = [\"1000 per 1h\"]\nmax_cost = 600\n\
         cost = \"response.json./usage/total_tokens\"\nreserve = \"body.json./max_tokens\"\n\
         [[route]]\npath = \"/*\"\nlimits = [\"tokens\"]\norigin = \"app\"\n";
    let setup = Setup::new().servers("app", &[model.address()]);
    let gateway = setup.log_line("replay = true").rules(rules).start().await;
    let ask = |question: &serde_json::Value| {
        post("/")
            .header("Content-Type", "application/json")
            .body(question.to_string())
    };
    let mut slow = gateway.client().await;
    let question = serde_json::json!({"max_tokens": 400, "words": 50, "pause": 2_000});
    let slow = tokio::spawn({
        let question = ask(&question);
        async move { slow.send(question).await.status }
    });
    eventually("the first question is in flight", async || {
        let scrape = gateway.admin(get("/metrics")).await;
        let reserved = Metrics::parse(scrape.text());
        (reserved.sum("sluicegate_limit_reserved_units", &[]) == 400.0).then_some(())
    })
    .await;
    let mut client = gateway.client().await;
    let mut sent = 0;
    for (question, status) in [
        (serde_json::json!({"max_tokens": 400, "words": 10}), 200),
        // 590 are left while the first question is in flight.
        (serde_json::json!({"max_tokens": 600}), 429),
    ] {
        assert_eq!(client.send(ask(&question)).await.status, status);
        sent += 1;
        gateway.access_lines(sent).await;
    }
    assert_eq!(slow.await.unwrap(), 200);
    gateway.access_lines(3).await;
    for (asked, (question, status)) in [
        // More than the limit ever admits.
        (serde_json::json!({"max_tokens": 1_001, "words": 1}), 429),
        // 940 are left.
        (serde_json::json!({"max_tokens": 600, "words": 400}), 200),
        // Announces nothing, so it holds 600, of which 540 are there.
        (serde_json::json!({"words": 10}), 429),
        (serde_json::json!({"max_tokens": 540, "words": 1}), 200),
        (serde_json::json!({"max_tokens": 540}), 429),
        (serde_json::json!({"max_tokens": 539, "words": 539}), 200),
        (serde_json::json!({"max_tokens": 1}), 429),
    ]
    .into_iter()
    .enumerate()
    {
        assert_eq!(
            client.send(ask(&question)).await.status,
            status,
            "{question}"
        );
        gateway.access_lines(4 + asked).await;
    }
    let lines = gateway.access_lines(10).await;
    assert_eq!(lines[0]["reserves"]["tokens"], 400);
    let files = Files::new();
    let out = files.path("decisions.json");
    let log = gateway.access_log_path().display().to_string();
    let config = gateway.config_path().display().to_string();
    let report = report(&[&log, "--config", &config, "--decisions", &out]).await;
    // Everything that decides is in the log.
    let notes = report["notes"].to_string();
    assert!(!notes.contains("limit tokens"), "{notes}");
    let replayed = decisions(&out);
    assert_eq!(replayed.len(), lines.len());
    for line in &lines {
        let mut decisions = replayed.iter();
        let decision = decisions
            .find(|decision| decision["id"] == line["id"])
            .unwrap();
        let expected = match line["status"].as_u64() {
            Some(200) => "admitted",
            _ => "rate-limited",
        };
        assert_eq!(decision["outcome"], expected, "{line}\n{decision}");
    }
}

#[tokio::test]
async fn decisions_for_another_proxy_are_replayed_as_they_were_made() {
    // Goal: replay = live for questions of another proxy: their lines have no status of a response, so `count_if` refunds nothing. Method:
    // questions about a route whose limit counts failures, then the log under its own configuration.
    let asked = free_address();
    let whole = format!(
        "[[listener]]\naddress = \"{{listener}}\"\n[[listener]]\naddress = \"{asked}\"\nprotocol = \"forward-auth\"\n\
         [client]\ntrusted_proxies = [\"127.0.0.1/32\"]\n[admin]\naddress = \"{{admin}}\"\n[log]\naccess = \"{{directory}}/access.log\"\n\
         [limit.failures]\nkey = \"client.ip\"\nrates = [\"2 per 1h\"]\ncount_if = \"response.status in [401]\"\n\
         [[route]]\npath = \"/*\"\nlimits = [\"failures\"]\norigin = \"site\"\n\
         [origin.site]\nservers = [\"127.0.0.1:1\"]\n"
    );
    let gateway = Setup::new().whole(&whole).start().await;
    let mut proxy = Client::connect(asked).await;
    for status in [204, 204, 429, 429] {
        let question = get("/")
            .header("X-Forwarded-Method", "POST")
            .header("X-Forwarded-Host", "site.test")
            .header("X-Forwarded-Uri", "/login")
            .forwarded_for("192.0.2.1");
        assert_eq!(proxy.send(question).await.status, status);
    }
    gateway.access_lines(4).await;
    let log = gateway.access_log_path().display().to_string();
    let config = gateway.config_path().display().to_string();
    let report = report(&[&log, "--config", &config]).await;
    let limit = &report["limits"]["failures"];
    assert_eq!(
        (&limit["admitted"], &limit["rejected"], &limit["refunded"]),
        (&2.into(), &2.into(), &0.into()),
        "{report}"
    );
}
