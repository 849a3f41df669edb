//! The heaviest keys: what each view of the operator shows of them, whatever comes beside.

use std::io::Write;

use serde_json::{Value, json};

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
        " keys reached 5 per 3600s",
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
    let mut page = browser
        .open(&format!("{}/ui/#/limit/otp", url(&gateway)))
        .await;
    page.shows("At today's 5 per 3600s, at most 3 keys of")
        .await;
    page.shows("3 keys reached today's 5 and may have wanted more")
        .await;
    page.shows("Keys that used more than 1 are counted one by one")
        .await;
    assert_eq!(page.complaints().await, Vec::<String>::new());
}
