//! Lists of clients ahead of the limits: who skips them, who is refused, and files that change while the gateway runs.

use std::fmt::Write;
use std::fs;

use crate::harness::*;

/// One an hour for everybody together; loopback tells who the client is.
const RULES: &str = r#"
[client]
trusted_proxies = ["127.0.0.0/8"]
allow = ["office"]
block = ["bad"]
[list.office]
cidrs = ["192.0.2.0/24", "198.51.100.7"]
[list.bad]
file = "../bad.txt"
[list.partners]
cidrs = ["203.0.113.0/24"]
[limit.one]
key = "global"
rates = ["1 per 1h"]
[[route]]
path = "/"
limits = ["one"]
respond = { status = 200 }
[[route]]
path = "/partners"
limits = ["one"]
allow = ["partners"]
respond = { status = 200 }
"#;

const BAD: &str = "# a feed\n198.51.100.0/24 ; SBL1\n192.0.2.66\n2001:db8::/32\n";

async fn start() -> Gateway {
    Setup::new().file("bad.txt", BAD).rules(RULES).start().await
}

async fn status(client: &mut Client, path: &str, address: &str) -> u16 {
    client.send(get(path).forwarded_for(address)).await.status
}

#[tokio::test]
async fn a_blocked_client_is_rejected_and_reported_everywhere() {
    // Goal: 403 with a problem of its own, before any limit, in log and metrics, also on a kept connection where repeats are answered
    // before the proxy. Method: one blocked client asks on; then another client finds the limit untouched.
    let gateway = start().await;
    let mut client = gateway.client().await;
    let mut answers = Vec::new();
    for _ in 0..4 {
        let answer = client.send(get("/").forwarded_for("198.51.100.9")).await;
        answer.assert_problem(403);
        assert!(answer.header("ratelimit").is_none());
        answers.push(answer);
    }
    let head = client.send(head("/").forwarded_for("2001:db8::5")).await;
    assert_eq!((head.status, head.text()), (403, ""));
    for line in gateway.lines_of(&answers).await {
        assert_eq!(line["outcome"], "blocked");
        assert_eq!(line["list"], "bad");
        assert_eq!(line["client"], "198.51.100.9");
        assert!(line.get("limit").is_none());
    }
    assert_eq!(status(&mut client, "/", "203.0.113.1").await, 200);
    assert_eq!(status(&mut client, "/", "203.0.113.1").await, 429);
    assert_eq!(status(&mut client, "/", "198.51.100.9").await, 403);
    let metrics = gateway.metrics().await;
    let blocked = [("outcome", "blocked"), ("code", "4xx")];
    assert_eq!(metrics.sum("sluicegate_requests_total", &blocked), 6.0);
}

#[tokio::test]
async fn an_allowed_client_skips_the_limits_and_is_charged_nothing() {
    // Goal: no refusal, no charge, no RateLimit fields, and the log says why; the longest block decides between the lists, and a route's
    // own list holds there alone. Method: allowed clients ask past the limit before and after it is spent, on one connection.
    let gateway = start().await;
    let mut client = gateway.client().await;
    let mut answers = Vec::new();
    for address in ["192.0.2.1", "192.0.2.1", "198.51.100.7"] {
        let answer = client.send(get("/").forwarded_for(address)).await;
        assert_eq!(answer.status, 200, "{address}");
        assert!(
            answer.header("ratelimit").is_none() && answer.header("ratelimit-policy").is_none()
        );
        answers.push(answer);
    }
    for line in gateway.lines_of(&answers).await {
        assert_eq!(line["outcome"], "responded");
        assert_eq!(line["list"], "office");
        assert!(line.get("remaining").is_none());
    }
    assert_eq!(status(&mut client, "/", "203.0.113.1").await, 200);
    assert_eq!(status(&mut client, "/", "203.0.113.1").await, 429);
    assert_eq!(status(&mut client, "/", "192.0.2.1").await, 200);
    assert_eq!(status(&mut client, "/", "192.0.2.66").await, 403);
    assert_eq!(status(&mut client, "/partners", "203.0.113.1").await, 200);
    assert_eq!(status(&mut client, "/partners", "192.0.2.66").await, 403);
    assert_eq!(status(&mut client, "/partners", "100.64.0.1").await, 429);
}

#[tokio::test]
async fn a_forged_chain_does_not_help_a_blocked_client() {
    // Goal: lists see the identified client (C6). Method: no peer is trusted, loopback is blocked, and allowed addresses are claimed.
    let rules = RULES
        .replace("trusted_proxies = [\"127.0.0.0/8\"]", "")
        .replace("file = \"../bad.txt\"", "cidrs = [\"127.0.0.1\"]");
    let gateway = Gateway::start(&rules).await;
    let mut client = gateway.client().await;
    for _ in 0..3 {
        assert_eq!(status(&mut client, "/", "192.0.2.1").await, 403);
    }
}

#[tokio::test]
async fn a_list_file_is_swapped_when_it_changes_and_a_broken_one_keeps_the_old_list() {
    // Goal: the file is watched, in place and renamed over, whole or not at all. Method: write, wait for the answer to change; then a
    // broken file, which the metric, status and process log tell, while the list before it goes on.
    let gateway = start().await;
    let file = gateway.directory().join("bad.txt");
    let answers = async |address: &str, wanted: u16| {
        eventually(&format!("{address} gets {wanted}"), async || {
            let answer = gateway.send(get("/").forwarded_for(address)).await;
            (answer.status == wanted).then_some(())
        })
        .await;
    };
    answers("198.51.100.9", 403).await;
    assert_eq!(
        gateway
            .send(get("/").forwarded_for("203.0.113.1"))
            .await
            .status,
        200
    );
    fs::write(&file, "203.0.113.0/24\n").unwrap();
    answers("203.0.113.1", 403).await;
    answers("198.51.100.9", 429).await;
    fs::write(file.with_extension("new"), BAD).unwrap();
    fs::rename(file.with_extension("new"), &file).unwrap();
    answers("198.51.100.9", 403).await;
    answers("203.0.113.1", 429).await;
    fs::write(&file, "203.0.113.0/24\n10.0.0.1/8\n").unwrap();
    let kept = [("kind", "list"), ("name", "bad"), ("content", "kept")];
    eventually("the failure is told", async || {
        let metrics = gateway.metrics().await;
        (metrics.sum("sluicegate_config_file_broken", &kept) == 1.0).then_some(())
    })
    .await;
    let status = gateway.status().await;
    let told = status["configuration"]["broken_files"][0].as_str().unwrap();
    assert!(
        told.starts_with("list bad: ") && told.ends_with("stays in force"),
        "{told}"
    );
    let log = gateway.stderr();
    assert!(
        log.contains("bad.txt\", line 2: \"10.0.0.1/8\" has bits"),
        "{log}"
    );
    answers("198.51.100.9", 403).await;
    answers("203.0.113.1", 429).await;
    fs::write(&file, "203.0.113.0/24\n").unwrap();
    answers("203.0.113.1", 403).await;
}

#[tokio::test]
async fn a_million_entries_are_bounded_and_found() {
    // Goal: a list of 10^6 addresses is read, asked and swapped in bounded memory. Method: resident memory before and after the file
    // grows from a few lines, and its first, last and a missing address.
    let gateway = start().await;
    let file = gateway.directory().join("bad.txt");
    let blocked = async |address: &str, wanted: bool| {
        eventually(&format!("{address}: {wanted}"), async || {
            let answer = gateway.send(get("/").forwarded_for(address)).await;
            ((answer.status == 403) == wanted).then_some(())
        })
        .await;
    };
    let before = gateway.resident_bytes();
    let mut text = String::new();
    for n in 0..1_000_000_u32 {
        // Every other address of 11.0.0.0/8 on, so that no two are neighbours.
        let [a, b, c, d] = (0x0b00_0000 + 2 * n).to_be_bytes();
        writeln!(text, "{a}.{b}.{c}.{d}").unwrap();
    }
    fs::write(file.with_extension("new"), &text).unwrap();
    fs::rename(file.with_extension("new"), &file).unwrap();
    blocked("11.0.0.0", true).await;
    blocked("11.30.132.126", true).await;
    blocked("11.30.132.127", false).await;
    blocked("11.30.132.128", false).await;
    blocked("198.51.100.9", false).await;
    let grown = gateway.resident_bytes().saturating_sub(before);
    assert!(grown < 150 << 20, "{} MiB more", grown >> 20);
}
