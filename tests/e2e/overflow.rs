//! Keys that find no slot in a full table: each refusal by what new keys share is counted and logged, whatever the kind of limit.

use std::io::Write;
use std::net::Ipv4Addr;

use jiff::{SignedDuration, Timestamp};

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

/// The metrics, once they have so many requests: each is counted when it is over, which its answer does not wait for.
async fn counted(gateway: &Gateway, requests: u64) -> Metrics {
    eventually("all requests are counted", async || {
        let metrics = gateway.metrics().await;
        let all = metrics.sum("sluicegate_requests_total", &[]);
        (all >= requests as f64).then_some(metrics)
    })
    .await
}

/// Asks once for each of 3,000 clients, on kept connections, and compares what is counted and logged as refused in overflow with what
/// was refused.
async fn assert_counted(name: &str, rules: &str) {
    let origin = Origin::echo();
    let gateway = Gateway::before(&origin, rules).await;
    let report = Flood::of(CLIENTS, forwarded).run(gateway.address()).await;
    assert_eq!(report.broken(), 0, "{name}");
    let metrics = counted(&gateway, CLIENTS).await;
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
async fn new_keys_are_admitted_again_at_the_time_in_status() {
    // Goal: after `until` of an overflow /status has none, and a window later new keys have slots again. Method: a full table at 1 per 3s;
    // what /status says, and what it says behind that moment.
    let origin = Origin::echo();
    let rules = crowded("", "").replace("LIMITS", "\"each\"");
    let gateway = Gateway::before(&origin, &rules.replace("1 per 1h", "1 per 3s")).await;
    let report = Flood::of(CLIENTS, forwarded).run(gateway.address()).await;
    assert!(report.count(429) > 0);
    let overflow = async || each(&gateway).await["overflow"].clone();
    // Times of one form compare as text.
    let now = async || {
        let top = gateway.admin(get("/limits/each/top")).await.json();
        top["at"].as_str().unwrap().to_owned()
    };
    let before = overflow().await;
    assert_eq!(before["active"], true, "{before}");
    let (since, until) = (
        before["since"].as_str().unwrap(),
        before["until"].as_str().unwrap(),
    );
    let asked = now().await;
    assert!(since <= &*asked && &*asked < until, "{asked}: {before}");
    let after = eventually("the overflow is over", async || {
        let overflow = overflow().await;
        overflow["until"].is_null().then_some(overflow)
    })
    .await;
    let asked = now().await;
    assert!(&*asked >= until, "{asked}: {before} {after}");
    assert_eq!(after["active"], false, "{after}");
    assert!(after["since"].is_null(), "{after}");
    // The counts of a sliding window are free when the next one begins; its slots are reused when that one has ended.
    let slots_expire = until.parse::<Timestamp>().unwrap() + SignedDuration::from_secs(3);
    eventually("the slots of the flood are free", async || {
        let now = now().await.parse::<Timestamp>().unwrap();
        (now >= slots_expire).then_some(())
    })
    .await;
    for client in 0..50 {
        let newcomer = get("/").forwarded_for(&format!("198.51.100.{client}"));
        assert_eq!(gateway.send(newcomer).await.status, 200, "{client}");
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
async fn a_rejection_by_a_shared_counter_bans_no_key() {
    // Goal: a rejection caused by the use of others does not ban a client. Method: a ban of an hour; only clients that were refused by
    // their
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
    // The first clients have slots, and exceed them by themselves; a few may look like clients that shared counters.
    let again = Flood::of(10, forwarded).run(gateway.address()).await;
    assert_eq!(again.count(429), 10);
    let banned = bans().await;
    assert!((5.0..=10.0).contains(&banned), "{banned}");
}

#[tokio::test]
async fn a_larger_capacity_helps_new_keys_at_once() {
    // Goal: a client rejected by a full table passes as soon as `capacity` is raised, and none passes twice. Method: 3,000 clients ask
    // once
    // each where 91 have a slot, then again after a reload with room for all, and once more; under several algorithms, and in a file
    // after
    // a restart.
    for (name, lines) in [
        ("sliding window", "rates = [\"1 per 1d\"]"),
        ("two rates", "rates = [\"1 per 1h\", \"3 per 1d\"]"),
        ("exact", "algorithm = \"exact\"\nrates = [\"1 per 1d\"]"),
        ("gcra", "algorithm = \"gcra\"\nrates = [\"1 per 1d\"]"),
        ("restart", "rates = [\"1 per 1d\"]"),
    ] {
        let state = tempfile::tempdir().unwrap();
        let head = match name {
            "restart" => format!("[server]\nstate_dir = {:?}\n", state.path()),
            _ => String::new(),
        };
        let rules = crowded(lines, &head)
            .replace("rates = [\"1 per 1h\"]\ncapacity", "capacity")
            .replace("LIMITS", "\"each\"");
        let origin = Origin::echo();
        let mut gateway = Gateway::before(&origin, &rules).await;
        let passed = async |gateway: &Gateway| {
            let report = Flood::of(CLIENTS, forwarded).run(gateway.address()).await;
            assert_eq!(report.broken(), 0, "{name}");
            report.count(200)
        };
        let before = passed(&gateway).await;
        assert!((40..300).contains(&before), "{name}: {before}");
        assert_eq!(passed(&gateway).await, 0, "{name}: the table is full");
        assert!(
            each(&gateway).await["overflow"]["advice"].is_u64(),
            "{name}"
        );
        if name == "restart" {
            drop(gateway);
            gateway = Gateway::before(&origin, &rules).await;
            assert_eq!(passed(&gateway).await, 0, "{name}: as before the restart");
        }
        gateway
            .reload(&rules.replace("capacity = 20\n", "capacity = 20000\n"))
            .await;
        assert_eq!(passed(&gateway).await, CLIENTS as usize - before, "{name}");
        assert_eq!(passed(&gateway).await, 0, "{name}: each has passed once");
        assert!(
            each(&gateway).await["overflow"]["advice"].is_null(),
            "{name}"
        );
        let affected = each(&gateway).await["overflow"]["affected"].as_f64();
        assert!(
            affected.is_some_and(|affected| affected < 0.01),
            "{name}: {affected:?}"
        );
    }
}

/// New keys that one address invents: many times what the table below holds.
const INVENTED: u64 = 12_000;
/// The address that invents them; others are newcomers.
const INVENTOR: &str = "127.0.0.1";

/// A GET with a key of its own.
fn invented(n: u64, buffer: &mut Vec<u8>) {
    write!(
        buffer,
        "GET / HTTP/1.1\r\nHost: a.test\r\nX-Key: invented-{n}\r\n\r\n"
    )
    .unwrap();
}

/// Two requests an hour for each value of a header, in a table of some 1,700 slots, and these lines more.
fn keyed(lines: &str, head: &str) -> String {
    format!(
        "{head}\n\
         [limit.each]\nkey = \"header.x-key\"\non_missing = \"refuse\"\nrates = [\"2 per 1h\"]\ncapacity = 1000\n{lines}\n\
         [limit.wide]\nkey = \"global\"\nrates = [\"1000000 per 1h\"]\n\
         [limit.each-host]\nkey = [\"header.x-key\", \"host\"]\non_missing = \"refuse\"\nrates = [\"900 per 1h\", \"9000 per 1d\"]\n\
         capacity = 20000\n\
         [[route]]\npath = \"/\"\nlimits = [LIMITS]\norigin = \"app\"\n"
    )
}

/// What the status says of the limit that each of these tests is about.
async fn each(gateway: &Gateway) -> serde_json::Value {
    let status = gateway.status().await;
    let limits = status["limits"].as_array().unwrap();
    let each = limits.iter().find(|limit| limit["name"] == "each");
    each.unwrap().clone()
}

/// Requests with made-up keys from one address; then newcomers from others are served, and metric, status and logs tell of the one.
async fn assert_room(name: &str, rules: &str) {
    let origin = Origin::echo();
    let gateway = Gateway::before(&origin, rules).await;
    let report = Flood::of(INVENTED, invented).run(gateway.address()).await;
    assert_eq!(report.broken(), 0, "{name}");
    counted(&gateway, INVENTED).await;
    let count = async |metric: &str| {
        let metrics = gateway.metrics().await;
        let metric = format!("sluicegate_limit_{metric}_total");
        metrics.sum(&metric, &[("limit", "each")]) as usize
    };
    let soft = async || count("shadow_refused").await + count("marked").await;
    let refused = report.count(429) + soft().await;
    assert!(refused > 10_000, "{name}: {refused} of {INVENTED}");
    assert_eq!(count("share_refused").await, refused, "{name}");
    assert_eq!(count("overflow_refused").await, 0, "{name}");

    for last in 2..22 {
        let mut newcomer = gateway.client_from(&format!("127.0.0.{last}")).await;
        let key = format!("newcomer-{last}");
        for _ in 0..2 {
            let answer = newcomer.send(get("/").header("x-key", &key)).await;
            assert_eq!(answer.status, 200, "{name}: {key}");
        }
        let before = soft().await;
        let answer = newcomer.send(get("/").header("x-key", &key)).await;
        if answer.status != 429 {
            // Counted when the request is over, which its answer does not wait for.
            eventually(&format!("{name}: {key} is refused softly"), async || {
                (soft().await > before).then_some(())
            })
            .await;
        }
    }
    assert_eq!(count("share_refused").await, refused, "{name}");

    let status = each(&gateway).await;
    let share = &status["share"];
    assert_eq!(
        (&share["slots"], &share["refused"]),
        (&16.into(), &refused.into()),
        "{name}"
    );
    assert_eq!(share["client"], INVENTOR, "{name}");
    let advice = share["advice"].as_str().unwrap_or_default();
    assert!(
        advice.starts_with(&format!("{INVENTOR} sends ever new keys")),
        "{name}: {share}"
    );
    let told = format!("limit each: client {INVENTOR} has taken more than its share of 16 slots");
    assert_eq!(gateway.stderr().matches(&told).count(), 1, "{name}");
    let logged = eventually("the log has every request", async || {
        let lines = read_log(&gateway.access_log_path());
        (lines.len() as u64 >= INVENTED + 60).then_some(lines)
    })
    .await;
    let named = logged
        .iter()
        .filter(|line| line["over_share"] == serde_json::json!(["each"]));
    assert_eq!(named.count(), refused, "{name}");
}

#[tokio::test]
async fn keys_that_one_address_invents_reject_no_other_client() {
    // Goal: a flood of made-up keys costs only its sender. Method: under every algorithm and action, alone and beside other limits, with
    // costs that are settled later, with tiers, in shadow and with marks.
    let tier = "tier = \"header.x-plan\"\n[limit.each.tiers]\npro = \"5 per 1h\"";
    for (name, lines, limits) in [
        ("alone", "", "\"each\""),
        ("three limits", "", "\"wide\", \"each\", \"each-host\""),
        ("exact", "algorithm = \"exact\"", "\"wide\", \"each\""),
        ("token bucket", "algorithm = \"token-bucket\"", "\"each\""),
        (
            "settled",
            "count_if = \"response.status in [200..=499]\"",
            "\"each\"",
        ),
        ("tiers", tier, "\"each\""),
        ("shadow", "action = \"shadow\"", "\"each\""),
        ("mark", "action = \"mark\"", "\"each\""),
    ] {
        let hops = "[client]\ntrusted_proxies = [\"10.0.0.0/8\"]";
        let rules = keyed(lines, hops).replace("LIMITS", limits);
        assert_room(name, &rules).await;
    }
}

#[tokio::test]
async fn keys_that_one_address_invents_reject_no_other_client_of_a_replicated_limit() {
    // Goal: as above where counts are exchanged through a store. Method: the same with a Redis.
    let redis = Redis::start().await;
    let store = format!(
        "[store]\nurl = \"{}\"\nrequired_for_ready = true\ntimeout = \"5s\"",
        redis.url()
    );
    let rules = keyed("store = \"shared\"", &store).replace("LIMITS", "\"each\"");
    assert_room("replicated", &rules).await;
}

#[tokio::test]
async fn a_limit_by_address_has_no_shares() {
    // Goal: nothing changes where keys cannot be invented. Method: the status of a limit by address, and of one by a header beside it.
    let rules = keyed("", "").replace(
        "header.x-key\"\non_missing = \"refuse\"\nrates = [\"2",
        "client.ip\"\nrates = [\"2",
    );
    let origin = Origin::echo();
    let gateway =
        Gateway::before(&origin, &rules.replace("LIMITS", "\"each\", \"each-host\"")).await;
    assert!(each(&gateway).await["share"].is_null());
    let status = gateway.status().await;
    let limits = status["limits"].as_array().unwrap();
    let by_header = limits
        .iter()
        .find(|limit| limit["name"] == "each-host")
        .unwrap();
    assert_eq!(by_header["share"]["slots"], 78);
    assert!(by_header["share"]["client"].is_null());
}
