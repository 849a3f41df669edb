//! `prefixes`: an address and its networks at several levels, in one limit of the file.

use crate::harness::*;

/// Two for each address, three for each /24 or /56, four for each /16 or /48.
const LEVELS: &str = r#"
[client]
trusted_proxies = ["127.0.0.1"]
[limit.otp]
key = "client.ip"
rates = ["2 per 1h"]
prefixes = { "/16,/48" = ["4 per 1h"], "/24,/56" = ["3 per 1h"] }
[[route]]
path = "/"
limits = ["otp"]
respond = { status = 200 }
"#;

const NAMES: [&str; 3] = ["otp", "otp.24-56", "otp.16-48"];

async fn answer(gateway: &Gateway, client: &str) -> Response {
    gateway.send(get("/").forwarded_for(client)).await
}

/// What is left of each level after an answer.
fn left(answer: &Response) -> [u64; 3] {
    NAMES.map(|name| answer.remaining(name))
}

#[tokio::test]
async fn an_address_and_its_networks_are_charged_together_or_not_at_all() {
    // Goal: C2 over the levels, in both families. Method: addresses that share a narrow network, a wide one, or nothing; what is left of
    // each level after each answer, and which level each rejection names.
    let gateway = Gateway::start(LEVELS).await;
    for [one, neighbor, near, far, other] in [
        [
            "203.0.113.1",
            "203.0.113.2",
            "203.0.7.7",
            "203.0.8.8",
            "198.51.100.1",
        ],
        [
            "2001:db8:1:aa01::1",
            "2001:db8:1:aa02::1",
            "2001:db8:1:bb00::1",
            "2001:db8:1:cc00::1",
            "2001:db8:2::1",
        ],
    ] {
        for (client, remaining) in [
            (one, [1, 2, 3]),
            (one, [0, 1, 2]),
            (neighbor, [1, 0, 1]),
            (near, [1, 2, 0]),
        ] {
            let admitted = answer(&gateway, client).await;
            assert_eq!(
                (admitted.status, left(&admitted)),
                (200, remaining),
                "{client}"
            );
        }
        for (client, limits) in [
            // Every level of its own is full.
            (one, &["otp", "otp.24-56", "otp.16-48"][..]),
            // Its address has room, its networks have not.
            (neighbor, &["otp.24-56", "otp.16-48"]),
            (near, &["otp.16-48"]),
            (far, &["otp.16-48"]),
        ] {
            let refused = answer(&gateway, client).await;
            assert_eq!(refused.status, 429, "{client}");
            assert!(refused.retry_after() <= 7_200);
            // Of several that reject, that with the longest wait is named.
            let violated = refused.violated();
            assert!(limits.contains(&&*violated[0]), "{client}: {violated:?}");
        }
        // Rejections took nothing: the address and the /24 of the far one are as they were.
        assert_eq!(left(&answer(&gateway, far).await), [2, 3, 0]);
        assert_eq!(left(&answer(&gateway, other).await), [1, 2, 3]);
    }
}

#[tokio::test]
async fn a_client_that_moves_within_its_network_meets_the_wider_level() {
    // Goal: what attackers try. Method: 60 networks of /64 within one /48, and 60 addresses of one /16, each asked from once: a limit by
    // address alone would admit all; these admit four.
    let gateway = Gateway::start(LEVELS).await;
    for spread in [
        (0..60)
            .map(|at| format!("2001:db8:5:{at:x}00::1"))
            .collect::<Vec<_>>(),
        (0..60).map(|at| format!("203.7.{at}.1")).collect(),
    ] {
        let mut admitted = 0;
        for client in &spread {
            admitted += u32::from(answer(&gateway, client).await.status == 200);
        }
        assert_eq!(admitted, 4, "{}", spread[0]);
    }
}

#[tokio::test]
async fn each_level_has_its_name_in_metrics_log_status_and_look_ups() {
    // Goal: an operator sees which level rejects whom. Method: a rejection by the middle level, in each place.
    let gateway = Gateway::start(LEVELS).await;
    for client in ["203.0.113.1", "203.0.113.2", "203.0.113.3"] {
        assert_eq!(answer(&gateway, client).await.status, 200);
    }
    let refused = answer(&gateway, "203.0.113.4").await;
    assert_eq!(refused.violated(), ["otp.24-56"]);
    let line = gateway.lines_of(&[refused]).await.remove(0);
    assert_eq!(line["limit"], "otp.24-56", "{line}");
    let metrics = gateway.metrics().await;
    for (limit, refused) in NAMES.into_iter().zip([0.0, 1.0, 0.0]) {
        let sum = metrics.sum("sluicegate_limit_refused_total", &[("limit", limit)]);
        assert_eq!(sum, refused, "{limit}");
    }
    let status = gateway.status().await;
    let limits = status["limits"].as_array().unwrap();
    for name in NAMES {
        assert!(limits.iter().any(|limit| limit["name"] == name), "{status}");
    }
    // Any address of the network looks it up.
    let key = gateway
        .admin(get("/limits/otp.24-56/keys?value=203.0.113.99"))
        .await;
    assert_eq!(key.json()["rates"][0]["remaining"], 0, "{}", key.text());
}

#[tokio::test]
async fn a_reload_keeps_the_counts_of_every_level() {
    // Goal: C4 for levels. Method: an edit of the counts, a level that is added, and one that is taken out, with a client that has used
    // some of each; in the end another client of the network still meets what the level counted.
    let mut gateway = Gateway::start(LEVELS).await;
    assert_eq!(left(&answer(&gateway, "203.0.113.1").await), [1, 2, 3]);
    gateway
        .reload(&LEVELS.replace("[\"3 per 1h\"]", "[\"9 per 1h\"]"))
        .await;
    assert_eq!(left(&answer(&gateway, "203.0.113.1").await), [0, 7, 2]);
    let more = LEVELS.replace("prefixes = {", "prefixes = { \"/8,/32\" = [\"8 per 1h\"],");
    gateway.reload(&more).await;
    let admitted = answer(&gateway, "203.0.113.2").await;
    assert_eq!(
        (left(&admitted), admitted.remaining("otp.8-32")),
        ([1, 0, 1], 7)
    );
    gateway
        .reload(&LEVELS.replace("\"/24,/56\" = [\"3 per 1h\"]", ""))
        .await;
    let admitted = answer(&gateway, "203.0.113.3").await;
    assert_eq!(
        (admitted.remaining("otp"), admitted.remaining("otp.16-48")),
        (1, 0)
    );
    assert_eq!(answer(&gateway, "203.0.113.4").await.status, 429);
}
