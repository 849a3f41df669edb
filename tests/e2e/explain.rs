//! `sluicegate explain`: what it says must be what the gateway does.

use std::fs;

use serde_json::Value;
use tempfile::TempDir;

use crate::harness::*;

const RULES: &str = r#"
[client]
trusted_proxies = ["10.0.0.0/8"]
allow = ["office"]
[list.office]
cidrs = ["192.0.2.64/26"]
[list.bad]
cidrs = ["198.51.100.0/24"]
[limit.otp]
key = ["client.ip", "path"]
rates = ["5 per 10s", "20 per 1h"]
[limit.all]
key = "global"
rates = ["100 per 1m"]
algorithm = "token-bucket"
burst = 10
[limit.unused]
key = "client.ip"
rates = ["3 per 1d"]
algorithm = "exact"
concurrency = 4
[limit.unused.ban]
for = "10m"
factor = 2
max = "1d"
[[route]]
name = "send"
host = "*.example.com"
path = "/auth/sendOTP"
methods = ["POST"]
limits = ["otp", "all"]
block = ["bad"]
respond = { status = 204 }
[[route]]
name = "versions"
path = "~ ^/auth/send[A-Z]+$"
respond = { status = 203 }
[[route]]
name = "free"
path = "/auth/sendOTP"
headers = { x-plan = "free" }
respond = { status = 202 }
[[route]]
name = "rest"
path = "/*"
respond = { status = 201 }
"#;

/// Runs a command on a file with `rules`, in a directory of its own with `files`: exit code, standard output and error.
async fn run_on(
    command: &str,
    rules: &str,
    files: &[(&str, &str)],
    arguments: &[&str],
) -> (i32, String, String) {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("gateway.toml");
    let listener = "[[listener]]\naddress = \"127.0.0.1:1\"\n";
    fs::write(&path, format!("{listener}{rules}")).unwrap();
    for (name, text) in files {
        fs::write(directory.path().join(name), text).unwrap();
    }
    let path = path.display().to_string();
    let mut process = Process::run(&[&[command, &path], arguments].concat());
    let code = process.exit_code().await;
    (code, process.stdout(), process.stderr())
}

/// What `explain` says under `rules`, with `files` beside them.
pub async fn explained(rules: &str, files: &[(&str, &str)], arguments: &[&str]) -> String {
    let (code, stdout, stderr) = run_on("explain", rules, files, arguments).await;
    assert_eq!(code, 0, "{stderr}");
    stdout
}

async fn explain(arguments: &[&str]) -> (i32, String, String) {
    run_on("explain", RULES, &[], arguments).await
}

async fn asked(arguments: &[&str]) -> Value {
    let (code, stdout, stderr) = explain(&[arguments, &["--json"]].concat()).await;
    assert_eq!(code, 0, "{stderr}");
    serde_json::from_str::<Value>(&stdout).unwrap()["request"].clone()
}

#[tokio::test]
async fn every_limit_and_route_is_a_few_plain_sentences() {
    // Goal: what a limit allows, its worst case, memory, its capacity in a flood, its routes; warnings too. Method: sentences that must
    // be there, with numbers worked out by hand: a sliding window holds a key for two hours, 262,144 / 7,200 = 36 a second.
    let (code, stdout, _) = explain(&[]).await;
    assert_eq!(code, 0);
    for sentence in [
        "limit otp\n  Allows each value of client.ip/32,/64, path 5 in 10s and 20 in 1h, charged together or not at all.",
        "Worst case: never more than 5 in 10s aligned to the clock, and 10 in any other 10s if bursts are timed to the edge between two.",
        "Memory: up to 12.3 MB, for 262,144 keys.",
        "so 36 new keys a second fit; for R a second set capacity to at least R × 7,200.",
        "Clients can invent keys: a client with 1,024 keys gets further ones only while enough slots are free for others.\n  Used by",
        "Used by the route \"send\".",
        "limit all\n  Allows all requests together 100 in 1m, charged together or not at all. Algorithm: token bucket, refilled",
        "Worst case: 10 at once, and 110 in any 1m, the burst and the refill.",
        "for one key.\n  It has one key and cannot be full.",
        "limit unused\n  Allows each value of client.ip/32,/64 3 in 1d",
        "Worst case: never more than 3 in any 1d.",
        "Concurrency: at most 4 requests of a key in flight, WebSockets and downloads until their end.",
        "After a rejection a key is banned for 10m, then 20m, then 40m, then 80m, and so on up to 1d, from the rejection on",
        "After every 1d without a ban one previous ban is forgotten.",
        "No route uses it.",
        "list office\n  1 address block,",
        "route send\n  Matches POST, the host *.example.com and the path /auth/sendOTP.",
        "Clients of bad are rejected.\n  Clients of office skip the limits.\n  Limits, in this order: otp and all;",
        "warning: limit.unused: no route uses this limit",
    ] {
        assert!(stdout.contains(sentence), "{sentence}\nis not in\n{stdout}");
    }
}

/// Everything that a limit can say beside its key and its rates.
const CLAUSES: &str = r#"
[origin.app]
servers = ["127.0.0.1:3000"]
[limit.login]
key = "header.x-account"
on_missing = "ip"
rates = ["5 per 10m"]
count_if = "response.status in [401, 403]"
[limit.export]
key = "cookie.sid"
on_missing = "skip"
rates = ["1000 per 1h"]
cost = "response.header.x-cost"
max_cost = 100
enforce = "10%"
shadow_rates = ["300 per 1h", "30 per 1m"]
[limit.fast]
key = "client.ip"
rates = ["30 per 1m"]
action = "mark"
fallback_limit = "slow"
[limit.slow]
key = "client.ip"
rates = ["300 per 1h"]
cost = 5
[limit.told]
key = "client.ip"
rates = ["90 per 1m"]
action = "mark"
[limit.tried]
key = "query.q | raw"
on_missing = "shared"
other_names = "any"
rates = ["90 per 1m"]
action = "shadow"
[limit.queued]
key = "path.id | raw"
rates = ["9 per 1s"]
action = "delay"
[[route]]
name = "all"
path = "/{id}/*"
limits = ["login", "export", "fast", "tried", "queued", "told"]
origin = "app"
"#;

#[tokio::test]
async fn what_a_limit_counts_and_what_happens_at_it_is_explained() {
    // Goal: each field that changes what clients meet has its sentence, for people and for programs. Method: limits with all of them; the
    // text, and the same facts in JSON.
    let text = explained(CLAUSES, &[], &[]).await;
    for sentence in [
        "The charge is made when the request arrives, and refunded unless response.status in [401, 403].",
        "A request that lacks a part of the key is counted by the client's address.",
        "A request costs 1 when it arrives, and then the value of the response field x-cost, at most 100.",
        "A request that lacks a part of the key is not counted, unless the part is present and unreadable.",
        "A request that exceeds it is rejected. It is enforced for 10% of its keys, and in shadow for the others.",
        "Shadow rates: 30 in 1m and 300 in 1h, only reported.",
        "A request that exceeds it passes with the field x-sluicegate-limit, if slow admits it.",
        "A request costs 5 units.\n",
        "Applies in place of fast once that is exceeded.",
        "A request that exceeds it passes, with the field x-sluicegate-limit.",
        "is counted together with all others without it.\n  Parameters may have any names: an origin that rewrites one to the name in \
         the key can read another value than is counted.\n  In shadow: it counts and reports, and rejects nothing.",
        "A request that exceeds it waits, and is rejected if the queue is full.",
        "Limits, in this order: login, export, fast, queued and told; all of them admit and are charged, or none is.\n  \
         Limits in shadow, each evaluated by itself for admitted requests: tried.",
    ] {
        assert!(text.contains(sentence), "{sentence}\nis not in\n{text}");
    }
    assert!(!text.contains("No route uses it."), "{text}");
    let json: Value = serde_json::from_str(&explained(CLAUSES, &[], &["--json"]).await).unwrap();
    let limits = json["limits"].as_array().unwrap();
    let fields = ["counts", "missing", "exceeded", "shadow_rates"];
    for limit in limits {
        for field in fields {
            let said = limit[field].as_str().unwrap_or_default();
            assert!(text.contains(said), "{field} of {limit}");
        }
    }
    let of = |name: &str| limits.iter().find(|limit| limit["name"] == name).unwrap();
    assert_eq!(of("slow")["instead_of"], serde_json::json!(["fast"]));
    assert_eq!(json["routes"][0]["shadow"], serde_json::json!(["tried"]));
    for field in fields {
        assert!(of("export")[field].is_string(), "{field}");
    }
    let warnings = json["warnings"].to_string();
    assert!(warnings.contains("limit.tried.other_names"), "{warnings}");
}

#[tokio::test]
async fn check_and_explain_warn_of_probable_mistakes() {
    // Goal: one is warned of dead routes, pointless rates, unused limits and small counts wherever one looks. Method: a file with one of
    // each, read by both commands; in JSON too.
    let rules = r#"
        [limit.otp]
        key = "client.ip"
        rates = ["10 per 10s", "600 per 600s"]
        [limit.spare]
        key = "client.ip"
        rates = ["1 per 10s"]
        [[route]]
        path = "/a"
        methods = ["GET", "POST"]
        limits = ["otp"]
        respond = { status = 200 }
        [[route]]
        path = "/a"
        methods = ["POST"]
        respond = { status = 204 }
        "#;
    let (code, _, checked) = run_on("check", rules, &[], &[]).await;
    assert_eq!(code, 0, "{checked}");
    let text = explained(rules, &[], &[]).await;
    let json: Value = serde_json::from_str(&explained(rules, &[], &["--json"]).await).unwrap();
    let json = json["warnings"].to_string().replace("\\\"", "\"");
    for warning in [
        "warning: route[1]: earlier routes, the first on line",
        "warning: limit.otp.rates[1]: \"600 per 10m\" is pointless beside \"10 per 10s\"",
        "warning: limit.spare: no route uses this limit",
        "warning: limit.spare: where two windows meet, a client that waits for it gets 2 through at once of \"1 per 10s\"",
    ] {
        for said in [&checked, &text, &json] {
            assert!(said.contains(warning), "{warning}\nis not in\n{said}");
        }
    }
}

#[tokio::test]
async fn a_request_is_explained_with_its_route_keys_and_lists() {
    // Goal: which route and why not the others, the keys in plain text, the lists, and a trusted hop's word. Method: one question each.
    let request = [
        "--request",
        "POST https://api.example.com/auth//sendOTP?x=1",
    ];
    let answer = asked(&request).await;
    assert_eq!(answer["route"], "send");
    assert_eq!(answer["path"], "/auth/sendOTP");
    assert_eq!(
        answer["limits"],
        serde_json::json!([
            "otp: client.ip = 192.0.2.1/32, path = /auth/sendOTP",
            "all: one key for all",
        ])
    );
    assert_eq!(
        answer["why"],
        serde_json::json!([
            "\"send\" matches and takes precedence",
            "\"free\" requires other headers",
            "\"versions\" matches too, but comes later: its host is less specific",
            "\"rest\" matches too, but comes later: its host is less specific",
        ])
    );
    let answer = asked(&[&request[..], &["--client", "192.0.2.70"]].concat()).await;
    assert_eq!(
        answer["list"],
        "the list \"office\" exempts it from the limits"
    );
    assert_eq!(answer["limits"], serde_json::json!([]));
    let hop = [
        "--client",
        "10.0.0.1",
        "--header",
        "X-Forwarded-For: 198.51.100.9",
    ];
    let answer = asked(&[&request[..], &hop].concat()).await;
    assert_eq!(answer["client"], "198.51.100.9, named by a trusted proxy");
    assert_eq!(answer["list"], "the list \"bad\" blocks it");
    assert_eq!(answer["outcome"], "rejected with 403, before any limit");
    let free = ["--request", "GET /auth/sendOTP", "--header", "X-Plan: free"];
    let answer = asked(&free).await;
    assert_eq!(answer["route"], "free");
    assert_eq!(
        answer["why"][1],
        "\"versions\" matches too, but comes later: its path is less specific"
    );
    let answer = asked(&[
        "--request",
        "POST https://a.example.com/x%2F..%2Fauth/sendOTP",
    ])
    .await;
    assert_eq!(answer["route"], Value::Null);
    assert!(
        answer["outcome"]
            .as_str()
            .unwrap()
            .starts_with("rejected with 400: its path")
    );
}

#[tokio::test]
async fn the_explanation_is_what_the_gateway_does() {
    // Goal: no second implementation: the route named is the one that answers. Method: every request is explained, then sent to a running
    // gateway with the same rules, where each route answers with a status of its own.
    let gateway = Gateway::start(RULES).await;
    for (request, headers) in [
        ("POST http://a.example.com/auth/sendOTP", &[][..]),
        ("GET http://a.example.com/auth/sendOTP", &[]),
        ("GET http://a.example.com/auth/sendOTP/", &["X-Plan: free"]),
        ("POST http://example.com/auth/sendSMS", &["X-Plan: free"]),
        (
            "POST http://x.y.example.com/auth/./sendOTP",
            &["X-Plan: free"],
        ),
        ("HEAD http://a.example.com/other", &[]),
    ] {
        let headers: Vec<&str> = headers
            .iter()
            .flat_map(|field| ["--header", field])
            .collect();
        let answer = asked(&[&["--request", request][..], &headers].concat()).await;
        let status = match answer["route"].as_str().unwrap() {
            "send" => 204,
            "versions" => 203,
            "free" => 202,
            "rest" => 201,
            other => panic!("{other}"),
        };
        let (method, url) = request.split_once(' ').unwrap();
        let (host, path) = url
            .strip_prefix("http://")
            .unwrap()
            .split_once('/')
            .unwrap();
        let fields: String = headers
            .iter()
            .filter(|field| **field != "--header")
            .map(|field| format!("{field}\r\n"))
            .collect();
        let mut raw = gateway.raw().await;
        raw.write(format!(
            "{method} /{path} HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n"
        ))
        .await;
        assert_eq!(
            raw.read_response_to_head().await.status,
            status,
            "{request}"
        );
    }
}

#[tokio::test]
async fn an_invalid_question_has_a_cure() {
    // Goal: exit code 64 and advice. Method: broken requests, fields and files.
    for (arguments, advice) in [
        (
            &["--request", "POST"][..],
            "write 'POST https://api.example.com/auth/sendOTP'",
        ),
        (&["--request", "GET ftp://a/"], "is not a request"),
        (
            &["--request", "GET /%zz"],
            "is not followed by two hexadecimal digits",
        ),
        (
            &["--request", "GET /", "--header", "x"],
            "write 'X-Plan: free'",
        ),
        (&["--request", "GET /", "--client", "here"], "--client"),
        (&["--client", "192.0.2.1"], "--request"),
    ] {
        let (code, stdout, stderr) = explain(arguments).await;
        assert_eq!((code, stdout.as_str()), (64, ""), "{arguments:?}");
        assert!(stderr.contains(advice), "{arguments:?}: {stderr}");
    }
    let mut process = Process::run(&["explain", "nowhere.toml"]);
    assert_eq!(process.exit_code().await, 64);
}

#[tokio::test]
async fn an_outcome_names_only_limits_that_may_reject() {
    // Goal: line and outcome of a limit agree, and the command does not guess which keys a gateway chooses. Method: limits that mark, and
    // that are enforced for a share of the keys, alone and beside one that rejects.
    let limit = |name: &str, more: &str| {
        format!("[limit.{name}]\nkey = \"client.ip\"\nrates = [\"5 per 1h\"]\n{more}\n")
    };
    let route = |path: &str, limits: &str| {
        format!("[[route]]\npath = \"{path}\"\nlimits = [{limits}]\nrespond = {{ status = 200 }}\n")
    };
    let rules = [
        limit("fast", "action = \"mark\"\nmark = { header = \"x-over\" }"),
        limit("trial", "enforce = \"25%\""),
        limit("hard", ""),
        route("/marked", "\"fast\""),
        route("/both", "\"fast\", \"hard\""),
        route("/trial", "\"trial\""),
    ]
    .concat();
    let ask = async |path: &str| {
        let request = format!("GET {path}");
        let arguments = ["--json", "--request", &request, "--client", "203.0.113.7"];
        let json = explained(&rules, &[], &arguments).await;
        serde_json::from_str::<Value>(&json).unwrap()["request"].clone()
    };
    let marked = ask("/marked").await;
    let line = marked["limits"][0].as_str().unwrap();
    assert!(
        line.ends_with("; marks requests that exceed it, and rejects none"),
        "{line}"
    );
    assert_eq!(
        marked["outcome"],
        "answered by the gateway with 200, whatever these limits count, since none of them rejects it"
    );
    assert_eq!(
        ask("/both").await["outcome"],
        "answered by the gateway with 200, if all of these limits admit it that may reject it"
    );
    let trial = ask("/trial").await;
    let line = trial["limits"][0].as_str().unwrap();
    let share = "; in shadow for about 75 % of keys, which the seed of a gateway chooses";
    assert!(line.ends_with(share), "{line}");
    assert_eq!(
        trial["outcome"],
        "answered by the gateway with 200, if all of these limits admit it"
    );
}
