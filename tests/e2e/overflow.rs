//! Keys that find no slot in a full table: each refusal by what new keys share is counted and logged, whatever the kind of limit.

use std::io::Write;
use std::net::Ipv4Addr;

use crate::harness::*;

const CLIENTS: u64 = 3_000;

/// A GET by client number `n`, as a trusted proxy forwards it.
fn forwarded(n: u64, buffer: &mut Vec<u8>) {
    let client = Ipv4Addr::from(0x0b00_0000 + u32::try_from(n).unwrap());
    write!(
        buffer,
        "GET / HTTP/1.1\r\nHost: a.test\r\nX-Forwarded-For: {client}\r\n\r\n"
    )
    .unwrap();
}

/// One request an hour for each client, in a table of less than a hundred slots, and these lines more.
fn crowded(lines: &str, head: &str) -> String {
    format!(
        "[client]\ntrusted_proxies = [\"127.0.0.0/8\"]\n{head}\n\
         [limit.each]\nkey = \"client.ip\"\nrates = [\"1 per 1h\"]\ncapacity = 20\n{lines}\n\
         [limit.wide]\nkey = \"global\"\nrates = [\"1000000 per 1h\"]\n\
         [[route]]\npath = \"/\"\nlimits = [LIMITS]\norigin = \"app\"\n"
    )
}

/// Asks once for each of 3,000 clients, on kept connections, and compares what is counted and logged as refused in overflow with what
/// was refused.
async fn assert_counted(name: &str, rules: &str) {
    let origin = Origin::echo();
    let gateway = Gateway::before(&origin, rules).await;
    let report = Flood::of(CLIENTS, forwarded).run(gateway.address()).await;
    assert_eq!(report.broken(), 0, "{name}");
    let metrics = gateway.metrics().await;
    let of = |metric: &str| {
        let metric = format!("sluicegate_limit_{metric}_total");
        metrics.sum(&metric, &[("limit", "each")]) as usize
    };
    let refused = report.count(429) + of("shadow_refused") + of("marked");
    // Each client asks once, so each refusal is due to others.
    assert!(refused > 2_000, "{name}: {refused} of {CLIENTS}");
    assert_eq!(of("overflow_refused"), refused, "{name}");
    let status = gateway.status().await;
    let limits = status["limits"].as_array().unwrap();
    let each = limits.iter().find(|limit| limit["name"] == "each").unwrap();
    assert_eq!(each["overflow"]["refused"], refused, "{name}: {each}");
    let logged = eventually("the log has every request", async || {
        let lines = read_log(&gateway.access_log_path());
        (lines.len() as u64 >= CLIENTS).then_some(lines)
    })
    .await;
    let unnamed = logged
        .iter()
        .filter(|line| line["status"] == 429 || !line["shadow_refused"].is_null())
        .find(|line| line["overflow"] != serde_json::json!(["each"]));
    assert!(unnamed.is_none(), "{name}: {unnamed:?}");
}

#[tokio::test]
async fn every_refusal_by_a_shared_counter_is_counted() {
    // Goal: no kind of limit hides that its table is too small. Method: 3,000 clients ask once each where 91 have a slot, under every
    // algorithm and action, alone and beside another limit, with costs that are settled later, in shadow and with marks.
    let window = "algorithm = \"fixed-window\"";
    let bucket = "algorithm = \"token-bucket\"";
    let settled = "count_if = \"response.status in [200..=499]\"";
    for (name, lines, limits) in [
        ("alone", "", "\"each\""),
        ("two limits", "", "\"each\", \"wide\""),
        ("exact", "algorithm = \"exact\"", "\"each\""),
        (
            "exact of two",
            "algorithm = \"exact\"",
            "\"wide\", \"each\"",
        ),
        ("fixed window", window, "\"each\""),
        ("token bucket", bucket, "\"each\", \"wide\""),
        ("settled", settled, "\"each\""),
        ("shadow", "action = \"shadow\"", "\"each\""),
        ("mark", "action = \"mark\"", "\"each\""),
    ] {
        let rules = crowded(lines, "").replace("LIMITS", limits);
        assert_counted(name, &rules).await;
    }
}

#[tokio::test]
async fn refusals_of_replicated_limits_by_a_shared_counter_are_counted() {
    // Goal: as above where counts are exchanged through a store. Method: the same with a Redis.
    let redis = Redis::start().await;
    let store = format!(
        "[store]\nurl = \"{}\"\nrequired_for_ready = true\ntimeout = \"5s\"",
        redis.url()
    );
    let rules = crowded("store = \"shared\"", &store).replace("LIMITS", "\"each\"");
    assert_counted("replicated", &rules).await;
}

#[tokio::test]
async fn a_refusal_by_a_shared_counter_bans_nobody() {
    // Goal: who is refused for what others used is not banned for it. Method: a ban of an hour; only clients that were refused by their
    // own counter are banned, and of clients that ask once that is none.
    let rules = crowded("ban = { for = \"1h\" }", "").replace("LIMITS", "\"each\"");
    let origin = Origin::echo();
    let gateway = Gateway::before(&origin, &rules).await;
    let report = Flood::of(CLIENTS, forwarded).run(gateway.address()).await;
    assert!(report.count(429) > 2_000);
    let bans = async || {
        let metrics = gateway.metrics().await;
        metrics.sum("sluicegate_limit_bans_total", &[("limit", "each")])
    };
    assert_eq!(bans().await, 0.0);
    // The first client has a slot, and exceeds it by itself.
    let again = Flood::of(1, forwarded).run(gateway.address()).await;
    assert_eq!(again.count(429), 1);
    assert_eq!(bans().await, 1.0);
}
