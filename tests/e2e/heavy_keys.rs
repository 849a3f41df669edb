//! The heaviest keys and the banned ones: what each view of the operator shows of them, whatever comes beside.

use std::io::Write;

use serde_json::{Value, json};
use sluicegate_limiter::Timestamp;

use crate::harness::*;

/// The page of a limit on the admin listener.
async fn read(gateway: &Gateway, path: &str) -> Value {
    let answer = gateway.admin(get(path)).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

/// The standard output of a command that ends well.
async fn printed(arguments: &[&str]) -> String {
    let mut process = Process::run(arguments);
    assert_eq!(process.exit_code().await, 0, "{}", process.stderr());
    process.stdout()
}

/// Requests of one client, with the statuses of their answers.
async fn ask(gateway: &Gateway, client: &str, statuses: &[u16]) {
    let mut connection = gateway.client().await;
    for status in statuses {
        let answer = connection.send(get("/").forwarded_for(client)).await;
        assert_eq!(answer.status, *status, "{client}: {answer:?}");
    }
}

fn url(gateway: &Gateway) -> String {
    format!("http://{}", gateway.admin_address())
}

#[tokio::test]
async fn light_addresses_hide_no_heavy_key() {
    // Goal: during an attack an operator sees the keys at the limit. Method: three clients that use all of a limit, before and after 20,000
    // addresses with one request each; the usage, the suggestion, `top` in both forms and the slider of the page.
    const LIGHT: u64 = 20_000;
    let lines = "rates = [\"5 per 1h\"]\ncapacity = 65536";
    let rules = "[client]\ntrusted_proxies = [\"127.0.0.0/8\"]\n".to_owned()
        + &limit("otp", &["client.ip"], lines)
        + &route("/", &["otp"], ANSWERED);
    let gateway = Gateway::start(&rules).await;
    let full = [200, 200, 200, 200, 200, 429, 429];
    ask(&gateway, "203.0.113.1", &full).await;
    let spray = Flood::of(LIGHT, |number, buffer| {
        let [.., high, middle, low] = number.to_be_bytes();
        let client = format!("10.{high}.{middle}.{low}");
        write!(
            buffer,
            "GET / HTTP/1.1\r\nHost: gateway.test\r\nX-Forwarded-For: {client}\r\n\r\n"
        )
        .unwrap();
    });
    let report = spray.run(gateway.address()).await;
    assert_eq!(report.count(200), usize::try_from(LIGHT).unwrap());
    for client in ["203.0.113.2", "203.0.113.3"] {
        ask(&gateway, client, &full).await;
    }

    let rate = eventually("all keys are in the sample", async || {
        let rate = read(&gateway, "/limits/otp/usage").await["rates"][0].clone();
        (rate["keys_at_limit"] == 3 && rate["keys"].as_u64()? > LIGHT / 2).then_some(rate)
    })
    .await;
    assert_eq!(
        (&rate["sampled"], &rate["keys_at_limit_error"]),
        (&json!(true), &json!(0)),
        "{rate}"
    );
    assert_eq!(rate["complete_above"], 1, "{rate}");
    let peaks = rate["peaks"].as_array().unwrap();
    assert_eq!(peaks.last(), Some(&json!({ "used": 5, "keys": 3 })));
    let error = rate["keys_error"].as_u64().unwrap();
    let missing = rate["keys"].as_u64().unwrap().abs_diff(LIGHT + 3);
    assert!((1..2_000).contains(&error) && missing < 2 * error, "{rate}");
    assert!(
        rate["sample_keys"].as_u64().unwrap() <= 4_096 + 256,
        "{rate}"
    );

    let suggestion = printed(&["suggest", "--gateway", &url(&gateway), "--limit", "otp"]).await;
    for part in [
        "# keys that used more than 1 are counted one by one; the others are estimated",
        "# warning: 3 of ",
        " keys reached 5 per 1h",
    ] {
        assert!(
            suggestion.contains(part),
            "{part:?} is not in:\n{suggestion}"
        );
    }

    let top = read(&gateway, "/limits/otp/top?n=5").await["top"].clone();
    let used: Vec<_> = top
        .as_array()
        .unwrap()
        .iter()
        .map(|key| &key["used"])
        .collect();
    assert_eq!(
        used,
        [1.0, 1.0, 1.0, 0.2, 0.2].map(|used| json!(used)).each_ref()
    );
    let frame = printed(&[
        "top",
        &url(&gateway),
        "--once",
        "--json",
        "--interval",
        "0.1",
    ])
    .await;
    let frame: Value = serde_json::from_str(&frame).unwrap();
    let refused = frame["nearest"]["top"].as_array().unwrap().iter();
    assert_eq!(refused.filter(|key| key["refused"] == true).count(), 3);

    let browser = Browser::start().await;
    let mut page = browser.open(&gateway.ui("limit/otp")).await;
    page.shows("At today's 5 per 1h, at most 3 keys of").await;
    page.shows("3 keys reached today's 5 and may have wanted more")
        .await;
    page.shows("Keys that used more than 1 are counted one by one")
        .await;
    assert_eq!(page.complaints().await, Vec::<String>::new());
}

/// Requests of so many addresses of one network, `each` of one behind the other.
fn spray(network: u8, addresses: u64, each: u64) -> Flood {
    Flood::of(addresses * each, move |number, buffer| {
        let [.., high, low] = (number / each).to_be_bytes();
        write!(
            buffer,
            "GET / HTTP/1.1\r\nHost: gateway.test\r\nX-Forwarded-For: 10.{network}.{high}.{low}\r\n\r\n"
        )
        .unwrap();
    })
}

#[tokio::test]
async fn shared_counts_are_no_heavy_keys() {
    // Goal: a spray beyond the capacity makes no light address look heavy, and hides no heavy one. Method: three clients that use all of a
    // limit, a spray that fills the table, one that shares counters, and the same addresses again when slots are free; the usage, the
    // suggestion, `top`, and the slider of the page.
    let lines = "rates = [\"20 per 1m\"]\ncapacity = 1000";
    let rules = "[client]\ntrusted_proxies = [\"127.0.0.0/8\"]\n".to_owned()
        + &limit("pages", &["client.ip"], lines)
        + &route("/", &["pages"], ANSWERED);
    let setup = Setup::new().rules(&rules).with_driven_clock();
    let gateway = setup.start().await;
    let begin = 1_800_000_000;
    let mut clock = gateway.clock();
    clock.set(Timestamp::from_secs(begin));
    for client in ["203.0.113.1", "203.0.113.2", "203.0.113.3"] {
        ask(&gateway, client, &[200; 20]).await;
        ask(&gateway, client, &[429]).await;
    }
    eventually("the heavy keys are in the sample", async || {
        let rate = read(&gateway, "/limits/pages/usage").await["rates"][0].clone();
        (rate["keys_at_limit"] == 3).then_some(())
    })
    .await;
    spray(1, 2_000, 2).run(gateway.address()).await;
    clock.set(Timestamp::from_secs(begin + 61));
    spray(2, 300, 5).run(gateway.address()).await;
    clock.set(Timestamp::from_secs(begin + 125));
    spray(2, 300, 1).run(gateway.address()).await;

    let page = eventually("the keys that shared counters are seen", async || {
        let page = read(&gateway, "/limits/pages/usage").await;
        (page["rates"][0]["shared_keys"].as_u64()? > 50).then_some(page)
    })
    .await;
    let rate = &page["rates"][0];
    assert_eq!(page["overflow"]["active"], true, "{page}");
    assert_eq!(rate["keys_at_limit"], 3, "{rate}");
    assert!(rate["complete_above"].as_u64().unwrap() <= 2, "{rate}");
    let peaks = rate["peaks"].as_array().unwrap();
    assert_eq!(peaks.last(), Some(&json!({ "used": 20, "keys": 3 })));
    // No address of the sprays sent more than six requests.
    let mut others = peaks[..peaks.len() - 1].iter();
    assert!(
        others.all(|peak| peak["used"].as_u64().unwrap() <= 6),
        "{rate}"
    );
    let top = read(&gateway, "/limits/pages/top").await["top"].clone();
    let top = top.as_array().unwrap().iter();
    assert!(top.filter(|key| key["shared"] == true).count() > 0);
    let suggestion = printed(&["suggest", "--gateway", &url(&gateway), "--limit", "pages"]).await;
    assert!(
        suggestion.contains("new keys shared counters"),
        "{suggestion}"
    );
    let browser = Browser::start().await;
    let mut page = browser.open(&gateway.ui("limit/pages")).await;
    page.shows("so new keys shared counters: what ").await;
    page.shows("The limit pages has no room: beyond its capacity of")
        .await;
}

/// The lines of a limit that bans, with a rate that has room again at once and one that remembers, and with overrides.
const BANNING: &str =
    "rates = [\"1 per 1s\", \"50 per 1h\"]\nban = { for = \"2h\" }\noverrides = \"../tiers.csv\"";

/// The lines of a limit that rejects nothing.
const SHADOW: &str = "rates = [\"2 per 1h\"]\naction = \"shadow\"";

/// Rows without a limit and with higher rates.
const TIERS: &str = "client.ip,rates\n203.0.113.8,unlimited\n203.0.113.9,20 per 1s; 60 per 1h\n";

async fn banning_gateway() -> Gateway {
    let rules = "[client]\ntrusted_proxies = [\"127.0.0.0/8\"]\n".to_owned()
        + &limit("otp", &["client.ip"], BANNING)
        + &limit("tried", &["client.ip"], SHADOW)
        + &route("/", &["otp", "tried"], ANSWERED);
    let setup = Setup::new().rules(&rules).file("tiers.csv", TIERS);
    setup.start().await
}

#[tokio::test]
async fn a_banned_key_is_shown_as_banned_everywhere() {
    // Goal: an operator who is called by a banned customer sees the ban. Method: a key whose rates have room again while its ban goes on,
    // beside 30 others; the keys at the limit, `top`, the usage, the suggestion, the command `key`, and two views of the page.
    let gateway = banning_gateway().await;
    ask(&gateway, "203.0.113.7", &[200, 429, 429]).await;
    for number in 0..30 {
        ask(&gateway, &format!("10.0.0.{number}"), &[200]).await;
    }
    let first = eventually("the rates of the banned key have room", async || {
        let top = read(&gateway, "/limits/otp/top").await;
        let first = top["top"][0].clone();
        (first["rates"][0]["remaining"] == 1).then_some(first)
    })
    .await;
    assert_eq!(
        (&first["next"], &first["refused"], &first["ban"]["level"]),
        (&json!("banned"), &json!(true), &json!(1)),
        "{first}"
    );
    assert!(first["used"].as_f64().unwrap() < 0.1, "{first}");
    let left = first["ban"]["left"].as_f64().unwrap();
    assert!((7_000.0..=7_200.0).contains(&left), "{first}");
    let usage = read(&gateway, "/limits/otp/usage").await;
    assert_eq!(usage["banned_keys"], 1);
    assert_eq!(
        read(&gateway, "/limits/tried/usage").await["banned_keys"],
        json!(null)
    );

    let config = gateway.config_path().display().to_string();
    let key = printed(&["key", &config, "otp", "203.0.113.7"]).await;
    let key: Value = serde_json::from_str(&key).unwrap();
    assert_eq!(
        (&key["next"], &key["admits"], &key["key"]),
        (&json!("banned"), &json!(false), &first["key"])
    );
    let url = url(&gateway);
    let frame = printed(&["top", &url, "--once", "--interval", "0.1"]).await;
    assert!(frame.contains("banned banned for"), "{frame}");
    let suggestion = printed(&["suggest", "--gateway", &url, "--limit", "otp"]).await;
    assert!(suggestion.contains("# 1 key is banned now"), "{suggestion}");

    let browser = Browser::start().await;
    let mut page = browser.open(&gateway.ui("limit/otp")).await;
    page.until("document.querySelector('section[aria-label=Keys] tbody tr')?.textContent.includes('banned for')")
        .await;
    page.shows("1 key is banned now.").await;
    page.go(&gateway.ui("keys?value=203.0.113.7")).await;
    page.shows("1 of 2 limits would reject the next request.")
        .await;
    page.shows("rejects: banned for").await;
    assert_eq!(page.complaints().await, Vec::<String>::new());
}

#[tokio::test]
async fn a_key_is_shown_as_its_next_request_is_treated() {
    // Goal: `refused` is what the next request gets. Method: keys of a limit in shadow, of rows without a limit and with higher rates, and
    // one that uses all of its own rates; each beside the answer of the gateway.
    let gateway = banning_gateway().await;
    ask(&gateway, "203.0.113.8", &[200; 4]).await;
    ask(&gateway, "203.0.113.9", &[200; 4]).await;
    let top = read(&gateway, "/limits/tried/top").await;
    let tried: Vec<_> = top["top"].as_array().unwrap().iter().collect();
    assert_eq!(tried.len(), 2);
    for key in tried {
        let shown = (&key["used"], &key["next"], &key["refused"]);
        assert_eq!(
            shown,
            (&json!(1.0), &json!("shadow-rejected"), &json!(false))
        );
    }
    let path = "/limits/tried/keys?value=203.0.113.9";
    let key = read(&gateway, path).await;
    assert_eq!(
        (&key["next"], &key["admits"]),
        (&json!("shadow-rejected"), &json!(true))
    );

    // Four of one a second, which a key without the row would not have been granted.
    let top = read(&gateway, "/limits/otp/top").await;
    let keys = top["top"].as_array().unwrap();
    assert_eq!(keys.len(), 1, "{top}");
    assert_eq!(
        (&keys[0]["next"], &keys[0]["refused"]),
        (&json!("admitted"), &json!(false))
    );
    assert_eq!(keys[0]["rates"][1]["rate"], "60 per 1h");
    let exempt = read(&gateway, "/limits/otp/keys?value=203.0.113.8").await;
    assert_eq!(
        (&exempt["next"], &exempt["admits"]),
        (&json!("exempt"), &json!(true))
    );
    ask(&gateway, "203.0.113.9", &[200]).await;
    ask(&gateway, "203.0.113.8", &[200]).await;
}
